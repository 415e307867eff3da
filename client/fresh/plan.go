package fresh

import (
	"math"
	"time"
)

// A Planner finds the price at which [Priced] spends a budget. Each page is looked at
// once, in any order, and leaves what would be spent on it at each price; nothing is kept of
// it. A page costs a microsecond or two, and no memory: what is spent is counted by the price,
// and the price at which it comes to the budget is read off. The Planner itself takes some 50 kB, and
// 12 kB for each class of sites that tell of their changes equally well. That the price is the same for
// all pages is what makes it the best that the budget can do.
//
// Pages of a site that takes only so many requests, or has a manifest, are given
// to [Planner.Site]. What a site tells of its changes counts where [Site.Tells] is set.
//
// The zero value has no budget. A Planner makes one plan and is used by one goroutine.
type Planner struct {
	Objective
	Costs

	// Budget is what may be spent in a day, in the unit of Costs. 0 or less means whatever is worth
	// anything.
	Budget float64

	// Shortest and Longest are those of [Priced].
	Shortest, Longest time.Duration

	// Audit is that of [Priced].
	Audit float64

	// Backlog is within how many days pages are visited that never were. 0 means 30.
	Backlog float64

	all           *demand
	spare         []*demand
	terms         *terms // nil: nothing was added yet
	floor         float64
	soon          int // pages until the floor is computed anew
	pages, unseen int
	importance    float64
}

// A Plan is what a budget comes to. Where there is enough for all, Price is the least at which
// anything is bought: a price of 0 could not be trimmed by a [Bucket] if more is spent than planned.
type Plan struct {
	Price    float64 // of one unit of cost: what [Priced] is given. 0, everything is worth it, only without a budget or without pages
	Spend    float64 // in a day
	Requests float64 // in a day

	// Fallback is the part of Spend for the visits at Longest, which are made at any
	// price. If it is most of the budget, Longest is too short for so many pages.
	Fallback float64

	Freshness float64       // expected share of copies that are right, weighed by importance: 0..1
	Age       float64       // expected days for which a copy has been outdated, weighed likewise; 0 for one that is right, and no page counts for more than a year
	Beside    float64       // price of visits beside the budget, as in [Priced]: of a Planning that bounds them
	Longest   time.Duration // between two visits, at which they are made at any price: as in [Priced]
	Pages     int           // that were added
	Unseen    int           // those of them that were never visited; they are not in Freshness and Age
}

// terms are the settings of a Planner as they count.
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

// teaching is how well a site tells of its changes, in classes of which all sites of one share a ladder.
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

// addBelieved adds a page of which post is believed.
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

// addAudits adds the visits that a page gets whatever its site says, and no more of it.
func (p *Planner) addAudits(page *Page, post *Posterior) {
	t := p.start()
	if t.audit == 0 {
		return
	}
	p.pages++
	p.raise()
	t.addAudits(page, post, p.floor, p.all)
}

// raise finds the floor anew, now and then.
func (p *Planner) raise() {
	// The more pages, the higher the price: it is not below the one of those so far. Half as much
	// again is looked at, since a site may ask for less than its pages.
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
	case s != nil && s.Tells && s.Signal.voice(0).useful > 0.01:
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

// teller returns the ladder of a site that tells of its changes. Those of sites
// that do it nearly as well are one.
func (t *terms) teller(s Signal) *ladder {
	v := s.voice(0)
	v.precision, v.recall = min(max(v.precision, 1e-3), 1-1e-3), min(max(v.recall, 1e-3), 1-1e-3)
	odds := func(share float64) int { return int(math.Round(2 * math.Log(share/(1-share)))) }
	key := teaching{odds(v.precision), odds(v.recall), int(math.Round(8 * v.useful))}
	l := t.tellers[key]
	if l == nil {
		l = newTold(t.objective, v, t.shortest)
		t.tellers[key] = l
	}
	return l
}

// Plan returns what the budget comes to for the pages so far.
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
	case max(at, low) == 0: // nothing is worth anything
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
