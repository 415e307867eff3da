package crawl

import (
	"math"
	"sync"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/fresh"
)

// A budget is what visits may cost, and the price that follows from the last plan and from what is left. It sets the policy of
// the collection, and takes no lock of another part of the crawl under its own.
type budget struct {
	set *revisitBudget
	col *collection.Collection

	mu     sync.Mutex // guards the rest
	plan   fresh.Plan
	at     time.Time // when the plan was made; zero: there is none
	took   time.Duration
	bucket fresh.Bucket
	beside fresh.Bucket
	filled time.Time // when the buckets were last filled
	price  float64   // of a request, in gain; 0 if unknown

	fresh   float64 // estimated share of fresh copies, weighted by importance, when the plan was made
	unknown int     // copies of sites that gave no answer then, which do not count
}

// perDay returns the daily budget for so many stored pages.
func (b *budget) perDay(stored int) float64 {
	if b.set.PerDay > 0 {
		return b.set.PerDay
	}
	return b.perPage() * float64(max(stored, 1))
}

func (b *budget) perPage() float64 {
	if b.set.PerPage > 0 {
		return b.set.PerPage
	}
	return perPage
}

// start sets the price before the first plan: the last one of the previous run, if
// that had the same objective and costs, or else the price at which an unknown page
// would be visited as often as the budget allows for all.
func (b *budget) start() {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept, _ := b.col.KeptPolicy()
	if p, ok := kept.(fresh.Priced); ok && p.Price > 0 && p.Objective == b.set.Policy.Objective && p.Costs == b.set.Policy.Costs {
		b.setPrice(p.Price)
		return
	}
	post := new(fresh.Prior).Under(&fresh.Belief{})
	const importance = 0.5
	b.setPrice(importance * b.set.Policy.At(&post, 1/b.perPage()))
}

// setPrice sets the price of all decisions. The lock is held.
func (b *budget) setPrice(price float64) {
	p := b.policy()
	p.Price, p.Longest = price, max(p.Longest, b.plan.Longest)
	p.OutsideBudget = b.outsidePrice()
	b.price = price
	b.col.SetPolicy(p)
}

// policy returns the policy of visits, without a price.
func (b *budget) policy() fresh.Priced {
	p := b.set.Policy
	if p.Audit == 0 {
		p.Audit = auditShare
	}
	return p
}

// besides returns the extra budget for announced pages, as a multiple of the budget; 0 means no limit.
func (b *budget) besides() float64 {
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
func (b *budget) outsidePrice() float64 {
	switch x := &b.beside; {
	case b.besides() == 0 || x.Rate == 0 || x.Balance >= x.Burst/2:
		return 0
	case x.Balance <= 0 || b.plan.OutsideBudget == 0:
		return math.MaxFloat32
	default:
		return b.plan.OutsideBudget * x.Factor()
	}
}

// planned takes over a plan that was begun at a time, for so many stored pages. fresh and unknown are those of the budget.
func (b *budget) planned(plan fresh.Plan, began time.Time, stored int, fresh float64, unknown int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.filled.IsZero() {
		b.filled = began
	}
	day, visit := b.perDay(stored), b.set.Policy.Costs.Visit(middling)
	b.fill(day, visit)
	b.fillBeside(b.besides()*day, visit)
	b.plan, b.at, b.fresh, b.unknown = plan, began, fresh, unknown
	b.trim(time.Now())
}

// correct corrects the price by the balance of the budget.
func (b *budget) correct(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trim(now)
}

func (b *budget) trim(now time.Time) {
	b.bucket.Earn(now.Sub(b.filled).Hours() / 24)
	b.beside.Earn(now.Sub(b.filled).Hours() / 24)
	b.filled = now
	if b.plan.Pages > 0 {
		b.setPrice(b.plan.Price * b.bucket.Factor())
	}
}

// fill sets the bucket's daily rate. When the bucket grows, half of the new room is
// filled, else the price would jump.
func (b *budget) fill(day, visit float64) {
	burst := max(day*burstDays, leastBurst*visit)
	b.bucket = fresh.Bucket{Rate: day, Burst: burst, Balance: b.bucket.Balance + (burst-b.bucket.Burst)/2}
}

// fillBeside does the same for the extra budget. It is full at first, for sites that begin to publish their changes.
func (b *budget) fillBeside(day, visit float64) {
	burst := max(day*burstDays, leastTold*visit)
	b.beside = fresh.Bucket{Rate: day, Burst: burst, Balance: b.beside.Balance + burst - b.beside.Burst}
}

// spend charges the budget.
func (b *budget) spend(cost float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bucket.Spend(cost)
}

// spendOutside charges a visit to an announced page to the extra budget, or to the normal one if the extra one is empty, or if
// the visit was worth the normal price only. gain returns what the visit was expected to gain.
func (b *budget) spendOutside(cost float64, gain func() float64) {
	b.mu.Lock()
	least, price, empty := b.outsidePrice(), b.price, b.beside.Balance <= 0
	b.mu.Unlock()
	if least > 0 {
		if empty {
			b.spend(cost)
			return
		}
		if gain := gain(); gain < least && gain >= price {
			b.spend(cost)
			return
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.beside.Spend(cost); least != b.outsidePrice() && b.plan.Pages > 0 {
		b.setPrice(b.price)
	}
}

// figures returns the figures of the last plan; nil if there is none.
func (b *budget) figures() *Revisits {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at.IsZero() {
		return nil
	}
	return &Revisits{Planned: b.at, Took: b.took.Seconds(), Price: b.price, Budget: b.bucket.Rate, Spend: b.plan.Spend, Beside: b.beside.Rate, Left: b.beside.Balance,
		Requests: b.plan.Requests, Fresh: b.fresh, Unknown: b.unknown, Freshness: b.plan.Freshness, Age: b.plan.Age}
}
