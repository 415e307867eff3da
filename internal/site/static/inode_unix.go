//go:build unix

package static

import (
	"os"
	"syscall"
)

// inode returns the inode number, which distinguishes a file from another that took its name.
func inode(info os.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino)
	}
	return 0
}
