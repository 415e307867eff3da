package fresh

import "math"

// A Demand is what a crawler would spend in a day at each price, for others that have a budget in common with it.
type Demand struct {
	Budget float64         `json:"budget"` // that it brings, in a day
	Base   float64         `json:"base"`   // spent at any price
	Bins   [prices]float32 `json:"bins"`   // spent besides, at the lowest price first
	Left   Bucket          `json:"left"`   // what is unspent; its Rate says nothing
}

// A Market is where crawlers that have a budget in common tell each other what they would spend. It is safe for concurrent use.
type Market interface {
	Bid(own Demand) // in place of what this crawler has bid before
	Others() Demand // the sum of what the others have bid
}

// Add adds the demand of another crawler. Of one that is not possible, nothing counts.
func (d *Demand) Add(other *Demand) {
	sum := other.Base
	for _, x := range other.Bins {
		if x < 0 {
			return
		}
		sum += float64(x)
	}
	const most = 1e15
	left := &other.Left
	if !(other.Budget >= 0 && other.Base >= 0 && other.Budget+sum < most && left.Burst >= 0 && left.Savings >= 0 && left.Burst+left.Savings+math.Abs(left.Balance) < most) {
		return
	}
	d.Budget += other.Budget
	d.Base += other.Base
	d.Left.Burst += left.Burst
	d.Left.Savings += left.Savings
	d.Left.Balance += left.Balance
	for i, x := range other.Bins {
		d.Bins[i] += x
	}
}

// told returns what others may know of a demand.
func (d *demand) told(budget float64) (t Demand) {
	t.Budget, t.Base = budget, d.base.spend
	for b := d.first; b <= d.last; b++ {
		t.Bins[b] = float32(d.bins[b].spend)
	}
	return t
}
