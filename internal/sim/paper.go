package sim

import (
	"math"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// A paperResult is the result of one policy in one web, at several budgets.
type paperResult struct {
	Policy string
	Bound  bool // an upper bound, not a policy
	Cells  []paperCell
}

// A paperCell is a weighted freshness, and a weighted age in days.
type paperCell struct{ Budget, Fresh, Age float64 }

// PaperBudgets are those of the tables, in requests of each page a day.
func PaperBudgets() []float64 { return []float64{.05, .1, .2, .5} }

// A paperRow is a row of a table to be computed.
type paperRow struct {
	name  string
	bound bool
	cell  func(budget float64) paperCell
}

// paperTable computes a table. Without budgets it uses PaperBudgets.
func paperTable(rows []paperRow, budgets []float64) (table []paperResult) {
	if len(budgets) == 0 {
		budgets = PaperBudgets()
	}
	for _, r := range rows {
		row := paperResult{Policy: r.name, Bound: r.bound}
		for _, b := range budgets {
			row.Cells = append(row.Cells, r.cell(b))
		}
		table = append(table, row)
	}
	return table
}

// Paper computes the table of all periodic policies at known rates, in closed form: no run is needed. Ages
// are as in a Bound. Without budgets it uses PaperBudgets.
func Paper(w *World, budgets ...float64) []paperResult {
	freshness, harmonic, age := fresh.Objective{Fresh: 1}, fresh.Objective{Harmonic: 1}, fresh.Objective{Age: 1}
	equal := w.equallyImportant()
	return paperTable([]paperRow{
		{"uniform", false, w.byShare(evenly)},
		{"proportional to rate", false, w.byShare(byRate)},
		{"proportional to importance", false, w.byShare(byWeight)},
		{"CGM optimum, unweighted", false, func(b float64) paperCell {
			price := PollBound(equal, freshness, Costs{}, b).Price
			return w.periodic(b, func(i int) float64 { return byRequest(&equal.Pages[i]).interval(price) })
		}},
		{"thesis profit", false, w.byPrice(func(p *Page, price float64) float64 { return profitInterval(p, price, 0) })},
		{"thesis profit, 1 d apart", false, w.byPrice(func(p *Page, price float64) float64 { return profitInterval(p, price, 1) })},
		{"sqrt(mu D)", false, w.byShare(func(p *Page) float64 { return math.Sqrt(p.Weight * p.Rate) })},
		{"LambdaCrawl rates", false, w.byPrice(func(p *Page, price float64) float64 {
			return 2 / (math.Sqrt(p.Rate*p.Rate+4*p.Weight*p.Rate/price) - p.Rate)
		})},
		{"harmonic index", false, w.bound(harmonic, PollBound)},
		{"freshness = poll bound", true, w.bound(freshness, PollBound)},
		{"age = poll age bound", true, w.bound(age, PollBound)},
		{"push bound, freshness", true, w.bound(freshness, PushBound)},
		{"push bound, age", true, w.bound(age, PushBound)},
	}, budgets)
}

// PaperManifests computes the table of manifests: at fixed intervals, and priced. A cell whose budget the
// manifests alone exceed is NaN.
func PaperManifests(w *World, budgets ...float64) []paperResult {
	w = w.All(Site{Manifest: true})
	freshness := fresh.Objective{Fresh: 1}
	return paperTable([]paperRow{
		{"poll bound", true, w.bound(freshness, PollBound)},
		{"manifest 1 d fixed", false, w.timed(1)},
		{"manifest 6 h fixed", false, w.timed(.25)},
		{"manifest, priced", false, func(b float64) paperCell {
			parts, lists := webParts(w, freshness, Costs{Header: 1, Manifest: 1}, Listening{Manifest: true})
			for _, l := range lists {
				l.named = true
			}
			_, sum := solve(parts, b*float64(len(w.Pages)))
			return paperCell{b, sum.fresh, sum.age}
		}},
		{"manifest or polls = bound", true, func(b float64) paperCell {
			bound := ManifestBound(w, Costs{}, b)
			return paperCell{b, bound.Fresh, bound.Age}
		}},
		{"push bound", true, w.bound(freshness, PushBound)},
	}, budgets)
}

func (w *World) bound(o fresh.Objective, of func(*World, fresh.Objective, Costs, float64) Bound) func(float64) paperCell {
	return func(b float64) paperCell {
		bound := of(w, o, Costs{}, b)
		return paperCell{b, bound.Fresh, bound.Age}
	}
}

// equallyImportant is the same web with equal weights.
func (w *World) equallyImportant() *World {
	v := w.remade("", func(p *Page) { p.Weight = 1 })
	v.Normalize()
	return v
}

// byRequest is a page polled for freshness, at a cost of one for a visit.
func byRequest(p *Page) *polled { return newPolled(p, fresh.Objective{Fresh: 1}, Costs{Header: 1}) }

// periodic is the outcome of visits at intervals.
func (w *World) periodic(budget float64, interval func(page int) float64) paperCell {
	var sum outcome
	for i := range w.Pages {
		sum.add(1, byRequest(&w.Pages[i]).every(interval(i)))
	}
	return paperCell{budget, sum.fresh, sum.age}
}

// byShare gives every page its share of the visits.
func (w *World) byShare(share func(*Page) float64) func(float64) paperCell {
	return func(budget float64) paperCell {
		every := w.intervals(budget, share)
		return w.periodic(budget, func(i int) float64 { return every[i] })
	}
}

// intervals are the intervals at which every page has its share of the visits.
func (w *World) intervals(budget float64, share func(*Page) float64) []float64 {
	every, sum := make([]float64, len(w.Pages)), 0.
	for i := range w.Pages {
		every[i] = share(&w.Pages[i])
		sum += every[i]
	}
	for i := range every {
		every[i] = sum / (every[i] * budget * float64(len(w.Pages)))
	}
	return every
}

// byPrice visits every page at the interval that a price gives it.
func (w *World) byPrice(interval func(p *Page, price float64) float64) func(float64) paperCell {
	return func(budget float64) paperCell {
		of := func(i int, price float64) float64 { return interval(&w.Pages[i], price) }
		price := priceOf(len(w.Pages), budget, of)
		return w.periodic(budget, func(i int) float64 { return of(i, price) })
	}
}

// priceOf is the price at which a rule makes as many visits to n pages as the budget.
func priceOf(n int, budget float64, interval func(page int, price float64) float64) float64 {
	low, high := -60., 0.
	for range 50 {
		mid, visits := (low+high)/2, 0.
		price := math.Exp(mid)
		for i := range n {
			visits += 1 / interval(i, price)
		}
		if visits > budget*float64(n) {
			low = mid
		} else {
			high = mid
		}
	}
	return math.Exp(high)
}

// profitInterval is the interval after which the thesis's profit, mu (1 - e^(-D t)), reaches a threshold.
func profitInterval(p *Page, threshold, shortest float64) float64 {
	if p.Weight <= threshold {
		return math.Inf(1)
	}
	return max(shortest, -math.Log1p(-threshold/p.Weight)/p.Rate)
}

// timed polls all manifests at an interval, and fetches the pages that they name by gain, as far as the
// budget goes.
func (w *World) timed(interval float64) func(float64) paperCell {
	return func(budget float64) paperCell {
		left := budget*float64(len(w.Pages)) - float64(len(w.Sites))/interval
		if left < 0 {
			return paperCell{budget, math.NaN(), math.NaN()}
		}
		var parts []part
		for i := range w.Pages {
			parts = append(parts, &named{polled: *byRequest(&w.Pages[i]), interval: interval})
		}
		_, sum := solve(parts, left)
		return paperCell{budget, sum.fresh, sum.age}
	}
}

// A named page is in a manifest polled at equal intervals, free of cost.
type named struct {
	polled
	interval float64
}

func (n *named) at(price float64) outcome {
	if n.Rate > 0 && n.Weight/n.Rate < price {
		return n.never()
	}
	o := n.every(n.interval)
	o.spend *= -math.Expm1(-n.Rate * n.interval)
	return o
}
