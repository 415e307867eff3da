package atomicfile

// The default reserve of a file system for others: a twentieth of it, but not less nor more than this, in
// bytes.
const (
	leastReserve = 64 << 20
	mostReserve  = 1 << 30
)

// Spare returns how many bytes may be written below dir until only a reserve is free, for more important
// writers such as a journal. It is below zero if less than that is free already. A reserve of zero means a
// twentieth of the file system, at least 64 MiB and at most 1 GiB. If the free space is unknown, known is
// false.
func Spare(dir string, reserve int64) (spare int64, known bool) {
	free, size, known := space(dir)
	if !known {
		return 0, false
	}
	if reserve <= 0 {
		reserve = min(max(size/20, leastReserve), mostReserve)
	}
	return free - reserve, true
}
