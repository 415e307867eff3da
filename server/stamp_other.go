//go:build !linux && !darwin

package server

import (
	"io/fs"
	"os"
	"path/filepath"
)

const (
	openQuietly = os.O_RDONLY
	openDir     = os.O_RDONLY
)

// readDir calls f with the names in an open directory, with their types, some at a time.
func readDir(dir *os.File, f func([]fs.DirEntry) error) error { return readSome(dir, f) }

// statAt describes what has the given name in an open directory. There is
// neither an inode nor a ctime here: size and mtime must do.
func statAt(dir *os.File, name string, follow bool) (fileStat, error) {
	stat := os.Lstat
	if follow {
		stat = os.Stat
	}
	fi, err := stat(filepath.Join(dir.Name(), name))
	if err != nil {
		return fileStat{}, err
	}
	return statOf(fi), nil
}

// lstat describes what stands at a path.
func lstat(path string) (fileStat, error) {
	fi, err := os.Lstat(path)
	if err != nil {
		return fileStat{}, err
	}
	return statOf(fi), nil
}

// statOpen describes an open file.
func statOpen(f *os.File) (fileStat, error) {
	fi, err := f.Stat()
	if err != nil {
		return fileStat{}, err
	}
	return statOf(fi), nil
}

func statOf(fi fs.FileInfo) fileStat {
	return fileStat{mode: fi.Mode().Type(), size: fi.Size(), mtime: fi.ModTime(), links: 1}
}
