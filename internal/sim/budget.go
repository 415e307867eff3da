package sim

import "github.com/parleyweb/parley/internal/engine/fresh"

// Costs are the prices of a crawler's actions, see package fresh.
type Costs = fresh.Costs

// priced returns costs with their default.
func priced(c Costs) Costs {
	if c == (Costs{}) {
		return Costs{Header: 1, Manifest: 1}
	}
	return c
}

// A budget is what a run may spend, and the costs of actions. The engine spends it; a rule whose price follows
// the balance reads it.
type budget struct {
	fresh.Bucket
	costs Costs
	until float64 // day up to which its budget is in the bucket
	unit  float64 // cost of one visit of a changed page
}

func newBudget(r *Run) *budget {
	b := &budget{costs: priced(r.Costs)}
	b.unit = b.costs.Header + b.costs.Body
	b.Rate = r.Budget * float64(len(r.World.Pages))
	b.Burst = fresh.Burst(b.Rate)
	b.Balance = b.Burst / 2 // at which the price is the planned one
	return b
}

// allows is the number of visits or polls that may be made at a time.
func (b *budget) allows(now float64) int {
	b.Earn(now - b.until)
	b.until = now
	return int(max(0, min(b.Balance/b.unit+1e-9, 1e6)))
}

// enough is the time at which one more is allowed.
func (b *budget) enough(now float64) float64 { return now + b.Wait(b.unit) }
