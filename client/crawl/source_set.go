package crawl

import (
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
)

// A source is a URL that the engine fetches when it is due, or follows.
type source struct {
	collection.Source
	site  *site
	index int  // in the heap, -1 if not there
	busy  bool // being fetched, or followed
	off   bool // put off, though it was due
	lasts bool // its failure will last, see harvest.Lasting

	reception collection.Reception // since the run began
	follow    following
}

// A following is how a manifest is followed. The work's lock guards it.
type following struct {
	first     bool   // the manifest is being read for the first time, and is counted in its site's firsts
	announced bool   // nothing waits for an announcement any more
	current   bool   // its site has, as far as it has said, no later changes than those received
	described string // URL of the site's description, where the manifest names it
	offer     *offer // what its site offers there; nil: not known
	choice    Choice // the form of its changes; empty until it is followed
	end       func() // ends following it, so that it is due again; nil: it is not followed

	bulking  bool      // a request for many pages is open
	bulkFrom time.Time // no such request before this time
}

// mayBulk reports whether many pages may be fetched in one request: no such request is open, and the site is not known to lack
// the door.
func (f *following) mayBulk(now time.Time) bool {
	return !f.bulking && !now.Before(f.bulkFrom) && !(f.offer != nil && f.offer.d.Batch == "" && time.Since(f.offer.at) < offerLasts)
}

// noLongerFirst records that a manifest was read, or cannot be.
func (s *source) noLongerFirst() {
	if s.follow.first {
		s.follow.first = false
		s.site.firsts--
	}
}

// A sourceHeap orders sources by when they are due.
type sourceHeap []*source

func (h sourceHeap) Len() int           { return len(h) }
func (h sourceHeap) Less(i, j int) bool { return h[i].At.Before(h[j].At) }
func (h sourceHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *sourceHeap) Push(x any) {
	s := x.(*source)
	s.index = len(*h)
	*h = append(*h, s)
}
func (h *sourceHeap) Pop() any {
	old := *h
	s := old[len(old)-1]
	*h = old[:len(old)-1]
	s.index = -1
	return s
}

// A sourceSet holds the sources of a site. The work's lock guards it.
type sourceSet struct {
	byURL     map[string]*source
	named     map[string]bool // that were named and are not stored yet
	robots    *source
	publisher *source // the source that publishes the site's changes now; nil: none
}

// names records the URL of a source that a site, or a page of it, names. It returns
// false if the URL is known, or the site has maxSources already.
func (ss *sourceSet) names(url string) bool {
	if ss.byURL[url] != nil || ss.named[url] || len(ss.byURL)+len(ss.named) >= maxSources {
		return false
	}
	ss.named[url] = true
	return true
}

// withSource appends a source of a site that names it, see names.
func withSource(list []collection.Source, st *site, kind collection.SourceKind, url string, parent uint64) []collection.Source {
	if !st.sources.names(url) {
		return list
	}
	return append(list, collection.Source{Site: st.ID, Kind: kind, URL: url, Parent: parent})
}

// pushes reports whether a site announces each change at once, so that its silence
// is evidence at any time.
func (ss *sourceSet) pushes() bool { return ss.publisher != nil && !ss.listens() }

// obeys reports whether the robots.txt of a site is known and in force now.
func (ss *sourceSet) obeys() bool { return ss.robots != nil && !ss.robots.Polled.IsZero() }

// listens reports whether a site's changes are known by polling its manifest, its
// only working door.
func (ss *sourceSet) listens() bool {
	src := ss.publisher
	return src != nil && src.Door == string(client.Manifest)
}

// mayTell reports whether a site has a manifest, or may have one that was not polled yet.
func (ss *sourceSet) mayTell() bool {
	for _, src := range ss.byURL {
		if src.Kind == collection.ManifestRDF && (src.Polled.IsZero() || !src.Changed.IsZero()) {
			return true
		}
	}
	return false
}

// of returns the source with an ID, nil if there is none, or it is 0.
func (ss *sourceSet) of(id uint64) *source {
	for _, src := range ss.byURL {
		if src.ID == id && id != 0 {
			return src
		}
	}
	return nil
}

// hops returns how many sources in a row have redirected to s. The work's lock is held.
func (ss *sourceSet) hops(s *collection.Source) (n int) {
	for parent := s.Parent; parent != 0 && n < mostHops; n++ {
		p := ss.of(parent)
		if p == nil || p.Status < 300 || p.Status > 399 {
			break
		}
		parent = p.Parent
	}
	return n
}

// read returns when the least recently fetched sitemap of a site was fetched, the
// zero time if one has failed.
func (ss *sourceSet) read() (since time.Time) {
	for _, src := range ss.byURL {
		if src.Kind != collection.SitemapXML || src.Pages == 0 {
			continue
		}
		if src.Fails > 0 {
			return time.Time{}
		}
		if since.IsZero() || src.Polled.Before(since) {
			since = src.Polled
		}
	}
	return since
}
