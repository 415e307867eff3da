package fresh

import (
	"cmp"
	"math"
)

// A Bucket holds the unspent budget, and adjusts the planned price by its balance. A plan rests on beliefs
// and is never exact; a price that follows only the balance corrects an error after paying for it. So the
// plan sets the price, and the bucket corrects it by a factor.
//
// It fills over time, up to Burst. It may be overdrawn, since the length of a body is not known before, and
// then nothing is spent until it is refilled. It is used by one goroutine.
type Bucket struct {
	Rate    float64 // budget of a day
	Burst   float64 // capacity. 0 means that of the function Burst
	Balance float64 // begin with half of Burst
}

func (b *Bucket) burst() float64 {
	return cmp.Or(finite(b.Burst), Burst(finite(b.Rate)))
}

// Burst is how much of a budget can be saved up: that of three days, and 32 at least. With less, the price swings.
func Burst(day float64) float64 { return max(3*day, 32) }

// Earn adds the budget of so many days.
func (b *Bucket) Earn(days float64) {
	b.Balance = b.balance() + finite(b.Rate)*bounded(days, oldest)
	b.Balance = b.balance()
}

// balance is Balance limited to its range: from a debt of ten times Burst to a full bucket.
func (b *Bucket) balance() float64 {
	if burst := b.burst(); b.Balance > -10*burst {
		return min(b.Balance, burst)
	} else {
		return -10 * burst
	}
}

// Spend deducts a cost.
func (b *Bucket) Spend(cost float64) {
	b.Balance = b.balance() - finite(cost)
}

// Wait returns the days until cost may be spent: 0 if now, +Inf if nothing comes in. A cost above Burst may
// be spent when the bucket is full.
func (b *Bucket) Wait(cost float64) float64 {
	missing := min(finite(cost), b.burst()) - b.balance()
	switch {
	case missing <= 0:
		return 0
	case !(b.Rate > 0):
		return math.Inf(1)
	}
	return missing / b.Rate
}

// Factor is the multiplier of the planned price: 1 if the bucket is half full, 1/e² if it is full, e² if it
// is empty, and e⁴ at most, when the debt is half of Burst. Spending falls about with the root of the price,
// so a plan that is wrong by a factor of two settles at a third of the bucket from its middle.
func (b *Bucket) Factor() float64 {
	burst := b.burst()
	return math.Exp(min(max(trimGain*(burst/2-b.balance())/burst, -trimMost), trimMost))
}

// How far the price is adjusted: the range of its logarithm over a whole bucket, and its bound.
const trimGain, trimMost = 4, 4
