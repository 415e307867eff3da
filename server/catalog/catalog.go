package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/internal/robots"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/internal/public"
	"github.com/parleyweb/parley/server/inventory"
)

// A Catalog is a site whose pages are listed by sources. It is an inventory.Inventory.
//
// Where several sources list a page, and where one lists it several times, the last entry counts. URLs that
// are not below Base, or invalid, are left out and counted. If any source cannot be read, absence from the
// others means nothing: what is published stays.
//
// A Catalog without sources offers nothing by itself: all pages of its site are announced (see
// server.Publisher.Announce).
//
// Fields must not be changed once a method has been called. The methods are safe for concurrent use, except
// those that one Publisher calls one after the other.
type Catalog struct {
	Base    string // URL of the site, with a path if it is not a host's root; a last "/" is added
	Sources []Source

	// Exclude are patterns of pages not to publish, as those of server.Site. They are matched against the
	// path of a URL below Base, without the query.
	Exclude []string

	// Robots is the robots.txt in force: a file or an http(s) URL. Empty means /robots.txt of the host of
	// Base. Until it has been read once nothing is public. RobotsWait and RobotsRemind are as Robots.Wait and
	// Robots.Remind of server.Site, which says what applies when robots.txt changes.
	Robots                   string
	RobotsWait, RobotsRemind time.Duration

	// Fetch, if not nil, makes the Catalog fetch the site's own pages.
	Fetch *Fetch

	// Journal holds the published pages; it also stores what robots.txt forbade. Fetch needs it; and while it is
	// empty, a partial source leaves nothing unknown: a feed may still be empty.
	Journal *server.Journal

	// Every is how often Watch reads the sources again, and robots.txt. Zero means a minute. It also bounds how
	// long Public waits before it tries again to read robots.txt.
	Every time.Duration

	Log *slog.Logger
	Now func() time.Time

	site site
}

// A site is what a Catalog has made of its fields.
type site struct {
	once    sync.Once
	bad     error // result of Check
	border  border
	listing listing
	fetcher *fetcher // nil without Fetch
}

// Check returns an error if the fields are invalid. The other methods call it first.
func (c *Catalog) Check() error {
	c.site.once.Do(func() { c.site.bad = c.prepare() })
	return c.site.bad
}

func (c *Catalog) prepare() error {
	if strings.ContainsAny(c.Base, "?#") {
		return fmt.Errorf("catalog: base %.200q: want a URL without query and fragment", c.Base)
	}
	base, err := baseURL(c.Base)
	if err != nil {
		return fmt.Errorf("catalog: base: %w", err)
	}
	if len(base) > protocol.MaxURL/2 {
		return errors.New("catalog: base: too long")
	}
	c.Base = base
	b := &c.site.border
	b.base = base
	if b.exclude, err = public.ParsePatterns(c.Exclude); err != nil {
		return fmt.Errorf("catalog: %w", err)
	}
	name := cmp.Or(c.Robots, protocol.Origin(base)+"/robots.txt")
	b.rules = robots.Keeper{Name: redacted(name), Fetch: func(ctx context.Context) ([]byte, error) { return public.ReadRobots(ctx, name) },
		Wait: c.RobotsWait, Remind: c.RobotsRemind, Hurry: c.Every, Log: c.Log, Now: c.Now}
	if c.Journal != nil {
		b.rules.Notes = c.Journal
	}
	l := &c.site.listing
	l.base, l.sources, l.now, l.turn = base, c.Sources, c.now, make(chan struct{}, 1)
	l.readings = make([]*sourceSnapshot, len(c.Sources))
	if c.Fetch != nil {
		if c.Journal == nil {
			return errors.New("catalog: pages cannot be fetched without a journal")
		}
		c.site.fetcher = newFetcher(c)
	}
	return nil
}

func (c *Catalog) now() time.Time { return clock.Now(c.Now) }

func (c *Catalog) log() *slog.Logger { return cmp.Or(c.Log, slog.New(slog.DiscardHandler)) }

// Public reports whether url is below Base and allowed by the present rules, whether a source lists it or
// not. A page that asked not to be listed when it was last fetched, or that redirects, is not public. Never
// public are robots.txt, the site's manifest and doors, and names that public.LeftOutName calls hidden, a
// backup or a dump.
func (c *Catalog) Public(url string) bool {
	if c.Check() != nil || !strings.HasPrefix(url, c.Base) || len(url) > protocol.MaxURL {
		return false
	}
	b := &c.site.border
	rules := b.rules.Known()
	return rules != nil && b.left(rules, url) == "" && (c.site.fetcher == nil || c.site.fetcher.ledger.left(url) == "")
}

// AcceptRobots is as [server.Site.AcceptRobots].
func (c *Catalog) AcceptRobots() {
	if c.Check() == nil {
		c.site.border.rules.Hasten()
	}
}

// RobotsProblem is as [server.Site.RobotsProblem].
func (c *Catalog) RobotsProblem() (trouble string, said, lost bool) {
	rules := &c.site.border.rules
	return rules.Trouble(), rules.Said(), rules.Current().Lost()
}

// PublicTo reports whether robots.txt allows a URL that is [Catalog.Public] to the crawler with the product
// token name. A crawler without a group of rules of its own goes by the rules for everybody. It is made for
// PublicTo of doors.Clients.
func (c *Catalog) PublicTo(name, url string) bool {
	b := &c.site.border
	return c.Public(url) && b.rules.Current().Allowed(name, b.path(url)) // rules are not nil if it is public
}

// Scan yields the pages that the sources list, as inventory.Inventory specifies. A full scan reads robots.txt
// again, and the sources that have changed. With a partial source it reports the whole site as unseen, so
// that pages that the sources do not list stay as they are; but see Journal.
func (c *Catalog) Scan(ctx context.Context, scopes []inventory.Scope) iter.Seq2[inventory.Offer, error] {
	return func(yield func(inventory.Offer, error) bool) {
		if err := c.scan(ctx, scopes, yield); err != nil && err != errStop {
			yield(inventory.Offer{}, err)
		}
	}
}

// errStop says that the caller of Scan has stopped.
var errStop = errors.New("stop")

func (c *Catalog) scan(ctx context.Context, scopes []inventory.Scope, yield func(inventory.Offer, error) bool) error {
	if err := c.Check(); err != nil {
		return err
	}
	whole, b := len(scopes) == 0, &c.site.border
	if !c.site.listing.isFresh(whole) {
		if _, err := c.refresh(ctx); err != nil {
			return err
		}
	}
	rules := b.rules.Known()
	if rules == nil {
		return errors.New("robots.txt could not be read: nothing is published until its rules are known")
	}
	readings := c.site.listing.present()
	if i := slices.IndexFunc(c.Sources, Source.Partial); i >= 0 && (c.Journal == nil || c.Journal.Len() > 0) { // it may miss published pages
		err := fmt.Errorf("%s lists only some of the pages", c.Sources[i])
		if !yield(inventory.Offer{}, &inventory.UnseenError{Prefix: c.Base, Err: err, Expected: true}) {
			return errStop
		}
	}
	if whole {
		if err := c.yieldLeftOut(readings, yield); err != nil {
			return err
		}
	}
	if c.site.fetcher != nil {
		if err := c.site.fetcher.beforeLook(ctx, whole); err != nil {
			return err
		}
	}
	in := within(scopes)
	m, n := newMerge(readings), 0
	for url, r, i, ok := m.next(); ok; url, r, i, ok = m.next() {
		if n++; n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if !in.has(url) {
			continue
		}
		e, record := r.entry(i)
		o := e.offer(url, b.place(url), c.now())
		switch o.LeftOut = b.left(rules, url); {
		case o.LeftOut != "":
		case c.site.fetcher == nil:
			o.Stamp = claimOf(record).stamp()
		case !c.site.fetcher.ledger.offer(&o):
			continue
		}
		if !yield(o, nil) {
			return errStop
		}
	}
	return nil
}

func (c *Catalog) yieldLeftOut(readings []*sourceSnapshot, yield func(inventory.Offer, error) bool) error {
	for s, r := range readings {
		name := c.Sources[s].String()
		for _, l := range r.left.first {
			if !yield(inventory.Offer{Place: l.place(name), LeftOut: l.why, Length: -1}, nil) {
				return errStop
			}
		}
		for why, n := range r.left.more {
			for range n {
				if !yield(inventory.Offer{Place: name, LeftOut: why, Length: -1}, nil) {
					return errStop
				}
			}
		}
	}
	return nil
}

// Read returns an offer of Scan unchanged, or with Fetch the fetched page.
func (c *Catalog) Read(ctx context.Context, o inventory.Offer) (inventory.Offer, error) {
	if err := errors.Join(c.Check(), ctx.Err()); err != nil {
		return o, err
	}
	if c.site.fetcher == nil {
		return o, nil
	}
	r, err := c.site.fetcher.ledger.take(o)
	if err != nil {
		return o, fmt.Errorf("read %s: %w", o.URL, err)
	}
	return r, nil
}

// refresh reads robots.txt, and all sources that have changed, and reports whether any source has changed.
func (c *Catalog) refresh(ctx context.Context) (changed bool, err error) {
	if _, err := c.site.border.rules.Refresh(ctx); err != nil {
		return false, err
	}
	return c.site.listing.refresh(ctx)
}

// Watch reads robots.txt and the sources again every so often, and fetches pages meanwhile. Everything is
// dirty when a source or robots.txt has changed.
func (c *Catalog) Watch(ctx context.Context, dirty func([]inventory.Scope)) error {
	if err := c.Check(); err != nil {
		return err
	}
	every := cmp.Or(max(c.Every, 0), time.Minute)
	var owned sync.WaitGroup
	defer owned.Wait()
	inner, stop := context.WithCancel(ctx)
	defer stop()
	if c.site.fetcher != nil {
		owned.Go(func() { c.site.fetcher.run(inner, every, dirty) })
	}
	tick, rules := time.NewTicker(every), &c.site.border.rules
	defer tick.Stop()
	for failing := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		before := rules.Current()
		changed, err := c.refresh(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			// The Publisher's next scan reports why; dirty makes sure that there is one.
			if !failing {
				dirty(nil)
			}
			failing = true
			continue
		}
		if changed || failing || rules.Current() != before {
			c.site.listing.setWatched()
			dirty(nil)
		}
		failing = false
	}
}

// A scopeSet tests whether a URL lies in some scopes; nil holds all.
type scopeSet map[inventory.Scope]bool

func (w scopeSet) has(url string) bool {
	dir := inventory.ScopeOf(url)
	if w == nil || w[inventory.Scope{Page: url}] || w[dir] {
		return true
	}
	for path := dir.Prefix; len(path) > 0; path = path[:strings.LastIndexByte(path[:len(path)-1], '/')+1] {
		if w[inventory.Scope{Prefix: path, Deep: true}] {
			return true
		}
	}
	return false
}

func within(scopes []inventory.Scope) scopeSet {
	if len(scopes) == 0 {
		return nil
	}
	w := make(scopeSet, len(scopes))
	for _, s := range scopes {
		w[s] = true
	}
	return w
}
