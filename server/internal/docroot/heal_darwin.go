package docroot

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// setTime sets when an open file changed, to the microsecond, through the open
// file: the path may by now be that of another file.
func setTime(f *os.File, _ string, to time.Time) error {
	mtime, err := unix.TimeToTimespec(to)
	if err != nil {
		return err
	}
	// There is no way to leave alone when it was read.
	times := []unix.Timeval{unix.NsecToTimeval(time.Now().UnixNano()), unix.NsecToTimeval(unix.TimespecToNsec(mtime))}
	if err := unix.Futimes(int(f.Fd()), times); err != nil {
		return &os.PathError{Op: "futimes", Path: f.Name(), Err: err}
	}
	return nil
}
