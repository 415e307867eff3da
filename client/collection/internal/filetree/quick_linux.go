package filetree

import (
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// What Linux does with fewer system calls than os.Root, which opens every directory on the way to a name, and than an
// fsync for each file. Whatever is unusual fails here without an error: then the caller goes the long way, which
// repairs it or returns the error.

// open opens a name, following no symbolic link. It returns -1 if it cannot.
func (t top) open(name string, flags, mode uint64) int {
	how := &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Mode: mode, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(int(t.file.Fd()), name, how)
	if err != nil {
		return -1
	}
	return fd
}

// create creates a file, and returns nil if it cannot.
func (t top) create(name string) *os.File {
	fd := t.open(name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_LARGEFILE, 0o644)
	if fd < 0 {
		return nil
	}
	return os.NewFile(uintptr(fd), t.Name()+"/"+name)
}

// lacks reports whether there is certainly nothing at a name.
func (t top) lacks(name string) bool {
	return absent(unix.Fstatat(int(t.file.Fd()), name, &unix.Stat_t{}, unix.AT_SYMLINK_NOFOLLOW))
}

// sync makes everything on the file system durable, also what other programs have written there, and reports whether that can be relied on:
// only on the file systems listed, and since Linux 5.8, before which syncfs does not return the errors of the disk. The test is for 5.9, which
// has close_range: there it refuses this range with EINVAL, and closes nothing.
func (t top) sync() (bool, error) {
	var st unix.Statfs_t
	if unix.Fstatfs(int(t.file.Fd()), &st) != nil || unix.CloseRange(1, 0, 0) != unix.EINVAL {
		return false, nil
	}
	switch st.Type {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC:
		return true, unix.Syncfs(int(t.file.Fd()))
	}
	return false, nil
}

// move moves a file from TempDir, and reports whether it did.
func (t top) move(o Op) bool {
	from, to := t.open(TempDir, unix.O_PATH|unix.O_DIRECTORY, 0), t.open(path.Dir(o.Name), unix.O_PATH|unix.O_DIRECTORY, 0)
	err := unix.Renameat(from, path.Base(o.Temp), to, path.Base(o.Name))
	for _, fd := range []int{from, to} {
		unix.Close(fd) // -1 is no file
	}
	return err == nil
}
