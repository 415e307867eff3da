package graph

import (
	"cmp"
	"math"
)

// HITS says how to compute hubs and authorities. The zero HITS is that of all links alike.
type HITS struct {
	Tolerance  float64 // stop when a step changes the authorities by no more than this, in sum; 0 means 1e-9
	Iterations int     // and after so many steps at most; 0 means 200

	// Weight is that of a link, 0 or more; nil: all alike. Links with the weight 0 do not count.
	Weight func(from, to uint32) float64

	weights []float64 // of the links of a page
}

// Scores returns how good a hub and how good an authority each of n pages is: hubs are pages that link to good authorities, and
// authorities are pages to which good hubs link (Castillo 2004, algorithm 2; with all pages of a collection this is the static variant of
// section 8.5.2). Both sum to 1, or are all 0 if there are no links. Authorities begin equal; in each step all hubs follow from the
// authorities of the step before, and then all authorities from these hubs. The result is the same on every machine.
//
// The links are read once a step, since the hub score of a page is known with its own links. Memory holds 24 bytes a page.
func (o HITS) Scores(n int, links Links) (hubs, authorities []float64) {
	hubs, authorities = make([]float64, n), make([]float64, n)
	for i := range authorities {
		authorities[i] = 1 / float64(n)
	}
	next, tolerance := make([]float64, n), cmp.Or(o.Tolerance, 1e-9)
	for range cmp.Or(o.Iterations, 200) {
		clear(hubs)
		clear(next)
		for i, to := range links {
			hubs[i] = o.pass(i, to, authorities, next)
		}
		normalise(hubs)
		normalise(next)
		var change float64
		for i, a := range next {
			change += math.Abs(a - authorities[i])
		}
		authorities, next = next, authorities
		if change <= tolerance {
			break
		}
	}
	return hubs, authorities
}

// pass returns the hub score of a page, and adds it to the next authorities of those to which it links.
func (o *HITS) pass(from uint32, to []uint32, authorities, next []float64) (hub float64) {
	if o.Weight == nil {
		for _, j := range to {
			hub += authorities[j]
		}
		for _, j := range to {
			next[j] += hub
		}
		return hub
	}
	o.weights = o.weights[:0]
	for _, j := range to {
		w := o.Weight(from, j)
		o.weights = append(o.weights, w)
		hub += float64(w * authorities[j])
	}
	for k, j := range to {
		next[j] += float64(o.weights[k] * hub)
	}
	return hub
}

// normalise makes scores sum to 1, unless all are 0.
func normalise(scores []float64) {
	var sum float64
	for _, x := range scores {
		sum += x
	}
	if sum > 0 {
		for i := range scores {
			scores[i] /= sum
		}
	}
}
