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
			seeds := 1
			if reading == "fastest" { // one page of a site: with one seed the standard error is .018
				seeds = 6
			}
			of := 0.
			for seed := range seeds {
				run := sim.Run{World: w, Policy: policy, Budget: budget, Days: 110, From: 50, Seed: uint64(seed + 1)}
				count := run.CountOutdated()
				got := simulate(t, run)
				any, mean, fastest := count.Of("any"), count.Of("mean"), count.Of("fastest")
				t.Logf("%s=%g: any %.3f, mean %.3f, fastest %.3f; %.2f polls of a site a day, freshness %.3f", reading, limit, any, mean, fastest, got.Polls*30, got.Fresh)
				if !(mean < fastest && fastest < any) {
					t.Errorf("%s=%g: any %.3f, mean %.3f, fastest %.3f", reading, limit, any, mean, fastest)
				}
				of += count.Of(reading) / float64(seeds)
			}
			if math.Abs(of-limit) > .02 {
				t.Errorf("%s=%g: it was so at %.3f of the polls", reading, limit, of)
			}
		}
	}
}

// TestManifestsPolledByFeedRules: a manifest may be polled by the rules for feeds. Training polls at its own times, the posting rate
// when one change is expected, and subscribers count as more changes.
func TestManifestsPolledByFeedRules(t *testing.T) {
	w := world(gamma, 90, 3).All(sim.Site{Manifest: true})
	important := make([]float64, len(w.Sites))
	for _, p := range w.Pages {
		important[p.Site] += p.Weight
	}
	const days, from = 120, 60
	plain := make([]float64, len(w.Sites)) // polls by posting rate
	for _, name := range []string{"manifest-daily", "manifest-training", "manifest-posting-rate", "manifest-subscribers"} {
		polls, last := make([]float64, len(w.Sites)), make([]float64, len(w.Sites))
		shortest, longest := math.Inf(1), 0.
		run := sim.Run{World: w, Policy: sim.MustPolicy(name), Budget: 1, Days: days, From: from, Seed: 2, Watch: func(e sim.Event) {
			if e.Kind != sim.Polled {
				return
			}
			if e.At >= from {
				polls[e.Site]++
				shortest, longest = min(shortest, e.At-last[e.Site]), max(longest, e.At-last[e.Site])
			}
			last[e.Site] = e.At
		}}
		count := run.CountOutdated()
		got := simulate(t, run)
		minutes := func(x float64) float64 { return 24 * 60 * x }
		t.Logf("%s: %v polls, %.0f to %.0f minutes apart, any page outdated at %.2f; freshness %.3f", name, polls, minutes(shortest), minutes(longest), count.Of("any"), got.Fresh)
		for s, n := range polls {
			changes := 0.
			for _, p := range w.Pages {
				if p.Site == s {
					changes += p.Rate * (days - from)
				}
			}
			switch name {
			case "manifest-daily":
				if math.Abs(n-(days-from)) > 1 {
					t.Errorf("site %d: %v polls in %d days, want one a day", s, n, days-from)
				}
			case "manifest-posting-rate":
				if plain[s] = n; math.Abs(n/changes-1) > .25 { // what it has learned of the rate
					t.Errorf("site %d: %v polls, %.0f changes expected", s, n, changes)
				}
			case "manifest-subscribers": // 1 and the site's importance for each change
				if want := 1 + 3*important[s]; math.Abs(n/plain[s]/want-1) > .2 {
					t.Errorf("site %d of importance %.2f: %v polls, %v without subscribers, want %.2f times as many", s, important[s], n, plain[s], want)
				}
			}
		}
		if name == "manifest-training" && (minutes(shortest) < 9.9 || minutes(longest) > 801) {
			t.Errorf("polls of training are %.1f to %.1f minutes apart, want 10 to 800", minutes(shortest), minutes(longest))
		}
	}
}
