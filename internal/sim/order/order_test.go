package order_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/graph"
	"github.com/parleyweb/parley/internal/sim/order"
)

// every are all orders of a crawl.
func every() []string {
	return []string{order.Omniscient, order.HistoricalOmniscient, "opic", "breadth-first", "batch-pagerank", "partial-pagerank", "backlink-count", "larger-sites-first",
		"manifest-first", "random", "historical-pagerank-parent", "historical-pagerank-random", "historical-pagerank-zero"}
}

// drawn draws a small graph in which some pages have no links and some cannot be reached.
func drawn(seed uint64, most int) *graph.Graph {
	rng := rand.New(rand.NewPCG(seed, 9))
	n := 2 + rng.IntN(most-1)
	g := &graph.Graph{First: []uint32{0}}
	for i := range n {
		h := uint32(rng.IntN(1 + rng.IntN(8)))
		for int(h) >= len(g.Hosts) {
			g.Hosts = append(g.Hosts, fmt.Sprintf("host%d", len(g.Hosts)))
		}
		g.Host = append(g.Host, h)
		g.Path = append(g.Path, fmt.Sprintf("/%s%d.html", strings.Repeat("d/", rng.IntN(3)), i))
		links := map[uint32]bool{}
		for range rng.IntN(6) {
			if to := uint32(rng.IntN(1 + rng.IntN(n))); int(to) != i { // few pages have most
				links[to] = true
			}
		}
		for to := range uint32(n) {
			if links[to] {
				g.To = append(g.To, to)
			}
		}
		g.First = append(g.First, uint32(len(g.To)))
	}
	return g
}

func crawlOf(t *testing.T, r order.Run) []uint32 {
	t.Helper()
	pages, err := r.Pages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// Of every order, each page of a crawl is the best of those known, by the definition of the order, computed from
// nothing but the pages fetched before. Every page is fetched once.
func TestEachPageIsTheBestKnown(t *testing.T) {
	seeds := uint64(200)
	if testing.Short() {
		seeds = 20
	}
	for _, name := range every() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range seeds {
				w := order.NewWeb(drawn(seed, 60))
				w.History = w.DrawHistory(.5, .6, seed)
				r := order.Run{Web: w, Order: name, Every: 1 + int(seed%9), Tell: float64(seed%4) / 3, Rest: int(seed%3) * 2, Seed: seed}
				pages := crawlOf(t, r)
				if sorted := slices.Sorted(slices.Values(pages)); len(slices.Compact(sorted)) != w.Graph.Len() || len(pages) != w.Graph.Len() {
					t.Fatalf("seed %d: %d pages, of which %d differ, of %d", seed, len(pages), len(slices.Compact(sorted)), w.Graph.Len())
				}
				if err := verify(r, pages); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		})
	}
}

// A memory is what the oracle of the test knows after some pages were fetched.
type memory struct {
	order.Run
	known   []uint32 // in the order of discovery
	depth   map[uint32]int
	told    map[uint32]bool
	fetched map[uint32]bool
	by      map[uint32]float64 // what links of fetched pages, or a computation, have given a page
	ranked  map[uint32]bool    // a page's rank is computed, and links give it no more
	parent  map[uint32]uint32  // the first fetched page that links to a page
	bank    float64            // of OPIC
	clock   int                // pages fetched, or waited for
	last    map[uint32]int     // when a page of a host was fetched
}

// verify follows a crawl, and compares each page with the best one.
func verify(r order.Run, pages []uint32) error {
	m := &memory{Run: r, depth: map[uint32]int{}, told: map[uint32]bool{}, fetched: map[uint32]bool{}, by: map[uint32]float64{},
		ranked: map[uint32]bool{}, parent: map[uint32]uint32{}, last: map[uint32]int{}}
	for _, p := range r.Web.Starts {
		m.find(p, 0, false)
		if r.Order == "batch-pagerank" || r.Order == "partial-pagerank" {
			m.by[p], m.ranked[p] = 1/float64(len(r.Web.Starts)), true
		} else if r.Order == "opic" {
			m.by[p] = 1 / float64(len(r.Web.Starts))
		}
	}
	for i, p := range pages {
		if err := m.best(p); err != nil {
			return fmt.Errorf("page %d, number %d of the crawl: %w", p, i, err)
		}
		m.fetch(p)
		if (i+1)%r.Every == 0 && (r.Order == "batch-pagerank" || r.Order == "partial-pagerank") {
			ranks := m.dense()
			for _, q := range m.known {
				m.by[q], m.ranked[q] = ranks[q], true
			}
		}
	}
	return nil
}

func (m *memory) find(p uint32, depth int, told bool) {
	d, known := m.depth[p]
	if !known {
		m.known = append(m.known, p)
	}
	if !known || depth < d {
		m.depth[p] = depth
	}
	m.told[p] = m.told[p] || told
}

// score is a page's place among the pages: the greatest first.
func (m *memory) score(p uint32) float64 {
	w := m.Web
	switch m.Order {
	case order.Omniscient:
		return w.Ranks[p]
	case "random":
		return float64(frontier.Random(m.Seed).Page(frontier.Facts{Page: frontier.PageID(slices.Index(m.known, p) + 1)}))
	case "breadth-first":
		return -float64(m.depth[p])
	case "manifest-first":
		if m.told[p] {
			return 1 / float64(m.depth[p]+1)
		}
		return -float64(m.depth[p])
	case "opic", "backlink-count", "batch-pagerank", "partial-pagerank":
		return m.by[p]
	case order.HistoricalOmniscient:
		if w.History[p] < 0 {
			return w.Ranks[p]
		}
	case "historical-pagerank-parent":
		if w.History[p] < 0 {
			return m.by[p]
		}
	case "historical-pagerank-zero":
		if w.History[p] < 0 {
			return 0
		}
	default: // larger-sites-first: all pages of a site are equal
		return 0
	}
	return w.History[p]
}

// best checks that no page should have come before p.
func (m *memory) best(p uint32) error {
	if _, ok := m.depth[p]; !ok || m.fetched[p] {
		return fmt.Errorf("it is not known, or fetched already")
	}
	resting := func(q uint32) bool {
		at, ok := m.last[m.Web.Graph.Host[q]]
		return ok && m.clock-at <= m.Rest
	}
	for !slices.ContainsFunc(m.known, func(q uint32) bool { return !m.fetched[q] && !resting(q) }) {
		m.clock++ // it waits
	}
	if resting(p) {
		return fmt.Errorf("its site is to rest")
	}
	if m.Order == "historical-pagerank-random" {
		return nil // new pages draw their ranks
	}
	sites := map[uint32]int{}
	for _, q := range m.known {
		if !m.fetched[q] {
			sites[m.Web.Graph.Host[q]]++
		}
	}
	site := func(q uint32) int { return sites[m.Web.Graph.Host[q]] }
	first := true // p was found before all known pages so far
	for _, q := range m.known {
		if m.fetched[q] || q == p || resting(q) {
			first = first && q != p
			continue
		}
		a, b := m.score(p), m.score(q)
		switch {
		case m.Order == "larger-sites-first" && site(q) != site(p):
			if site(q) > site(p) {
				return fmt.Errorf("page %d is of a site with %d known pages, this one's has %d", q, site(q), site(p))
			}
		case b > a+m.slack(a):
			return fmt.Errorf("page %d has %g, this one %g", q, b, a)
		case a == b && first && (a == 0 || m.slack(a) == 0):
			return fmt.Errorf("page %d has %g, too, and was found before", q, b)
		}
	}
	return nil
}

// slack is by how much the frontier's numbers of 32 bits may be wrong.
func (m *memory) slack(score float64) float64 {
	switch m.Order {
	case "breadth-first", "manifest-first", "backlink-count", "larger-sites-first", "random":
		return 0
	}
	return 1e-4*math.Abs(score) + 1e-12
}

// fetch records that a page was fetched.
func (m *memory) fetch(p uint32) {
	g := m.Web.Graph
	m.fetched[p], m.last[g.Host[p]] = true, m.clock
	m.clock++
	links := g.Links(p)
	for _, to := range links {
		if _, ok := m.parent[to]; !ok {
			m.parent[to] = p
		}
		m.find(to, m.depth[p]+1, false)
	}
	if slices.Contains(m.Web.Starts, p) && m.telling(g.Host[p]) {
		for i := range g.Host {
			if g.Host[i] == g.Host[p] {
				m.find(uint32(i), strings.Count(g.Path[i], "/"), true)
			}
		}
	}
	switch n := float64(len(links)); m.Order {
	case "backlink-count":
		for _, to := range links {
			m.by[to]++
		}
	case "partial-pagerank":
		for _, to := range links {
			if !m.ranked[to] {
				m.by[to] += m.by[p] / n
			}
		}
	case "historical-pagerank-parent":
		for _, to := range links {
			if m.Web.History[to] < 0 && m.parent[to] == p {
				m.by[to] = m.score(p) / n
			}
		}
	case "opic":
		cash := m.by[p]
		m.by[p] = 0
		if n == 0 {
			m.bank += cash
			break
		}
		cash += m.bank / 1000
		m.bank -= m.bank / 1000
		for _, to := range links {
			m.by[to] += cash / n
		}
	}
}

// telling reports whether the crawl has drawn a manifest for a host: then its other pages are known once its start page is fetched.
func (m *memory) telling(host uint32) bool {
	return slices.Contains(order.Telling(m.Run), host)
}

// dense computes the Pagerank of the known graph step by step.
func (m *memory) dense() []float64 {
	n := float64(len(m.known))
	now := make([]float64, m.Web.Graph.Len())
	for _, p := range m.known {
		now[p] = 1 / n
	}
	for range 120 {
		next, dangling := make([]float64, len(now)), 0.
		for _, p := range m.known {
			links := m.Web.Graph.Links(p)
			if !m.fetched[p] || len(links) == 0 {
				dangling += now[p]
				continue
			}
			for _, to := range links {
				next[to] += .85 * now[p] / float64(len(links))
			}
		}
		for _, p := range m.known {
			next[p] += .15/n + .85*dangling/n
		}
		now = next
	}
	return now
}
