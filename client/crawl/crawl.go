// Package crawl is the crawler's engine: WIRE's four roles (V12), in cycles.
//
//	Manager    chooses what to ask for, and makes closed batches of it
//	Harvester  asks, politely (package harvest)
//	Gatherer   reads what was answered (package gather)
//	Seeder     admits what was found (package seed)
//
// and beside them the sources: whatever tells of a site's pages, such as its
// manifest and stream, sitemaps, feeds and notices. All of them meet in the
// collection, which remembers: each role can be killed at any point, and the
// next run goes on from what was committed.
//
// Data goes round one way. The Manager takes entries from the frontier and hands
// a batch to the Harvester; answers are read on all cores; what was read is
// collected into turns, each one transaction; and what a turn made ready goes to the
// frontier.
package crawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/family"
	"github.com/parleyweb/parley/client/crawl/gather"
	"github.com/parleyweb/parley/client/crawl/harvest"
	"github.com/parleyweb/parley/client/crawl/seed"
	"github.com/parleyweb/parley/client/fresh"
	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/client/poll"
	"github.com/parleyweb/parley/client/trust"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// A Crawler is an engine. Set its fields, then Run it, once; they are not to be
// changed while it runs.
type Crawler struct {
	Collection *collection.Collection // open for writing. Required
	Harvester  *harvest.Harvester     // required
	Seeder     *seed.Seeder           // nil means one with the rules' defaults
	Gatherer   gather.Gatherer        // a copy of it serves every reading goroutine

	// Strategy orders the frontier; it must be the collection's own.
	Strategy frontier.Strategy
	Policy   fresh.Policy // the collection's own, too
	Quality  Quality      // the same
	Revisit  *Revisit     // what a Policy that goes by a price may spend; nil where it goes by none
	Batch    frontier.BatchOptions
	Batches  string // directory in which each batch is kept as a file, see harvest.WriteBatch; empty: none is
	Memory   frontier.Options

	// Trust are the numbers of the trust rule; the zero value is its default.
	Trust trust.Rules

	// Start are URLs to begin with; those known already are passed over.
	Start []string

	// Again has every page that is known asked for once more, at once.
	Again bool

	// Once ends Run when nothing is left to ask for, or a Stop says so. Else
	// Run goes on until it is told to end.
	Once bool
	Stop Stop

	// Only, if not empty, is the URL of a manifest: the crawl is of its site
	// alone, which is known by what it tells, is believed whatever it says, and waited for
	// when it is away. See Copy.
	Only string

	// Quiet is how long a site is left alone at most that does not answer, or
	// whose robots.txt cannot be had. Zero means 12 hours, and a day.
	Quiet time.Duration

	// Patience is how long a crawl that is to end waits for pages that are to
	// be asked again. Zero means a minute.
	Patience time.Duration

	// Hurry, above zero, bounds every wait of the crawler's own that no other field
	// names: until what failed is tried again, what was seen is looked at again, what is
	// read is stored, and a price is found anew. What a site asks for, and how long it is left in peace
	// between requests, stay as they are. For sites of one's own, and tests.
	Hurry time.Duration

	// What not to use. Pages are read for their links even where a manifest
	// names all pages, unless NoParse says otherwise.
	NoParse, NoManifests, NoSitemaps, NoFeeds, NoStreams, NoChanges bool

	// As is the form in which sites tell of themselves. Empty chooses for each the
	// cheapest that it offers for what is held, see Choice. Where Only is set, a form
	// that the site does not offer ends Run with an error; elsewhere such a site
	// tells as protocol.AsMeta.
	As protocol.Form

	// Filter says what sites are asked to tell of. Token is sent to them as a bearer token.
	Filter protocol.Filter
	Token  string

	// BundleEvery and BundleCount are those of client.Source, for protocol.AsBatch.
	BundleEvery time.Duration
	BundleCount int

	// MaxArchive bounds the archive of a whole site, in bytes: zero means 1 GiB,
	// and 16 GiB where As is protocol.AsSite. Temp is a directory where it
	// stands meanwhile; empty means the system's.
	MaxArchive int64
	Temp       string

	// Bulk is from how many pages on a site that has a door for batches is asked
	// for them in one request. Zero means 20; negative never.
	Bulk int

	// TrapShare is the share of the requests to a site, 0 to 1, that goes to pages which links alone have led to
	// and whose like has led to little new, see package family. Zero means 0.1, 1 any number of requests; below
	// zero there are none once that is known.
	TrapShare float64

	// How often sources are asked that do not tell by themselves.
	RobotsEvery   time.Duration // zero means 24 hours (RFC 9309)
	SitemapEvery  time.Duration // zero means 24 hours
	FeedEvery     time.Duration // zero means an hour
	ManifestEvery time.Duration // where a site has no other door; zero means 10 minutes
	AskEvery      time.Duration // between questions for changes, which are then not waited for; zero waits for them
	SourceAgain   time.Duration // after a source was not there; zero means 7 days

	// Polls says when sitemaps and feeds are asked, by what they have shown. Nil
	// asks them as often as is set above, and so does whatever it needs a price for
	// while none is known.
	Polls poll.Policy

	Log *slog.Logger

	run  atomic.Pointer[run]
	last atomic.Pointer[Status] // of a run that has ended
}

// A Stop says when a crawl has had enough (V30). Zero values do not stop.
type Stop struct {
	Pages int           // answers with a page
	Bytes int64         // of bodies
	After time.Duration // since Run began
	Value float32       // of the best page left: less than this is not worth a request
}

// ErrRunning is returned by what needs a running crawler.
var ErrRunning = errors.New("the crawler is not running")

// Run crawls until ctx ends or, with Once, until it is done, and returns nil
// then. What was asked for when ctx ends is still taken in. It returns an error
// if it cannot go on: the collection cannot be written.
func (c *Crawler) Run(ctx context.Context) error {
	if err := c.crawl(ctx); err != nil {
		return fmt.Errorf("crawl: %w", err)
	}
	return nil
}

// A run is a Crawler at work.
type run struct {
	*Crawler
	ctx   context.Context // ends when there is to be no more asking
	log   *slog.Logger
	began time.Time

	asking context.Context // ends with ctx, or when there is enough: what is not asked for yet is given back

	readers chan *reader  // those that are not reading: as many as there are cores
	in      *inbox        // to be committed
	hurry   chan struct{} // somebody waits for the commit
	news    chan struct{} // the frontier or a source has something new

	mu           sync.Mutex // guards what follows
	front        *frontier.Frontier
	sites        map[frontier.SiteID]*site
	origins      map[string]*site
	due          sourceHeap
	telling      map[frontier.SiteID]bool  // sites that tell of their changes by themselves
	resting      map[*site]struct{}        // sites whose pages may have to wait, see rests
	judging      sync.Mutex                // guards claims and what sites are trusted with; nothing else is locked under it
	dirty        map[*site]struct{}        // sites whose record is to be stored
	dirtySources map[*source]struct{}      // followed ones whose record is to be stored
	flushed      time.Time                 // when they were
	out          map[frontier.PageID]bool  // pages that are being asked for
	families     families                  // of URLs, by what they lead to
	claims       map[frontier.PageID]claim // what was told of pages that are being asked for; guarded by judging
	abroad       abroad                    // hosts that are asked for sitemaps of other sites
	firsts       int                       // sites that are followed and have not told anything yet
	busy         int                       // tasks given to the harvester and not committed, and other work that may find pages
	batches      uint64
	receptions   map[collection.Signal]*collection.Reception
	readmits     map[frontier.SiteID]bool // sites whose forbidden pages are to be looked at again
	readmitting  bool                     // somebody does
	enough       string                   // why the crawl is to end; empty: it is not

	debts   []Debt    // of a crawl that has ended
	trouble string    // the first that a site gave; guarded by mu, and so are the next two
	words   float64   // how much trouble may be said now
	wordsAt time.Time // when that was reckoned

	count  counters
	truths truths
	twins  twins // guarded by mu

	revisiting revisiting         // guarded by mu
	price      float64            // of a request, in gain; 0: none is known. Guarded by mu
	group      sync.WaitGroup     // followers
	begun      sync.WaitGroup     // what readers have begun
	failed     error              // what it first failed with; guarded by mu
	cancel     context.CancelFunc // ends the run
	tidied     time.Time          // when Tidy was called last, by the Manager
	idle       atomic.Bool        // the Manager waits for something to ask for
	stop       context.CancelFunc // ends the asking: what is not asked for yet is given back
}

func (c *Crawler) crawl(ctx context.Context) (err error) {
	r := &run{Crawler: c, log: c.Log, began: time.Now(),
		readers: make(chan *reader, runtime.GOMAXPROCS(0)), in: newInbox(),
		hurry: make(chan struct{}, 1), news: make(chan struct{}, 1),
		sites: map[frontier.SiteID]*site{}, origins: map[string]*site{}, dirty: map[*site]struct{}{}, dirtySources: map[*source]struct{}{}, claims: map[frontier.PageID]claim{}, readmits: map[frontier.SiteID]bool{}, out: map[frontier.PageID]bool{}, telling: map[frontier.SiteID]bool{}, resting: map[*site]struct{}{}, receptions: map[collection.Signal]*collection.Reception{}, twins: newTwins()}
	r.families = families{run: r, tried: map[frontier.PageID]*site{}, texts: map[frontier.SiteID]*family.Text{}}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if c.Seeder == nil {
		c.Seeder = &seed.Seeder{}
	}
	if c.Once && c.Revisit != nil {
		v := *c.Revisit
		v.Policy.Ends = true
		c.Revisit = &v
	}
	if c.Harvester.Version == nil && c.Collection.Stores() {
		c.Harvester.Version = func(url string, d protocol.Digest) ([]byte, error) {
			return c.Collection.Version(url, d, mostDelivered)
		}
	}
	if r.front, err = frontier.New(c.Strategy, c.Collection.Queue(), &c.Memory); err != nil {
		return err
	}
	if err := r.load(); err != nil {
		return err
	}
	// Whoever works asks work whether to end; what was asked for is committed whatever happens.
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	asking, stop := context.WithCancel(work)
	defer stop()
	r.ctx, r.asking, r.cancel, r.stop = work, asking, cancel, stop
	for range cap(r.readers) {
		r.readers <- &reader{gatherer: c.Gatherer}
	}
	var keeper sync.WaitGroup
	keeper.Go(func() {
		if err := r.keep(); err != nil {
			r.fail(err)
		}
	})
	c.run.Store(r) // whoever adds pages from now on finds a keeper who takes them
	defer func() {
		s := c.Status()
		s.Running, s.InFlight, s.Busy = false, 0, 0
		c.last.Store(&s)
		c.run.Store(nil)
	}()
	if c.Stop.After > 0 {
		timer := time.AfterFunc(c.Stop.After, func() { r.checkStop(time.Now()) })
		defer timer.Stop()
	}
	if r.Revisit != nil {
		r.mu.Lock()
		r.setPrice(r.startPrice())
		r.mu.Unlock()
	} else {
		err = c.Collection.KeepPolicy()
	}
	if err == nil {
		err = r.begin()
	}
	if err == nil {
		if r.Revisit != nil {
			r.add(1) // so that nothing is visited again by a price that is no more than a guess
			r.group.Go(func() { r.revisits(work) })
		}
		if r.Quality.Pagerank > 0 {
			r.add(1) // a crawl that is to end waits for the first ranks
			r.group.Go(func() { r.rankPages(work) })
		}
		err = r.harvest(asking)
	}
	if err != nil && ctx.Err() == nil {
		r.fail(err)
	}
	cancel() // followers end
	r.group.Wait()
	r.begun.Wait()
	r.in.close()
	keeper.Wait()
	if r.failed != nil { // the last commits may have, too, when all else had ended
		return r.failed
	}
	r.regret()
	if r.Once {
		return r.settle()
	}
	return nil
}

// blindTime is how long a crawler waits that can look up no names any more.
const blindTime = 5 * time.Minute

// harvest runs the Harvester, and again after a pause where names cannot be
// looked up (P04): that is no fault of the sites, and passes.
func (r *run) harvest(ctx context.Context) error {
	for {
		err := r.Harvester.Run(ctx, r.next, r.take)
		if !errors.Is(err, harvest.ErrResolver) || r.Once {
			return err
		}
		r.log.Error("no host name can be resolved: the crawl pauses; check the name server, or name another with --resolver", "err", err, "pause", r.hurried(blindTime))
		if !pause.For(ctx, r.hurried(blindTime)) {
			return nil
		}
	}
}

// fail ends a run that cannot go on, as opposed to one that is told to stop.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = err
	}
	r.cancel()
}

// rouse wakes whoever waits for something to do.
func (r *run) rouse() {
	pause.Wake(r.news)
}
