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
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/moved"
	"github.com/parleyweb/parley/internal/engine/harvest"
)

// A Crawler is an open crawl: Options.Open and Copy.Open make one. Call Run once; the other methods may be called while it runs.
type Crawler struct {
	Collection *collection.Collection // for writing; the caller closes it after Run
	Harvester  *harvest.Harvester

	settings settings
	options  *Options   // before a person has changed the rate or the scope; nil: of a copy
	steers   sync.Mutex // held by Steer
	run      atomic.Pointer[run]
	last     atomic.Pointer[Status] // of a run that has ended
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

// A MovedError ends the Run of a copy whose site has moved to another scheme, host or port. After its Collection is closed,
// the same Copy can be opened again, and goes on there.
type MovedError = moved.Error

// Run crawls until ctx ends or, with Once, until nothing is left, and then returns nil. Responses to requests that are open when
// ctx ends are still committed. It returns an error if it cannot continue, such as when the collection cannot be written; a
// copy may also return a *MovedError.
func (c *Crawler) Run(ctx context.Context) error {
	err := c.crawl(ctx)
	if to := (*MovedError)(nil); errors.As(err, &to) {
		err = cmp.Or(c.Collection.Move(to.To), err)
	}
	if err != nil {
		return fmt.Errorf("crawl: %w", err)
	}
	return nil
}
