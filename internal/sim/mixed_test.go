package sim_test

import (
	"math"
	"testing"

	"github.com/parleyweb/parley/internal/sim"
)

// The more sites cooperate the better, the more important ones the better, and push is better
// than manifests; with everybody it is what the bound for that says.
func TestMoreCooperatingSitesAreBetter(t *testing.T) {
	w := sim.Web{Pages: 600, Sites: 100, Skew: 1.3}.World()
	const budget = .1
	table := sim.MixedTable(w, []float64{budget}, 1)
	if len(table) != 14 {
		t.Fatalf("%d lines, want 14", len(table))
	}
	for i, m := range table {
		if m.Fresh[0] < m.Poll[0]-1e-9 || m.Needs[0] > 1+1e-9 || m.Needs[0] <= 0 {
			t.Errorf("%+v: worse than polling", m)
		}
		if i > 0 && m.Which == table[i-1].Which && m.How == table[i-1].How { // a larger share of the same kind
			if less := table[i-1]; m.Fresh[0] < less.Fresh[0]-1e-9 || m.Needs[0] > less.Needs[0]+.004 || m.Under < less.Under || m.Pages < less.Pages {
				t.Errorf("%+v is worse than fewer sites: %+v", m, less)
			}
		}
		if m.Which == "the most important" && m.Share < 1 {
			random, largest := table[i-4], table[i-2]
			if m.Under < max(random.Under, largest.Under)-1e-9 || largest.Pages < max(random.Pages, m.Pages)-1e-9 {
				t.Errorf("the most important sites %+v, the largest %+v, random ones %+v", m, largest, random)
			}
			if min(m.Fresh[0], largest.Fresh[0]) < random.Fresh[0]-1e-9 {
				t.Errorf("random sites %+v are better than the largest %+v, or the most important %+v", random, largest, m)
			}
		}
	}
	for i := range 7 {
		if push, manifest := table[i], table[i+7]; push.Fresh[0] < manifest.Fresh[0]-1e-9 {
			t.Errorf("push %+v, manifest %+v", push, manifest)
		}
	}
	if want := sim.PushBound(w, freshness, sim.Costs{}, budget).Fresh; math.Abs(table[6].Fresh[0]-want) > 1e-9 {
		t.Errorf("all sites push: %v, want %v", table[6].Fresh[0], want)
	}
}

// A policy that learns gains nearly all that the few cooperating sites are worth.
func TestMixedWebLearned(t *testing.T) {
	long(t)
	w := sim.Web{Pages: 500, Sites: 40}.World().MostImportant(.1, sim.Site{Push: true})
	best := sim.WebBound(w, freshness, sim.Costs{}, .1, sim.Listening{Push: true}).Fresh
	poll := sim.PollBound(w, freshness, sim.Costs{}, .1).Fresh
	got := simulated(t, w, "freshness", .1, 150, 60).Fresh
	t.Logf("a tenth of the sites pushes: %.4f of %.4f at most; polling %.4f at most", got, best, poll)
	if got < .985*best || got < poll {
		t.Errorf("freshness %.4f, want 98.5 %% of %.4f and more than polling's %.4f", got, best, poll)
	}
}
