package fresh

import (
	"math"
	"time"
)

// These estimators, like [Dated] and [Compared], are for reports. Decisions use beliefs: averaging the index
// over the posterior matters more than the best single number. All rates are in changes a day and finite for
// any input, at most one change a second; an estimator without a value says so.

// Raw is (2.3) as the thesis has it, for n visits after the first of which x found another copy: since is S,
// from the first visit to the last. It has no value if x = n (E12), and is far too low if the intervals
// differ. [Compared] is its bias-reduced form.
func Raw(n, x int, since time.Duration) (rate float64, ok bool) {
	n, x = counts(n, x)
	switch {
	case n == 0 || since <= 0:
		return 0, false
	case x == n:
		return fastest, false
	}
	return clamp(-float64(n) * math.Log1p(-float64(x)/float64(n)) / days(since)), true
}

// A Check is the result of a visit.
type Check struct {
	Days    float64 // since the previous visit; one that is not positive is ignored
	Changed bool
}

// Likeliest is the maximum-likelihood rate for checks of any lengths I:
//
//	sum over changed I/(e^(rate I) - 1) = sum over unchanged I
//
// It has no value if all have changed, and is 0 if none has.
func Likeliest(checks []Check) (rate float64, ok bool) {
	changed, unchanged := false, false
	for _, c := range checks {
		if c.length() > 0 {
			changed, unchanged = changed || c.Changed, unchanged || !c.Changed
		}
	}
	switch {
	case !unchanged && changed:
		return fastest, false
	case !changed:
		return 0, unchanged
	}
	return root(func(rate float64) float64 { return score(checks, rate) }), true
}

// LikeliestReduced is Likeliest without the first order of its bias (Firth, Biometrika 1993): the maximum
// under the prior of Jeffreys. It has a value if there is at least one check.
func LikeliestReduced(checks []Check) (rate float64, ok bool) {
	for _, c := range checks {
		ok = ok || c.length() > 0
	}
	if !ok {
		return 0, false
	}
	return root(func(rate float64) float64 {
		// Add half the slope of the logarithm of the information, sum of I²/(e^(rate I) - 1).
		var info, slope float64
		for _, c := range checks {
			if i := c.length(); i > 0 {
				g := i / math.Expm1(rate*i)
				info += i * g
				slope -= i * g * (i + g)
			}
		}
		if info == 0 { // beyond all lengths
			return math.Inf(-1)
		}
		return score(checks, rate) + slope/info/2
	}), true
}

func (c Check) length() float64 { return bounded(c.Days, oldest) }

// score is the derivative of the log-likelihood.
func score(checks []Check, rate float64) (s float64) {
	for _, c := range checks {
		switch i := c.length(); {
		case i == 0:
		case c.Changed:
			s += i / math.Expm1(rate*i)
		default:
			s -= i
		}
	}
	return s
}

// root is the rate at which a decreasing score reaches 0, by bisection of the logarithm.
func root(score func(rate float64) float64) float64 {
	low, high := math.Log(1e-12), math.Log(fastest)
	for range 60 {
		mid := (low + high) / 2
		if score(math.Exp(mid)) > 0 {
			low = mid
		} else {
			high = mid
		}
	}
	return math.Exp(high)
}
