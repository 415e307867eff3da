package holding

import (
	"crypto/rand"
	"encoding/json"
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
)

// An op is what a transaction asks of the files: put temp, a file of tmpDir,
// at name; with an empty temp, remove what stands at name. To do it twice is
// to do it once.
type op struct {
	name, temp string
}

func appendOp(b []byte, o op) []byte { return appendString(appendString(b, o.name), o.temp) }

func parseOp(b []byte) (op, error) {
	d := decoder{b: b}
	o := op{name: d.string(), temp: d.string()}
	if d.bad || len(d.b) != 0 || o.name == "" {
		return op{}, errors.New("malformed file operation")
	}
	return o, nil
}

// A siteMark says in the directory whose copy it is.
type siteMark struct {
	Base string `json:"base"`
	ID   string `json:"id"`  // of the state that fills it
	Run  string `json:"run"` // the last that did, see enter
}

// A tree is the directory of the copy. Nothing it does leads out of it, nor
// through a symbolic link.
type tree struct {
	root  *os.Root
	held  *os.File      // the file that is locked, nil before hold
	run   string        // begins the names in tmpDir: an op of a process that is gone never means a new file
	temps atomic.Uint64 // how many names there have been
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

// hold makes the directory this process's own: a state elsewhere is no hindrance
// to a second process, which would clear away what the first is about to place.
func (t *tree) hold() error {
	if err := t.mkdir(ownDir, map[string]bool{}); err != nil {
		return err
	}
	f, err := t.root.OpenFile(lockFile, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	t.held = f
	return lock(f)
}

// site reads the mark of the directory, nil if it has none.
func (t *tree) site() (*siteMark, error) {
	b, err := t.root.ReadFile(siteFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var m siteMark
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("read %s: %w", siteFile, err)
	}
	return &m, nil
}

// mark writes the mark of the directory.
func (t *tree) mark(m siteMark) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	name, f, err := t.create()
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return t.root.Rename(name, siteFile)
}

// foreign reports whether the directory holds anything but ownDir.
func (t *tree) foreign() bool {
	d, err := t.root.Open(".")
	if err != nil {
		return true
	}
	defer d.Close()
	names, err := d.Readdirnames(2)
	return err != nil && err != io.EOF || len(names) > 1 || len(names) == 1 && names[0] != ownDir
}

// prepare makes the holding's own directories.
func (t *tree) prepare() error {
	seen := map[string]bool{}
	if err := t.mkdir(tmpDir, seen); err != nil {
		return err
	}
	return t.mkdir(otherDir, seen)
}

// probe finds out what names the file system takes.
func (t *tree) probe() (fold, portable bool) {
	name, f, err := t.create()
	if err != nil {
		return false, false
	}
	f.Close()
	defer t.discard(name)
	upper := tmpDir + "/PROBE"
	if err := t.root.Rename(name, upper); err != nil {
		return false, false
	}
	name = upper
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

// clean removes what a killed process left in tmpDir, and makes sure of the directory.
func (t *tree) clean() error {
	if err := t.prepare(); err != nil {
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

// create makes a new file in tmpDir.
func (t *tree) create() (string, *os.File, error) {
	name := t.temp()
	f, err := t.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	return name, f, err
}

func (t *tree) temp() string {
	return tmpDir + "/" + t.run + "-" + strconv.FormatUint(t.temps.Add(1), 10)
}

// discard removes a file of tmpDir. If that fails the next clean does it.
func (t *tree) discard(name string) { _ = t.root.Remove(name) }

// link gives a file a second name in tmpDir. It returns "" if there is no such file.
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

// vacant reports whether a file can be put at a name that no page has. What
// stands there without a page gives way, but for a directory with files that
// are not about to go.
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

// do does the operations, in order, and makes them durable.
func (t *tree) do(ops []op) error {
	if len(ops) == 0 {
		return nil
	}
	touched, made := map[string]bool{}, map[string]bool{}
	for _, o := range ops {
		if t.each != nil {
			if err := t.each(); err != nil {
				return err
			}
		}
		touched[path.Dir(o.name)] = true
		if err := t.one(o, made); err != nil {
			return err
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

// lstat looks at a name without following links, be it at the end of the name
// or on the way. What stands behind a link or a file does not exist.
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

// absent reports whether an error says that there is nothing at a name.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// prune removes directories that have become empty, up to the root.
func (t *tree) prune(dir string, made map[string]bool) {
	for ; dir != "." && !strings.HasPrefix(dir, ownDir); dir = path.Dir(dir) {
		if info, err := t.lstat(dir); err != nil || !info.IsDir() || t.root.Remove(dir) != nil {
			return
		}
		delete(made, dir)
	}
}

// removeEmpty removes a directory that holds nothing but directories.
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

// mkdir makes a directory and those above it. What stands in the way, a link
// or a file without a page, is removed. Known good directories are in made.
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

// sync makes the names in a directory durable, where the system can.
func (t *tree) sync(dir string) error {
	d, err := t.root.Open(dir)
	if absent(err) {
		return nil // pruned
	} else if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && runtime.GOOS != "windows" && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}

// walk calls fn with the name of every place of a page: everything that is not
// a directory, of ownDir only what is in otherDir. The state may stand in ownDir too.
func (t *tree) walk(fn func(name string)) error {
	return fs.WalkDir(t.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !d.IsDir():
			if path.Dir(name) != ownDir {
				fn(name)
			}
		case path.Dir(name) == ownDir && name != otherDir:
			return fs.SkipDir
		}
		return nil
	})
}
