package fresh_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// A crawler with the rule Uniform visits all pages at one interval, and one with Proportional each at an interval inverse to its
// expected rate: whatever their importance, length, and what their sites announce. Either spends its budget.
func TestRulesLeaveOutAllElse(t *testing.T) {
	rng := rand.New(rand.NewPCG(71, 72))
	pages := visitedPages(400, rng)
	announces := &fresh.Site{Tells: true, Manifest: fresh.Manifest{Recall: .9, Planned: true}}
	for range 50 {
		announces.Signal.Judged(true)
		announces.Signal.Found(true)
	}
	for i, p := range pages {
		p.Length = int64(rng.IntN(1e6))
		p.Belief.Quiet = min(p.Belief.Quiet, 300) // a page that never changed is not left alone for long enough, else
		if p.Listed = i%3 == 0; p.Listed {
			p.Site = announces
		}
	}
	for _, rule := range []fresh.Rule{fresh.Uniform, fresh.Proportional} {
		const budget = 40
		policy := fresh.Priced{Objective: fresh.Objective{Rule: rule}, Longest: 9000 * day}
		pass := fresh.Planning{Priced: policy, Budget: budget, Pages: len(pages)}
		sites := [2]*fresh.SitePlanning{pass.Site(fresh.SiteTerms{}), pass.Site(fresh.SiteTerms{Manifest: true})}
		for i, p := range pages {
			sites[i%2].Add(p, p.Last)
		}
		policy.Price = pass.Plan().Price
		visits, first := 0., 0.
		for i, p := range pages {
			every := policy.Next(p, p.Last).Sub(p.Last).Hours() / 24
			visits += 1 / every
			post := p.Posterior()
			if rule == fresh.Proportional && p.Site == nil { // of the others, visits alone count
				every *= post.Mean()
			} else if rule == fresh.Proportional {
				continue
			}
			if first == 0 {
				first = every
			}
			if math.Abs(every/first-1) > 1e-6 {
				t.Fatalf("%s: page %d of importance %g and rate %g: %g, the first one %g", rule, i, p.Importance, post.Mean(), every, first)
			}
		}
		if math.Abs(visits/budget-1) > .03 {
			t.Errorf("%s: %.1f visits a day, budget %d", rule, visits, budget)
		}
		if every := sites[1].Every(policy.Price); !math.IsInf(every, 1) {
			t.Errorf("%s: the manifest every %v days", rule, every)
		}
	}
}
