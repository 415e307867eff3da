//go:build unix && !aix && !solaris

package holding

import (
	"errors"
	"os"
	"syscall"
)

// lock takes a file for this process alone until it is closed, or returns
// ErrHeld. A file system that has no locks locks nothing.
func lock(f *os.File) error {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrHeld
	}
	return nil
}
