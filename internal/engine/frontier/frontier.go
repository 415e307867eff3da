// Package frontier decides what a crawler fetches next: sites first, then pages, in two levels of queues,
// both ordered by a [Strategy]. The crawler and the simulator run the same code: it has no clock, network or
// disk of its own. The caller passes times in; entries that do not fit into memory are in a [Store].
package frontier

// A SiteID numbers a site, that is an origin, from 1.
type SiteID uint32

// A PageID numbers a page of any site, from 1, in the order in which pages were found.
type PageID uint64

// An Entry is a page in the queue. Every page that may be fetched has exactly one.
type Entry struct {
	Page PageID
	Site SiteID
	Rank float32 // among the pages of the site: the highest first, the lowest PageID among equals
	At   int64   // not before this time, in milliseconds since 1970; 0 means at once
}

// Facts are the inputs of a Strategy for a page. The collection fills them in whenever it places the page in the queue.
type Facts struct {
	Page  PageID
	Depth int     // least number of links from a start page, or of path segments if no link is known
	Value float32 // what the policy expects a visit to gain, see package fresh
	Cash  float32 // for a Sharer: what other pages have given it, or its rank as computed outside
	Told  bool    // a manifest, a push or a person announced it, and it is still to be fetched
	Start bool    // a person named it, and it was not known before
}

// A Strategy ranks pages and sites. Page is called when an entry is made or changes, Site whenever the
// site's rank may have changed.
type Strategy interface {
	Name() string
	Page(Facts) float32
	Site(SiteFacts) float32
}

// SiteFacts are the inputs of a Strategy for a site.
type SiteFacts struct {
	Site  SiteID
	Ready int     // pages that may be fetched now, without those given out
	First PageID  // the first of them in the site's queue; among sites of equal score the one with the lowest is first
	Best  float32 // its rank, the highest among them
	Sum   float32 // the ranks of the first Speed.PerConnection of them, added up; for CrawlAbility, else 0
	Speed Speed   // with nothing unknown; for Performance and CrawlAbility, while for others what is unknown is 1 s
}

// A Store is the queue behind the frontier: all entries, in order, on disk in the crawler and in a slice in
// the simulator. Ready entries (At reached) are ordered by site, then rank from high to low, then page, and
// their At no longer matters; waiting ones by At, then page. A rank that is NaN counts as 0. Pages given out
// by a Batch stay in the store until their visit is recorded.
//
// The store is changed by the code that records visits and finds, in the same transaction; the frontier
// learns of it by Add. The frontier's memory may be older than the store, so a user of an Entry checks that
// it is still the page's own.
type Store interface {
	// Sites calls f for every site with ready entries and their number. It is called for every large Batch, so
	// the answer should come from memory.
	Sites(f func(site SiteID, ready int) error) error

	// Ready returns the number of ready entries of one site. It, too, should come from memory.
	Ready(site SiteID) (int, error)

	// Head returns up to n ready entries of a site after the given one; the zero Entry means from the first.
	Head(site SiteID, after Entry, n int) ([]Entry, error)

	// Promote makes up to n waiting entries with At <= now ready, and returns them in the order in which they waited.
	Promote(now int64, n int) ([]Entry, error)

	// Next returns the least At of all waiting entries, 0 if nothing waits.
	Next() (int64, error)

	// Rerank gives ready entries new ranks, in one transaction: new[i] replaces old[i], of the same page,
	// and both are ordered by site, then page. An old entry that is no longer there is skipped.
	Rerank(old, new []Entry) error
}
