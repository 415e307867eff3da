package fresh

import (
	"math"
	"time"
)

// A Planner finds the price at which [Priced] spends a budget. It processes each page once, in any order: it
// adds the spending on it at each price, and keeps nothing else of it. A page takes a microsecond or two, and
// no memory. The price at which the spending reaches the budget is then read off. The Planner itself takes
// some 50 kB, and 12 kB for each class of sites that tell of their changes equally well. That the price is
// the same for all pages makes it the optimum for the budget.
//
// Pages of a site that limits requests, or has a manifest, are added by way of [Planning.Site]. A site's
// notices count where [Site.Tells] is set.
//
// The zero value has no budget. A Planner makes one plan and is used by one goroutine.
type Planner struct {
	Objective
	Costs

	// Budget is the limit of spending in a day, in the unit of Costs. 0 or less means every visit that gains
	// anything.
	Budget float64

	// Shortest and Longest are those of [Priced].
	Shortest, Longest time.Duration

	// Audit is that of [Priced].
	Audit float64

	// Backlog is the number of days within which new pages get their first visit. 0 means 30.
	Backlog float64

	all           *demand
	spare         []*demand
	terms         *terms // nil: no page yet
	floor         float64
	soon          int // pages until the floor is recomputed
	pages, unseen int
	importance    float64
}

// A Plan is the result of a budget. Where the budget is enough for everything, Price is the lowest at which
// anything is bought: a price of 0 could not be adjusted by a [Bucket] if more is spent than planned.
type Plan struct {
	Price    float64 // of one unit of cost, for [Priced]. 0, everything is worth it, only without a budget or without pages
	Spend    float64 // in a day
	Requests float64 // in a day

	// Fallback is the part of Spend for the visits at Longest, which are made at any
	// price. If it is most of the budget, Longest is too short for so many pages.
	Fallback float64

	Freshness     float64       // expected share of copies that are right, weighed by importance: 0..1
	Age           float64       // expected days for which a copy has been outdated, weighed likewise; 0 for one that is right, and no page counts for more than a year
	OutsideBudget float64       // price of visits outside the budget, as in [Priced]: of a Planning that limits them
	Longest       time.Duration // between two visits, at which they are made at any price: as in [Priced]
	Pages         int           // number of pages added
	Unseen        int           // those of them that were never visited; they are not in Freshness and Age
}

// terms are the settings of a Planner, with defaults and bounds applied.
type terms struct {
	objective Objective
	costs     Costs
	shortest  float64 // in days
	longest   float64
	backlog   float64
	audit     float64
	polls     *ladder
	tellers   map[teaching]*ladder
}

// teaching is a class of how well sites tell of their changes: all sites of a class share a ladder.
type teaching struct{ wrong, silent, useful int }

func (p *Planner) start() *terms {
	if p.terms != nil {
		return p.terms
	}
	times := Priced{Shortest: p.Shortest, Longest: p.Longest}
	t := &terms{objective: p.Objective.weights(), costs: p.Costs.paid(), backlog: bounded(p.Backlog, oldest), audit: bounded(p.Audit, 1),
		shortest: max(days(times.shortest()), youngest), tellers: map[teaching]*ladder{}}
	t.longest = max(days(times.longest()), t.shortest)
	if t.backlog == 0 {
		t.backlog = 30
	}
	t.backlog = max(t.backlog, youngest)
	t.polls = newLadder(t.objective, t.longest, t.shortest)
	p.terms, p.all = t, newDemand()
	return t
}

// Add adds a page. It keeps nothing of it.
func (p *Planner) Add(page *Page) {
	post := page.Posterior()
	p.addBelieved(page, &post)
}

// addBelieved adds a page with the posterior post.
func (p *Planner) addBelieved(page *Page, post *Posterior) {
	t := p.start()
	p.count(page)
	t.add(page, post, p.floor, p.all, false)
}

func (p *Planner) count(page *Page) {
	p.pages++
	if page.Visits <= 0 {
		p.unseen++
	} else {
		p.importance += bounded(page.Importance, math.MaxFloat32)
	}
	p.raise()
}

// addAudits adds only the visits that a page gets regardless of its site's notices.
func (p *Planner) addAudits(page *Page, post *Posterior) {
	t := p.start()
	if t.audit == 0 {
		return
	}
	p.pages++
	p.raise()
	t.addAudits(page, post, p.floor, p.all)
}

// raise recomputes the floor, once in 256 pages.
func (p *Planner) raise() {
	// More pages only raise the price, so it is at least that of the pages so far. The floor is for half as
	// much budget again, since a site may demand less than its pages.
	if p.soon--; p.soon <= 0 && p.Budget > 0 {
		p.soon = 256
		p.floor = p.all.limit(1.5*p.Budget, spendOf)
	}
}

func (t *terms) add(page *Page, post *Posterior, floor float64, d *demand, loss bool) {
	b := newBid(post, bounded(page.Importance, math.MaxFloat32), t.costs.Header, t.costs.body(page))
	b.loss = loss
	s := page.Site
	switch {
	case page.Visits <= 0:
		at := place(b.importance * t.objective.unseen(post, t.longest) / (b.header + b.body))
		d.rise(at, at, amount{spend: (b.header + b.body) / t.backlog, requests: 1 / t.backlog})
	case s != nil && s.Tells && s.Signal.noticeStats(0).useful > 0.01:
		t.teller(s.Signal).hear(t.polls, &b, floor, d)
		t.addAudits(page, post, floor, d)
	default:
		t.polls.climb(&b, floor, d)
	}
}

func (t *terms) addAudits(page *Page, post *Posterior, floor float64, d *demand) {
	if t.audit == 0 {
		return
	}
	b := newBid(post, bounded(page.Importance, math.MaxFloat32), t.costs.Header, t.costs.body(page))
	b.audits = t.audit
	t.polls.climb(&b, floor, d)
}

// teller returns the ladder of a site that tells of its changes. Sites with nearly equal signals share one.
func (t *terms) teller(s Signal) *ladder {
	v := s.noticeStats(0)
	v.precision, v.recall = min(max(v.precision, 1e-3), 1-1e-3), min(max(v.recall, 1e-3), 1-1e-3)
	odds := func(share float64) int { return int(math.Round(2 * math.Log(share/(1-share)))) }
	key := teaching{odds(v.precision), odds(v.recall), int(math.Round(8 * v.useful))}
	l := t.tellers[key]
	if l == nil {
		l = newNoticeLadder(t.objective, v, t.shortest)
		t.tellers[key] = l
	}
	return l
}

// Plan returns the plan for the pages so far.
func (p *Planner) Plan() Plan {
	p.start()
	at := 0.
	if p.Budget > 0 {
		at = p.all.limit(p.Budget, spendOf)
	}
	a := p.all.above(at)
	plan := Plan{Spend: a.spend, Requests: a.requests, Fallback: p.all.base.spend, Pages: p.pages, Unseen: p.unseen, Freshness: 1, Longest: duration(p.terms.longest)}
	switch low := p.all.lowest(); {
	case !(p.Budget > 0) || p.pages == 0:
	case max(at, low) == 0: // no visit gains anything
		plan.Price = 1
	default:
		plan.Price = priceAt(max(at, low))
	}
	if p.importance > 0 {
		plan.Freshness = min(max(0, 1-a.stale/p.importance), 1)
		plan.Age = max(0, a.age/p.importance)
	}
	return plan
}
