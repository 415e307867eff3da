package atomicfile

// What of a file system is left to others: a twentieth of it, but not less
// nor more than this, in bytes.
const (
	leastReserve = 64 << 20
	mostReserve  = 1 << 30
)

// Spare returns how many bytes may be written below dir until there is no more
// free than a reserve for those who need it more, as a journal does. It is
// below zero if there is less than that already. A reserve of zero means a
// twentieth of the file system, at least 64 MiB and at most 1 GiB. Where it is
// not known what is free, known is false.
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
