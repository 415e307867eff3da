package graph_test

import (
	"math/rand/v2"
	"testing"

	"github.com/parleyweb/parley/internal/graph"
)

// denseHITS computes hubs and authorities by a matrix of weights, in two passes a step; or as algorithm 2 is printed, with both sums in one loop, so
// that the authority of a page misses the hubs that come later.
func denseHITS(weight [][]float64, steps int, onePass bool) (hubs, authorities []float64) {
	n := len(weight)
	authorities = make([]float64, n)
	for i := range authorities {
		authorities[i] = 1
	}
	scale := func(list []float64) {
		sum := 0.
		for _, x := range list {
			sum += x
		}
		for i := range list {
			if sum > 0 {
				list[i] /= sum
			}
		}
	}
	for range steps {
		next := make([]float64, n)
		hubs = make([]float64, n)
		authority := func(i int) {
			for x := range n {
				next[i] += weight[x][i] * hubs[x]
			}
		}
		for i := range n {
			for x := range n {
				hubs[i] += weight[i][x] * authorities[x]
			}
			if onePass {
				authority(i)
			}
		}
		for i := 0; i < n && !onePass; i++ {
			authority(i)
		}
		scale(hubs)
		scale(next)
		authorities = next
	}
	return hubs, authorities
}

func matrix(g *graph.Graph, weight func(from, to uint32) float64) [][]float64 {
	m := make([][]float64, g.Len())
	for i := range m {
		m[i] = make([]float64, g.Len())
		for _, j := range g.Links(uint32(i)) {
			m[i][j] = weight(uint32(i), j)
		}
	}
	return m
}

// On random graphs, with or without weights of links, hubs and authorities are those of the definition, after any number of steps, and sum to
// 1. A graph without links has neither.
func TestHITSIsThatOfTheDefinition(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 9))
		g := randomGraph(rng, 1+rng.IntN(30))
		o := graph.HITS{Tolerance: 1e-300, Iterations: 1 + rng.IntN(50)}
		weight := func(from, to uint32) float64 { return 1 }
		if seed%2 == 0 {
			weight = func(from, to uint32) float64 { return float64((3*from + to) % 4) }
			o.Weight = weight
		}
		wantHubs, wantAuthorities := denseHITS(matrix(g, weight), o.Iterations, false)
		hubs, authorities := o.Scores(g.Len(), g.All())
		if distance(hubs, wantHubs) > 1e-10 || distance(authorities, wantAuthorities) > 1e-10 {
			t.Fatalf("seed %d: hubs %v, want %v; authorities %v, want %v", seed, hubs, wantHubs, authorities, wantAuthorities)
		}
	}
	none := read(t, "\n\n\n", "")
	hubs, authorities := graph.HITS{}.Scores(3, none.All())
	if zero := make([]float64, 3); distance(hubs, zero) != 0 || distance(authorities, zero) != 0 {
		t.Errorf("without links: hubs %v, authorities %v", hubs, authorities)
	}
	if hubs, authorities := (graph.HITS{}).Scores(0, (&graph.Graph{}).All()); len(hubs)+len(authorities) != 0 {
		t.Errorf("without pages: hubs %v, authorities %v", hubs, authorities)
	}
}

// By hand: the principal vectors of two matrices. 0 links to 1 and 2, and 3 to 2: the authorities satisfy 1 : 2 = 1 : golden ratio, and so do the hubs.
func TestHITSByHand(t *testing.T) {
	const golden = 1.618033988749895
	for adj, want := range map[string][2][]float64{
		"1 2\n\n\n":      {{1, 0, 0}, {0, .5, .5}},
		"1\n\n1\n":       {{.5, 0, .5}, {0, 1, 0}},
		"1 2\n\n\n2\n":   {{golden / (1 + golden), 0, 0, 1 / (1 + golden)}, {0, 1 / (1 + golden), golden / (1 + golden), 0}},
		"1\n0\n":         {{.5, .5}, {.5, .5}},
		"1 2\n\n\n4\n\n": {{1, 0, 0, 0, 0}, {0, .5, .5, 0, 0}}, // the lesser community counts for nothing
	} {
		g := read(t, adj, "")
		hubs, authorities := graph.HITS{Tolerance: 1e-14, Iterations: 1000}.Scores(g.Len(), g.All())
		if distance(hubs, want[0]) > 1e-9 || distance(authorities, want[1]) > 1e-9 {
			t.Errorf("%q: hubs %v, authorities %v, want %v", adj, hubs, authorities, want)
		}
	}
}

// E23: if hubs and authorities are summed in the same loop, as algorithm 2 is printed, the authorities are others.
func TestHITSInOnePassIsAnother(t *testing.T) {
	g := randomGraph(rand.New(rand.NewPCG(1, 23)), 400)
	_, authorities := graph.HITS{}.Scores(g.Len(), g.All())
	one := func(uint32, uint32) float64 { return 1 }
	_, two := denseHITS(matrix(g, one), 200, false)
	_, printed := denseHITS(matrix(g, one), 200, true)
	if right, wrong := distance(authorities, two), distance(authorities, printed); right > 1e-6 || wrong < .1 {
		t.Errorf("%v away from two passes, %v from one", right, wrong)
	}
}
