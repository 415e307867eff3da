package fresh_test

import (
	"math"
	"math/rand/v2"
	"strconv"
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

// The three readings of a limit give the intervals that follow from known rates, and one in proportion to it for small limits.
func TestOutdatedOfKnownRates(t *testing.T) {
	rates := fresh.Rates()
	known := []int{13, 15, 18, 20} // of the rates
	for _, limit := range []float64{.02, .1, .5} {
		sum, fastest := 0., 0.
		for _, k := range known {
			sum += rates[k]
			fastest = max(fastest, rates[k])
		}
		mean := 0. // the interval at which the mean probability is the limit, by bisection
		for step := 100.; step > 1e-9; step /= 2 {
			outdated := 0.
			for _, k := range known {
				outdated -= math.Expm1(-rates[k]*(mean+step)) / float64(len(known))
			}
			if outdated < limit {
				mean += step
			}
		}
		for text, want := range map[string]float64{"any=": -math.Log1p(-limit) / sum, "fastest=": -math.Log1p(-limit) / fastest, "mean=": mean, "": mean} {
			o, err := fresh.ParseOutdated(text + strconv.FormatFloat(limit, 'g', -1, 64))
			if err != nil {
				t.Fatal(err)
			}
			pass := fresh.Planning{Outdated: o, Budget: 1, Pages: len(known)}
			site := pass.Site(fresh.SiteTerms{Manifest: true})
			for _, k := range known {
				p := oneOfTwo(.5, k, k)
				p.Listed = true
				site.Add(p, epoch)
			}
			if got := site.Every(pass.Plan().Price); math.Abs(got/want-1) > .01 {
				t.Errorf("%s%g: every %.4f days, want %.4f", text, limit, got, want)
			}
		}
	}
	for _, text := range []string{"0", "1", "-.1", "NaN", "all=.1", "any", "any=", "=.1", "any=.1,mean=.1"} {
		if o, err := fresh.ParseOutdated(text); err == nil {
			t.Errorf("%q is read as %+v", text, o)
		}
	}
}
