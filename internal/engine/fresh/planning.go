package fresh

import (
	"math"
	"time"
)

// A Planning is one pass over all pages of a crawler. It decides the price of visits, how often each manifest
// is polled, and the Prior of each site. The pages come in any order, and none is kept; a site takes 500 B,
// and one with terms of its own 50 kB until it is closed. A Planning makes one plan and is used by one
// goroutine.
//
//	p := fresh.Planning{Priced: policy, Budget: 5000, Pages: 60_000}
//	s := p.Site(fresh.SiteTerms{})
//	s.Add(&page, now)
//	plan := p.Plan() // and then s.Prior(), s.Every(plan.Price), s.Extra()
//
// The next pass begins with the result of this one: give each site's pages the prior learned for it, so that
// each pass brings it nearer to what they are like (see pool).
type Planning struct {
	Priced Priced // its Price is not used: the plan finds it

	// Budget is the limit of spending in a day, in the unit of the costs. 0 or less means every visit that
	// gains anything.
	Budget float64

	// OutsideBudget limits the cost of visits that an Eager crawler makes at any price, as a multiple of the Budget.
	// 0 means no limit. Plan.OutsideBudget is the price at which they cost that much.
	OutsideBudget float64

	// Others is the demand of the other crawlers if the budget is a common one, nil else. The price is then that at which all spend their budgets together.
	Others *Demand

	// Silence has the audits of all sites together, by which the plan finds the Audit of the policy. Nil: Priced.Audit is used unchanged.
	Silence *Audits

	// Outdated says when manifests are polled, whatever the price.
	Outdated Outdated

	// Pages is the approximate number of pages: it determines for how long one may be left alone.
	Pages int

	planner    *planner // nil: no site yet
	sites      []*SitePlanning
	added      int      // pages of sites that have no demand curve of their own
	alike      int      // how many of the last of them the next sample stands for
	importance float64  // of all that were visited
	announced  float64  // of those whose visits after a notice are charged to the budget, times the share of their changes that are announced
	told       float64  // of pages that are fetched outside the budget as soon as they change
	beside     *planner // of those
	due        float64  // what it costs in a day to fetch them as soon as they change
	right      *rightAfter
}

const (
	// Weight of the prior of all pages, in pages of a site, and of the prior of the Web at large, in pages of
	// all sites.
	priorOf = 20

	// A page is left alone no longer than set, or longer where the visits made at any price would otherwise
	// take more than a fiftieth of the budget.
	fallbackShare = 50

	// A budget of so many days is saved up for announced changes, times the share of all changes that are announced and whose visits are charged to it.
	savedDays = 100

	// After so many pages every second one stands for two, after twice as many every third for three, and so on: the error of the
	// price is far below what it is corrected by between two plans.
	sampled = 100_000
)

// begin sets up the planners.
func (p *Planning) begin() {
	if p.planner != nil {
		return
	}
	policy := p.Priced
	if p.Silence != nil && policy.Objective.Rule == "" {
		policy.Audit = p.Silence.share()
	}
	policy.Longest = policy.longest()
	if p.Budget > 0 {
		policy.Longest = max(policy.Longest, duration(fallbackShare*float64(max(p.Pages, 0))*policy.Costs.Visit(0)/p.Budget))
	}
	p.planner = newPlanner(policy, p.Budget)
	if p.Others != nil {
		p.planner.budget, p.planner.others = p.Budget+p.Others.Budget, p.Others
	}
	policy.Audit = 0
	p.beside = newPlanner(policy, p.OutsideBudget*p.Budget)
}

// A SitePlanning is one site within a Planning.
type SitePlanning struct {
	planning *Planning
	demand   *siteDemand // nil: the sum of its pages
	curve    siteCurve
	pool     pool
	outdated *outdatedSite // nil: its manifest is polled by the price, if it has one
	prior    Prior
	price    float64
}

// Site begins a site. With a limit or a manifest in t, the site takes 50 kB until it is closed.
func (p *Planning) Site(t SiteTerms) *SitePlanning {
	p.begin()
	s := &SitePlanning{planning: p}
	if t.Manifest && p.Outdated.Limit > 0 {
		if p.right == nil {
			p.right = newRightAfter()
		}
		s.outdated = &outdatedSite{Outdated: p.Outdated, right: p.right, shortest: days(p.Priced.shortest()), longest: days(p.Priced.longest())}
	}
	t.Manifest = t.Manifest && p.Priced.Objective.Rule == ""
	if t.Manifest || t.Most > 0 {
		s.demand = p.planner.site(t)
	}
	p.sites = append(p.sites, s)
	return s
}

// Add adds a page of the site, and returns its Page.Fresh at now. It keeps nothing of it.
func (s *SitePlanning) Add(page *Page, now time.Time) (fresh float64) {
	p := s.planning
	post := page.Posterior()
	if !p.Priced.Eager { // else the visits that notices ask for are not in the plan
		post = page.heardUntil(now)
	}
	fresh = page.fresh(&post, now)
	s.pool.add(page, &post)
	if page.Visits > 0 {
		p.importance += finite(page.Importance)
	}
	outside := p.Priced.Eager && page.Heeded() && page.Site.Tells && page.Site.Signal.trustsNotices()
	if source, told := page.source(); told && p.Priced.Objective.Rule == "" && !outside {
		p.announced += finite(page.Importance) * page.proven(source, 1)
	}
	if s.outdated != nil && page.Listed && page.Visits > 0 {
		s.outdated.add(&post)
	}
	if p.Priced.Objective.Rule != "" {
		unannounced := page.unannounced()
		page, post = &unannounced, unannounced.Posterior()
	}
	switch {
	case s.demand != nil:
		s.demand.add(page, &post)
	case outside:
		p.told += finite(page.Importance)
		p.planner.addAudits(page, &post) // little else is due
		if p.OutsideBudget > 0 {
			costs := p.beside.terms.costs
			p.due += post.Mean() * (costs.Header + costs.body(page)) * page.Site.Signal.Recall() / page.Site.Signal.Precision()
			p.beside.add(page, &post)
		}
	default:
		p.planner.count(page)
		p.added++
		if p.alike++; p.alike > p.added/sampled {
			p.planner.terms.add(page, &post, float64(p.alike), p.planner.floor, p.planner.all, false)
			p.alike = 0
		}
	}
	return fresh
}

// Close says that no more pages come, which frees memory. Plan closes the sites that are open.
func (s *SitePlanning) Close() {
	if s.demand != nil {
		s.curve = s.demand.Close()
		s.demand = nil
	}
}

// Plan returns the plan for the pages so far.
func (p *Planning) Plan() Plan {
	p.begin()
	var all pool
	for _, s := range p.sites {
		s.Close()
		all.Merge(&s.pool)
	}
	plan := p.planner.plan()
	web := all.Prior(Prior{}, priorOf)
	for _, s := range p.sites {
		s.prior, s.price = s.pool.Prior(web, priorOf), plan.Price
		s.planning = nil // so that a site that is kept does not keep all others
	}
	if p.importance > 0 { // a page that is fetched as it changes is right
		plan.Savings = savedDays * max(0, plan.Budget) * p.announced / p.importance
		rest := 1 - p.told/p.importance
		plan.Freshness = 1 - rest*(1-plan.Freshness)
		plan.Age *= rest
		if p.beside.pages > 0 {
			beside := p.beside.plan()
			if plan.OutsideBudget = beside.Price; p.due > p.beside.budget { // the budget beside is not enough for all of it
				plan.Freshness -= (1 - rest) * (1 - beside.Freshness)
				plan.Age += (1 - rest) * beside.Age
			}
		}
	}
	return plan
}

// Prior is the prior for a page of the site, after Plan.
func (s *SitePlanning) Prior() Prior { return s.prior }

// Every returns the number of days between two polls of the site's manifest, as siteCurve.Every does. It is called
// after Plan, with the price as it was adjusted since: so an unspent budget goes to manifests, too. Whether the
// manifest is polled at all was decided by Plan.
func (s *SitePlanning) Every(price float64) float64 {
	if s.outdated != nil {
		return s.outdated.every()
	}
	planned, every := s.curve.Every(s.price), s.curve.Every(price)
	if math.IsInf(planned, 1) || math.IsInf(every, 1) {
		return planned
	}
	return every
}

// Wait is Every as a duration: a day at most, so that new pages are found, unless an Outdated decides.
func (s *SitePlanning) Wait(price float64) time.Duration {
	every := s.Every(price)
	if s.outdated == nil || math.IsInf(every, 1) {
		every = min(every, 1)
	}
	return duration(every)
}

// Extra is what a request to the site costs above the price, for [Site.Extra], after Plan.
func (s *SitePlanning) Extra() float64 { return s.curve.Extra(s.price) }
