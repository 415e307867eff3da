package graph_test

import (
	"fmt"
	"hash/fnv"
	"math"
	"testing"

	"github.com/parleyweb/parley/internal/graph"
)

// counts returns the links to each page, the links of each, and the pages of each host.
func counts(g *graph.Graph) (in, out, sites []int) {
	in, out, sites = make([]int, g.Len()), make([]int, g.Len()), make([]int, len(g.Hosts))
	for i := range uint32(g.Len()) {
		for _, j := range g.Links(i) {
			in[j]++
		}
		out[i] = len(g.Links(i))
		sites[g.Host[i]]++
	}
	return in, out, sites
}

// A generated web has the exponents of the real one (Castillo 2004, section 2.1.3), its links stay within hosts for the most part, and
// nearly every page can be reached.
func TestGeneratedWebIsLikeTheRealOne(t *testing.T) {
	g := graph.Generate(graph.Model{Pages: 200_000, Hosts: 10_000, Seed: 1})
	valid(t, g)
	in, out, sites := counts(g)
	for _, c := range []struct {
		what            string
		values          []int
		least           int
		want, tolerance float64
	}{
		{"in-degree", in, 20, 2.1, .1},
		{"out-degree", out, 10, 2.7, .15},
		{"pages of a host", sites, 1, 1.77, .1},
	} {
		got := graph.Exponent(c.values, c.least)
		t.Logf("exponent of %s: %.3f", c.what, got)
		if math.Abs(got-c.want) > c.tolerance {
			t.Errorf("exponent of %s: %.3f, want %v ± %v", c.what, got, c.want, c.tolerance)
		}
	}
	mean := float64(len(g.To)) / float64(g.Len())
	within := 0
	for i := range uint32(g.Len()) {
		for _, j := range g.Links(i) {
			if g.Host[i] == g.Host[j] {
				within++
			}
		}
	}
	t.Logf("%.2f links a page, %.3f within a host", mean, float64(within)/float64(len(g.To)))
	if mean < 9.5 || mean > 10.2 {
		t.Errorf("%.2f links a page, want 10", mean)
	}
	if share := float64(within) / float64(len(g.To)); share < .8 || share > .92 {
		t.Errorf("%.3f of the links stay within a host, want about .85", share)
	}
	if n := g.Reachable(g.Starts()).Len(); n < 199_900 {
		t.Errorf("%d of %d pages can be reached", n, g.Len())
	}
}

// A model with other exponents gives a graph with these.
func TestGeneratedExponents(t *testing.T) {
	for _, m := range []graph.Model{
		{Pages: 100_000, Hosts: 2_000, In: 2.4, Out: 3, Sites: 1.5},
		{Pages: 100_000, Hosts: 10_000, In: 2.1, Out: 2.3, Sites: 2.2, Links: 15},
	} {
		g := graph.Generate(m)
		in, out, sites := counts(g)
		a, b, c := graph.Exponent(in, 20), graph.Exponent(out, 20), graph.Exponent(sites, 20)
		t.Logf("%+v: in %.3f, out %.3f, sites %.3f", m, a, b, c)
		if math.Abs(a-m.In) > .15 || math.Abs(b-m.Out) > .2 || math.Abs(c-m.Sites) > .15 {
			t.Errorf("%+v: exponents %.3f, %.3f, %.3f", m, a, b, c)
		}
	}
}

// The page of a large host has more Pagerank than one of a small host if the model leans that way, and less if it leans the other.
func TestLeaningWeb(t *testing.T) {
	var before float64
	for _, lean := range []float64{-.8, 0, .8} {
		g := graph.Generate(graph.Model{Pages: 30_000, Hosts: 1_000, Lean: lean, Away: .25, Seed: 3})
		_, _, sites := counts(g)
		var large, pages float64
		for i, r := range g.Pagerank(graph.Pagerank{}) {
			if sites[g.Host[i]] >= 1000 {
				large += r
				pages++
			}
		}
		share := large / (pages / float64(g.Len())) // 1 if hosts of all sizes are alike
		t.Logf("lean %v: pages of large hosts have %.2f of the mean rank", lean, share)
		if share < before+.1 {
			t.Errorf("lean %v: pages of large hosts have %.2f of the mean rank, %.2f before", lean, share, before)
		}
		before = share
	}
}

// The same model makes the same graph, wherever this test runs; another seed makes another.
func TestGenerateIsRepeatable(t *testing.T) {
	sum := func(seed uint64) string {
		g := graph.Generate(graph.Model{Pages: 20_000, Hosts: 700, Lean: .3, Seed: seed})
		h := fnv.New64a()
		fmt.Fprint(h, g.First, g.To, g.Host)
		return fmt.Sprintf("%x", h.Sum64())
	}
	if got := sum(1); got != "bcebe0e8b25e5a22" {
		t.Errorf("the graph has changed: %s", got)
	}
	if sum(2) == sum(1) {
		t.Error("two seeds make the same graph")
	}
}

// Every model gives a valid graph, even one of few pages, or whose numbers contradict each other.
func TestGenerateSmallWebs(t *testing.T) {
	for pages := range 12 {
		for _, m := range []graph.Model{{}, {Hosts: 3}, {Hosts: 100}, {Hosts: 2, Links: 1}, {Hosts: 4, Links: 40, Sites: 5}, {Hosts: 5, In: 3, Lean: -2, Away: .9}} {
			m.Pages = pages
			g := graph.Generate(m)
			valid(t, g)
			hosts := max(min(m.Hosts, pages), min(1, pages))
			if g.Len() != pages || len(g.Hosts) != hosts || len(g.Starts()) != hosts {
				t.Fatalf("%+v: %d pages, %d hosts, starts %v", m, g.Len(), len(g.Hosts), g.Starts())
			}
			for i := range uint32(pages) {
				for _, j := range g.Links(i) {
					if i == j {
						t.Fatalf("%+v: page %d links to itself", m, i)
					}
				}
			}
		}
	}
}

// Values in exact proportion to a power law give its exponent back.
func TestExponent(t *testing.T) {
	for _, want := range []float64{1.77, 2.1, 2.7, 3.5} {
		values := []int{1, 1, 2, 3, 3} // below least
		for k := 5; k < 20_000; k++ {
			for range int(1e6*math.Pow(float64(k), -want) + .5) {
				values = append(values, k)
			}
		}
		if got := graph.Exponent(values, 5); math.Abs(got-want) > .03 {
			t.Errorf("%v, want %v", got, want)
		}
	}
	if got := graph.Exponent([]int{1, 2}, 3); !math.IsNaN(got) {
		t.Errorf("without values: %v", got)
	}
	if got := graph.Exponent([]int{3, 3, 3}, 3); got < 19 {
		t.Errorf("all the least value: %v", got)
	}
}

// A million pages and ten million links, on 50,000 hosts.
func BenchmarkGenerate(b *testing.B) {
	for b.Loop() {
		graph.Generate(graph.Model{Pages: 1_000_000, Hosts: 50_000, Seed: 1})
	}
}
