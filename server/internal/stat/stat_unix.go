//go:build linux || darwin

package stat

import (
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Quietly and Directory are flags for opening a path of unknown type, and a directory. Neither blocks on a pipe.
const (
	Quietly   = os.O_RDONLY | unix.O_NONBLOCK
	Directory = os.O_RDONLY | unix.O_DIRECTORY // with O_NONBLOCK, package os would try to poll it
)

// ReadDir calls f with the entries of an open directory, some at a time. The os.File of an os.Root would stat
// each of them.
func ReadDir(dir *os.File, f func([]fs.DirEntry) error) error {
	fd, err := unix.FcntlInt(dir.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "readdir", Path: dir.Name(), Err: err}
	}
	d := os.NewFile(uintptr(fd), dir.Name())
	defer d.Close()
	return readSome(d, f)
}

// At describes the given name in an open directory. Following a link it may leave the docroot: the caller
// must know where the link leads.
func At(dir *os.File, name string, follow bool) (s File, err error) {
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

// Path describes the file at a path.
func Path(path string) (s File, err error) {
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

// Of describes an open file.
func Of(f *os.File) (s File, err error) {
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

func statOf(st *unix.Stat_t) File {
	s := File{Size: st.Size, Links: uint64(st.Nlink), Dev: uint64(st.Dev), Ino: st.Ino,
		Modified: time.Unix(st.Mtim.Unix()), Changed: time.Unix(st.Ctim.Unix())}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		s.Mode = fs.ModeDir
	case unix.S_IFLNK:
		s.Mode = fs.ModeSymlink
	default:
		s.Mode = fs.ModeIrregular
	}
	return s
}
