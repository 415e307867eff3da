package frontier_test

import (
	"math"
	"slices"
	"testing"

	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/must"
)

// Cao's own example: 0.2 s to connect, 0.5 s for a response, pipelined.
func TestCaoExample(t *testing.T) {
	for i, want := range []float64{1.224, 2.190, 2.355, 2.377} {
		n := []int{1, 10, 50, 100}[i]
		s := frontier.SiteFacts{Ready: 1000, Speed: frontier.Speed{Connect: .2, Response: .5, PerConnection: n, Pipelined: true}}
		if got := float64(frontier.Performance{}.Site(s)); math.Abs(got-want) > 5e-4 {
			t.Errorf("%d pages a connection: %v pages a second, want %v", n, got, want)
		}
	}
	s := frontier.SiteFacts{Ready: 50, Sum: 50 * .01, Speed: frontier.Speed{Connect: .2, Response: .5, PerConnection: 50, Pipelined: true}}
	if got := float64(frontier.CrawlAbility{}.Site(s)); math.Abs(got-.0235) > 5e-5 {
		t.Errorf("50 pages of quality 0.01: %v a second", got)
	}
}

// A site of unknown speed counts as a site of mean speed: it comes before the slow one and after the fast one.
// A site that is busy is left out until it is not.
func TestUnknownSpeed(t *testing.T) {
	var store frontier.MemoryStore
	for p := PageID(1); p <= 9; p++ {
		store.Put(Entry{Page: p, Site: SiteID(1 + p%3)})
	}
	speed := map[SiteID]frontier.Speed{1: {Response: 4}, 3: {Response: 1}}
	f := must.Get(frontier.New(frontier.Performance{}, &store, &frontier.Options{Speed: func(id SiteID) frontier.Speed { return speed[id] }}))
	f.Small(byHeap)
	order := func() (sites []SiteID) {
		list := must.Get(f.Batch(1, frontier.BatchOptions{Size: 3}))
		for _, s := range list {
			sites = append(sites, s.Site)
		}
		f.Return(pages(list))
		return sites
	}
	if got := order(); !slices.Equal(got, []SiteID{3, 2, 1}) {
		t.Errorf("the order of the sites is %v", got)
	}
	speed[3] = frontier.Speed{Response: 1, Busy: true}
	f.Moved(3)
	f.First(Entry{Page: 3, Site: 1})
	f.First(Entry{Page: 2, Site: 3})
	if got := order(); !slices.Equal(got, []SiteID{1, 2}) {
		t.Errorf("with site 3 busy and a page of site 1 on demand the order is %v", got)
	}
	speed[3] = frontier.Speed{Response: 40}
	f.Moved(3)
	if got := order(); !slices.Equal(got, []SiteID{3, 1}) {
		t.Errorf("with pages of sites 3 and 1 on demand the order is %v", got)
	}
}

// A counter counts the sites that a frontier considers.
type counter struct {
	frontier.MemoryStore
	sites int
}

func (c *counter) Sites(f func(SiteID, int) error) error {
	return c.MemoryStore.Sites(func(id SiteID, n int) error {
		c.sites++
		return f(id, n)
	})
}

func (c *counter) Ready(id SiteID) (int, error) {
	c.sites++
	return c.MemoryStore.Ready(id)
}

// One page at a time costs no look at all sites, even if the best half of them are busy.
func TestPageByPageLooksAtFewSites(t *testing.T) {
	const n, sites = 20_000, 2000
	var store counter
	busy := map[SiteID]bool{}
	f := must.Get(frontier.New(frontier.LargerSites{}, &store, &frontier.Options{Speed: func(id SiteID) frontier.Speed {
		store.sites++
		return frontier.Speed{Busy: busy[id]}
	}}))
	var list []Entry
	for p := PageID(1); p <= n; p++ {
		e := Entry{Page: p, Site: SiteID(1 + p%sites)}
		if p%3 == 0 {
			e.Site = SiteID(1 + p%(sites/2))
			busy[e.Site] = true
		}
		store.Put(e)
		list = append(list, e)
	}
	f.Add(list)
	fetched := 0
	for {
		got := batch(t, f, 1, frontier.BatchOptions{Size: 1})
		if len(got) == 0 {
			break
		}
		if e, _ := store.Entry(got[0]); busy[e.Site] {
			t.Fatalf("%v is of a busy site", e)
		}
		store.Remove(got[0])
		f.Done(got)
		fetched++
	}
	if fetched < n/4 {
		t.Errorf("%d pages were given out", fetched)
	}
	if each := store.sites / fetched; each > 20 {
		t.Errorf("%d sites are considered for each page, of %d", each, sites)
	}
}

// Measurements of some sites do not move all whose speed is not known, whatever Options.Step is; times beyond all measure do
// not spoil the mean of the others.
func TestMeanSpeed(t *testing.T) {
	const sites = 1000
	var store counter
	for p := PageID(1); p <= sites; p++ {
		store.Put(Entry{Page: p, Site: SiteID(p)})
	}
	speed := map[SiteID]frontier.Speed{}
	f := must.Get(frontier.New(frontier.Performance{}, &store, &frontier.Options{Step: 1, Speed: func(id SiteID) frontier.Speed { return speed[id] }}))
	f.Small(byHeap)
	for i := range 500 {
		id := SiteID(1 + i%50)
		speed[id] = frontier.Speed{Connect: 2 + float64(i%7)/10, Response: 2 - float64(i%5)/10}
		f.Moved(id)
		if i == 50 { // all of them are known
			store.sites = 0
		}
		f.Return(batch(t, f, 1, frontier.BatchOptions{Size: 1}))
	}
	if store.sites > 10*sites {
		t.Errorf("%d sites were considered, of %d, for 450 measurements", store.sites, sites)
	}
	for _, x := range []float64{1e300, math.Inf(1), math.NaN(), -1, 5e-324, 0, 1e6, 1e-6} {
		for id := SiteID(1); id <= 50; id++ {
			speed[id] = frontier.Speed{Connect: x, Response: x}
			f.Moved(id)
		}
		f.Return(batch(t, f, 1, frontier.BatchOptions{Size: 1}))
	}
	for id := SiteID(1); id <= 50; id++ {
		speed[id] = frontier.Speed{Connect: 3, Response: 3}
		f.Moved(id)
	}
	speed[1] = frontier.Speed{Connect: 3.1, Response: 3.1}
	speed[2] = frontier.Speed{Connect: 2.9, Response: 2.9}
	f.Moved(1)
	f.Moved(2)
	place := map[SiteID]int{}
	list := must.Get(f.Batch(1, frontier.BatchOptions{Size: 2 * sites}))
	for i, s := range list {
		place[s.Site] = i
	}
	if a, b, c := place[2], place[sites], place[1]; !(a < b && b < c) {
		t.Errorf("a site of unknown speed is number %d, one that is faster than the mean %d, one that is slower %d", b, a, c)
	}
}
