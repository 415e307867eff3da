package order

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/graph"
	"github.com/parleyweb/parley/protocol"
)

// Orders that need an oracle: the simulator has them, a crawler cannot.
const (
	Sorted               = "sorted"                         // by final Pagerank, whether or not links lead there yet: the upper bound (L14)
	Omniscient           = "omniscient"                     // the known page with the highest final Pagerank (L12)
	HistoricalOmniscient = "historical-pagerank-omniscient" // by earlier Pagerank, new pages by the final one (L08)
)

// A Run is a crawl of a web by one order.
type Run struct {
	Web   *Web
	Order string // Sorted, Omniscient, HistoricalOmniscient, or a name that frontier.Named knows

	// Every is after how many pages batch-pagerank and partial-pagerank compute the Pagerank of the known graph; 0 means after a 35th of
	// all pages.
	Every int

	// Tell is the share of the hosts that publish a manifest: all their pages are known once their start page is fetched (L19). The hosts
	// are drawn by Seed; those of a smaller share tell under a greater one, too.
	Tell float64

	// Rest is after how many pages of other sites, at least, one of the same site follows: the wait between requests to a site, in pages. A
	// robot that knows no page elsewhere waits.
	Rest int

	// Ahead is how many pages are chosen before the links of a page are known. 0 is the thesis's crawl; a crawler that chooses a page
	// while it waits for the one before has 1.
	Ahead int

	Step float32 // that of frontier.Options: 0 means 1, the exact order; a crawler has 2

	Seed uint64 // of all random numbers
}

// Pages returns all pages of the web in the order in which the crawl fetches them.
func (r Run) Pages(ctx context.Context) ([]uint32, error) {
	if r.Order == Sorted {
		return r.Web.sorted(), nil
	}
	c, err := r.begin()
	if err != nil {
		return nil, fmt.Errorf("simulate %s: %w", r.Order, err)
	}
	for {
		if len(c.order)%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if more, err := c.step(); err != nil {
			return nil, fmt.Errorf("simulate %s: %w", r.Order, err)
		} else if !more {
			return c.order, nil
		}
	}
}

// An oracle ranks pages by numbers that no crawler knows.
type oracle struct {
	name string
	rank func(frontier.PageID) float32
}

func (o oracle) Name() string                      { return o.name }
func (o oracle) Page(f frontier.Facts) float32     { return o.rank(f.Page) }
func (o oracle) Site(s frontier.SiteFacts) float32 { return s.Best }

// A crawl is the state of a Run.
type crawl struct {
	run      Run
	strategy frontier.Strategy
	front    *frontier.Frontier
	store    frontier.MemoryStore
	pages    pages
	order    []uint32            // pages chosen
	learned  int                 // of these, the links are known
	tells    map[uint32][]uint32 // the pages of each host that tells, by start page
	ranks    []float64           // computed last; nil: never
	found    []frontier.Entry    // new or changed since the last add
	clock    int                 // pages fetched, or waited for
	free     []int               // from when on the pages of a host may be fetched
}

// pages are what a crawl knows of each page.
type pages struct {
	id      []frontier.PageID // 0: none yet
	byID    []uint32
	depth   []int32 // -1: the page is not known
	fetched []bool  // its links are known
	told    []bool  // a manifest has named it
}

func (r Run) begin() (*crawl, error) {
	n := r.Web.Graph.Len()
	c := &crawl{run: r, free: make([]int, len(r.Web.Graph.Hosts)), order: make([]uint32, 0, n), tells: r.tells(),
		pages: pages{id: make([]frontier.PageID, n), byID: make([]uint32, 1, n+1), depth: make([]int32, n), fetched: make([]bool, n), told: make([]bool, n)}}
	for i := range c.pages.depth {
		c.pages.depth[i] = -1
	}
	if c.run.Every <= 0 {
		c.run.Every = max(1, n/35) // the paper has 30 to 40 computations
	}
	history := strings.HasPrefix(r.Order, "historical-")
	if history && r.Web.History == nil {
		return nil, errors.New("the web has no earlier crawl")
	}
	var err error
	if c.strategy, err = c.strategyOf(r.Order); err != nil {
		return nil, err
	}
	if c.front, err = frontier.New(c.strategy, &c.store, &frontier.Options{Step: max(1, r.Step)}); err != nil {
		return nil, err
	}
	if history { // the pages of the earlier crawl have their numbers from it
		for i, rank := range r.Web.History {
			if rank >= 0 {
				c.pages.number(uint32(i))
			}
		}
		if err := c.front.SetRanks(c.pages.ranked(func(p uint32) float64 { return r.Web.History[p] })); err != nil {
			return nil, err
		}
	}
	for _, p := range r.Web.Starts {
		c.find(p, 0, false)
	}
	c.add()
	if r.ranking() || c.run.Order == "opic" { // all start pages are equal, and come before pages of which nothing is known
		err = c.front.SetRanks(c.pages.ranked(func(uint32) float64 { return 1 / float64(len(r.Web.Starts)) }))
	}
	return c, err
}

// strategyOf returns the strategy with a name.
func (c *crawl) strategyOf(name string) (frontier.Strategy, error) {
	w := c.run.Web
	switch name {
	case Omniscient:
		return oracle{name, func(p frontier.PageID) float32 { return float32(w.Ranks[c.pages.byID[p]]) }}, nil
	case HistoricalOmniscient:
		return oracle{name, func(p frontier.PageID) float32 {
			if i := c.pages.byID[p]; w.History[i] < 0 {
				return float32(w.Ranks[i])
			}
			return float32(w.History[c.pages.byID[p]])
		}}, nil
	}
	return frontier.Named(name, c.run.Seed)
}

// ranking reports whether the order needs the Pagerank of the known graph again and again.
func (r Run) ranking() bool { return r.Order == "batch-pagerank" || r.Order == "partial-pagerank" }

// tells draws the hosts with manifests.
func (r Run) tells() map[uint32][]uint32 {
	g := r.Web.Graph
	drawn := rand.New(rand.NewPCG(r.Seed, 0)).Perm(len(r.Web.Starts))
	drawn = drawn[:min(len(drawn), int(math.Round(r.Tell*float64(len(drawn)))))]
	if len(drawn) == 0 {
		return nil
	}
	start := map[uint32]uint32{} // by host
	for _, i := range drawn {
		start[g.Host[r.Web.Starts[i]]] = r.Web.Starts[i]
	}
	tells := map[uint32][]uint32{}
	for i, h := range g.Host {
		if p, ok := start[h]; ok {
			tells[p] = append(tells[p], uint32(i))
		}
	}
	return tells
}

// Named returns by how much the area under the curve of a crawl grows if a page counts for half from when a manifest has named it until it
// is fetched, as for an index that lists pages before it has them (O34).
func (r Run) Named(pages []uint32) (area float64) {
	at := make([]int, len(pages))
	for i, p := range pages {
		at[p] = i
	}
	tells := r.tells()
	for _, start := range r.Web.Starts {
		for _, p := range tells[start] {
			area += r.Web.Ranks[p] / 2 * float64(max(0, at[p]-at[start])) / float64(len(pages))
		}
	}
	return area
}

// number gives a page the next ID, unless it has one.
func (p *pages) number(page uint32) {
	if p.id[page] == 0 {
		p.id[page] = frontier.PageID(len(p.byID))
		p.byID = append(p.byID, page)
	}
}

// ranked yields the ranks of all pages that have an ID and are not fetched yet.
func (p *pages) ranked(rank func(page uint32) float64) iter.Seq2[frontier.PageID, float32] {
	return func(yield func(frontier.PageID, float32) bool) {
		for i, page := range p.byID {
			if i > 0 && !p.fetched[page] && !yield(frontier.PageID(i), float32(rank(page))) {
				return
			}
		}
	}
}

// next returns the next page; 0 means that none is left.
func (c *crawl) next() (frontier.PageID, error) {
	o := frontier.BatchOptions{Size: 1}
	if c.run.Rest > 0 {
		o.Skip = func(s frontier.SiteID) bool { return c.free[s-1] > c.clock }
	}
	for waited := 0; ; {
		list, err := c.front.Batch(1, o)
		switch {
		case err != nil:
			return 0, err
		case len(list) > 0:
			c.clock++
			c.free[list[0].Site-1] = c.clock + c.run.Rest
			return list[0].Entries[0].Page, nil
		case c.learned < len(c.order): // what comes next depends on a page that is being fetched
			if err := c.learn(); err != nil {
				return 0, err
			}
		case waited == c.run.Rest:
			return 0, nil
		default:
			waited++
			c.clock++
		}
	}
}

// step fetches the next page; false means that none is left.
func (c *crawl) step() (more bool, err error) {
	id, err := c.next()
	if err != nil || id == 0 {
		return false, err
	}
	c.order = append(c.order, c.pages.byID[id])
	for err == nil && len(c.order)-c.learned > c.run.Ahead {
		err = c.learn()
	}
	return true, err
}

// learn adds the links of the first fetched page of which they are not known yet.
func (c *crawl) learn() error {
	g, p := c.run.Web.Graph, c.order[c.learned]
	c.learned++
	id := c.pages.id[p]
	c.store.Remove(id)
	c.front.Done([]frontier.PageID{id})
	c.pages.fetched[p] = true

	targets := make([]frontier.PageID, 0, len(g.Links(p)))
	for _, to := range g.Links(p) {
		c.find(to, c.pages.depth[p]+1, false)
		targets = append(targets, c.pages.id[to])
	}
	for _, to := range c.tells[p] {
		depth := 1
		if g.Path != nil {
			depth = protocol.Depth(g.Path[to])
		}
		c.find(to, int32(depth), true)
	}
	c.add()
	fresh := float32(1)
	if c.run.Order == "opic" { // the start pages have all cash there is
		fresh = 0
	}
	if err := c.front.Share(id, fresh, targets); err != nil {
		return err
	}
	if !c.run.ranking() || c.learned%c.run.Every != 0 {
		return nil
	}
	o := graph.Pagerank{Tolerance: 1e-7, Start: c.ranks, Known: func(p uint32) bool { return c.pages.depth[p] >= 0 }}
	c.ranks = o.Ranks(g.Len(), func(yield func(uint32, []uint32) bool) {
		for p, fetched := range c.pages.fetched {
			if fetched && !yield(uint32(p), g.Links(uint32(p))) {
				return
			}
		}
	})
	return c.front.SetRanks(c.pages.ranked(func(p uint32) float64 { return c.ranks[p] }))
}

// find makes a page known, by a link or by a manifest. The depth counts if it is the least so far.
func (c *crawl) find(p uint32, depth int32, told bool) {
	known := c.pages.depth[p] >= 0
	if c.pages.fetched[p] || known && c.pages.depth[p] <= depth && (c.pages.told[p] || !told) {
		return
	}
	c.pages.number(p)
	before := c.rank(p)
	if !known || depth < c.pages.depth[p] {
		c.pages.depth[p] = depth
	}
	c.pages.told[p] = c.pages.told[p] || told
	rank := c.rank(p)
	if known && rank == before {
		return // or it has a rank from elsewhere, which depth does not change
	}
	e := frontier.Entry{Page: c.pages.id[p], Site: frontier.SiteID(c.run.Web.Graph.Host[p] + 1), Rank: rank}
	c.store.Put(e)
	c.found = append(c.found, e)
}

// rank returns the rank of a page by what is known of it, without what other pages have given it.
func (c *crawl) rank(p uint32) float32 {
	return c.strategy.Page(frontier.Facts{Page: c.pages.id[p], Depth: int(c.pages.depth[p]), Told: c.pages.told[p]})
}

// add tells the frontier what was found.
func (c *crawl) add() {
	c.front.Add(c.found)
	c.found = c.found[:0]
}
