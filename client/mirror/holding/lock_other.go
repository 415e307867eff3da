//go:build !unix || aix || solaris

package holding

import "os"

// lock takes a file for this process alone. Here only the state is locked.
func lock(*os.File) error { return nil }
