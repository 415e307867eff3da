package crawl

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/budget"
	"github.com/parleyweb/parley/client/crawl/internal/rank"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/gather"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/engine/partition"
	"github.com/parleyweb/parley/internal/engine/poll"
	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/internal/engine/trust"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// settings say how a Crawler works: Options and Copy are translated into them. They do not change while it runs.
type settings struct {
	Seeder   *seed.Seeder
	Gatherer gather.Gatherer // each parsing goroutine has a copy

	// Strategy orders the frontier. Strategy, Policy and Quality must be those of the collection.
	Strategy frontier.Strategy
	Policy   fresh.Policy
	Quality  rank.Quality
	Revisit  *budget.Options // the budget of a Policy that uses a price; nil for other policies
	Batch    frontier.BatchOptions
	Batches  string // directory in which each batch is stored as a file, see harvest.StoreBatch; empty stores none
	Memory   frontier.Options

	// Trust holds the parameters of the trust rule; the zero value means its defaults.
	Trust trust.Rules

	// Start are the URLs to begin with; known URLs are skipped.
	Start []string

	// Suits returns an error if these settings do not suit the host of a URL, to which a site has moved. Nil: they suit all hosts.
	Suits func(url string) error

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

	// Significant: at sites that announce changes, a change of less than a hundredth of the main text counts as none when visits are
	// planned.
	Significant bool

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
	// and 16 GiB where As is protocol.AsSite. Temp is that of client.Source.
	MaxArchive int64
	Temp       string

	// Bulk is the least number of pages that are fetched in one request from a
	// site with a door for batches. Zero means 20; negative means never.
	Bulk int

	// TrapShare is the share of the requests to a site, 0 to 1, that may go to pages found only by links in
	// URL families that have led to little new, see package family. Zero means 0.1; 1 means no limit; below
	// zero such a family gets no requests once it is known.
	TrapShare float64

	// How often sources that do not push are polled.
	RobotsEvery   time.Duration // zero means 24 hours (RFC 9309)
	SitemapEvery  time.Duration // zero means 24 hours
	FeedEvery     time.Duration // zero means an hour
	ManifestEvery time.Duration // where a site has no other door; zero means 10 minutes
	AskEvery      time.Duration // between polls for changes, which then do not wait; zero means long polls
	SourceAgain   time.Duration // after a source did not exist; zero means 7 days

	// Polls schedules sitemaps and feeds by what earlier polls have shown. Without a Policy, and while no
	// price is known, the intervals above are used. Subscribers are the factors by which items of feeds count, by URL.
	Polls       poll.Schedule
	Subscribers map[string]float64

	Exchange     partition.Carrier // of URLs, between the crawlers of all partitions; nil where there is one
	PagerankJump float64           // zero means 0.15
	RankEvery    int               // pages fetched between two computations of Pagerank; zero means an hour

	Log *slog.Logger
}

// A setup is what the components of a run share. Nothing in it changes.
type setup struct {
	*settings
	Collection *collection.Collection
	Harvester  *harvest.Harvester
	mostBytes  int64 // the largest page that is held in memory, because it came with its change or is copied
}

const (
	mostDelivered    = 16 << 20
	defaultTrapShare = 0.1
)

// setUp sets the fields that have defaults.
func (c *Crawler) setUp() *setup {
	s := &c.settings
	if s.Log == nil { // not written otherwise: Accept reads it, and may be called before Run
		s.Log = slog.New(slog.DiscardHandler)
	}
	s.RobotsEvery, s.SitemapEvery = cmp.Or(max(s.RobotsEvery, 0), robotsEvery), cmp.Or(max(s.SitemapEvery, 0), sitemapEvery)
	s.FeedEvery, s.ManifestEvery = cmp.Or(max(s.FeedEvery, 0), feedEvery), cmp.Or(max(s.ManifestEvery, 0), manifestEvery)
	s.SourceAgain = cmp.Or(max(s.SourceAgain, 0), sourceAgain)
	if s.TrapShare = min(1, max(0, cmp.Or(s.TrapShare, defaultTrapShare))); s.Only != "" || s.NoParse {
		s.TrapShare = 1
	}
	if s.Once && s.Revisit != nil {
		v := *s.Revisit
		v.Policy.Ends = true
		s.Revisit = &v
	}
	if c.Harvester.Options.Version == nil && !c.Collection.Contents().None {
		c.Harvester.Options.Version = func(url string, d protocol.Digest) ([]byte, error) {
			return c.Collection.Version(url, d, mostDelivered)
		}
	}
	most := cmp.Or(max(c.Harvester.Options.MaxBytes, 0), harvest.DefaultMaxBytes)
	return &setup{s, c.Collection, c.Harvester, min(most, mostDelivered)}
}

// hurried returns a wait, bounded by Hurry where that is set.
func (s *settings) hurried(d time.Duration) time.Duration { return pause.AtMost(d, s.Hurry) }

// every returns the time between two fetches of a source that does not push.
func (s *settings) every(kind collection.SourceKind) time.Duration {
	switch kind {
	case collection.Robots:
		return s.RobotsEvery
	case collection.SitemapXML:
		return s.SitemapEvery
	case collection.NewsFeed:
		return s.FeedEvery
	}
	return s.ManifestEvery
}

// under returns a digest of the rules that admit a site's pages.
func (c *setup) under(origin string) protocol.Digest {
	rules := c.Seeder.CurrentRules()
	rules.Hosts, rules.DomainSuffixes = nil, nil // which concern the site as a whole: see wanted
	wanted := c.Seeder.Admit(seed.Ref{URL: origin + "/", Kind: seed.Listed}).OK
	return c.Collection.Under(fmt.Sprintf("%v %+v %+v%s", wanted, rules, c.Filter, c.Seeder.Starts.On(origin)))
}
