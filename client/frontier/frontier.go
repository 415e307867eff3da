// Package frontier decides what a crawler asks for next: sites over pages, two
// levels of queues, both ordered by a [Strategy]. The crawler and the
// simulator run the same code: it has no clock, no network and no disk of its
// own. Times are given to it; what does not fit into memory stands in a [Store].
package frontier

// A SiteID numbers a site, that is an origin, from 1 on.
type SiteID uint32

// A PageID numbers a page of any site, from 1 on, in the order in which pages became known.
type PageID uint64

// An Entry is a page that waits for its turn. Every page that may be asked
// for has exactly one.
type Entry struct {
	Page PageID
	Site SiteID
	Rank float32 // among the pages of the site: the highest first, the lowest PageID among equals
	At   int64   // not before, in milliseconds since 1970; 0 means at once
}

// Facts are what a Strategy may know of a page.
type Facts struct {
	Page    PageID
	Depth   int     // least number of links from a start page, or of path segments where nobody linked
	Value   float32 // what the policy expects a visit to gain, see package fresh
	Cash    float32 // OPIC
	Dynamic bool
	Told    bool // a manifest, a push or a person named it, and we owe it a visit
}

// A Strategy orders both levels. Page is asked when an entry is made or
// changes, Site whenever the site's place may have changed.
type Strategy interface {
	Name() string
	Page(Facts) float32
	Site(SiteFacts) float32
}

// SiteFacts are what a Strategy may know of a site.
type SiteFacts struct {
	Site  SiteID
	Ready int     // pages that may be asked for now, without those that are given out
	Best  float32 // the highest rank among them
	Cash  float32 // of all of them, for a Sharer; else 0
}

// A Store is the queue behind the frontier: all entries, in order, on disk in
// the crawler and in a slice in the simulator. Ready entries (At reached) are
// ordered by site, then rank from high to low, then page, and
// their At does not matter any more; waiting ones by At, then page. A rank that is no
// number is 0. What a Batch has given out stays in the store until its visit
// is recorded.
//
// The store is changed by whoever records visits and finds, in the same
// transaction as that; the frontier learns of it by Add. What the frontier
// holds in memory may be older than the store, so whoever acts on an Entry
// checks that it is still the page's own.
type Store interface {
	// Sites calls f for every site with ready entries and how many it has. It
	// is called for every Batch, so the answer should come from memory.
	Sites(f func(site SiteID, ready int) error) error

	// Head returns up to n ready entries of a site that come after the given
	// one; the zero Entry means from the first on.
	Head(site SiteID, after Entry, n int) ([]Entry, error)

	// Promote makes up to n waiting entries with At <= now ready, and returns
	// them as they are then, in the order in which they waited.
	Promote(now int64, n int) ([]Entry, error)

	// Next returns the least At of all waiting entries, 0 if nothing waits.
	Next() (int64, error)

	// Rerank gives ready entries other ranks, in one transaction: new[i] is for
	// the page of old[i], and they come ordered by site, then page. An old entry
	// that is not there any more is passed over.
	Rerank(old, new []Entry) error
}
