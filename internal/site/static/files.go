package static

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/atomicfile"
)

// An update is the next content of a file. While the content written to it equals the old file's, nothing is
// written to disk, and a file that stays the same is not touched. Otherwise the new file replaces the old one
// whole and durably, with its mode, or 0644; a symbolic link is replaced, not followed. A kill meanwhile
// leaves the old file, and a hidden one ending in .tmp that the next writer removes. Two processes must not
// update one file at once.
type update struct {
	path string
	like os.FileInfo // whose mode and mtime the file gets; nil for its own
	tidy func() error

	old  *os.File    // nil if there is no old file
	was  os.FileInfo // of old, when it was opened
	same int64       // leading bytes equal to old; counted while next is empty
	tmp  *os.File    // open while it is being written
	next string      // name of tmp; empty while all bytes so far equal old
	buf  []byte
}

// begin begins an update of the file at path.
func begin(path string) (*update, error) {
	u := &update{path: path}
	u.tidy = func() error {
		name := filepath.Base(path)
		return tidy(filepath.Dir(path), func(s string) bool { return s == name })
	}
	info, err := os.Stat(path) // before opening, since opening a pipe may block forever
	switch {
	case errors.Is(err, os.ErrNotExist):
		return u, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("replace %s: not a regular file: move it away", path)
	}
	if u.old, err = os.Open(path); err != nil {
		return nil, err
	}
	if u.was, err = u.old.Stat(); err != nil {
		u.drop()
		return nil, err
	}
	return u, nil
}

// drop ends an update, and removes a file that was not renamed. It may be called again.
func (u *update) drop() {
	for _, f := range []**os.File{&u.tmp, &u.old} {
		if *f != nil {
			(*f).Close()
			*f = nil
		}
	}
	if u.next != "" {
		os.Remove(u.next)
		u.next = ""
	}
}

// Write implements io.Writer.
func (u *update) Write(p []byte) (int, error) {
	if u.tmp == nil {
		if u.stands(p) {
			u.same += int64(len(p))
			return len(p), nil
		}
		if err := u.part(); err != nil {
			return 0, fmt.Errorf("replace %s: %w", u.path, err)
		}
	}
	n, err := u.tmp.Write(p)
	if err != nil {
		err = fmt.Errorf("replace %s: %w", u.path, err)
	}
	return n, err
}

// stands reports whether p comes next in the old file.
func (u *update) stands(p []byte) bool {
	if u.old == nil {
		return false
	}
	if cap(u.buf) < len(p) {
		u.buf = make([]byte, len(p))
	}
	b := u.buf[:len(p)]
	n, _ := u.old.ReadAt(b, u.same)
	return n == len(p) && bytes.Equal(b, p)
}

// part creates the new file, with the bytes that it shares with the old one.
func (u *update) part() error {
	if err := u.tidy(); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(u.path), "."+filepath.Base(u.path)+".*.tmp")
	if err != nil {
		return err
	}
	u.tmp, u.next = tmp, tmp.Name()
	if u.same == 0 {
		return nil
	}
	n, err := io.Copy(tmp, io.NewSectionReader(u.old, 0, u.same))
	if err == nil && n < u.same {
		err = errors.New("another program is writing it: try again")
	}
	return err
}

// tidy removes temporary files in dir that killed writers of our files left.
func tidy(dir string, ours func(name string) bool) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		names, err := d.Readdirnames(1024)
		for _, n := range names {
			s, hidden := strings.CutPrefix(n, ".")
			s, tmp := strings.CutSuffix(s, ".tmp")
			i := strings.LastIndexByte(s, '.')
			if !hidden || !tmp || i < 0 || !ours(s[:i]) {
				continue
			}
			p := filepath.Join(dir, n)
			if info, err := os.Lstat(p); err == nil && info.Mode().IsRegular() {
				os.Remove(p) // on failure the next writer tries again
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// commit puts the new content in place, and reports whether that was necessary.
func (u *update) commit() (wrote bool, err error) {
	defer u.drop()
	if wrote, err = u.ready(); wrote && err == nil {
		err = u.rename()
	}
	return wrote && err == nil, err
}

// ready completes the new file except for its name. It returns false if the old one is the same. Afterwards
// no file is open.
func (u *update) ready() (bool, error) {
	err := u.finish()
	for _, f := range []**os.File{&u.tmp, &u.old} {
		if *f != nil {
			if e := (*f).Close(); err == nil {
				err = e
			}
			*f = nil
		}
	}
	u.buf = nil // others of the set may follow
	if err != nil {
		return false, fmt.Errorf("replace %s: %w", u.path, err)
	}
	return u.next != "", nil
}

func (u *update) finish() error {
	if u.old != nil {
		info, err := u.old.Stat()
		if err != nil {
			return err
		}
		switch {
		case u.tmp == nil && info.Size() == u.same:
			return u.liken(info)
		case info.Size() != u.was.Size() || !info.ModTime().Equal(u.was.ModTime()):
			return errors.New("another program is writing it: try again")
		}
	}
	if u.tmp == nil { // shorter than the old one, or empty
		if err := u.part(); err != nil {
			return err
		}
	}
	mode := os.FileMode(0o644)
	switch {
	case u.like != nil:
		mode = u.like.Mode().Perm()
	case u.was != nil:
		mode = u.was.Mode().Perm()
	}
	if err := u.tmp.Chmod(mode); err != nil && runtime.GOOS != "windows" {
		return err
	}
	if err := u.stampTime(); err != nil {
		return err
	}
	return u.tmp.Sync()
}

// liken sets the mode and the mtime of an unchanged file.
func (u *update) liken(info os.FileInfo) error {
	if u.like == nil {
		return nil
	}
	if info.Mode().Perm() != u.like.Mode().Perm() && runtime.GOOS != "windows" {
		if err := os.Chmod(u.path, u.like.Mode().Perm()); err != nil {
			return err
		}
	}
	if info.ModTime().Equal(u.like.ModTime()) {
		return nil
	}
	return os.Chtimes(u.path, time.Time{}, u.like.ModTime())
}

// stampTime gives the new file a later second than the old one has: web servers evaluate conditional requests
// by it, and some derive ETags from it.
func (u *update) stampTime() error {
	switch {
	case u.like != nil:
		return os.Chtimes(u.next, time.Time{}, u.like.ModTime())
	case u.was == nil:
		return nil
	}
	info, err := u.tmp.Stat()
	if err != nil {
		return err
	}
	if o := u.was.ModTime().Truncate(time.Second); !info.ModTime().Truncate(time.Second).After(o) {
		return os.Chtimes(u.next, time.Time{}, o.Add(time.Second))
	}
	return nil
}

// rename puts a completed file in place, durably.
func (u *update) rename() error {
	if err := u.place(); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(u.path))
}

func (u *update) place() error {
	if err := atomicfile.Replace(u.next, u.path); err != nil {
		return err
	}
	u.next = ""
	return nil
}
