// Package mirror has the contents of a collection as plain files. The bodies of a transaction are first written under
// temporary names; the transaction stores which file goes where, and the files are moved after it, and again when the
// collection is opened if the process is killed in between.
package mirror

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/changes"
	"github.com/parleyweb/parley/client/collection/internal/filetree"
	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/filename"
	"github.com/parleyweb/parley/protocol"
)

// A Mirror is a directory of files. Only the writer of the collection uses it, except for Create.
type Mirror struct {
	*filetree.Tree
	Base           string // of a copy: the base URL, which names leave out; empty: names begin with the host
	Fold, Portable bool   // names are compared without case; names that Windows refuses are not used

	temps map[frontier.PageID]string // files that Keep wrote and Tell has not used
	files []*os.File                 // files to sync
	stale []string                   // names to remove after the next sync
	freed bool                       // the transaction has released a name
}

// Buckets within changes.Bucket.
var (
	opsBucket   = []byte("ops")   // name -> temporary name, empty to remove the file: for the last transaction that had any
	namesBucket = []byte("names") // page -> name
	pathsBucket = []byte("paths") // name, folded -> page
)

// A Page is what a mirror needs of a page.
type Page struct {
	ID        frontier.PageID
	URL, Type string
}

// New returns the mirror in a directory.
func New(t *filetree.Tree) *Mirror {
	return &Mirror{Tree: t, temps: map[frontier.PageID]string{},
		Fold: runtime.GOOS == "windows" || runtime.GOOS == "darwin", Portable: runtime.GOOS == "windows"}
}

// Close closes the directory.
func (m *Mirror) Close() error {
	for _, f := range m.files {
		f.Close()
	}
	return m.Tree.Close()
}

// Rollback removes the files that Keep wrote for a transaction that was not committed.
func (m *Mirror) Rollback() {
	for _, f := range m.files {
		f.Close()
		m.Discard(tempOf(f))
	}
	m.files, m.stale, m.freed = m.files[:0], m.stale[:0], false
	clear(m.temps)
}

// Ops returns the file operations of the last transaction that had any.
func Ops(tx *bbolt.Tx) (ops []filetree.Op, err error) {
	b := tx.Bucket(changes.Bucket).Bucket(opsBucket)
	if b == nil {
		return nil, nil
	}
	err = b.ForEach(func(k, v []byte) error {
		ops = append(ops, filetree.Op{Name: string(k), Temp: string(v)})
		return nil
	})
	return ops, err
}

// Pending reports whether a process was killed before it had done the operations, in the directory of the files. Then it
// returns the head that In was given.
func Pending(tx *bbolt.Tx, dir string) (head uint64, is bool, err error) {
	ops, err := Ops(tx)
	for _, o := range ops {
		info, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(cmp.Or(o.Temp, o.Name))))
		if err != nil || info.IsDir() { // a directory may have taken the place of a removed file
			continue
		}
		next := tx.Bucket(changes.Bucket).Bucket(opsBucket).Sequence()
		return next - 1, next > 0, nil
	}
	return 0, false, err
}

// Forget removes the operations, which are done, from the state.
func Forget(tx *bbolt.Tx) error {
	box := tx.Bucket(changes.Bucket)
	if box.Bucket(opsBucket) == nil {
		return nil
	}
	return box.DeleteBucket(opsBucket)
}

// Keep writes a page's body under a temporary name, unless it is in a file of the directory already.
func (m *Mirror) Keep(id frontier.PageID, f *os.File, body []byte) (err error) {
	if f == nil {
		if f, err = m.Create(); err != nil {
			return err
		}
		_, err = f.Write(body)
	}
	m.files = append(m.files, f)
	if old := m.temps[id]; old != "" {
		m.stale = append(m.stale, old)
	}
	m.temps[id] = tempOf(f)
	return err
}

// Kept reports whether Keep has a body of a page that Tell has not used.
func (m *Mirror) Kept(id frontier.PageID) bool { return m.temps[id] != "" }

// tempOf returns the name of a file made by Create.
func tempOf(f *os.File) string { return filetree.TempDir + "/" + path.Base(filepath.ToSlash(f.Name())) }

// Sync makes the files of Keep and the operations of the last Do durable. It removes files that Tell did not use.
func (m *Mirror) Sync() error {
	err := m.Tree.Sync(m.files)
	m.files = m.files[:0]
	for id, name := range m.temps {
		m.stale = append(m.stale, name)
		delete(m.temps, id)
	}
	for _, name := range m.stale {
		m.Discard(name)
	}
	m.stale = m.stale[:0]
	return err
}

// Names is a transaction's access to names and file operations.
type Names struct {
	m                 *Mirror
	ops, names, paths *bbolt.Bucket
}

// In returns the names in a write transaction, before which the journal has a head. It forgets the operations of the one
// before: call it once in each.
func (m *Mirror) In(tx *bbolt.Tx, head uint64) (*Names, error) {
	if err := Forget(tx); err != nil {
		return nil, err
	}
	var err error
	bucket := func(name []byte) *bbolt.Bucket {
		b, failed := tx.Bucket(changes.Bucket).CreateBucketIfNotExists(name)
		err = errors.Join(err, failed)
		return b
	}
	g := &Names{m, bucket(opsBucket), bucket(namesBucket), bucket(pathsBucket)}
	if err != nil {
		return nil, err
	}
	return g, g.ops.SetSequence(head + 1) // the version before has set none
}

// Tell stores the file operations for a change of a page, which a Move has made from the page source, and returns the
// name of its file, empty if there is none after it.
func (g Names) Tell(op protocol.Op, p Page, source frontier.PageID) (string, error) {
	old := g.of(p.ID)
	temp := g.m.temps[p.ID]
	switch op {
	case protocol.Delete:
		return "", g.Release(p.ID)
	case protocol.Move:
		name := g.of(source)
		var err error
		if temp == "" && name != "" {
			if temp, err = g.lift(name); err != nil {
				return "", err
			}
		}
		if err := g.Release(source); err != nil {
			return "", err
		}
	}
	if temp == "" {
		return old, nil
	}
	delete(g.m.temps, p.ID)
	name, ok := g.natural(&p)
	if !ok {
		name = filename.Other(p.URL)
	}
	if old != name {
		if err := g.Release(p.ID); err != nil {
			return "", err
		}
	}
	return name, g.place(p.ID, name, temp)
}

// of returns the name of a page's file, empty if it has none.
func (g Names) of(id frontier.PageID) string {
	key := record.PageKey(id)
	return string(g.names.Get(key[:]))
}

// Has reports whether a page has a name.
func (g Names) Has(name string) bool { return g.paths.Get(g.path(name)) != nil }

// Remove removes a file that belongs to no page.
func (g Names) Remove(name string) error { return g.ops.Put([]byte(name), nil) }

// place moves a file of filetree.TempDir to the name of a page.
func (g Names) place(id frontier.PageID, name, temp string) error {
	if was := g.ops.Get([]byte(name)); len(was) > 0 {
		g.m.stale = append(g.m.stale, string(was))
	}
	key := record.PageKey(id)
	return errors.Join(g.names.Put(key[:], []byte(name)), g.paths.Put(g.path(name), key[:]), g.ops.Put([]byte(name), []byte(temp)))
}

// Displaced returns how many pages have files below OtherDir: their URLs make no file names, or another page has the
// name.
func Displaced(box *bbolt.Bucket) (n int) {
	b := box.Bucket(pathsBucket)
	if b == nil {
		return 0
	}
	prefix := []byte(filetree.OtherDir + "/") // in lower case, so it is folded
	cur := b.Cursor()
	for k, _ := cur.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = cur.Next() {
		n++
	}
	return n
}

// Each calls f with the pages that have files, from a page on, until it returns false or an error.
func Each(box *bbolt.Bucket, from frontier.PageID, f func(id frontier.PageID, name string) (more bool, err error)) error {
	b := box.Bucket(namesBucket)
	if b == nil {
		return nil
	}
	key := record.PageKey(from)
	cur := b.Cursor()
	for k, name := cur.Seek(key[:]); k != nil; k, name = cur.Next() {
		if len(k) != len(key) {
			return record.Damaged(namesBucket, k)
		}
		if more, err := f(record.KeyPage(k), string(name)); err != nil || !more {
			return err
		}
	}
	return nil
}

// Stands reports whether a file of some length is unchanged. If it is suspect, its bytes are read, for their digest.
func (m *Mirror) Stands(name string, length int64, suspect bool, want protocol.Digest) bool {
	info, err := m.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() != length {
		return false
	}
	if !suspect {
		return true
	}
	f, err := m.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return false
	}
	return protocol.Digest(h.Sum(nil)) == want
}

func (g Names) path(name string) []byte {
	if g.m.Fold {
		name = filename.Fold(name)
	}
	return []byte(name)
}

// Release frees the name of a page, and removes its file.
func (g Names) Release(id frontier.PageID) error {
	name := g.of(id)
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
func (g Names) lift(name string) (string, error) {
	if temp := g.ops.Get([]byte(name)); len(temp) > 0 {
		name = string(temp) // it is moved there only after this transaction
	}
	return g.m.Link(name)
}

// natural returns the natural name of a page, and whether it is available now: not if another page has it, or one of
// them needs a directory where the other has its file.
func (g Names) natural(p *Page) (name string, ok bool) {
	if g.m.Base != "" {
		name, ok = filename.Below(g.m.Base, p.URL, p.Type, g.m.Portable)
	} else {
		name, ok = filename.Natural(p.URL, p.Type, g.m.Portable)
	}
	return name, ok && g.free(name, p.ID)
}

func (g Names) free(name string, id frontier.PageID) bool {
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

// Freed reports whether Promote has something to do: the transaction has released a name.
func (m *Mirror) Freed() bool { return m.freed && m.Base != "" }

// Promote gives pages below filetree.OtherDir their natural names, where those have become free. It looks pages up,
// and calls named with the new names.
func (g Names) Promote(page func(frontier.PageID) (Page, error), named func(id frontier.PageID, name string) error) error {
	var aside []frontier.PageID
	prefix := g.path(filetree.OtherDir + "/")
	cur := g.paths.Cursor()
	for k, id := cur.Seek(prefix); bytes.HasPrefix(k, prefix) && len(aside) < mostAside; k, id = cur.Next() {
		aside = append(aside, record.KeyPage(id))
	}
	for _, id := range aside {
		p, err := page(id)
		if err != nil {
			return err
		}
		old := g.of(id)
		name, ok := g.natural(&p)
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
		if err := errors.Join(g.Release(id), g.place(id, name, temp)); err != nil {
			return err
		}
		if err := named(id, name); err != nil {
			return err
		}
	}
	g.m.freed = false
	return nil
}
