//go:build linux || darwin

package server

import (
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// openQuietly keeps an open from waiting for the other end of a pipe.
const (
	openQuietly = os.O_RDONLY | unix.O_NONBLOCK
	openDir     = os.O_RDONLY | unix.O_NONBLOCK | unix.O_DIRECTORY
)

// readDir calls f with the names in an open directory, with their types, some
// at a time. The os.File of an os.Root would ask for more, file by file.
func readDir(dir *os.File, f func([]fs.DirEntry) error) error {
	fd, err := unix.FcntlInt(dir.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "readdir", Path: dir.Name(), Err: err}
	}
	d := os.NewFile(uintptr(fd), dir.Name())
	defer d.Close()
	return readSome(d, f)
}

// statAt describes what has the given name in an open directory. Following a
// link it may leave the docroot: whoever asks for that knows where it leads.
func statAt(dir *os.File, name string, follow bool) (s fileStat, err error) {
	flags := unix.AT_SYMLINK_NOFOLLOW
	if follow {
		flags = 0
	}
	var st unix.Stat_t
	for {
		err = unix.Fstatat(int(dir.Fd()), name, &st, flags)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return s, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return statOf(&st), nil
}

// lstat describes what stands at a path.
func lstat(path string) (s fileStat, err error) {
	var st unix.Stat_t
	for {
		err = unix.Lstat(path, &st)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return s, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	return statOf(&st), nil
}

// statOpen describes an open file.
func statOpen(f *os.File) (s fileStat, err error) {
	var st unix.Stat_t
	for {
		err = unix.Fstat(int(f.Fd()), &st)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return s, &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	return statOf(&st), nil
}

func statOf(st *unix.Stat_t) fileStat {
	s := fileStat{size: st.Size, links: uint64(st.Nlink), dev: uint64(st.Dev), ino: st.Ino,
		mtime: time.Unix(st.Mtim.Unix()), ctime: time.Unix(st.Ctim.Unix())}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		s.mode = fs.ModeDir
	case unix.S_IFLNK:
		s.mode = fs.ModeSymlink
	default:
		s.mode = fs.ModeIrregular
	}
	return s
}
