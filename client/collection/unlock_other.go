//go:build !unix || aix || solaris

package collection

import "os"

// unlock does nothing: here closing the file is enough, or all there is.
func unlock(*os.File) {}
