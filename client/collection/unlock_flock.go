//go:build unix && !aix && !solaris

package collection

import (
	"os"
	"syscall"
)

// unlock gives up the lock of a file that bbolt failed on with a panic. To
// close the file is not enough: bbolt's mapping of it lives on, and the lock
// with it.
func unlock(f *os.File) { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
