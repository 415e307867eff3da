package sim

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// some returns the same world with a share of its sites speaking in one way, at least one, and the rest
// silent: the sites whose pages weigh most together, or any.
func (w *World) some(share float64, most bool, speak Site, seed uint64) *World {
	order := rand.New(rand.NewPCG(seed, 5)).Perm(len(w.Sites))
	if most {
		weight := make([]float64, len(w.Sites))
		for i := range w.Pages {
			weight[w.Pages[i].Site] += w.Pages[i].Weight
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(weight[b], weight[a]) })
	}
	n := min(max(1, int(math.Round(share*float64(len(w.Sites))))), len(w.Sites))
	speaks := make([]bool, len(w.Sites))
	for _, s := range order[:n] {
		speaks[s] = true
	}
	return w.speaking(func(s int) Site {
		if speaks[s] {
			return speak
		}
		return Site{}
	})
}

// A Mixed is a line of the table of mixed webs: the value of some sites' notices or manifests.
type Mixed struct {
	Share float64 // of the sites
	Most  bool    // the sites with most weight
	How   string  // push or manifest
	Under float64 // share of importance on sites that speak

	// For each budget of the table: the bound, and the share of the budget that is enough for the freshness
	// of the best polling with all of it.
	Budgets, Fresh, Poll, Needs []float64
}

// MixedTable computes the table of mixed webs for some budgets. It needs no run: it consists of bounds.
func MixedTable(w *World, budgets []float64, seed uint64) []Mixed {
	o, costs := fresh.Objective{Fresh: 1}, Costs{}
	poll := make([]float64, len(budgets))
	for i, b := range budgets {
		poll[i] = PollBound(w, o, costs, b).Fresh
	}
	var table []Mixed
	for _, how := range []struct {
		name  string
		speak Site
		Listening
	}{
		{"push", Site{Push: true}, Listening{Push: true}},
		{"manifest", Site{Manifest: true}, Listening{Manifest: true}},
	} {
		for _, most := range []bool{false, true} {
			for _, share := range []float64{.01, .1, .5, 1} {
				some := w.some(share, most, how.speak, seed)
				line := Mixed{Share: share, Most: most, How: how.name, Budgets: budgets, Poll: poll}
				for i := range some.Pages {
					if p := &some.Pages[i]; !some.Sites[p.Site].Silent() {
						line.Under += p.Weight
					}
				}
				for i, b := range budgets {
					line.Fresh = append(line.Fresh, WebBound(some, o, costs, b, how.Listening).Fresh)
					line.Needs = append(line.Needs, needs(some, o, costs, how.Listening, poll[i], b)/b)
				}
				table = append(table, line)
			}
		}
	}
	return table
}

// needs is the budget whose bound reaches freshness; budget is an upper bound of it.
func needs(w *World, o fresh.Objective, c Costs, l Listening, freshness, budget float64) float64 {
	low, high := 0., budget
	for high-low > .002*budget {
		mid := (low + high) / 2
		if WebBound(w, o, c, mid, l).Fresh >= freshness {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}
