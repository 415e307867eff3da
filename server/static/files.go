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

// An update is the next content of a file. As long as what is written to it
// stands in the file already, it writes nothing, and a file that holds all of
// it is not touched. Otherwise the new file comes in place of the old one whole
// and durably, with its mode, or 0644; a symbolic link is replaced, not
// followed. Whoever is killed meanwhile leaves the old file, and a hidden one
// ending in .tmp that the next writer takes away. Two processes must not update
// one file at once.
type update struct {
	path string
	like os.FileInfo // whose mode and time it is to have; nil for its own
	tidy func() error

	old  *os.File    // nil if there is none
	was  os.FileInfo // of old, when it was opened
	same int64       // bytes written that stand in old; counted while next is empty
	tmp  *os.File    // open while it is being written
	next string      // its name; empty while all that was written stands in old
	buf  []byte
}

// begin begins an update of the file at path.
func begin(path string) (*update, error) {
	u := &update{path: path}
	u.tidy = func() error {
		name := filepath.Base(path)
		return tidy(filepath.Dir(path), func(s string) bool { return s == name })
	}
	info, err := os.Stat(path) // before it is opened: to open a pipe may take for ever
	switch {
	case errors.Is(err, os.ErrNotExist):
		return u, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("replace %s: it is no regular file: move it away", path)
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

// drop ends an update, and forgets what was not renamed. It may be called again.
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

// part creates the new file, with what it has in common with the old one.
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
		err = errors.New("somebody else is writing it: try again")
	}
	return err
}

// tidy takes away what killed writers of the files so named left in dir.
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
				os.Remove(p) // if not, the next writer tries again
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

// commit puts the new content in place, and reports whether it had to.
func (u *update) commit() (wrote bool, err error) {
	defer u.drop()
	if wrote, err = u.ready(); wrote && err == nil {
		err = u.rename()
	}
	return wrote && err == nil, err
}

// ready makes the new file all that it is to be, but for its name. It returns
// false if the old one is that already. Afterwards no file is open.
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
			return errors.New("somebody else is writing it: try again")
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

// liken gives the file that stays the mode and the time that it is to have.
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

// stampTime gives the new file a later second than the old one has: web
// servers answer conditional requests, and some make entity tags, by it.
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

// rename puts a file that is ready in place, durably.
func (u *update) rename() error {
	if err := u.place(); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(u.path))
}

func (u *update) place() error {
	if err := os.Rename(u.next, u.path); err != nil {
		return err
	}
	u.next = ""
	return nil
}
