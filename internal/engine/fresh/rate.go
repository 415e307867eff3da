package fresh

import (
	"math"
	"time"
)

// fastest limits every rate: one change a second. No site is fetched often enough to distinguish faster ones.
const fastest = 24 * 3600.

// Dated estimates a page's rate of change where the site says when it was modified (F09): n visits after the
// first, x of them found a change, and unchanged is T, the total time known to be without one: the whole of
// an interval without a change, and of one with a change the time between the modification and the visit. The
// thesis prints S T where T is meant (E11). The rate is in changes a day, from 0 (x = 0) to one a second;
// with x = n it is (x-1)/T, which is 0 for a single visit.
func Dated(n, x int, unchanged time.Duration) float64 {
	n, x = counts(n, x)
	if x == 0 {
		return 0
	}
	N, X := float64(n), float64(x)
	changes := X - 1
	if x < n {
		changes -= X / (N * math.Log1p(-X/N))
	}
	if changes <= 0 {
		return 0
	}
	return clamp(changes / days(unchanged))
}

// Compared estimates it where only copies can be compared (F10): since is S,
// from the first visit to the last. It is the bias-reduced form of the thesis's
// -n log(1-x/n)/S, which has no value where every visit found a change (E12).
func Compared(n, x int, since time.Duration) float64 {
	n, x = counts(n, x)
	if x == 0 {
		return 0
	}
	N, X := float64(n), float64(x)
	return clamp(-N * math.Log((N-X+.5)/(N+.5)) / days(since))
}

func counts(n, x int) (int, int) {
	n = max(n, 0)
	return n, min(max(x, 0), n)
}

// clamp limits a rate; one that is NaN, infinite or negative is the fastest: the time was too short to tell.
func clamp(rate float64) float64 {
	if rate >= 0 && rate <= fastest {
		return rate
	}
	return fastest
}

// known reports whether there is any evidence of a rate: a visit after the first, or a date.
func known(h History) bool { return h.Visits > 1 || h.Visits == 1 && !h.Modified.IsZero() }

// Rate estimates how often a page changes, in changes a day, at most one a second. It is 0 without evidence
// of a change, also if nothing is known at all.
//
// With dates it is [Dated], without them [Compared]. After one visit it is one change in the age that the
// page had then. Where its only visit after the first found a change, Dated is 0 and Compared is used: a page
// that changed once is not one that never does.
func Rate(h History) float64 {
	n, x := counts(h.Visits-1, h.Changes)
	switch {
	case !known(h):
		return 0
	case n == 0:
		return clamp(1 / days(span(h.Modified, h.Last)))
	case h.Modified.IsZero() || x == n && n == 1:
		return Compared(n, x, span(h.First, h.Last))
	default:
		return Dated(n, x, h.Unchanged)
	}
}

// span is the time from a to b, 0 if b is not later.
func span(a, b time.Time) time.Duration { return max(0, b.Sub(a)) }

// Fresh is the probability that a page is as it was at the last visit (F07, E13): 0 if it was never visited,
// or if a credible source says that it has changed since (E14).
func Fresh(h History, now time.Time) float64 { return fresh(h, Rate(h), now) }

func fresh(h History, rate float64, now time.Time) float64 {
	if h.Visits <= 0 || h.Outdated() {
		return 0
	}
	return math.Exp(-rate * days(span(h.confirmed(), now)))
}

// Outdated reports whether a credible source says that the page has changed since the last visit.
func (h History) Outdated() bool { return h.Heard.Notified || h.Visits > 0 && h.Modified.After(h.Last) }

// confirmed is when the copy was last known to be right.
func (h History) confirmed() time.Time {
	if h.Heard.Confirmed.After(h.Last) {
		return h.Heard.Confirmed
	}
	return h.Last
}
