//go:build linux || darwin || freebsd

package atomicfile

import (
	"os"
	"syscall"
)

// space returns the free space for unprivileged users on the file system of dir, and its size, in bytes.
func space(dir string) (free, size int64, known bool) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, false
	}
	block := int64(st.Bsize)
	return int64(st.Bavail) * block, int64(st.Blocks) * block, true
}

// chownLike gives a file the owner and the group of another.
func chownLike(f *os.File, was os.FileInfo) error {
	if sys, ok := was.Sys().(*syscall.Stat_t); ok {
		return f.Chown(int(sys.Uid), int(sys.Gid))
	}
	return nil
}
