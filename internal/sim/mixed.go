package sim

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// some returns the same world with a share of its sites speaking in one way, at least one, and the rest
// silent: the sites whose pages are worth most together.
func (w *World) some(share float64, worth func(*Page) float64, speak Site, seed uint64) *World {
	order, sum := rand.New(rand.NewPCG(seed, 5)).Perm(len(w.Sites)), make([]float64, len(w.Sites))
	for i := range w.Pages {
		sum[w.Pages[i].Site] += worth(&w.Pages[i])
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(sum[b], sum[a]) })
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

// A mixed is a line of the table of mixed webs: the value of some sites' notices or manifests.
type mixed struct {
	Share float64 // of the sites
	Which string  // at random, the largest, or the most important
	How   string  // push or manifest
	Pages float64 // share of pages on sites that speak
	Under float64 // share of importance on them

	// For each budget of the table: the bound, and the share of the budget that is enough for the freshness
	// of the best polling with all of it.
	Budgets, Fresh, Poll, Needs []float64
}

// MixedTable computes the table of mixed webs for some budgets. It needs no run: it consists of bounds.
func MixedTable(w *World, budgets []float64, seed uint64) []mixed {
	o, costs := fresh.Objective{Fresh: 1}, Costs{}
	poll := make([]float64, len(budgets))
	for i, b := range budgets {
		poll[i] = PollBound(w, o, costs, b).Fresh
	}
	var table []mixed
	for _, how := range []struct {
		name  string
		speak Site
		Listening
	}{
		{"push", Site{Push: true}, Listening{Push: true}},
		{"manifest", Site{Manifest: true}, Listening{Manifest: true}},
	} {
		for _, which := range []struct {
			words  string
			worth  func(*Page) float64
			shares []float64
		}{
			{"at random", func(*Page) float64 { return 0 }, []float64{.01, .1}},
			{"the largest", evenly, []float64{.01, .1}},
			{"the most important", byWeight, []float64{.01, .1, 1}},
		} {
			for _, share := range which.shares {
				some := w.some(share, which.worth, how.speak, seed)
				line := mixed{Share: share, Which: which.words, How: how.name, Budgets: budgets, Poll: poll}
				for i := range some.Pages {
					if p := &some.Pages[i]; !some.Sites[p.Site].Silent() {
						line.Pages += 1 / float64(len(some.Pages))
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
