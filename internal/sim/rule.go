package sim

import (
	"fmt"
	"math"
	"time"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// A rule is a run's choice of pages: policies of package fresh, and their inputs.
type rule interface {
	// plan evaluates everything known, and returns the number of days until the next plan.
	plan() (again float64)

	// policy is the policy for one page; it is valid until the next call.
	policy(page int) fresh.Policy

	// price is the current price of a visit.
	price() float64

	// interval is that of polls of a site's manifest, +Inf if none is worth it.
	interval(site int) float64

	// expected are the freshness and age of the last plan, NaN if it has none.
	expected() (share, age float64)
}

func newRule(e *engine) (rule, error) {
	w := e.World
	switch e.Policy.Rule {
	case Uniform:
		return newFixed(e, func(*Page) float64 { return 1 }), nil
	case Proportional:
		return newFixed(e, func(p *Page) float64 { return p.Rate }), nil
	case Importance:
		return newFixed(e, func(p *Page) float64 { return p.Weight }), nil
	case Thesis:
		return &profit{engine: e}, nil
	case Priced, "":
		if e.Policy.Known {
			return newOracle(e), nil
		}
		return newLearning(e), nil
	case PointEstimate:
		return &plugged{engine: e}, nil
	case Trusting:
		return &trusting{rank: func(p *fresh.Page) float64 { return -daysAt(p.Heard.Noticed) }}, nil
	case TrustingWeight:
		return &trusting{rank: func(p *fresh.Page) float64 { return p.Importance }}, nil
	case TrustingGain:
		t := &trusting{}
		var at *Page
		t.of = func(i int) { at = &w.Pages[i] }
		t.rank = func(*fresh.Page) float64 { return at.Weight / at.Rate }
		return t, nil
	}
	return nil, fmt.Errorf("unknown rule %q", e.Policy.Rule)
}

// A plainRule has neither plans nor prices, and polls no manifests.
type plainRule struct{}

func (plainRule) plan() float64                { return math.Inf(1) }
func (plainRule) price() float64               { return 1 }
func (plainRule) interval(int) float64         { return math.Inf(1) }
func (plainRule) expected() (float64, float64) { return math.NaN(), math.NaN() }

// fixed visits pages at intervals.
type fixed struct {
	plainRule
	every []float64
	at    int
}

func newFixed(e *engine, share func(*Page) float64) *fixed {
	return &fixed{every: e.World.intervals(e.Budget, share)}
}

func (f *fixed) policy(i int) fresh.Policy { f.at = i; return f }

// Next implements fresh.Policy.
func (f *fixed) Next(p *fresh.Page, _ time.Time) time.Time {
	return clock(daysAt(p.Last) + f.every[f.at])
}

// Profit ranks pages by how long they have been due.
func (f *fixed) Profit(p *fresh.Page, _ time.Time) float64 {
	return 1 - .01*(daysAt(p.Last)+f.every[f.at])/never
}

// trusting fetches every page with a notice, in a given order.
type trusting struct {
	plainRule
	rank func(*fresh.Page) float64
	of   func(page int)
}

func (t *trusting) policy(i int) fresh.Policy {
	if t.of != nil {
		t.of(i)
	}
	return t
}

// Next implements fresh.Policy.
func (t *trusting) Next(p *fresh.Page, _ time.Time) time.Time {
	if p.Heard.Notices > 0 {
		return time.Time{}
	}
	return clock(never)
}

// Profit implements fresh.Policy.
func (t *trusting) Profit(p *fresh.Page, _ time.Time) float64 { return t.rank(p) }
