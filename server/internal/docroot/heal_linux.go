package docroot

import (
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setTime sets the mtime of an open file, and leaves its access time alone. It is futimens(3): the path may
// lead to another file by now.
func setTime(f *os.File, _ string, to time.Time) error {
	mtime, err := unix.TimeToTimespec(to)
	if err != nil {
		return err
	}
	times := [2]unix.Timespec{{Nsec: unix.UTIME_OMIT}, mtime}
	for {
		_, _, e := unix.Syscall6(unix.SYS_UTIMENSAT, f.Fd(), 0, uintptr(unsafe.Pointer(&times)), 0, 0, 0)
		switch e {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return &os.PathError{Op: "futimens", Path: f.Name(), Err: e}
		}
	}
}
