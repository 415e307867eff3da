//go:build !unix

package crawl_test

import "os"

// killSelf ends the process without any clean-up.
func killSelf() { os.Exit(137) }

// fillDisk has no implementation here.
func fillDisk() {}
