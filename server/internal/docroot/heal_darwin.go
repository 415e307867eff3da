package docroot

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// setTime sets the mtime of an open file, to the microsecond, through the descriptor: the path may lead to
// another file by now.
func setTime(f *os.File, _ string, to time.Time) error {
	mtime, err := unix.TimeToTimespec(to)
	if err != nil {
		return err
	}
	// There is no way to leave the access time alone.
	times := []unix.Timeval{unix.NsecToTimeval(time.Now().UnixNano()), unix.NsecToTimeval(unix.TimespecToNsec(mtime))}
	if err := unix.Futimes(int(f.Fd()), times); err != nil {
		return &os.PathError{Op: "futimes", Path: f.Name(), Err: err}
	}
	return nil
}
