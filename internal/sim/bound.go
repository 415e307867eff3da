package sim

import (
	"math"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// A Bound is the optimum over all policies that spend a budget on average, if they know the true rates and
// the changes are Poisson's. Every day may spend any part of the budget, which is more than a real policy can
// do.
type Bound struct {
	Price float64 // at which a unit of cost is worth spending
	Spend float64 // per page and day: the budget, or less if more would gain nothing
	Fresh float64
	Age   float64 // in days, of the optimum by the objective
}

// starved is the interval, in days, at which the ages in a Bound count a page as visited that is visited less
// often or never: else its age would be infinite.
const starved = 365.

// A Listening says which of the sites' channels a bound uses.
type Listening struct{ Manifest, Push bool }

// hears reports whether the pushes of a site are used, and polls whether its manifest is: not if it pushes.
func (l Listening) hears(s *Site) bool { return l.Push && s.Push }
func (l Listening) polls(s *Site) bool { return l.Manifest && s.Manifest && !l.hears(s) }

// PollBound is the bound of crawlers that only visit pages: the KKT conditions of Cho and Garcia-Molina (TODS
// 2003), weighted, for any objective.
func PollBound(w *World, o fresh.Objective, c Costs, budget float64) Bound {
	return WebBound(w, o, c, budget, Listening{})
}

// ManifestBound is the bound of polled manifests: each site's is polled at the best interval, its pages are visited
// when it names them, if that is worth it, and between two polls as often as that is worth it. See listed.
func ManifestBound(w *World, c Costs, budget float64) Bound {
	return WebBound(w, fresh.Objective{Fresh: 1}, c, budget, Listening{Manifest: true})
}

// PushBound is the bound of crawlers that are told of every change at once, by all sites: freshness is linear
// in the spending on a page, so it is a fractional knapsack.
func PushBound(w *World, o fresh.Objective, c Costs, budget float64) Bound {
	return WebBound(w.All(Site{Push: true}), o, c, budget, Listening{Push: true})
}

// WebBound is the bound of a web with sites of any kind: one price over all. Sites that push noisily are
// bounded by the threshold of the noisy index (Busa-Fekete et al., WWW 2025). Manifests are taken to name all changes at once and nothing
// else, and lag is ignored: more is known then than is, so it is a bound of worse manifests, too. Manifests and noisy pushes are used for the objective Fresh alone: for others those
// sites are polled.
func WebBound(w *World, o fresh.Objective, c Costs, budget float64, l Listening) Bound {
	parts, _ := webParts(w, plain(o), priced(c), l)
	n := float64(len(w.Pages))
	price, sum := solve(parts, budget*n)
	return Bound{Price: price, Spend: sum.spend / n, Fresh: sum.fresh, Age: sum.age}
}

// webParts returns the parts of a web, and those that are sites with manifests by site.
func webParts(w *World, o fresh.Objective, c Costs, l Listening) (parts []part, lists []*listed) {
	lists = make([]*listed, len(w.Sites))
	known := shapes{}
	for s, pages := range w.bySite() {
		site := &w.Sites[s]
		freshness := o.Harmonic == 0 && o.Age == 0
		if l.polls(site) && freshness {
			lists[s] = newListed(w, site, pages, c)
			parts = append(parts, lists[s])
			continue
		}
		for _, i := range pages {
			p := &w.Pages[i]
			poll := newPolled(p, o, c)
			switch {
			case p.Rate == 0 || p.Weight == 0: // nothing to gain
				parts = append(parts, poll)
			case l.hears(site) && site.perfect() && o.Harmonic == 0:
				parts = append(parts, &pushed{polled: *poll})
			case l.hears(site) && freshness:
				parts = append(parts, known.newNoisy(poll, site))
			default:
				parts = append(parts, poll)
			}
		}
	}
	return parts, lists
}

// plain returns an objective with the defaults of package fresh.
func plain(o fresh.Objective) fresh.Objective {
	o.Fresh, o.Harmonic, o.Age = max(0, o.Fresh), max(0, o.Harmonic), max(0, o.Age)
	if o == (fresh.Objective{}) {
		o.Harmonic = 1
	}
	return o
}

// An outcome is the spending of a day, with the weighted freshness and age that result.
type outcome struct{ spend, fresh, age float64 }

func (o *outcome) add(by float64, p outcome) {
	o.spend += by * p.spend
	o.fresh += by * p.fresh
	o.age += by * p.age
}

// A part of a web computes its optimum at a price.
type part interface{ at(price float64) outcome }

func total(parts []part, price float64) (sum outcome) {
	for _, p := range parts {
		sum.add(1, p.at(price))
	}
	return sum
}

// solve finds the price at which all parts together spend a budget. Where the spending jumps, the jump is
// made in part: an outcome between two others results from using each for part of the time.
func solve(parts []part, budget float64) (price float64, sum outcome) {
	const highest, lowest, near = 1e9, 1e-15, 1e-6
	low, high := math.Log(lowest), math.Log(highest)
	dear, cheap := total(parts, highest), total(parts, lowest)
	if cheap.spend <= budget {
		return 0, cheap
	}
	for i := range 100 {
		// Between two prices the spending is about a power of the price; every other step is a bisection.
		mid := (low + high) / 2
		if i%2 == 1 && dear.spend > 0 {
			by := math.Log(cheap.spend/budget) / math.Log(cheap.spend/dear.spend)
			mid = low + (high-low)*min(max(by, .02), .98)
		}
		if o := total(parts, math.Exp(mid)); o.spend > budget {
			low, cheap = mid, o
		} else {
			high, dear = mid, o
		}
		if cheap.spend-dear.spend < near*budget || high-low < 1e-9 {
			break
		}
	}
	by := 1.
	if cheap.spend > dear.spend {
		by = (budget - dear.spend) / (cheap.spend - dear.spend)
	}
	by = min(max(by, 0), 1)
	sum.add(1-by, dear)
	sum.add(by, cheap)
	return math.Exp(high), sum
}

// A polled page is visited at equal intervals.
type polled struct {
	*Page
	o            fresh.Objective
	header, body float64 // cost of every visit, and of one that finds a change
}

func newPolled(p *Page, o fresh.Objective, c Costs) *polled {
	return &polled{Page: p, o: o, header: c.Header, body: c.Body * p.units()}
}

// units is the length of the page in pages of the usual size.
func (p *Page) units() float64 {
	if p.Bytes > 0 {
		return p.Bytes / pageSize
	}
	return 1
}

func (p *polled) at(price float64) outcome {
	return p.every(p.interval(price))
}

// interval is the best time between two visits at a price, +Inf if none is worth it.
func (p *polled) interval(price float64) float64 {
	if p.Rate == 0 || p.Weight == 0 {
		return math.Inf(1)
	}
	unit := p.Weight / p.Rate
	need := price * p.header
	x := math.Inf(1)
	switch f, h, a := unit*p.o.Fresh-price*p.body, unit*p.o.Harmonic, unit/p.Rate*p.o.Age; {
	case h == 0 && a == 0:
		if f > need {
			x = freshInverse(need / f)
		}
	case f == 0 && a == 0:
		x = staleInverse(need / h)
	case f == 0 && h == 0:
		x = ageInverse(need / a)
	default:
		x = mixedInverse(f, h, a, need)
	}
	return x / p.Rate
}

// index is the gain of a visit after a time, for a unit of cost.
func (p *polled) index(age float64) float64 {
	x := p.Rate * age
	gain := p.o.Fresh*freshPart(x) + p.o.Harmonic*stalePart(x) + p.o.Age/p.Rate*agePart(x)
	return p.Weight / p.Rate * gain / (p.header - p.body*math.Expm1(-x))
}

// every is the outcome of visits at a given interval.
func (p *polled) every(interval float64) outcome {
	x := p.Rate * interval
	switch {
	case p.Rate == 0:
		return outcome{fresh: p.Weight}
	case math.IsInf(interval, 1):
		return p.never()
	}
	changed := -math.Expm1(-x)
	return outcome{
		spend: (p.header + p.body*changed) / interval,
		fresh: p.Weight * fresh.MeanFresh(p.Rate, interval),
		age:   p.age(interval),
	}
}

// age is the weighted age at a given interval of visits.
func (p *Page) age(interval float64) float64 {
	return p.Weight * fresh.MeanAge(p.Rate, min(interval, starved))
}

// never is the outcome for a page that is never visited.
func (p *Page) never() outcome { return outcome{age: p.age(starved)} }

// A pushed page's changes are all told at once. It is fetched some time later, if at all.
type pushed struct{ polled }

func (p *pushed) at(price float64) outcome {
	cost := price * (p.header + p.body)
	unit := p.Weight / p.Rate
	if p.o.Age == 0 {
		if unit*p.o.Fresh < cost {
			return p.never()
		}
		return outcome{spend: p.Rate * (p.header + p.body), fresh: p.Weight}
	}
	wait := p.wait(price)
	cycle := 1/p.Rate + wait
	return outcome{
		spend: (p.header + p.body) / cycle,
		fresh: p.Weight * (1 - wait/cycle),
		age:   min(p.Weight*wait*wait/2/cycle, p.never().age),
	}
}

// wait is how long the page is left wrong, +Inf if for ever: mu (f/D + a (d^2/2 + d/D)) = price x cost.
func (p *pushed) wait(price float64) float64 {
	rest := price*(p.header+p.body)/p.Weight - (p.o.Fresh+p.o.Harmonic)/p.Rate
	switch {
	case rest <= 0:
		return 0
	case p.o.Age == 0:
		return math.Inf(1)
	}
	return math.Sqrt(1/(p.Rate*p.Rate)+2*rest/p.o.Age) - 1/p.Rate
}
