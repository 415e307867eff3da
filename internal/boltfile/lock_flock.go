//go:build unix && !aix && !solaris

package boltfile

import (
	"errors"
	"os"
	"syscall"
)

// Lock locks a file for this process until the file is closed, or returns ErrHeld. On a file system without
// locks it does nothing.
func Lock(f *os.File) error {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrHeld
	}
	return nil
}

// unlock releases the lock of a file after a panic in bbolt. Closing the file is not enough: bbolt's mapping
// of it stays, and the lock with it.
func unlock(f *os.File) { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
