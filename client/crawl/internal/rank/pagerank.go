package rank

import "math"

// options are the parameters of the computation. The zero value is useful.
type options struct {
	// Jump is the probability of going to any page instead of along a link,
	// epsilon in (2.6); 0 means 0.15 (G38).
	Jump float64

	// Tolerance is the total change of all ranks, as a share of their sum, at which the iteration stops; 0
	// means 1e-6.
	Tolerance float64

	// Rounds limits the iterations; 0 means 100.
	Rounds int
}

func (o *options) withDefaults() options {
	var d options
	if o != nil {
		d = *o
	}
	if !(d.Jump > 0 && d.Jump < 1) {
		d.Jump = 0.15
	}
	if !(d.Tolerance > 0) {
		d.Tolerance = 1e-6
	}
	if d.Rounds <= 0 {
		d.Rounds = 100
	}
	return d
}

// pagerank ranks n pages, numbered from 0 (K02). links yields the links of each page that has any, in any
// order but every page once; it is called once a round, so links on a disk need not fit into memory (V26): it
// must yield the same each time, and to is not kept. A link to no page among the n is ignored, a repeated
// link counts twice, and a link of a page to itself counts: omit those that should not.
//
// The ranks sum to 1. A page without links leads to all pages alike: for that the ranks are normalised once,
// after the last round (E24). It needs 16 bytes a page in addition to the result.
func pagerank(n int, links func(yield func(from int, to []int32) bool), o *options) []float32 {
	if n <= 0 {
		return nil
	}
	d := o.withDefaults()
	now, next := make([]float64, n), make([]float64, n)
	for i := range now {
		now[i] = 1 / float64(n)
	}
	for range d.Rounds {
		clear(next)
		links(func(from int, to []int32) bool {
			if from < 0 || from >= n {
				return true
			}
			out := 0
			for _, p := range to {
				if p >= 0 && int(p) < n {
					out++
				}
			}
			if out == 0 {
				return true
			}
			part := now[from] / float64(out)
			for _, p := range to {
				if p >= 0 && int(p) < n {
					next[p] += part
				}
			}
			return true
		})
		var moved, sum float64
		for i, x := range next {
			x = d.Jump/float64(n) + (1-d.Jump)*x
			moved += math.Abs(x - now[i])
			sum += x
			next[i] = x
		}
		now, next = next, now
		if moved <= d.Tolerance*sum {
			break
		}
	}
	var sum float64
	for _, x := range now {
		sum += x
	}
	ranks := make([]float32, n)
	for i, x := range now {
		ranks[i] = float32(x / sum)
	}
	return ranks
}
