package order

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/parleyweb/parley/internal/graph"
)

// The paper's pair of crawls: the earlier one had this share of the pages of the later one, and these had this share of its Pagerank
// (Castillo 2004, section 4.3.4).
const (
	PaperOldPages = .55
	PaperOldRank  = .72
)

// DrawHistory returns the History of a web as if an earlier crawl had found only a share of the pages, with a share of the Pagerank: the
// pages are drawn at random, those with a high Pagerank rather than others as far as it takes. The earlier Pagerank is that of the graph
// of these pages alone.
//
// A Pagerank sums to 1, so it is the lower the more pages there are; the earlier one is scaled to the number of pages of now.
func (w *Web) DrawHistory(pages, rank float64, seed uint64) []float64 {
	n := w.Graph.Len()
	rng := rand.New(rand.NewPCG(seed, 2))
	chance := make([]float64, n)
	for i := range chance {
		chance[i] = rng.ExpFloat64()
	}
	// A page is the earlier in this order the higher its Pagerank to the power of by is, times chance.
	all := make([]uint32, n)
	take := func(by float64) []uint32 {
		keys := make([]float64, n)
		for i := range all {
			all[i] = uint32(i)
			keys[i] = chance[i] / math.Pow(w.Ranks[i]*float64(n), by)
		}
		slices.SortFunc(all, func(a, b uint32) int { return cmp.Or(cmp.Compare(keys[a], keys[b]), cmp.Compare(a, b)) })
		return all[:int(math.Round(pages*float64(n)))]
	}
	low, high := -4., 4. // the sum of the ranks rises with the power
	for range 24 {
		mid, sum := (low+high)/2, 0.
		for _, p := range take(mid) {
			sum += w.Ranks[p]
		}
		if sum < rank {
			low = mid
		} else {
			high = mid
		}
	}
	old := make([]bool, n)
	for _, p := range take(low) {
		old[p] = true
	}
	earlier := &graph.Graph{First: make([]uint32, 1, n+1)}
	for i := range uint32(n) {
		for _, j := range w.Graph.Links(i) {
			if old[i] && old[j] {
				earlier.To = append(earlier.To, j)
			}
		}
		earlier.First = append(earlier.First, uint32(len(earlier.To)))
	}
	ranks := earlier.Pagerank(graph.Pagerank{Known: func(p uint32) bool { return old[p] }})
	for i := range ranks {
		if ranks[i] *= pages; !old[i] {
			ranks[i] = -1
		}
	}
	return ranks
}

// FindHistory returns the History of a web by an earlier graph of the same hosts: pages are the same if host and path are. Its Pagerank
// is scaled as that of DrawHistory is.
func (w *Web) FindHistory(earlier *graph.Graph) ([]float64, error) {
	old := NewWeb(earlier)
	if w.Graph.Path == nil || old.Graph.Path == nil {
		return nil, errors.New("the graph has no names of pages")
	}
	type name struct{ host, path string }
	nameOf := func(g *graph.Graph, i int) name { return name{g.Hosts[g.Host[i]], g.Path[i]} }
	ranks := map[name]float64{}
	for i, r := range old.Ranks {
		ranks[nameOf(old.Graph, i)] = r * float64(len(old.Ranks)) / float64(len(w.Ranks))
	}
	list := make([]float64, len(w.Ranks))
	for i := range list {
		r, ok := ranks[nameOf(w.Graph, i)]
		if !ok {
			r = -1
		}
		list[i] = r
	}
	return list, nil
}

// Old returns the share of the pages that the earlier crawl had found, and their share of the final Pagerank.
func (w *Web) Old() (pages, rank float64) {
	for i, r := range w.History {
		if r >= 0 {
			pages += 1 / float64(len(w.History))
			rank += w.Ranks[i]
		}
	}
	return pages, rank
}
