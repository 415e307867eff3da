package fresh

import "math"

// points is the number of rates that a belief distinguishes. They are the same for all pages, each 1.6 times
// the one before: from one change in 27 years to one in 14 seconds.
const points = 40

const (
	slowest = 1e-4  // the lowest rate, in changes a day
	logStep = 0.46  // the logarithm of the ratio of neighbouring rates
	minSpan = 1e-6  // the shortest distinct interval, in days
	spans   = 48    // number of distinct intervals, in the same ratio: up to six years
	fewest  = 1e-12 // a rate less likely than this share of the likeliest is impossible
)

// A table has the values that all beliefs share. It is never modified.
type table struct {
	rate [points]float64
	log  [points]float64

	// changed[k+b] is the logarithm of the probability of a change in the span b at the rate k. Rates and spans grow by
	// the same factor from one index to the next, so only the sum of their indexes counts.
	changed [points + spans]float64
}

var grid = newTable()

func newTable() (t table) {
	for k := range t.rate {
		t.log[k] = math.Log(slowest) + logStep*float64(k)
		t.rate[k] = math.Exp(t.log[k])
	}
	for i := range t.changed {
		x := slowest * minSpan * math.Exp(logStep*float64(i))
		t.changed[i] = math.Log(-math.Expm1(-x))
	}
	return t
}

// A Belief is everything observed about how often one page changes, in a form that gives the posterior under
// any prior: a prior learned of its site later still applies. The zero value has no observations.
type Belief struct {
	Quiet float32 // days observed without a change, or with a known number of changes
	Dated float32 // changes observed in them, or right before

	// Seen counts intervals with one or more undated changes, by length: bin b is for
	// minSpan x e^(logStep b). An interval between two bins counts in part for each.
	Seen [spans]float32
}

// Unchanged adds an observation: no change for so many days.
func (b *Belief) Unchanged(days float64) {
	if days > 0 && days < math.MaxFloat32 {
		b.Quiet += float32(days)
	}
}

// Changed adds an observation: one or more changes within so many days.
func (b *Belief) Changed(days float64) {
	if days != days {
		return
	}
	at := math.Log(min(max(days, minSpan), oldest)/minSpan) / logStep
	i := min(int(at), spans-1)
	part := float32(min(max(0, at-float64(i)), 1))
	if i == spans-1 {
		part = 0
	}
	b.Seen[i] += 1 - part
	if part > 0 {
		b.Seen[i+1] += part
	}
}

// changedAt adds a dated change, the last one, so many days ago: from Last-Modified or a manifest.
func (b *Belief) changedAt(ago float64) {
	if ago >= 0 && ago < math.MaxFloat32 {
		b.Unchanged(ago)
		b.Dated++
	}
}

// add adds a share of another belief's observations.
func (b *Belief) add(part float32, more *Belief) {
	if part <= 0 {
		return
	}
	b.Quiet += part * more.Quiet
	b.Dated += part * more.Dated
	for i, n := range more.Seen {
		b.Seen[i] += part * n
	}
}

// unsee removes n intervals with changes, beginning with those closest in length to the shortest in near.
func (b *Belief) unsee(n float32, near *Belief) {
	at := 0
	for at < spans-1 && near.Seen[at] == 0 {
		at++
	}
	for away := 0; away < spans && n > 0; away++ {
		for _, i := range [...]int{at - away, at + away} {
			if i >= 0 && i < spans {
				less := min(n, b.Seen[i])
				b.Seen[i] -= less
				n -= less
			}
		}
	}
}

// None reports whether nothing was observed.
func (b *Belief) None() bool { return *b == Belief{} }

// A Prior is what is believed of a page before any observation: the probability of each rate. The zero value
// means the Web at large.
type Prior [points]float32

// A Posterior is the probability of each rate: the sum is 1.
type Posterior [points]float64

// Under returns the posterior of a page with the observations b. For any b and p it is a distribution.
func (p *Prior) Under(b *Belief) (post Posterior) {
	prior := p
	if *p == (Prior{}) {
		prior = &anyPage
	}
	quiet, dated := amountSeen(b.Quiet), amountSeen(b.Dated)
	for k := range post {
		post[k] = grid.log[k]*dated - grid.rate[k]*quiet
	}
	for i, n := range &b.Seen {
		if n != 0 {
			n := amountSeen(n)
			changed := (*[points]float64)(grid.changed[i:])
			for k := range post {
				post[k] += n * changed[k]
			}
		}
	}
	// Scale by the best likelihood among rates with a nonzero prior: no logarithm of the prior is needed, and
	// not all weights underflow.
	most := math.Inf(-1)
	for k, l := range &post {
		if l > most && prior[k] > 0 {
			most = l
		}
	}
	top := 0.
	for k, l := range &post {
		post[k] = 0
		if share := prior[k]; share > 0 && share <= math.MaxFloat32 && l > most-200 {
			w := math.Exp(l-most) * float64(share)
			if post[k] = w; w > top {
				top = w
			}
		}
	}
	if top == 0 { // the prior allows nothing
		return anyPage.Under(b)
	}
	sum := 0.
	for k, w := range &post {
		if w < fewest*top {
			w = 0
		}
		post[k] = w
		sum += w
	}
	sum = 1 / sum
	for k := range post {
		post[k] *= sum
	}
	return post
}

// amountSeen is an observed amount limited to 0..1e9, more than one page could ever yield.
func amountSeen(x float32) float64 {
	if !(x > 0) {
		return 0
	}
	return float64(min(x, 1e9))
}

// Mean is the expected rate, in changes a day.
func (p *Posterior) Mean() (rate float64) {
	for k, w := range p {
		rate += w * grid.rate[k]
	}
	return rate
}

// fresh is the probability that nothing has changed for so many days.
func (p *Posterior) fresh(days float64) (share float64) {
	for k, w := range p {
		if w > 0 {
			share += w * math.Exp(-grid.rate[k]*max(0, days))
		}
	}
	return share
}

// anyPage is the prior of a page of an unknown site: a change in two months, give or take a factor of twelve.
var anyPage = lognormal(1./60, 2.5)

func lognormal(median, sigma float64) (p Prior) {
	sum := 0.
	var w [points]float64
	for k := range w {
		z := (grid.log[k] - math.Log(median)) / sigma
		w[k] = math.Exp(-z * z / 2)
		sum += w[k]
	}
	for k := range w {
		p[k] = float32(w[k] / sum)
	}
	return p
}
