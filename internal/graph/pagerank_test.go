package graph_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/parleyweb/parley/internal/graph"
)

// denseRank is the rank by definition: a matrix of the chances to go from page to page, applied until nothing changes. It shares no code
// with Pagerank.
func denseRank(g *graph.Graph, jump float64, known, crawled []bool, weight func(from, to uint32) float64) []float64 {
	n := g.Len()
	var count float64
	for _, ok := range known {
		if ok {
			count++
		}
	}
	rank := make([]float64, n)
	chance := make([][]float64, n) // chance[i][j]: from i to j
	for i := range n {
		chance[i] = make([]float64, n)
		if !known[i] {
			continue
		}
		rank[i] = 1 / count
		links := 0.0
		if crawled[i] {
			for _, j := range g.Links(uint32(i)) {
				if known[j] {
					links += weight(uint32(i), j)
				}
			}
		}
		for j := range n {
			if known[j] && links == 0 {
				chance[i][j] = 1 / count
			} else if known[j] {
				chance[i][j] = jump / count
			}
		}
		if links > 0 {
			for _, j := range g.Links(uint32(i)) {
				if known[j] {
					chance[i][j] += (1 - jump) * weight(uint32(i), j) / links
				}
			}
		}
	}
	for range 2000 {
		next := make([]float64, n)
		for i := range n {
			for j := range n {
				next[j] += rank[i] * chance[i][j]
			}
		}
		rank = next
	}
	return rank
}

func distance(a, b []float64) (sum float64) {
	for i := range a {
		sum += math.Abs(a[i] - b[i])
	}
	return sum
}

// On random graphs, of which all is known or a part, with or without weights of links, the ranks are those of the definition, whatever they
// begin with. Pages without links lead to all pages, and the ranks sum to 1 (E24); the least is that of a page without links to it (E42).
func TestPagerankIsThatOfTheDefinition(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 8))
		g := randomGraph(rng, 1+rng.IntN(30))
		known, crawled := make([]bool, g.Len()), make([]bool, g.Len())
		for i := range known {
			known[i] = seed%3 == 0 || rng.IntN(3) > 0
			crawled[i] = seed%3 == 1 || rng.IntN(3) > 0
		}
		weight := func(from, to uint32) float64 { return 1 }
		if seed%2 == 0 {
			weight = func(from, to uint32) float64 { return float64((3*from + to) % 4) }
		}
		o := graph.Pagerank{Jump: []float64{0, .15, .5, 1}[seed/2%4], Tolerance: 1e-13, Iterations: 1000, Known: func(i uint32) bool { return known[i] },
			Weight: func(from, to uint32) float64 {
				if !known[to] {
					return 0
				}
				return weight(from, to)
			}}
		jump := o.Jump
		if jump == 0 {
			jump = .15
		}
		links := func(yield func(uint32, []uint32) bool) {
			for i, to := range g.All() {
				if crawled[i] && !yield(i, to) {
					return
				}
			}
		}
		want := denseRank(g, jump, known, crawled, weight)
		got := o.Ranks(g.Len(), links)
		if d := distance(got, want); d > 1e-10 {
			t.Fatalf("seed %d: %v, want %v", seed, got, want)
		}
		count, sum, least := 0., 0., 1.
		for i, r := range got {
			if sum += r; known[i] {
				count, least = count+1, min(least, r)
			}
		}
		if count > 0 && (math.Abs(sum-1) > 1e-12 || least < jump/count-1e-12) {
			t.Fatalf("seed %d: the ranks sum to %v, and the least is %v for %v pages", seed, sum, least, count)
		}
		o.Start = make([]float64, g.Len())
		for i := range o.Start {
			o.Start[i] = rng.NormFloat64()
		}
		if d := distance(o.Ranks(g.Len(), links), want); d > 1e-10 {
			t.Fatalf("seed %d: begun at random, %v away from the definition", seed, d)
		}
	}
}

// Graphs that can be solved by hand, with the jump .15, which is the default.
func TestPagerankByHand(t *testing.T) {
	for _, c := range []struct {
		what, adj string
		want      []float64
	}{
		{"a page alone", "\n", []float64{1}},
		{"no links at all", "\n\n\n\n", []float64{.25, .25, .25, .25}},
		{"a ring", "1\n2\n0\n", []float64{1. / 3, 1. / 3, 1. / 3}},
		// a = .05 + .85(b + c), b = c = .05 + .425 a
		{"a hub and two leaves that lead back", "1 2\n0\n0\n", []float64{.135 / .2775, .1425 / .2775 / 2, .1425 / .2775 / 2}},
		// b leads to both alike: b = .075 + .85(a + b/2), a = .075 + .425 b
		{"a page without links", "1\n\n", []float64{.5 / 1.425, .925 / 1.425}},
	} {
		if got := read(t, c.adj, "").Pagerank(graph.Pagerank{}); distance(got, c.want) > 1e-8 {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
	rounds := 0
	graph.Pagerank{Tolerance: 1e-300, Iterations: 17}.Ranks(3, func(yield func(uint32, []uint32) bool) {
		rounds++
		_ = yield(0, []uint32{1, 2}) && yield(1, []uint32{2})
	})
	if rounds != 17 {
		t.Errorf("the links are read %d times", rounds)
	}
	if got := read(t, "1\n\n", "").Pagerank(graph.Pagerank{Known: func(uint32) bool { return false }}); got[0] != 0 || got[1] != 0 {
		t.Errorf("nothing known: %v", got)
	}
}

// After some pages more, the ranks of before are a good beginning.
func TestPagerankBegunWithItself(t *testing.T) {
	g := graph.Generate(graph.Model{Pages: 3000, Hosts: 100, Seed: 1})
	exact := g.Pagerank(graph.Pagerank{Tolerance: 1e-14, Iterations: 1000})
	before := g.Pagerank(graph.Pagerank{Weight: func(from, _ uint32) float64 { return float64(min(from%50, 1)) }}) // without the links of some
	cold := distance(g.Pagerank(graph.Pagerank{Iterations: 5}), exact)
	warm := distance(g.Pagerank(graph.Pagerank{Iterations: 5, Start: before}), exact)
	if warm >= cold {
		t.Errorf("after 5 steps %v away, without a beginning %v", warm, cold)
	}
}
