package fresh

import (
	"math"
	"strconv"
	"strings"
)

// An Objective is the goal of a collection: what a day with an outdated copy costs. The weights of its parts
// add up, since the index is linear in the cost (Olston and Pandey, WWW 2008). The zero value is Harmonic 1;
// a weight that is negative or NaN is 0.
//
// The index W of a page is the gain of a visit at an age, which is the time since the copy was last known to
// be right. With c(u) the expected cost of a copy of the age u,
//
//	W(t) = t c(t) - ∫0..t c(u) du = ∫0..t u c'(u) du
//
// is the excess of the cost of one more day without a visit over the mean cost of the days before, times
// their number. The optimum for a given total cost is to visit every page with importance x W >= price x cost
// of a visit. W grows with the age, from 0. With the rate D and x = D t:
//
//	Fresh     c = P(outdated)                 W = R1(x) / D           R1(x) = 1 - (1+x) e^-x
//	Harmonic  c = E[1 + 1/2 + ... + 1/n]      W = (x - 1 + e^-x) / D  n: unseen changes
//	Age       c = E[days outdated]            W = (x²/2 - R1(x)) / D²
//
// Fresh maximises the share of visitors who see the current page (Cho and Garcia-Molina, TODS 2003), but
// gives up pages that change faster than it pays to follow: W is bounded by 1/D. Harmonic is the cost of
// LambdaCrawl (Kolobov et al., NeurIPS 2019), whose index is the expected age of the copy. It gives up no
// page, loses two points of freshness at most, and cuts the age to a fraction. Age minimizes how long copies
// have been outdated.
//
// W is in days, and that of Age in days²: a weight of Age is per day.
//
// A Rule replaces the weights.
type Objective struct {
	Fresh, Harmonic, Age float64
	Rule                 Rule `json:",omitempty"`
}

// ParseObjective reads weights such as fresh=1,age=0.5. It returns the first part that is none, as unread.
func ParseObjective(text string) (o Objective, unread string) {
	of := map[string]*float64{"fresh": &o.Fresh, "harmonic": &o.Harmonic, "age": &o.Age}
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		w, err := strconv.ParseFloat(value, 64)
		if of[name] == nil || err != nil || !(w >= 0) || math.IsInf(w, 0) {
			return o, part
		}
		*of[name] = w
	}
	return o, ""
}

// A Rule is one that an optimum is compared with (Castillo 2004, section 2.4.2). Its index of a page leaves the importance
// out, and costs and notices as well, so that one price gives the rule exactly:
//
//	Uniform       W = t    all pages are visited equally often
//	Proportional  W = D t  each page in proportion to the rate at which it is expected to change
type Rule string

// The rules.
const (
	Uniform      Rule = "uniform"
	Proportional Rule = "proportional"
)

// ruled is the index of the Rule per day of age, for a page that is expected to change at a rate; false if there is none.
func (o Objective) ruled(rate float64) (perDay float64, ok bool) {
	switch o.Rule {
	case Uniform:
		return 1, true
	case Proportional:
		return rate, true
	}
	return 0, false
}

// oldest limits every age, in days: beyond it, nothing changes.
const oldest = 1e9

// weights returns the weights with defaults and bounds applied.
func (o Objective) weights() Objective {
	for _, w := range [...]*float64{&o.Fresh, &o.Harmonic, &o.Age} {
		if !(*w > 1e-100) {
			*w = 0
		}
		*w = min(*w, math.MaxFloat32)
	}
	if o == (Objective{Rule: o.Rule}) {
		o.Harmonic = 1
	}
	return o
}

func (o Objective) atRate(rate, age float64) (w float64) {
	x := rate * age
	if o.Fresh > 0 {
		w = o.Fresh * age * freshPart(x)
	}
	if o.Harmonic > 0 {
		w += o.Harmonic * age * stalePart(x)
	}
	if o.Age > 0 {
		w += o.Age * age * age * agePart(x)
	}
	return w
}

// AgeAtRate is the least age at which atRate is need or more, +Inf if it never is.
func (o Objective) AgeAtRate(rate, need float64) float64 {
	if !(need > 0) {
		return 0
	}
	o, rate = o.weights(), finite(rate)
	low, high := 0., oldest
	if rate == 0 || !(o.atRate(rate, high) >= need) {
		return math.Inf(1)
	}
	// Newton's method for the logarithm of W over that of the age, which is nearly straight on both sides of
	// x = 1; a step that leaves the remaining interval is replaced by halving it.
	age := min(math.Sqrt(2*need/rate), high/2) // right for a small x
	for range 200 {
		w := o.atRate(rate, age)
		if w >= need {
			high = age
		} else {
			low = age
		}
		if high-low <= 1e-13*high {
			break
		}
		slope := age * o.slope(rate, age) / w
		next := age * math.Exp((math.Log(need)-math.Log(w))/slope)
		if near := math.Abs(next-age) <= 1e-13*age; near {
			return next
		}
		if !(next > low && next < high) {
			next = (low + high) / 2
			if low > 0 {
				next = math.Sqrt(low) * math.Sqrt(high)
			} else if high > 1 {
				next = 1
			}
		}
		age = next
	}
	return high
}

// slope is dW/dt = t c'(t).
func (o Objective) slope(rate, age float64) float64 {
	x := rate * age
	one := -math.Expm1(-x)
	return o.Fresh*x*math.Exp(-x) + o.Harmonic*one + o.Age*age*one
}

// At is the index of a page of importance 1 and posterior p: the mean over the rates, and not the index of
// the mean rate. The difference is what drives exploration: while little is known, a part of p stays with
// slow rates, whose index still grows when that of fast ones has reached its bound. Its error is at most
// 4e-4.
func (o Objective) At(p *Posterior, age float64) float64 {
	return o.weights().at(p, 0, bounded(age, oldest))
}

// at is the index less body x R1: bodies are paid for only when they changed.
func (o Objective) at(p *Posterior, body, age float64) float64 {
	if o.Rule != "" {
		perDay, _ := o.ruled(p.Mean())
		return perDay * age
	}
	step, part, ok := lattice.find(age)
	if !ok {
		return o.atSlow(p, body, age)
	}
	w := o.atStep(p, body, step)
	if part > 0 {
		w += part * (o.atStep(p, body, step+1) - w)
	}
	return w
}

// atSlow computes at for ages outside the lattice.
func (o Objective) atSlow(p *Posterior, body, age float64) (w float64) {
	for k, share := range p {
		if share > 0 {
			x := grid.rate[k] * age
			w += share * o.atRate(grid.rate[k], age)
			if body > 0 {
				w -= share * body * x * freshPart(x)
			}
		}
	}
	return w
}

// atStep is at for an age of the lattice.
func (o Objective) atStep(p *Posterior, body float64, step int) (w float64) {
	age := lattice.at[step]
	if o.Fresh > 0 {
		w = o.Fresh * age * dot(p, lattice.fresh.from(step))
	}
	if o.Harmonic > 0 {
		w += o.Harmonic * age * dot(p, lattice.stale.from(step))
	}
	if o.Age > 0 {
		w += o.Age * age * age * dot(p, lattice.age.from(step))
	}
	if body > 0 {
		w -= body * dot(p, lattice.changed.from(step))
	}
	return w
}

// ageAt returns the least age at which the method at returns need or more. Its values cross a positive need only once.
func (o Objective) ageAt(p *Posterior, body, need float64) float64 {
	if !(need > 0) {
		return 0
	}
	if perDay, ok := o.ruled(p.Mean()); ok {
		return need / perDay
	}
	low, high := -1, steps // lattice ages at which at is below need, and at which it is not
	var below, above float64
	for high-low > 1 {
		mid := int(uint(low+high) / 2)
		if w := o.atStep(p, body, mid); w >= need {
			high, above = mid, w
		} else {
			low, below = mid, w
		}
	}
	switch {
	case low < 0:
		return o.ageSlow(p, body, need, 0, lattice.at[0])
	case high == steps:
		return o.ageSlow(p, body, need, lattice.at[steps-1], oldest)
	}
	part := (need - below) / (above - below)
	return lattice.at[low] + part*(lattice.at[high]-lattice.at[low])
}

func (o Objective) ageSlow(p *Posterior, body, need, low, high float64) float64 {
	if !(o.atSlow(p, body, high) >= need) {
		return math.Inf(1)
	}
	for range 60 {
		mid := (low + high) / 2
		if o.atSlow(p, body, mid) >= need {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// MeanFresh is the share of time in which the copy of a page is current, if it is visited every so many days.
func MeanFresh(rate, every float64) float64 {
	return 1 - stalePart(finite(rate)*bounded(every, oldest))
}

// MeanAge is the mean, over all time, of how many days the copy of a page has been outdated, if it is visited
// every so many days.
func MeanAge(rate, every float64) float64 {
	every = bounded(every, oldest)
	return every * ageMean(finite(rate)*every)
}

// bounded limits a number from outside to 0..most; NaN becomes 0.
func bounded(x, most float64) float64 {
	if !(x > 0) {
		return 0
	}
	return min(x, most)
}

// finite limits a number from outside to one of which sums are finite; NaN becomes 0.
func finite(x float64) float64 { return bounded(x, math.MaxFloat32) }

// The functions of x = rate x age behind all indexes, for x >= 0. For a small x their closed forms are small
// differences of large numbers, so series are used there.
const small = 1. / 32

// freshPart is R1(x)/x.
func freshPart(x float64) float64 {
	switch {
	case x < small:
		return freshSeries.at(x)
	case x > 700:
		return 1 / x
	}
	return (-math.Expm1(-x) - x*math.Exp(-x)) / x
}

// stalePart is (x - 1 + e^-x)/x: also the share of time in which a copy is outdated that is fetched every age
// days.
func stalePart(x float64) float64 {
	if x < small {
		return staleSeries.at(x)
	}
	return 1 + math.Expm1(-x)/x
}

// agePart is 1/2 - R1(x)/x².
func agePart(x float64) float64 {
	if x < small {
		return ageSeries.at(x)
	}
	return 0.5 - freshPart(x)/x
}

// ageMean is the mean age of a copy over all time, in units of the interval.
func ageMean(x float64) float64 {
	if x < small {
		return meanSeries.at(x)
	}
	return 0.5 - stalePart(x)/x
}

// unseenPart is Ein(x) = ∫0..x (1-e^-u)/u du, the expected harmonic number of unseen changes.
func unseenPart(x float64) (sum float64) {
	const euler = 0.57721566490153286
	switch {
	case x > 40:
		return math.Log(x) + euler
	case x > 2: // the continued fraction of E1, evaluated from far inside
		for n := 60.; n > 0; n-- {
			sum = n / (1 + n/(x+sum))
		}
		return math.Log(x) + euler + math.Exp(-x)/(x+sum)
	}
	term := 1.
	for n := 1.; n < 30; n++ {
		term *= -x / n
		sum -= term / n
	}
	return sum
}

// A series has the coefficients of the powers of x, from x itself on.
type series [8]float64

func (s *series) at(x float64) (sum float64) {
	for i := len(s) - 1; i >= 0; i-- {
		sum = (sum + s[i]) * x
	}
	return sum
}

var (
	freshSeries = expSeries(2, true)
	staleSeries = expSeries(2, false)
	ageSeries   = expSeries(3, true)
	meanSeries  = expSeries(3, false)
)

// expSeries has the coefficients ±1/n! from n = first, the first of them positive; times n-1 for R1.
func expSeries(first int, r1 bool) (s series) {
	sign, factorial := 1., 1.
	for n := 2; n < first+len(s); n++ {
		if factorial *= float64(n); n < first {
			continue
		}
		s[n-first] = sign / factorial
		if sign = -sign; r1 {
			s[n-first] *= float64(n - 1)
		}
	}
	return s
}
