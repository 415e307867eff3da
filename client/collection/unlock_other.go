//go:build !unix || aix || solaris

package collection

import "os"

// lock takes a file for this process alone. Here only the state is locked.
func lock(*os.File) error { return nil }

// unlock does nothing: here closing the file is enough, or all there is.
func unlock(*os.File) {}
