package graph

import (
	"cmp"
	"math"
)

// Pagerank says how to compute it. The zero Pagerank is that of the whole graph.
type Pagerank struct {
	Jump       float64   // the chance of a jump to a page at random instead of following a link; 0 means .15
	Tolerance  float64   // stop when a step changes the ranks by no more than this, in sum; 0 means 1e-9
	Iterations int       // and after so many steps at most; 0 means 200
	Start      []float64 // of each page, to begin with, such as the ranks before some pages were crawled; nil: all begin equal

	Crawled func(uint32) bool // the pages whose links are known; nil: all
	Known   func(uint32) bool // the pages that take part; others get 0; nil: all
}

// Pagerank returns the rank of each page: the chance to be there of a surfer who follows links at random, and sometimes jumps. The ranks
// sum to 1, unless no page takes part. From a page without links, or whose links are unknown, the surfer jumps to any page that takes
// part, all alike. The result is the same on every machine.
func (g *Graph) Pagerank(o Pagerank) []float64 {
	n := g.Len()
	known, count := make([]bool, n), 0.0
	for i := range known {
		if o.Known == nil || o.Known(uint32(i)) {
			known[i] = true
			count++
		}
	}
	degree := make([]uint32, n) // the links along which a page gives its rank
	for i, ok := range known {
		if !ok || o.Crawled != nil && !o.Crawled(uint32(i)) {
			continue
		}
		links := g.Links(uint32(i))
		degree[i] = uint32(len(links))
		if o.Known != nil {
			degree[i] = 0
			for _, j := range links {
				if known[j] {
					degree[i]++
				}
			}
		}
	}
	rank := begin(known, count, o.Start)
	if count == 0 {
		return rank
	}
	jump, tolerance := cmp.Or(o.Jump, .15), cmp.Or(o.Tolerance, 1e-9)
	next := make([]float64, n)
	for range cmp.Or(o.Iterations, 200) {
		clear(next)
		var stuck float64 // the rank of the pages that have no links
		for i, r := range rank {
			if degree[i] == 0 {
				stuck += r
				continue
			}
			give := r / float64(degree[i])
			for _, j := range g.Links(uint32(i)) { // what pages that take no part get is dropped below: degree does not count them
				next[j] += give
			}
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
