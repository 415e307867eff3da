package catalog

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	neturl "net/url"
	"strings"
	"sync"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/inventory"
)

// A Reachable is an inventory.Inventory that publishes, of another one's offers, only pages that links lead
// to from the start pages: for sites that may have files that nobody was meant to find (C34). Links count in
// pages that are offered, and in those that are left out because of noindex: visitors follow them. Sitemaps
// and robots.txt do not count as links.
//
// A published page that no link leads to any more is treated as vanished: it is held before its deletion is
// announced, and a mass disappearance waits for a person. For links are content, not rules, and a deployment
// that removes the home page for a moment removes all links.
//
// "/a", "/a/", "/a.html" and "/a/index.html" count as one page, with any query: a link to one of them leads
// to all that exist.
//
// Every change is followed by a full scan, since a link may lead anywhere. Links are kept in memory for as
// long as pages do not change: 8 bytes each, and some 130 for each page; a scan takes some 200 more for each.
//
// Fields must not be changed once a method has been called.
type Reachable struct {
	inventory.Inventory // whose pages are filtered

	// Open opens the content of an offer: Site.Open.
	Open func(ctx context.Context, o inventory.Offer) (io.ReadCloser, error)

	// Links returns the targets of an HTML page's links: URLs of any site, which may be relative to the
	// page's own. The page is cut after 4 MiB.
	Links func(url string, page []byte) []string

	// Start are the URLs at which following links begins. At least one of them must be offered. Empty means
	// Base.
	Start []string
	Base  string // URL of the site

	// Journal, if not nil, holds the published pages. Without it nothing counts as
	// published before the first scan of this process.
	Journal *server.Journal

	Log *slog.Logger

	once  sync.Once
	bad   error // result of Check
	found found

	turn sync.Mutex           // its holder scans; guards link
	link map[uint64]pageLinks // by hash of the URL
}

// found is what the last scan found. Its methods may be called by many goroutines at once.
type found struct {
	seed maphash.Seed

	mu      sync.Mutex          // guards what follows
	reached map[uint64]struct{} // names of reachable pages; nil before the first scan
	told    map[uint64]struct{} // hashes of URLs that were offered, or published before
}

func (f *found) hash(s string) uint64 { return maphash.String(f.seed, s) }

// name returns a hash that is equal for all URLs of one page.
func (f *found) name(url string) uint64 {
	url, _, _ = strings.Cut(url, "?")
	if plain, err := neturl.PathUnescape(url); err == nil {
		url = plain // links escape characters in different ways
	}
	url = strings.TrimSuffix(url, "/index.html")
	url = strings.TrimSuffix(url, ".html")
	return f.hash(strings.TrimSuffix(url, "/"))
}

// has reports whether a link leads to url, or it has been published.
func (f *found) has(url string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, reached := f.reached[f.name(url)]
	_, told := f.told[f.hash(url)]
	return reached || told
}

// admit reports whether to yield an offer, and marks it as left out if no link leads there.
func (f *found) admit(o *inventory.Offer) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.reached[f.name(o.URL)]; ok {
		f.told[f.hash(o.URL)] = struct{}{}
		return true
	}
	if _, told := f.told[f.hash(o.URL)]; told {
		return false
	}
	o.LeftOut = leftUnlinked
	return true
}

// set replaces what was found.
func (f *found) set(reached map[uint64]struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reached = reached
}

// load adds the published URLs, unless a scan has found something before. It holds mu at no time while it reads the
// journal: who writes to that may wait for mu.
func (f *found) load(ctx context.Context, j *server.Journal) (known bool, err error) {
	f.mu.Lock()
	known = f.reached != nil
	f.mu.Unlock()
	if known {
		return true, nil
	}
	var told []uint64
	err = eachPublished(ctx, j, func(url string, _ []byte, _ bool) { told = append(told, f.hash(url)) })
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range told {
		f.told[name] = struct{}{}
	}
	return false, err
}

// eachPublished calls each with every entry of a journal, which may be nil. It opens a second View while the scan has
// one, which is safe as long as the file does not outgrow its mapping: see journal.View.
func eachPublished(ctx context.Context, j *server.Journal, each func(url string, stamp []byte, held bool)) error {
	if j == nil {
		return nil
	}
	v, err := j.View()
	if err != nil {
		return err
	}
	defer v.Close()
	for e, err := range v.Entries() {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		each(e.Item.URL, e.Stamp, !e.Held.IsZero())
	}
	return nil
}

const (
	// maxReachable bounds the pages offered to a Reachable.
	maxReachable = 1_000_000

	maxLinks    = 10_000  // of a page
	maxLinkPage = 4 << 20 // bytes of a page
)

// pageLinks are the links of a page at a stamp.
type pageLinks struct {
	stamp uint64   // hash
	to    []uint64 // names
}

// Check returns an error if the fields are invalid.
func (r *Reachable) Check() error {
	r.once.Do(func() { r.bad = r.prepare() })
	return r.bad
}

func (r *Reachable) prepare() error {
	if r.Inventory == nil || r.Open == nil || r.Links == nil {
		return errors.New("reachable: Inventory, Open and Links must be set")
	}
	r.found.seed, r.found.told = maphash.MakeSeed(), make(map[uint64]struct{})
	base, err := baseURL(r.Base)
	if err != nil {
		return fmt.Errorf("reachable: base: %w", err)
	}
	if len(r.Start) == 0 {
		r.Start = []string{base}
	}
	for i, s := range r.Start {
		if r.Start[i], err = protocol.CanonicalURL(base, s); err != nil {
			return fmt.Errorf("reachable: start: %w", err)
		}
		if !strings.HasPrefix(r.Start[i], base) {
			return fmt.Errorf("reachable: start page %s is not below %s", r.Start[i], base)
		}
	}
	return nil
}

// baseURL returns the base URL of a site in its canonical form, with "/" at the end.
func baseURL(base string) (string, error) {
	base, err := protocol.CanonicalURL("", base)
	return strings.TrimSuffix(base, "/") + "/", err
}

// Public reports whether the Inventory allows url, and a link leads to it or it was published before. Which
// pages links lead to is unknown before the first scan.
func (r *Reachable) Public(url string) bool {
	return r.Check() == nil && r.Inventory.Public(url) && r.found.has(url)
}

// Watch reports everything as dirty whenever anything is.
func (r *Reachable) Watch(ctx context.Context, dirty func([]inventory.Scope)) error {
	if err := r.Check(); err != nil {
		return err
	}
	return r.Inventory.Watch(ctx, func([]inventory.Scope) { dirty(nil) })
}

// Scan yields the offers of the Inventory that links lead to. The result of following links at a full scan is
// used for partial scans after it.
func (r *Reachable) Scan(ctx context.Context, scopes []inventory.Scope) iter.Seq2[inventory.Offer, error] {
	return func(yield func(inventory.Offer, error) bool) {
		if err := r.follow(ctx, len(scopes) == 0); err != nil {
			yield(inventory.Offer{}, fmt.Errorf("follow links: %w", err))
			return
		}
		for o, err := range r.Inventory.Scan(ctx, scopes) {
			if err == nil && o.URL != "" && o.LeftOut == "" && !r.found.admit(&o) {
				continue
			}
			if !yield(o, err) {
				return
			}
		}
	}
}

// A node is an offered page, as a link target.
type node struct {
	url, place string
	stamp      uint64 // hash
	next       int32  // another page of the same name; -1 if there is none
	html       bool
	known      bool // stamp is not empty
	unsettled  bool
}

// follow determines which pages links lead to, unless a partial scan can use the last result.
func (r *Reachable) follow(ctx context.Context, whole bool) error {
	if err := r.Check(); err != nil {
		return err
	}
	r.turn.Lock()
	defer r.turn.Unlock()
	if known, err := r.found.load(ctx, r.Journal); err != nil || known && !whole {
		return err
	}
	nodes, byName, err := r.offers(ctx)
	if err != nil {
		return err
	}
	reached := make(map[uint64]struct{})
	var queue []uint64
	reach := func(name uint64) {
		if _, ok := reached[name]; ok {
			return
		}
		if _, ok := byName[name]; ok {
			reached[name] = struct{}{}
			queue = append(queue, name)
		}
	}
	for _, s := range r.Start {
		reach(r.found.name(s))
	}
	if len(queue) == 0 {
		return fmt.Errorf("no start page exists (%s): publication stays as it is until links can be followed", strings.Join(r.Start, " "))
	}
	links := make(map[uint64]pageLinks, len(r.link))
	for len(queue) > 0 {
		name := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for i := byName[name]; i >= 0; i = nodes[i].next {
			if !nodes[i].html {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			l := r.linksOf(ctx, &nodes[i])
			links[r.found.hash(nodes[i].url)] = l
			for _, to := range l.to {
				reach(to)
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r.link = links
	r.found.set(reached)
	return nil
}

// offers returns the Inventory's offers, and the first page of each name.
func (r *Reachable) offers(ctx context.Context) (nodes []node, byName map[uint64]int32, err error) {
	byName = make(map[uint64]int32)
	for o, err := range r.Inventory.Scan(ctx, nil) {
		var unseen *inventory.UnseenError
		switch {
		case errors.As(err, &unseen):
			continue // the scan that follows reports it
		case err != nil:
			return nil, nil, err
		case o.URL == "" || o.LeftOut != "" && o.LeftOut != leftNoIndex:
			continue
		case len(nodes) >= maxReachable:
			return nil, nil, fmt.Errorf("more than %d pages", maxReachable)
		}
		name := r.found.name(o.URL)
		n := node{url: o.URL, place: o.Place, stamp: r.found.hash(string(o.Stamp)), next: -1,
			html: isHTML(o.Type), known: len(o.Stamp) > 0, unsettled: o.Unsettled}
		if first, ok := byName[name]; ok {
			n.next = first
		}
		byName[name] = int32(len(nodes))
		nodes = append(nodes, n)
	}
	return nodes, byName, ctx.Err()
}

// linksOf returns the links of a page. If it cannot be read, its previous links count; if there are none, it
// has none.
func (r *Reachable) linksOf(ctx context.Context, n *node) pageLinks {
	old, ok := r.link[r.found.hash(n.url)]
	if ok && (n.known && old.stamp == n.stamp || n.unsettled) {
		return old
	}
	page, err := r.page(ctx, inventory.Offer{URL: n.url, Place: n.place})
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && ctx.Err() == nil && r.Log != nil {
			r.Log.Debug("links of a page could not be read: its previous links are used", "url", n.url, "err", err)
		}
		return old
	}
	l := pageLinks{stamp: n.stamp}
	seen := make(map[uint64]bool)
	for i, ref := range r.Links(n.url, page) {
		if i >= maxLinks {
			break
		}
		url, err := protocol.CanonicalURL(n.url, ref)
		if err != nil || protocol.Origin(url) != protocol.Origin(n.url) {
			continue
		}
		if name := r.found.name(url); !seen[name] {
			seen[name] = true
			l.to = append(l.to, name)
		}
	}
	return l
}

func (r *Reachable) page(ctx context.Context, o inventory.Offer) ([]byte, error) {
	f, err := r.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxLinkPage))
}

func isHTML(mediaType string) bool {
	return mediaType == "text/html" || mediaType == "application/xhtml+xml"
}

var _ inventory.Inventory = (*Reachable)(nil)
