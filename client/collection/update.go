package collection

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/adjacency"
	"github.com/parleyweb/parley/client/collection/internal/mirror"
	"github.com/parleyweb/parley/client/collection/internal/outbox"
	"github.com/parleyweb/parley/client/collection/internal/queue"
	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/client/collection/internal/urls"
	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// An update is one transaction: what it has read and changed, and will write at the end, in the order of the keys.
type update struct {
	c   *Collection
	tx  *bbolt.Tx
	now time.Time // to the millisecond

	pages   pages
	sites   *sites
	sources sources
	links   adjacency.Changes
	firsts  firsts
	batch   *queue.Batch

	files  *mirror.Names // nil if no file changes
	copied *copyMeta     // nil if this is not a copy
	out    *Committed
}

// update runs f in one durable transaction, and then publishes its changes in memory. The caller holds c.mu.
func (c *Collection) update(f func(u *update) error) error {
	if c.broken != nil {
		return c.broken
	}
	var u *update
	was := c.sinks.committed
	err := boltfile.RecoverDamage(func() error {
		tx, err := c.db.Begin(true)
		if errors.Is(err, boltfile.ErrClosed) {
			return fs.ErrClosed
		} else if err != nil {
			return err
		}
		defer c.db.Rollback(tx)
		if c.touched >= giveBackAfter {
			c.touched = 0
			boltfile.ReleasePages(tx)
		}
		u = newUpdate(c, tx)
		if err := f(u); err != nil {
			return err
		}
		if err := u.promote(); err != nil {
			return err
		}
		if err := u.flush(); err != nil {
			return err
		}
		if u.copied != nil && *u.copied != *c.copied {
			if err := u.copied.write(tx); err != nil {
				return err
			}
		}
		if err := c.sinks.sync(); err != nil {
			return err
		}
		if state := c.sinks.state(); string(state) != string(c.sinks.committed) {
			c.sinks.committed = clone(state)
			if err := c.writeMeta(tx); err != nil {
				return err
			}
		}
		if err := c.sinks.log.Commit(tx); err != nil {
			if tx.DB() != nil { // bbolt's Commit, which closes it, was not reached
				return err
			}
			c.broken = fmt.Errorf("reopen the collection: it is unknown whether the last transaction is on disk: %w", err)
			return err
		}
		u.publish()
		c.touched += len(u.pages.work) + u.batch.Len()
		return nil
	})
	if errors.Is(err, ErrDamaged) {
		c.broken = err // bbolt's memory of the file may be wrong as well
	}
	if err != nil {
		c.sinks.committed = was
		c.sinks.rollback()
		c.index.outbox = outbox.Box{}
		return err
	}
	// Readers of the log come last: what they see is in the state and in its place.
	if u.files != nil {
		err = c.runOps()
	}
	if err == nil {
		err = c.sinks.witness()
	}
	if err == nil {
		err = c.sinks.log.Publish()
	}
	if err != nil {
		c.broken = fmt.Errorf("reopen the collection: committed changes did not reach the mirror or the readers of the log: %w", err)
	}
	return c.broken
}

func newUpdate(c *Collection, tx *bbolt.Tx) *update {
	milli := record.Milli(c.opts.Now())
	now := record.Time(milli)
	v := c.view(tx)
	v.sites.begin(now, c.opts.MaxSites)
	u := &update{c: c, tx: tx, now: now, pages: newPages(v), sites: v.sites, sources: sources{b: tx.Bucket(sourcesBucket)},
		links: adjacency.In(tx), firsts: firsts{b: tx.Bucket(queue.Digests), stage: c.stage, changed: map[uint64]frontier.PageID{}},
		batch: c.stage.Begin(tx, milli), out: &Committed{}}
	if c.copied != nil {
		m := *c.copied
		u.copied = &m
	}
	return u
}

// flush writes all changes, in the order of the keys.
func (u *update) flush() error {
	ids := make([]frontier.PageID, 0, len(u.pages.work))
	for id, w := range u.pages.work {
		if w.dirty {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		if w := u.pages.work[id]; w.proved {
			if err := u.holds(w); err != nil {
				return err
			}
		}
		if err := u.put(u.pages.work[id]); err != nil {
			return err
		}
	}
	if err := u.appendURLs(); err != nil {
		return err
	}
	if !u.c.opts.NoLinks {
		if err := u.links.Flush(); err != nil {
			return err
		}
	}
	if err := u.sites.flush(u.tx, u.batch); err != nil {
		return err
	}
	if err := u.c.index.outbox.Flush(u.tx); err != nil {
		return err
	}
	return u.batch.Flush(u.pages.last, len(u.sites.origins), u.firsts.changed)
}

// ascending is the fill of bbolt pages whose keys are written in order. bbolt's default, one half, is for
// random keys.
const ascending = 0.9

// put writes a page, and updates the queue and its site's counts.
func (u *update) put(w *work) error {
	w.rank = queue.Sane(w.rank)
	w.Heard.Notified = w.Told
	s, err := u.sites.get(w.Site)
	if err != nil {
		return err
	}
	e, _ := w.Page.entry()
	s.Ready += u.batch.Replace(w.entry, e, w.visited)
	if w.isNew {
		s.Pages++
	}
	s.count(w.was, w.tally())
	if !w.isNew || !w.plain() {
		u.pages.scratch = appendPage(u.pages.scratch[:0], &w.Page)
		u.batch.Record(w.ID, clone(u.pages.scratch))
	}
	return nil
}

// appendURLs appends the URLs of new pages to the urls bucket.
func (u *update) appendURLs() error {
	list := make([]urls.Known, len(u.pages.added))
	for i, w := range u.pages.added {
		list[i] = urls.Known{ID: w.ID, Site: w.Site, Depth: w.Depth, By: w.By.code(), Dynamic: w.Dynamic, Found: record.Milli(w.Found), Rank: w.rank,
			Path: []byte(w.URL[len(u.sites.origins[w.Site-1]):])}
	}
	return urls.Append(u.tx.Bucket(urls.Bucket), list)
}

// publish makes committed changes visible in memory.
func (u *update) publish() {
	x := &u.c.index
	x.mu.Lock()
	u.sites.publish()
	x.last = u.pages.last
	if u.copied != nil {
		u.c.copied = u.copied
	}
	x.mu.Unlock()
	u.batch.Publish()
	for _, w := range u.pages.added {
		x.urls.Add(x.urls.Hash(w.URL), w.ID)
	}
}
