package fresh_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// visited returns a history of visits at equal intervals, some of which found a change.
func visited(rng *rand.Rand, now time.Time) (h fresh.History) {
	visits, every := 1+rng.IntN(20), time.Duration(1+rng.IntN(200))*time.Hour
	at := now.Add(-time.Duration(visits) * every)
	share := rng.Float64()
	for range visits {
		h = h.Visit(at, rng.Float64() < share, time.Time{})
		at = at.Add(every)
	}
	return h
}

// Whatever a site announces, a page gets at least a tenth of the visits that it would get if its site announced
// nothing, with the same history and at the same price: a year of silence does not prevent audits.
func TestAuditShareIsATenth(t *testing.T) {
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	rng := rand.New(rand.NewPCG(5, 7))
	listens := fresh.Site{Manifest: fresh.Manifest{Recall: .99, Planned: true, Read: now}}
	pushes := fresh.Site{Tells: true}
	for range 50 {
		pushes.Signal.Judged(true)
		pushes.Signal.Found(true)
	}
	for n := range 300 {
		p := fresh.Priced{Objective: fresh.Objective{Harmonic: 1}, Price: math.Exp(rng.Float64()*12 - 9), Eager: true, Audit: .1}
		h := visited(rng, now)
		silent := fresh.Page{History: h, Importance: .1 + rng.Float64(), Site: &fresh.Site{}}
		alone := p.Next(&silent, now).Sub(h.Last)
		for name, site := range map[string]*fresh.Site{"pushes": &pushes, "listens": &listens} {
			said := silent
			said.Site, said.Listed = site, true
			said.History = h.Silence(h.Last.Add(365*24*time.Hour), .99)
			if wait := p.Next(&said, now).Sub(h.Last); float64(wait) > 11*float64(alone)+float64(time.Minute) {
				t.Errorf("page %d of a site that %s: visited after %v, but after %v if its site announces nothing", n, name, wait, alone)
			}
		}
	}
}

// Audits of sites that announce all their changes are planned: they use the whole budget if nothing else
// needs it.
func TestAuditsUseTheWholeBudget(t *testing.T) {
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	rng := rand.New(rand.NewPCG(5, 8))
	site := fresh.Site{Tells: true}
	for range 50 {
		site.Signal.Judged(true)
		site.Signal.Found(true)
	}
	const budget = 20
	policy := fresh.Priced{Objective: fresh.Objective{Harmonic: 1}, Eager: true, Audit: .1}
	pass := fresh.Planning{Priced: policy, Budget: budget, Pages: 400, OutsideBudget: 1}
	s := pass.Site(fresh.SiteTerms{})
	var pages []fresh.Page
	for range 400 {
		p := fresh.Page{History: visited(rng, now), Importance: .1 + rng.Float64(), Site: &site}
		pages = append(pages, p)
		s.Add(&p, p.Last)
	}
	plan := pass.Plan()
	policy.Price, policy.Longest = plan.Price, plan.Longest
	spend := 0.
	for i := range pages {
		spend += 24 / policy.Next(&pages[i], now).Sub(pages[i].Last).Hours()
	}
	if spend < budget*.7 || spend > budget*1.4 || plan.OutsideBudget <= 0 {
		t.Errorf("%.1f visits a day to sites that announce changes, at the price planned for %d: %+v", spend, budget, plan)
	}
	t.Logf("%.1f a day: %+v", spend, plan)
}
