// Package crawl is the crawler's engine: WIRE's four roles (V12), in cycles.
//
//	Manager    chooses what to fetch, and makes closed batches of it
//	Harvester  fetches, politely (package harvest)
//	Gatherer   parses the responses (package gather)
//	Seeder     admits the URLs that were found (package seed)
//
// Beside them are the sources, which announce a site's pages: its manifest and
// stream, sitemaps, feeds and notices. All state is in the collection: each role
// can be killed at any point, and the next run continues from the last commit.
//
// Data flows one way. The Manager takes entries from the frontier and hands a
// batch to the Harvester; responses are parsed on all cores; the results are
// collected into commits, each one transaction; and the pages that a commit
// makes ready go to the frontier.
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
	"github.com/parleyweb/parley/client/crawl/gather"
	"github.com/parleyweb/parley/client/crawl/harvest"
	"github.com/parleyweb/parley/client/crawl/internal/family"
	"github.com/parleyweb/parley/client/crawl/seed"
	"github.com/parleyweb/parley/client/fresh"
	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/client/poll"
	"github.com/parleyweb/parley/client/trust"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// A Crawler is the engine. Set its fields, then call Run once; the fields must
// not change while it runs.
type Crawler struct {
	Collection *collection.Collection // open for writing. Required
	Harvester  *harvest.Harvester     // required
	Seeder     *seed.Seeder           // nil means one with the default rules
	Gatherer   gather.Gatherer        // each parsing goroutine has a copy

	// Strategy orders the frontier. Strategy, Policy and Quality must be those of the collection.
	Strategy frontier.Strategy
	Policy   fresh.Policy
	Quality  Quality
	Revisit  *Revisit // the budget of a Policy that uses a price; nil for other policies
	Batch    frontier.BatchOptions
	Batches  string // directory in which each batch is stored as a file, see harvest.WriteBatch; empty stores none
	Memory   frontier.Options

	// Trust holds the parameters of the trust rule; the zero value means its defaults.
	Trust trust.Rules

	// Start are the URLs to begin with; known URLs are skipped.
	Start []string

	// Again fetches every known page once more, at once.
	Again bool

	// Once ends Run when nothing is left to fetch, or when Stop says so.
	// Otherwise Run continues until its context ends.
	Once bool
	Stop Stop

	// Only, if not empty, is the URL of a manifest. The crawl is then limited to
	// its site, whose announcements define the set of pages and are always
	// believed; while the site is down, the crawl waits. See Copy.
	Only string

	// Quiet is the longest pause for a site that does not answer, or whose
	// robots.txt cannot be fetched. Zero means 12 hours, and a day, respectively.
	Quiet time.Duration

	// Patience is how long a crawl with Once waits for pages that are to be
	// retried. Zero means a minute.
	Patience time.Duration

	// Hurry, above zero, bounds the crawler's own waits that no other field sets:
	// until a failure is retried, a page is revisited, parsed pages are
	// committed, or a price is recomputed. Waits that a site asks for and the delays between
	// requests are unaffected. It is meant for one's own sites, and for tests.
	Hurry time.Duration

	// The No fields turn features off. Links are extracted from pages even where
	// a manifest lists all pages, unless NoParse is set.
	NoParse, NoManifests, NoSitemaps, NoFeeds, NoStreams, NoChanges bool

	// As is the form in which sites send their changes. Empty chooses for each site
	// the cheapest form that it offers, given the stored pages, see Choice. A form
	// that the site does not offer ends Run with an error where Only is set;
	// otherwise that site uses protocol.AsMeta.
	As protocol.Form

	// Filter selects the changes that sites are to send. Token is sent to them as a bearer token.
	Filter protocol.Filter
	Token  string

	// BundleEvery and BundleCount are those of client.Source, for protocol.AsBatch.
	BundleEvery time.Duration
	BundleCount int

	// MaxArchive bounds the archive of a whole site, in bytes: zero means 1 GiB,
	// and 16 GiB where As is protocol.AsSite. Temp is the directory that holds it
	// during the import; empty means the system's.
	MaxArchive int64
	Temp       string

	// Bulk is the least number of pages that are fetched in one request from a
	// site with a door for batches. Zero means 20; negative means never.
	Bulk int

	// TrapShare is the share of the requests to a site, 0 to 1, that may go to pages found only by links in
	// URL families that have led to little new, see package family. Zero means 0.1; 1 means no limit; below
	// zero such a family gets no requests once it is known.
	TrapShare float64

	// How often sources are polled that do not push.
	RobotsEvery   time.Duration // zero means 24 hours (RFC 9309)
	SitemapEvery  time.Duration // zero means 24 hours
	FeedEvery     time.Duration // zero means an hour
	ManifestEvery time.Duration // where a site has no other door; zero means 10 minutes
	AskEvery      time.Duration // between polls for changes, which then do not wait; zero means long polls
	SourceAgain   time.Duration // after a source did not exist; zero means 7 days

	// Polls schedules sitemaps and feeds by what earlier polls have shown. Nil uses
	// the intervals above, and so does a policy that needs a price while none is
	// known.
	Polls poll.Policy

	Log *slog.Logger

	run  atomic.Pointer[run]
	last atomic.Pointer[Status] // of a run that has ended
}

// A Stop limits a crawl (V30). Zero values are no limit.
type Stop struct {
	Pages int           // responses with a page
	Bytes int64         // of bodies
	After time.Duration // since Run began
	Value float32       // pages worth less than this are not fetched, unless announced
}

// reached returns which limit a crawl has reached, or "".
func (s *Stop) reached(n *counters, now time.Time) string {
	switch {
	case s.Pages > 0 && n.pages() >= int64(s.Pages):
		return "page limit reached"
	case s.Bytes > 0 && n.Bytes.Load()+n.DeliveredBytes.Load() >= s.Bytes:
		return "byte limit reached"
	case s.After > 0 && now.Sub(n.began) >= s.After-time.Millisecond:
		return "time limit reached"
	}
	return ""
}

// ErrRunning is returned by methods that need a running crawler.
var ErrRunning = errors.New("the crawler is not running")

// Run crawls until ctx ends or, with Once, until nothing is left, and then
// returns nil. Responses to requests that are open when ctx ends are still
// committed. It returns an error if it cannot continue, such as when the
// collection cannot be written.
func (c *Crawler) Run(ctx context.Context) error {
	if err := c.crawl(ctx); err != nil {
		return fmt.Errorf("crawl: %w", err)
	}
	return nil
}

// A run is a Crawler at work.
type run struct {
	*Crawler
	work      *work
	sites     *siteTable
	ranking   *ranking
	start     *start
	manager   *manager
	keeper    *keeper
	answers   *answers
	batch     *batchFetches
	followers *followers
	sources   *sources
	abroad    *crossHost
	notices   *notices
	queue     *pageQueue
	readings  *readings
	judge     *judgement
	revisits  *revisits

	in *inbox // to be committed

	front    *frontier.Frontier
	families *families // of URLs, by what they lead to

	unfetched []Unfetched // pending fetches of a crawl that has ended

	count  *counters
	truths *calibration
	equal  *equalPages
}

func (c *Crawler) crawl(ctx context.Context) (err error) {
	front, err := frontier.New(c.Strategy, c.Collection.Queue(), &c.Memory)
	if err != nil {
		return err
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	r := &run{Crawler: c, front: front, work: &work{out: map[frontier.PageID]bool{}, news: make(chan struct{}, 1)},
		in:    newInbox(),
		count: &counters{began: time.Now()}, truths: &calibration{}}
	r.sites = &siteTable{c: c, work: r.work, byID: map[frontier.SiteID]*site{}, byOrigin: map[string]*site{}, resting: map[*site]struct{}{}, dirty: map[*site]struct{}{}, dirtySources: map[*source]struct{}{}}
	r.judge = &judgement{claims: map[frontier.PageID]claim{}, rules: &c.Trust, sure: c.Only != ""}
	r.equal = newEqualPages(c, r.judge)
	r.revisits = &revisits{c: c, work: r.work, sites: r.sites, judge: r.judge, in: r.in}
	r.families = &families{work: r.work, sites: r.sites, front: front, share: c.trapShare(), tried: map[frontier.PageID]*site{}, texts: map[frontier.SiteID]*family.Text{}}
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
	if err := r.sites.load(); err != nil {
		return err
	}
	r.readings = &readings{c: c, work: r.work, sites: r.sites, judge: r.judge, in: r.in, front: r.front, count: r.count, equal: r.equal, readers: make(chan *reader, runtime.GOMAXPROCS(0))}
	r.queue = &pageQueue{c: c, work: r.work, sites: r.sites, judge: r.judge, in: r.in, front: r.front, count: r.count, equal: r.equal, families: r.families, revisits: r.revisits, readings: r.readings}
	r.notices = &notices{c: c, work: r.work, sites: r.sites, judge: r.judge, front: r.front, count: r.count, truths: r.truths, revisits: r.revisits, readings: r.readings, queue: r.queue, receptions: map[collection.Signal]*collection.Reception{}}
	r.abroad = &crossHost{c: c, work: r.work, sites: r.sites, guests: &seed.Seeder{Agent: c.Seeder.Agent}, robots: map[string]crossHostRobots{}, asked: map[string]bool{}}
	r.followers = &followers{c: c, work: r.work, sites: r.sites, judge: r.judge, in: r.in, count: r.count, notices: r.notices, revisits: r.revisits, telling: map[frontier.SiteID]bool{}}
	r.sources = &sources{c: c, followers: r.followers, work: r.work, sites: r.sites, judge: r.judge, in: r.in, count: r.count, notices: r.notices, revisits: r.revisits, abroad: r.abroad, readmits: map[frontier.SiteID]bool{}}
	r.batch = &batchFetches{c: c, work: r.work, sites: r.sites, in: r.in, count: r.count, readings: r.readings, followers: r.followers}
	r.answers = &answers{c: c, work: r.work, sites: r.sites, in: r.in, count: r.count, readings: r.readings, sources: r.sources, families: r.families}
	r.keeper = &keeper{c: c, work: r.work, sites: r.sites, judge: r.judge, in: r.in, front: r.front, count: r.count, truths: r.truths, equal: r.equal, families: r.families, revisits: r.revisits}
	r.manager = &manager{c: c, work: r.work, sites: r.sites, in: r.in, front: r.front, count: r.count, sources: r.sources, queue: r.queue, batch: r.batch, revisits: r.revisits}
	r.start = &start{c: c, work: r.work, sites: r.sites, in: r.in, sources: r.sources}
	r.ranking = &ranking{c: c, work: r.work, front: r.front}
	// All goroutines end with work; fetched pages are committed in any case.
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	asking, stop := context.WithCancel(work)
	defer stop()
	r.work.ctx, r.work.asking, r.work.cancel, r.work.stop = work, asking, cancel, stop
	for range cap(r.readings.readers) {
		r.readings.readers <- &reader{gatherer: c.Gatherer}
	}
	var keeping sync.WaitGroup
	keeping.Go(func() {
		if err := r.keeper.run(); err != nil {
			r.work.fail(err)
		}
	})
	c.run.Store(r) // only now, since Add needs the keeper
	defer func() {
		s := c.Status()
		s.Running, s.InFlight, s.Busy = false, 0, 0
		c.last.Store(&s)
		c.run.Store(nil)
	}()
	if c.Stop.After > 0 {
		timer := time.AfterFunc(c.Stop.After, func() { r.work.checkStop(r.Stop.reached(r.count, time.Now())) })
		defer timer.Stop()
	}
	if r.Revisit != nil {
		r.work.Lock()
		r.revisits.setPrice(r.revisits.startPrice())
		r.work.Unlock()
	} else {
		err = c.Collection.KeepPolicy()
	}
	if err == nil {
		err = r.start.begin()
	}
	if err == nil {
		if r.Revisit != nil {
			r.work.add(1) // so that no page is revisited by a guessed price
			r.work.group.Go(func() { r.revisits.keep(work) })
		}
		if r.Quality.Pagerank > 0 {
			r.work.add(1) // a crawl with Once waits for the first ranks
			r.work.group.Go(func() { r.ranking.keep(work) })
		}
		err = r.harvest(asking)
	}
	if err != nil && ctx.Err() == nil {
		r.work.fail(err)
	}
	cancel() // followers end
	r.work.group.Wait()
	r.work.begun.Wait()
	r.in.close()
	keeping.Wait()
	if r.work.failed != nil { // the last commits may have failed, too
		return r.work.failed
	}
	r.sites.logSilent()
	if r.Once {
		return r.settle()
	}
	return nil
}

// blindTime is how long the crawl pauses when DNS lookups fail.
const blindTime = 5 * time.Minute

// harvest runs the Harvester, and runs it again after a pause where names cannot
// be looked up (P04): the sites are not at fault, and it passes.
func (r *run) harvest(ctx context.Context) error {
	for {
		err := r.Harvester.Run(ctx, r.manager.next, r.answers.take)
		if !errors.Is(err, harvest.ErrResolver) || r.Once {
			return err
		}
		r.Log.Error("no host name can be resolved: the crawl pauses; check the name server, or name another with --resolver", "err", err, "pause", r.hurried(blindTime))
		if !pause.For(ctx, r.hurried(blindTime)) {
			return nil
		}
	}
}
