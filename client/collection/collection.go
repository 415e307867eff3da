package collection

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection/internal/adjacency"
	"github.com/parleyweb/parley/client/collection/internal/mirror"
	"github.com/parleyweb/parley/client/collection/internal/queue"
	"github.com/parleyweb/parley/client/collection/internal/urls"
	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/internal/engine/contents"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// Never is the At of a page that is not to be fetched.
var Never = time.UnixMilli(never).UTC()

// ErrHeld is returned by Open when another process has the collection.
var ErrHeld = boltfile.ErrHeld

// ErrDamaged is returned for a damaged state: the disk has lost some of it, or the file is not a state at all.
var ErrDamaged = boltfile.ErrDamaged

// ErrVersion is returned by Open for an undamaged state in the format of another version of the program.
var ErrVersion = errors.New("state is of another version")

// Options configures a collection. The zero value stores no contents.
type Options struct {
	Contents Contents // none, WARC, a mirror directory, or both
	Coding   string   // compression of WARC records: "", "gzip" or "zstd"
	MaxWARC  int64    // rotate after this many bytes; 0 means 1 GiB
	CopyTo   string   // where [CopyWARC] copies files to: a directory, or s3://BUCKET/PREFIX?endpoint=URL&region=NAME; empty: where it did last
	Answers  Answers  // which answers without a page are archived; zero: redirects, 404 and 410
	NoLinks  bool     // store neither links nor what else pages refer to

	// Site makes the collection the copy of one site that publishes a manifest. It is the site's base, an
	// absolute URL that ends in "/". Contents must be Mirror then, and the files stand in Root, named as on
	// the site; Root is empty at first, may hold the collection in its ".parley", and belongs to one process
	// at a time. A copy whose site has moved, see [Collection.Move], is opened by any base that it had. See copy.go.
	Site, Root string

	// Info is written at the head of each archive: "operator", "http-header-user-agent" and so on. Empty fields are left out.
	Info map[string]string

	Requests bool // also archive the requests, each after its response

	// MaxEvents bounds how many changes are kept for subscribers. Zero means 1 million. No change is kept
	// for longer than 90 days. A subscriber that is further behind starts over.
	MaxEvents int

	Policy   fresh.Policy               // nil means the policy used last (Revisits.Kept), and fresh.Thesis{} in a new collection
	Strategy frontier.Strategy          // nil means breadth-first
	Quality  func(*Page, *Site) float64 // V14: intrinsic quality, 0..1; nil: all alike

	// New URLs beyond these limits are refused: counted, and forgotten.
	MaxPages int // zero means 10 million (G02); at most 4 billion. In a copy, pages that are gone do not count
	MaxSites int // zero means 100,000 (G03)
	PerSite  int // of one site (G04); zero: no limit but MaxPages. URLs that a person adds are always admitted

	// Part returns the part of the web that a URL belongs to, by one URL of it, and how many URLs of that part may be stored, in place of
	// PerSite. An empty string means that PerSite applies. Nil: there are no parts.
	Part func(url string) (part string, most int)

	Dates protocol.DateLimits // of the dates of modification that sites state

	// MaxState bounds the bytes in use of a copy's state.db, without the journal of events: nothing new is admitted
	// beyond that. Zero means no bound.
	MaxState int64

	Again Again

	// Hurry, if above zero, bounds the waits of the collection that Again does not name, as Crawler.Hurry does.
	Hurry time.Duration

	ReadOnly bool
	State    string        // with ReadOnly: the file to read in place of state.db, a copy by [Backup]; the contents are those in the directory
	Log      *slog.Logger  // nil is silent
	Wait     time.Duration // how long Open waits for another process to close the collection
	Now      func() time.Time
}

// Contents selects where bodies are stored.
type Contents uint8

const (
	WARC Contents = 1 << iota
	Mirror
)

// Again sets when pages that gave no content are fetched again. A zero value means the default in its comment.
type Again struct {
	Failing []time.Duration // after the first, second, ... failure in a row: 1 min, 10 min, 1 h, then 12 h four times (P01)
	Lost    time.Duration   // after all of Failing: 7 days (P05)
	Missing time.Duration   // after a first 404: 4 h. A second 404 at least this much later means that the page is gone
	Refused time.Duration   // after another lasting error, such as 403: 7 days
	Gone    time.Duration   // after a page was found to be gone: 30 days
	Moved   time.Duration   // after a redirect: 7 days
	Missed  []time.Duration // after answers with another digest than announced: 2 s, 10 s, 1 min; then they are believed
}

// Hurried returns a, defaults filled in, with no wait longer than most; a itself if most is not above zero.
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

// hurried returns d, at most Hurry where that is set.
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
	d.Log = cmp.Or(d.Log, slog.New(slog.DiscardHandler))
	d.Again = d.Again.withDefaults()
	return d
}

// A Commit is the visits, finds and other news that the crawler commits in one transaction.
type Commit struct {
	Visits  []Visit
	Finds   []Find
	Sources []Source // new ones (ID 0), and the results of polls; Apply alone moves the cursor
	Sites   []Site   // stored by ID or else Origin: Delay, Soft404, Fault, FaultAt, Quiet, Trust, Shape, Families, Belief, and IP if Resolved is later

	// Confirmed are pages that came due by their age, but whose site would have announced a change: they
	// count as unchanged, and are planned as if they had been fetched (F16). A page that is not Held, or was
	// announced meanwhile, is left alone.
	Confirmed []frontier.PageID

	// Unbelieved are pages announced by a sender that has since turned out to lie: their pending fetch is
	// dropped, and they are planned by their own history.
	Unbelieved []frontier.PageID

	// Replanned are pages for which the policy decides again, since its inputs have changed.
	Replanned []frontier.PageID

	// Steps are applied before the visits, as Apply does it. They are no snapshots, and name stored pages only.
	Steps []*Step

	Steering []byte // what a person has set on the crawl; nil leaves it as it is
}

// A Step is what a source has announced together with the content of pages.
type Step struct {
	Source  uint64
	Step    client.Step
	By      Signal
	Options ApplyOptions

	Visits   []Visit           // are added to those of the Commit, for pages that are pending by the step with their Want
	Unwanted []frontier.PageID // the other pages of Visits
	Applied  Applied           // without New, Queue and Dropped, which are in the Committed
}

// Committed is the result of a commit.
type Committed struct {
	Visited []Visited        // in the order of the Commit's Visits
	New     []Page           // newly created pages
	Sources []Source         // those that are new
	Queue   []frontier.Entry // ready now: for the frontier's Add
	Dropped []frontier.Entry // no longer ready, of pages that were not visited: for the frontier's Drop
	Refused int              // finds that are not a URL, or beyond a limit
}

// A Visited is the state of a page after a visit.
type Visited struct {
	Page                Page
	Before              fresh.History // the history as the policy saw it before the visit
	Stated              string        // the Last-Modified of the visit before
	First               bool          // there was no content before, and no redirect
	Changed             bool          // other content than before, or the first content: then an event is sent
	Differs             bool          // whether History counts a change; false for the first visit
	Trifling            bool          // it counts none since less than a hundredth of the main text has changed
	Demoted             bool          // of a copy: from now on, mismatches with its site's digests are not retried, since all digests were wrong
	Duplicate           bool          // its links were ignored
	Matched, Mismatched bool          // whether the answer has the announced digest, or another one
	Asked               int           // how many earlier fetches for the same claim gave another digest
	Wavered             bool          // the digest was not the announced one, and the retry gave a third body: nobody changed the page
	Unstable            Unstable      // of the page by now, or of its site in general; the digest of a Mismatched page that is unstable proves nothing
	Gone                bool
}

// Applied is the result of applying a Step.
type Applied struct {
	Reception Reception // counts of the changes by outcome

	Pending int // pages to fetch because of it
	Moved   int // pages whose content was moved to another URL, without a request
	Gone    int // pages dropped
	Known   int // changes without effect
	Foreign int // changes skipped: another origin, or not a URL to store
	Refused int // changes skipped: not admitted, or beyond a limit
	Ignored int // changes that were not believed, see ApplyOptions
	Held    int // pages whose deletion is held back, see Release
	New     []Page
	Queue   []frontier.Entry // as in Committed
	Dropped []frontier.Entry

	under protocol.Digest // see ApplyOptions
}

// A Reception counts a source's changes by outcome (C30): each has one of three, so that Received is the sum
// of the others.
type Reception struct {
	Received  int `json:"received"`
	Processed int `json:"processed"` // at once: a page is gone, or moved, or the stored content is right
	Enqueued  int `json:"enqueued"`  // a page is to be fetched
	Ignored   int `json:"ignored"`   // not believed, not admitted, or of another origin
}

// Paid moves this many changes from Enqueued to Processed, since their pages have been stored meanwhile.
func (r *Reception) Paid(pages int) {
	pages = min(pages, r.Enqueued)
	r.Enqueued, r.Processed = r.Enqueued-pages, r.Processed+pages
}

// Add adds the counts of o.
func (r *Reception) Add(o *Reception) {
	r.Received, r.Processed, r.Enqueued, r.Ignored = r.Received+o.Received, r.Processed+o.Processed, r.Enqueued+o.Enqueued, r.Ignored+o.Ignored
}

// A Collection is safe for concurrent use. It has one writer at a time: Commit and Apply wait for each other.
type Collection struct {
	dir  string
	opts Options
	db   *boltfile.File

	mu      sync.Mutex // held by the writer; guards the fields that only the writer uses
	copied  *copyMeta  // nil if this is not a copy. Readers need the lock of the index
	broken  error      // set after damage or a failed commit, when memory may be wrong; returned by every update
	touched int        // records touched since memory was last given back (boltfile.ReleasePages)
	sinks   sinks
	naming  map[uint64]*snapshot // by source: a snapshot that is still arriving

	revisits Revisits
	stage    *queue.Stage
	index    index
}

// Open opens or creates the collection in a directory. One process may have it open at a time: another gets
// ErrHeld. A damaged state is refused with ErrDamaged, a format that this program does not know with ErrVersion.
func Open(dir string, o *Options) (*Collection, error) {
	c := &Collection{dir: dir, opts: o.withDefaults(), naming: map[uint64]*snapshot{}, stage: queue.NewStage(),
		index: index{urls: urls.NewSet(), origins: map[string]frontier.SiteID{}, parts: map[string]int{}}}
	c.sinks.store.Dir, c.sinks.store.None = dir, c.opts.Contents == 0
	c.revisits.c = c
	c.revisits.SetPolicy(cmp.Or[fresh.Policy](c.opts.Policy, fresh.Thesis{}))
	if err := (&opening{c}).open(cmp.Or(c.opts.State, filepath.Join(dir, contents.StateFile))); err != nil {
		if errors.Is(err, ErrDamaged) {
			err = fmt.Errorf("%w: restore the directory from a backup, or move state.db away: the next crawl creates a new one, and stored contents are kept", err)
		}
		return nil, fmt.Errorf("open collection %s: %w", dir, err)
	}
	if c.opts.Policy == nil {
		kept, _, _ := c.revisits.Kept()
		c.revisits.SetPolicy(cmp.Or[fresh.Policy](kept, fresh.Thesis{}))
	}
	return c, nil
}

// Backup writes a copy of a collection's state.db, as it is after one of the commits, to w. Commits go on meanwhile, but state.db grows with each of
// them: w must not block for long.
func Backup(c *Collection, w io.Writer) error {
	err := boltfile.RecoverDamage(func() error {
		return c.db.View(func(tx *bbolt.Tx) error {
			_, err := tx.WriteTo(w)
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("copy state.db: %w", err)
	}
	return nil
}

// Close closes the collection. It waits for current readers and the writer.
func (c *Collection) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	if c.sinks.mirror != nil && c.broken == nil {
		// Repeated by the next Open, they could remove a file that somebody else has put there meanwhile.
		if err = c.sinks.mirror.Sync(); err == nil {
			err = write(c, mirror.Forget)
		}
	}
	if err = errors.Join(err, c.sinks.close(), c.db.Close()); err != nil {
		return fmt.Errorf("close collection %s: %w", c.dir, err)
	}
	return nil
}

// Len returns the number of known pages.
func (c *Collection) Len() int {
	c.index.mu.RLock()
	defer c.index.mu.RUnlock()
	return int(c.index.last)
}

// Full returns the sites and the parts (Options.Part) that have as many URLs as they may have: the origin of a site, and the URL of a part.
func (c *Collection) Full() (list []string) {
	parted := func(url string) (string, int) { return "", 0 }
	if c.opts.Part != nil {
		parted = c.opts.Part
	}
	for s := range c.Sites() {
		if part, _ := parted(s.Origin + "/"); part == "" && c.opts.PerSite > 0 && s.Pages >= c.opts.PerSite {
			list = append(list, s.Origin)
		}
	}
	c.index.mu.RLock()
	defer c.index.mu.RUnlock()
	for part, stored := range c.index.parts {
		if _, most := parted(part); stored >= most {
			list = append(list, part)
		}
	}
	slices.Sort(list)
	return list
}

// Memory returns roughly how many bytes of memory the set of known URLs takes.
func (c *Collection) Memory() int { return c.index.urls.Bytes() }

// Page returns the record of a URL, and false if the URL is not known.
func (c *Collection) Page(url string) (p Page, ok bool, err error) {
	var buf [4]frontier.PageID
	ids := c.index.urls.Find(buf[:0], c.index.urls.Hash(url))
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

// PageByID returns the record of a page, and false if there is none.
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

// PagesByID returns the records of pages, in the order of the given IDs. An unknown ID gives the zero Page.
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

// Pages yields all pages in the order of their IDs, each as it is when it is read. The loop body may use the
// collection, and may take as long as it likes.
func (c *Collection) Pages(ctx context.Context) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		for p, err := range pagesOf(ctx, c, false) {
			if !yield(*p, err) {
				return
			}
		}
	}
}

// pagesOf yields all pages for Pages, or for Revisits.Pages.
func pagesOf(ctx context.Context, c *Collection, brief bool) iter.Seq2[*Page, error] {
	return func(yield func(*Page, error) bool) {
		list := make([]Page, 0, 8*urls.BlockLen)
		read := 0
		for next := frontier.PageID(1); ; {
			list = list[:0]
			err := ctx.Err()
			if err == nil {
				err = c.reading(func(tx *bbolt.Tx) error {
					giveBack(tx, &read, cap(list))
					v := c.view(tx)
					v.brief = brief
					list, err = v.pagesFrom(list, next)
					return err
				})
			}
			if err != nil {
				yield(&Page{}, fmt.Errorf("read pages: %w", err))
				return
			}
			for i := range list {
				if !yield(&list[i], nil) {
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

// pagesFrom appends the pages from an ID on, up to the capacity of list.
func (v *view) pagesFrom(list []Page, id frontier.PageID) ([]Page, error) {
	err := v.block.From(v.urls, id, func() (bool, error) {
		if v.block.ID > v.last {
			return false, nil
		}
		list = append(list, Page{})
		return len(list) < cap(list), v.rest(&list[len(list)-1])
	})
	return list, err
}

// Links returns the IDs of the pages that a page links or redirects to, in ascending order; none if links are not stored.
func (c *Collection) Links(id frontier.PageID) (list []frontier.PageID, err error) {
	err = c.reading(func(tx *bbolt.Tx) error {
		l := adjacency.In(tx)
		list, err = l.Links(id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read links of page %d: %w", id, err)
	}
	return list, nil
}
