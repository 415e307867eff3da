package poll

import (
	"math"
	"time"
)

// Ahead plans the polls of the next days for the least sum of delay and price, and polls at the first of the
// planned times. It does not poll at the end of a night for the few items of the night, since more come in
// the morning. That is the optimum for known rates, and takes some 10 µs per decision, which a request is
// worth.
//
// Where items may drop out of the list unseen it polls earlier, as Index does. Rank, which cannot look ahead,
// is that of MinimumDelay plus Index's term for lost items.
type Ahead struct{ Index }

func (Ahead) Name() string { return "ahead" }

// farAhead limits the interval, in days, up to which looking ahead pays: over several days the pattern
// averages out.
const farAhead = 4

// Rank implements Policy.
func (a Ahead) Rank(s *Source, now time.Time) float64 {
	r := s.record()
	waited, fear := a.waited(s.rates(), r, between(r.Last, now))
	return (waited + fear) * s.weight() / s.cost()
}

// waited is how long the items since the last poll have waited, and Index's term for lost items, both in
// item-days.
func (a Ahead) waited(rates *Rates, r *Record, days float64) (waited, fear float64) {
	days = min(days, neverDays)
	items, gain := rates.span(phase(r.Last), days)
	return max(0, items*days-gain), a.overflow(items, r.Window)
}

// Next implements Policy.
func (a Ahead) Next(s *Source, price float64, now time.Time) time.Time {
	r := s.record()
	rates, need, from := s.rates(), s.need(price), phase(r.Last)
	soonest := rates.gained(from, need)
	days := soonest
	if usual := math.Sqrt(2 * need / rates.Mean()); usual < farAhead && usual >= shortest.Hours()/24 {
		days = plan(rates, from, need, between(r.Last, now), usual, soonest)
	}
	if r.Window > 0 && a.loss() > 0 {
		high := min(days, neverDays)
		days = earliest(high, func(d float64) bool {
			waited, fear := a.waited(rates, r, d)
			return fear > need/100 && waited+fear >= need
		})
	}
	return after(r.Last, days)
}

// plan returns the time of the next poll, in days after the last one, no sooner than least. It is the
// least-cost path over a grid of times: a poll at x after one at y costs the need, and the delay of the items
// in between,
//
//	x (R(x) - R(y)) - (S(x) - S(y))
//
// with R the items and S the sum of their times. As a function of R(y) that is a line for each x, so the best
// x for all y is found on one hull (Sia and Cho's placement, by way of the convex hull trick).
func plan(r *Rates, begin, need, least, usual, index float64) float64 {
	step := min(max(min(usual, index)/16, 1./1440), 1./24)
	n := min(int(math.Ceil(6*max(usual, index)/step)), 4000)
	if f := math.Floor(least/step) + 1; f > 1 {
		n += int(min(f, 1000))
	}
	type point struct{ x, items, times, cost float64 }
	at := make([]point, n+1)
	i0, t0 := r.until(begin)
	for i := range at {
		x := float64(i) * step
		in, t := r.until(begin + x)
		in -= i0
		at[i] = point{x: x, items: in, times: t - t0 - begin*in}
	}
	// The line of point j at the abscissa q is base[j] - x[j] q.
	base := func(j int) float64 { return need + at[j].x*at[j].items - at[j].times + at[j].cost }
	hull := make([]int, 0, n+1)
	value := func(j int, q float64) float64 { return base(j) - at[j].x*q }
	// Steeper lines come first: j falls, and so does q, for which flatter and flatter lines are lowest.
	beyond := func(a, b, c int) bool { // line b is nowhere below both a and c
		return (base(c)-base(a))*(at[a].x-at[b].x) <= (base(b)-base(a))*(at[a].x-at[c].x)
	}
	for i := n; i >= 0; i-- {
		if i < n {
			q := at[i].items
			for len(hull) > 1 && value(hull[1], q) <= value(hull[0], q) {
				hull = hull[1:]
			}
			at[i].cost = at[i].times + value(hull[0], q)
		}
		if i == 0 {
			break
		}
		for len(hull) > 1 && beyond(hull[len(hull)-2], hull[len(hull)-1], i) {
			hull = hull[:len(hull)-1]
		}
		hull = append(hull, i)
	}
	best, when := math.Inf(1), usual
	for j := 1; j <= n; j++ {
		if at[j].x < least {
			continue
		}
		if v := value(j, 0); v < best {
			best, when = v, at[j].x
		}
	}
	return max(when, least)
}
