package poll

import "math"

// Training is advaRSS's timer of a feed of which nothing else is known (A03, A04). Its unit is the execution:
// one round of the crawler, see [Trained]. The zero value is that of a new feed.
type Training struct {
	M   float64 // the time between two polls, 1 to 80 executions; the paper calls it a median, which it is not (E31). 0 means 4, as at the beginning
	T   float64 // executions since it last changed, at least; 0 means 1, as at the beginning
	ToE int     // executions until the next poll
}

// Executions between two polls (A04): every ten minutes at most, 18 times a day at least.
const (
	fastestM = 1
	slowestM = 80
	firstM   = 4
)

// NewTraining is the timer of a new feed. Random spreads the first polls of many feeds over the first
// executions: it may be any number, and its two lowest bits are used.
func NewTraining(random int) Training { return Training{M: firstM, T: 1, ToE: random & 3} }

func (t Training) clean() Training {
	if !(t.M > 0) {
		t.M = firstM
	}
	if !(t.T > 0) {
		t.T = 1
	}
	t.M = min(max(t.M, fastestM), slowestM)
	t.T = min(t.T, most)
	t.ToE = min(max(t.ToE, 0), slowestM)
	return t
}

// checked is the timer after a poll: found says whether there was anything new, as in the very first. (2)
// uses the old T for M (E31). M only approaches 1, so ToE is its ceiling but for a millionth (E32).
func (t Training) checked(found bool) Training {
	t = t.clean()
	if found {
		t.T = 1
		t.M = 0.2*t.M + 0.8*t.T
	} else {
		t.T, t.M = t.T+t.M, t.M+0.3*t.T
	}
	t = t.clean()
	t.ToE = int(math.Ceil(t.M - 1e-6))
	return t
}
