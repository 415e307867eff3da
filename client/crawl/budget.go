package crawl

import (
	"math"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/fresh"
)

// budget returns the daily budget.
func (r *revisits) budget() float64 {
	if r.set.PerDay > 0 {
		return r.set.PerDay
	}
	each := r.set.PerPage
	if each <= 0 {
		each = perPage
	}
	return each * float64(max(r.held(), 1))
}

// held returns the number of stored pages.
func (r *revisits) held() (n int) {
	for s := range r.col.Sites() {
		n += s.Held
	}
	return n
}

// startPrice returns the price before the first plan: the last one of the previous run, if
// that had the same objective and costs, or else the price at which an unknown page
// would be visited as often as the budget allows for all.
func (r *revisits) startPrice() float64 {
	kept, _ := r.col.KeptPolicy()
	if p, ok := kept.(fresh.Priced); ok && p.Price > 0 && p.Objective == r.set.Policy.Objective && p.Costs == r.set.Policy.Costs {
		return p.Price
	}
	each := r.set.PerPage
	if each <= 0 {
		each = perPage
	}
	post := new(fresh.Prior).Under(&fresh.Belief{})
	const importance = 0.5
	return importance * r.set.Policy.Objective.At(&post, 1/each)
}

// setPrice sets the price of all decisions. The work's lock is held.
func (r *revisits) setPrice(price float64) {
	p := r.policy()
	p.Price, p.Longest = price, max(p.Longest, r.revisiting.plan.Longest)
	p.OutsideBudget = r.besidePrice()
	r.price = price
	r.col.SetPolicy(p)
}

// policy returns the policy of visits, without a price.
func (r *revisits) policy() fresh.Priced {
	p := r.set.Policy
	if p.Audit == 0 {
		p.Audit = auditShare
	}
	return p
}

// besides returns the extra budget for announced pages, as a multiple of the budget; 0 means no limit.
func (r *revisits) besides() float64 {
	switch b := r.set.OutsideBudget; {
	case b < 0:
		return 0
	case b == 0:
		return 1
	default:
		return b
	}
}

// besidePrice returns the least gain of a visit that is charged to the extra budget: 0 while at least half of that is left. The
// work's lock is held.
func (r *revisits) besidePrice() float64 {
	switch v, b := &r.revisiting, &r.revisiting.beside; {
	case r.besides() == 0 || b.Rate == 0 || b.Balance >= b.Burst/2:
		return 0
	case b.Balance <= 0 || v.plan.OutsideBudget == 0:
		return math.MaxFloat32
	default:
		return v.plan.OutsideBudget * b.Factor()
	}
}

// trim corrects the price by the balance of the budget. The work's lock is held.
func (r *revisits) trim(now time.Time) {
	v := &r.revisiting
	v.bucket.Earn(now.Sub(v.filled).Hours() / 24)
	v.beside.Earn(now.Sub(v.filled).Hours() / 24)
	v.filled = now
	if v.plan.Pages > 0 {
		r.setPrice(v.plan.Price * v.bucket.Factor())
	}
}

// fill sets the bucket's daily rate. When the bucket grows, half of the new room is
// filled, else the price would jump.
func (v *revisiting) fill(budget, visit float64) {
	burst := max(budget*burstDays, leastBurst*visit)
	v.bucket = fresh.Bucket{Rate: budget, Burst: burst, Balance: v.bucket.Balance + (burst-v.bucket.Burst)/2}
}

// fillBeside does the same for the extra budget. It is full at first, for sites that begin to publish their changes.
func (v *revisiting) fillBeside(budget, visit float64) {
	burst := max(budget*burstDays, leastTold*visit)
	v.beside = fresh.Bucket{Rate: budget, Burst: burst, Balance: v.beside.Balance + burst - v.beside.Burst}
}

// charge charges the budget for a visit. The work's lock is held.
func (r *revisits) charge(st *site, v *collection.Visit, d *collection.Visited) {
	if r.set == nil || d.Before.Visits == 0 || v.Status == 0 || v.Delivered {
		return
	}
	cost := r.set.Policy.Costs.Visit(max(v.Length, int64(len(v.Body))))
	if st.sources.listens() || !r.set.Policy.Owes(&fresh.Page{History: d.Before, Site: st.Belief}) { // visits that a manifest causes are in the plan
		r.spend(cost)
		return
	}
	was := d.Page
	was.History = d.Before
	r.spendTold(cost, st, was, v.Asked)
}

// spendTold charges a visit to an announced page; was is the page before the visit. It charges the extra budget, or the
// normal one if the extra one is empty, or if the visit was worth the normal price only. The work's lock is held.
func (r *revisits) spendTold(cost float64, st *site, was collection.Page, at time.Time) {
	v, price := &r.revisiting, r.besidePrice()
	if price > 0 {
		p := r.col.Believed(&was, &st.Site)
		if profit := r.policy().Profit(&p, at); v.beside.Balance <= 0 || profit < price && profit >= r.price {
			r.spend(cost)
			return
		}
	}
	if v.beside.Spend(cost); price != r.besidePrice() && v.plan.Pages > 0 {
		r.setPrice(r.price)
	}
}

// spend charges the budget. The work's lock is held.
func (r *revisits) spend(cost float64) { r.revisiting.bucket.Spend(cost) }
