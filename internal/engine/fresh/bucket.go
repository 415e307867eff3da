package fresh

import "math"

// A Bucket holds the unspent budget, and adjusts the planned price by its balance. A plan rests on beliefs
// and is never exact; a price that follows only the balance corrects an error after paying for it. So the
// plan sets the price, and the bucket corrects it by a factor.
//
// It fills over time, up to Burst and, where it Saves, the budget of savedDays more: changes come in bursts, and
// what a quiet time leaves pays for the next one. It may be overdrawn, since the length of a body is not known
// before, and then nothing is spent until it is refilled. It is used by one goroutine.
type Bucket struct {
	Rate    float64 // budget of a day
	Burst   float64 // capacity. 0 means the budget of three days, and 32 at least
	Saves   bool
	Balance float64 // begin with half of Burst
}

// savedDays is how many days of the budget are saved. No burst that was seen before can tell: in recorded histories the first
// one is often the largest.
const savedDays = 100

func (b *Bucket) savings() float64 {
	if b.Saves {
		return savedDays * finite(b.Rate)
	}
	return 0
}

func (b *Bucket) burst() float64 {
	if burst := finite(b.Burst); burst > 0 {
		return burst
	}
	return max(3*finite(b.Rate), 32)
}

// Earn adds the budget of so many days.
func (b *Bucket) Earn(days float64) {
	b.Balance = b.balance() + finite(b.Rate)*bounded(days, oldest)
	b.Balance = b.balance()
}

// balance is Balance limited to its range: from a debt of ten times Burst to a full bucket.
func (b *Bucket) balance() float64 {
	if burst := b.burst(); b.Balance > -10*burst {
		return min(b.Balance, burst+b.savings())
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

// Factor is the multiplier of the planned price: 1 if the balance is half of Burst, e² if it is 0, and e⁴ at most, when
// the debt is half of Burst. Above half of Burst it falls by e² over the savings, so slowly that little is bought that
// is worth much less than what a burst needs, and by e² again over the rest. Spending falls about with the root of the
// price, so without savings a plan that is wrong by a factor of two settles at a third of the bucket from its middle.
func (b *Bucket) Factor() float64 {
	burst, all := b.burst(), b.savings()
	above, saved := b.balance()-burst/2, 0.
	if all > 0 && above > 0 {
		saved = min(above/all, 1)
	}
	return math.Exp(min(-trimSaved*saved-trimGain*(above-saved*all)/burst, trimMost))
}

// How far the price is adjusted: the range of its logarithm over a whole bucket, its bound, and its range over the savings.
const trimGain, trimMost, trimSaved = 4, 4, 2
