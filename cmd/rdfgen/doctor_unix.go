//go:build linux || darwin

package main

import (
	"os"
	"syscall"
)

// ownerOf returns the user that a file belongs to.
func ownerOf(path string) (uid uint32, ok bool) {
	st, err := os.Stat(path)
	if err != nil {
		return 0, false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return sys.Uid, true
}
