package stat

import (
	"os"

	"golang.org/x/sys/unix"
)

// ExactNames reports whether a file in an open directory can be opened by its very name alone: upper case is not taken for
// lower case, nor one way to encode a letter for another. It is false where that is not known.
func ExactNames(dir *os.File) bool {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &st); err != nil {
		return false
	}
	switch uint32(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.F2FS_SUPER_MAGIC, unix.OVERLAYFS_SUPER_MAGIC:
	default: // those of other systems, and of other machines, may have any names
		return false
	}
	// Some of these can be told to fold case, directory by directory.
	const foldsCase = 0x40000000 // FS_CASEFOLD_FL
	flags, err := unix.IoctlGetInt(int(dir.Fd()), unix.FS_IOC_GETFLAGS)
	return err != nil || flags&foldsCase == 0
}
