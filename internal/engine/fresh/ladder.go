package fresh

import "math"

// A ladder has a rung for each age at which a page may be visited: the gain of a visit and the remaining
// staleness, as functions of rate x age, so that for one page each is a sum of products.
type ladder struct {
	objective Objective
	polls     bool // a visit is every age days; else a site tells of changes
	ages      ages
	rungs     [values]rungs
}

// aYear limits the age of a copy in the sums, in days: that of a page that is never fetched again would only
// measure the simulated time, or how long a page may be left alone.
const aYear = 365

const (
	rungStep = logStep / 2
	maxRungs = 108
	offset   = maxRungs / 2
)

// rungs is a function of rate x age: its values for rung n begin at [n%2][offset-n/2].
type rungs [2][points + offset]float64

func (r *rungs) at(n, first, last int) []float64 {
	return r[n&1][offset-n/2+first : offset-n/2+last]
}

// newLadder returns the ladder of polls. audit is the share of them that a page gets whatever its site says.
func newLadder(o Objective, longest, shortest, audit float64) *ladder {
	l := &ladder{objective: o, polls: true, ages: newAges(longest, shortest)}
	for n := range products {
		x := l.ages.product(n)
		fresh, stale := freshPart(x), stalePart(x)
		audits := 0.
		if audit > 0 {
			audits = audit * audited(x/audit)
		}
		l.set(n, point{ofGain: o.Fresh*fresh + o.Harmonic*stale, ofBent: o.Age * agePart(x), ofChanged: x * fresh,
			ofStale: stale, ofMean: ageMean(x), ofVisits: 1, ofBodies: -math.Expm1(-x), ofUnseen: unseenPart(x) - stale, ofAudits: audits})
	}
	return l
}

// ages are those of the rungs, from the longest down. Neighbours differ by the root of the ratio of the rates.
type ages struct {
	days      []float64
	last      float64 // fraction of the last step that reaches the shortest age, in requests
	lastPlace float64 // the same, in the place of the price
}

func newAges(longest, shortest float64) ages {
	a := ages{last: 1, lastPlace: 1}
	n := min(max(0, math.Ceil(math.Log(longest/max(shortest, youngest))/rungStep)), maxRungs-1)
	for i := range int(n) + 1 {
		a.days = append(a.days, longest*math.Exp(-rungStep*float64(i)))
	}
	if i := len(a.days) - 1; i > 0 && shortest > a.days[i] {
		a.last = (1/shortest - 1/a.days[i-1]) / (1/a.days[i] - 1/a.days[i-1])
		a.lastPlace = math.Log(a.days[i-1]/shortest) / rungStep
	}
	return a
}

// part is the part of the last step, from one place and amount to others, that reaches the shortest age.
func (a *ages) part(at, below float64, now, next amount) (float64, amount) {
	return at - (at-below)*a.lastPlace, now.plus(a.last, next.less(now))
}

// A point has the values of all rungs at one product of a rate and an age.
type point [values]float64

const (
	ofGain    = iota // W = age x (gain + age x bent)
	ofBent           // as ofGain says
	ofChanged        // the part of W that bodies are paid for: R1 of polls
	ofStale          // share of time
	ofMean           // days outdated in parts of the age
	ofVisits         // in one age
	ofBodies         // in one age
	ofUnseen         // cost of Harmonic
	ofAudits         // visits in one age, to a page that is also visited whenever its site tells of a change
	values
)

// products is how many products of a rate and an age there are.
const products = 2 * (points + offset)

// product is the n-th product: they grow in the ratio of the rungs.
func (a *ages) product(n int) float64 {
	return slowest * a.days[0] * math.Exp(rungStep*float64(n-1-2*offset))
}

func (l *ladder) set(n int, p point) {
	for v, x := range p {
		l.rungs[v][(n+1)%2][n/2] = x
	}
}

// support returns the first rate with a probability above 0, and the one after the last.
func (p *Posterior) support() (first, last int) {
	for last = points; last > 1 && p[last-1] == 0; last-- {
	}
	for first < last-1 && p[first] == 0 {
		first++
	}
	return first, last
}

// A bid is a ladder's input for one page.
type bid struct {
	belief       []float64 // within its support
	first, last  int
	importance   float64
	whole        float64 // sum of belief
	header, body float64
	pages        float64 // number of pages in the bid: the requests of each visit
	loss         bool    // the cost of the objective is computed, too
	audits       float64 // only this share of the visits counts, and not the staleness they leave; 0: all
	told         bool    // of these, only those to which no visit after a notice comes first
}

func newBid(p *Posterior, importance, header, body float64) bid {
	first, last := p.support()
	return bid{belief: p[first:last], first: first, last: last, importance: importance, whole: 1, header: header, body: body, pages: 1}
}

// rung is the price at which a page is visited at a rung, and the amount of visits at that rung.
func (l *ladder) rung(n int, b *bid) (price float64, a amount) {
	age := l.ages.days[n]
	at := func(v int) []float64 { return l.rungs[v].at(n, b.first, b.last) }
	stale, mean := sums(b.belief, at(ofStale), at(ofMean))
	var gain float64
	visits := 1.
	switch {
	case !l.polls:
		gain, visits = sums(b.belief, at(ofGain), at(ofVisits))
	case l.objective.Fresh == 0:
		gain = l.objective.Harmonic * stale
	default:
		gain = sum(b.belief, at(ofGain))
	}
	if l.objective.Age > 0 {
		gain += age * sum(b.belief, at(ofBent))
	}
	cost := b.header
	spend := b.header * visits
	if b.body > 0 {
		changed, bodies := sums(b.belief, at(ofChanged), at(ofBodies))
		cost += b.body * changed
		spend += b.body * bodies
	}
	if b.audits > 0 {
		visits, spend = b.audits*visits, b.audits*spend
		if b.told {
			visits = sum(b.belief, at(ofAudits))
			spend = visits * b.header
		}
		return b.importance * age * gain / cost, amount{spend: spend / age, requests: b.pages * visits / age}
	}
	a = amount{spend: spend / age, requests: b.pages * visits / age, stale: b.importance * stale, age: b.importance * min(mean*age, aYear*b.whole)}
	if b.loss {
		a.loss = l.objective.Fresh*a.stale + l.objective.Age*b.importance*mean*age
		if l.objective.Harmonic > 0 {
			a.loss += l.objective.Harmonic * b.importance * sum(b.belief, at(ofUnseen))
		}
	}
	if perDay, ok := l.objective.ruled(sum(b.belief, grid.rate[b.first:b.last])); ok {
		return perDay * age, a
	}
	return b.importance * age * gain / cost, a
}

// audited is the number of audits in the time after which a page is audited, x changes, if it is also visited at each change that its
// site announces: the next audit is due so long after any visit.
func audited(x float64) float64 {
	if x < 1e-6 {
		return 1
	}
	return x / math.Expm1(x)
}

// climb adds the demand of a polled page at all prices above a floor.
func (l *ladder) climb(b *bid, floor float64, d *demand) {
	price, a := l.rung(0, b)
	d.base.add(1, a)
	l.down(b, floor, d, place(price), a, nil)
}

// hear adds the demand of a page whose site tells of its changes. Such a page is visited at the first rung of
// polls whatever its site says.
func (l *ladder) hear(polls *ladder, b *bid, floor float64, d *demand) {
	_, least := polls.rung(0, b)
	d.base.add(1, least)
	price, a := l.rung(0, b)
	a = a.within(&least)
	at := place(price)
	d.rise(at, at, a.less(least))
	l.down(b, floor, d, at, a, &least)
}

// down adds the demand below a place, at which it is a: never less, nor staler, than least.
func (l *ladder) down(b *bid, floor float64, d *demand, at float64, a amount, least *amount) {
	for n := 1; n < len(l.ages.days) && at > floor; n++ {
		price, next := l.rung(n, b)
		if least != nil {
			next = next.within(least)
		}
		below := place(price)
		if below > at {
			below = at
		}
		if n == len(l.ages.days)-1 {
			below, next = l.ages.part(at, below, a, next)
		}
		d.rise(at, below, next.less(a))
		at, a = below, next
	}
}

// ones are weights of 1.
var ones = func() (f [points]float64) {
	for k := range f {
		f[k] = 1
	}
	return f
}()

// sum is the mean of f over a belief, and sums that of two functions: independent chains of additions.
func sum(p, f []float64) float64 {
	f = f[:len(p)]
	var a, b float64
	k := 0
	for ; k+1 < len(p); k += 2 {
		a += p[k] * f[k]
		b += p[k+1] * f[k+1]
	}
	if k < len(p) {
		a += p[k] * f[k]
	}
	return a + b
}

func sums(p, f, g []float64) (x, y float64) {
	f, g = f[:len(p)], g[:len(p)]
	var a, b float64
	k := 0
	for ; k+1 < len(p); k += 2 {
		x += p[k] * f[k]
		y += p[k] * g[k]
		a += p[k+1] * f[k+1]
		b += p[k+1] * g[k+1]
	}
	if k < len(p) {
		x += p[k] * f[k]
		y += p[k] * g[k]
	}
	return x + a, y + b
}
