package collection

import (
	"bytes"
	"errors"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/contents"
	"github.com/parleyweb/parley/client/collection/internal/changes"
	"github.com/parleyweb/parley/client/collection/internal/filetree"
	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/internal/filename"
	"github.com/parleyweb/parley/protocol"
)

// A mirror is a directory of plain files. The bodies of a Commit are first written under temporary names; its
// transaction stores which file goes where, and the files are moved after it, and again by the next Open if
// the process is killed in between.
type mirror struct {
	*filetree.Tree
	base           string // of a copy: the base URL, which names leave out; empty: names begin with the host
	fold, portable bool

	temps map[frontier.PageID]string // files that keep wrote and tell has not used
	files []*os.File                 // files to sync
	stale []string                   // names to remove after the next sync
	freed bool                       // the transaction has released a name
}

// Buckets within the outbox.
var (
	namesBucket = []byte("names") // page -> name
	pathsBucket = []byte("paths") // name, folded -> page
)

func newMirror(t *filetree.Tree) *mirror {
	return &mirror{Tree: t, temps: map[frontier.PageID]string{},
		fold: runtime.GOOS == "windows" || runtime.GOOS == "darwin", portable: runtime.GOOS == "windows"}
}

func (c *Collection) openMirror() error {
	if c.opts.Site != "" {
		return c.openCopy()
	}
	t, err := filetree.Open(filepath.Join(c.dir, contents.MirrorDir))
	if err != nil {
		return err
	}
	c.sinks.mirror = newMirror(t)
	return c.redo()
}

func (m *mirror) close() error {
	for _, f := range m.files {
		f.Close()
	}
	return m.Tree.Close()
}

// rollback removes the files that keep wrote for a transaction that was not committed.
func (m *mirror) rollback() {
	for _, f := range m.files {
		f.Close()
		m.Discard(tempOf(f))
	}
	m.files, m.stale, m.freed = m.files[:0], m.stale[:0], false
	clear(m.temps)
}

// redo repeats the file operations of the last transaction, and removes temporary files without one.
func (c *Collection) redo() error {
	ops, err := c.ops()
	if err != nil {
		return err
	}
	m := c.sinks.mirror
	if err := m.Do(ops); err != nil {
		return err
	}
	return m.Clean()
}

func (c *Collection) ops() (ops []filetree.Op, err error) {
	err = c.reading(func(tx *bbolt.Tx) error {
		b := tx.Bucket(changes.Bucket).Bucket(changes.FileOps)
		if b == nil {
			return nil
		}
		return b.ForEach(func(k, v []byte) error {
			ops = append(ops, filetree.Op{Name: string(k), Temp: string(v)})
			return nil
		})
	})
	return ops, err
}

// keep writes a body under a temporary name.
func (m *mirror) keep(id frontier.PageID, v *Visit) error {
	var name string
	f := v.File
	if f != nil {
		name = tempOf(f)
	} else {
		var err error
		if name, f, err = m.Create(); err != nil {
			return err
		}
	}
	m.files = append(m.files, f)
	if old := m.temps[id]; old != "" {
		m.stale = append(m.stale, old)
	}
	m.temps[id] = name
	if v.File != nil {
		return nil
	}
	_, err := f.Write(v.Body)
	return err
}

// tempOf returns the name of a file made by create.
func tempOf(f *os.File) string { return filetree.TempDir + "/" + path.Base(filepath.ToSlash(f.Name())) }

// sync makes the files of keep durable, a few at once: the disk syncs them in about the time of one. It
// removes files that tell did not use.
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
		m.Discard(name)
	}
	m.stale = m.stale[:0]
	return errors.Join(errs...)
}

// A mirroring is a transaction's access to names and file operations.
type mirroring struct {
	m                 *mirror
	ops, names, paths *bbolt.Bucket
}

func (m *mirror) in(box *bbolt.Bucket) (mirroring, error) {
	g := mirroring{m: m}
	for _, b := range []struct {
		to   **bbolt.Bucket
		name []byte
	}{{&g.ops, changes.FileOps}, {&g.names, namesBucket}, {&g.paths, pathsBucket}} {
		var err error
		if *b.to, err = box.CreateBucketIfNotExists(b.name); err != nil {
			return g, err
		}
	}
	return g, nil
}

// tell stores the file operations for a change of a page, and returns the name of its file, empty if there
// is none after it.
func (g mirroring) tell(n *news) (string, error) {
	key := record.PageKey(n.page.ID)
	old := string(g.names.Get(key[:]))
	temp := g.m.temps[n.page.ID]
	switch n.op {
	case protocol.Delete:
		return "", g.release(n.page.ID, old)
	case protocol.Move:
		was := record.PageKey(n.source)
		name := string(g.names.Get(was[:]))
		var err error
		if temp == "" && name != "" {
			if temp, err = g.lift(name); err != nil {
				return "", err
			}
		}
		if err := g.release(n.source, name); err != nil {
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
	return name, g.place(n.page.ID, name, temp)
}

// place moves a file of filetree.TempDir to the name of a page.
func (g mirroring) place(id frontier.PageID, name, temp string) error {
	if was := g.ops.Get([]byte(name)); len(was) > 0 {
		g.m.stale = append(g.m.stale, string(was))
	}
	key := record.PageKey(id)
	return errors.Join(g.names.Put(key[:], []byte(name)), g.paths.Put(g.path(name), key[:]), g.ops.Put([]byte(name), []byte(temp)))
}

// Displaced returns how many pages have files in the mirror under .parley/other: their URLs make no file names,
// or another page has the name.
func (c *Collection) Displaced() (n int, err error) {
	err = c.reading(func(tx *bbolt.Tx) error {
		b := tx.Bucket(changes.Bucket).Bucket(pathsBucket)
		if b == nil {
			return nil
		}
		prefix := []byte(filetree.OtherDir + "/") // in lower case, so it is folded
		cur := b.Cursor()
		for k, _ := cur.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = cur.Next() {
			n++
		}
		return nil
	})
	return n, err
}

func (g mirroring) path(name string) []byte {
	if g.m.fold {
		name = filename.Fold(name)
	}
	return []byte(name)
}

// release frees a name, and removes its file.
func (g mirroring) release(id frontier.PageID, name string) error {
	if name == "" {
		return nil
	}
	if was := g.ops.Get([]byte(name)); len(was) > 0 {
		g.m.stale = append(g.m.stale, string(was))
	}
	g.m.freed = true
	key := record.PageKey(id)
	return errors.Join(g.names.Delete(key[:]), g.paths.Delete(g.path(name)), g.ops.Put([]byte(name), nil))
}

// lift gives the file of a page a second name, under which it outlives the page. It returns "" if there is no file.
func (g mirroring) lift(name string) (string, error) {
	if temp := g.ops.Get([]byte(name)); len(temp) > 0 {
		name = string(temp) // it is moved there only after this transaction
	}
	return g.m.Link(name)
}

// name returns the file name for a page: its natural one, unless another page has that name, or one of them
// needs a directory where the other has its file.
func (g mirroring) name(p *Page) (string, error) {
	if name, ok := g.natural(p); ok {
		return name, nil
	}
	return filename.Other(p.URL), nil
}

// natural returns the natural name of a page, and whether it is available now.
func (g mirroring) natural(p *Page) (name string, ok bool) {
	if g.m.base != "" {
		name, ok = filename.Below(g.m.base, p.URL, p.Type, g.m.portable)
	} else {
		name, ok = filename.Natural(p.URL, p.Type, g.m.portable)
	}
	return name, ok && g.free(name, p.ID)
}

func (g mirroring) free(name string, id frontier.PageID) bool {
	own := record.PageKey(id)
	if k := g.paths.Get(g.path(name)); bytes.Equal(k, own[:]) {
		return true
	} else if k != nil {
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
	return g.m.Vacant(name, func(file string) bool {
		if k := g.paths.Get(g.path(file)); k != nil {
			return bytes.Equal(k, own[:]) // it is released for the new name
		}
		k, temp := g.ops.Cursor().Seek([]byte(file))
		return string(k) == file && len(temp) == 0
	})
}

// mostAside is how many pages get their natural names in one transaction.
const mostAside = 1000

// promote gives pages below filetree.OtherDir their natural names, where those have become free.
func (u *update) promote() error {
	m := u.c.sinks.mirror
	if m == nil || !m.freed || m.base == "" {
		return nil
	}
	m.freed = false
	box, err := u.c.log.Enter(u.tx)
	if err != nil {
		return err
	}
	g, err := m.in(box)
	if err != nil {
		return err
	}
	var aside []frontier.PageID
	prefix := g.path(filetree.OtherDir + "/")
	cur := g.paths.Cursor()
	for k, id := cur.Seek(prefix); bytes.HasPrefix(k, prefix) && len(aside) < mostAside; k, id = cur.Next() {
		aside = append(aside, record.KeyPage(id))
	}
	for _, id := range aside {
		w, err := u.get(id)
		if err != nil {
			return err
		}
		if w == nil {
			return record.Damaged(changes.Bucket, pathsBucket)
		}
		key := record.PageKey(id)
		old := string(g.names.Get(key[:]))
		name, ok := g.natural(&w.Page)
		if !ok || !strings.HasPrefix(old, filetree.OtherDir+"/") {
			continue
		}
		temp, err := g.lift(old)
		if err != nil {
			return err
		}
		if temp == "" {
			continue // the file is missing, which the next Open finds
		}
		if err := errors.Join(g.release(id, old), g.place(id, name, temp)); err != nil {
			return err
		}
		w.Stored, w.dirty = contents.Place{File: contents.MirrorDir + "/" + name}, true
	}
	m.freed = false
	return nil
}
