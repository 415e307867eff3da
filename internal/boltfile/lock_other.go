//go:build !unix || aix || solaris

package boltfile

import "os"

// Lock takes a file for this process alone. Here only the state is locked.
func Lock(*os.File) error { return nil }

// unlock does nothing: here closing the file is enough, or all there is.
func unlock(*os.File) {}
