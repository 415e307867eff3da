// Package atomicfile replaces small files so that a reader finds the old or the new one whole, at any moment
// and after any crash.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Write makes text the content of the file at path, durably. It writes to a hidden file beside it first,
// whose name ends in ".tmp"; a killed writer leaves that behind.
func Write(path, text string, mode fs.FileMode) error { return write(path, text, mode, nil) }

// Rewrite is Write for a file that exists, or for the one that a symbolic link names. Its mode and its owner stay.
func Rewrite(path, text string) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	was, err := os.Stat(path)
	if err != nil {
		return err
	}
	return write(path, text, was.Mode().Perm(), was)
}

func write(path, text string, mode fs.FileMode, owner fs.FileInfo) error {
	dir, name := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	f, err := os.CreateTemp(dir, hidden(name)+".*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already when all went well
	_, err = f.WriteString(text)
	if err == nil && owner != nil { // at no moment it belongs to another, or has a wider mode
		err = chownLike(f, owner)
	}
	if err == nil && runtime.GOOS != "windows" {
		err = f.Chmod(mode)
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := Replace(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(dir)
}

// Replace renames a finished file to path, which may exist, unless it is a device, a pipe or a socket there: whoever names /dev/null
// wants no file there, and root would get one for all programs of the machine.
func Replace(finished, path string) error {
	if was, err := os.Lstat(path); err == nil && was.Mode()&(fs.ModeDevice|fs.ModeNamedPipe|fs.ModeSocket) != 0 {
		return fmt.Errorf("replace %s: it is a device, a pipe or a socket; name a file", path)
	}
	return os.Rename(finished, path)
}

func hidden(name string) string {
	if len(name) > 0 && name[0] == '.' {
		return name
	}
	return "." + name
}

// SyncDir makes the names in a directory durable, such as after a rename. Windows has no such call, and needs
// none.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
