package fresh_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// gamma is a web of known rates: mean 0.1 a day, of shape 1/2, importance by Zipf's law, 100 sites
// whose sizes are by that law, too.
func gamma(n int, rng *rand.Rand) (sites [][]*fresh.Page) {
	sites = make([][]*fresh.Page, 100)
	ends, sum := make([]float64, len(sites)), 0.
	for i := range ends {
		sum += 1 / float64(i+1)
		ends[i] = sum
	}
	total := math.Log(float64(n)) + 0.5772
	priors := map[int]*fresh.Site{}
	for i := range n {
		z := rng.NormFloat64()
		at := min(max(0, math.Log(z*z/10/1e-4)/step), fresh.Points-2) // place on the grid of rates
		key := int(at * 8)                                            // a rate between two is both in part
		if priors[key] == nil {
			k, part := key/8, (math.Exp(step*float64(key%8)/8)-1)/(math.Exp(step)-1)
			priors[key] = &fresh.Site{}
			priors[key].Prior[k], priors[key].Prior[k+1] = float32(1-part), float32(part)
		}
		p := &fresh.Page{History: fresh.History{Visits: 1, First: epoch, Last: epoch}, Importance: 1 / float64(i+1) / total, Site: priors[key], Listed: true}
		x, s := rng.Float64()*sum, 0
		for ends[s] < x {
			s++
		}
		sites[s] = append(sites[s], p)
	}
	return sites
}

// The tables of section 2 of the reference, which were computed at known rates by other
// programs: what a plan expects is what is possible. Nobody is believed to tell of all, so that
// notices are worth a little less than there. One web differs from another by a point, by what its most
// important page is like; the mean over five is within 0.003 of the tables for
// polls and manifests.
func TestPlanMatchesReferenceTables(t *testing.T) {
	const pages = 10_000
	sites := gamma(pages, rand.New(rand.NewPCG(1, 61)))
	var honest fresh.Signal
	for range 5000 {
		honest.Judged(true)
		honest.Found(true)
	}
	for _, c := range []struct {
		name      string
		objective fresh.Objective
		manifest  bool
		tells     bool
		fresh     []float64 // at 0.05, 0.1, 0.2 and 0.5 requests a page and day
		age       []float64
	}{
		{"polls, Fresh", fresh.Objective{Fresh: 1}, false, false, []float64{.862, .909, .946, .976}, nil},
		{"polls, Harmonic", fresh.Objective{}, false, false, []float64{.851, .906, .946, .976}, []float64{1.1, .33, .09, .02}},
		{"polls, Age", fresh.Objective{Age: 1}, false, false, []float64{.822, .890, .937, .972}, []float64{.78, .23, .07, .01}},
		{"manifests", fresh.Objective{Fresh: 1}, true, false, []float64{.942, .982, .997, .999}, nil},
		{"notices", fresh.Objective{Fresh: 1}, false, true, []float64{.974, 1, 1, 1}, nil},
	} {
		for i, budget := range []float64{0.05, 0.1, 0.2, 0.5} {
			pl := fresh.NewPlanner(fresh.Priced{Objective: c.objective, Longest: 36500 * day}, budget*pages)
			for _, list := range sites {
				site := pl.Site(fresh.SiteTerms{Manifest: c.manifest})
				for _, p := range list {
					p.Site.Tells, p.Site.Signal = c.tells, fresh.Signal{}
					if c.tells {
						p.Site.Signal = honest
					}
					site.Add(p)
				}
				site.Close()
			}
			plan := pl.Plan()
			t.Logf("%s, budget %v: fresh %.4f (table %v), age %.3f", c.name, budget, plan.Freshness, c.fresh[i], plan.Age)
			if math.Abs(plan.Freshness-c.fresh[i]) > 0.015 || c.age != nil && math.Abs(plan.Age-c.age[i]) > 0.1*c.age[i]+0.006 {
				t.Errorf("%s, budget %v: %+v", c.name, budget, plan)
			}
		}
	}
}
