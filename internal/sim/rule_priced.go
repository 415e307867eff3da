package sim

import (
	"math"
	"time"

	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/poll"
)

// again is the number of days until the next plan: learning as much again about pages takes as long as it
// took before.
func again(now float64) float64 { return max(1, now/16) }

// A planned rule has the price of its last plan, adjusted by the budget's balance.
type planned struct {
	plainRule
	budget *budget
	base   float64 // the price of the plan
}

func (r *planned) price() float64 {
	all, _ := r.budget.Factors()
	return r.base * all
}

func (r *planned) profit(int, *fresh.Page, time.Time) float64 { return r.price() }

// thesis is the thesis's own policy, with the threshold at which it spends the budget.
type thesis struct {
	planned // with the threshold as its price
	run     *Run
	view    *view
	rule    fresh.Thesis
}

// price is that of the plan: the balance adjusts the threshold alone.
func (r *thesis) price() float64 { return r.base }

func (r *thesis) plan(now float64) float64 {
	r.rule = fresh.Thesis{Alpha: r.run.Policy.Alpha, Gamma: r.run.Policy.Gamma, Periods: fresh.Periods{Page: -1}, MaxPeriod: -1}
	shortest := 0.
	if r.run.Policy.Daily {
		r.rule.Periods.Page, shortest = day, 1
	}
	if r.run.Policy.Known {
		r.base = priceOf(len(r.view.pages), r.run.Budget, func(i int, price float64) float64 {
			p := r.run.World.Pages[i]
			alpha, gamma := r.rule.Exponents()
			p.Weight, p.Rate = math.Pow(p.Weight, alpha), p.Rate*gamma
			return profitInterval(&p, price, shortest)
		})
		return math.Inf(1)
	}
	r.rule.MaxPeriod = 0 // else a page never seen to change would not be visited again
	r.base = priceOf(len(r.view.pages), r.run.Budget, func(i int, price float64) float64 {
		p := &r.view.pages[i]
		r.rule.Threshold = price
		return float64(r.rule.Next(p, start).Sub(p.Last)) / float64(day)
	})
	return again(now)
}

// at is the policy for a page, at the threshold adjusted by the budget's balance.
func (r *thesis) at(i int) *fresh.Thesis {
	r.rule.Threshold = r.planned.price()
	if r.run.Policy.Known {
		r.rule.Prior = r.run.World.Pages[i].Rate
	}
	return &r.rule
}

func (r *thesis) next(i int, p *fresh.Page, now time.Time) time.Time { return r.at(i).Next(p, now) }
func (r *thesis) profit(i int, p *fresh.Page, now time.Time) float64 { return r.at(i).Profit(p, now) }

// oracle is the index at the true rates, with or without notices.
type oracle struct {
	planned
	world  *World
	policy *Policy
	every  []float64 // of manifests, in days; +Inf: the pages are polled instead
	gaps   []float64 // of pages: days between two visits before the next poll of the manifest
	shapes shapes
}

func (r *oracle) plan(float64) float64 {
	parts, lists := webParts(r.world, plain(r.policy.Objective), r.budget.costs, r.policy.listening())
	r.base, _ = solve(parts, r.budget.Rate)
	r.base *= 1 - 1e-6 // where the spending jumps, that is the price after it: what is told waits for the budget
	r.every, r.gaps = make([]float64, len(lists)), make([]float64, len(r.world.Pages))
	for s, pages := range r.world.bySite() {
		r.every[s] = math.Inf(1)
		if l := lists[s]; l != nil {
			priced := l.priced(r.base)
			if r.every[s] = l.interval(priced, r.base); !math.IsInf(r.every[s], 1) {
				r.every[s] = l.affordable(priced, r.every[s], r.budget)
			}
			for i, page := range pages {
				r.gaps[page] = priced[i].gap(r.every[s])
			}
		}
	}
	return math.Inf(1)
}

func (r *oracle) interval(s int) float64 { return r.every[s] }

func (r *oracle) profit(i int, p *fresh.Page, now time.Time) float64 {
	switch is := &r.world.Pages[i]; {
	case is.Rate == 0:
		return 0
	case p.Heard.Notices > 0:
		return is.Weight / is.Rate
	case p.Site.Tells:
		return r.price()
	}
	return newPolled(&r.world.Pages[i], plain(r.policy.Objective), r.budget.costs).index(p.Age(now))
}

func (r *oracle) next(i int, p *fresh.Page, _ time.Time) time.Time {
	is := &r.world.Pages[i]
	if is.Rate == 0 || is.Weight == 0 {
		return clock(never)
	}
	site := &r.world.Sites[is.Site]
	polled := newPolled(is, plain(r.policy.Objective), r.budget.costs)
	switch {
	case p.Site.Tells && !site.perfect():
		if n, ok := r.shapes.newNoisy(polled, site).(*noisy); ok {
			return clock(daysAt(p.Last) + max(0, n.level(r.price())-n.beta*float64(p.Heard.Notices)))
		}
	case p.Site.Tells, p.Listed && !math.IsInf(r.every[is.Site], 1):
		told := pushed{*polled}
		switch {
		case p.Heard.Notices == 0 && p.Site.Tells:
			return clock(never)
		case p.Heard.Notices > 0 && p.Site.Tells:
			return clock(daysAt(p.Heard.Noticed) + told.wait(r.price()))
		case p.Heard.Notices > 0:
			return clock(daysAt(p.Heard.Noticed) + told.wait(r.base))
		}
		return beforePoll(p, r.gaps[i], r.every[is.Site])
	}
	// The age at which a page without notices is visited, by the crawler's own formula where there is one.
	if polled.body > 0 {
		return clock(daysAt(p.Last) + polled.interval(r.price()))
	}
	return clock(daysAt(p.Last) + r.policy.Objective.AgeAtRate(is.Rate, r.price()*polled.header/is.Weight))
}

// affordable is the interval of polls, no longer than another, after which no more pages are named than the purse can
// pay for at once. Else they wait; then the budget is lost unless visits so late still need all that is left of it.
func (l *listed) affordable(pages []pricedPage, interval float64, b *budget) float64 {
	for ; ; interval *= .95 {
		named, late, others := 0., 0., l.manifest/interval
		for i := range pages {
			switch p := &pages[i]; {
			case !(p.worth > 0):
			case !math.IsInf(p.gap(interval), 1):
				others += p.between(interval).spend
			default:
				named -= (p.header + p.body) * math.Expm1(-p.Rate*interval)
				late += (p.header + p.body) * p.Rate / (1 + p.Rate*interval)
			}
		}
		if named <= b.Burst || late >= b.Rate-others {
			return interval
		}
	}
}

// beforePoll is when a page is visited before its manifest, which is polled every so many days, is polled the next
// time; else the first time after that.
func beforePoll(p *fresh.Page, gap, every float64) time.Time {
	poll := daysAt(p.Site.Manifest.Read) + every
	known := max(daysAt(p.Last), daysAt(p.Heard.Confirmed))
	if at := known + gap; at < poll {
		return clock(at)
	}
	return clock(poll + gap)
}

// plugged is the index at an estimate of the rate, as if that were exact.
type plugged struct {
	planned
	world     *World
	view      *view
	objective fresh.Objective
}

func (r *plugged) plan(now float64) float64 {
	parts := make([]part, len(r.view.pages))
	for i := range parts {
		parts[i] = r.polled(i, &r.view.pages[i])
	}
	r.base, _ = solve(parts, r.budget.Rate)
	return again(now)
}

// polled is a page with the thesis's estimate of its rate. A page never seen to change gets half a change in
// all the time that it was observed, or it would never be visited again.
func (r *plugged) polled(i int, p *fresh.Page) *polled {
	is := r.world.Pages[i]
	if is.Rate = fresh.Rate(p.History); is.Rate == 0 {
		is.Rate = .5 / max(1, daysAt(p.Last)-daysAt(p.First))
	}
	return newPolled(&is, r.objective, r.budget.costs)
}

func (r *plugged) next(i int, p *fresh.Page, _ time.Time) time.Time {
	return clock(daysAt(p.Last) + min(r.polled(i, p).interval(r.price()), never))
}

// learning is the crawler's own policy: it knows nothing at the start.
type learning struct {
	planned
	view   *view
	priced fresh.Priced
	sites  []*fresh.SitePlanning
}

// plan passes over every page once, as the crawler does.
func (r *learning) plan(now float64) float64 {
	v := r.view
	pass := fresh.Planning{Priced: r.priced, Budget: r.budget.Rate, Pages: len(v.pages), Silence: &v.silence, Outdated: v.policy.Outdated}
	v.manifests = fresh.Manifests{}
	for i := range v.sites {
		if s := &v.sites[i]; s.polled {
			v.manifests.Add(&s.Signal)
		}
	}
	r.sites = r.sites[:0]
	for i := range v.sites {
		s := &v.sites[i]
		var terms fresh.SiteTerms
		if s.polled {
			s.Manifest.Recall = v.manifests.Recall(&s.Site)
			terms = fresh.SiteTerms{Manifest: true, Precision: v.manifests.Precision(&s.Signal), Recall: s.Manifest.Recall}
		}
		planning := pass.Site(terms)
		for _, i := range s.pages {
			v.pages[i].Listen()
			planning.Add(&v.pages[i], clock(now))
		}
		planning.Close()
		r.sites = append(r.sites, planning)
	}
	made := pass.Plan()
	r.base, r.priced.Longest, r.priced.Audit, r.budget.Savings = made.Price, made.Longest, made.Audit, made.Savings
	for i, planning := range r.sites {
		s := &v.sites[i]
		s.Prior, s.Manifest.Planned, s.Manifest.Every = planning.Prior(), false, 0
		if every := r.every(i, made.Price); !math.IsInf(every, 1) {
			s.Manifest.Planned, s.Manifest.Every = true, time.Duration(every*float64(day))
		}
	}
	return again(now)
}

func (r *learning) interval(s int) float64 { return r.every(s, r.price()) }

// every is the interval between two polls of a site's manifest at a price.
func (r *learning) every(s int, price float64) float64 {
	rule := r.view.policy.Polls
	if rule == nil {
		return r.sites[s].Every(price)
	}
	site := &r.view.sites[s]
	src := poll.Source{Record: &site.polls, Weight: 1 + r.view.policy.Subscribers*site.importance}
	next := poll.Schedule{Policy: rule}.Next(&src, price, site.Manifest.Read)
	return max(0, daysAt(next)-daysAt(site.Manifest.Read))
}

// at is the policy at a price.
func (r *learning) at(price float64) *fresh.Priced {
	all, announced := r.budget.Factors()
	r.priced.Price, r.priced.Announced = price, price*announced/all
	return &r.priced
}

func (r *learning) next(_ int, p *fresh.Page, now time.Time) time.Time {
	return r.at(r.price()).Next(p, now)
}

func (r *learning) profit(_ int, p *fresh.Page, now time.Time) float64 {
	return r.at(r.price()).Profit(p, now)
}

// look returns when to recompute the due time of a page whose visit pays at time at, if nothing changes. The
// price may fall until then, and placing all pages anew whenever it does would take long. So a newly placed
// page is looked at when it would pay at half the price, and then after half of each remaining wait, until
// little is left.
func (r *learning) look(p *fresh.Page, now, at float64, again bool) float64 {
	if at-now < .15*(at-daysAt(p.Last)) {
		return at
	}
	soon := now + (at-now)/2
	if !again {
		soon = max(daysAt(r.at(r.price()/2).Next(p, clock(now))), now+(at-now)/4)
	}
	// A page that does not pay at any age is looked at as often as plans are made, and one with notices once
	// a day: many pages may get notices at once, and then the price decides how soon each is visited.
	most := max(1, now/12)
	if p.Heard.Notices > 0 {
		most = 1
	}
	return min(at, soon, now+most)
}
