package fresh

import (
	"cmp"
	"math"
)

// A Bucket holds the unspent budget, and adjusts the planned price by its balance. A plan rests on beliefs
// and is never exact; a price that follows only the balance corrects an error after paying for it. So the
// plan sets the price, and the bucket corrects it by a factor.
//
// It fills over time, up to Burst, and up to Savings more: what a quiet time leaves pays for announced changes, which may come
// many at once. It may be overdrawn, since the length of a body is not known before, and
// then nothing is spent until it is refilled. It is used by one goroutine.
type Bucket struct {
	Rate    float64 // budget of a day
	Burst   float64 // capacity. 0 means that of the function Burst
	Savings float64 // further capacity, as in Plan
	Balance float64 // begin with half of Burst
}

func (b *Bucket) burst() float64 {
	return cmp.Or(finite(b.Burst), Burst(finite(b.Rate)))
}

// Burst is how much of a budget can be saved up: that of three days, and 32 at least. With less, the price swings.
func Burst(day float64) float64 { return max(3*day, 32) }

// Earn adds the budget of so many days.
func (b *Bucket) Earn(days float64) {
	b.Balance = b.balance()
	if most := b.burst() + finite(b.Savings); b.Balance < most {
		b.Balance = min(b.Balance+finite(b.Rate)*bounded(days, oldest), most)
	}
}

// balance is Balance, with a debt limited to ten times Burst.
func (b *Bucket) balance() float64 {
	if burst := b.burst(); b.Balance > -10*burst {
		return min(b.Balance, math.MaxFloat32) // it may be more than fits since Savings became less
	} else {
		return -10 * burst
	}
}

// Spend deducts a cost.
func (b *Bucket) Spend(cost float64) {
	b.Balance = b.balance() - finite(cost)
}

// Pool makes the bucket one of several that hold a common budget: its Savings a share of those of all, and its balance, within half a day or so,
// a share of that of all. Days have passed since it was pooled last. Each crawler does so by itself, by what the others have told.
func (b *Bucket) Pool(others *Bucket, days float64) {
	burst := b.burst()
	share := burst / (burst + others.Burst)
	b.Savings = share * (finite(b.Savings) + others.Savings)
	b.Balance += (share*(b.balance()+others.Balance) - b.balance()) * -math.Expm1(-bounded(days, oldest)/poolDays)
}

const poolDays = .5

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

// Factors are the multipliers of the planned price of visits, and of those to pages that a source says have changed. The first is 1 if
// the balance is half of Burst, e² if it is 0, and e⁴ at most, when the debt is half of Burst. Without Savings it falls by e² if the balance is Burst.
// With Savings it falls by e over their first tenth: most are kept for announced changes, and a source that falls silent is soon found out by
// what it saves. Above Burst and Savings it falls on, to 1/e⁴: sources that are not believed any more leave more than there is to save for. The second
// multiplier is the same up to a balance of Burst, where one price for all is best, and falls by e² over half of Burst above that: no announced change
// waits while there are savings. Spending falls about with the root of the price, so a plan that is wrong by a factor of two, without
// Savings, settles at a third of Burst from its middle.
func (b *Bucket) Factors() (all, announced float64) {
	burst, savings := b.burst(), finite(b.Savings)
	above := b.balance() - burst/2
	saved := min(max(0, above), savings)
	fall := trimGain * (above - saved) / burst
	if saved > 0 {
		fall += min(1, 10*saved/savings)
	}
	fall = min(max(fall, -trimMost), trimMost)
	fast := min(trimGain*(above-burst/2)/burst, trimGain/2)
	return math.Exp(-fall), math.Exp(-max(fall, fast))
}

// How far the price is adjusted: the range of its logarithm over Burst, and its bound.
const trimGain, trimMost = 4, 4
