package fresh

import (
	"math"
	"time"
)

// A Planning is one pass over all pages of a crawler: what a visit may cost from
// now on, how often each manifest is to be asked for, and what to believe of a page of each site of which nothing
// was observed. The pages come in any order, and nothing is kept of them; a site takes 500 B, and
// one that is special [50 kB until it is closed]. A Planning makes one plan and is used by one goroutine.
//
//	p := fresh.Planning{Priced: policy, Budget: 5000, Pages: 60_000}
//	s := p.Site(fresh.SiteTerms{})
//	s.Add(&page)
//	plan := p.Plan() // and then s.Prior(), s.Every(plan.Price), s.Extra()
//
// The next one begins with what this one has learned: the prior of a site is to be
// that of its pages then, so that each pass brings it nearer to what they are like (see pool).
type Planning struct {
	Priced // whose Price is what is to be found

	// Budget is what may be spent in a day, in the unit of the costs. 0 or less means whatever is worth anything.
	Budget float64

	// Beside bounds what visits cost that an Eager crawler makes at any price, as a multiple of the Budget. 0 means
	// that nothing does. Plan.Beside is the price at which they come to that.
	Beside float64

	// Pages is how many are held, about: from them follows for how long one may be left alone.
	Pages int

	planner    Planner
	begun      bool
	sites      []*SitePlanning
	importance float64 // of all that were visited
	told       float64 // of those that are fetched beside the budget as soon as they change
	beside     Planner // of those
	due        float64 // what it costs in a day to fetch them as soon as they change
}

const (
	// What is believed of all pages counts for so many pages of a site, and what is
	// believed of the Web at large for so many of all.
	priorOf = 20

	// A page is left alone no longer than set, but as long as it takes for the visits that are made at any price
	// to be at most a fiftieth of the budget.
	fallbackShare = 50
)

// begin sets up the planner.
func (p *Planning) begin() {
	if p.begun {
		return
	}
	p.begun = true
	p.planner = Planner{Objective: p.Objective, Costs: p.Costs, Budget: p.Budget, Shortest: p.Shortest, Longest: p.rest(), Audit: p.Audit}
	p.beside = Planner{Objective: p.Objective, Costs: p.Costs, Budget: p.Beside * p.Budget, Shortest: p.Shortest, Longest: p.rest()}
}

// rest is how long a page is left alone at most.
func (p *Planning) rest() time.Duration {
	rest := p.longest()
	if p.Budget > 0 {
		rest = max(rest, duration(fallbackShare*float64(max(p.Pages, 0))*p.Visit(0)/p.Budget))
	}
	return rest
}

// A SitePlanning is what a Planning learns of one site.
type SitePlanning struct {
	planning *Planning
	demand   *siteDemand // nil: it is the sum of its pages
	curve    siteCurve
	pool     pool
	prior    Prior
	price    float64
}

// site begins a site. It takes 50 kB until it is closed if there is anything special about it: if the terms are not zero.
func (p *Planning) Site(t SiteTerms) *SitePlanning {
	p.begin()
	s := &SitePlanning{planning: p}
	if t.Manifest || t.Most > 0 {
		s.demand = p.planner.site(t)
	}
	p.sites = append(p.sites, s)
	return s
}

// Add adds a page of the site. It keeps nothing of it.
func (s *SitePlanning) Add(page *Page) {
	p := s.planning
	post := page.Posterior()
	s.pool.add(page, &post)
	if page.Visits > 0 {
		p.importance += bounded(page.Importance, math.MaxFloat32)
	}
	switch {
	case s.demand != nil:
		s.demand.add(page, &post)
	case p.Eager && page.Visits > 0 && page.Site != nil && page.Site.Tells && page.Site.Signal.obliges():
		p.told += bounded(page.Importance, math.MaxFloat32)
		p.planner.addAudits(page, &post) // and little else is due
		if p.Beside > 0 {
			costs := p.Costs.paid()
			p.due += post.Mean() * (costs.Header + costs.body(page)) * page.Site.Signal.Recall() / page.Site.Signal.Precision()
			p.beside.addBelieved(page, &post)
		}
	default:
		p.planner.addBelieved(page, &post)
	}
}

// Close says that no more pages come, so that less is kept. Plan closes what is open.
func (s *SitePlanning) Close() {
	if s.demand != nil {
		s.curve = s.demand.Close()
		s.demand = nil
	}
}

// Plan returns what the budget comes to for the pages so far.
func (p *Planning) Plan() Plan {
	p.begin()
	var all pool
	for _, s := range p.sites {
		s.Close()
		all.Merge(&s.pool)
	}
	plan := p.planner.Plan()
	web := all.Prior(Prior{}, priorOf)
	for _, s := range p.sites {
		s.prior, s.price = s.pool.Prior(web, priorOf), plan.Price
		s.planning = nil // what is kept of a site does not keep all others
	}
	if p.importance > 0 { // what is fetched as it changes is right
		rest := 1 - p.told/p.importance
		plan.Freshness = 1 - rest*(1-plan.Freshness)
		plan.Age *= rest
		if p.beside.pages > 0 {
			beside := p.beside.Plan()
			if plan.Beside = beside.Price; p.due > p.beside.Budget { // not all of it is
				plan.Freshness -= (1 - rest) * (1 - beside.Freshness)
				plan.Age += (1 - rest) * beside.Age
			}
		}
	}
	return plan
}

// Prior is what is believed of a page of the site before anything is observed of it, after Plan.
func (s *SitePlanning) Prior() Prior { return s.prior }

// Every is how many days pass between two looks at its manifest, as in siteCurve.Every, after Plan: at the
// price as it is trimmed by now, so that what is left over goes to manifests, too. Whether it is looked at is for the plan to say.
func (s *SitePlanning) Every(price float64) float64 {
	planned, every := s.curve.Every(s.price), s.curve.Every(price)
	if math.IsInf(planned, 1) || math.IsInf(every, 1) {
		return planned
	}
	return every
}

// Extra is what a request to the site costs above the price, for [Site.Extra], after Plan.
func (s *SitePlanning) Extra() float64 { return s.curve.Extra(s.price) }
