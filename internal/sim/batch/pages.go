package batch

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/parleyweb/parley/internal/graph"
)

// Sizes returns how many pages the sites of a batch have, from the largest on: at the quantiles of a power law with exponent 1.77, that of
// Castillo's sites, which is cut off at largest (2004, sections 8.4.1 and 4.4). They sum to pages; largest is at most that.
func Sizes(pages, largest int) (sizes []int) {
	const beyond = .77 // the share of sites with more than n pages falls like n^-.77
	end := math.Pow(float64(largest), -beyond)
	fill := func(sites int) (sum int) {
		sizes = sizes[:0]
		for i := range sites {
			u := (float64(i) + .5) / float64(sites)
			n := min(max(int(math.Pow(float64(u*(1-end))+end, -1/beyond)), 1), largest)
			if i == 0 {
				n = largest
			}
			sizes = append(sizes, n)
			sum += n
		}
		return sum
	}
	sum := fill(1 + sort.Search(pages, func(n int) bool { return fill(n+1) >= pages }))
	for last := len(sizes) - 1; sum > pages; last-- { // leave out of the smallest what is too much
		n := min(sizes[last], sum-pages)
		sum -= n
		if sizes[last] -= n; sizes[last] == 0 {
			sizes = sizes[:last]
		}
	}
	return sizes
}

// Of returns the pages of sites with these numbers of pages, all of the same size in bytes, without links. The first pages of all sites come
// first, then the second ones, and so on. The largest sites come first.
func Of(sizes []int, bytes int) *graph.Graph {
	g := &graph.Graph{Hosts: make([]string, len(sizes)), First: make([]uint32, 1)}
	for level := 0; ; level++ {
		n := g.Len()
		for site := 0; site < len(sizes) && sizes[site] > level; site++ {
			g.Host = append(g.Host, uint32(site))
			g.Bytes = append(g.Bytes, uint32(bytes))
			g.First = append(g.First, 0)
		}
		if g.Len() == n {
			return g
		}
	}
}

// Zipf returns qualities by Zipf's law, 1/i for the i-th best page, given to pages at random; they sum to 1 (Cao, section 5.3.2).
func Zipf(pages int, seed uint64) []float64 {
	q, sum := make([]float64, pages), 0.
	for i := range q {
		q[i] = 1 / float64(i+1)
		sum += q[i]
	}
	for i := range q {
		q[i] /= sum
	}
	rand.New(rand.NewPCG(seed, 5)).Shuffle(pages, func(i, j int) { q[i], q[j] = q[j], q[i] })
	return q
}

// Fetched returns how many pages were there at a time.
func (r *Result) Fetched(at float64) int {
	return sort.Search(len(r.Times), func(i int) bool { return r.Times[i] > at })
}

// gained returns the sum of the qualities of the first n pages fetched, for n from 0 on.
func (r *Result) gained(of []float64) []float64 {
	sums := make([]float64, 1, len(r.Pages)+1)
	for i, p := range r.Pages {
		sums = append(sums, sums[i]+of[p])
	}
	return sums
}

// Until returns when a share of the fetched pages was there.
func (r *Result) Until(share float64) float64 {
	if len(r.Times) == 0 {
		return 0
	}
	return r.Times[min(max(int(math.Ceil(share*float64(len(r.Times))))-1, 0), len(r.Times)-1)]
}

// Busy returns how many robots were busy on average between two times.
func (r *Result) Busy(from, to float64) float64 {
	sum := 0.
	i := max(sort.Search(len(r.Active), func(i int) bool { return r.Active[i].From > from })-1, 0)
	for ; i < len(r.Active) && r.Active[i].From < to; i++ {
		end := to
		if i+1 < len(r.Active) {
			end = min(end, r.Active[i+1].From)
		}
		sum += float64((end - max(from, r.Active[i].From)) * float64(r.Active[i].Busy))
	}
	return sum / (to - from)
}

// Falls returns when for the last time at least so many robots were busy: from then on fewer are (Castillo 2004, section 4.4). 0: never.
func (r *Result) Falls(robots int) float64 {
	for i, a := range slices.Backward(r.Active) {
		if a.Busy >= robots && i+1 < len(r.Active) {
			return r.Active[i+1].From
		}
	}
	return 0
}
