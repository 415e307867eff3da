package collection

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/fresh"
	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// Never is the At of what is not to be asked for.
var Never = time.UnixMilli(never).UTC()

// ErrHeld is returned by Open when another process has the collection.
var ErrHeld = boltfile.ErrHeld

// ErrDamaged is returned where the state is not what was written: its disk has
// lost some of it, or it is no state.
var ErrDamaged = boltfile.ErrDamaged

// ErrVersion is returned by Open for a state that another version of the program
// has written, whole as it is.
var ErrVersion = errors.New("state is of another version")

// Options says how a collection is kept. The zero value keeps no contents.
type Options struct {
	Contents Contents // none, WARC, a mirror directory, or both
	Coding   string   // of WARC records: "", "gzip" or "zstd"
	MaxWARC  int64    // rotate after so many bytes; 0 means 1 GiB
	Answers  Answers  // which are archived that bring no page; zero: redirects, 404 and 410
	NoLinks  bool     // do not keep links

	// Site makes the collection the copy of one site that tells of itself, whose
	// base it is, an absolute URL that ends in "/". Contents must be Mirror then, and its files
	// stand in Root, named as on the site; Root is empty at first, may hold the
	// collection in its ".parley", and is one process's at a time. See copy.go.
	Site, Root string

	// Info is said at the head of each archive: "software", "operator",
	// "http-header-user-agent" and so on.
	Info map[string]string

	// MaxEvents bounds how many changes are remembered for those who follow.
	// Zero means 1 million. None is remembered for longer than 90 days. Whoever
	// is further behind begins anew.
	MaxEvents int

	Policy   fresh.Policy               // nil means the one that decided last (KeptPolicy), and fresh.Thesis{} in a new collection
	TextOnly bool                       // a page whose main text is what it was has not changed, for the Policy
	Strategy frontier.Strategy          // nil means breadth-first
	Quality  func(*Page, *Site) float64 // V14: intrinsic quality, 0..1; nil: all alike

	// What is found beyond these is refused: counted, and forgotten.
	MaxPages int // zero means 10 million (G02); at most 4 billion. Of a copy it is those that are not gone
	MaxSites int // zero means 100,000 (G03)
	PerSite  int // of one site (G04); zero: no other limit than MaxPages. What a person asks for is taken

	// MaxState bounds the bytes in use of a copy's state.db: what is new beyond that is not taken in. Zero is no bound.
	MaxState int64

	Again Again

	// Hurry, above zero, bounds the waits of the collection's own that Again does not
	// name, as Crawler.Hurry does.
	Hurry time.Duration

	ReadOnly bool
	Wait     time.Duration // for a collection that another process holds
	Now      func() time.Time
}

// Contents says where bodies go.
type Contents uint8

const (
	WARC Contents = 1 << iota
	Mirror
)

// Again says when pages are asked for again that gave nothing. Zero values are
// those that are printed beside them.
type Again struct {
	Failing []time.Duration // after the first failure in a row, and so on: 1 min, 10 min, 1 h, then 12 h four times (P01)
	Lost    time.Duration   // after all of those: 7 days (P05)
	Missing time.Duration   // after a first 404: 4 h. A second one as much later means that the page is gone
	Refused time.Duration   // after another answer that will not pass soon, such as 403: 7 days
	Gone    time.Duration   // after a page was found to be gone: 30 days
	Moved   time.Duration   // after a redirect: 7 days
	Missed  []time.Duration // after answers that are not what was told: 2 s, 10 s, 1 min; then they are believed
}

// Hurried bounds all that is there, and all that is not said, by a wait above zero.
func (a Again) Hurried(most time.Duration) Again {
	if most <= 0 {
		return a
	}
	a = a.withDefaults()
	for _, list := range []*[]time.Duration{&a.Failing, &a.Missed} {
		*list = slices.Clone(*list)
		for i, d := range *list {
			(*list)[i] = min(d, most)
		}
	}
	for _, d := range []*time.Duration{&a.Lost, &a.Missing, &a.Refused, &a.Gone, &a.Moved} {
		*d = min(*d, most)
	}
	return a
}

func (a Again) withDefaults() Again {
	or := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	if len(a.Failing) == 0 {
		a.Failing = []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 12 * time.Hour, 12 * time.Hour, 12 * time.Hour, 12 * time.Hour}
	}
	if a.Missed == nil {
		a.Missed = []time.Duration{2 * time.Second, 10 * time.Second, time.Minute}
	}
	const day = 24 * time.Hour
	or(&a.Lost, 7*day)
	or(&a.Missing, 4*time.Hour)
	or(&a.Refused, 7*day)
	or(&a.Gone, 30*day)
	or(&a.Moved, 7*day)
	return a
}

// hurried is a wait, at most Hurry where that is set.
func (o *Options) hurried(d time.Duration) time.Duration { return pause.AtMost(d, o.Hurry) }

const maxPages = 1<<32 - 2

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.MaxPages <= 0 {
		d.MaxPages = 10_000_000
	}
	if uint64(d.MaxPages) > maxPages {
		d.MaxPages = int(uint64(maxPages) & math.MaxInt)
	}
	if d.MaxSites <= 0 {
		d.MaxSites = 100_000
	}
	if d.Strategy == nil {
		d.Strategy = frontier.BreadthFirst{}
	}
	if d.Quality == nil {
		d.Quality = func(*Page, *Site) float64 { return 1 }
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	d.Again = d.Again.withDefaults()
	return d
}

// A Turn is what a turn of the crawler learned, taken in as one transaction.
type Turn struct {
	Visits  []Visit
	Finds   []Find
	Sources []Source // new ones (ID 0), and what became of those that were asked; the cursor is Apply's
	Sites   []Site   // Delay, Soft404, Fault, FaultAt, Quiet, Trust, Shape, Families, Belief, and IP if Resolved is later, are taken over, by ID or else Origin

	// Confirmed are pages that came due by their age, but of which their site
	// would have told a change: they are taken to be what they were, and planned
	// as if they had been asked for (F16). What is not held, or was told of
	// meanwhile, stays as it is.
	Confirmed []frontier.PageID

	// Unbelieved are pages that were told of by somebody who has turned out to
	// lie since: they owe nothing, and are planned by their own history.
	Unbelieved []frontier.PageID

	// Replanned are pages that the policy is to decide about anew, since what it
	// goes by has changed.
	Replanned []frontier.PageID
}

// Committed says what a Turn came to.
type Committed struct {
	Visited []Visited        // as the Visits
	New     []Page           // pages that were not known
	Sources []Source         // those that are new
	Queue   []frontier.Entry // ready now: for the frontier's Add
	Dropped []frontier.Entry // ready before and not any more, of pages that were not visited: for the frontier's Drop
	Refused int              // finds that are no URL, or beyond a limit
}

// A Visited is where a page stands after a visit.
type Visited struct {
	Page                Page
	Before              fresh.History // as it was believed before the visit
	Stated              string        // the Last-Modified that came with the visit before
	Changed             bool          // other content than before, or some where none was held: what events tell
	Differs             bool          // the copy differs from the one before, as History was told: with TextOnly by its text; false for the first
	Demoted             bool          // of a copy: the digests of its site are not waited for from now on, since all were wrong
	Duplicate           bool          // its links were ignored
	Matched, Mismatched bool          // with the digest that was told
	Asked               int           // how often it was asked for before for the same claim, and was not what was told
	Wavered             bool          // it was not what was told, and asked for again it was another body: nobody changed the page
	Unstable            Unstable      // as the page is by now, or its site in general; a Mismatched page that is says nothing by its digest
	Gone                bool
}

// Applied says what a Step came to.
type Applied struct {
	Reception Reception // what became of each change

	Owed    int // pages that are to be asked for because of it
	Moved   int // pages whose content has another URL now, without a request
	Gone    int // pages dropped
	Known   int // changes that changed nothing
	Foreign int // changes left out: another origin, or no URL to keep
	Refused int // changes left out: not admitted, or beyond a limit
	Ignored int // changes that were not believed, see ApplyOptions
	Held    int // pages whose deletion is held back, see Release
	New     []Page
	Queue   []frontier.Entry // as in Committed
	Dropped []frontier.Entry

	under protocol.Digest // see ApplyOptions
}

// A Reception says what became of what a source told (C30): each change was
// one of three, so that Received is the sum of the others.
type Reception struct {
	Received  int `json:"received"`
	Processed int `json:"processed"` // at once: a page is gone, or moved, or what is held is right
	Enqueued  int `json:"enqueued"`  // a page is to be asked for
	Ignored   int `json:"ignored"`   // not believed, not admitted, or of another origin
}

// Paid says that so many pages that were to be asked for have come already.
func (r *Reception) Paid(pages int) {
	pages = min(pages, r.Enqueued)
	r.Enqueued, r.Processed = r.Enqueued-pages, r.Processed+pages
}

// Add adds up what became of what was told.
func (r *Reception) Add(o *Reception) {
	r.Received, r.Processed, r.Enqueued, r.Ignored = r.Received+o.Received, r.Processed+o.Processed, r.Enqueued+o.Enqueued, r.Ignored+o.Ignored
}

// A Collection is safe for use by many goroutines; it has one writer at a
// time, which Commit and Apply wait for.
type Collection struct {
	dir  string
	opts Options
	db   *boltfile.File

	mu        sync.Mutex // the writer's turn, and what only the writer uses
	copied    *copyMeta  // nil: it is no copy. Readers want mem
	root      string     // of the files of a copy; empty: mirrorDir
	broken    error      // what was read from a file that is damaged may be wrong
	table     findTable
	touched   int    // records, since pages of the file were given back
	committed []byte // what stateOfContents gave to the last transaction
	contents  contents
	naming    map[uint64]*snapshot // by source: one that is arriving

	policy atomic.Pointer[fresh.Policy]

	seen  *seen
	stage *stage
	last  frontier.PageID // guarded by mem

	mem     sync.RWMutex // guards what is held in memory of the state
	sites   []*Site      // by ID - 1; a Site is replaced, never changed
	names   []string     // their origins; appended to only
	origins map[string]frontier.SiteID
}

// Open opens or creates the collection in a directory. One process has it at a
// time: another gets ErrHeld. A state that is not what was written is refused
// with ErrDamaged, or with ErrVersion if this program cannot know what it is.
func Open(dir string, o *Options) (*Collection, error) {
	c := &Collection{dir: dir, opts: o.withDefaults(), seen: newSeen(), origins: map[string]frontier.SiteID{}, naming: map[uint64]*snapshot{}, stage: newStage()}
	c.SetPolicy(orThesis(c.opts.Policy))
	if err := c.open(filepath.Join(dir, "state.db")); err != nil {
		if errors.Is(err, ErrDamaged) {
			err = fmt.Errorf("%w: put a copy of the directory in its place, or move state.db away: the next crawl makes it anew, and what is stored stays", err)
		}
		return nil, fmt.Errorf("open collection %s: %w", dir, err)
	}
	if c.opts.Policy == nil {
		kept, _ := c.KeptPolicy()
		c.SetPolicy(orThesis(kept))
	}
	return c, nil
}

// Close ends the use of the collection. It waits for whoever reads or writes.
func (c *Collection) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := errors.Join(c.closeContents(), c.db.Close())
	if err != nil {
		return fmt.Errorf("close collection %s: %w", c.dir, err)
	}
	return nil
}

// Len returns how many pages are known.
func (c *Collection) Len() int {
	c.mem.RLock()
	defer c.mem.RUnlock()
	return int(c.last)
}

// Memory returns about how many bytes of memory the set of known URLs takes.
func (c *Collection) Memory() int { return c.seen.bytes() }

// QueueMemory returns about how many bytes of memory the part of the queue
// takes that is not in its place on disk yet.
func (c *Collection) QueueMemory() int { return c.stage.bytes() }

// Known returns the number of the page of a URL, quickly: it compares 64 bits
// of a hash with a secret key and reads no disk. With five million pages, one
// in 3,000 billion unknown URLs is taken for a known one.
func (c *Collection) Known(url string) (frontier.PageID, bool) {
	var buf [4]frontier.PageID
	ids := c.seen.find(buf[:0], c.seen.hash(url))
	if len(ids) == 0 {
		return 0, false
	}
	return ids[0], true
}

// Page returns what is known of a URL, and false if it is not known.
func (c *Collection) Page(url string) (p Page, ok bool, err error) {
	var buf [4]frontier.PageID
	ids := c.seen.find(buf[:0], c.seen.hash(url))
	if len(ids) == 0 {
		return Page{}, false, nil
	}
	err = c.reading(func(tx *bbolt.Tx) error {
		v := c.view(tx)
		for _, id := range ids {
			if ok, err = v.page(id, &p); err != nil || ok && p.URL == url {
				return err
			}
		}
		p, ok = Page{}, false
		return nil
	})
	if err != nil {
		return Page{}, false, fmt.Errorf("read page %s: %w", url, err)
	}
	return p, ok, nil
}

// PageByID returns what is known of a page, and false if there is none.
func (c *Collection) PageByID(id frontier.PageID) (p Page, ok bool, err error) {
	err = c.reading(func(tx *bbolt.Tx) error {
		ok, err = c.view(tx).page(id, &p)
		return err
	})
	if err != nil {
		return Page{}, false, fmt.Errorf("read page %d: %w", id, err)
	}
	return p, ok, nil
}

// PagesByID returns what is known of pages, in the order of their IDs as given.
// An ID that is none leaves the zero Page.
func (c *Collection) PagesByID(ids []frontier.PageID) ([]Page, error) {
	list := make([]Page, len(ids))
	err := c.reading(func(tx *bbolt.Tx) error {
		v := c.view(tx)
		for i, id := range ids {
			if ok, err := v.page(id, &list[i]); err != nil {
				return err
			} else if !ok {
				list[i] = Page{}
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read pages: %w", err)
	}
	return list, nil
}

// Pages tells all pages in the order of their IDs, each as it is when its time
// comes. The loop may use the collection, and takes as long as it likes.
func (c *Collection) Pages(ctx context.Context) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		list := make([]Page, 0, 8*blockLen)
		for next := frontier.PageID(1); ; {
			list = list[:0]
			err := ctx.Err()
			if err == nil {
				err = c.reading(func(tx *bbolt.Tx) error {
					list, err = c.view(tx).pagesFrom(list, next)
					return err
				})
			}
			if err != nil {
				yield(Page{}, fmt.Errorf("read pages: %w", err))
				return
			}
			for i := range list {
				if !yield(list[i], nil) {
					return
				}
			}
			if len(list) < cap(list) {
				return
			}
			next = list[len(list)-1].ID + 1
		}
	}
}

// pagesFrom appends pages from an ID on, as many as fit into list.
func (v *view) pagesFrom(list []Page, id frontier.PageID) ([]Page, error) {
	key := blockKey(id)
	cur := v.urls.Cursor()
	for k, raw := cur.Seek(key[:]); k != nil && len(list) < cap(list); k, raw = cur.Next() {
		if err := v.block.open(k, raw); err != nil {
			return list, err
		}
		for len(list) < cap(list) && v.block.next(&v.block.d) {
			if v.block.id < id {
				continue
			}
			if v.block.id > v.last {
				return list, nil
			}
			list = append(list, Page{})
			if err := v.rest(&list[len(list)-1]); err != nil {
				return list, err
			}
		}
		if v.block.d.bad {
			return list, damaged(urlsBucket, k)
		}
	}
	return list, nil
}

// Links returns to which pages a page leads, in the order of their IDs; none
// if links are not kept.
func (c *Collection) Links(id frontier.PageID) (list []frontier.PageID, err error) {
	err = c.reading(func(tx *bbolt.Tx) error {
		key := pageKey(id)
		raw := tx.Bucket(linksBucket).Get(key[:])
		if raw == nil {
			return nil
		}
		var ok bool
		if list, ok = parseLinks(raw); !ok {
			return damaged(linksBucket, key[:])
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read links of page %d: %w", id, err)
	}
	return list, nil
}
