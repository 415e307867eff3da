package sim_test

import (
	"math"
	"testing"

	"github.com/parleyweb/parley/internal/sim"
)

// TestOutdatedAsOftenAsAllowed: at a poll of a manifest, what its reading speaks of is outdated as often as the limit says, within two
// percentage points, though the rates are learned. The other two are not.
func TestOutdatedAsOftenAsAllowed(t *testing.T) {
	long(t)
	w := world(gamma, 300, 10).All(sim.Site{Manifest: true})
	budgets := map[string]float64{"any": 1.5, "mean": .3, "fastest": .6} // enough for all polls
	for _, limit := range []float64{.1, .3} {
		for reading, budget := range budgets {
			policy := sim.MustPolicy("outdated-" + reading)
			policy.Outdated.Limit = limit
			run := sim.Run{World: w, Policy: policy, Budget: budget, Days: 110, From: 50, Seed: 3}
			count := run.CountOutdated()
			got := simulate(t, run)
			any, mean, fastest := count.Of("any"), count.Of("mean"), count.Of("fastest")
			t.Logf("%s=%g: any %.3f, mean %.3f, fastest %.3f; %.2f polls of a site a day, freshness %.3f", reading, limit, any, mean, fastest, got.Polls*30, got.Fresh)
			if math.Abs(count.Of(reading)-limit) > .02 {
				t.Errorf("%s=%g: it was so at %.3f of the polls", reading, limit, count.Of(reading))
			}
			if !(mean < fastest && fastest < any) {
				t.Errorf("%s=%g: any %.3f, mean %.3f, fastest %.3f", reading, limit, any, mean, fastest)
			}
		}
	}
}
