package sim

import (
	"math"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// A listed part is a site with a manifest, which names the pages that have changed since it was last polled.
//
// Then all its pages that are worth a visit begin anew: one that is named is visited at once, since to wait saves no
// visit, and of any other the copy is known to be right. Nothing that is learned before the next poll changes what is
// best until then. So the best of all policies polls at equal intervals, and visits a page at times fixed in advance
// between two polls, n times a gap apart, and at the end of a last gap if it is named. With the rate D, the value V of
// a copy until it changes (importance/D, less the price of the body), the price h of a header, and W = V - h, that is
// worth n V (1 - e^-(D gap)) - n h + W (1 - e^-(D last)), which is greatest where D last = D gap - ln(V/W).
type listed struct {
	pages    []polled
	named    bool    // its pages are visited when they are named, never between two polls
	manifest float64 // cost of a poll
	entry    float64 // of one entry, which a delta manifest has for every change
}

func newListed(w *World, site *Site, pages []int32, c Costs) *listed {
	l := &listed{manifest: c.Manifest}
	if site.Format == Delta {
		l.entry = c.Entry
	} else {
		l.manifest += float64(len(pages)) * c.Entry * (site.Format.entrySize() / gzipEntry)
	}
	for _, i := range pages {
		l.pages = append(l.pages, *newPolled(&w.Pages[i], fresh.Objective{Fresh: 1}, c))
	}
	return l
}

// A priced page of a manifest is what its visits are worth at a price.
type pricedPage struct {
	*polled
	value, worth float64 // V and W; no worth: it is given up
	saved        float64 // D x days by which the last gap is shorter: ln(V/W)
	apart        float64 // D x days between two visits, were there no manifest; +Inf: it is visited only when named
}

func (l *listed) priced(price float64) []pricedPage {
	list := make([]pricedPage, 0, len(l.pages))
	for i := range l.pages {
		p := pricedPage{polled: &l.pages[i], apart: math.Inf(1)}
		if p.Rate > 0 {
			p.value = p.Weight/p.Rate - price*p.body
		}
		if h := price * p.header; p.value > h {
			p.worth, p.saved = p.value-h, -math.Log1p(-h/p.value)
			if !l.named {
				p.apart = freshInverse(h / p.value)
			}
		}
		list = append(list, p)
	}
	return list
}

// visits returns the best number of visits from one poll to the next, the one at the end included, and what they are
// worth. With k of them that is k (W - V e^-((D interval + saved)/k)), which is concave in k.
func (p *pricedPage) visits(interval float64) (k, gain float64) {
	k, gain = 1, -p.worth*math.Expm1(-p.Rate*interval)
	x := p.Rate*interval + p.saved
	for _, n := range [...]float64{math.Floor(x / p.apart), math.Floor(x/p.apart) + 1} {
		if more := n * (p.worth - p.value*math.Exp(-x/n)); n > 1 && more > gain {
			k, gain = n, more
		}
	}
	return k, gain
}

// gap is the time from one visit to another between two polls, +Inf if there are none.
func (p *pricedPage) gap(interval float64) float64 {
	if k, _ := p.visits(interval); k > 1 {
		return (interval + p.saved/p.Rate) / k
	}
	return math.Inf(1)
}

// between is the outcome of the best visits to a page, with polls at an interval.
func (p *pricedPage) between(interval float64) outcome {
	switch {
	case p.Rate == 0:
		return p.every(1)
	case !(p.worth > 0):
		return p.never()
	}
	k, _ := p.visits(interval)
	gap := (interval + p.saved/p.Rate) / k
	last := gap - p.saved/p.Rate
	found, end := (1-k)*math.Expm1(-p.Rate*gap), -math.Expm1(-p.Rate*last)
	return outcome{
		spend: (p.header*(k-1+end) + p.body*(found+end)) / interval,
		fresh: p.Weight * (found + end) / (p.Rate * interval),
		age:   ((k-1)*gap*p.age(gap) + last*p.age(last)) / interval,
	}
}

func (l *listed) at(price float64) outcome {
	pages := l.priced(price)
	interval := l.interval(pages, price)
	var sum outcome
	for i := range pages {
		switch p := &pages[i]; {
		case !math.IsInf(interval, 1):
			sum.add(1, p.between(interval))
			sum.spend -= l.entry * math.Expm1(-p.Rate*interval) / interval
		case l.named:
			sum.add(1, p.every(interval))
		default:
			sum.add(1, p.at(price))
		}
	}
	sum.spend += l.manifest / interval
	return sum
}

// worth is what a day is worth with polls at an interval, and above what it is worth without any.
func (l *listed) worth(pages []pricedPage, price, interval float64) float64 {
	sum := -price * l.manifest
	for i := range pages {
		p := &pages[i]
		if p.worth > 0 {
			_, gain := p.visits(interval)
			sum += gain - p.alone()*interval
		}
		if l.entry > 0 {
			sum += price * l.entry * math.Expm1(-p.Rate*interval)
		}
	}
	return sum / interval
}

// alone is what the visits to a page are worth in a day without a manifest.
func (p *pricedPage) alone() float64 {
	if math.IsInf(p.apart, 1) {
		return 0
	}
	return p.Rate * p.value * math.Exp(-p.apart)
}

// interval is the best interval of polls at a price, +Inf if none is worth it.
func (l *listed) interval(pages []pricedPage, price float64) float64 {
	const step, longest = 1.3, 1e5
	first := l.intervalOfNamed(pages, price)
	if math.IsInf(first, 1) || l.named {
		return first
	}
	// Visits between polls make their best interval longer. Of so many intervals without a manifest, a poll saves the
	// visits of no more than saved: that is all that it can be worth.
	most := -price * l.manifest
	for i := range pages {
		if p := &pages[i]; p.worth > 0 {
			most += p.alone() * p.saved / p.Rate
		}
	}
	best, at := 0., math.Inf(1)
	for t := first; t < longest && t*best < most; t *= step {
		if w := l.worth(pages, price, t); w > best {
			best, at = w, t
		}
	}
	if math.IsInf(at, 1) {
		return at
	}
	low, high := math.Log(at/step), math.Log(at*step)
	for range 14 {
		a, b := high-(high-low)/math.Phi, low+(high-low)/math.Phi
		if l.worth(pages, price, math.Exp(a)) > l.worth(pages, price, math.Exp(b)) {
			high = b
		} else {
			low = a
		}
	}
	if t := math.Exp((low + high) / 2); l.worth(pages, price, t) > best {
		return t
	}
	return at
}

// gain is the gain of a poll of the manifest after an interval, relative to one a moment later, if pages are visited
// only when they are named: the sum of W R1(D t), less the cost of the entries.
func (l *listed) gain(pages []pricedPage, interval, price float64) (gain, slope float64) {
	for i := range pages {
		p := &pages[i]
		if unit := p.worth - price*l.entry; p.Rate > 0 && unit != 0 {
			x := p.Rate * interval
			e := math.Exp(-x)
			gain += unit * (1 - e*(1+x))
			slope += unit * x * e * p.Rate
		}
	}
	return gain, slope
}

// intervalOfNamed is the interval after which that gain is worth the cost of a poll, +Inf if it never is.
func (l *listed) intervalOfNamed(pages []pricedPage, price float64) float64 {
	const longest = 1e5
	need := price * l.manifest
	if most, _ := l.gain(pages, longest, price); most <= need {
		return math.Inf(1)
	}
	low, high, t := 0., longest, 1.
	for range 100 {
		gain, slope := l.gain(pages, t, price)
		if gain >= need {
			high = t
		} else {
			low = t
		}
		if high-low < 1e-9*high || math.Abs(gain-need) < 1e-12*need {
			break
		}
		// A Newton step in logarithms; the gain is about t^2 while t is short.
		next := t * math.Exp((math.Log(need)-math.Log(gain))/(slope*t/gain))
		if !(next > low && next < high) {
			next = math.Sqrt(max(low, 1e-9) * high)
		}
		t = next
	}
	return t
}
