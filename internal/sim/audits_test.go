package sim_test

import (
	"context"
	"os"
	"strconv"
	"testing"

	"github.com/parleyweb/parley/internal/sim"
)

// Whatever a site says, or stops saying: its copies are as current as those of a crawler that never heard it, from one round of visits after its
// word went bad. PARLEY_SILENCES is the number of random worlds.
func TestSilenceIsFoundOut(t *testing.T) {
	long(t)
	worlds, _ := strconv.Atoi(os.Getenv("PARLEY_SILENCES"))
	policies := []string{"freshness-eager", "harmonic", "freshness-eager", "freshness"}
	for seed := range uint64(max(worlds, 4)) {
		const budget, fallsSilent = .2, 40
		web := sim.Web{Pages: 300, Sites: 1, Seed: seed + 1}
		site := sim.Site{Push: seed%4 < 3, Manifest: seed%4 == 3}
		name := "whole site"
		for d := range site.Unsaid {
			site.Unsaid[d] = fallsSilent
			if seed%4 == 2 {
				name = "one directory"
				break
			}
		}
		score := func(policy string, site sim.Site) float64 {
			run := sim.Run{World: web.World().All(site), Policy: sim.MustPolicy(policy), Budget: budget, Days: fallsSilent + 5/budget, From: fallsSilent + 1/budget, Seed: seed,
				Of: func(page int) bool { return site.Unsaid[page%len(site.Unsaid)] > 0 }}
			r, err := sim.Simulate(context.Background(), run)
			if err != nil {
				t.Fatal(err)
			}
			return r.Fresh
		}
		deaf := score("freshness-deaf", site)
		if got := score(policies[seed%4], site); got < .98*deaf {
			t.Errorf("seed %d, %s, %s: freshness %.4f after it fell silent, %.4f by polling alone", seed, policies[seed%4], name, got, deaf)
		} else {
			t.Logf("seed %d, %s, %s: freshness %.4f after it fell silent, %.4f by polling alone", seed, policies[seed%4], name, got, deaf)
		}
	}
}

// A site that also announces trifling changes of every page gets few more visits than if it were silent: most announcements turn out
// to be worth no visit.
func TestTriflesBuyNoVisits(t *testing.T) {
	web := sim.Web{Pages: 200, Sites: 1, Seed: 1}
	visits := func(policy string, site sim.Site) (found, all int) {
		_, err := sim.Simulate(context.Background(), sim.Run{World: web.World().All(site), Policy: sim.MustPolicy(policy), Budget: .1, Days: 25, Seed: 1, Watch: func(x sim.Event) {
			if x.Kind == sim.Visited {
				all++
			}
			if x.Trifling {
				found++
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		return found, all
	}
	_, silent := visits("harmonic", sim.Site{})
	for _, c := range []struct {
		policy string
		site   sim.Site
	}{{"harmonic-eager", sim.Site{Push: true}}, {"harmonic", sim.Site{Push: true}}, {"harmonic", sim.Site{Manifest: true}}} {
		c.site.Flood, c.site.Trifling = 4, true
		found, all := visits(c.policy, c.site)
		t.Logf("%s: %d visits, %d of them for trifles; %d if it is silent", c.policy, all, found, silent)
		if float64(found) > 1.2*float64(silent)+20 || found < silent/4 {
			t.Errorf("%s: %d visits for trifles, %d if the site is silent", c.policy, found, silent)
		}
	}
}
