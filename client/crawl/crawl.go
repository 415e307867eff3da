// Package crawl is the crawler's engine. Like the crawler WIRE it has four roles (V12), and works in cycles.
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
	"sync/atomic"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/gather"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/engine/poll"
	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/internal/engine/trust"
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

	// How often sources that do not push are polled.
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
