package collection

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/internal/filename"
	"github.com/parleyweb/parley/protocol"
)

// A mirror is a directory of plain files. What a turn brings is written under
// names of no page first; the transaction that takes the turn in says what is
// to be put where, and that is done after it, and again by the next Open if
// the process is killed in between.
type mirror struct {
	root           *os.Root
	run            string // begins the names in tmpDir: an op of a process that is gone never means a new file
	count          int
	fold, portable bool

	temps map[frontier.PageID]string // what keep wrote and tell has not asked for
	files []*os.File                 // to be synced
	stale []string                   // to be removed after the next sync
}

const tmpDir = filename.Own + "/tmp"

// Buckets within the outbox.
var (
	opsBucket   = []byte("ops")   // name -> file of tmpDir that is to stand there; empty: nothing is
	namesBucket = []byte("names") // page -> name
	pathsBucket = []byte("paths") // name, folded -> page
)

func openMirror(dir string) (*mirror, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	m := &mirror{root: root, run: rand.Text()[:8], temps: map[frontier.PageID]string{},
		fold: runtime.GOOS == "windows" || runtime.GOOS == "darwin", portable: runtime.GOOS == "windows"}
	if err := root.MkdirAll(tmpDir, 0o755); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return m, nil
}

func (m *mirror) close() error {
	for _, f := range m.files {
		f.Close()
	}
	return m.root.Close()
}

// takeBack removes what keep wrote for a transaction that was not committed.
func (m *mirror) takeBack() {
	for _, f := range m.files {
		f.Close()
		_ = m.root.Remove(tmpDir + "/" + path.Base(filepath.ToSlash(f.Name())))
	}
	m.files, m.stale = m.files[:0], m.stale[:0]
	clear(m.temps)
}

// redo does what the last transaction asked of the files, and removes what no
// transaction asks for.
func (c *Collection) redo() error {
	ops, err := c.ops()
	if err != nil {
		return err
	}
	m := c.contents.mirror
	if err := m.do(ops); err != nil {
		return err
	}
	d, err := m.root.Open(tmpDir)
	if err != nil {
		return err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	for _, name := range names {
		if err := m.root.RemoveAll(tmpDir + "/" + name); err != nil {
			return err
		}
	}
	return err
}

// An op puts a file of tmpDir at a name; with an empty temp it removes what
// stands at name. There is at most one for a name: to do them twice is to do
// them once.
type op struct{ name, temp string }

func (c *Collection) ops() (ops []op, err error) {
	err = c.reading(func(tx *bbolt.Tx) error {
		b := tx.Bucket(outboxBucket).Bucket(opsBucket)
		if b == nil {
			return nil
		}
		return b.ForEach(func(k, v []byte) error {
			ops = append(ops, op{string(k), string(v)})
			return nil
		})
	})
	return ops, err
}

// temp names a new file of tmpDir.
func (m *mirror) temp() string {
	m.count++
	return tmpDir + "/" + m.run + "-" + strconv.Itoa(m.count)
}

// keep writes a body under a name of no page.
func (m *mirror) keep(id frontier.PageID, body []byte) error {
	name := m.temp()
	f, err := m.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	m.files = append(m.files, f)
	if old := m.temps[id]; old != "" {
		m.stale = append(m.stale, old)
	}
	m.temps[id] = name
	_, err = f.Write(body)
	return err
}

// sync makes durable what keep wrote, a few files at once: the disk does that
// in about the time of one. What nobody asked for goes.
func (m *mirror) sync() error {
	var (
		wg   sync.WaitGroup
		gate = make(chan struct{}, 8)
		errs = make([]error, len(m.files))
	)
	for i, f := range m.files {
		gate <- struct{}{}
		wg.Go(func() {
			errs[i] = errors.Join(f.Sync(), f.Close())
			<-gate
		})
	}
	wg.Wait()
	m.files = m.files[:0]
	for id, name := range m.temps {
		m.stale = append(m.stale, name)
		delete(m.temps, id)
	}
	for _, name := range m.stale {
		_ = m.root.Remove(name) // or the next Open does
	}
	m.stale = m.stale[:0]
	return errors.Join(errs...)
}

// A mirroring is what a transaction does to names and files.
type mirroring struct {
	m                 *mirror
	ops, names, paths *bbolt.Bucket
}

func (m *mirror) in(box *bbolt.Bucket) (mirroring, error) {
	g := mirroring{m: m}
	for _, b := range []struct {
		to   **bbolt.Bucket
		name []byte
	}{{&g.ops, opsBucket}, {&g.names, namesBucket}, {&g.paths, pathsBucket}} {
		var err error
		if *b.to, err = box.CreateBucketIfNotExists(b.name); err != nil {
			return g, err
		}
	}
	return g, nil
}

// tell says what is to become of a page's file, and returns its name, empty if
// there is none after it. from is the page that the content of a Move had.
func (g mirroring) tell(n *news, from frontier.PageID) (string, error) {
	key := pageKey(n.page.ID)
	old := string(g.names.Get(key[:]))
	temp := g.m.temps[n.page.ID]
	switch n.op {
	case protocol.Delete:
		return "", g.release(n.page.ID, old)
	case protocol.Move:
		was := pageKey(from)
		name := string(g.names.Get(was[:]))
		var err error
		if temp == "" && name != "" {
			if temp, err = g.lift(name); err != nil {
				return "", err
			}
		}
		if err := g.release(from, name); err != nil {
			return "", err
		}
	}
	if temp == "" {
		return old, nil
	}
	delete(g.m.temps, n.page.ID)
	name, err := g.name(n.page)
	if err != nil {
		return "", err
	}
	if old != "" && old != name {
		if err := g.release(n.page.ID, old); err != nil {
			return "", err
		}
	}
	if was := g.ops.Get([]byte(name)); len(was) > 0 {
		g.m.stale = append(g.m.stale, string(was))
	}
	err = errors.Join(g.names.Put(key[:], []byte(name)), g.paths.Put(g.path(name), key[:]), g.ops.Put([]byte(name), []byte(temp)))
	return name, err
}

func (g mirroring) path(name string) []byte {
	if g.m.fold {
		name = filename.Fold(name)
	}
	return []byte(name)
}

// release gives a name up, with the file that stands there.
func (g mirroring) release(id frontier.PageID, name string) error {
	if name == "" {
		return nil
	}
	if was := g.ops.Get([]byte(name)); len(was) > 0 {
		g.m.stale = append(g.m.stale, string(was))
	}
	key := pageKey(id)
	return errors.Join(g.names.Delete(key[:]), g.paths.Delete(g.path(name)), g.ops.Put([]byte(name), nil))
}

// lift gives the file of a page a second name, under which it outlives the
// page. It returns "" if there is no such file.
func (g mirroring) lift(name string) (string, error) {
	if temp := g.ops.Get([]byte(name)); len(temp) > 0 {
		name = string(temp) // it comes there only after this transaction
	}
	temp := g.m.temp()
	if err := g.m.root.Link(name, temp); err == nil {
		return temp, nil
	}
	src, err := g.m.root.Open(name) // a file system without hard links
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	defer src.Close()
	dst, err := g.m.root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return "", err
	}
	g.m.files = append(g.m.files, dst)
	_, err = io.Copy(dst, src)
	return temp, err
}

// name returns the name for a page: its natural one if no other page has that,
// or has a file where this one needs a directory, or the other way round.
func (g mirroring) name(p *Page) (string, error) {
	name, ok := filename.Natural(p.URL, p.Type, g.m.portable)
	if ok && g.free(name, p.ID) {
		return name, nil
	}
	return filename.Other(p.URL), nil
}

func (g mirroring) free(name string, id frontier.PageID) bool {
	own := pageKey(id)
	if k := g.paths.Get(g.path(name)); k != nil && !bytes.Equal(k, own[:]) {
		return false
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if k := g.paths.Get(g.path(dir)); k != nil && !bytes.Equal(k, own[:]) {
			return false
		}
	}
	below := append(g.path(name), '/')
	c := g.paths.Cursor()
	for k, v := c.Seek(below); bytes.HasPrefix(k, below); k, v = c.Next() {
		if !bytes.Equal(v, own[:]) {
			return false
		}
	}
	return true
}

// do does the operations and makes them durable: first what makes room.
func (m *mirror) do(ops []op) error {
	touched := map[string]bool{}
	for _, removing := range []bool{true, false} {
		for _, o := range ops {
			if (o.temp == "") != removing {
				continue
			}
			if err := m.one(o, touched); err != nil {
				return fmt.Errorf("put file %s in its place: %w", o.name, err)
			}
		}
	}
	if runtime.GOOS == "windows" {
		return nil
	}
	for dir := range touched {
		d, err := m.root.Open(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		if err := errors.Join(d.Sync(), d.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (m *mirror) one(o op, touched map[string]bool) error {
	dir := path.Dir(o.name)
	touched[dir] = true
	if o.temp == "" {
		if info, err := m.root.Lstat(o.name); err == nil && !info.IsDir() {
			if err := m.root.Remove(o.name); err != nil {
				return err
			}
		}
		for ; dir != "." && m.root.Remove(dir) == nil; dir = path.Dir(dir) { // if it is empty
			touched[path.Dir(dir)] = true
		}
		return nil
	}
	if _, err := m.root.Lstat(o.temp); errors.Is(err, fs.ErrNotExist) {
		return nil // done before
	}
	if err := m.root.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for d := dir; d != "."; d = path.Dir(d) {
		touched[path.Dir(d)] = true
	}
	if info, err := m.root.Lstat(o.name); err == nil && info.IsDir() {
		if err := m.root.RemoveAll(o.name); err != nil { // no page has a file in it
			return err
		}
	}
	return m.root.Rename(o.temp, o.name)
}
