package collection

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/queue"
	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/client/collection/internal/urls"
	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/internal/boltfile"
)

// An update is one transaction: the pages and sites that it has read and changed, and what it will write at
// the end, in the order of the keys.
type update struct {
	*view
	tx      *bbolt.Tx
	now     time.Time // to the millisecond
	batch   *queue.Batch
	digests *bbolt.Bucket

	work  map[frontier.PageID]*work
	spare []work  // preallocated for the next pages
	added []*Site // new sites
	ids   map[string]frontier.SiteID
	last  frontier.PageID
	fresh []*work // new pages, in the order of their IDs

	born    map[frontier.SiteID]int               // number of new pages by site
	firsts  map[uint64]frontier.PageID            // changes of the digests bucket; 0 removes an entry
	links   map[frontier.PageID][]frontier.PageID // of the pages whose links have changed
	numbers []frontier.PageID                     // memory for links
	scratch []byte
	news    int

	copied    *copyMeta // nil if this is not a copy
	finish    func()    // run after flush: fills in the results
	out       *Committed
	sourcesOf map[frontier.SiteID]uint64
	named     map[sourceName]uint64
}

// A work is a page in an update.
type work struct {
	Page
	was     tally          // before the update
	entry   frontier.Entry // its place in the queue before; zero: none
	isNew   bool
	dirty   bool
	planned bool // At is decided, plan leaves it
	visited bool
	proved  bool // its content has the digest that its site names: see holds
}

// update runs f in one durable transaction, and then publishes its changes in memory. The caller holds c.mu.
func (c *Collection) update(f func(u *update) error) error {
	if c.broken != nil {
		return c.broken
	}
	news := 0
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
		u := c.newUpdate(tx)
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
		if u.finish != nil {
			u.finish()
		}
		if err := c.syncContents(); err != nil {
			return err
		}
		if state := c.stateOfContents(); string(state) != string(c.committed) {
			c.committed = clone(state)
			if err := c.writeMeta(tx); err != nil {
				return err
			}
		}
		if err := tx.Commit(); err != nil {
			// It is unknown whether the transaction is on disk.
			c.broken = fmt.Errorf("reopen the collection: it is unknown whether the last transaction is on disk: %w", err)
			return err
		}
		u.publish()
		c.touched += len(u.work) + u.batch.Len()
		news = u.news
		return nil
	})
	if errors.Is(err, ErrDamaged) {
		c.broken = err // bbolt's memory of the file may be wrong as well
	}
	if err != nil {
		c.rollback()
		return err
	}
	if news > 0 {
		if err = c.pass(); err != nil {
			c.broken = fmt.Errorf("reopen the collection: committed changes did not reach the journal or the mirror: %w", err)
			return c.broken
		}
	}
	return nil
}

func (c *Collection) newUpdate(tx *bbolt.Tx) *update {
	now := record.Milli(c.opts.Now())
	u := &update{view: c.view(tx), tx: tx, now: record.Time(now), batch: c.stage.Begin(tx, now), digests: tx.Bucket(queue.Digests),
		work: map[frontier.PageID]*work{}, ids: map[string]frontier.SiteID{},
		last: c.last, firsts: map[uint64]frontier.PageID{}, links: map[frontier.PageID][]frontier.PageID{}, out: &Committed{}}
	u.dirty, u.born = map[frontier.SiteID]*Site{}, map[frontier.SiteID]int{}
	if c.copied != nil {
		m := *c.copied
		u.copied = &m
	}
	return u
}

// alloc returns a zero work, allocated in batches.
func (u *update) alloc() *work {
	if len(u.spare) == 0 {
		u.spare = make([]work, 32)
	}
	w := &u.spare[0]
	u.spare = u.spare[1:]
	return w
}

// get returns a page, or nil if it does not exist.
func (u *update) get(id frontier.PageID) (*work, error) {
	if w := u.work[id]; w != nil {
		return w, nil
	}
	w := u.alloc()
	ok, err := u.page(id, &w.Page)
	if err != nil || !ok {
		return nil, err
	}
	w.was = w.tally()
	w.entry, _ = w.Page.Entry()
	u.work[id] = w
	return w, nil
}

// site returns a site that may be changed.
func (u *update) site(id frontier.SiteID) (*Site, error) {
	if s := u.dirty[id]; s != nil {
		return s, nil
	}
	if id == 0 || int(id) > len(u.origins) {
		return nil, fmt.Errorf("unknown site %d", id)
	}
	s := *u.siteAt(id)
	u.dirty[id] = &s
	return &s, nil
}

// siteOf returns the site of an origin, creating it if needed; nil if MaxSites is reached.
func (u *update) siteOf(origin string) *Site {
	id := u.c.origins[origin]
	if id == 0 {
		id = u.ids[origin]
	}
	if id != 0 {
		s, _ := u.site(id)
		return s
	}
	if len(u.origins) >= u.c.opts.MaxSites {
		return nil
	}
	s := &Site{ID: frontier.SiteID(len(u.origins) + 1), Origin: origin, Found: u.now}
	u.added = append(u.added, s)
	u.origins = append(u.origins, origin) // beyond the length that others see
	u.ids[origin], u.dirty[s.ID] = s.ID, s
	return s
}

// flush writes all changes, in the order of the keys.
func (u *update) flush() error {
	ids := make([]frontier.PageID, 0, len(u.work))
	for id, w := range u.work {
		if w.dirty {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		if u.work[id].proved {
			if err := u.holds(u.work[id]); err != nil {
				return err
			}
		}
		if err := u.put(u.work[id]); err != nil {
			return err
		}
	}
	if err := u.appendURLs(); err != nil {
		return err
	}
	if err := u.flushLinks(); err != nil {
		return err
	}
	if err := u.batch.Flush(u.last, len(u.origins), u.firsts); err != nil {
		return err
	}
	return u.flushSites()
}

// ascending is the fill of bbolt pages whose keys are written in order. bbolt's default, one half, is for
// random keys.
const ascending = 0.9

// put writes a page, and updates the queue and its site's counts.
func (u *update) put(w *work) error {
	w.rank = queue.Sane(w.rank)
	w.History.Notified = w.Told
	s, err := u.site(w.Site)
	if err != nil {
		return err
	}
	e, _ := w.Page.Entry()
	s.Ready += u.batch.Replace(w.entry, e, w.visited)
	if w.isNew {
		s.Pages++
	}
	s.count(w.was, w.tally())
	if w.isNew && w.plain() {
		return nil
	}
	u.scratch = appendPage(u.scratch[:0], &w.Page)
	u.batch.Record(w.ID, clone(u.scratch))
	return nil
}

// plain reports whether the URL's record alone describes a new page.
func (w *work) plain() bool { return w.State == Known && !w.Told && w.At.IsZero() && w.FetchURL == "" }

// idsFor returns an empty list with room for n page numbers.
func (u *update) idsFor(n int) []frontier.PageID {
	if len(u.numbers) < n {
		u.numbers = make([]frontier.PageID, max(n, 4096))
	}
	list := u.numbers[:0:n]
	u.numbers = u.numbers[n:]
	return list
}

// appendURLs appends the URLs of new pages to the urls bucket.
func (u *update) appendURLs() error {
	list := make([]urls.Known, len(u.fresh))
	for i, w := range u.fresh {
		list[i] = urls.Known{ID: w.ID, Site: w.Site, Depth: w.Depth, By: w.By.code(), Dynamic: w.Dynamic, Found: record.Milli(w.Found), Rank: w.rank,
			Path: []byte(w.URL[len(u.origins[w.Site-1]):])}
	}
	return urls.Append(u.urls, list)
}

func (u *update) flushSites() error {
	ids := make([]frontier.SiteID, 0, len(u.dirty))
	for id := range u.dirty {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	sites, counts := u.tx.Bucket(sitesBucket), u.tx.Bucket(countsBucket)
	sites.FillPercent, counts.FillPercent = ascending, ascending
	for _, id := range ids {
		s := u.dirty[id]
		was := &Site{}
		if int(id) <= len(u.c.sites) {
			was = u.c.sites[id-1]
		}
		if !sameSlow(s, was) {
			if err := sites.Put(record.SiteKey(id), appendSite(nil, s)); err != nil {
				return err
			}
		}
		if !sameCounts(s, was) {
			if err := counts.Put(record.SiteKey(id), appendCounts(nil, s)); err != nil {
				return err
			}
		}
	}
	return nil
}

func sameSlow(a, b *Site) bool {
	return a.Origin == b.Origin && a.IP == b.IP && a.Resolved.Equal(b.Resolved) && a.Delay == b.Delay && a.Soft404 == b.Soft404 &&
		a.Fault == b.Fault && a.FaultAt.Equal(b.FaultAt) && a.Quiet.Equal(b.Quiet) &&
		string(a.Trust) == string(b.Trust) && string(a.Shape) == string(b.Shape) && string(a.Families) == string(b.Families) && a.Belief == b.Belief
}

func sameCounts(a, b *Site) bool {
	as, bs := a.counts(), b.counts()
	for i := range as {
		if *as[i] != *bs[i] {
			return false
		}
	}
	return a.Requests == b.Requests && a.Bytes == b.Bytes
}

// publish makes committed changes visible in memory.
func (u *update) publish() {
	c := u.c
	c.mem.Lock()
	c.sites = append(c.sites, u.added...)
	c.names = u.origins
	for id, s := range u.dirty {
		c.sites[id-1] = s
	}
	for _, s := range u.added {
		c.origins[s.Origin] = s.ID
	}
	c.last = u.last
	if u.copied != nil {
		c.copied = u.copied
	}
	c.mem.Unlock()
	u.batch.Publish()
	for _, w := range u.fresh {
		c.seen.Add(c.seen.Hash(w.URL), w.ID)
	}
}
