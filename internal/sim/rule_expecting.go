package sim

import (
	"math"
	"slices"
	"time"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// expecting is told how many changes are expected of each page at each moment of the run. It makes the best visits for that: those at
// which the time for which copies are expected to be right, less one price for each visit, is largest.
type expecting struct {
	planned
	run       *Run
	schedules []*schedule
}

func (r *expecting) plan(float64) float64 {
	pages := make([]*schedule, len(r.run.World.Pages))
	low, high := -18., 2. // logarithms of prices
	for range 14 {
		mid, visits := (low+high)/2, 0.
		for i := range pages {
			pages[i] = r.schedule(i, math.Exp(mid))
			visits += pages[i].visits()
		}
		if visits > r.run.Budget*r.run.Days*float64(len(pages)) {
			low = mid
		} else {
			high = mid
		}
	}
	r.base = math.Exp(high)
	for i := range pages {
		pages[i] = r.schedule(i, r.base)
	}
	r.schedules = pages
	return math.Inf(1)
}

func (r *expecting) price() float64 { return r.base }

func (r *expecting) next(i int, p *fresh.Page, _ time.Time) time.Time {
	if next, _ := r.schedules[i].after(daysAt(p.Last)); next >= 0 {
		return clock(r.run.World.expected[i][next].moment)
	}
	return clock(never)
}

// profit ranks the pages that became due at once by importance, how likely they have changed, and for how long their copies will be right.
func (r *expecting) profit(i int, p *fresh.Page, now time.Time) float64 {
	s, is := r.schedules[i], &r.run.World.Pages[i]
	right := 1.
	for j := s.first(daysAt(p.Last)); j < len(s.expected) && s.expected[j].moment <= daysAt(now); j++ {
		right *= s.right[j]
	}
	return is.Weight / is.Rate * (1 - right)
}

// A schedule has the best visits to a page whose changes are expected: each comes at such a moment.
type schedule struct {
	expected expectations
	right    []float64 // of each moment: probability that nothing changes
	days     float64
	price    float64   // of a visit, in days for which the copy is right
	rest     []float64 // of each moment: value of all visits after one at that moment
	then     []int     // of each moment: that of the visit after it; -1: none
}

// schedule makes the schedule of a page.
func (r *expecting) schedule(i int, price float64) *schedule {
	e := r.run.World.expected[i]
	n := len(e)
	s := &schedule{e, make([]float64, n), r.run.Days, price / r.run.World.Pages[i].Weight, make([]float64, n), make([]int, n)}
	for i, x := range e {
		s.right[i] = math.Exp(-x.changes)
	}
	for i := n - 1; i >= 0; i-- {
		s.then[i], s.rest[i] = s.after(e[i].moment)
	}
	return s
}

// first is the first moment after a time.
func (s *schedule) first(after float64) int {
	i, _ := slices.BinarySearchFunc(s.expected, after, func(e expected, t float64) int {
		if e.moment <= t {
			return -1
		}
		return 1
	})
	return i
}

// after returns the moment of the best visit after one at a time, -1 if none is worth its price, and the value of the time from then on.
func (s *schedule) after(visited float64) (next int, value float64) {
	const none = 1e-3 // a copy that is less likely right is taken to be wrong
	days, right, at := 0., 1., visited
	next = -1
	for i := s.first(visited); i < len(s.expected) && right > none; i++ {
		e := &s.expected[i]
		days += right * (e.moment - at)
		right *= s.right[i]
		at = e.moment
		if v := days - s.price + s.rest[i]; v > value {
			next, value = i, v
		}
	}
	if v := days + right*(s.days-at); v > value {
		return -1, v
	}
	return next, value
}

// visits is the number of visits from the start on.
func (s *schedule) visits() (n float64) {
	next, _ := s.after(0)
	for ; next >= 0; next = s.then[next] {
		n++
	}
	return n
}
