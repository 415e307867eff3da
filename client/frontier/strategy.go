package frontier

import "fmt"

// A Sharer is a Strategy by cash: what a page ranks by is what other pages
// have given it. The Frontier keeps the books for it, see [Frontier.Share],
// and asks Page with nothing but Facts.Page and Facts.Cash when cash has moved.
type Sharer interface {
	Strategy

	// Cash is the inverse of Page: what a page has by whose rank it is known.
	Cash(rank float32) float32
}

// BreadthFirst asks for the pages nearest to the start first, and among those
// for the ones that became known first (L02).
type BreadthFirst struct{}

func (BreadthFirst) Name() string             { return "breadth-first" }
func (BreadthFirst) Page(f Facts) float32     { return -float32(f.Depth) }
func (BreadthFirst) Site(s SiteFacts) float32 { return s.Best }

// LargerSites asks the sites first that have most pages left, and on each for
// the pages that became known first (L07).
type LargerSites struct{}

func (LargerSites) Name() string             { return "larger-sites-first" }
func (LargerSites) Page(Facts) float32       { return 0 }
func (LargerSites) Site(s SiteFacts) float32 { return float32(s.Ready) }

// OPIC asks for the page first to which the pages that were asked for have
// passed on most cash, and the site first whose pages have most together (L06).
type OPIC struct{}

func (OPIC) Name() string              { return "opic" }
func (OPIC) Page(f Facts) float32      { return f.Cash }
func (OPIC) Site(s SiteFacts) float32  { return s.Cash }
func (OPIC) Cash(rank float32) float32 { return max(0, rank) }

// ManifestFirst asks first for what somebody has told us to ask for, and then
// breadth-first (L19).
type ManifestFirst struct{}

func (ManifestFirst) Name() string             { return "manifest-first" }
func (ManifestFirst) Site(s SiteFacts) float32 { return s.Best }

// Page ranks what was told above 0, by depth too, and all else at most 0.
func (ManifestFirst) Page(f Facts) float32 {
	if f.Told {
		return 1 / float32(max(f.Depth, 0)+1)
	}
	return -float32(f.Depth)
}

// Random asks for pages in an order that is drawn for good by its value, the seed (L13).
type Random uint64

func (Random) Name() string             { return "random" }
func (Random) Site(s SiteFacts) float32 { return s.Best }

// Page draws a rank from [0, 1). The 24 bits that a float32 has room for let
// a few pages rank alike; the lower PageID is first then.
func (r Random) Page(f Facts) float32 {
	x := uint64(f.Page) + uint64(r)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9 // the finaliser of splitmix64
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float32((x^x>>31)>>40) / (1 << 24)
}

// Profit asks first for the page whose visit is expected to gain most (V06, V15).
type Profit struct{}

func (Profit) Name() string             { return "profit" }
func (Profit) Page(f Facts) float32     { return f.Value }
func (Profit) Site(s SiteFacts) float32 { return s.Best }

// Named returns the Strategy with a name, as Name says it; seed is for random.
func Named(name string, seed uint64) (Strategy, error) {
	all := []Strategy{BreadthFirst{}, LargerSites{}, OPIC{}, ManifestFirst{}, Random(seed), Profit{}}
	names := make([]string, len(all))
	for i, s := range all {
		if s.Name() == name {
			return s, nil
		}
		names[i] = s.Name()
	}
	return nil, fmt.Errorf("strategy %q: there is none, but %q", name, names)
}
