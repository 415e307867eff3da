// Package filetree is a directory of plain files that changes in two steps: new files are written under temporary
// names, and then moved to their names. After a crash the moves are repeated.
package filetree

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/internal/filename"
)

// Names in the directory of a mirror that belong to no page: no natural name begins with a dot, so no site
// can reach them.
const (
	ownDir   = filename.Own
	TempDir  = ownDir + "/tmp"
	OtherDir = ownDir + "/other" // for pages without a natural name, see filename.Other
	SiteFile = ownDir + "/site"
	lockFile = ownDir + "/lock"
)

// An Op moves a file of TempDir to a name; with an empty temp it removes the file at the name. There is at
// most one op for a name, so Ops may be repeated.
type Op struct{ Name, Temp string }

// A Tree is the directory of a mirror. No operation leaves it or follows a symbolic link.
type Tree struct {
	root    top
	held    *os.File // the file that is locked, nil before Lock
	temps   temps
	touched map[string]bool // directories whose names have changed since the last Sync
	Each    func() error    // called before each operation, if not nil: tests crash there
}

// A top is the directory itself, open for os.Root and for system calls.
type top struct {
	*os.Root
	file *os.File
}

// A temps makes names in TempDir.
type temps struct {
	run   string        // their prefix: an Op of an earlier process never means a new file
	count atomic.Uint64 // number of names made
}

// Open opens a directory, and makes it if there is none.
func Open(dir string) (*Tree, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	file, err := root.Open(".")
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &Tree{root: top{root, file}, temps: temps{run: rand.Text()[:8]}, touched: map[string]bool{}}, nil
}

// Close unlocks the directory.
func (t *Tree) Close() error {
	var err error
	if t.held != nil {
		err = t.held.Close()
	}
	return errors.Join(err, t.root.file.Close(), t.root.Close())
}

// Lock locks the directory for this process. The lock of the state is not enough: a second process with
// another state would remove files that the first is about to move.
func (t *Tree) Lock() error {
	if err := t.mkdir(ownDir); err != nil {
		return err
	}
	f, err := t.root.OpenFile(lockFile, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	t.held = f
	return boltfile.Lock(f)
}

// Foreign reports whether the directory contains anything but ownDir.
func (t *Tree) Foreign() bool {
	list, err := fs.ReadDir(t.root.FS(), ".")
	return err != nil || slices.ContainsFunc(list, func(e fs.DirEntry) bool { return e.Name() != ownDir })
}

// Clean creates TempDir and OtherDir, and empties TempDir after a killed process.
func (t *Tree) Clean() error {
	return errors.Join(t.mkdir(TempDir), t.root.RemoveAll(TempDir), t.mkdir(TempDir), t.mkdir(OtherDir))
}

// Probe finds out whether the file system ignores case (fold), and whether it accepts only portable names.
func (t *Tree) Probe() (fold, portable bool) {
	plain, odd := TempDir+"/probe", TempDir+"/probe \\:*?\"<>|"
	if t.root.WriteFile(plain, nil, 0o644) != nil {
		return false, false
	}
	defer t.Discard(plain)
	defer t.Discard(odd)
	_, err := t.root.Lstat(TempDir + "/PROBE")
	return err == nil, t.root.WriteFile(odd, nil, 0o644) != nil
}

// next returns a new name.
func (t *temps) next() string {
	return TempDir + "/" + t.run + "-" + strconv.FormatUint(t.count.Add(1), 10)
}

// Create creates a file under a new name in TempDir. The file's own name has the directory of the mirror before it.
func (t *Tree) Create() (*os.File, error) { return t.create(t.temps.next()) }

func (t *Tree) create(name string) (*os.File, error) {
	if f := t.root.create(name); f != nil {
		return f, nil
	}
	return t.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
}

// Open opens a file for reading.
func (t *Tree) Open(name string) (*os.File, error) { return t.root.Open(name) }

// WriteFile writes a file in ownDir. After an error the one before is still there.
func (t *Tree) WriteFile(name string, b []byte) error {
	temp := t.temps.next()
	f, err := t.create(temp)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err := errors.Join(err, t.Sync([]*os.File{f})); err != nil {
		return err
	}
	return t.root.Rename(temp, name)
}

// Discard removes a file of TempDir. If that fails the next Clean does it.
func (t *Tree) Discard(name string) { _ = t.root.Remove(name) }

// Link gives a file a second name in TempDir, under which it outlives the page.
// It returns "" if there is no such file.
func (t *Tree) Link(name string) (string, error) {
	info, err := t.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return "", nil
	}
	temp := t.temps.next()
	if err := t.root.Link(name, temp); err == nil {
		t.touched[TempDir] = true
		return temp, nil
	}
	return temp, t.copy(name, temp) // a file system without hard links
}

func (t *Tree) copy(from, to string) (err error) {
	src, err := t.root.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := t.create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Sync(), dst.Close())
}

// Vacant reports whether a file can be put at a name that no page has. A file there without a page is
// replaced, and so is a directory if all its files are about to be removed.
func (t *Tree) Vacant(name string, going func(name string) bool) bool {
	if t.root.lacks(name) {
		return true
	}
	info, err := t.Lstat(name)
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

// Do runs the operations, removals first to make room. Until the next Sync they may have to be repeated after a crash.
func (t *Tree) Do(ops []Op) error {
	for _, removing := range []bool{true, false} {
		for _, o := range ops {
			if (o.Temp == "") != removing {
				continue
			}
			if t.Each != nil {
				if err := t.Each(); err != nil {
					return err
				}
			}
			t.touched[path.Dir(o.Name)] = true
			if !removing && t.root.move(o) {
				continue
			}
			if err := t.one(o); err != nil {
				return fmt.Errorf("update file %s: %w", o.Name, err)
			}
		}
	}
	return nil
}

// Sync makes files durable and closes them, and makes durable what Do has done. If they are more than a few, it does so
// for everything on the file system where it can, since many files then cost as much as one.
func (t *Tree) Sync(files []*os.File) (err error) {
	defer func() {
		if err == nil {
			clear(t.touched)
		}
	}()
	const few = 8 // are synced at once: the disk takes about the time of one
	n := len(files) + len(t.touched)
	if n > few {
		if all, err := t.root.sync(); all {
			for _, f := range files {
				err = errors.Join(err, f.Close())
			}
			return err
		}
	}
	var wg sync.WaitGroup
	gate, errs := make(chan struct{}, few), make(chan error, n)
	each := func(sync func() error) {
		gate <- struct{}{}
		wg.Go(func() {
			errs <- sync()
			<-gate
		})
	}
	for _, f := range files {
		each(func() error { return errors.Join(f.Sync(), f.Close()) })
	}
	for dir := range t.touched {
		each(func() error { return t.sync(dir) })
	}
	wg.Wait()
	close(errs)
	for failed := range errs {
		err = errors.Join(err, failed)
	}
	return err
}

// sync makes the names in a directory durable, if the system can.
func (t *Tree) sync(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	if info, err := t.Lstat(dir); absent(err) || err == nil && !info.IsDir() {
		return nil // pruned, or somebody has put something else there
	}
	d, err := t.root.Open(dir)
	if absent(err) {
		return nil
	} else if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); !errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}

func (t *Tree) one(o Op) error {
	if o.Temp == "" {
		if info, err := t.Lstat(o.Name); err == nil && !info.IsDir() {
			if err := t.root.Remove(o.Name); err != nil && !absent(err) {
				return err
			}
		}
		t.prune(path.Dir(o.Name))
		return nil
	}
	if _, err := t.root.Lstat(o.Temp); errors.Is(err, fs.ErrNotExist) {
		return nil // done before a crash
	}
	if err := t.mkdir(path.Dir(o.Name)); err != nil {
		return err
	}
	if info, err := t.root.Lstat(o.Name); err == nil && info.IsDir() {
		if t.removeEmpty(o.Name); !t.Vacant(o.Name, func(string) bool { return false }) { // somebody has put files there: they stay beside the page
			if err := t.root.Rename(o.Name, o.Name+"~"+path.Base(t.temps.next())); err != nil {
				return err
			}
		}
	}
	return t.root.Rename(o.Temp, o.Name)
}

// Lstat returns the FileInfo of a name without following links, at its end or on the way. A name behind a
// link or a file does not exist. Each directory on the way is opened once: a hostile site has a thousand of them in a URL.
func (t *Tree) Lstat(name string) (fs.FileInfo, error) {
	for at := t.root.Root; ; {
		first, rest, more := strings.Cut(name, "/")
		info, err := at.Lstat(first)
		var next *os.Root
		switch {
		case err != nil || !more:
		case !info.IsDir():
			err = fs.ErrNotExist
		default:
			next, err = at.OpenRoot(first)
		}
		if at != t.root.Root {
			at.Close()
		}
		if next == nil {
			return info, err
		}
		at, name = next, rest
	}
}

// absent reports whether an error means that a name does not exist.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// prune removes empty directories, up to the root.
func (t *Tree) prune(dir string) {
	for ; dir != "." && !strings.HasPrefix(dir, ownDir); dir = path.Dir(dir) {
		if info, err := t.Lstat(dir); err != nil || !info.IsDir() || t.root.Remove(dir) != nil {
			return
		}
		t.touched[path.Dir(dir)] = true
	}
}

// removeEmpty removes a directory that contains only directories.
func (t *Tree) removeEmpty(dir string) {
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

// mkdir makes a directory and its parents. It removes a link or a file without a page that stands in the way.
func (t *Tree) mkdir(dir string) error {
	if dir == "." {
		return nil
	}
	if err := t.mkdir(path.Dir(dir)); err != nil {
		return err
	}
	info, err := t.root.Lstat(dir)
	if err == nil && info.IsDir() {
		return nil
	}
	if err == nil {
		err = t.root.Remove(dir)
	}
	if err == nil || absent(err) {
		t.touched[path.Dir(dir)] = true
		err = t.root.Mkdir(dir, 0o755)
	}
	return err
}

// Walk calls fn for every file of a page: all but directories, and in ownDir only those in OtherDir. The
// state may be in ownDir too.
func (t *Tree) Walk(fn func(name string) error) error {
	return fs.WalkDir(t.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !d.IsDir():
			if path.Dir(name) != ownDir {
				return fn(name)
			}
		case path.Dir(name) == ownDir && name != OtherDir:
			return fs.SkipDir
		}
		return nil
	})
}
