package collection

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
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
	"github.com/parleyweb/parley/internal/engine/contents"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/warc"
	"github.com/parleyweb/parley/protocol"
)

// sinks receive the bodies and events of a commit. Only the writer uses them, except for the Reader of the store and the reading
// methods of the log.
type sinks struct {
	store     contents.Store
	mirror    *mirror.Mirror // nil: none
	log       changes.Log
	format    uint64 // of the state: formatBefore until the log has been moved into it
	committed []byte // the end of the contents, as the last transaction has stored it

	size     int64     // of the log in the state, when it was measured
	measured time.Time // see used
}

// openContents opens what keep and tell need. After an error, close closes it.
func (o *opening) openContents() (err error) {
	c := o.c
	restored, err := c.sinks.restored()
	if err != nil && !c.opts.ReadOnly {
		return err
	}
	events := &changes.Options{
		Options: journal.Options{MaxChanges: c.opts.MaxEvents, ReadOnly: c.opts.ReadOnly, Wait: c.opts.Wait, Now: c.opts.Now},
		Witness: filepath.Join(c.dir, contents.WitnessFile), Before: c.sinks.format == formatBefore, Contents: o.items, Restored: restored, Log: c.opts.Log,
	}
	events.Store = func(tx *bbolt.Tx, proven bool) error {
		if c.sinks.format = formatVersion; !proven {
			c.sinks.committed = nil
		}
		return c.writeMeta(tx)
	}
	if err = c.sinks.log.Open(c.db, events); err == nil {
		err = c.sinks.store.ReadDamaged()
	}
	if err != nil {
		return err
	}
	if c.opts.ReadOnly {
		return c.reading(c.sinks.hidePending)
	}
	if c.opts.Contents&WARC != 0 {
		archive := &warc.Options{Coding: c.opts.Coding, MaxBytes: c.opts.MaxWARC, Now: c.opts.Now, Info: info(c.opts.Info)}
		// Records after the mark are of transactions that were never committed. A new collection has its mark
		// before the first file. But if the state was restored from a backup, it is the state that is wrong: then it
		// has no mark any more.
		if mark, ok := parseMark(c.sinks.committed); ok {
			archive.Mark = &mark
		}
		if err := c.sinks.store.OpenArchive(archive, c.opts.CopyTo); err != nil {
			return err
		}
		if archive.Mark == nil { // existing records stay, but not those of a first transaction that is never committed
			c.sinks.committed = c.sinks.state()
			if err := write(c, c.writeMeta); err != nil {
				return err
			}
		}
		if err := c.sinks.witness(); err != nil {
			return err
		}
	}
	if c.opts.Contents&Mirror != 0 {
		return o.openMirror()
	}
	var ops []filetree.Op
	err = c.reading(func(tx *bbolt.Tx) error {
		ops, err = mirror.Ops(tx)
		return err
	})
	if len(ops) > 0 { // left by a process that was killed, and had a mirror
		err = write(c, mirror.Forget)
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
	fields := []warc.Field{{Name: "software", Value: "Parley"}}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if m[name] != "" {
			fields = append(fields, warc.Field{Name: name, Value: m[name]})
		}
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
	if x.u.sites.at(x.w.Site).Withheld {
		files = nil // files are for everybody
	}
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
		if twin != nil && (twin.Site == x.w.Site || !x.u.sites.at(twin.Site).Withheld) {
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
	capture := &warc.Capture{URL: x.was.URL, Date: asked, IP: v.IP, Proto: v.Proto, Status: v.Status, Header: v.Header,
		Body: v.Body, Cut: v.Cut, Digest: v.Digest, Type: v.Type, Authorized: v.Authorized}
	if x.u.c.opts.Requests {
		capture.Request = v.Request
	}
	return capture
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
func (o *opening) redo() error {
	if err := o.c.runOps(); err != nil {
		return err
	}
	return o.c.sinks.mirror.Clean()
}

func (o *opening) openMirror() error {
	if o.c.opts.Site != "" {
		return o.openCopy()
	}
	t, err := filetree.Open(filepath.Join(o.c.dir, contents.MirrorDir))
	if err != nil {
		return err
	}
	o.c.sinks.mirror = mirror.New(t)
	return o.redo()
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

// restored reports whether a later transaction than that of the state has named the end of the archive.
func (k *sinks) restored() (bool, error) {
	seen, known, err := k.store.Witnessed()
	mark, ok := parseMark(k.committed)
	return ok && known && mark.Before(seen), err
}

// witness stores the end of the contents beside the archive, after the commit that has named it.
func (k *sinks) witness() error {
	mark, ok := parseMark(k.committed)
	if !ok {
		return nil
	}
	return k.store.Witness(mark)
}

// Contents returns what reads the stored contents.
func (c *Collection) Contents() *contents.Reader { return &c.sinks.store.Reader }

// CopyWARC copies the closed WARC files that Options.CopyTo lacks, and with last also the newest one, which it closes. One call at a time; the
// collection can be used meanwhile. Bodies in files that are removed here are then read from there.
func CopyWARC(ctx context.Context, c *Collection, last bool) (err error) {
	c.mu.Lock()
	end, archived := parseMark(c.sinks.committed)
	if archived = archived && c.sinks.store.HasArchive(); archived && last && c.broken == nil {
		err = c.sinks.store.Rotate()
	}
	c.mu.Unlock()
	if err != nil || !archived {
		return err
	}
	return c.sinks.store.Copy(ctx, end)
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
