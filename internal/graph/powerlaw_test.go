package graph_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/parleyweb/parley/internal/graph"
)

// drawnFrom returns whole numbers from least on that follow a power law, by the inverse of its cumulative shares.
func drawnFrom(rng *rand.Rand, n, least int, exponent float64) []int {
	values := make([]int, n)
	for i := range values {
		// A continuous law from least-1/2 on, rounded, is near the discrete one, as Clauset, Shalizi and Newman show.
		values[i] = int((float64(least)-.5)*math.Pow(1-rng.Float64(), -1/(exponent-1)) + .5)
	}
	return values
}

// A power law is found with its exponent, and with the number from which on it holds, below which the numbers follow another one.
func TestFitPowerLaw(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, exponent := range []float64{1.77, 2.1, 2.7, 3.54} {
		values := drawnFrom(rng, 50_000, 40, exponent)
		for range 100_000 {
			values = append(values, rng.IntN(40)) // zeros among them
		}
		l, ok := graph.FitPowerLaw(values)
		if !ok || math.Abs(l.Exponent-exponent) > .04 || l.From < 36 || l.From > 100 || l.Distance > .01 || l.Values < 5_000 {
			t.Errorf("exponent %v from 40 on: %+v %v", exponent, l, ok)
		}
	}
	even := make([]int, 10_000)
	for i := range even {
		even[i] = 1 + i%1000
	}
	if l, _ := graph.FitPowerLaw(even); l.Distance < .02 {
		t.Errorf("numbers that are all as frequent: %+v", l)
	}
	for _, values := range [][]int{nil, {0}, {5}, make([]int, 100), append(make([]int, 100), 1, 2, 3), constant(100, 7)} {
		if l, ok := graph.FitPowerLaw(values); ok {
			t.Errorf("%d values: %+v", len(values), l)
		}
	}
	huge := []int{math.MaxInt, math.MaxInt - 1}
	for range 60 {
		huge = append(huge, 1, 1<<40)
	}
	if l, ok := graph.FitPowerLaw(huge); !ok || !(l.Exponent > 1 && l.Exponent <= 20) || math.IsNaN(l.Distance) {
		t.Errorf("huge numbers: %+v", l)
	}
}

func constant(n, value int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = value
	}
	return list
}

// The exponents of a generated Web's laws are those that it was asked for.
func TestLawsOfAGeneratedWeb(t *testing.T) {
	g := graph.Generate(graph.Model{Pages: 200_000, Hosts: 10_000, Seed: 1})
	in, out, sites := make([]int, g.Len()), make([]int, g.Len()), make([]int, len(g.Hosts))
	for i := range uint32(g.Len()) {
		out[i] = len(g.Links(i))
		sites[g.Host[i]]++
		for _, to := range g.Links(i) {
			in[to]++
		}
	}
	for name, c := range map[string]struct {
		values           []int
		exponent, within float64
	}{"links to a page": {in, 2.1, .1}, "links of a page": {out, 2.7, .03}, "pages of a host": {sites, 1.77, .03}} {
		if l, ok := graph.FitPowerLaw(c.values); !ok || math.Abs(l.Exponent-c.exponent) > c.within || l.Distance > .02 {
			t.Errorf("%s: %+v, want the exponent %v", name, l, c.exponent)
		}
	}
}
