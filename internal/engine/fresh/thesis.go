package fresh

import (
	"fmt"
	"math"
	"time"
)

// Thesis is the policy of Castillo's thesis: the value of a page is quality^Alpha x representation^Beta x
// freshness^Gamma (V04), and the gain of a visit is the increase of that value (V06): representation is 1 for
// a page that was visited and 0 for one that was not (V03). The zero value is the thesis's own choice, all
// exponents 1.
//
// By itself it never revisits a page that was never seen to change, so MaxPeriod is our addition.
type Thesis struct {
	// The exponents; 0 means 1, and a negative one means 0: the factor does not count.
	Alpha, Beta, Gamma float64

	// Threshold is the profit that makes a visit worth its cost, more than 0
	// and less than 1. 0 means 0.1: of a page of quality 1, a tenth of its freshness.
	Threshold float64

	// Prior is the rate of change of a page that was visited once and has no
	// date, in changes a day. 0 means one in 30 days.
	Prior float64

	// MaxPeriod is the longest time between two visits. 0 means 90 days, and
	// a negative value no limit.
	MaxPeriod time.Duration

	Periods Periods
}

// Periods are the shortest times between two requests (V13). A notice that a page has changed overrides them.
// A field of 0 has its default.
type Periods struct {
	Page     time.Duration // after a visit; 24 hours, or Thesis.MaxPeriod if that is less
	Refused  time.Duration // after a response that is not a page; 7 days
	Failed   time.Duration // after no response; 12 hours (P01)
	Robots   time.Duration // robots.txt, found or not; 24 hours (RFC 9309)
	Manifest time.Duration // after one was found; an hour
	Absent   time.Duration // after a manifest was not found; 7 days
}

// withDefaults returns the periods with no field 0.
func (p Periods) withDefaults() Periods {
	const day = 24 * time.Hour
	for _, f := range []struct {
		period *time.Duration
		or     time.Duration
	}{{&p.Page, day}, {&p.Refused, 7 * day}, {&p.Failed, 12 * time.Hour}, {&p.Robots, day}, {&p.Manifest, time.Hour}, {&p.Absent, 7 * day}} {
		if *f.period == 0 {
			*f.period = f.or
		}
		*f.period = max(*f.period, 0)
	}
	return p
}

// Preset returns the exponents for a kind of crawler (V08): general, research, focused, archive, news or
// mirror. The thesis places these by the weight of the three factors and gives no numbers, so they are ours.
func Preset(name string) (Thesis, error) {
	switch name {
	case "general":
		return Thesis{}, nil
	case "research", "focused": // intrinsic quality
		return Thesis{Alpha: 2, Gamma: 0.5}, nil
	case "archive": // representation: new pages before new copies
		return Thesis{Alpha: 0.5, Gamma: 0.25}, nil
	case "news": // freshness
		return Thesis{Alpha: 0.5, Gamma: 2}, nil
	case "mirror": // freshness, of all pages alike
		return Thesis{Alpha: -1, Gamma: 2}, nil
	}
	return Thesis{}, fmt.Errorf("unknown preset %q: want general, research, focused, archive, news or mirror", name)
}

// Exponents returns Alpha and Gamma as they count: 1 for 0, and 0 for a negative one.
func (t Thesis) Exponents() (alpha, gamma float64) { return exponent(t.Alpha), exponent(t.Gamma) }

// value is the value of a page (V04), all arguments from 0 to 1.
func (t Thesis) value(quality, representation, freshness float64) float64 {
	return power(quality, t.Alpha) * power(representation, t.Beta) * power(freshness, t.Gamma)
}

// Profit is what a visit at a time would gain, from 0 to 1.
func (t Thesis) Profit(p *Page, now time.Time) float64 {
	seen := 0.
	if p.Visits > 0 {
		seen = 1
	}
	return max(0, t.value(p.Importance, 1, 1)-t.value(p.Importance, seen, fresh(p.History, t.rate(p.History), now)))
}

// Next is when the profit reaches Threshold, no later than MaxPeriod and no sooner than Periods.Page after
// the last visit; at once for a page that was not visited, or that a credible source says has changed.
func (t Thesis) Next(p *Page, now time.Time) time.Time {
	h := p.History
	if h.Visits <= 0 || h.Outdated() {
		return time.Time{}
	}
	wait := t.longest()
	if age, ok := t.worth(h, p.Importance); ok {
		at := h.confirmed().Add(duration(age))
		wait = min(wait, span(h.Last, at))
	}
	least := t.Periods.withDefaults().Page
	if t.Periods.Page == 0 {
		least = yields(least, t.MaxPeriod)
	}
	return h.Last.Add(max(wait, least))
}

// worth is the age in days at which a visit is worth its cost; false: never.
func (t Thesis) worth(h History, quality float64) (age float64, ok bool) {
	threshold := t.Threshold
	if !(threshold > 0) {
		threshold = 0.1
	}
	rate, gamma := t.rate(h), exponent(t.Gamma)
	best := power(quality, t.Alpha) // value of a fresh copy; now it is best x fresh^gamma
	if !(best > threshold) || rate == 0 || gamma == 0 {
		return 0, false
	}
	return -math.Log1p(-threshold/best) / (rate * gamma), true
}

func (t Thesis) rate(h History) float64 {
	if known(h) {
		return Rate(h)
	}
	if t.Prior > 0 {
		return clamp(t.Prior)
	}
	return 1. / 30
}

// farthest limits times: later ones would overflow where they are stored.
const farthest = 100 * 365 * 24 * time.Hour

func (t Thesis) longest() time.Duration {
	switch {
	case t.MaxPeriod < 0:
		return farthest
	case t.MaxPeriod == 0:
		return usualLongest
	}
	return min(t.MaxPeriod, farthest)
}

func duration(d float64) time.Duration {
	if !(d < days(farthest)) {
		return farthest
	}
	return time.Duration(d * float64(24*time.Hour))
}

// power is base^exponent for a share, which is clamped to 0..1; NaN counts as 0.
func power(share, exp float64) float64 {
	switch {
	case !(share > 0): // or NaN
		share = 0
	case share > 1:
		share = 1
	}
	switch exp = exponent(exp); exp {
	case 1:
		return share
	case 0:
		return 1
	}
	return math.Pow(share, exp)
}

func exponent(x float64) float64 {
	switch {
	case x == 0 || x != x:
		return 1
	case x < 0:
		return 0
	}
	return x
}
