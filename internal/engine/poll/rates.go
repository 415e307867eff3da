package poll

import (
	"math"
	"time"
)

// Hours is the number of hours in a week. Hour 0 is the first of Monday, in UTC.
const Hours = 7 * 24

const week = 7. // in days

// Rates are the expected items a day, by the hour of the week. They are never modified.
type Rates struct {
	hour [Hours]float64

	// From the beginning of the week to that of each hour: the number of items, and the sum of their times in
	// days. All integrals follow from these two.
	items, times [Hours + 1]float64
}

// NewRates returns rates in items a day for each hour of the week. Each is limited to 0..1e6; NaN becomes 0.
func NewRates(perDay *[Hours]float64) *Rates {
	r := &Rates{}
	for h, x := range perDay {
		if !(x > 0) {
			x = 0
		}
		x = min(x, 1e6)
		a := float64(h) / 24
		b := float64(h+1) / 24
		r.hour[h] = x
		r.items[h+1] = r.items[h] + x/24
		r.times[h+1] = r.times[h] + x*(b*b-a*a)/2
	}
	return r
}

// Flat returns constant rates.
func Flat(perDay float64) *Rates {
	var all [Hours]float64
	for h := range all {
		all[h] = perDay
	}
	return NewRates(&all)
}

// phase is the number of days since the beginning of a time's week.
func phase(t time.Time) float64 {
	const seconds = Hours * 3600
	s := (t.Unix() + 3*24*3600) % seconds // 1970 began on a Thursday
	if s < 0 {
		s += seconds
	}
	return (float64(s) + float64(t.Nanosecond())/1e9) / (24 * 3600)
}

// hourOf is the hour of the week, from 0, of a phase.
func hourOf(phase float64) int { return min(max(int(phase*24), 0), Hours-1) }

// Hour is the rate in an hour of the week, 0 to Hours-1.
func (r *Rates) Hour(h int) float64 { return r.hour[h] }

// Mean is the rate over a whole week.
func (r *Rates) Mean() float64 { return r.items[Hours] / week }

// until returns the integrals of rate and of time x rate from the beginning of a week
// to x days later.
func (r *Rates) until(x float64) (items, times float64) {
	n := math.Floor(x / week)
	x -= n * week
	h := hourOf(x)
	a := float64(h) / 24
	in := r.items[h] + r.hour[h]*max(0, x-a)
	at := r.times[h] + r.hour[h]*max(0, x*x-a*a)/2
	all := r.items[Hours]
	return n*all + in, week*all*n*(n-1)/2 + n*r.times[Hours] + week*n*in + at
}

// span returns the number of items expected in the days after a time of the week, and the sum of their times
// since then.
func (r *Rates) span(phase, days float64) (items, gain float64) {
	days = min(days, neverDays)
	i0, t0 := r.until(phase)
	i1, t1 := r.until(phase + days)
	items = max(0, i1-i0)
	return items, min(max(0, t1-t0-phase*items), items*days)
}

// Items is the number of new items expected of a source that was last polled at a time: (5) as it must be
// meant, with the rate of the hour at each time (A07, E34).
func (r *Rates) Items(last, now time.Time) float64 {
	items, _ := r.span(phase(last), between(last, now))
	return items
}

// delay is how long the items since the last poll have waited by now, in item-days.
func (r *Rates) delay(last, now time.Time) float64 {
	days := between(last, now)
	items, gain := r.span(phase(last), days)
	return max(0, items*min(days, neverDays)-gain)
}

// Gain is the index of a poll now, in item-days: the integral of u x rate(u), with u the time since the last
// poll. With c(u) items expected by then it is u c(u) less the integral of c: the saving of a poll now over
// one that is always a bit later (Olston and Pandey, WWW 2008).
func (r *Rates) Gain(last, now time.Time) float64 {
	_, gain := r.span(phase(last), between(last, now))
	return gain
}

// gained is the least number of days, from a time of the week on, with a gain of need, +Inf if it is never
// reached.
func (r *Rates) gained(phase, need float64) float64 {
	if !(need > 0) {
		return 0
	}
	all := r.items[Hours]
	if !(all > 0) {
		return math.Inf(1)
	}
	// After n weeks the gain is n times the first week's, plus 7 all n(n-1)/2, since the later items come
	// later.
	_, first := r.span(phase, week)
	b := first - week*all/2
	n := math.Floor((-b + math.Sqrt(b*b+2*week*all*need)) / (week * all))
	if !(n*week < neverDays) {
		return math.Inf(1)
	}
	n = max(0, n-1) // rounding may have put it one too far
	for range 3 {
		if _, g := r.span(phase, (n+1)*week); g < need {
			n++
		}
	}
	// The hour within the week, by bisection, and the time within it from r u^2/2.
	start := math.Floor(phase * 24) // hours are counted from the one that phase is in
	low, high := 0, Hours+1
	edge := func(i int) float64 { return max(0, n*week+(start+float64(i))/24-phase) }
	for high-low > 1 {
		mid := (low + high) / 2
		if _, g := r.span(phase, edge(mid)); g < need {
			low = mid
		} else {
			high = mid
		}
	}
	u := edge(low)
	_, g := r.span(phase, u)
	rate := r.hour[(int(start)+low)%Hours]
	if !(rate > 0) {
		return edge(high)
	}
	return min(math.Sqrt(u*u+2*max(0, need-g)/rate), edge(high))
}
