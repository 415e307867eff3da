package collection

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/changes"
	"github.com/parleyweb/parley/client/collection/internal/filetree"
	"github.com/parleyweb/parley/client/collection/internal/mirror"
	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/internal/engine/contents"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/warc"
	"github.com/parleyweb/parley/protocol"
)

// sinks receive the bodies and events of a commit. Only the writer uses them, except for the reading methods of store and log.
type sinks struct {
	store     contents.Store
	mirror    *mirror.Mirror // nil: none
	log       changes.Log
	format    uint64 // of the state: formatBefore until the log has been moved into it
	committed []byte // the end of the contents, as the last transaction has stored it
}

// openContents opens what keep and tell need. After an error, close closes it.
func (c *Collection) openContents() (err error) {
	o := &changes.Options{
		Options: journal.Options{MaxChanges: c.opts.MaxEvents, ReadOnly: c.opts.ReadOnly, Wait: c.opts.Wait, Now: c.opts.Now},
		Witness: filepath.Join(c.dir, "journal.db"), Before: c.sinks.format == formatBefore, Contents: c.items,
	}
	o.Store = func(tx *bbolt.Tx, proven bool) error {
		if c.sinks.format = formatVersion; !proven {
			c.sinks.committed = nil
		}
		return c.writeMeta(tx)
	}
	if err = c.sinks.log.Open(c.db, o); err == nil {
		err = c.sinks.store.ReadDamaged()
	}
	if err != nil {
		return err
	}
	if c.opts.ReadOnly {
		return c.reading(c.sinks.hidePending)
	}
	if c.opts.Contents&WARC != 0 {
		o := &warc.Options{Coding: c.opts.Coding, MaxBytes: c.opts.MaxWARC, Now: c.opts.Now, Info: info(c.opts.Info)}
		// Records after the mark are of transactions that were never committed. A new collection has its mark
		// before the first file. But if the state was restored from a backup, it is the state that is wrong: then it
		// has no mark any more.
		if mark, ok := parseMark(c.sinks.committed); ok {
			o.Mark = &mark
		}
		if err := c.sinks.store.OpenArchive(o); err != nil {
			return err
		}
		if o.Mark == nil { // existing records stay, but not those of a first transaction that is never committed
			c.sinks.committed = c.sinks.state()
			if err := boltfile.RecoverDamage(func() error { return c.db.Update(c.writeMeta) }); err != nil {
				return err
			}
		}
	}
	if c.opts.Contents&Mirror != 0 {
		return c.openMirror()
	}
	var ops []filetree.Op
	err = c.reading(func(tx *bbolt.Tx) error {
		ops, err = mirror.Ops(tx)
		return err
	})
	if len(ops) > 0 { // left by a process that was killed, and had a mirror
		err = boltfile.RecoverDamage(func() error { return c.db.Update(mirror.Forget) })
	}
	return err
}

// hidePending hides changes from readers of the log whose files were not in their places yet when a process was killed: the
// next one that writes will move them there.
func (k *sinks) hidePending(tx *bbolt.Tx) error {
	head, is, err := mirror.Pending(tx, cmp.Or(k.store.Files, filepath.Join(k.store.Dir, contents.MirrorDir)))
	if is {
		k.log.Journal().HideAfter(head)
	}
	return err
}

func info(m map[string]string) []warc.Field {
	var fields []warc.Field
	for _, name := range slices.Sorted(maps.Keys(m)) {
		fields = append(fields, warc.Field{Name: name, Value: m[name]})
	}
	return fields
}

// close closes what openContents has opened.
func (k *sinks) close() error {
	err := errors.Join(k.log.Close(), k.store.Close())
	if k.mirror != nil {
		err = errors.Join(err, k.mirror.Close())
		k.mirror = nil
	}
	return err
}

// keep writes the answer of a visit, and returns where its body is stored.
// It runs in the transaction of the visit, in the order of visits, in one goroutine at a time.
func (x *visiting) keep() (contents.Place, error) {
	v, p := x.v, &x.was
	store, files := &x.u.c.sinks.store, x.u.c.sinks.mirror
	body := contents.IsPage(v.Status)
	switch {
	case v.Fault != "" && !v.Cut, v.Soft404:
		return contents.Place{}, nil
	case !body && (v.Status != http.StatusNotModified || p.Digest.IsZero()):
		return contents.Place{}, x.answer()
	}
	place, of, stored := p.Stored, warc.Original{}, false // whether the answer's body is stored already
	if !body || p.Digest == v.Digest {
		of, stored = store.Captured(place)
	}
	if files != nil && body && !(stored && p.has()) {
		if err := files.Keep(p.ID, v.File, v.Body); err != nil {
			return contents.Place{}, err
		}
	}
	_, ok := contents.Archived(place)
	if !store.HasArchive() || !body && !(ok && stored) {
		if stored && p.has() {
			return place, nil
		}
		return contents.Place{}, nil // the mirror's tell sets the place, once the name is known
	}
	if stored = stored && ok; !stored {
		twin, err := x.twin()
		if err != nil {
			return contents.Place{}, err
		}
		if twin != nil {
			place = twin.Stored
			of, stored = store.Captured(place)
		}
	}
	capture := x.capture()
	if stored {
		if of.Digest = p.Digest; body {
			of.Digest = v.Digest
		}
		capture.Of = &of
		return place, store.Revisit(capture)
	}
	return store.Response(capture)
}

// capture returns a visit in the form that the archive stores.
func (x *visiting) capture() *warc.Capture {
	v := x.v
	asked := v.Asked
	if asked.IsZero() {
		asked = x.u.c.opts.Now()
	}
	return &warc.Capture{URL: x.was.URL, Date: asked, IP: v.IP, Proto: v.Proto, Status: v.Status, Header: v.Header,
		Body: v.Body, Cut: v.Cut, Digest: v.Digest, Type: v.Type}
}

// sync makes the writes of keep durable. It is called before the commit of the transaction that refers to them.
func (k *sinks) sync() error {
	if k.mirror != nil {
		if err := k.mirror.Sync(); err != nil {
			return err
		}
	}
	return k.store.Sync()
}

// rollback undoes the content writes of a transaction that was not committed, and forgets its changes.
func (k *sinks) rollback() {
	k.log.Rollback()
	if k.mirror != nil {
		k.mirror.Rollback()
	}
	if k.store.HasArchive() {
		if mark, ok := parseMark(k.committed); ok {
			_ = k.store.Rewind(mark) // records left behind belong to no transaction
		}
	}
}

// runOps runs the file operations of the last transaction that had any.
func (c *Collection) runOps() (err error) {
	var ops []filetree.Op
	err = c.reading(func(tx *bbolt.Tx) error {
		ops, err = mirror.Ops(tx)
		return err
	})
	if err != nil {
		return err
	}
	return c.sinks.mirror.Do(ops)
}

// redo repeats the file operations of the last transaction, and removes temporary files without one.
func (c *Collection) redo() error {
	if err := c.runOps(); err != nil {
		return err
	}
	return c.sinks.mirror.Clean()
}

func (c *Collection) openMirror() error {
	if c.opts.Site != "" {
		return c.openCopy()
	}
	t, err := filetree.Open(filepath.Join(c.dir, contents.MirrorDir))
	if err != nil {
		return err
	}
	c.sinks.mirror = mirror.New(t)
	return c.redo()
}

// Displaced returns how many pages have files in the mirror under .parley/other: their URLs make no file names,
// or another page has the name.
func (c *Collection) Displaced() (n int, err error) {
	err = c.reading(func(tx *bbolt.Tx) error {
		n = mirror.Displaced(tx.Bucket(changes.Bucket))
		return nil
	})
	return n, err
}

// state returns the end of the contents that the transaction refers to, which is stored in it.
// Records after that belong to no transaction.
func (k *sinks) state() []byte {
	if !k.store.HasArchive() {
		return k.committed
	}
	m := k.store.Mark()
	return binary.AppendUvarint(record.AppendString(nil, m.File), uint64(m.Offset))
}

func parseMark(b []byte) (warc.Place, bool) {
	d := record.Decoder{B: b}
	p := warc.Place{File: d.Text(), Offset: int64(d.Uint())}
	return p, !d.Bad
}

// Stores reports whether bodies are stored at all: if not, a Visit needs none.
func (c *Collection) Stores() bool { return c.opts.Contents != 0 }

// Stands reports whether the file of a body exists and is long enough: if not, the page must be fetched
// without conditions, and its body stored again. It does not read the file: damage is found only by a read
// of the body. The zero Place stands only in a collection that stores nothing. It is fast: the size of an
// archive is cached for some seconds.
func (c *Collection) Stands(p contents.Place) bool {
	return c.opts.Contents == 0 || p.File != "" && c.sinks.store.Stands(p)
}

// Content opens the stored content of a page, or its last content if it is gone. It returns [contents.ErrNoContent] if
// none is stored.
func (c *Collection) Content(p *Page) (*contents.Content, error) {
	content, err := c.sinks.store.Content(p.URL, p.Stored)
	if err != nil {
		return nil, fmt.Errorf("open content of %s: %w", p.URL, err)
	}
	return content, nil
}

// Version returns the stored content of a URL, if its digest is d and it has at most max bytes: the base of
// a site's delta. Otherwise it returns [contents.ErrNoContent].
func (c *Collection) Version(url string, d protocol.Digest, max int64) ([]byte, error) {
	p, ok, err := c.Page(url)
	switch {
	case err != nil:
		return nil, err
	case !ok || d.IsZero() || p.Digest != d || p.Length > max || p.Stored.File == "":
		return nil, contents.ErrNoContent
	}
	content, err := c.sinks.store.Body(p.Stored)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	b, err := io.ReadAll(io.LimitReader(content, max+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > max || protocol.Sum(b) != d { // somebody has changed the file
		return nil, contents.ErrNoContent
	}
	return b, nil
}

// Versions returns the history of a URL, oldest first. It is empty without an archive.
func (c *Collection) Versions(url string) ([]contents.Version, error) {
	return c.sinks.store.Versions(url)
}

// ContentAt opens the content that a URL had at a time: its newest version that is not younger. It needs an
// archive, and returns [contents.ErrNoContent] if there is no such version.
func (c *Collection) ContentAt(url string, at time.Time) (*contents.Content, error) {
	return c.sinks.store.At(url, at)
}

// Body opens the body at a place. It returns [contents.ErrNoContent] for the zero Place, and
// [contents.ErrBodyDamaged], at once or while reading, if the record is damaged.
func (c *Collection) Body(p contents.Place) (*contents.Content, error) { return c.sinks.store.Body(p) }
