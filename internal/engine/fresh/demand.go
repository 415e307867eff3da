package fresh

import "math"

// Prices are binned by their logarithm, from e^-72 to e^36: no gain that is a number of days lies outside.
const (
	priceStep = logStep / 2
	prices    = 470
	cheapest  = -72.
)

// An amount is the cost of visits and the staleness that they leave, on average over time.
type amount struct {
	spend    float64 // cost a day
	requests float64 // requests a day
	stale    float64 // importance x share of time in which the copy is outdated
	age      float64 // importance x days outdated
	loss     float64 // importance x cost of the objective, where it is computed
}

func (a *amount) add(share float64, b amount) {
	a.spend += share * b.spend
	a.requests += share * b.requests
	a.stale += share * b.stale
	a.age += share * b.age
	a.loss += share * b.loss
}

func (a amount) less(b amount) amount { return a.plus(-1, b) }

func (a amount) plus(share float64, b amount) amount {
	a.add(share, b)
	return a
}

// within makes an amount no less, and no staler, than another.
func (a amount) within(least *amount) amount {
	return amount{spend: max(a.spend, least.spend), requests: max(a.requests, least.requests),
		stale: min(a.stale, least.stale), age: min(a.age, least.age), loss: min(a.loss, least.loss)}
}

// A demand is what is bought at each price: at a given price, base and all bins above it.
type demand struct {
	base  amount
	bins  [prices]amount
	first int // bins below are empty
	last  int // bins above are empty; -1: all are
}

func newDemand() *demand { return &demand{first: prices, last: -1} }

// clear empties d for reuse.
func (d *demand) clear() {
	if d.first <= d.last {
		clear(d.bins[d.first : d.last+1])
	}
	d.base, d.first, d.last = amount{}, prices, -1
}

// place is the position of a price among the bins.
func place(price float64) float64 {
	switch {
	case !(price > least):
		return 0
	case !(price < most):
		return prices - 1e-6
	}
	return (logs.of(price) - cheapest) / priceStep
}

var least, most = math.Exp(cheapest), math.Exp(cheapest + priceStep*(prices-1e-6))

// A logTable has the logarithms of 128 numbers from 1 to 2, and their inverses: exact logarithms would take a
// third of the planner's time.
type logTable struct{ inverse, log [1 << 7]float64 }

var logs = func() *logTable {
	var t logTable
	for i := range t.log {
		middle := 1 + (float64(i)+0.5)/float64(len(t.log))
		t.inverse[i], t.log[i] = 1/middle, math.Log(middle)
	}
	return &t
}()

// of is the logarithm of a positive, normal number, with an error of at most 1e-7.
func (t *logTable) of(x float64) float64 {
	const fraction = 1<<52 - 1
	bits := math.Float64bits(x)
	i := bits >> 45 & 127
	r := math.Float64frombits(bits&fraction|1023<<52)*t.inverse[i] - 1
	return float64(int(bits>>52)-1023)*math.Ln2 + t.log[i] + r - r*r/2
}

func priceAt(place float64) float64 { return math.Exp(cheapest + priceStep*place) }

// rise adds a, bought gradually as the price falls from one place to another.
func (d *demand) rise(from, to float64, a amount) {
	low, high := int(to), int(from)
	d.first, d.last = min(d.first, low), max(d.last, high)
	if low >= high {
		d.bins[high].add(1, a)
		return
	}
	part := 1 / (from - to)
	d.bins[low].add((float64(low+1)-to)*part, a)
	for b := low + 1; b < high; b++ {
		d.bins[b].add(part, a)
	}
	d.bins[high].add((from-float64(high))*part, a)
}

// above is the total bought at the price of a place.
func (d *demand) above(at float64) amount {
	sum := d.base
	b := d.last
	for ; b > int(at) && b >= d.first; b-- {
		sum.add(1, d.bins[b])
	}
	if b == int(at) && b >= d.first {
		sum.add(float64(b+1)-at, d.bins[b])
	}
	return sum
}

// limit is the place of the lowest price at which the amount bought, measured by of, is at most most; 0 if
// that holds at any price.
func (d *demand) limit(most float64, of func(*amount) float64) float64 {
	sum := of(&d.base)
	for b := d.last; b >= d.first; b-- {
		more := of(&d.bins[b])
		if sum+more > most {
			if !(more > 0) || sum >= most {
				return float64(b + 1)
			}
			return float64(b+1) - (most-sum)/more
		}
		sum += more
	}
	return 0
}

func spendOf(a *amount) float64    { return a.spend }
func requestsOf(a *amount) float64 { return a.requests }

// lowest is the place of the lowest bin with anything in it, 0 if there is none. The very lowest bin is left
// out: what is bought there gains nothing.
func (d *demand) lowest() float64 {
	for b := max(d.first, 1); b <= d.last; b++ {
		if d.bins[b] != (amount{}) {
			return float64(b)
		}
	}
	return 0
}

// merge adds another demand.
func (d *demand) merge(other *demand) {
	d.base.add(1, other.base)
	if other.last < 0 {
		return
	}
	for b := other.first; b <= other.last; b++ {
		d.bins[b].add(1, other.bins[b])
	}
	d.first, d.last = min(d.first, other.first), max(d.last, other.last)
}
