package graph

import (
	"cmp"
	"math"
)

// Pagerank says how to compute it. The zero Pagerank is that of all pages.
type Pagerank struct {
	Jump       float64   // the chance of a jump to a page at random instead of following a link; 0 means .15
	Tolerance  float64   // stop when a step changes the ranks by no more than this, in sum; 0 means 1e-9
	Iterations int       // and after so many steps at most; 0 means 200
	Start      []float64 // of each page, to begin with, such as the ranks before some pages were crawled; nil: all begin equal

	Known  func(uint32) bool             // the pages that take part; others get 0, and a link to one of them needs the weight 0; nil: all
	Weight func(from, to uint32) float64 // of a link, 0 or more, compared with the others of its page; nil: all alike

	weights []float64 // of the links of a page
}

// Pagerank returns the rank of each page by all links of the graph, see [Pagerank.Ranks].
func (g *Graph) Pagerank(o Pagerank) []float64 { return o.Ranks(g.Len(), g.All()) }

// Ranks returns the rank of each of n pages: the chance to be there of a surfer who follows links at random, and sometimes jumps (Castillo
// 2004, equation 2.6). The ranks sum to 1, unless no page takes part. From a page without links the surfer jumps to any page that takes
// part, all alike, so that the ranks need not be normalised. The result is the same on every machine.
//
// The links are read once a step (Castillo 2004, algorithm 4). If they change meanwhile, the ranks still sum to 1. Memory holds 18 bytes a
// page.
func (o Pagerank) Ranks(n int, links Links) []float64 {
	known, count := make([]bool, n), 0.0
	for i := range known {
		if o.Known == nil || o.Known(uint32(i)) {
			known[i] = true
			count++
		}
	}
	rank := begin(known, count, o.Start)
	if count == 0 {
		return rank
	}
	jump, tolerance := cmp.Or(o.Jump, .15), cmp.Or(o.Tolerance, 1e-9)
	next, gave := make([]float64, n), make([]uint8, n)
	for range cmp.Or(o.Iterations, 200) {
		clear(next)
		clear(gave)
		o.step(links, rank, next, gave)
		var stuck float64 // the rank of the pages that have no links
		for i, r := range rank {
			stuck += float64(r * float64(1-gave[i])) // without a branch, which no processor could predict
		}
		// The conversions here keep a compiler from rounding a product and a sum only once, as those for some machines do.
		base := (jump + float64((1-jump)*stuck)) / count
		var change float64
		for i, in := range next {
			next[i] = 0
			if known[i] {
				next[i] = base + float64((1-jump)*in)
			}
			change += math.Abs(next[i] - rank[i])
		}
		rank, next = next, rank
		if change <= tolerance {
			break
		}
	}
	return rank
}

// step adds the rank of each page to those to which it links, and sets gave to 1 if there are any.
func (o *Pagerank) step(links Links, rank, next []float64, gave []uint8) {
	links(func(i uint32, to []uint32) bool { // a loop over links would take longer
		if o.Weight != nil {
			if o.give(i, rank[i], to, next) {
				gave[i] = 1
			}
			return true
		}
		part := rank[i] / float64(len(to))
		for _, j := range to {
			next[j] += part
		}
		gave[i] = uint8(min(len(to), 1))
		return true
	})
}

// give is what a step does with a page whose links have weights.
func (o *Pagerank) give(from uint32, rank float64, to []uint32, next []float64) bool {
	var sum float64
	o.weights = o.weights[:0]
	for _, j := range to {
		w := o.Weight(from, j)
		o.weights = append(o.weights, w)
		sum += w
	}
	if !(sum > 0) {
		return false
	}
	part := rank / sum
	for k, j := range to {
		next[j] += float64(part * o.weights[k])
	}
	return true
}

// begin returns the ranks to begin with, which sum to 1.
func begin(known []bool, count float64, start []float64) []float64 {
	rank, sum := make([]float64, len(known)), 0.0
	for i, r := range start[:min(len(start), len(rank))] {
		if known[i] && r > 0 {
			rank[i] = r
			sum += r
		}
	}
	for i, ok := range known {
		if sum > 0 {
			rank[i] /= sum
		} else if ok {
			rank[i] = 1 / count
		}
	}
	return rank
}
