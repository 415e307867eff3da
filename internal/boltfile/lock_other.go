//go:build !unix || aix || solaris

package boltfile

import "os"

// Lock does nothing here: only the state is locked.
func Lock(*os.File) error { return nil }

// unlock does nothing: here closing the file releases its lock, if there is one.
func unlock(*os.File) {}
