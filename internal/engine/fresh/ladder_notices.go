package fresh

import "math"

// many is the number of notices without a visit that are counted one by one.
const many = 48

// newNoticeLadder is the ladder of a site that tells of changes. Its ages are those of silence: a rung is the index h
// that a page has after so many days without a notice. The page is visited as soon as its index is h, which
// is after t_i days if i notices have come. With the notices a Poisson stream of the rate gamma, of which a
// share p is right, and z = alpha + gamma,
//
//	days between visits    1/gamma sum of P(i+1, gamma t_i)
//	of them, right         1/z     sum of ((1-p) gamma/z)^i P(i+1, z t_i)
//
// which are the sums of GREEDY-NCIS (see Objective.heard) for any order of the t_i. There are as many visits
// that find a change as changes of a page whose copy is right.
//
// The notices may also be useless, and the page then polled: every value is the mean of both cases.
//
// A notice may count more than many days of silence, so the ages go on beyond the longest.
func newNoticeLadder(o Objective, v noticeStats, shortest float64) *ladder {
	l := &ladder{objective: o, ages: newAges(days(farthest), shortest)}
	t := newTeller(v.precision, v.recall)
	cycle := t.late
	if o.Fresh > 0 || o.Harmonic > 0 {
		cycle = t.sooner(o, v.useful, &l.ages)
	}
	for n := range products {
		x := l.ages.product(n)
		p, stale := cycle(n, x), stalePart(x)
		poll := point{ofGain: o.Fresh*freshPart(x) + o.Harmonic*stale, ofBent: agePart(x), ofChanged: x * freshPart(x),
			ofStale: stale, ofUnseen: stale, ofMean: ageMean(x), ofVisits: 1, ofBodies: -math.Expm1(-x)}
		p[ofBent], poll[ofBent] = o.Age*p[ofBent], o.Age*poll[ofBent]
		l.set(n, p.toward(poll, 1-v.useful))
	}
	return l
}

func (p point) toward(q point, part float64) point {
	for v := range p {
		p[v] += part * (q[v] - p[v])
	}
	return p
}

// sooner is for the parts of the objective for which a notice at once gains more than silence.
func (t *teller) sooner(o Objective, useful float64, a *ages) func(n int, x float64) point {
	// The index after an age with so many notices at its beginning; the age may be 0.
	said := func(age float64, notices int) float64 {
		silent, told := t.alpha*age, float64(notices)
		_, v := t.at(silent + told*t.jump)
		if o.Harmonic == 0 {
			return o.Fresh * v
		}
		return o.Fresh*v + o.Harmonic*t.harmonic(v, silent+told*t.precision)
	}
	polled := func(age float64) float64 {
		return (1 - useful) * age * (o.Fresh*freshPart(age) + o.Harmonic*stalePart(age))
	}
	index := func(age float64, notices int) float64 { return useful*said(age, notices) + polled(age) }
	var at [many + 1]float64
	var after [many + 1][products]float64
	var xs, ofPolls [products]float64
	for n := range xs {
		xs[n] = a.product(n)
		ofPolls[n] = polled(xs[n])
	}
	for i := range at {
		at[i] = index(0, i)
		for n, x := range xs {
			after[i][n] = max(useful*said(x, i)+ofPolls[n], after[i][max(0, n-1)])
		}
	}
	return func(n int, x float64) point {
		h := after[0][n]
		var ages [many + 1]float64
		i := 0
		for ; i <= many && (i == 0 || at[i] < h); i++ {
			ages[i] = within(&after[i], &xs, h)
		}
		every, right := t.cycle(ages[:i])
		if i > many { // so many that they may be taken to come as expected
			every = max(right, evenAge(index, t.gamma, h, x))
		}
		_, v := t.at(t.alpha * x)
		stale := bounded(1-right/every, 1)
		return point{ofGain: said(x, 0) / x, ofBent: t.silent(x) / (x * x), ofChanged: v, ofStale: stale, ofUnseen: stale,
			ofMean: ageMean(outdatedFor(stale)) * every / x, ofVisits: x / every, ofBodies: right * x / every}
	}
}

// within is the x at which a growing function is h, interpolated between two products in the logarithm.
func within(f, x *[products]float64, h float64) float64 {
	low, high := 0, products-1
	switch {
	case f[low] >= h:
		return x[low]
	case !(f[high] > h):
		return x[high]
	}
	for high-low > 1 {
		if mid := (low + high) / 2; f[mid] >= h {
			high = mid
		} else {
			low = mid
		}
	}
	part := math.Log(h/f[low]) / math.Log(f[high]/f[low])
	if !(part >= 0 && part <= 1) { // f[low] is 0
		part = 1
	}
	return x[low] * math.Exp(part*rungStep)
}

// evenAge is the age at which the index is h if notices come as often as expected.
func evenAge(index func(float64, int) float64, gamma, h, most float64) float64 {
	low, high := 0., most
	for high-low > 1e-3*high {
		mid := (low + high) / 2
		if index(mid, int(min(gamma*mid, 1<<30))) >= h {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// cycle returns the mean number of days between two visits to a page of rate D = 1, and for how many of these days
// the copy is right: the page is visited at age ages[i] if it has had i notices by then.
func (t *teller) cycle(ages []float64) (every, right float64) {
	z := t.alpha + t.gamma
	part := 1.
	for i, age := range ages {
		every += arrived(i, t.gamma*age)
		right += part * arrived(i, z*age)
		part *= (1 - t.precision) * t.gamma / z
	}
	return every / t.gamma, right / z
}

// arrived is the probability of more than i events where y are expected.
func arrived(i int, y float64) float64 {
	if i == 0 {
		return -math.Expm1(-y)
	}
	if y > 700 {
		return 1
	}
	term := math.Exp(-y)
	rest := 1 - term
	for k := 1; k <= i; k++ {
		term *= y / float64(k)
		rest -= term
	}
	return max(0, rest)
}

// outdatedFor is the x at which a polled page is outdated for a share of the time.
func outdatedFor(stale float64) float64 {
	low, high := 0., 1e12
	for range 80 {
		mid := (low + high) / 2
		if low == 0 || high > 4*low {
			mid = max(1e-12, math.Sqrt(low)*math.Sqrt(high))
		}
		if stalePart(mid) >= stale {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// late is for the part Age alone, for which a page is worth a visit only some time after a notice: after d
// days, when p d (d/2 + p/D) equals the index of a silence.
func (t *teller) late(_ int, x float64) point {
	h := t.silent(x)
	d := min(2*h/t.precision/(t.precision+math.Sqrt(t.precision*t.precision+2*h/t.precision)), x)
	z := t.alpha + t.gamma
	every := d - math.Expm1(-t.gamma*(x-d))/t.gamma
	notice := -math.Expm1(-z*(x-d)) * t.gamma / z // the first one, for a page that has not changed before it
	right := min(every, -math.Expm1(-z*x)/z-notice*(1-t.precision)*math.Expm1(-z*d)/z)
	age := notice*t.precision*d*d/2 + every*every*ageMean(t.alpha*every)
	stale := 1 - right/every
	return point{ofBent: h / (x * x), ofChanged: x * freshPart(x), ofStale: stale, ofUnseen: stale,
		ofMean: age / every / x, ofVisits: x / every, ofBodies: right * x / every}
}
