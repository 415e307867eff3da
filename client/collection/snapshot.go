package collection

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/protocol"
)

// The named bucket has the pages that a manifest has named, so that pages which it no longer names can be
// dropped. Its key is source and page, its value whether the page's deletion is held back, or which snapshot
// alone has named it, see quota.go.

var (
	isNamed  = []byte{0}
	isDoomed = []byte{1}
)

const byOne = 2 // followed by the snapshot's number

// A named is the value of a page in the named bucket.
type named struct {
	doomed bool
	by     uint64 // the unfinished snapshot that named it first; 0: that snapshot has finished
}

func parseNamed(v []byte) (n named, ok bool) {
	switch {
	case len(v) == 1 && v[0] < byOne:
		return named{doomed: v[0] != 0}, true
	case len(v) > 1 && v[0] == byOne:
		by, size := binary.Uvarint(v[1:])
		return named{by: by}, size == len(v)-1
	}
	return n, false
}

func namedKey(source uint64, page frontier.PageID) []byte {
	return binary.BigEndian.AppendUint32(sourceKey(source), uint32(page))
}

// A snapshot is the set of pages named so far by an arriving snapshot: a few bits per page. It need not
// outlive the process: the next one starts the snapshot again.
type snapshot struct {
	chunks map[frontier.PageID]*[chunkLen / 64]uint64
	count  int
	number uint64 // among the snapshots of its source, see quota.go; 0: not known yet

	// owed are pages that this snapshot has made pending, by the announced digest: of a copy, and at most mostOwed.
	owed map[protocol.Digest]frontier.PageID
}

const mostOwed = 50_000

const chunkLen = 4096

func (s *snapshot) add(id frontier.PageID) {
	if s.chunks == nil {
		s.chunks = map[frontier.PageID]*[chunkLen / 64]uint64{}
	}
	c := s.chunks[id/chunkLen]
	if c == nil {
		c = new([chunkLen / 64]uint64)
		s.chunks[id/chunkLen] = c
	}
	if bit := uint64(1) << (id % 64); c[id%chunkLen/64]&bit == 0 {
		c[id%chunkLen/64] |= bit
		s.count++
	}
}

func (s *snapshot) has(id frontier.PageID) bool {
	c := s.chunks[id/chunkLen]
	return c != nil && c[id%chunkLen/64]&(1<<(id%64)) != 0
}

// owe records that a page is pending.
func (s *snapshot) owe(content protocol.Digest, id frontier.PageID) {
	if s.owed == nil {
		s.owed = map[protocol.Digest]frontier.PageID{}
	}
	if len(s.owed) < mostOwed && !content.IsZero() {
		s.owed[content] = id
	}
}

// name records that the source names a page.
func (s *applying) name(w *work) error {
	u := s.u
	if s.source == nil || s.source.Kind != ManifestRDF {
		return nil
	}
	if s.names != nil {
		s.names.add(w.ID)
	}
	if !w.Listed {
		w.Listed, w.dirty = true, true
	}
	b := u.tx.Bucket(namedBucket)
	key := namedKey(s.source.ID, w.ID)
	v := b.Get(key)
	switch {
	case v != nil && !bytes.Equal(v, isDoomed):
		return nil
	case v == nil && s.names != nil && u.copied != nil:
		if s.names.number == 0 {
			s.names.number = wholes(u.tx, s.source.ID) + 1
		}
		return b.Put(key, binary.AppendUvarint([]byte{byOne}, s.names.number))
	}
	return b.Put(key, isNamed)
}

// listedKey marks, in the meta bucket, a state whose page records say whether they are listed. In a state of
// an earlier version only the named bucket does.
var listedKey = []byte("listed")

const listAtOnce = 10_000 // pages in a transaction

// list marks the listed pages in their records, once for each state. If killed it starts again.
func (o *opening) list() error {
	c := o.c
	c.mu.Lock()
	defer c.mu.Unlock()
	var done bool
	err := c.reading(func(tx *bbolt.Tx) error {
		done = tx.Bucket(metaBucket).Get(listedKey) != nil
		return nil
	})
	for from := []byte{}; err == nil && !done; {
		err = c.update(func(u *update) error {
			cur := u.tx.Bucket(namedBucket).Cursor()
			k, _ := cur.Seek(from)
			for n := 0; k != nil && n < listAtOnce; n++ {
				if len(k) != 12 {
					return record.Damaged(namedBucket, k)
				}
				w, err := u.pages.get(record.KeyPage(k[8:]))
				if err != nil {
					return err
				}
				if w != nil && !w.Listed {
					w.Listed, w.dirty = true, true
				}
				k, _ = cur.Next()
			}
			if from, done = bytes.Clone(k), k == nil; done {
				return u.tx.Bucket(metaBucket).Put(listedKey, []byte{1})
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("list pages: %w", err)
	}
	return nil
}

const (
	dropAtOnce = 1000           // pages in a transaction
	mostFrom   = 20             // this many are never most of a site
	holdFor    = 24 * time.Hour // before a second snapshot is believed
)

// An ending is the end of a step that is a whole snapshot. Its transactions are of bounded size, and the last of them
// stores the source's position.
type ending struct {
	c      *Collection
	source uint64
	step   *client.Step
	a      *Applied
	names  *snapshot // nil if none is known
}

// end drops the pages that a whole snapshot did not name, unless they are too many to be believed.
func (e *ending) end() error {
	c := e.c
	e.names = c.naming[e.source]
	if e.names == nil { // an earlier process read its beginning: absence proves nothing
		return c.update(func(u *update) error { return e.stand(u, func(*Source) {}) })
	}
	var src *Source
	var gone, elsewhere []frontier.PageID // elsewhere: another manifest names it
	total := 0
	err := c.reading(func(tx *bbolt.Tx) error {
		l := sources{b: tx.Bucket(sourcesBucket)}
		var err error
		if src, err = l.get(e.source); err != nil {
			return err
		}
		others, err := l.otherManifests(src)
		if err != nil {
			return err
		}
		all := tx.Bucket(namedBucket)
		return eachNamed(all, e.source, func(id frontier.PageID, _ named) error {
			total++
			if e.names.has(id) {
				return nil
			}
			for _, o := range others {
				if all.Get(namedKey(o, id)) != nil {
					elsewhere = append(elsewhere, id)
					return nil
				}
			}
			gone = append(gone, id)
			return nil
		})
	})
	if err != nil {
		return err
	}
	now := c.opts.Now()
	if many := c.copied == nil && len(gone) > mostFrom && 2*len(gone) > total; many && (src.Held.IsZero() || now.Sub(src.Held) < c.opts.hurried(holdFor)) {
		return e.hold(gone)
	}
	if len(elsewhere) > 0 {
		err := e.inParts(elsewhere, func(u *update, part []frontier.PageID, _ bool) error { return u.unname(e.source, part) })
		if err != nil {
			return err
		}
	}
	return e.drop(gone)
}

// stand stores the source's position, with a change of its record.
func (e *ending) stand(u *update, change func(*Source)) error {
	s, err := u.sources.get(e.source)
	if err != nil {
		return err
	}
	was := s.Doomed
	if change(s); s.Doomed != was {
		site, err := u.sites.get(s.Site)
		if err != nil {
			return err
		}
		site.Doomed = max(0, site.Doomed+s.Doomed-was)
	}
	return u.stand(s, e.step, e.a)
}

func eachNamed(b *bbolt.Bucket, source uint64, f func(id frontier.PageID, n named) error) error {
	prefix := sourceKey(source)
	cur := b.Cursor()
	last := frontier.PageID(0)
	for k, v := cur.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = cur.Next() {
		n, ok := parseNamed(v)
		if !ok || len(k) != 12 || record.KeyPage(k[8:]) <= last {
			return record.Damaged(namedBucket, k)
		}
		last = record.KeyPage(k[8:])
		if err := f(last, n); err != nil {
			return err
		}
	}
	return nil
}

// hold marks pages whose deletion is held back.
func (e *ending) hold(doomed []frontier.PageID) error {
	e.a.Held = len(doomed)
	return e.inParts(doomed, func(u *update, part []frontier.PageID, last bool) error {
		b := u.tx.Bucket(namedBucket)
		for _, id := range part {
			if err := b.Put(namedKey(e.source, id), isDoomed); err != nil {
				return err
			}
		}
		if !last {
			return nil
		}
		return e.stand(u, func(s *Source) {
			if s.Held.IsZero() {
				s.Held = u.now
			}
			s.Doomed = len(doomed)
		})
	})
}

// drop drops pages that the source does not name any more.
func (e *ending) drop(gone []frontier.PageID) error {
	return e.inParts(gone, func(u *update, part []frontier.PageID, last bool) error {
		if err := u.unname(e.source, part); err != nil {
			return err
		}
		for _, id := range part {
			w, err := u.pages.get(id)
			if err != nil {
				return err
			}
			if w == nil {
				continue
			}
			w.Listed, w.dirty = false, true
			if w.State == Gone {
				continue
			}
			if moved, err := e.inherit(u, w); err != nil {
				return err
			} else if moved {
				e.a.Moved++
				continue
			}
			if err := u.dropped1(w, ""); err != nil {
				return err
			}
			e.a.Gone++
		}
		if !last {
			return nil
		}
		return e.stand(u, func(s *Source) { s.Held, s.Doomed = time.Time{}, 0 })
	})
}

// inherit moves the content of a page that is about to be dropped to one that the snapshot has named with its digest, if
// that is still pending: a manifest says nothing of moves, and a renamed directory should not be fetched again.
func (e *ending) inherit(u *update, from *work) (moved bool, err error) {
	if e.names == nil || !from.has() || from.Stored.File == "" || e.names.owed[from.Digest] == 0 {
		return false, nil
	}
	to, err := u.pages.get(e.names.owed[from.Digest])
	if err != nil || to == nil || !to.Told || to.Debt != from.Digest {
		return false, err
	}
	said := *to
	err = (&applying{u: u, by: to.Signal}).carry(from, to)
	if to.claim, to.claimed, to.said, to.span = said.claim, said.claimed, said.said, said.span; to.Stored.File == "" { // the file was not there
		u.lose(to)
	}
	return true, err
}

// unname removes pages from those that a source has named.
func (u *update) unname(source uint64, pages []frontier.PageID) error {
	b := u.tx.Bucket(namedBucket)
	for _, id := range pages {
		if err := b.Delete(namedKey(source, id)); err != nil {
			return err
		}
	}
	return nil
}

// inParts runs f in transactions of bounded size, at least one.
func (e *ending) inParts(ids []frontier.PageID, f func(u *update, part []frontier.PageID, last bool) error) error {
	for {
		part := ids[:min(len(ids), dropAtOnce)]
		ids = ids[len(part):]
		var done *update
		err := e.c.update(func(u *update) error {
			done = u
			return f(u, part, len(ids) == 0)
		})
		if err != nil {
			return err
		}
		if e.a.Dropped = append(e.a.Dropped, done.batch.Dropped...); len(ids) == 0 {
			return nil
		}
	}
}

// Release drops the pages of a source whose deletion was held back. The Applied says how many, and which
// entries are no longer ready.
func (c *Collection) Release(source uint64) (Applied, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var a Applied
	var doomed []frontier.PageID
	err := c.reading(func(tx *bbolt.Tx) error {
		return eachNamed(tx.Bucket(namedBucket), source, func(id frontier.PageID, n named) error {
			if n.doomed {
				doomed = append(doomed, id)
			}
			return nil
		})
	})
	if err == nil {
		e := &ending{c: c, source: source, step: &client.Step{Whole: true}, a: &a}
		err = e.drop(doomed)
	}
	if err != nil {
		return Applied{}, fmt.Errorf("release deletions of source %d: %w", source, err)
	}
	return a, nil
}
