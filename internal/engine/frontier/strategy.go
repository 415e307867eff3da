package frontier

import (
	"fmt"
	"strings"
)

// A Sharer is a Strategy by cash: a page's rank depends on what fetched pages pass on to it. The Frontier
// does the bookkeeping, see [Frontier.Share] and [Frontier.SetRanks], and calls Page with only Facts.Page and
// Facts.Cash when cash has moved.
type Sharer interface {
	Strategy

	// Cash is the inverse of Page: the cash of a page with that rank.
	Cash(rank float32) float32

	// Pass returns what a fetched page gives along each of its links, and what it keeps. A Sharer whose pages
	// keep nothing conserves cash; if they keep theirs, they give only once.
	Pass(cash float64, links int) (each, kept float64)
}

// BreadthFirst fetches the pages nearest to the start first, and among those the ones found first (L02).
type BreadthFirst struct{}

func (BreadthFirst) Name() string             { return "breadth-first" }
func (BreadthFirst) Page(f Facts) float32     { return -float32(f.Depth) }
func (BreadthFirst) Site(s SiteFacts) float32 { return s.Best }

// LargerSites fetches from the sites with most pages left first, and on each the pages found first (L07).
type LargerSites struct{}

func (LargerSites) Name() string             { return "larger-sites-first" }
func (LargerSites) Page(Facts) float32       { return 0 }
func (LargerSites) Site(s SiteFacts) float32 { return float32(s.Ready) }

// OPIC fetches first the page that got most cash from the fetched pages, whatever its site (L06). It begins with equal
// cash for all start pages.
type OPIC struct{}

func (OPIC) Name() string { return "opic" }
func (OPIC) Page(f Facts) float32 {
	if f.Start {
		return 1
	}
	return f.Cash
}
func (OPIC) Site(s SiteFacts) float32  { return s.Best }
func (OPIC) Cash(rank float32) float32 { return max(0, rank) }
func (OPIC) Pass(cash float64, links int) (each, kept float64) {
	return cash / float64(max(1, links)), 0
}

// BacklinkCount fetches first the page to which most links of fetched pages lead (L03).
type BacklinkCount struct{}

func (BacklinkCount) Name() string                                  { return "backlink-count" }
func (BacklinkCount) Page(f Facts) float32                          { return f.Cash }
func (BacklinkCount) Site(s SiteFacts) float32                      { return s.Best }
func (BacklinkCount) Cash(rank float32) float32                     { return max(0, rank) }
func (BacklinkCount) Pass(cash float64, _ int) (each, kept float64) { return 1, cash }

// ManifestFirst fetches announced pages first, and then breadth-first (L19).
type ManifestFirst struct{}

func (ManifestFirst) Name() string             { return "manifest-first" }
func (ManifestFirst) Site(s SiteFacts) float32 { return s.Best }

// Page ranks announced pages above 0, by depth too, and all others at most 0.
func (ManifestFirst) Page(f Facts) float32 {
	if f.Told {
		return 1 / float32(max(f.Depth, 0)+1)
	}
	return -float32(f.Depth)
}

// Random fetches pages in a fixed random order; its value is the seed (L13).
type Random uint64

func (Random) Name() string             { return "random" }
func (Random) Site(s SiteFacts) float32 { return s.Best }

// Page draws a rank from [0, 1). Since a float32 has room for 24 bits, a few pages get the same rank; then
// the lower PageID is first.
func (r Random) Page(f Facts) float32 {
	x := uint64(f.Page) + uint64(r)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9 // the finaliser of splitmix64
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float32((x^x>>31)>>40) / (1 << 24)
}

// Profit fetches first the page whose visit is expected to gain most (V06, V15): by quality, if that is the gain (Q04).
type Profit struct{}

func (Profit) Name() string             { return "profit" }
func (Profit) Page(f Facts) float32     { return f.Value }
func (Profit) Site(s SiteFacts) float32 { return s.Best }

// strategies returns one of each kind; seed is for those that draw.
func strategies(seed uint64) []Strategy {
	return []Strategy{BacklinkCount{}, computed{"batch-pagerank", isZero, 0}, BreadthFirst{}, CrawlAbility{}, computed{"historical-pagerank-parent", fromFirst, 0},
		computed{"historical-pagerank-random", drawnFromAll, seed}, computed{"historical-pagerank-zero", isZero, 0}, LargerSites{}, OPIC{},
		ManifestFirst{}, computed{"partial-pagerank", fromParents, 0}, Performance{}, Profit{}, Random(seed)}
}

// Named returns the Strategy with a name, as returned by Name; seed is for those that draw.
func Named(name string, seed uint64) (Strategy, error) { return find(name, strategies(seed)) }

// Names returns the names that Named knows, for people: with commas, and an "or" before the last.
func Names() string { return names(strategies(0)) }

func find(name string, list []Strategy) (Strategy, error) {
	if name == "quality" { // Cao's word (Q04)
		name = Profit{}.Name()
	}
	for _, s := range list {
		if s.Name() == name {
			return s, nil
		}
	}
	return nil, fmt.Errorf("unknown strategy %q: want %s", name, names(list))
}

func names(list []Strategy) (names string) {
	for _, s := range list {
		names += ", " + s.Name()
	}
	last := strings.LastIndex(names, ", ")
	return names[2:last] + " or " + names[last+2:]
}
