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
	return []string{order.Sorted, order.Omniscient, order.HistoricalOmniscient, "opic", "breadth-first", "batch-pagerank", "partial-pagerank", "backlink-count", "larger-sites-first",
		"manifest-first", "random", "historical-pagerank-parent", "historical-pagerank-random", "historical-pagerank-zero"}
}

// drawn draws a graph of n pages, of which some have no links and some cannot be reached.
func drawn(seed uint64, n int) *graph.Graph {
	rng := rand.New(rand.NewPCG(seed, 9))
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

// On 1,000 webs, of every order, each page of a crawl is the best of those known, by the definition of the order, computed from
// nothing but the pages whose links are known. Every page is fetched once.
func TestEachPageIsTheBestKnown(t *testing.T) {
	webs := make([]*order.Web, 1000)
	if testing.Short() {
		webs = webs[:50]
	}
	for seed := range webs {
		rng := rand.New(rand.NewPCG(uint64(seed), 8))
		w := order.NewWeb(drawn(uint64(seed), 2+rng.IntN(1+rng.IntN(299))))
		w.History = w.DrawHistory(.5, .6, uint64(seed))
		webs[seed] = w
	}
	for _, name := range every() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed, w := range webs {
				r := order.Run{Web: w, Order: name, Every: 4 + seed%29, Tell: float64(seed%4) / 3, Rest: seed % 3 * 2, Ahead: max(0, seed%7-4), Seed: uint64(seed)}
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
	known  []uint32  // in the order of discovery
	of     []fact    // by page
	old    []float64 // the ranks of an earlier crawl, sorted
	lastID int
	bank   float64  // of OPIC
	tells  []uint32 // hosts
	clock  int      // pages chosen, or waited for
	free   []int    // from when on the pages of a host may be chosen
}

// A fact is what a memory has of a page.
type fact struct {
	id      int // in the order of discovery, from 1; those of an earlier crawl come first
	known   bool
	depth   int
	told    bool
	chosen  bool
	fetched bool    // its links are known
	by      float64 // what links of fetched pages, or a computation, have given it
	ranked  bool    // its rank is computed, and links give it no more
	parent  bool    // a fetched page links to it
}

// verify follows a crawl, and compares each page with the best one.
func verify(r order.Run, pages []uint32) error {
	m := &memory{Run: r, of: make([]fact, r.Web.Graph.Len()), free: make([]int, len(r.Web.Graph.Hosts)), tells: order.Telling(r)}
	if strings.HasPrefix(r.Order, "historical-") {
		for i, rank := range r.Web.History {
			if rank >= 0 {
				m.old = append(m.old, rank)
				m.lastID++
				m.of[i].id = m.lastID
			}
		}
		slices.Sort(m.old)
	}
	if r.Order == order.Sorted { // which needs no links, and rests nowhere
		m.Rest = 0
		for p := range uint32(r.Web.Graph.Len()) {
			m.find(p, 0, false)
		}
	}
	for _, p := range r.Web.Starts {
		m.find(p, 0, false)
		if r.Order == "batch-pagerank" || r.Order == "partial-pagerank" {
			m.of[p].by, m.of[p].ranked = 1/float64(len(r.Web.Starts)), true
		} else if r.Order == "opic" {
			m.of[p].by = 1 / float64(len(r.Web.Starts))
		}
	}
	fetched := 0
	learn := func() {
		m.fetch(pages[fetched])
		fetched++
		if fetched%r.Every == 0 && (r.Order == "batch-pagerank" || r.Order == "partial-pagerank") {
			ranks := m.dense()
			for _, q := range m.known {
				m.of[q].by, m.of[q].ranked = ranks[q], true
			}
		}
	}
	for i, p := range pages {
		for waits := 0; waits <= m.Rest && !slices.ContainsFunc(m.known, m.may); {
			if fetched < i {
				learn()
			} else {
				waits++
				m.clock++
			}
		}
		if err := m.best(p); err != nil {
			return fmt.Errorf("page %d, number %d of the crawl: %w", p, i, err)
		}
		m.clock++
		m.of[p].chosen, m.free[r.Web.Graph.Host[p]] = true, m.clock+m.Rest
		for i+1-fetched > r.Ahead {
			learn()
		}
	}
	return nil
}

func (m *memory) find(p uint32, depth int, told bool) {
	x := &m.of[p]
	if !x.known {
		x.known, x.depth = true, depth
		if m.known = append(m.known, p); x.id == 0 {
			m.lastID++
			x.id = m.lastID
		}
	}
	x.depth = min(x.depth, depth)
	x.told = x.told || told
}

// score is a page's place among the pages: the greatest first.
func (m *memory) score(p uint32) float64 {
	w, x := m.Web, &m.of[p]
	draw := func() float64 {
		return float64(frontier.Random(m.Seed).Page(frontier.Facts{Page: frontier.PageID(x.id)}))
	}
	switch m.Order {
	case order.Sorted, order.Omniscient:
		return w.Ranks[p]
	case "random":
		return draw()
	case "breadth-first":
		return -float64(x.depth)
	case "manifest-first":
		if x.told {
			return 1 / float64(x.depth+1)
		}
		return -float64(x.depth)
	case "opic", "backlink-count", "batch-pagerank", "partial-pagerank":
		return x.by
	case order.HistoricalOmniscient:
		if w.History[p] < 0 {
			return w.Ranks[p]
		}
	case "historical-pagerank-parent":
		if w.History[p] < 0 {
			return x.by
		}
	case "historical-pagerank-random":
		if w.History[p] < 0 && len(m.old) > 0 {
			return m.old[int(draw()*float64(len(m.old)))]
		}
	case "historical-pagerank-zero":
		if w.History[p] < 0 {
			return 0
		}
	default: // larger-sites-first: all pages of a site are equal
		return 0
	}
	return max(0, w.History[p])
}

// may reports whether a known page may be chosen now.
func (m *memory) may(p uint32) bool { return !m.of[p].chosen && m.free[m.Web.Graph.Host[p]] <= m.clock }

// best checks that no page should have come before p.
func (m *memory) best(p uint32) error {
	if !m.of[p].known || !m.may(p) {
		return fmt.Errorf("it is not known, or fetched already, or its site is to rest")
	}
	sites := make([]int, len(m.Web.Graph.Hosts))
	for _, q := range m.known {
		if !m.of[q].chosen {
			sites[m.Web.Graph.Host[q]]++
		}
	}
	site := func(q uint32) int { return sites[m.Web.Graph.Host[q]] }
	a := m.score(p)
	for _, q := range m.known {
		if !m.may(q) || q == p {
			continue
		}
		b := m.score(q)
		switch {
		case m.Order == "larger-sites-first" && site(q) != site(p):
			if site(q) > site(p) {
				return fmt.Errorf("page %d is of a site with %d known pages, this one's has %d", q, site(q), site(p))
			}
		case b > a+m.slack(a):
			return fmt.Errorf("page %d has %g, this one %g", q, b, a)
		case a == b && m.of[q].id < m.of[p].id && (a == 0 || m.slack(a) == 0):
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

// fetch records the links of a page.
func (m *memory) fetch(p uint32) {
	g, x := m.Web.Graph, &m.of[p]
	x.fetched = true
	links := g.Links(p)
	var first []uint32 // p is their first parent
	for _, to := range links {
		m.find(to, x.depth+1, false)
		if !m.of[to].parent {
			m.of[to].parent = true
			first = append(first, to)
		}
	}
	if slices.Contains(m.Web.Starts, p) && slices.Contains(m.tells, g.Host[p]) { // the host's other pages are known
		for i := range g.Host {
			if g.Host[i] == g.Host[p] {
				m.find(uint32(i), strings.Count(g.Path[i], "/"), true)
			}
		}
	}
	switch n := float64(len(links)); m.Order {
	case "backlink-count":
		for _, to := range links {
			m.of[to].by++
		}
	case "partial-pagerank":
		for _, to := range links {
			if !m.of[to].ranked {
				m.of[to].by += x.by / n
			}
		}
	case "historical-pagerank-parent":
		for _, to := range first {
			if m.Web.History[to] < 0 {
				m.of[to].by = m.score(p) / n
			}
		}
	case "opic":
		cash := x.by
		x.by = 0
		if n == 0 {
			m.bank += cash
			break
		}
		cash += m.bank / 1000
		m.bank -= m.bank / 1000
		for _, to := range links {
			m.of[to].by += cash / n
		}
	}
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
			if !m.of[p].fetched || len(links) == 0 {
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
