package graph_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/parleyweb/parley/internal/graph"
)

// denseRank is the rank by definition: a matrix of the chances to go from page to page, applied until nothing changes. It shares no code
// with Pagerank.
func denseRank(g *graph.Graph, jump float64, known, crawled []bool) []float64 {
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
					links++
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
					chance[i][j] += (1 - jump) / links
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

// On random graphs, of which all is known or a part, the ranks are those of the definition, whatever they begin with.
func TestPagerankIsThatOfTheDefinition(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 8))
		g := randomGraph(rng, 1+rng.IntN(30))
		known, crawled := make([]bool, g.Len()), make([]bool, g.Len())
		for i := range known {
			known[i] = seed%3 == 0 || rng.IntN(3) > 0
			crawled[i] = seed%3 == 1 || rng.IntN(3) > 0
		}
		o := graph.Pagerank{Jump: []float64{0, .15, .5, 1}[seed%4], Tolerance: 1e-13, Iterations: 1000,
			Known: func(i uint32) bool { return known[i] }, Crawled: func(i uint32) bool { return crawled[i] }}
		jump := o.Jump
		if jump == 0 {
			jump = .15
		}
		want := denseRank(g, jump, known, crawled)
		got := g.Pagerank(o)
		if d := distance(got, want); d > 1e-10 {
			t.Fatalf("seed %d: %v, want %v", seed, got, want)
		}
		o.Start = make([]float64, g.Len())
		for i := range o.Start {
			o.Start[i] = rng.NormFloat64()
		}
		if d := distance(g.Pagerank(o), want); d > 1e-10 {
			t.Fatalf("seed %d: begun at random, %v away from the definition", seed, d)
		}
	}
}

// The whole graph is the default: two pages of which one links to the other, by hand. The second has no links, so p = .15/2 + .85 q/2 and
// q = p + .85 p.
func TestPagerankByHand(t *testing.T) {
	got := read(t, "1\n\n", "").Pagerank(graph.Pagerank{})
	if p := 1 / 2.85; math.Abs(got[0]-p) > 1e-9 || math.Abs(got[1]-1.85*p) > 1e-9 {
		t.Errorf("%v", got)
	}
	if got := read(t, "1\n\n", "").Pagerank(graph.Pagerank{Known: func(uint32) bool { return false }}); got[0] != 0 || got[1] != 0 {
		t.Errorf("nothing known: %v", got)
	}
}

// After some pages more, the ranks of before are a good beginning.
func TestPagerankBegunWithItself(t *testing.T) {
	g := graph.Generate(graph.Model{Pages: 3000, Hosts: 100, Seed: 1})
	exact := g.Pagerank(graph.Pagerank{Tolerance: 1e-14, Iterations: 1000})
	cold := distance(g.Pagerank(graph.Pagerank{Iterations: 5}), exact)
	warm := distance(g.Pagerank(graph.Pagerank{Iterations: 5, Start: g.Pagerank(graph.Pagerank{Crawled: func(i uint32) bool { return i%50 != 0 }})}), exact)
	if warm >= cold {
		t.Errorf("after 5 steps %v away, without a beginning %v", warm, cold)
	}
}
