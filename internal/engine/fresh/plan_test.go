package fresh_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// visitedPages returns n pages that were visited for a while: rates from the gamma web, importance by Zipf's law.
func visitedPages(n int, rng *rand.Rand) []*fresh.Page {
	pages := make([]*fresh.Page, n)
	for i := range pages {
		p := &fresh.Page{Importance: 1 / float64(i+1) / math.Log(float64(n)), Listed: true}
		z := rng.NormFloat64()
		rate := z * z / 10
		p.Visits, p.First, p.Last = 1, epoch, epoch
		for range 1 + rng.IntN(30) {
			span := math.Exp(rng.NormFloat64() + 1)
			p.Visits++
			switch x := rng.ExpFloat64() / rate; {
			case x > span:
				p.Belief.Unchanged(span)
			case rng.IntN(2) == 0:
				p.Belief.Changed(span)
			default:
				p.Belief.ChangedAt(x)
			}
		}
		pages[i] = p
	}
	return pages
}

// outcome returns the result of Priced at a price, page by page.
func outcome(o fresh.Objective, c fresh.Costs, pages []*fresh.Page, price, longest float64) (spend, stale, age float64) {
	header := c.Header
	if c == (fresh.Costs{}) {
		header = 1
	}
	sum := 0.
	pr := fresh.Priced{Objective: o, Costs: c, Price: price, Longest: time.Duration(longest * float64(day))}
	for _, p := range pages {
		post := p.Posterior()
		every := pr.Next(p, p.Last).Sub(p.Last).Hours() / 24
		spend += (header + c.Body*(1-post.Fresh(every))) / every
		sum += p.Importance
		stale += p.Importance * (1 - post.MeanFresh(every))
		age += p.Importance * min(post.MeanAge(every), 365) // as a plan counts it
	}
	return spend, stale / sum, age / sum
}

// The planned price is the one found by a bisection that visits all pages at every step, and
// the plan's expectation equals the outcome.
func TestPlanIsTheOptimum(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	pages := visitedPages(400, rng)
	for _, o := range objectives {
		for _, c := range []fresh.Costs{{}, fresh.Bytes()} {
			for _, budget := range []float64{0.05, 0.5} {
				const longest = 1000
				low, high := -30., 10.
				for high-low > 1e-3 {
					mid := (low + high) / 2
					if spend, _, _ := outcome(o, c, pages, math.Exp(mid), longest); spend > budget*400 {
						low = mid
					} else {
						high = mid
					}
				}
				_, best, _ := outcome(o, c, pages, math.Exp(high), longest)
				pl := fresh.NewPlanner(fresh.Priced{Objective: o, Costs: c, Longest: longest * day}, budget*400)
				for _, p := range pages {
					pl.Add(p)
				}
				plan := pl.Plan()
				spend, stale, age := outcome(o, c, pages, plan.Price, longest)
				t.Logf("%+v %+v B=%v: price %.4g (best %.4g) spend %.5f of %.5f stale %.5f %.5f (best %.5f), age %.5f %.5f", o, c.Body, budget,
					plan.Price, math.Exp(high), spend/400, plan.Spend/400, stale, 1-plan.Freshness, best, age, plan.Age)
				if math.Abs(stale-best) > 1e-3 || math.Abs(1-plan.Freshness-stale) > 1e-3 || !about(spend, budget*400, 0.01) || !about(plan.Age, age, 0.06) {
					t.Errorf("%+v, %+v, budget %v: not as planned", o, c, budget)
				}
			}
		}
	}
}

// polled returns the least cost of pages in a day, at a price of requests, if each is polled by itself: the loss by
// outdated copies and the price of the requests.
func polled(o fresh.Objective, pages []*fresh.Page, price, longest float64) (sum float64) {
	for _, p := range pages {
		post := p.Posterior()
		every := min(o.AgeAt(&post, price/p.Importance), longest)
		sum += p.Importance*loss(o, &post, every) + price/every
	}
	return sum
}

// listed returns the same if the site's manifest is polled at the given interval, in days, and the pages that it names
// are fetched once that costs least. With alone, pages are polled by themselves where that is better.
func listed(o fresh.Objective, pages []*fresh.Page, price, longest, every float64, alone bool) (sum float64) {
	sum = price / every
	for _, p := range pages {
		post := p.Posterior()
		best := p.Importance * loss(o, &post, longest)
		for wait := every; wait < longest; wait *= 1.25 {
			best = min(best, p.Importance*loss(o, &post, wait)+price*(1-post.Fresh(wait))/wait)
		}
		best += price / longest
		if alone {
			best = min(best, polled(o, []*fresh.Page{p}, price, longest))
		}
		sum += best
	}
	return sum
}

// loss is the objective's cost by its definition, if a page is visited every so many days.
func loss(o fresh.Objective, p *fresh.Posterior, every float64) (sum float64) {
	for k, rate := range fresh.Rates() {
		if p[k] == 0 {
			continue
		}
		c := o.Fresh*(1-fresh.MeanFresh(rate, every)) + o.Age*fresh.MeanAge(rate, every)
		if o.Harmonic > 0 { // E[1 + 1/2 + ... + 1/n] is ∫ (1-e^-u)/u du: here over ln u
			ein, weight := 0., 0.
			for u := rate * every; u > 1e-4; u *= 0.8 {
				weight = -math.Expm1(-u*0.9) * math.Log(1/0.8)
				ein += weight
			}
			c += o.Harmonic * (ein - o.AtRate(rate, every)/o.Harmonic/every)
		}
		sum += p[k] * c
	}
	return sum
}

// oneOfTwo returns a page that is known to change at one of two rates.
func oneOfTwo(importance float64, first, second int) *fresh.Page {
	var site fresh.Site
	site.Prior[first] += 0.5
	site.Prior[second] += 0.5
	return &fresh.Page{History: fresh.History{Visits: 1, First: epoch, Last: epoch}, Importance: importance, Site: &site, Listed: true}
}

// The decision whether a site's manifest is polled, and how often, is as good as the best
// alternative: its pages one by one, or any interval. Sometimes it is better than both: the manifest is polled, and the
// pages that change fastest by themselves.
func TestManifestsArePolledWhereItPays(t *testing.T) {
	rng := rand.New(rand.NewPCG(25, 26))
	const longest = 2000.
	manifests, polls, both := 0, 0, 0
	for i := range 45 {
		o := objectives[1+i%3]
		pl := fresh.NewPlanner(fresh.Priced{Objective: o, Longest: longest * day}, 0)
		site := pl.Site(fresh.SiteTerms{Manifest: true})
		var pages []*fresh.Page
		for range 1 + rng.IntN(12) {
			k := 5 + rng.IntN(25)
			p := oneOfTwo(math.Exp(2*rng.NormFloat64()), k, k+rng.IntN(3))
			pages = append(pages, p)
			site.Add(p)
		}
		curve := site.Close()
		for range 3 {
			price := math.Exp(rng.Float64()*12 - 8)
			alone := polled(o, pages, price, longest)
			var best, every float64
			low, high := math.Log(1e-3), math.Log(longest) // of one valley
			for high-low > 0.1 {
				a, b := low+(high-low)*0.4, low+(high-low)*0.6
				if listed(o, pages, price, longest, math.Exp(a), false) < listed(o, pages, price, longest, math.Exp(b), false) {
					high = b
				} else {
					low = a
				}
			}
			every = math.Exp((low + high) / 2)
			best = listed(o, pages, price, longest, every, false)
			got := alone
			if days := curve.Every(price); !math.IsInf(days, 1) {
				manifests++
				got = listed(o, pages, price, longest, days, true)
			} else {
				polls++
			}
			if got < .98*min(best, alone) {
				both++
			}
			if got > 1.02*min(best, alone) {
				t.Errorf("%+v, %d pages at %v: %v every %v; the best are %v every %v and %v by polling pages", o, len(pages), price, got, curve.Every(price), best, every, alone)
			}
		}
	}
	if manifests < 50 || polls < 20 || both < 10 {
		t.Errorf("%d of manifests, %d of both, and %d of pages", manifests, both, polls)
	}
}

// A site that allows only so many requests gets that many, and others get the rest.
func TestPlanWithSiteLimits(t *testing.T) {
	rng := rand.New(rand.NewPCG(27, 28))
	for _, c := range []struct {
		most   float64
		budget float64
	}{{5, 60}, {20, 60}, {1000, 60}, {0, 60}} {
		const longest = 1000
		pl := fresh.NewPlanner(fresh.Priced{Longest: longest * day}, c.budget)
		sites, curves := make([][]*fresh.Page, 3), make([]fresh.SiteCurve, 3)
		for i := range sites {
			sites[i] = visitedPages(200, rng)
			terms := fresh.SiteTerms{}
			if i == 0 {
				terms.Most = c.most
			}
			demand := pl.Site(terms)
			for _, p := range sites[i] {
				demand.Add(p)
			}
			curves[i] = demand.Close()
		}
		plan := pl.Plan()
		sum, first := 0., 0.
		for i, pages := range sites {
			extra := curves[i].Extra(plan.Price)
			if i > 0 && extra != 0 {
				t.Errorf("a site that takes everything costs %v more", extra)
			}
			for _, p := range pages {
				p.Site = &fresh.Site{Extra: extra}
			}
			spend, _, _ := outcome(fresh.Objective{}, fresh.Costs{}, pages, plan.Price, longest)
			if sum += spend; i == 0 {
				first = spend
			}
		}
		if !about(sum, c.budget, 0.01) || !about(plan.Spend, c.budget, 0.01) {
			t.Errorf("%+v: planned %v and spent %v", c, plan.Spend, sum)
		}
		if extra := curves[0].Extra(plan.Price); c.most > 0 && c.most < 50 {
			if !about(first, c.most, 0.01) || extra == 0 {
				t.Errorf("%+v: asked %v times a day, at %v above the price", c, first, extra)
			}
		} else if extra != 0 {
			t.Errorf("%+v: costs %v more, and is asked %v times a day", c, extra, first)
		}
	}
}

// New pages get their share of the budget for as long as it takes to fetch them, and no more
// than they are worth.
func TestPlanOfNewPages(t *testing.T) {
	rng := rand.New(rand.NewPCG(29, 30))
	pages := visitedPages(1000, rng)
	plan := func(unseen int, importance float64) fresh.Plan {
		pl := fresh.NewPlanner(fresh.Priced{Longest: 1000 * day}, 100)
		pl.Backlog(10)
		for _, p := range pages {
			pl.Add(p)
		}
		for range unseen {
			pl.Add(&fresh.Page{Importance: importance})
		}
		return pl.Plan()
	}
	none, important, worthless := plan(0, 0), plan(500, 0.01), plan(500, 1e-9)
	if important.Price < 1.5*none.Price || !about(important.Spend, 100, 0.01) || important.Unseen != 500 || important.Pages != 1500 {
		t.Errorf("500 new pages in ten days: %+v, and without them %+v", important, none)
	}
	if !about(worthless.Price, none.Price, 1e-9) {
		t.Errorf("new pages that are worth nothing: %+v, and without them %+v", worthless, none)
	}
}

// A larger budget means lower cost and more freshness; without a limit both are at their best.
func TestLargerBudgetIsFresher(t *testing.T) {
	rng := rand.New(rand.NewPCG(43, 44))
	pages := visitedPages(500, rng)
	before := fresh.Plan{Price: math.Inf(1)}
	for _, budget := range []float64{1e-6, 1, 5, 10, 50, 200, 1000, 1e4, 1e9, 0} {
		pl := fresh.NewPlanner(fresh.Priced{Shortest: time.Hour}, budget)
		for _, p := range pages {
			pl.Add(p)
		}
		plan := pl.Plan()
		if plan.Price >= before.Price && plan.Price != 0 && budget > plan.Fallback || plan.Freshness < before.Freshness {
			t.Errorf("budget %v: %+v, and for less %+v", budget, plan, before)
		}
		if budget > plan.Fallback && plan.Spend > budget*(1+1e-9) {
			t.Errorf("budget %v: %+v", budget, plan)
		}
		if before = plan; budget >= 1e9 || budget == 0 {
			if plan.Price > 0 != (budget > 0) || !about(plan.Spend, 24*500, 1e-6) {
				t.Errorf("budget %v for pages that are visited every hour: %+v", budget, plan)
			}
		}
	}
	if empty := fresh.NewPlanner(fresh.Priced{}, 0).Plan(); empty != (fresh.Plan{Freshness: 1, Longest: 90 * 24 * time.Hour}) {
		t.Errorf("no pages: %+v", empty)
	}
}

// A budget larger than all needs still has a price, at which all visits are
// bought, and which can be raised if they cost more than planned; a manifest that is polled at
// one price is also polled at every lower price.
func TestPlanWithExcessBudget(t *testing.T) {
	for _, o := range objectives {
		for _, worthless := range []int{0, 10} {
			pl := fresh.NewPlanner(fresh.Priced{Objective: o, Shortest: 10 * time.Minute}, 1e6)
			site := pl.Site(fresh.SiteTerms{Manifest: true})
			for _, p := range visitedPages(100, rand.New(rand.NewPCG(47, 48))) {
				site.Add(p)
			}
			for i := range worthless {
				pl.Add(&fresh.Page{History: fresh.History{Visits: i % 2}})
			}
			curve := site.Close()
			plan := pl.Plan()
			every := curve.Every(plan.Price)
			if !(plan.Price > 0) || !(1/every < plan.Spend) || !about(1/every, plan.Spend, 0.1) {
				t.Errorf("%+v: the manifest every %v days; %+v", o, every, plan)
			}
			for _, price := range []float64{0, 1e-300, plan.Price / 1e6, plan.Price / math.E} {
				if got := curve.Every(price); got != every {
					t.Errorf("%+v: every %v days at %v, and at the lowest price every %v", o, got, price, every)
				}
			}
		}
	}
	for _, visits := range []int{0, 1} { // copies of other pages
		pl := fresh.NewPlanner(fresh.Priced{}, 1)
		for range 1000 {
			pl.Add(&fresh.Page{History: fresh.History{Visits: visits}})
		}
		if plan := pl.Plan(); !(plan.Price > 0) {
			t.Errorf("pages that are worth nothing: %+v", plan)
		}
	}
}

// For any pages, sites and budgets, all values of a plan are numbers.
func TestPlanTakesAnyInput(t *testing.T) {
	rng := rand.New(rand.NewPCG(45, 46))
	any := func() float64 {
		if rng.IntN(2) == 0 {
			return math.Exp(rng.Float64()*40 - 30)
		}
		return hostile[rng.IntN(len(hostile))]
	}
	number := func(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }
	for range 300 {
		policy := fresh.Priced{Objective: fresh.Objective{Fresh: any(), Harmonic: any(), Age: any()},
			Costs:    fresh.Costs{Header: any(), Body: any(), Manifest: any(), Entry: any()},
			Shortest: time.Duration(rng.Int64() >> rng.IntN(64)), Longest: time.Duration(rng.Int64()>>rng.IntN(64) - 5), Eager: rng.IntN(2) == 0}
		pl := fresh.NewPlanner(policy, any())
		pl.Backlog(any())
		pass := fresh.Planning{Priced: policy, Budget: any(), Pages: rng.Int() - rng.Int()}
		var sites []*fresh.SitePlanning
		var curves []fresh.SiteCurve
		for range 3 {
			terms := fresh.SiteTerms{Most: any(), Manifest: rng.IntN(2) == 0, Precision: any(), Recall: any()}
			site := pl.Site(terms)
			sites = append(sites, pass.Site(terms))
			for range rng.IntN(6) {
				p := &fresh.Page{History: randomHistory(rng), Importance: any(), Length: rng.Int64() - rng.Int64(), Listed: rng.IntN(2) == 0}
				p.Belief = hostileBelief(rng)
				if rng.IntN(2) == 0 {
					p.Site = &fresh.Site{Extra: any(), Tells: rng.IntN(2) == 0, Signal: fresh.Signal{Right: float32(any()), Heard: float32(any())}}
					for k := range p.Site.Prior {
						p.Site.Prior[k] = float32(any())
					}
				}
				if rng.IntN(2) == 0 {
					pl.Add(p)
				} else {
					site.Add(p)
				}
				sites[len(sites)-1].Add(p, p.Last)
			}
			curves = append(curves, site.Close())
		}
		for _, plan := range []fresh.Plan{pl.Plan(), pass.Plan()} {
			for _, x := range []float64{plan.Price, plan.Spend, plan.Requests, plan.Fallback, plan.Age} {
				if !number(x) {
					t.Fatalf("%+v: %+v", policy, plan)
				}
			}
			if !(plan.Freshness >= 0 && plan.Freshness <= 1) || plan.Age > 366 {
				t.Fatalf("%+v: %+v", policy, plan)
			}
		}
		for _, c := range curves {
			price := any()
			if extra, every := c.Extra(price), c.Every(price); !number(extra) || !(every > 0) {
				t.Fatalf("price %v: %v more, every %v", price, extra, every)
			}
		}
		for _, s := range sites {
			if extra, every := s.Extra(), s.Every(any()); !number(extra) || !(every > 0) {
				t.Fatalf("%v more, every %v", extra, every)
			}
			prior := s.Prior()
			p, sum := prior.Under(&fresh.Belief{}), 0.
			for _, share := range p {
				sum += share
			}
			if !about(sum, 1, 1e-6) {
				t.Fatalf("a prior of %v", sum)
			}
		}
	}
}
