package fresh

import "math"

// A Bucket holds what may be spent, and trims the price that was planned by what is
// in it. A plan rests on beliefs, and is never quite right. A price that only follows the balance
// corrects an error after it was paid for. So the plan says what is worth it, and the bucket
// corrects that by a factor.
//
// It fills with the time, not above Burst; it may be overdrawn, since a body is
// as long as it is, and then earns until it is not. It is used by one goroutine.
type Bucket struct {
	Rate    float64 // what may be spent in a day
	Burst   float64 // the most that is saved up. 0 means what three days bring, and 32 at least
	Balance float64 // half of Burst is what to begin with
}

func (b *Bucket) burst() float64 {
	if burst := bounded(b.Burst, math.MaxFloat32); burst > 0 {
		return burst
	}
	return max(3*bounded(b.Rate, math.MaxFloat32), 32)
}

// Earn adds what so many days bring.
func (b *Bucket) Earn(days float64) {
	b.Balance = b.balance() + bounded(b.Rate, math.MaxFloat32)*bounded(days, oldest)
	b.Balance = b.balance()
}

// balance is Balance as it counts: between a full bucket and an empty one that owes as much as ten.
func (b *Bucket) balance() float64 {
	if burst := b.burst(); b.Balance > -10*burst {
		return min(b.Balance, burst)
	} else {
		return -10 * burst
	}
}

// Spend takes out what something has cost.
func (b *Bucket) Spend(cost float64) {
	b.Balance = b.balance() - bounded(cost, math.MaxFloat32)
}

// Wait is in how many days so much may be spent: 0 if now, and as soon as it is full for what is more
// than it holds; +Inf if nothing comes in.
func (b *Bucket) Wait(cost float64) float64 {
	missing := min(bounded(cost, math.MaxFloat32), b.burst()) - b.balance()
	switch {
	case missing <= 0:
		return 0
	case !(b.Rate > 0):
		return math.Inf(1)
	}
	return missing / b.Rate
}

// Factor is by what the planned price is multiplied: 1 if the bucket is half full, 1/e² if it is
// full, e² if it is empty, and e⁴ at most, if it owes half of what it holds. What is spent falls
// about with the root of the price, so that a plan that is wrong by a factor of two settles at a
// third of the bucket from its middle.
func (b *Bucket) Factor() float64 {
	burst := b.burst()
	return math.Exp(min(max(trimGain*(burst/2-b.balance())/burst, -trimMost), trimMost))
}

// By how much the price is trimmed: its logarithm for a whole bucket, and at most.
const trimGain, trimMost = 4, 4
