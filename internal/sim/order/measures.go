package order

import (
	"cmp"
	"math"
	"slices"

	"github.com/parleyweb/parley/internal/graph"
)

// A Web is a web graph that is crawled from its start pages to the end.
type Web struct {
	Graph   *graph.Graph // only pages that links reach from the start pages
	Starts  []uint32     // known when a crawl begins, in this order
	Ranks   []float64    // the final Pagerank of each page; they sum to 1
	History []float64    // the Pagerank of each page in an earlier crawl; below 0: it is new; nil: there was no such crawl
}

// NewWeb returns the part of a graph that links reach from the start page of each host. The graph must have a page.
func NewWeb(g *graph.Graph) *Web {
	w := &Web{Graph: g.Reachable(g.Starts())}
	w.Starts, w.Ranks = w.Graph.Starts(), w.Graph.Pagerank(graph.Pagerank{})
	return w
}

// Sites returns the number of hosts, and of the one with most pages the share of all pages and of the Pagerank.
func (w *Web) Sites() (n int, pages, rank float64) {
	type site struct{ pages, rank float64 }
	sites := map[uint32]site{}
	var most site
	for i, h := range w.Graph.Host {
		s := site{sites[h].pages + 1, sites[h].rank + w.Ranks[i]}
		if sites[h] = s; s.pages > most.pages {
			most = s
		}
	}
	return len(sites), most.pages / float64(w.Graph.Len()), most.rank
}

// sorted returns all pages by falling Pagerank.
func (w *Web) sorted() []uint32 {
	pages := make([]uint32, w.Graph.Len())
	for i := range pages {
		pages[i] = uint32(i)
	}
	slices.SortStableFunc(pages, func(a, b uint32) int { return cmp.Compare(w.rank(b), w.rank(a)) })
	return pages
}

// rank returns a page's final Pagerank, rounded so that pages alike have the same one.
func (w *Web) rank(p uint32) float32 { return float32(w.Ranks[p]) }

// A Score says how early the pages with a high Pagerank were fetched.
type Score struct {
	// Area is the area under the curve through all pages, by the trapezoid rule: .5 for a random order (L15).
	Area float64 `json:"area"`

	// Tau is Kendall's tau-b of the order and the Pagerank: 1 if they agree, 0 if one says nothing of the other, -1 for the reverse.
	// Pages with equal Pagerank count as equal (L16). It is that of all pages: the paper's samples of 5,000 differ by some .02.
	Tau float64 `json:"tau"`

	// Taus has the tau of the first 10, 20 ... 100 hundredths of the pages, among themselves.
	Taus []float64 `json:"tau_of_first_tenths"`

	// Recall is the Pagerank of the first tenth of the pages, as a share of the most that a tenth of the pages can have. One late page
	// does not decide it, as it decides after how many pages the whole best tenth is fetched (O33).
	Recall float64 `json:"recall_of_first_tenth"`

	// StopPages and StopRank are the shares of the pages, and of the Pagerank, after which a crawl stops that goes on until a twentieth
	// of the pages brings less than half a twentieth of the Pagerank (O23, V30).
	StopPages float64 `json:"stop_share_of_pages"`
	StopRank  float64 `json:"stop_share_of_pagerank"`

	// Curve has the share of the Pagerank that the first 0, 1, 2 ... 100 hundredths of the pages have (L14).
	Curve []float64 `json:"curve"`
}

// Score measures an order of all pages.
func (w *Web) Score(pages []uint32) Score {
	sums, best := w.sums(pages), w.sums(w.sorted())
	ranks := make([]float32, len(pages))
	for i, p := range pages {
		ranks[i] = w.rank(p)
	}
	s := Score{Recall: at(sums, .1) / at(best, .1), StopPages: 1, StopRank: 1}
	for i := range 10 {
		s.Tau = kendall(slices.Clone(ranks[:len(ranks)*(i+1)/10]))
		s.Taus = append(s.Taus, s.Tau)
	}
	for i := range 101 {
		s.Curve = append(s.Curve, at(sums, float64(i)/100))
	}
	for i := 1; i < len(sums); i++ {
		s.Area += (sums[i-1] + sums[i]) / 2 / float64(len(pages))
	}
	for i := 5; i <= 100; i += 5 {
		if s.Curve[i]-s.Curve[i-5] < .5*.05 {
			s.StopPages, s.StopRank = float64(i)/100, s.Curve[i]
			break
		}
	}
	return s
}

// sums returns the Pagerank of the first 0, 1, 2 ... pages.
func (w *Web) sums(pages []uint32) []float64 {
	sums := make([]float64, 1, len(pages)+1)
	for i, p := range pages {
		sums = append(sums, sums[i]+w.Ranks[p])
	}
	return sums
}

// at returns the sum of a share of the pages, of which the last may be a part.
func at(sums []float64, share float64) float64 {
	x := share * float64(len(sums)-1)
	i := min(int(x), len(sums)-1)
	if i == len(sums)-1 {
		return sums[i]
	}
	return sums[i] + (x-float64(i))*(sums[i+1]-sums[i])
}

// kendall returns the tau-b of falling order and the order of the list, which has no ties of its own. With all numbers equal it is 0. It
// sorts ranks.
func kendall(ranks []float32) float64 {
	pairs := func(n int) float64 { return float64(n) * float64(n-1) / 2 }
	rising := risingPairs(ranks, make([]float32, len(ranks)))
	all, ties := pairs(len(ranks)), 0.
	for i := 0; i < len(ranks); {
		j := i
		for j < len(ranks) && ranks[j] == ranks[i] {
			j++
		}
		ties += pairs(j - i)
		i = j
	}
	if ties == all {
		return 0
	}
	return (all - ties - 2*rising) / math.Sqrt(all*(all-ties))
}

// risingPairs sorts a list in falling order and returns how many pairs of it stood in rising order: merge sort, which moves a number past
// all smaller ones before it.
func risingPairs(list, space []float32) (n float64) {
	if len(list) < 2 {
		return 0
	}
	half := len(list) / 2
	n = risingPairs(list[:half], space) + risingPairs(list[half:], space)
	left, right := space[:half], list[half:]
	copy(left, list[:half])
	i, j := 0, 0
	for k := 0; i < half; k++ {
		if j < len(right) && right[j] > left[i] {
			n += float64(half - i)
			list[k] = right[j]
			j++
		} else {
			list[k] = left[i]
			i++
		}
	}
	return n
}
