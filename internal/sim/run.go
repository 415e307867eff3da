package sim

import (
	"context"
	"fmt"
	"math"
)

// A Run is a policy with a budget in a world, for a time. It begins with a right copy of every page, and
// knows nothing else of it.
type Run struct {
	World  *World
	Policy Policy
	Budget float64 // units of cost, of each page a day
	Days   float64 // how long; 0 means 120
	From   float64 // day from which the run is scored, a whole number; before, it learns
	Seed   uint64  // of the random events; the same for all policies that are compared
	Costs  Costs   // of each action; the zero value counts requests

	// Of, if not nil, limits the scores to the pages for which it is true.
	Of func(page int) bool

	// Bound asks for the bound as well, which may take longer than the run.
	Bound bool

	// Watch, if not nil, is called for every event, in order.
	Watch func(Event)
}

// An Event is something that happened in a run.
type Event struct {
	At       float64 // days
	Kind     eventKind
	Page     int  // index in World.Pages; -1 for a manifest
	Site     int  // index in World.Sites
	Changed  bool // a visit found a change
	Trifling bool // it found no more than a trifling one
	Cost     float64
}

// An eventKind says what happened.
type eventKind uint8

// The kinds of events.
const (
	Visited eventKind = iota
	Polled            // a manifest
	Told              // a notice came, or a manifest named the page
	Planned           // a new price
)

func (r *Run) check() error {
	if r.World == nil {
		return fmt.Errorf("no world")
	}
	if err := r.World.check(); err != nil {
		return err
	}
	if r.Days == 0 {
		r.Days = 120
	}
	switch {
	case !(r.Budget > 0) || r.Budget > fastest:
		return fmt.Errorf("budget %v: not above 0 and at most %d requests per page and day", r.Budget, fastest)
	case !(r.Days > 0) || r.Days > 36_500:
		return fmt.Errorf("%v days: not between 0 and 100 years", r.Days)
	case r.Policy.Past && !(r.From >= 1):
		return fmt.Errorf("from day %v: the rates before it are to be known, want 1 at least", r.From)
	case !(r.From >= 0) || r.From >= r.Days:
		return fmt.Errorf("from day %v: not within the %v days", r.From, r.Days)
	}
	r.From = math.Floor(r.From)
	return nil
}

// Simulate executes r. It fails if r is invalid, or with the context's error.
func Simulate(ctx context.Context, r Run) (*Result, error) {
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("simulate %s: %w", r.Policy.Name, err)
	}
	e, err := newEngine(&r)
	if err == nil {
		err = e.simulate(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("simulate %s: %w", r.Policy.Name, err)
	}
	return e.result(), nil
}
