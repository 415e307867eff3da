package frontier_test

import (
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/must"
)

// A node is a page of a small web, and what is known of it in the slow, simple way.
type node struct {
	site  SiteID
	links []int
	value float32
	told  bool
	old   float32 // its rank in an earlier crawl, 0: it is new

	id      PageID // in the order in which pages were found; 0: not yet
	depth   int
	fetched bool
	held    float32 // cash, or links, or rank
	settled bool    // its rank does not come from its parents
}

// A smallWeb has the rules of all strategies, written out without the frontier's code.
type smallWeb struct {
	rng     *rand.Rand
	seed    uint64
	order   string // the strategy
	nodes   []node
	found   []int // nodes by PageID - 1
	bank    float64
	granted float64
	ranks   []float32 // sorted
	speed   map[SiteID]frontier.Speed
}

func newSmallWeb(order string, seed uint64) *smallWeb {
	w := &smallWeb{rng: rand.New(rand.NewPCG(seed, 11)), seed: seed, order: order, speed: map[SiteID]frontier.Speed{}}
	n := 2 + w.rng.IntN(1+w.rng.IntN(298))
	sites := 1 + w.rng.IntN(1+w.rng.IntN(n))
	for i := range n {
		x := node{site: SiteID(1 + w.rng.IntN(1+w.rng.IntN(sites))), value: float32(w.rng.IntN(20)) / 20, told: w.rng.IntN(8) == 0}
		if w.rng.IntN(100) < 55 { // as many as were known in the thesis's pair of crawls
			x.old = w.rng.Float32()
		}
		if w.rng.IntN(5) > 0 {
			x.links = append(x.links, (i+1)%n)
		}
		for range w.rng.IntN(3) * w.rng.IntN(6) { // twice the same, perhaps, or itself
			x.links = append(x.links, w.rng.IntN(1+w.rng.IntN(n)))
		}
		w.nodes = append(w.nodes, x)
	}
	for id := SiteID(1); id <= SiteID(sites); id++ {
		w.speed[id] = someSpeed(w.rng)
	}
	return w
}

// rank is a page's, by the definition of the strategy.
func (w *smallWeb) rank(x *node) float32 {
	switch w.order {
	case "breadth-first":
		return float32(-x.depth)
	case "larger-sites-first", "performance":
		return 0
	case "manifest-first":
		if x.told {
			return 1 / float32(1+x.depth)
		}
		return float32(-x.depth)
	case "profit", "crawl-ability":
		return x.value
	case "random":
		return arbitrary(x.id) // any order is right
	}
	return x.held
}

const seedOfDraws = 5

func arbitrary(p PageID) float32 { return frontier.Random(seedOfDraws).Page(frontier.Facts{Page: p}) }

// best returns the page to fetch now: of the best site its best page.
func (w *smallWeb) best(skip func(SiteID) bool) *node {
	waiting := map[SiteID][]*node{}
	first := map[SiteID]*node{}
	for _, i := range w.found {
		x := &w.nodes[i]
		if x.fetched || skip(x.site) || w.speed[x.site].Busy {
			continue
		}
		waiting[x.site] = append(waiting[x.site], x)
		if f := first[x.site]; f == nil || w.rank(x) > w.rank(f) {
			first[x.site] = x
		}
	}
	score := func(id SiteID) float32 {
		n := len(waiting[id])
		switch w.order {
		case "larger-sites-first":
			return float32(n)
		case "performance", "crawl-ability":
			s := whole(w.speed, id)
			n = min(n, s.PerConnection)
			p := 1.
			if s.Pipelined {
				p = 1.2
			}
			gain := float64(n)
			if w.order == "crawl-ability" {
				var values []float64
				for _, x := range waiting[id] {
					values = append(values, float64(x.value))
				}
				slices.Sort(values)
				gain = 0
				for _, v := range slices.Backward(values[len(values)-n:]) {
					gain += v
				}
				gain = float64(float32(gain))
			}
			return float32(gain / (2*s.Connect + float64(n)*(s.Response/p)))
		}
		return w.rank(first[id])
	}
	var best *node
	most := float32(0)
	for id, x := range first {
		if s := score(id); best == nil || s > most || s == most && x.id < best.id {
			best, most = x, s
		}
	}
	return best
}

// give adds to what a page has, as a number of single precision; what is lost by that goes to the bank.
func (w *smallWeb) give(to int, part float64) {
	x := &w.nodes[to]
	had := float64(x.held)
	x.held = float32(had + part)
	w.bank += part - (float64(x.held) - had)
}

// fetch accounts for the links of a fetched page.
func (w *smallWeb) fetch(x *node) {
	links := float64(len(x.links))
	switch w.order {
	case "opic":
		had := float64(x.held)
		x.held = 0
		if links == 0 {
			w.bank += had
			return
		}
		if had == 0 {
			had = 1
			w.granted++
		}
		loan := max(0, w.bank) * .001
		w.bank -= loan
		for _, to := range x.links {
			w.give(to, (had+loan)/links)
		}
	case "backlink-count":
		for _, to := range x.links {
			w.nodes[to].held++
		}
	case "partial-pagerank", "historical-pagerank-parent":
		held := x.held
		for _, to := range x.links {
			if !w.nodes[to].settled {
				w.give(to, float64(held)/links)
				w.nodes[to].settled = w.order == "historical-pagerank-parent"
			}
		}
	}
}

// find makes the pages that a page leads to known, and returns those that were not.
func (w *smallWeb) find(links []int, depth int) (found []*node) {
	for _, i := range links {
		x := &w.nodes[i]
		if x.id != 0 {
			continue
		}
		w.found = append(w.found, i)
		x.id, x.depth = PageID(len(w.found)), depth
		if w.order == "opic" && depth == 0 {
			x.held = 1
			w.granted++
		}
		if strings.HasPrefix(w.order, "historical") {
			if x.old > 0 {
				x.held, x.settled = x.old, true
			} else if w.order == "historical-pagerank-random" && len(w.ranks) > 0 {
				x.held, x.settled = w.ranks[int(float64(arbitrary(x.id))*float64(len(w.ranks)))], true
			}
		}
		found = append(found, x)
	}
	return found
}

// A crawler fetches a smallWeb one page at a time, by a frontier.
type crawler struct {
	*smallWeb
	t     *testing.T
	store frontier.MemoryStore
	front *frontier.Frontier
	s     frontier.Strategy
}

func (c *crawler) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// reach makes pages known to the frontier, with the ranks that they have from the earlier crawl.
func (c *crawler) reach(found []*node) {
	for _, x := range found {
		e := Entry{Page: x.id, Site: x.site, Rank: c.s.Page(frontier.Facts{Page: x.id, Depth: x.depth, Value: x.value, Told: x.told, Start: x.depth == 0})}
		c.store.Put(e)
		c.front.Add([]Entry{e})
		if strings.HasPrefix(c.order, "historical") && x.old > 0 {
			c.must(c.front.SetRanks(maps.All(map[PageID]float32{x.id: x.old})))
		}
	}
}

// history has the ranks of the earlier crawl, of pages that have no numbers yet.
func (c *crawler) history() iter.Seq2[PageID, float32] {
	return func(yield func(PageID, float32) bool) {
		for i := range c.nodes {
			if old := c.nodes[i].old; old > 0 && !yield(0, old) {
				return
			}
		}
	}
}

// rankAll sets the ranks of all pages known, in any order, to numbers like those of a Pagerank.
func (c *crawler) rankAll() {
	ranks := map[PageID]float32{}
	for _, i := range c.found {
		x := &c.nodes[i]
		x.held, x.settled = float32(c.rng.IntN(9))/8*c.rng.Float32(), true
		ranks[x.id] = x.held
	}
	c.must(c.front.SetRanks(maps.All(ranks)))
}

// crawl fetches all pages that can be reached.
func (c *crawler) crawl() {
	if strings.HasPrefix(c.order, "historical") {
		for _, x := range c.nodes {
			if x.old > 0 {
				c.ranks = append(c.ranks, x.old)
			}
		}
		slices.Sort(c.ranks)
		c.must(c.front.SetRanks(c.history()))
	}
	for id := range c.speed {
		c.front.Moved(id)
	}
	starts := []int{c.rng.IntN(len(c.nodes)), c.rng.IntN(len(c.nodes))}
	c.reach(c.find(starts, 0))
	for turn, idle := 0, 0; ; turn++ {
		if turn%7 == 6 && (c.order == "batch-pagerank" || c.order == "partial-pagerank") {
			c.rankAll()
		}
		if id := SiteID(1 + c.rng.IntN(len(c.speed))); c.rng.IntN(4) == 0 || idle > 0 {
			c.speed[id] = someSpeed(c.rng)
			c.front.Moved(id)
		}
		odd := SiteID(c.rng.IntN(4))
		skip := func(id SiteID) bool { return idle == 0 && id%4 == odd }
		want := c.best(skip)
		list := must.Get(c.front.Batch(1, frontier.BatchOptions{Size: 1, Skip: skip}))
		got := pages(list)
		switch {
		case want == nil && len(got) == 0 && c.front.Len() == 0:
			return
		case want == nil && len(got) == 0:
			idle++
			continue
		case want == nil || len(got) != 1 || got[0] != want.id:
			c.t.Fatalf("seed %d, turn %d: %v is given out, want %+v", c.seed, turn, list, want)
		}
		idle = 0
		want.fetched = true
		c.store.Remove(want.id)
		c.front.Done(got)
		found := c.find(want.links, want.depth+1)
		var to []PageID
		for _, i := range want.links {
			to = append(to, c.nodes[i].id)
		}
		c.fetch(want)
		if early := c.rng.IntN(2) == 0; early {
			c.reach(found)
			found = nil
		}
		c.must(c.front.Share(want.id, 1, to))
		c.reach(found)
		if c.order == "opic" {
			if inPages, bank := c.front.Cash(); math.Abs(inPages+bank-c.granted) > 1e-9*c.granted {
				c.t.Fatalf("seed %d, turn %d: pages have %v and the bank %v: %v was granted", c.seed, turn, inPages, bank, c.granted)
			}
		}
	}
}

// On 1,000 webs each strategy fetches every page once, and always the one that comes first by definition: pages
// one at a time, ranks and speeds that change, sites that are skipped or busy, memory of any size.
func TestOrderMatchesBruteForce(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 50
	}
	for _, order := range strings.Split(strings.Replace(frontier.Names(), " or ", ", ", 1), ", ") {
		t.Run(order, func(t *testing.T) {
			s := must.Get(frontier.Named(order, seedOfDraws))
			for seed := range seeds {
				crawlSmallWeb(t, s, seed)
			}
		})
	}
}

func crawlSmallWeb(t *testing.T, s frontier.Strategy, seed uint64) {
	c := &crawler{t: t, s: s, smallWeb: newSmallWeb(s.Name(), seed)}
	o := &frontier.Options{Step: 1, Speed: func(id SiteID) frontier.Speed { return c.speed[id] }}
	if seed%3 == 2 {
		o.Memory, o.PerSite = 1, 1+c.rng.IntN(5)
	}
	f := must.Get(frontier.New(s, &c.store, o))
	f.Small([]int{byHeap, byList, 4}[seed/3%3])
	f.ExactMeans()
	c.front = f
	c.crawl()
	for _, i := range c.found {
		if x := &c.nodes[i]; !x.fetched {
			t.Fatalf("seed %d: page %d was never fetched", seed, x.id)
		}
	}
}
