package graph_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/parleyweb/parley/internal/graph"
)

// Links between two sites are one link of the graph of sites, which says how many they are; links within a site are none. Pagerank on it is
// Siterank.
func TestGraphOfSites(t *testing.T) {
	// Three sites: a has 0, 1, 2; b has 3, 4; c has 5. Three links lead from a to b, one from b to c, and two from c to a; three stay in a.
	g := read(t, "0 1 3\n2 3\n4\n4 5\n\n0 2\n", "0\ta\n1\ta\n2\ta\n3\tb\n4\tb\n5\tc\n")
	s := g.Sites()
	if !slices.Equal(s.First, []uint32{0, 1, 2, 3}) || !slices.Equal(s.To, []uint32{1, 2, 0}) || !slices.Equal(s.Count, []uint32{3, 1, 2}) ||
		!slices.Equal(s.Within, []uint32{3, 1, 0}) || !slices.Equal(s.Hosts, []string{"a", "b", "c"}) {
		t.Errorf("%+v", s)
	}
	valid(t, &s.Graph)
	if got := s.Pagerank(graph.Pagerank{}); distance(got, []float64{1. / 3, 1. / 3, 1. / 3}) > 1e-9 {
		t.Errorf("three sites in a ring rank %v", got)
	}
	if got := s.Sums([]float64{1, 2, 3, 4, 5, 6}); !slices.Equal(got, []float64{6, 9, 6}) {
		t.Errorf("sums %v", got)
	}
	for _, c := range []struct {
		from, to uint32
		want     float64
	}{{0, 3, 1. / 3}, {2, 4, 1. / 3}, {3, 5, 1}, {5, 0, .5}, {0, 1, 1. / 3}, {3, 4, 1}, {4, 0, 1}, {5, 5, 1}} {
		if got := s.Weight(c.from, c.to); got != c.want {
			t.Errorf("weight of %d to %d: %v, want %v", c.from, c.to, got, c.want)
		}
	}
	// Page 0 has a third of the rank of 0 for each of its links, and 3 gives half as much to 4 as to 5, but for ties within b: each its own site pair.
	weighted := g.Pagerank(graph.Pagerank{Weight: s.Weight, Tolerance: 1e-12})
	want := denseRank(g, .15, all(6), all(6), s.Weight)
	if distance(weighted, want) > 1e-9 {
		t.Errorf("weighted ranks %v, want %v", weighted, want)
	}
	empty := (&graph.Graph{}).Sites()
	if empty.Len() != 0 || len(empty.BowTie()) != 0 || len(empty.Pagerank(graph.Pagerank{})) != 0 {
		t.Errorf("no pages: %+v", empty)
	}
}

func all(n int) []bool { return slices.Repeat([]bool{true}, n) }

// The weights of all links between two sites sum to 1, on a generated web, and so each site has one vote on another.
func TestOneVoteForASite(t *testing.T) {
	g := graph.Generate(graph.Model{Pages: 2000, Hosts: 40, Seed: 7})
	s := g.Sites()
	votes, counted := map[[2]uint32]float64{}, uint32(0)
	for i, to := range g.All() {
		for _, j := range to {
			votes[[2]uint32{g.Host[i], g.Host[j]}] += s.Weight(i, j)
		}
	}
	for pair, sum := range votes {
		if math.Abs(sum-1) > 1e-9 {
			t.Errorf("site %d has %v votes on %d", pair[0], sum, pair[1])
		}
		if _, ok := slices.BinarySearch(s.Links(pair[0]), pair[1]); ok == (pair[0] == pair[1]) {
			t.Errorf("sites %v are linked: %v", pair, ok)
		}
	}
	for _, n := range slices.Concat(s.Count, s.Within) {
		counted += n
	}
	if int(counted) != len(g.To) || len(s.To) < 40 {
		t.Errorf("%d of %d links, %d between sites", counted, len(g.To), len(s.To))
	}
}

// reach returns which pages lead to which, in any number of steps, by the definition.
func reach(g *graph.Graph, both bool) [][]bool {
	n := g.Len()
	leads := make([][]bool, n)
	for i := range leads {
		leads[i] = make([]bool, n)
		leads[i][i] = true
	}
	for i, to := range g.All() {
		for _, j := range to {
			leads[i][j] = true
			leads[j][i] = leads[j][i] || both
		}
	}
	for k := range n {
		for i := range n {
			for j := range n {
				leads[i][j] = leads[i][j] || leads[i][k] && leads[k][j]
			}
		}
	}
	return leads
}

// On 1,000 random graphs components and bow-tie are those of the definition, by which pages lead to which.
func TestBowTieIsThatOfTheDefinition(t *testing.T) {
	seen := map[graph.Part]int{}
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 5))
		n := 1 + rng.IntN(24)
		g := &graph.Graph{First: []uint32{0}, Host: make([]uint32, n), Hosts: []string{""}}
		often := 1 + rng.IntN(2*n)
		for range n {
			for j := range uint32(n) {
				if rng.IntN(often+1) == 0 {
					g.To = append(g.To, j)
				}
			}
			g.First = append(g.First, uint32(len(g.To)))
		}
		leads, near := reach(g, false), reach(g, true)
		of, sizes := g.Components()
		count := make([]uint32, len(sizes))
		main, mainSize := 0, 0
		for i := range n {
			size := 0
			for j := range n {
				if together := leads[i][j] && leads[j][i]; together != (of[i] == of[j]) {
					t.Fatalf("seed %d: pages %d and %d are in components %d and %d", seed, i, j, of[i], of[j])
				} else if together {
					size++
				}
			}
			if count[of[i]]++; size > mainSize {
				main, mainSize = i, size
			}
		}
		if !slices.Equal(count, sizes) || !slices.IsSortedFunc(sizes, func(a, b uint32) int { return int(b) - int(a) }) || of[main] != 0 {
			t.Fatalf("seed %d: components of %v pages, want %v", seed, sizes, count)
		}
		inMain := func(i int) bool { return leads[i][main] && leads[main][i] }
		isIn := func(i int) bool { return leads[i][main] && !leads[main][i] }
		isOut := func(i int) bool { return !leads[i][main] && leads[main][i] }
		for i, got := range g.BowTie() {
			var fromIn, toOut, linkIn, linkOut bool
			for j := range n {
				fromIn = fromIn || isIn(j) && leads[j][i]
				toOut = toOut || isOut(j) && leads[i][j]
				linkIn = linkIn || isIn(j) && slices.Contains(g.Links(uint32(j)), uint32(i))
				linkOut = linkOut || isOut(j) && slices.Contains(g.Links(uint32(i)), uint32(j))
			}
			want := graph.Island
			switch {
			case inMain(i) && linkIn && linkOut:
				want = graph.MainMain
			case inMain(i) && linkIn:
				want = graph.MainIn
			case inMain(i) && linkOut:
				want = graph.MainOut
			case inMain(i):
				want = graph.MainNorm
			case isIn(i):
				want = graph.In
			case isOut(i):
				want = graph.Out
			case fromIn && toOut:
				want = graph.Tunnel
			case fromIn:
				want = graph.TentacleIn
			case toOut:
				want = graph.TentacleOut
			case near[i][main]:
				want = graph.Other
			}
			if seen[want]++; got != want {
				t.Fatalf("seed %d: page %d is in %v, want %v", seed, i, got, want)
			}
		}
	}
	if len(seen) != 11 || seen[graph.Tunnel] < 20 {
		t.Errorf("parts seen: %v", seen)
	}
}

// A chain and a ring of a million pages need no deep stack.
func TestComponentsOfALongChain(t *testing.T) {
	const n = 1_000_000
	g := &graph.Graph{First: make([]uint32, n+1), To: make([]uint32, n)}
	for i := range uint32(n) {
		g.First[i+1], g.To[i] = i+1, (i+1)%n
	}
	if _, sizes := g.Components(); len(sizes) != 1 || sizes[0] != n {
		t.Errorf("a ring has %d components, the first of %d", len(sizes), sizes[0])
	}
	g.First[n], g.To = n-1, g.To[:n-1]
	if of, sizes := g.Components(); len(sizes) != n || of[0] != 0 || of[n-1] != n-1 {
		t.Errorf("a chain has %d components, the first page in %d", len(sizes), of[0])
	}
}
