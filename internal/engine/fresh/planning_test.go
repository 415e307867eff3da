package fresh_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// One pass has the same result as a planner, a pool for each site and its demand by themselves.
func TestPlanningEqualsPlanner(t *testing.T) {
	rng := rand.New(rand.NewPCG(61, 62))
	pages := visitedPages(300, rng)
	policy := fresh.Priced{Objective: fresh.Objective{Fresh: 1}}
	listed := fresh.SiteTerms{Manifest: true, Precision: .9}
	pass := fresh.Planning{Priced: policy, Budget: 30, Pages: len(pages)}
	alone, pl := [2]*fresh.SitePlanning{pass.Site(fresh.SiteTerms{}), pass.Site(listed)}, fresh.NewPlanner(fresh.Priced{Objective: policy.Objective, Longest: 500 * day}, 30)
	demand := pl.Site(listed)
	var pools [2]fresh.Pool
	for i, p := range pages {
		alone[i%2].Add(p, p.Last)
		pools[i%2].Add(p)
		if i%2 == 0 {
			pl.Add(p)
		} else {
			demand.Add(p)
		}
	}
	curve := demand.Close()
	alone[1].Close()
	want, got := pl.Plan(), pass.Plan()
	if got != want {
		t.Errorf("%+v, but step by step %+v", got, want)
	}
	if every := alone[1].Every(got.Price); every != curve.Every(want.Price) || every > 100 {
		t.Errorf("the manifest every %v days", every)
	}
	if often, seldom := alone[1].Every(want.Price/4), alone[1].Every(want.Price*4); !(often < curve.Every(want.Price)) || !(seldom > curve.Every(want.Price)) {
		t.Errorf("the manifest every %v days at a quarter of the price, and every %v at four times as much", often, seldom)
	}
	if every := alone[0].Every(got.Price); !math.IsInf(every, 1) {
		t.Errorf("poll every %v days of a manifest that does not exist", every)
	}
	var all fresh.Pool
	all.Merge(&pools[0])
	all.Merge(&pools[1])
	web := all.Prior(fresh.Prior{}, 20)
	for i, s := range alone {
		if s.Prior() != pools[i].Prior(web, 20) {
			t.Errorf("site %d: a different prior", i)
		}
	}
}

// However small the budget is, visits that are made at any price are at most a fiftieth of it,
// and what is set is the least.
func TestForcedVisitsAreBounded(t *testing.T) {
	for budget, want := range map[float64]time.Duration{10: 500 * day, 1: 5000 * day, 1000: 90 * day, 0: 90 * day} {
		pass := fresh.Planning{Budget: budget, Pages: 100}
		site := pass.Site(fresh.SiteTerms{})
		for _, p := range visitedPages(100, rand.New(rand.NewPCG(63, 64))) {
			site.Add(p, p.Last)
		}
		if plan := pass.Plan(); plan.Longest != want || budget > 0 && budget < 1000 && plan.Fallback > budget/49 {
			t.Errorf("budget %v: %+v, want %v at most", budget, plan, want)
		}
	}
}

// Fetches outside the budget, made as soon as a page changes, use none of it, if the site has been right.
func TestPlanningWithFetchesOutsideBudget(t *testing.T) {
	plan := func(eager bool, right float32) fresh.Plan {
		pass := fresh.Planning{Priced: fresh.Priced{Eager: eager}, Budget: 20, Pages: 400}
		site := &fresh.Site{Tells: true, Signal: fresh.Signal{Right: right, Wrong: 60 - right, Heard: 50}}
		for i, p := range visitedPages(400, rand.New(rand.NewPCG(65, 66))) {
			if i%2 == 0 {
				p.Site = site
			}
			pass.Site(fresh.SiteTerms{}).Add(p, p.Last)
		}
		return pass.Plan()
	}
	obliging, frugal, fooled := plan(true, 60), plan(false, 60), plan(true, 0)
	if !(obliging.Price < frugal.Price && obliging.Freshness > frugal.Freshness && obliging.Pages == 200) {
		t.Errorf("outside the budget %+v, within it %+v", obliging, frugal)
	}
	if fooled != plan(false, 0) || fooled.Pages != 400 {
		t.Errorf("a liar's pages: %+v", fooled)
	}
}

// A page that is never fetched again is a year old and no more, however long the plan looks ahead.
func TestPlannedAgeIsBounded(t *testing.T) {
	for _, o := range objectives {
		pl := fresh.NewPlanner(fresh.Priced{Objective: o, Longest: 100 * 365 * day}, 1e-6)
		for _, p := range visitedPages(100, rand.New(rand.NewPCG(67, 68))) {
			pl.Add(p)
		}
		if plan := pl.Plan(); !(plan.Age > 100 && plan.Age < 366) {
			t.Errorf("%+v: %+v", o, plan)
		}
	}
}

// A manifest is fetched no more often than a page, and one that omits a few changes is no worse than none:
// the omitted ones are found by visits.
func TestManifestThatOmitsChanges(t *testing.T) {
	pages := visitedPages(300, rand.New(rand.NewPCG(69, 70)))
	plan := func(terms fresh.SiteTerms, budget float64) (fresh.Plan, float64) {
		pass := fresh.Planning{Priced: fresh.Priced{Objective: fresh.Objective{Fresh: 1}, Shortest: time.Hour}, Budget: budget, Pages: len(pages)}
		site := pass.Site(terms)
		for _, p := range pages {
			site.Add(p, p.Last)
		}
		plan := pass.Plan()
		return plan, site.Every(plan.Price)
	}
	for _, budget := range []float64{3, 15, 60, 1e6} {
		polls, _ := plan(fresh.SiteTerms{}, budget)
		before := polls.Freshness - 1e-9
		for _, recall := range []float64{.3, .9, .97, .99, 1} {
			got, every := plan(fresh.SiteTerms{Manifest: true, Recall: recall}, budget)
			if got.Freshness < before-2e-3 {
				t.Errorf("budget %v, recall %v: freshness %v, with a smaller budget or recall %v", budget, recall, got.Freshness, before)
			}
			if every < 1./24 {
				t.Errorf("budget %v, recall %v: every %v days", budget, recall, every)
			}
			if budget < 1e3 && recall > .95 && math.IsInf(every, 1) {
				t.Errorf("budget %v, recall %v: the manifest is not polled", budget, recall)
			}
			before = got.Freshness
		}
	}
}

// A poll of a manifest in parts costs two requests, and no entries of unchanged pages: of a big site it is the cheaper
// one, and of a small site the dearer.
func TestManifestInPartsHasItsPrice(t *testing.T) {
	for _, c := range []struct {
		pages int
		costs fresh.Costs
		whole float64 // cost of the whole manifest
		parts float64
	}{
		{2000, fresh.Costs{Header: 1, Body: 10, Manifest: 1, Entry: .01}, 21, 2},
		{50, fresh.Costs{Header: 1, Body: 10, Manifest: 1, Entry: .01}, 1.5, 2},
	} {
		every := func(costs fresh.Costs, parted bool) float64 {
			pass := fresh.Planning{Priced: fresh.Priced{Objective: fresh.Objective{Fresh: 1}, Costs: costs, Shortest: time.Hour}, Budget: float64(c.pages) / 10, Pages: c.pages}
			site := pass.Site(fresh.SiteTerms{Manifest: true, Parted: parted})
			for _, p := range visitedPages(c.pages, rand.New(rand.NewPCG(69, 70))) {
				site.Add(p, time.Time{})
			}
			return site.Every(pass.Plan().Price)
		}
		at := func(cost float64) fresh.Costs { return fresh.Costs{Header: 1, Body: 10, Manifest: cost} }
		whole, parts := every(c.costs, false), every(c.costs, true)
		if want := every(at(c.whole), false); math.Abs(whole-want) > want/1e6 {
			t.Errorf("%d pages, one file: polled every %v days, want %v", c.pages, whole, want)
		}
		if want := every(at(c.parts), false); math.Abs(parts-want) > want/1e6 || parts < whole != (c.parts < c.whole) {
			t.Errorf("%d pages, in parts: polled every %v days, want %v; in one file %v", c.pages, parts, want, whole)
		}
	}
}

// An unknown site is assumed to be like the others; a well-known one is treated by its own record.
func TestManifestQualityPrior(t *testing.T) {
	var none, liars fresh.Manifests
	for range 30 {
		liars.Add(&fresh.Signal{Right: 1, Wrong: 30, Heard: 10, Missed: 10})
	}
	unknown, honest := &fresh.Site{}, &fresh.Site{Signal: fresh.Signal{Right: 200, Heard: 200}}
	if p, r := none.Precision(&unknown.Signal), none.Recall(unknown); !about(p, .95, 1e-9) || !about(r, .95, 1e-9) {
		t.Errorf("of none: precision %v, recall %v", p, r)
	}
	if p, r := liars.Precision(&unknown.Signal), liars.Recall(unknown); p > .1 || r > .6 {
		t.Errorf("among liars: precision %v, recall %v", p, r)
	}
	if p, r := liars.Precision(&honest.Signal), liars.Recall(honest); p < .9 || r < .9 {
		t.Errorf("an honest one among them: precision %v, recall %v", p, r)
	}
	if r := none.Recall(&fresh.Site{Signal: fresh.Signal{Heard: 1e9}}); r > .999 {
		t.Errorf("recall %v", r)
	}
}

// What is learned about a manifest that lists a share of the changes: its silence is worth that much, and
// visits are made for the omitted ones.
func TestManifestQualityIsLearned(t *testing.T) {
	for _, tells := range []float64{.6, 1} {
		rng := rand.New(rand.NewPCG(71, 72))
		const perDay = .5
		var manifests fresh.Manifests
		site := fresh.Site{Manifest: fresh.Manifest{Read: epoch, Recall: .95, Planned: true}}
		pages, wrong := make([]fresh.Page, 40), make([]bool, 40)
		for i := range pages {
			pages[i] = fresh.Page{History: fresh.History{}.Visit(epoch, false, time.Time{}), Importance: 1, Site: &site, Listed: true}
		}
		var mean float64
		for today := 1; today <= 120; today++ {
			now := epoch.Add(time.Duration(today) * day)
			for i := range pages {
				p, changed, told := &pages[i], rng.Float64() < -math.Expm1(-perDay), false
				if wrong[i] = wrong[i] || changed; changed {
					told = rng.Float64() < tells
				}
				if p.Listen(); told {
					p.History = p.Notice(now, now.Add(-day/2), .95, 0)
				} else if (today+i)%3 != 0 { // others are visited every three days
					continue
				}
				site.Manifest.Read = now
				p.Listen()
				if manifests.Visited(&site, p, now, wrong[i]) {
					manifests.Missed(&site) // the next one has it no more than this one
				}
				p.History = p.Visit(now, wrong[i], time.Time{})
				wrong[i], site.Manifest.Read = false, now.Add(-day)
			}
			site.Manifest.Read = now
		}
		for i := range pages {
			post := pages[i].Posterior()
			mean += post.Mean() / float64(len(pages))
		}
		// Of several changes that are found at once all but one are ignored.
		if recall := site.Manifest.Recall; math.Abs(recall-tells) > .1 || !about(mean, perDay, .2) {
			t.Errorf("a manifest with the share %v of the changes is estimated at %v, and pages that change %v times a day at %v", tells, recall, perDay, mean)
		}
		alone, p := fresh.Priced{Price: .1}, pages[0]
		own := p
		own.Listed = false
		if with, without := alone.Next(&p, p.Last).Sub(p.Last), alone.Next(&own, p.Last).Sub(p.Last); with < without*5/4 || tells == 1 && with < 5*without {
			t.Errorf("with the share %v of the changes announced a page is visited after %v, with none after %v", tells, with, without)
		}
	}
}

// Of very many pages some stand for the others: price, spending and freshness are those of all, within a hundredth.
func TestSomePagesStandForAll(t *testing.T) {
	pages := visitedPages(20_000, rand.New(rand.NewPCG(63, 64)))
	plan := func(times int) fresh.Plan {
		pass := fresh.Planning{Priced: fresh.Priced{Objective: fresh.Objective{Fresh: 1}, Longest: 100 * 365 * day}, Budget: 2000 * float64(times)}
		site := pass.Site(fresh.SiteTerms{})
		for range times {
			for _, p := range pages {
				site.Add(p, p.Last)
			}
		}
		return pass.Plan()
	}
	const times = 15
	all, some := plan(1), plan(times)
	if all.Freshness == some.Freshness || some.Pages != times*len(pages) {
		t.Errorf("%+v by all pages, and the same by a part of them", all)
	}
	for name, x := range map[string][2]float64{"price": {all.Price, some.Price}, "spend": {all.Spend, some.Spend / times},
		"requests": {all.Requests, some.Requests / times}, "freshness": {all.Freshness, some.Freshness}} {
		if math.Abs(x[1]/x[0]-1) > .01 {
			t.Errorf("%s: %v by all pages, %v by a part of them", name, x[0], x[1])
		}
	}
}

// What a policy affords is the price at which it visits a page at that time: at nine tenths of it sooner, at a tenth more later.
func TestAffords(t *testing.T) {
	for i, p := range visitedPages(200, rand.New(rand.NewPCG(65, 66))) {
		p.Site = &fresh.Site{Tells: i%2 == 0, Signal: fresh.Signal{Right: 20, Heard: 20, Missed: 2}}
		policy := fresh.Priced{Objective: fresh.Objective{Fresh: 1}, Longest: 100 * 365 * day, Shortest: 1, Audit: .1}
		at := p.Last.Add(time.Duration(1+i%50) * day)
		price := policy.Affords(p, at)
		for _, c := range []struct {
			share float64
			later bool
		}{{.9, false}, {1.1, true}} {
			if policy.Price = c.share * price; policy.Next(p, at).After(at) != c.later {
				t.Errorf("page %d: affords a visit at a price of %v, and at %v times that it is visited %v after then", i, price, c.share, policy.Next(p, at).Sub(at))
			}
		}
	}
}

// The silence of a site that pushes counts from the day on which it lasts, and not from its next notice on: pages that have not
// changed for a year leave more of the budget to others than on the day of their last visit.
func TestSilenceCountsBeforeTheNextNotice(t *testing.T) {
	price := func(tells bool, later time.Duration) float64 {
		pass := fresh.Planning{Priced: fresh.Priced{Objective: fresh.Objective{Fresh: 1}}, Budget: 2, Pages: 300}
		site := &fresh.Site{Tells: tells, Signal: fresh.Signal{Right: 60, Heard: 50, Due: 50}}
		pushing, silent := pass.Site(fresh.SiteTerms{}), pass.Site(fresh.SiteTerms{})
		for i, p := range visitedPages(300, rand.New(rand.NewPCG(67, 68))) {
			if i%2 == 0 {
				p.Site = site
				pushing.Add(p, p.Last.Add(later))
			} else {
				silent.Add(p, p.Last.Add(later))
			}
		}
		return pass.Plan().Price
	}
	if before, after := price(true, 0), price(true, 365*day); !(after < .9*before) {
		t.Errorf("price %v after a year of silence, %v before", after, before)
	}
	if before, after := price(false, 0), price(false, 365*day); after != before {
		t.Errorf("price %v after a year without visits or notices, %v before", after, before)
	}
}
