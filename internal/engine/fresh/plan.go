package fresh

import (
	"math"
	"time"
)

// A planner finds the price at which [Priced] spends a budget. It processes each page once, in any order: it
// adds the spending on it at each price, and keeps nothing else of it. A page takes a microsecond or two, and
// no memory. The price at which the spending reaches the budget is then read off. The planner itself takes
// some 50 kB, and 12 kB for each class of sites that tell of their changes equally well. That the price is
// the same for all pages makes it the optimum for the budget.
//
// Pages of a site that limits requests, or has a manifest, are added to its siteDemand. A site's
// notices count where [Site.Tells] is set. A planner makes one plan and is used by one goroutine.
type planner struct {
	terms  *terms
	budget float64 // limit of spending in a day, in the unit of Costs; 0 or less: every visit that gains anything
	others *Demand // of other crawlers, which bring a part of the budget; nil: there are none

	all           *demand
	spare         []*demand
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
	Audit         float64       // share of the visits that a page gets whatever its site says: as in [Priced], 0 with a Rule
	Budget        float64       // of a day: that of a Planning, or its share of a common one
	Savings       float64       // how much of it can be saved up for announced changes: of a Planning
	Demand        Demand        // for others that have a budget in common
	Pages         int           // number of pages added
	Unseen        int           // those of them that were never visited; they are not in Freshness and Age
}

// terms are the settings of a planner, with defaults and bounds applied.
type terms struct {
	objective         Objective
	costs             Costs
	shortest, longest float64 // in days
	backlog           float64 // days within which new pages get their first visit
	audit             float64
	polls             *ladder
	tellers           map[teaching]*ladder
}

// teaching is a class of how well sites tell of their changes: all sites of a class share a ladder.
type teaching struct{ wrong, silent, useful int }

// newPlanner returns a planner for a policy, whose price is not used.
func newPlanner(policy Priced, budget float64) *planner {
	t := &terms{objective: policy.Objective.weights(), costs: policy.Costs.paid(), backlog: 30, audit: bounded(policy.Audit, 1),
		shortest: max(days(policy.shortest()), youngest), tellers: map[teaching]*ladder{}}
	t.longest = max(days(policy.longest()), t.shortest)
	t.polls = newLadder(t.objective, t.longest, t.shortest, t.audit)
	return &planner{terms: t, budget: budget, all: newDemand()}
}

// add adds a page with the posterior post. It keeps nothing of it.
func (p *planner) add(page *Page, post *Posterior) {
	p.count(page)
	p.terms.add(page, post, 1, p.floor, p.all, false)
}

func (p *planner) count(page *Page) {
	p.pages++
	if page.Visits <= 0 {
		p.unseen++
	} else {
		p.importance += finite(page.Importance)
	}
	p.raise()
}

// addAudits adds only the visits that a page gets regardless of its site's notices.
func (p *planner) addAudits(page *Page, post *Posterior) {
	if p.terms.audit == 0 {
		return
	}
	p.pages++
	p.raise()
	// All count, since the budget also pays for announced pages that are worth its price, which are not in the plan.
	p.terms.addAudits(page, post, 1, p.floor, p.all, false)
}

// raise recomputes the floor, once in 256 pages.
func (p *planner) raise() {
	// More pages only raise the price, so it is at least that of the pages so far. The floor is for half as
	// much budget again, since a site may demand less than its pages.
	if p.soon--; p.soon <= 0 && p.budget > 0 {
		p.soon = 256
		p.floor = p.together().limit(1.5*p.budget, spendOf)
	}
}

// leastShare: a crawler for whose pages others pay more has a hundredth of what it brings, for what it learns until the next plan.
const leastShare = 100

// own is the budget without what others bring.
func (p *planner) own() float64 {
	if p.others == nil {
		return p.budget
	}
	return p.budget - p.others.Budget
}

// together is the demand with that of the others, of which the spending alone is known.
func (p *planner) together() *demand {
	if p.others == nil {
		return p.all
	}
	sum := *p.all
	sum.base.spend += p.others.Base
	for b, x := range p.others.Bins {
		if x > 0 {
			sum.bins[b].spend += float64(x)
			sum.first, sum.last = min(sum.first, b), max(sum.last, b)
		}
	}
	return &sum
}

// bid returns the bid of so many pages like one.
func (t *terms) bid(page *Page, post *Posterior, pages float64) bid {
	b := newBid(post, pages*finite(page.Importance), pages*t.costs.Header, pages*t.costs.body(page))
	b.pages = pages
	return b
}

func (t *terms) add(page *Page, post *Posterior, pages, floor float64, d *demand, loss bool) {
	b := t.bid(page, post, pages)
	b.loss = loss
	s := page.Site
	switch {
	case page.Visits <= 0:
		at := place(b.importance * t.objective.unseen(post, t.longest) / (b.header + b.body))
		d.rise(at, at, amount{spend: (b.header + b.body) / t.backlog, requests: pages / t.backlog})
	case s != nil && s.Tells && s.Signal.noticeStats(0).useful > 0.01:
		t.teller(page.signal()).hear(t.polls, &b, floor, d)
		t.addAudits(page, post, pages, floor, d, true)
	default:
		t.polls.climb(&b, floor, d)
	}
}

func (t *terms) addAudits(page *Page, post *Posterior, pages, floor float64, d *demand, told bool) {
	if t.audit == 0 {
		return
	}
	b := t.bid(page, post, pages)
	b.audits, b.told = t.audit, told
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

// plan returns the plan for the pages so far.
func (p *planner) plan() Plan {
	at, sum := 0., p.together()
	if p.budget > 0 {
		at = sum.limit(p.budget, spendOf)
	}
	a := p.all.above(at)
	plan := Plan{Budget: p.budget, Demand: p.all.told(p.own()), Spend: a.spend, Requests: a.requests, Fallback: p.all.base.spend, Pages: p.pages, Unseen: p.unseen, Freshness: 1, Longest: duration(p.terms.longest), Audit: p.terms.audit}
	if all := sum.above(at).spend; p.others != nil && all > 0 {
		plan.Budget = max(plan.Budget*a.spend/all, p.own()/leastShare)
	}
	switch low := sum.lowest(); {
	case !(p.budget > 0) || p.pages == 0:
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
