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

// freeBytes returns how much the user of this process may still write to a directory's file system.
func freeBytes(dir string) (uint64, bool) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return st.Bavail * uint64(st.Bsize), true
}

// chownLike gives a file the owner and the group that another had.
func chownLike(path string, was os.FileInfo) error {
	if sys, ok := was.Sys().(*syscall.Stat_t); ok {
		return os.Chown(path, int(sys.Uid), int(sys.Gid))
	}
	return nil
}
