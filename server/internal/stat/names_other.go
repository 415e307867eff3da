//go:build !linux

package stat

import "os"

// ExactNames reports whether a file in an open directory can be opened by its very name alone: upper case is not taken for
// lower case, nor one way to encode a letter for another. It is false where that is not known.
func ExactNames(*os.File) bool { return false }
