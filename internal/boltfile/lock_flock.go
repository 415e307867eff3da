//go:build unix && !aix && !solaris

package boltfile

import (
	"errors"
	"os"
	"syscall"
)

// Lock takes a file for this process alone until it is closed, or returns
// ErrHeld. A file system that has no locks locks nothing.
func Lock(f *os.File) error {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrHeld
	}
	return nil
}

// unlock gives up the lock of a file that bbolt failed on with a panic. To
// close the file is not enough: bbolt's mapping of it lives on, and the lock
// with it.
func unlock(f *os.File) { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
