package sim

import (
	"math"
	"time"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// A rule is a run's choice of pages, mostly by a policy of package fresh. It is given what it may know and
// nothing else: the crawler's view, the true world, or neither.
type rule interface {
	// plan evaluates everything known by now, and returns the number of days until the next plan.
	plan(now float64) (again float64)

	// next is when a visit to a page pays; a time in the past means now.
	next(i int, p *fresh.Page, now time.Time) time.Time

	// profit is the rank of a page whose visit pays now.
	profit(i int, p *fresh.Page, now time.Time) float64

	// price is the current price of a visit.
	price() float64

	// interval is that of polls of a site's manifest, +Inf if none is worth it.
	interval(site int) float64
}

// newRule returns the rule of a run, nil if there is none of its name.
func newRule(r *Run, v *view, b *budget) rule {
	w, priced := r.World, planned{budget: b}
	if r.Policy.Past {
		w = w.before(r.From)
	}
	switch r.Policy.Rule {
	case uniform:
		return fixed{every: w.intervals(r.Budget, evenly)}
	case proportional:
		return fixed{every: w.intervals(r.Budget, byRate)}
	case byImportance:
		return fixed{every: w.intervals(r.Budget, byWeight)}
	case Thesis:
		return &thesis{planned: priced, run: r, view: v}
	case Priced, "":
		if r.Policy.Known {
			return &oracle{planned: priced, world: w, policy: &r.Policy, shapes: shapes{}}
		}
		return &learning{planned: priced, view: v, priced: fresh.Priced{Objective: r.Policy.Objective, Costs: b.costs, Eager: r.Policy.FetchOutsideBudget}}
	case pointEstimate:
		return &plugged{planned: priced, world: w, view: v, objective: plain(r.Policy.Objective)}
	case foreseeing:
		if w.expected != nil {
			return &expecting{planned: priced, run: r}
		}
	case oldestNotice:
		return trusting{rank: func(_ int, p *fresh.Page) float64 { return -daysAt(p.Heard.Noticed) }}
	case mostImportant:
		return trusting{rank: func(_ int, p *fresh.Page) float64 { return p.Importance }}
	case highestGain:
		return trusting{rank: func(i int, _ *fresh.Page) float64 { return w.Pages[i].Weight / w.Pages[i].Rate }}
	}
	return nil
}

// A plainRule has neither plans nor prices, and polls no manifests.
type plainRule struct{}

func (plainRule) plan(float64) float64 { return math.Inf(1) }
func (plainRule) price() float64       { return 1 }
func (plainRule) interval(int) float64 { return math.Inf(1) }

// fixed visits pages at intervals. All copies are as old at the start: the first visits come after parts of the
// intervals, or else all pages would be visited at the same time, and none in a run that is shorter than that.
type fixed struct {
	plainRule
	every []float64
}

func (f fixed) next(i int, p *fresh.Page, _ time.Time) time.Time {
	wait := f.every[i]
	if p.Last.Equal(start) {
		_, part := math.Modf(float64(i+1) * math.Phi) // the parts of consecutive pages are far from each other
		wait *= part
	}
	return clock(daysAt(p.Last) + wait)
}

// profit ranks pages by how long they have been due.
func (f fixed) profit(i int, p *fresh.Page, now time.Time) float64 {
	return 1 - .01*daysAt(f.next(i, p, now))/never
}

// trusting fetches every page with a notice, in a given order.
type trusting struct {
	plainRule
	rank func(i int, p *fresh.Page) float64
}

func (t trusting) next(_ int, p *fresh.Page, _ time.Time) time.Time {
	if p.Heard.Notices > 0 {
		return time.Time{}
	}
	return clock(never)
}

func (t trusting) profit(i int, p *fresh.Page, _ time.Time) float64 { return t.rank(i, p) }
