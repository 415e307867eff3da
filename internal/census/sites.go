package census

import (
	"slices"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// A site is what is counted of one origin.
type site struct {
	id                      frontier.SiteID
	number                  uint32 // among those with a page in the census, + 1; 0: it has none
	pages, bytes            int64
	depth                   uint8         // the greatest
	hasHome                 bool          // one of its pages is a home page, from which depths are counted
	entry                   uint32        // else, so far, the page with the least depth
	least                   int           // that depth
	oldest, newest, sum     time.Duration // ages; sum of all
	dated                   int64
	copies, suspected, gone int64
	listed                  bool // its manifest names a page
}

// sites are all sites that the crawler knows pages of.
type sites struct {
	byID   []*site // by ID
	counts []*site // by number
}

// of returns the site of a page.
func (s *sites) of(p *collection.Page) *site {
	for len(s.byID) <= int(p.Site) {
		s.byID = append(s.byID, nil)
	}
	if s.byID[p.Site] == nil {
		s.byID[p.Site] = &site{id: p.Site}
	}
	return s.byID[p.Site]
}

// numberOf returns the number of a site with a page in the census.
func (s *sites) numberOf(of *site) uint32 {
	if of.number == 0 {
		s.counts = append(s.counts, of)
		of.number = uint32(len(s.counts))
	}
	return of.number - 1
}

// add counts a page of the census.
func (s *site) add(p *collection.Page, age time.Duration) {
	s.pages++
	s.bytes += p.Length
	if age == noAge {
		return
	}
	if s.dated == 0 {
		s.oldest, s.newest = age, age
	}
	s.oldest, s.newest = max(s.oldest, age), min(s.newest, age)
	s.sum += age / 1000 // 292 years of a Duration are few
	s.dated++
}

// topShare returns the share of a sum that the largest tenth of the numbers has, rounded up to a whole number of them.
func topShare(list []int64) float64 {
	slices.Sort(list)
	var all, top int64
	for i, n := range list {
		all += n
		if i >= len(list)-(len(list)+9)/10 {
			top += n
		}
	}
	return per(top, all)
}

// each returns a number of each site.
func (s *sites) each(of func(*site) int64) []int64 {
	list := make([]int64, len(s.counts))
	for i, site := range s.counts {
		list[i] = of(site)
	}
	return list
}

func pagesOf(s *site) int64 { return s.pages }
func bytesOf(s *site) int64 { return s.bytes }

// tables are the tables of sites.
func (s *sites) tables() []Table {
	pages, bytes := table("site_pages", "R12, Castillo 8.4.1", 2, "from", "to", "sites"), table("site_bytes", "R13, Castillo 8.4.2", 2, "from", "to", "sites")
	byPages, byBytes := histogram{}, histogram{}
	byDepth := [256]int64{}
	oldest, newest, mean := map[int]int64{}, map[int]int64{}, map[int]int64{}
	for _, x := range s.counts {
		byPages.add(x.pages)
		byBytes.add(x.bytes)
		byDepth[x.depth]++
		if x.dated > 0 {
			oldest[int(x.oldest/year)]++
			newest[int(x.newest/year)]++
			mean[int(x.sum/time.Duration(x.dated)/(year/1000))]++
		}
	}
	pages.classes(byPages)
	bytes.classes(byBytes)

	depths := table("site_depths", "R14, Castillo 8.4.3", 1, "depth", "sites", "share")
	var so int64
	for d, n := range byDepth {
		if so += n; n > 0 {
			depths.row(d, n, per(so, int64(len(s.counts))))
		}
	}
	ages := table("site_ages", "R15, Castillo 8.4.4", 1, "years", "oldest", "newest", "mean")
	for _, y := range sorted(oldest, newest, mean) {
		ages.row(y, oldest[y], newest[y], mean[y])
	}
	return []Table{pages, bytes, depths, ages}
}
