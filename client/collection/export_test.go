package collection

import (
	"encoding/binary"
	"errors"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/adjacency"
	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/journal"
)

// Entry returns the page's place in the queue, and false if it has none.
func (p *Page) Entry() (frontier.Entry, bool) { return p.entry() }

// Known returns the page number of a URL. It is fast: it compares 64 bits of a keyed hash and does not read
// the disk. With five million pages, one in 3,000 billion unknown URLs is taken for a known one.
func (c *Collection) Known(url string) (frontier.PageID, bool) {
	var buf [4]frontier.PageID
	ids := c.index.urls.Find(buf[:0], c.index.urls.Hash(url))
	if len(ids) == 0 {
		return 0, false
	}
	return ids[0], true
}

// Original returns the page of which p is a duplicate. It returns false if p is not or no longer a
// duplicate: its original is gone, or has other content. Then the links of p were never read: to read them,
// fetch it unconditionally.
func (c *Collection) Original(p *Page) (o Page, ok bool, err error) {
	if p.Original == 0 {
		return Page{}, false, nil
	}
	if o, ok, err = c.PageByID(p.Original); err != nil || !ok || !o.first(p.Parsed) {
		return Page{}, false, err
	}
	return o, true, nil
}

// Waiting returns all waiting entries, in order.
func (c *Collection) Waiting() (list []frontier.Entry, err error) {
	err = c.reading(func(tx *bbolt.Tx) error {
		for e, err := range c.stage.Later(tx, 0) {
			if err != nil {
				return err
			}
			list = append(list, e)
		}
		return nil
	})
	return list, err
}

// Used returns how many bytes of the file are in use.
func (c *Collection) Used() (n int64, err error) {
	err = c.reading(func(tx *bbolt.Tx) error {
		n = tx.Size() - int64(c.db.Stats().FreePageN+c.db.Stats().PendingPageN)*int64(c.db.Info().PageSize)
		return nil
	})
	return n, err
}

// HoldBack makes the collection buffer so many changes of its queue, so that
// a test sees them merged. Call it right after Open.
func (c *Collection) HoldBack(n int) { c.stage.HoldBack(n) }

// ReadRecords decodes bytes as the body of every kind of record, and returns
// each decoded record encoded again, by kind; nothing for malformed ones.
func ReadRecords(body []byte) map[string][]byte {
	out := map[string][]byte{}
	sealed := func(key []byte) []byte { return record.Seal(append([]byte(nil), body...), key, 0) }
	bare := func(b []byte) []byte { return b[:len(b)-4] }
	p := Page{ID: 7, Importance: unknown}
	if key := record.PageKey(7); parsePage(sealed(key[:]), &p, false) {
		out["page"] = bare(appendPage(nil, &p))
	}
	s := Site{ID: 7}
	if parseSite(sealed(record.SiteKey(7)), &s, codeSite) {
		out["site"] = bare(appendSite(&s, codeSite))
	}
	s = Site{ID: 7, Origin: "http://counted.example"}
	if parseSite(sealed(record.SiteKey(7)), &s, codeCounts) {
		out["counts"] = bare(appendSite(&s, codeCounts))
	}
	var src Source
	if key := sourceKey(7<<sourceBits | 1); parseSource(key, sealed(key), &src) {
		out["source"] = bare(appendSource(&src))
	}
	return out
}

// DropReferences makes the state look like that of an earlier program, which did not store what pages refer to.
func (c *Collection) DropReferences() error {
	return c.db.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket(adjacency.References) })
}

// SpoilReferences damages what a page refers to.
func (c *Collection) SpoilReferences(page frontier.PageID) error {
	return c.db.Update(func(tx *bbolt.Tx) error {
		key := record.PageKey(page)
		b := tx.Bucket(adjacency.References)
		return b.Put(key[:], append([]byte{1}, b.Get(key[:])...))
	})
}

// SetVersion makes the file look like that of another version of the program.
func (c *Collection) SetVersion(v uint64) error {
	return c.db.Update(func(tx *bbolt.Tx) error {
		k := sinks{format: v, committed: c.sinks.committed}
		return k.putMeta(tx, c.opts.Strategy.Name())
	})
}

// ForgetListed makes the state look like one of an earlier program, whose pages do
// not say whether they are listed.
func (c *Collection) ForgetListed() error {
	return c.update(func(u *update) error {
		for id := frontier.PageID(1); id <= u.pages.last; id++ {
			w, err := u.pages.get(id)
			if err != nil {
				return err
			}
			if w.Listed {
				w.Listed, w.dirty = false, true
			}
		}
		return u.tx.Bucket(metaBucket).Delete(listedKey)
	})
}

// CrashAfter makes the collection stop like a killed process: n file
// operations from now, in the middle of a transaction's file changes.
func (c *Collection) CrashAfter(n int) {
	c.sinks.mirror.Each = func() error {
		if n--; n < 0 {
			return errors.New("crashed by the test")
		}
		return nil
	}
}

// SpoilEvents damages a record of the journal that is part of the state: that of a change, or for 0, of the whole.
func (c *Collection) SpoilEvents(seq uint64) error {
	return c.db.Update(func(tx *bbolt.Tx) error {
		b, key := tx.Bucket([]byte("changes")), binary.BigEndian.AppendUint64(nil, seq)
		if seq == 0 {
			b, key = tx.Bucket(metaBucket), []byte("journal")
		}
		record := append([]byte(nil), b.Get(key)...)
		return b.Put(key, record[:len(record)-1])
	})
}

// DropEvents removes the journal from the state, as a kill may while it is replaced.
func (c *Collection) DropEvents() error { return journal.Copy(c.db, nil) }

// BlockEvents makes the journal unable to drop a change, until the function that it returns is called.
func (c *Collection) BlockEvents(seq uint64) (unblock func() error, err error) {
	key := binary.BigEndian.AppendUint64(nil, seq)
	var record []byte
	err = c.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("changes"))
		record = append(record, b.Get(key)...)
		err := b.Delete(key)
		if err == nil {
			_, err = b.CreateBucket(key)
		}
		return err
	})
	return func() error {
		return c.db.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte("changes"))
			return errors.Join(b.DeleteBucket(key), b.Put(key, record))
		})
	}, err
}
