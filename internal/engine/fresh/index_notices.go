package fresh

import "math"

// The value of a notice, and of silence (GREEDY-NCIS: Busa-Fekete et al., WWW 2025, derived anew).
//
// A page changes at the rate D. Its site tells of a change with the probability r, its recall, and sends
// false notices at the rate nu: notices come at the rate gamma = r D + nu, of which a share p = r D / gamma
// is right, and untold changes at alpha = (1-r) D. After tau days with n notices the copy is right with the
// probability
//
//	exp(-x)    x = alpha tau + n L    L = -ln(1-p) = ln(gamma/nu)
//
// Since x only grows, the page is worth a visit from a level x on. Visits at that level are on average psi(x)
// days apart, and the copy is right for w(x) of them:
//
//	psi(x) = 1/gamma   sum over i <= x/L of P(i+1, kappa y)                      y = x - i L
//	w(x)   = 1/(D+nu)  sum over i <= x/L of (nu/(D+nu))^i P(i+1, (1+kappa) y)    kappa = gamma/alpha
//
// with P(k, y) the probability of k events or more where y are expected. The index of a cost c(x) is
// ∫0..x psi(u) c'(u) du, as it is ∫ u c'(u) du for polling, where psi is the age. For Fresh, with
// c = 1 - e^-x, it is
//
//	V(x) = w - e^-x psi = ∫0..x e^-u psi(u) du    which is bounded by 1/D
//
// Harmonic has no level: its cost, E[1 + 1/2 + ... + 1/k] of k unseen changes, is
// ∫0..1 (1 - E[(1-s)^k])/s ds, the sum of the costs of Fresh for pages where only a share s of the changes
// counts. So is its index, if each of them had its own visits: ∫ V_s/s ds, with s alpha and s p for alpha and
// p. That is right at either end: (x - 1 + e^-x)/D for polling, and n/D after n notices if all changes are
// told and all notices are right. In between it is computed from the integrand at both ends, V and
// ∫0..m psi_0 with m = alpha tau + n p and the psi of steps p: the curve between is approximated by one of
// polling, which is within an eighth. Age goes by time: see Objective.told.
//
// The lag of notices is not in it.

// A teller has the values shared by all pages of a site, for D = 1.
type teller struct {
	precision, recall float64
	alpha, gamma      float64
	jump              float64 // L
	kappa             float64
	terms             int
	beyond            asymptote // of psi, after that many terms: the rest of its steps weighs no more than (1-p)^terms

	// Constants of ∫ psi_0, which is exact up to the first step, and of a line after it.
	half, bend, first float64
}

// An asymptote is a line, from where psi and V are so much. A V of 0 means that they are not yet computed.
type asymptote struct{ slope, lift, psi, v float64 }

// newTeller clamps the precision between 0 and 1; recall is at most mostRecall.
func newTeller(precision, recall float64) *teller {
	t := &teller{precision: min(max(precision, 1e-9), 1-1e-9), recall: recall}
	t.alpha, t.gamma = 1-recall, recall/t.precision
	t.jump = -math.Log1p(-t.precision)
	t.kappa = t.gamma / t.alpha
	slope := 1 / (t.alpha + t.gamma*t.jump)
	t.beyond = asymptote{slope: slope, lift: t.gamma * t.jump * t.jump * slope * slope / 2}
	switch {
	case t.precision < 0.82:
		t.terms = 4
	case t.precision < 0.9:
		t.terms = 3
	default:
		t.terms = 2
	}
	t.half, t.bend = recall*t.precision/2, 2/(t.alpha*t.precision)
	t.first = t.beforeFirst(t.precision) - t.line(t.precision)
	return t
}

// at returns psi and V at a level.
func (t *teller) at(x float64) (psi, v float64) { return t.level(x, math.Exp(-x)) }

// level is at with e^-x given.
func (t *teller) level(x, right float64) (psi, v float64) {
	z := 1 + t.kappa
	if x*z < 0.05 && x < t.jump { // a small difference of large numbers: use its series
		y := t.kappa * x
		psi = x / t.alpha * (1 - y/2*(1-y/3*(1-y/4)))
		v = x * x / t.alpha * (1./2 - x*((1+z)/6-x*((1+z*(1+z))/24-x*(1+z*(1+z*(1+z)))/120)))
		return psi, v
	}
	end := float64(t.terms) * t.jump
	if x <= end {
		return t.sums(x, right)
	}
	a := &t.beyond
	if a.v == 0 {
		a.psi, a.v = t.sums(end, math.Exp(-end))
	}
	return max(a.psi, x*a.slope+a.lift), max(a.v, 1-right*((x+1)*a.slope+a.lift))
}

func (t *teller) sums(x, right float64) (psi, v float64) {
	z, ratio := 1+t.kappa, t.kappa/(1+t.kappa)
	part, keep := ratio, 1.
	for i, y := 0, x; i < t.terms && y > 0; i++ {
		told := math.Exp(-t.kappa * y)
		psi += more(i, t.kappa*y, told)
		v += keep * part * more(i, z*y, told*right/keep)
		part, keep = part*ratio, keep*(1-t.precision)
		y -= t.jump
	}
	return psi / t.gamma, max(0, v-right*psi) / t.gamma
}

// more is the probability of more than i events where y are expected; none is that of no event.
func more(i int, y, none float64) float64 {
	switch i {
	case 0:
		return 1 - none
	case 1:
		return 1 - none*(1+y)
	case 2:
		return 1 - none*(1+y*(1+y/2))
	}
	return 1 - none*(1+y*(1+y/2*(1+y/3)))
}

// harmonic is the index of Harmonic, from V and the expected number of unseen changes.
func (t *teller) harmonic(v, unseen float64) float64 {
	if !(v > 0) {
		return 0
	}
	whole := 0.
	if unseen <= t.precision {
		whole = t.beforeFirst(unseen)
	} else {
		whole = t.first + t.line(unseen)
	}
	return math.Sqrt(whole*v) * bends.at(math.Sqrt(v/whole))
}

func (t *teller) beforeFirst(m float64) float64 {
	y := t.kappa * m
	if y < small {
		return m * stalePart(y) / t.gamma
	}
	return (m - (1-math.Exp(-y))/t.kappa) / t.gamma
}

func (t *teller) line(m float64) float64 { return m*m/2 + t.half*(m-(1-math.Exp(-t.bend*m))/t.bend) }

// A curve between two ends a and b is approximated by R1(s x)/s², whose integral is the mean sqrt(a b) times
// this function of sqrt(b/a).
type bend [65]float64

var bends = newBends()

func newBends() (c bend) {
	last := len(c) - 1
	c[0], c[last] = math.Sqrt2, 1
	for i := 1; i < last; i++ {
		low, high := 0., 1e3
		for range 60 {
			x := (low + high) / 2
			if math.Sqrt(2*freshPart(x)/x) > float64(i)/float64(last) {
				low = x
			} else {
				high = x
			}
		}
		c[i] = stalePart(low) / math.Sqrt(low*freshPart(low)/2)
	}
	return c
}

func (c *bend) at(x float64) float64 {
	x = min(max(x, 0), 1) * float64(len(c)-1)
	i := min(int(x), len(c)-2)
	return c[i] + (x-float64(i))*(c[i+1]-c[i])
}

// silent is the index of Age without a notice, for D = 1: cycles end with the first right notice, and until
// then the copy ages by untold changes.
func (t *teller) silent(age float64) float64 {
	r := t.recall
	if r*age < 1e-3 {
		return age * age * agePart(t.alpha*age) * (1 - r*age*3/8)
	}
	return age / r * (stalePart(r*age) + stalePart(t.alpha*age) - stalePart(age))
}

// A Hearing is the notices of one page since its copy was last known to be right.
type Hearing struct {
	Age     float64 // days since then
	Notices int
	Since   float64 // days since the first of them
}

func (h Hearing) bounded() Hearing {
	h.Age = bounded(h.Age, oldest)
	h.Since = min(bounded(h.Since, oldest), h.Age)
	h.Notices = min(max(h.Notices, 0), 1<<20)
	return h
}

// A noticeStats is a Signal's values for the notices of one page. The wrong notices are either a share of those of
// each page, nu = r D (1-p)/p, or equally many for all pages, nu = (1-p) x notices a page and day: this makes
// no difference while p is near 1, and all the difference below 1/2, since the second makes pages that seldom
// change look outdated all the time.
type noticeStats struct {
	useful            float64 // probability that the notices are useful; if so,
	precision, recall float64
	flood             float64 // probability that wrong ones come to all pages alike,
	noise             float64 // and how many then, per page and day
}

// teller is the same for all rates if the wrong notices are a share of all.
func (v *noticeStats) teller(rate float64) *teller {
	wrong := v.recall * (1 - v.precision) / v.precision
	if v.flooded() {
		wrong += v.flood * (v.noise/rate - wrong)
	}
	return newTeller(v.recall/(v.recall+wrong), v.recall)
}

// tellers are the tellers of one page, each made once: the age for a price takes several values of the index.
type tellers struct {
	noticeStats
	of [points]*teller // by rate; only the first where the rate makes no difference
}

func (t *tellers) at(k int) *teller {
	rate := grid.rate[k]
	if !t.flooded() {
		k, rate = 0, 1
	}
	if t.of[k] == nil {
		t.of[k] = t.teller(rate)
	}
	return t.of[k]
}

// flooded reports whether a rate of its own for each page makes a difference.
func (v *noticeStats) flooded() bool { return v.flood > 0.02 && v.noise > 0 && v.precision < 0.9 }

// heard is the index of a page with a Hearing, less body x the part of the changes that a visit meets, as in
// at.
func (o Objective) heard(p *Posterior, s Signal, body float64, h Hearing) float64 {
	return o.hearing(p, &tellers{noticeStats: s.noticeStats(h.Notices)}, body, h.bounded())
}

func (o Objective) hearing(p *Posterior, v *tellers, body float64, h Hearing) (w float64) {
	if v.useful < 1 {
		w = (1 - v.useful) * o.at(p, body, h.Age)
	}
	if v.useful > 0 {
		w += v.useful * o.told(p, v, body, h)
	}
	return w
}

func (o Objective) told(p *Posterior, v *tellers, body float64, h Hearing) (w float64) {
	n := float64(h.Notices)
	t, wrong := &teller{}, 0.
	for k, share := range p {
		if share < 1e-7 {
			continue
		}
		rate := grid.rate[k]
		if is := v.at(k); is != t {
			t, wrong = is, math.Exp(-n*is.jump)
		}
		silent := t.alpha * rate * h.Age
		if o.Fresh > 0 || o.Harmonic > 0 || body > 0 {
			_, fresh := t.level(silent+n*t.jump, wrong*math.Exp(-silent))
			gain := o.Fresh * fresh
			if o.Harmonic > 0 {
				gain += o.Harmonic * t.harmonic(fresh, silent+n*t.precision)
			}
			w += share * (gain/rate - body*fresh)
		}
		if o.Age > 0 {
			age := t.silent(rate*h.Age) / (rate * rate)
			if n > 0 {
				quiet := math.Exp(-t.alpha * rate * (h.Age - h.Since))
				age += (1 - wrong) * quiet * h.Since * (h.Since/2 + min(n*t.precision, 1)/rate)
			}
			w += share * o.Age * age
		}
	}
	return w
}

func (o Objective) ageHeard(p *Posterior, s Signal, body, need float64, notices int, at func(age float64) Hearing) float64 {
	if !(need > 0) {
		return 0
	}
	v := &tellers{noticeStats: s.noticeStats(notices)}
	if v.useful == 0 {
		return o.ageAt(p, body, need)
	}
	value := func(age float64) float64 { return o.hearing(p, v, body, at(age).bounded()) }
	if value(0) >= need {
		return 0
	}
	return crossed(value, need, min(max(o.ageAt(p, body, need), youngest), oldest))
}

// crossed is the least age at which a value that grows with it is need or more, to a few millionths; +Inf if
// it never is. It starts at a guess and uses the secant of the logarithms, since a value is nearly a power of
// the age; a step out of the remaining interval is a bisection.
func crossed(value func(float64) float64, need, guess float64) float64 {
	const near = 1e-6
	off := func(x float64) float64 { return math.Log(max(value(math.Exp(x)), 1e-300) / need) }
	bottom, top := math.Log(youngest), math.Log(oldest)
	low, high := bottom-1, top+1
	x, slope := math.Log(guess), 1.5
	var lastX, lastF float64
	for n := range 200 {
		f := off(x)
		if f >= 0 {
			high = x
		} else {
			low = x
		}
		switch {
		case f < 0 && x >= top:
			return math.Inf(1)
		case high-low <= 4*near || f >= 0 && (f < 4*near || x <= bottom):
			return math.Exp(high)
		}
		if n > 0 {
			slope = (f - lastF) / (x - lastX)
		}
		lastX, lastF = x, f
		next := x - min(max(f/slope, -3), 3) + near
		if !(next > low && next < high) || n > 20 {
			next = (max(low, bottom) + min(high, top)) / 2
		}
		x = min(max(next, bottom), top)
	}
	return math.Exp(high)
}
