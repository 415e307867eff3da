// Package budget limits what visits may cost, and finds the price that follows.
package budget

import (
	"cmp"
	"math"
	"sync"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// Options are a budget for revisits. Plans find the price at which the budget is spent, and every decision uses that price.
type Options struct {
	Policy fresh.Priced // whose Price and Audit the planner sets

	// The budget, in the unit of the policy's costs: requests, or 20 kB.
	PerDay  float64 // of all pages; 0 means PerPage
	PerPage float64 // a day for each stored page; 0 means 0.1

	// OutsideBudget is the extra budget for visits to pages that sites announce, as a multiple of the budget, where
	// the Policy is Eager. 0 means 1; negative means no limit. Beyond it, the most valuable pages go first.
	OutsideBudget float64

	// Market is where this crawler and others that have the budget in common find its price; nil if there are no others.
	Market fresh.Market

	// Outdated polls manifests by the probability that their site is outdated, not by the price.
	Outdated fresh.Outdated

	// Every is the time between two plans, which compute the price. Zero means an
	// hour. It is shorter while a crawl is young, and longer where plans would take
	// more than a twentieth of the time.
	Every time.Duration
}

const (
	leastTold = 100 // visits to announced pages that can be saved up in the extra budget, or what it is in a day
	perPage   = 0.1
)

// A Budget is what visits may cost, and the price that follows from the last plan and from what is left. It sets the policy of
// the collection. It is safe for concurrent use, and takes no lock of another part of the crawl under its own, but that of its Market.
type Budget struct {
	col *collection.Collection

	mu     sync.Mutex // guards the rest
	set    Options
	plan   fresh.Plan
	bucket fresh.Bucket
	beside fresh.Bucket
	filled time.Time                   // when the buckets were last filled
	begun  map[frontier.PageID]float64 // what visits that are being made will cost
	open   float64                     // their sum
	price  float64                     // of a request, in gain
	stale  bool                        // the budget was changed since the last plan was begun
	last   Figures                     // Planned (zero: there is no plan), Fresh and Unknown
}

// New returns a budget with the price before the first plan: the last one of the previous run, with what was left, if
// that had the same objective and costs, or else the price at which an unknown page
// would be visited as often as the budget allows for all.
func New(set *Options, col *collection.Collection) *Budget {
	b := &Budget{set: *set, col: col, begun: map[frontier.PageID]float64{}}
	kept, left, at := col.Revisits().Kept()
	if p, ok := kept.(fresh.Priced); ok && p.Price > 0 && p.Objective == set.Policy.Objective && p.Costs == set.Policy.Costs {
		b.bucket, b.filled, b.plan.Audit = left, at, p.Audit
		b.setPrice(p.Price, 0)
		return b
	}
	post := new(fresh.Prior).Under(&fresh.Belief{})
	b.setPrice(.5*set.Policy.Objective.At(&post, 1/b.perPage()), 0)
	return b
}

// Planning returns a plan to which so many stored pages are to be added.
func (b *Budget) Planning(stored int) *fresh.Planning {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stale = false
	p := &fresh.Planning{Priced: b.set.Policy, Budget: b.perDay(stored), Pages: stored, OutsideBudget: b.besides(), Outdated: b.set.Outdated}
	if b.set.Market != nil {
		p.Others = new(b.set.Market.Others())
	}
	return p
}

// Set replaces PerDay and PerPage of the options. The next plan finds the price.
func (b *Budget) Set(perDay, perPage float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stale = b.stale || b.set.PerDay != perDay || b.set.PerPage != perPage
	b.set.PerDay, b.set.PerPage = perDay, perPage
}

// Stale reports whether the budget was changed since the last plan was begun.
func (b *Budget) Stale() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stale
}

// perDay returns the daily budget for so many stored pages.
func (b *Budget) perDay(stored int) float64 {
	if b.set.PerDay > 0 {
		return b.set.PerDay
	}
	return b.perPage() * float64(max(stored, 1))
}

func (b *Budget) perPage() float64 {
	if b.set.PerPage > 0 {
		return b.set.PerPage
	}
	return perPage
}

// setPrice sets the price of all decisions, and that of visits to announced pages. The lock is held.
func (b *Budget) setPrice(price, announced float64) {
	p := b.set.Policy
	p.Price, p.Announced, p.Longest, p.Audit = price, announced, max(p.Longest, b.plan.Longest), b.plan.Audit
	p.OutsideBudget = b.outsidePrice()
	b.price = price
	b.col.Revisits().SetPolicy(p)
}

// besides returns the extra budget for announced pages, as a multiple of the budget; 0 means no limit.
func (b *Budget) besides() float64 {
	switch x := b.set.OutsideBudget; {
	case x < 0:
		return 0
	case x == 0:
		return 1
	default:
		return x
	}
}

// outsidePrice returns the least gain of a visit that is charged to the extra budget: 0 while at least half of that is left. The
// lock is held.
func (b *Budget) outsidePrice() float64 {
	switch x := &b.beside; {
	case b.besides() == 0 || x.Rate == 0 || x.Balance >= x.Burst/2:
		return 0
	case x.Balance <= 0 || b.plan.OutsideBudget == 0:
		return math.MaxFloat32
	default:
		all, _ := x.Factors()
		return b.plan.OutsideBudget * all
	}
}

// Planned takes over a plan that was begun at a time, for so many stored pages. right is the share of fresh copies, and unknown the number of those that do not count.
func (b *Budget) Planned(plan fresh.Plan, began time.Time, stored int, right float64, unknown int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.filled.IsZero() {
		b.filled = began
	}
	day := cmp.Or(plan.Budget, b.perDay(stored))
	fill(&b.bucket, day, fresh.Burst(day), .5) // if all were filled as the bucket grows, the price would jump
	b.bucket.Savings = plan.Savings
	day = b.perDay(stored) * b.besides()
	fill(&b.beside, day, max(day, leastTold), 1) // for sites that begin to publish their changes
	since := began.Sub(cmp.Or(b.last.Planned, began))
	b.plan, b.last = plan, Figures{Planned: began, Fresh: right, Unknown: unknown}
	b.trim(time.Now())
	if b.set.Market == nil {
		return
	}
	others := b.set.Market.Others().Left
	plan.Demand.Left = b.bucket
	b.set.Market.Bid(plan.Demand)
	b.bucket.Pool(&others, since.Hours()/24)
	b.adjust()
}

// Keep stores the price and what is left for the next run, once there is a plan.
func (b *Budget) Keep() error {
	b.mu.Lock()
	left := b.bucket
	b.mu.Unlock()
	if left.Rate == 0 {
		return nil
	}
	return b.col.Revisits().Keep(left)
}

// Correct corrects the price by the balance of the budget.
func (b *Budget) Correct(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trim(now)
}

func (b *Budget) trim(now time.Time) {
	days := now.Sub(b.filled).Hours() / 24
	b.bucket.Earn(days)
	b.beside.Earn(days)
	b.filled = now
	b.adjust()
}

// adjust sets the price by the balance. The lock is held.
func (b *Budget) adjust() {
	if b.plan.Pages > 0 {
		left := b.bucket
		left.Balance -= b.open
		all, announced := left.Factors()
		b.setPrice(b.plan.Price*all, b.plan.Price*announced)
	}
}

// fill sets what a bucket gets in a day and can hold, and fills a part of the room that it gains. If it becomes smaller, it keeps as many days' budget.
func fill(b *fresh.Bucket, day, burst, part float64) {
	balance := min(b.Balance, b.Burst)
	saved := b.Balance - balance
	if balance += part * (burst - b.Burst); burst < b.Burst {
		balance = min(b.Balance, b.Burst) * burst / b.Burst
	}
	if day < b.Rate/2 { // somebody has set it: a share of a common budget changes a little with each plan
		saved *= day / b.Rate
	}
	*b = fresh.Bucket{Rate: day, Burst: burst, Balance: balance + saved}
}

// Spend charges the budget. The next decision is at the price that follows.
func (b *Budget) Spend(cost float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bucket.Spend(cost)
	b.adjust()
}

// Begin sets aside what a visit to a page will cost before it is made, until Return.
func (b *Budget) Begin(page frontier.PageID, cost float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open += cost - b.begun[page]
	b.begun[page] = cost
	b.adjust()
}

// Return is for a page that is no longer being visited. Where it was, Spend charges what that cost.
func (b *Budget) Return(page frontier.PageID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open -= b.begun[page]
	if delete(b.begun, page); len(b.begun) == 0 {
		b.open = 0 // without what rounding has left
	}
	b.adjust()
}

// SpendOutside charges a visit to an announced page to the extra budget, or to the normal one if the extra one is empty, or if
// the visit was worth the normal price only. gain returns what the visit was expected to gain under a policy.
func (b *Budget) SpendOutside(cost float64, gain func(fresh.Priced) float64) {
	b.mu.Lock()
	least, price, empty, policy := b.outsidePrice(), b.price, b.beside.Balance <= 0, b.set.Policy
	b.mu.Unlock()
	if least > 0 {
		if gain := gain(policy); empty || gain < least && gain >= price {
			b.Spend(cost)
			return
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.beside.Spend(cost); least != b.outsidePrice() {
		b.adjust()
	}
}

// Figures are those of the last plan of revisits.
type Figures struct {
	Planned   time.Time `json:"planned"`
	Took      float64   `json:"took"`   // seconds; not set by a Budget
	Price     float64   `json:"price"`  // now
	Budget    float64   `json:"budget"` // per day, like the next two
	Spend     float64   `json:"spend"`  // expected
	Beside    float64   `json:"beside"` // the extra budget for announced pages, 0: no limit
	Left      float64   `json:"left"`   // the balance of that budget
	Requests  float64   `json:"requests"`
	Fresh     float64   `json:"fresh"`     // estimated share of fresh copies then, by importance, without those of sites in trouble
	Unknown   int       `json:"unknown"`   // copies of sites that gave no answer then
	Freshness float64   `json:"freshness"` // expected in the long run
	Age       float64   `json:"age"`       // expected days for which copies are outdated, on average
}

// Figures returns the figures of the last plan; false means that there is none yet.
func (b *Budget) Figures() (f Figures, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f = b.last
	f.Price, f.Budget, f.Spend, f.Beside, f.Left = b.price, b.bucket.Rate, b.plan.Spend, b.beside.Rate, b.beside.Balance
	f.Requests, f.Freshness, f.Age = b.plan.Requests, b.plan.Freshness, b.plan.Age
	return f, !f.Planned.IsZero()
}
