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

	// Every is how often Watch reads the sources again, and robots.txt. Zero means a minute.
	Every time.Duration

	// Hurry, above zero, bounds Every, and how long Public waits before it tries again to read robots.txt.
	// For tests.
	Hurry time.Duration

	Log *slog.Logger
	Now func() time.Time

	once    sync.Once
	bad     error // result of Check
	exclude public.Patterns
	rules   robots.Keeper
	fetcher *fetcher // nil without Fetch
	most    int      // URLs of all sources; zero means maxURLs

	turn chan struct{} // one token: its holder reads the sources

	mu       sync.Mutex        // guards what follows
	readings []*sourceSnapshot // by source; nil before it was first read
	readAt   time.Time         // when all of them were last read successfully
	watched  bool              // Watch read them last, and no scan has used them yet
}

// How old the sources may be for a scan of a part of the site, and for a scan that Watch requested.
const (
	sourcesAgain   = 10 * time.Second
	sourcesWatched = 2 * time.Second
)

// Check returns an error if the fields are invalid. The other methods call it first.
func (c *Catalog) Check() error {
	c.once.Do(func() { c.bad = c.prepare() })
	return c.bad
}

func (c *Catalog) prepare() error {
	if strings.ContainsAny(c.Base, "?#") {
		return fmt.Errorf("catalog: base %.200q: want a URL without query and fragment", c.Base)
	}
	base, err := protocol.CanonicalURL("", c.Base)
	if err != nil {
		return fmt.Errorf("catalog: base: %w", err)
	}
	if !strings.HasSuffix(base, "/") {
		base += "/"
	}
	if len(base) > protocol.MaxURL/2 {
		return errors.New("catalog: base: too long")
	}
	c.Base = base
	if c.exclude, err = public.ParsePatterns(c.Exclude); err != nil {
		return fmt.Errorf("catalog: %w", err)
	}
	name := cmp.Or(c.Robots, protocol.Origin(base)+"/robots.txt")
	c.rules = robots.Keeper{Name: redacted(name), Fetch: func(ctx context.Context) ([]byte, error) { return public.ReadRobots(ctx, name) },
		Wait: c.RobotsWait, Remind: c.RobotsRemind, Hurry: c.Hurry, Log: c.Log, Now: c.Now}
	if c.Journal != nil {
		c.rules.Notes = c.Journal
	}
	c.readings = make([]*sourceSnapshot, len(c.Sources))
	c.turn = make(chan struct{}, 1)
	if c.Fetch != nil {
		if c.Journal == nil {
			return errors.New("catalog: pages cannot be fetched without a journal")
		}
		c.fetcher = newFetcher(c)
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
	rules := c.rules.Known()
	return rules != nil && c.left(rules, url) == "" && c.fetcher.left(url) == ""
}

// AcceptRobots is as [server.Site.AcceptRobots].
func (c *Catalog) AcceptRobots() {
	if c.Check() == nil {
		c.rules.Hasten()
	}
}

// RobotsProblem is as [server.Site.RobotsProblem].
func (c *Catalog) RobotsProblem() (trouble string, said, lost bool) {
	return c.rules.Trouble(), c.rules.Said(), c.rules.Current().Lost()
}

// PublicTo reports whether robots.txt allows a URL that is [Catalog.Public] to the crawler with the product
// token name. A crawler without a group of rules of its own goes by the rules for everybody. It is made for
// PublicTo of doors.Clients.
func (c *Catalog) PublicTo(name, url string) bool {
	if !c.Public(url) {
		return false
	}
	return c.rules.Current().Allowed(name, c.path(url)) // rules are not nil if it is public
}

// path returns the path and query of a URL below Base, as robots.txt has them.
func (c *Catalog) path(url string) string { return url[len(protocol.Origin(c.Base)):] }

// left returns why rules forbid a URL below Base, or the empty string.
func (c *Catalog) left(rules *robots.Rules, url string) string {
	place := c.place(url)
	why := public.LeftOutName(place)
	switch {
	case ownPlaces[place] || strings.HasPrefix(place, doors) && place != doors:
		return leftOwn
	case why != "":
		return why
	case c.exclude.Match(place):
		return leftExcluded
	case !rules.Allowed("*", c.path(url)):
		return leftRobots
	}
	return ""
}

// ownPlaces are the places of the manifest, robots.txt and the site's description, which describe pages and
// are none.
var ownPlaces = map[string]bool{"robots.txt": true, "robots.rdf": true, ".well-known/parley": true}

// doors is where a Notifier's doors are, now and in later versions.
const doors = "parley/"

// place returns the path below Base of a URL that is below it.
func (c *Catalog) place(url string) string {
	place, _, _ := strings.Cut(url[len(c.Base):], "?")
	return place
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

// errPartial is why absence from a partial source means nothing.
var errPartial = errors.New("lists only some of the pages")

func (c *Catalog) scan(ctx context.Context, scopes []inventory.Scope, yield func(inventory.Offer, error) bool) error {
	if err := c.Check(); err != nil {
		return err
	}
	if err := c.refreshForScan(ctx, len(scopes) == 0); err != nil {
		return err
	}
	rules := c.rules.Known()
	if rules == nil {
		return errors.New("robots.txt could not be read: nothing is published until its rules are known")
	}
	readings := c.present()
	for _, s := range c.Sources {
		if s.Partial() && !c.isNothingKnown() {
			if !yield(inventory.Offer{}, &inventory.UnseenError{Prefix: c.Base, Err: fmt.Errorf("%s %w", s, errPartial), Expected: true}) {
				return errStop
			}
			break
		}
	}
	if len(scopes) == 0 {
		if err := c.yieldLeftOut(readings, yield); err != nil {
			return err
		}
	}
	if err := c.fetcher.beforeLook(ctx, len(scopes) == 0); err != nil {
		return err
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
		o := e.offer(url, c.place(url), c.now())
		switch o.LeftOut = c.left(rules, url); {
		case o.LeftOut != "":
		case c.fetcher == nil:
			o.Stamp = claimOf(record).stamp()
		case !c.fetcher.offer(&o):
			continue
		}
		if !yield(o, nil) {
			return errStop
		}
	}
	return nil
}

// isNothingKnown reports whether no page is published, so that a partial source can miss none.
func (c *Catalog) isNothingKnown() bool { return c.Journal != nil && c.Journal.Len() == 0 }

// present returns the last snapshots of the sources.
func (c *Catalog) present() []*sourceSnapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.readings)
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
	if c.fetcher == nil {
		return o, nil
	}
	r, err := c.fetcher.take(o)
	if err != nil {
		return o, fmt.Errorf("read %s: %w", o.URL, err)
	}
	return r, nil
}

// refreshForScan reads the sources, unless they were read a moment ago.
func (c *Catalog) refreshForScan(ctx context.Context, whole bool) error {
	c.mu.Lock()
	age, watched := c.now().Sub(c.readAt), c.watched
	read := !c.readAt.IsZero()
	c.watched = false
	c.mu.Unlock()
	if read && (!whole && age < sourcesAgain || watched && age < sourcesWatched) && age >= 0 {
		return nil
	}
	_, err := c.refresh(ctx)
	return err
}

// refresh reads robots.txt, and all sources that have changed, and reports whether any source has changed.
func (c *Catalog) refresh(ctx context.Context) (changed bool, err error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if _, err := c.rules.Refresh(ctx); err != nil {
		return false, err
	}
	most := cmp.Or(c.most, maxURLs)
	room := most
	for i, s := range c.Sources {
		c.mu.Lock()
		old := c.readings[i]
		c.mu.Unlock()
		r, err := c.read(ctx, s, old, room, most)
		if err != nil {
			return false, fmt.Errorf("%s: %w: pages missing from it are not treated as deleted", s, err)
		}
		if old == nil || r != old && r.arena != old.arena {
			changed = true
		}
		room -= len(r.keys)
		c.mu.Lock()
		c.readings[i] = r
		c.mu.Unlock()
	}
	c.mu.Lock()
	c.readAt = c.now()
	c.mu.Unlock()
	return changed, nil
}

func (c *Catalog) read(ctx context.Context, s Source, old *sourceSnapshot, room, most int) (*sourceSnapshot, error) {
	last := ""
	if old != nil && len(old.keys) <= room {
		last = old.version
	}
	b := builder{base: c.Base, room: room, most: most}
	version, err := s.Read(ctx, last, b.add)
	switch {
	case errors.Is(err, errUnchanged) && last != "":
		return old, nil
	case err != nil:
		return nil, err
	}
	return b.end(version), nil
}

// Watch reads robots.txt and the sources again every so often, and fetches pages meanwhile. Everything is
// dirty when a source or robots.txt has changed.
func (c *Catalog) Watch(ctx context.Context, dirty func([]inventory.Scope)) error {
	if err := c.Check(); err != nil {
		return err
	}
	every := cmp.Or(max(c.Every, 0), time.Minute)
	if c.Hurry > 0 {
		every = min(every, c.Hurry)
	}
	var owned sync.WaitGroup
	defer owned.Wait()
	inner, stop := context.WithCancel(ctx)
	defer stop()
	if c.fetcher != nil {
		owned.Go(func() { c.fetcher.run(inner, dirty) })
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for failing := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		before := c.rules.Current()
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
		if changed || failing || c.rules.Current() != before {
			c.mu.Lock()
			c.watched = true
			c.mu.Unlock()
			dirty(nil)
		}
		failing = false
	}
}

// A scopeSet tests whether a URL lies in some scopes; nil holds all.
type scopeSet map[string]bool // by prefix: whether it is deep

func (w scopeSet) has(url string) bool {
	if w == nil {
		return true
	}
	path := inventory.ScopeOf(url).Prefix
	if _, ok := w[path]; ok {
		return true
	}
	for len(path) > 0 {
		path = path[:strings.LastIndexByte(path[:len(path)-1], '/')+1]
		if w[path] {
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
		w[s.Prefix] = w[s.Prefix] || s.Deep
	}
	return w
}
