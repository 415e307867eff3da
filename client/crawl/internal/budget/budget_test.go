package budget_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/budget"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/must"
)

// Visits that are begun and not made raise the price meanwhile, and leave it as it was.
func TestVisitsThatAreNotMadeCostNothing(t *testing.T) {
	policy := fresh.Priced{Objective: fresh.Objective{Fresh: 1}}
	col, err := collection.Open(t.TempDir(), &collection.Options{Strategy: frontier.BreadthFirst{}, Policy: policy})
	must.OK(t, err)
	defer col.Close()
	b := budget.New(&budget.Options{PerDay: 10, Policy: policy}, col)
	price := func() float64 {
		f, _ := b.Figures()
		return f.Price
	}
	b.Begin(1, 5) // before the first plan
	b.Planned(fresh.Plan{Price: 1, Pages: 100}, time.Now(), 100, 1, 0)
	b.Return(1)
	before := price()
	for page := range frontier.PageID(1000) {
		b.Begin(page, 1)
		b.Begin(page, 1)
	}
	if price() < 10*before {
		t.Errorf("with 1000 visits begun, a price of %g became %g", before, price())
	}
	for page := range frontier.PageID(1000) {
		b.Return(page)
		b.Return(page)
	}
	if price() != before {
		t.Errorf("after they were given up, a price of %g became %g", before, price())
	}
}

// What is saved for announced changes outlasts the crawler, and grows while none runs.
func TestSavingsOutlastTheCrawler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := fresh.Priced{Objective: fresh.Objective{Fresh: 1}}
		col, err := collection.Open(t.TempDir(), &collection.Options{Strategy: frontier.BreadthFirst{}, Policy: policy})
		must.OK(t, err)
		defer col.Close()
		plan := func(b *budget.Budget) (all, announced float64) {
			b.Planned(fresh.Plan{Price: 1, Pages: 100, Savings: 1000}, time.Now(), 100, 1, 0)
			p := col.Revisits().Policy().(fresh.Priced)
			return p.Price, p.Announced
		}
		for range 2 {
			b := budget.New(&budget.Options{PerDay: 10, Policy: policy}, col)
			plan(b)
			time.Sleep(3 * 24 * time.Hour)
			b.Correct(time.Now())
			must.OK(t, b.Keep())
			time.Sleep(3 * 24 * time.Hour)
		}
		b := budget.New(&budget.Options{PerDay: 10, Policy: policy}, col)
		if all, announced := plan(b); !(all > .35 && all < .37 && announced > .13 && announced < .14) { // 1/e and 1/e² of the plan's
			t.Errorf("after 12 days a visit costs %g, one to an announced page %g", all, announced)
		}
		b.Spend(120)
		if p := col.Revisits().Policy().(fresh.Priced); !(p.Price > .9) || p.Announced != p.Price {
			t.Errorf("after a burst a visit costs %g, one to an announced page %g", p.Price, p.Announced)
		}
		time.Sleep(12 * 24 * time.Hour)
		b.Correct(time.Now())
		b.Set(.1, 0)
		plan(b)
		b.Spend(32)
		if p := col.Revisits().Policy().(fresh.Priced); !(p.Price > .9) {
			t.Errorf("with a hundredth of the budget, what was saved is spent as before: a visit costs %g", p.Price)
		}
	})
}
