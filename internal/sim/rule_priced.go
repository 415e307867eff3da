package sim

import (
	"math"
	"time"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// again is the number of days until the next plan: learning as much again about pages takes as long as it
// took before.
func again(now float64) float64 { return max(1, now/8) }

// profit is the thesis's own policy, with the threshold at which it spends the budget.
type profit struct {
	plainRule
	*engine
	thesis    fresh.Thesis
	threshold float64
}

func (r *profit) price() float64 { return r.threshold }

func (r *profit) plan() float64 {
	r.thesis = fresh.Thesis{Periods: fresh.Periods{Page: -1}, MaxPeriod: -1}
	shortest := 0.
	if r.Policy.Daily {
		r.thesis.Periods.Page, shortest = day, 1
	}
	if r.Policy.Known {
		r.threshold = priceOf(len(r.pages), r.Budget, func(i int, price float64) float64 {
			return profitInterval(&r.World.Pages[i], price, shortest)
		})
		return math.Inf(1)
	}
	r.thesis.MaxPeriod = 0 // else a page never seen to change would not be visited again
	r.threshold = priceOf(len(r.pages), r.Budget, func(i int, price float64) float64 {
		p, t := &r.pages[i].Page, r.thesis
		t.Threshold = price
		return float64(t.Next(p, start).Sub(p.Last)) / float64(day)
	})
	return again(r.now)
}

func (r *profit) policy(i int) fresh.Policy {
	r.thesis.Threshold = r.threshold * r.purse.Factor()
	if r.Policy.Known {
		r.thesis.Prior = r.World.Pages[i].Rate
	}
	return &r.thesis
}

// oracle is the index at the true rates, with or without notices.
type oracle struct {
	*engine
	base   float64   // the price
	every  []float64 // of manifests, in days
	alone  []bool    // sites whose pages are polled despite their manifest
	shapes shapes
	at     int
	bounds outcome
}

func newOracle(e *engine) *oracle { return &oracle{engine: e, shapes: shapes{}} }

func (r *oracle) plan() float64 {
	parts, lists := webParts(r.World, plain(r.Policy.Objective), r.costs, Listening{Manifest: !r.Policy.IgnoresNotices, Push: !r.Policy.IgnoresNotices})
	budget := r.Budget * float64(len(r.pages))
	r.every, r.alone = make([]float64, len(r.sites)), make([]bool, len(r.sites))
	if r.Policy.Timer > 0 {
		for s, l := range lists {
			if r.every[s] = math.Inf(1); l != nil {
				r.every[s] = r.Policy.Timer
				l.timer = r.Policy.Timer
			}
		}
	}
	r.base, r.bounds = solve(parts, budget)
	if r.Policy.Timer > 0 {
		return math.Inf(1)
	}
	for s, l := range lists {
		r.every[s] = math.Inf(1)
		if l != nil {
			if every, ok := l.choice(r.base); ok {
				r.every[s] = every
			} else {
				r.alone[s] = true
			}
		}
	}
	return math.Inf(1)
}

func (r *oracle) price() float64                     { return r.base * r.purse.Factor() }
func (r *oracle) interval(s int) float64             { return r.every[s] }
func (r *oracle) expected() (freshness, age float64) { return r.bounds.fresh, r.bounds.age }
func (r *oracle) policy(i int) fresh.Policy          { r.at = i; return r }
func (r *oracle) page() (*Page, *site)               { p := &r.World.Pages[r.at]; return p, &r.sites[p.Site] }
func (r *oracle) Profit(p *fresh.Page, _ time.Time) float64 {
	is, _ := r.page()
	if is.Rate == 0 {
		return 0
	}
	if p.Heard.Notices > 0 {
		return is.Weight / is.Rate
	}
	return r.price()
}

// Next implements fresh.Policy.
func (r *oracle) Next(p *fresh.Page, _ time.Time) time.Time {
	is, s := r.page()
	if is.Rate == 0 || is.Weight == 0 {
		return clock(never)
	}
	o := plain(r.Policy.Objective)
	polled := newPolled(is, o, r.costs)
	switch {
	case s.known.Tells && !s.perfect():
		if n, ok := r.shapes.newNoisy(polled, s.Site).(*noisy); ok {
			return clock(daysAt(p.Last) + max(0, n.level(r.price())-n.beta*float64(p.Heard.Notices)))
		}
	case s.known.Tells, s.hasManifest && !r.alone[is.Site]:
		told := pushed{*polled}
		if p.Heard.Notices == 0 {
			return clock(never)
		}
		return clock(daysAt(p.Heard.Noticed) + told.wait(r.price()))
	}
	return clock(daysAt(p.Last) + r.due(is, polled))
}

// due is the age at which a page without notices is visited, by the crawler's own formula where there is one.
func (r *oracle) due(is *Page, p *polled) float64 {
	if p.body > 0 {
		return p.interval(r.price())
	}
	return r.Policy.Objective.AgeAtRate(is.Rate, r.price()*p.header/is.Weight)
}

// plugged is the index at an estimate of the rate, as if that were exact.
type plugged struct {
	*engine
	base   float64
	bounds outcome
	at     int
}

func (r *plugged) plan() float64 {
	parts := make([]part, len(r.pages))
	for i := range parts {
		parts[i] = r.polled(i)
	}
	r.base, r.bounds = solve(parts, r.Budget*float64(len(parts)))
	return again(r.now)
}

// polled is a page with the thesis's estimate of its rate. A page never seen to change gets half a change in
// all the time that it was observed, or it would never be visited again.
func (r *plugged) polled(i int) *polled {
	is := r.World.Pages[i]
	h := &r.pages[i].History
	if is.Rate = fresh.Rate(*h); is.Rate == 0 {
		is.Rate = .5 / max(1, daysAt(h.Last)-daysAt(h.First))
	}
	return newPolled(&is, plain(r.Policy.Objective), r.costs)
}

func (r *plugged) price() float64                        { return r.base * r.purse.Factor() }
func (r *plugged) interval(int) float64                  { return math.Inf(1) }
func (r *plugged) expected() (freshness, age float64)    { return r.bounds.fresh, r.bounds.age }
func (r *plugged) policy(i int) fresh.Policy             { r.at = i; return r }
func (r *plugged) Profit(*fresh.Page, time.Time) float64 { return r.price() }

// Next implements fresh.Policy.
func (r *plugged) Next(p *fresh.Page, _ time.Time) time.Time {
	return clock(daysAt(p.Last) + min(r.polled(r.at).interval(r.price()), never))
}

// learning is the crawler's own policy: it knows nothing at the start.
type learning struct {
	*engine
	priced fresh.Priced
	made   fresh.Plan
	plans  []*fresh.SitePlanning
}

func newLearning(e *engine) *learning {
	return &learning{engine: e,
		priced: fresh.Priced{Objective: e.Policy.Objective, Costs: e.costs, Eager: e.Policy.FetchOutsideBudget}}
}

// plan passes over every page once, as the crawler does.
func (r *learning) plan() float64 {
	pass := fresh.Planning{Priced: r.priced, Budget: r.Budget * float64(len(r.pages)), Pages: len(r.pages)}
	sites := make([]*fresh.SitePlanning, len(r.sites))
	r.manifests = fresh.Manifests{}
	for i := range r.sites {
		if s := &r.sites[i]; s.hasManifest {
			r.manifests.Add(&s.known.Signal)
		}
	}
	for i := range r.sites {
		s := &r.sites[i]
		var terms fresh.SiteTerms
		if s.hasManifest {
			s.known.Manifest.Recall = r.manifests.Recall(&s.known.Signal)
			terms = fresh.SiteTerms{Manifest: true, Precision: r.manifests.Precision(&s.known.Signal), Recall: s.known.Manifest.Recall}
		}
		sites[i] = pass.Site(terms)
		for _, p := range s.pages {
			r.pages[p].Listen()
			sites[i].Add(&r.pages[p].Page)
		}
		sites[i].Close()
	}
	r.made, r.plans = pass.Plan(), sites
	r.priced.Longest = r.made.Longest
	for i, s := range sites {
		r.sites[i].known.Prior, r.sites[i].known.Manifest.Planned = s.Prior(), !math.IsInf(s.Every(r.made.Price), 1)
	}
	return again(r.now)
}

func (r *learning) price() float64                     { return r.made.Price * r.purse.Factor() }
func (r *learning) interval(s int) float64             { return r.plans[s].Every(r.price()) }
func (r *learning) expected() (freshness, age float64) { return r.made.Freshness, r.made.Age }
func (r *learning) policy(int) fresh.Policy {
	r.priced.Price = r.price()
	return &r.priced
}
