package order_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/parleyweb/parley/internal/graph"
	"github.com/parleyweb/parley/internal/sim/order"
)

// Tau-b in n log n steps equals the count of all pairs, with many ties or few.
func TestKendallMatchesAllPairs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for n := range 60 {
		for _, values := range []int{1, 2, 10, 1000} {
			list := make([]float32, n)
			for i := range list {
				list[i] = float32(rng.IntN(values))
			}
			var all, falling, rising, ties float64
			for j := range list {
				for i := range j {
					all++
					switch {
					case list[i] > list[j]:
						falling++
					case list[i] < list[j]:
						rising++
					default:
						ties++
					}
				}
			}
			want := 0.
			if ties < all {
				want = (falling - rising) / math.Sqrt(all*(all-ties))
			}
			if got := order.Kendall(slices.Clone(list)); math.Abs(got-want) > 1e-12 {
				t.Fatalf("%v: %g, want %g", list, got, want)
			}
		}
	}
}

// chain is a host whose pages 0 to n-1 each link to the next.
func chain(n int) *graph.Graph {
	g := &graph.Graph{First: []uint32{0}, Host: make([]uint32, n), Hosts: []string{"h"}}
	for i := range n {
		if i+1 < n {
			g.To = append(g.To, uint32(i+1))
		}
		g.First = append(g.First, uint32(len(g.To)))
	}
	return g
}

// A chain can be crawled in one order only, and in it the Pagerank rises: the curve lies below the diagonal, tau
// is -1, and the best order is the reverse.
func TestScoreOfAChain(t *testing.T) {
	w := order.NewWeb(chain(40))
	pages := crawlOf(t, order.Run{Web: w, Order: order.Omniscient})
	s, best := w.Score(pages), w.Score(crawlOf(t, order.Run{Web: w, Order: order.Sorted}))
	if !slices.IsSorted(pages) || s.Tau != -1 || s.Curve[0] != 0 || math.Abs(s.Curve[100]-1) > 1e-9 {
		t.Errorf("pages %v, %+v", pages, s)
	}
	if best.Tau != 1 || best.Recall != 1 || math.Abs(best.Area+s.Area-1) > 1e-9 || s.Area >= .5 {
		t.Errorf("areas %g and %g, tau %g, recall %g of the best", s.Area, best.Area, best.Tau, best.Recall)
	}
	if len(s.Taus) != 10 || slices.ContainsFunc(s.Taus, func(x float64) bool { return x != -1 }) {
		t.Errorf("taus %v of the first tenths", s.Taus)
	}
}

// The area is that under the curve through all pages, so that an order in which all pages are equal has .5, and
// a crawl stops where its pages become poor.
func TestAreaAndStop(t *testing.T) {
	ring := chain(100)
	ring.To = append(ring.To, 0) // the last page links to the first: all have the same rank
	ring.First[100]++
	w := order.NewWeb(ring)
	if s := w.Score(crawlOf(t, order.Run{Web: w, Order: "breadth-first"})); math.Abs(s.Area-.5) > 1e-9 || s.Tau != 0 || s.StopPages != 1 {
		t.Errorf("of a ring: %+v", s)
	}
	w = &order.Web{Graph: ring, Starts: []uint32{0}, Ranks: make([]float64, 100)}
	pages := make([]uint32, 100)
	for i := range pages {
		pages[i] = uint32(i)
		if i < 20 {
			w.Ranks[i] = .05
		}
	}
	s := w.Score(pages)
	if s.StopPages != .25 || math.Abs(s.StopRank-1) > 1e-9 || math.Abs(s.Area-.9) > 1e-9 || s.Recall != 1 {
		t.Errorf("a fifth of the pages has all: %+v", s)
	}
}

// A drawn history has the paper's shares; a page that is new has none; the same pages are found again by their
// names in a graph that is numbered otherwise.
func TestHistory(t *testing.T) {
	w := order.NewWeb(drawn(5, 4000))
	w.History = w.DrawHistory(order.PaperOldPages, order.PaperOldRank, 1)
	if pages, rank := w.Old(); math.Abs(pages-.55) > .01 || math.Abs(rank-.72) > .01 {
		t.Errorf("%.3f of the pages with %.3f of the Pagerank", pages, rank)
	}
	sum := 0.
	for _, r := range w.History {
		sum += max(0, r)
	}
	if math.Abs(sum-.55) > .01 { // as if the pages had the ranks that they have among all
		t.Errorf("the earlier ranks sum to %g", sum)
	}

	earlier := chain(3)
	earlier.Hosts, earlier.Path = []string{"h"}, []string{"/", "/a", "/gone"}
	now := chain(4)
	now.Path = []string{"/", "/new", "/a", "/b"}
	w = order.NewWeb(now)
	found, err := w.FindHistory(earlier)
	if err != nil {
		t.Fatal(err)
	}
	was := order.NewWeb(earlier).Ranks
	if want := []float64{was[0] * 3 / 4, -1, was[1] * 3 / 4, -1}; !slices.Equal(found, want) {
		t.Errorf("%v, want %v", found, want)
	}
	if _, err := order.NewWeb(chain(4)).FindHistory(earlier); err == nil {
		t.Error("pages without names were found")
	}
	if _, err := (order.Run{Web: w, Order: "historical-pagerank-zero"}).Pages(t.Context()); err == nil {
		t.Error("a crawl knows an earlier one that was not there")
	}
}

// If all hosts publish a manifest, an oracle that knows all pages needs no links: it is as good as the bound but
// for the start pages. Manifests make known more pages at once, whichever order is chosen.
func TestManifestsInOrder(t *testing.T) {
	w := order.NewWeb(drawn(11, 3000))
	at := func(name string, tell float64) float64 {
		return w.Score(crawlOf(t, order.Run{Web: w, Order: name, Tell: tell, Seed: 3})).Area
	}
	bound := at(order.Sorted, 0)
	if none, all := at(order.Omniscient, 0), at(order.Omniscient, 1); none >= all || all > bound || all < bound-.01 {
		t.Errorf("area %.4f without manifests, %.4f with all, bound %.4f", none, all, bound)
	}
}

// A page that a manifest has named counts for half until it is fetched: the same as added up page by page.
func TestNamedPagesCountForHalf(t *testing.T) {
	w := order.NewWeb(drawn(11, 3000))
	r := order.Run{Web: w, Order: "breadth-first", Tell: .5, Seed: 3}
	pages, telling := crawlOf(t, r), order.Telling(r)
	worth := make([]float64, len(pages)) // what each page counts for
	value, area := 0., 0.
	count := func(p uint32, much float64) {
		value += (much - worth[p]) * w.Ranks[p]
		worth[p] = much
	}
	for _, p := range pages {
		before := value
		if h := w.Graph.Host[p]; slices.Contains(w.Starts, p) && slices.Contains(telling, h) {
			for q, other := range w.Graph.Host {
				if other == h && worth[q] == 0 {
					count(uint32(q), .5)
				}
			}
		}
		count(p, 1)
		area += (before + value) / 2 / float64(len(pages))
	}
	plain := w.Score(pages).Area
	if got := plain + r.Named(pages); math.Abs(got-area) > 1e-9 || got < plain+.01 {
		t.Errorf("an area of %g instead of %g, and %g without manifests", got, area, plain)
	}
}
