//go:build !linux && !darwin

package stat

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Quietly and Directory are flags for opening a path of unknown type, and a directory.
const (
	Quietly   = os.O_RDONLY
	Directory = os.O_RDONLY
)

// ReadDir calls f with the entries of an open directory, some at a time.
func ReadDir(dir *os.File, f func([]fs.DirEntry) error) error { return readSome(dir, f) }

// At describes the given name in an open directory. There is neither an inode nor a ctime here: size and
// mtime must suffice.
func At(dir *os.File, name string, follow bool) (File, error) {
	stat := os.Lstat
	if follow {
		stat = os.Stat
	}
	fi, err := stat(filepath.Join(dir.Name(), name))
	if err != nil {
		return File{}, err
	}
	return statOf(fi), nil
}

// Path describes the file at a path.
func Path(path string) (File, error) {
	fi, err := os.Lstat(path)
	if err != nil {
		return File{}, err
	}
	return statOf(fi), nil
}

// Of describes an open file.
func Of(f *os.File) (File, error) {
	fi, err := f.Stat()
	if err != nil {
		return File{}, err
	}
	return statOf(fi), nil
}

func statOf(fi fs.FileInfo) File {
	return File{Mode: fi.Mode().Type(), Size: fi.Size(), Modified: fi.ModTime(), Links: 1}
}
