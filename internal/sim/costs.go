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
