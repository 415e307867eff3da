package collection

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/internal/filename"
)

// Names in the directory of a mirror that belong to no page: no natural name begins with a dot, so no site
// can reach them.
const (
	ownDir   = filename.Own
	tmpDir   = ownDir + "/tmp"
	otherDir = ownDir + "/other" // for pages without a natural name, see filename.Other
	siteFile = ownDir + "/site"
	lockFile = ownDir + "/lock"
)

// An op moves a file of tmpDir to a name; with an empty temp it removes the file at the name. There is at
// most one op for a name, so ops may be repeated.
type op struct{ name, temp string }

// A tree is the directory of a mirror. No operation leaves it or follows a symbolic link.
type tree struct {
	root  *os.Root
	held  *os.File      // the file that is locked, nil before hold
	run   string        // prefix of the names in tmpDir: an op of an earlier process never means a new file
	count atomic.Uint64 // number of names made
	each  func() error  // called before each operation, if not nil: tests crash there
}

func openTree(dir string) (*tree, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &tree{root: root, run: rand.Text()[:8]}, nil
}

func (t *tree) close() error {
	var err error
	if t.held != nil {
		err = t.held.Close()
	}
	return errors.Join(err, t.root.Close())
}

// hold locks the directory for this process. The lock of the state is not enough: a second process with
// another state would remove files that the first is about to move.
func (t *tree) hold() error {
	if err := t.mkdir(ownDir, map[string]bool{}); err != nil {
		return err
	}
	f, err := t.root.OpenFile(lockFile, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	t.held = f
	return boltfile.Lock(f)
}

// foreign reports whether the directory contains anything but ownDir.
func (t *tree) foreign() bool {
	d, err := t.root.Open(".")
	if err != nil {
		return true
	}
	defer d.Close()
	names, err := d.Readdirnames(2)
	return err != nil && err != io.EOF || len(names) > 1 || len(names) == 1 && names[0] != ownDir
}

// clean creates the mirror's own directories, and empties tmpDir after a killed process.
func (t *tree) clean() error {
	made := map[string]bool{}
	if err := errors.Join(t.mkdir(tmpDir, made), t.mkdir(otherDir, made)); err != nil {
		return err
	}
	d, err := t.root.Open(tmpDir)
	if err != nil {
		return err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	for _, name := range names {
		if err := t.root.RemoveAll(tmpDir + "/" + name); err != nil {
			return err
		}
	}
	return err
}

// probe finds out which names the file system accepts.
func (t *tree) probe() (fold, portable bool) {
	name, f, err := t.create()
	if err != nil {
		return false, false
	}
	f.Close()
	upper := tmpDir + "/PROBE"
	if err := t.root.Rename(name, upper); err != nil {
		t.discard(name)
		return false, false
	}
	defer t.discard(upper)
	_, err = t.root.Lstat(tmpDir + "/probe")
	fold = err == nil
	odd := tmpDir + "/probe \\:*?\"<>|"
	if f, err := t.root.OpenFile(odd, os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		portable = true
	} else {
		f.Close()
		t.discard(odd)
	}
	return fold, portable
}

// temp returns a new name in tmpDir.
func (t *tree) temp() string {
	return tmpDir + "/" + t.run + "-" + strconv.FormatUint(t.count.Add(1), 10)
}

func (t *tree) create() (string, *os.File, error) {
	name := t.temp()
	f, err := t.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	return name, f, err
}

// discard removes a file of tmpDir. If that fails the next clean does it.
func (t *tree) discard(name string) { _ = t.root.Remove(name) }

// link gives a file a second name in tmpDir, under which it outlives the page.
// It returns "" if there is no such file.
func (t *tree) link(name string) (string, error) {
	info, err := t.lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return "", nil
	}
	temp := t.temp()
	if err := t.root.Link(name, temp); err == nil {
		return temp, nil
	}
	return temp, t.copy(name, temp) // a file system without hard links
}

func (t *tree) copy(from, to string) (err error) {
	src, err := t.root.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := t.root.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Sync(), dst.Close())
}

// vacant reports whether a file can be put at a name that no page has. A file there without a page is
// replaced, and so is a directory if all its files are about to be removed.
func (t *tree) vacant(name string, going func(name string) bool) bool {
	info, err := t.lstat(name)
	if err != nil || !info.IsDir() {
		return err == nil || absent(err)
	}
	err = fs.WalkDir(t.root.FS(), name, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !going(p) {
			err = fs.ErrExist
		}
		return err
	})
	return err == nil
}

// do runs the operations, removals first to make room, and makes them durable.
func (t *tree) do(ops []op) error {
	touched, made := map[string]bool{}, map[string]bool{}
	for _, removing := range []bool{true, false} {
		for _, o := range ops {
			if (o.temp == "") != removing {
				continue
			}
			if t.each != nil {
				if err := t.each(); err != nil {
					return err
				}
			}
			touched[path.Dir(o.name)] = true
			if err := t.one(o, made); err != nil {
				return fmt.Errorf("put file %s in its place: %w", o.name, err)
			}
		}
	}
	for dir := range made {
		touched[path.Dir(dir)] = true
	}
	for dir := range touched {
		if err := t.sync(dir); err != nil {
			return err
		}
	}
	return nil
}

func (t *tree) one(o op, made map[string]bool) error {
	if o.temp == "" {
		if info, err := t.lstat(o.name); err == nil && !info.IsDir() {
			if err := t.root.Remove(o.name); err != nil && !absent(err) {
				return err
			}
		}
		t.prune(path.Dir(o.name), made)
		return nil
	}
	if _, err := t.root.Lstat(o.temp); errors.Is(err, fs.ErrNotExist) {
		return nil // done before a crash
	}
	if err := t.mkdir(path.Dir(o.name), made); err != nil {
		return err
	}
	if info, err := t.root.Lstat(o.name); err == nil && info.IsDir() {
		t.removeEmpty(o.name)
	}
	return t.root.Rename(o.temp, o.name)
}

// lstat returns the FileInfo of a name without following links, at its end or on the way. A name behind a
// link or a file does not exist.
func (t *tree) lstat(name string) (fs.FileInfo, error) {
	for i, c := range name {
		if c != '/' {
			continue
		}
		if info, err := t.root.Lstat(name[:i]); err != nil {
			return nil, err
		} else if !info.IsDir() {
			return nil, fs.ErrNotExist
		}
	}
	return t.root.Lstat(name)
}

// absent reports whether an error means that a name does not exist.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// prune removes empty directories, up to the root.
func (t *tree) prune(dir string, made map[string]bool) {
	for ; dir != "." && !strings.HasPrefix(dir, ownDir); dir = path.Dir(dir) {
		if info, err := t.lstat(dir); err != nil || !info.IsDir() || t.root.Remove(dir) != nil {
			return
		}
		delete(made, dir)
	}
}

// removeEmpty removes a directory that contains only directories.
func (t *tree) removeEmpty(dir string) {
	entries, err := fs.ReadDir(t.root.FS(), dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() {
			return
		}
		t.removeEmpty(dir + "/" + e.Name())
	}
	_ = t.root.Remove(dir)
}

// mkdir makes a directory and its parents. It removes a link or a file without a page that stands in the
// way. made has the directories known to be good.
func (t *tree) mkdir(dir string, made map[string]bool) error {
	if dir == "." || made[dir] {
		return nil
	}
	if err := t.mkdir(path.Dir(dir), made); err != nil {
		return err
	}
	info, err := t.root.Lstat(dir)
	if err == nil && !info.IsDir() {
		if err := t.root.Remove(dir); err != nil {
			return err
		}
	}
	if err != nil || !info.IsDir() {
		if err := t.root.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	made[dir] = true
	return nil
}

// sync makes the names in a directory durable, if the system can.
func (t *tree) sync(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := t.root.Open(dir)
	if absent(err) {
		return nil // pruned
	} else if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}

// walk calls fn for every file of a page: all but directories, and in ownDir only those in otherDir. The
// state may be in ownDir too.
func (t *tree) walk(fn func(name string) error) error {
	return fs.WalkDir(t.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !d.IsDir():
			if path.Dir(name) != ownDir {
				return fn(name)
			}
		case path.Dir(name) == ownDir && name != otherDir:
			return fs.SkipDir
		}
		return nil
	})
}
