//go:build linux || darwin || freebsd

package atomicfile

import "syscall"

// space returns what is free for anybody on the file system of dir, and the
// size of that, in bytes.
func space(dir string) (free, size int64, known bool) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, false
	}
	block := int64(st.Bsize)
	return int64(st.Bavail) * block, int64(st.Blocks) * block, true
}
