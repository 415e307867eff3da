package fresh_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// tells returns the signal of a site whose precision and recall are known exactly from visits.
func tells(precision, recall float64) fresh.Signal {
	const n = 1e6
	return fresh.Signal{Right: float32(n * precision), Wrong: float32(n * (1 - precision)),
		Heard: float32(n * recall), Missed: float32(n * (1 - recall))}
}

// sure is the belief that a page has a rate, one of those that beliefs tell apart.
func sure(k int) (p fresh.Posterior, rate float64) {
	p[k] = 1
	return p, fresh.Rates()[k]
}

// near is a belief in any rate, between the two next to it.
func near(rate float64) (p fresh.Posterior) {
	r := fresh.Rates()
	for k := 1; k < len(r); k++ {
		if rate <= r[k] || k == len(r)-1 {
			part := min(max(math.Log(rate/r[k-1])/math.Log(r[k]/r[k-1]), 0), 1)
			p[k-1], p[k] = 1-part, part
			return p
		}
	}
	return p
}

// A told page changes, and its site sends notices with and without a change.
type told struct{ rate, precision, recall float64 }

func (p told) wrong() float64 { return p.recall * p.rate * (1 - p.precision) / p.precision }

// cycle is the time from one visit to the next, and how much of it the copy is right, if the next
// is due as soon as due says so after some time with so many notices: the
// later for that, the fewer there are.
func (p told) cycle(rng *rand.Rand, due func(notices int) float64) (days, right float64) {
	fresh, all := true, p.rate+p.wrong()
	for n := 0; ; {
		wait := rng.ExpFloat64() / all
		end := days+wait >= due(n)
		if end {
			wait = max(0, due(n)-days)
		}
		if days += wait; fresh {
			right += wait
		}
		if end {
			return days, right
		}
		u := rng.Float64() * all
		if u < p.rate {
			fresh = false
		}
		if u >= (1-p.recall)*p.rate {
			n++
		}
	}
}

// The index of Fresh is what it is meant to be: what visits at a level find right, less what they
// would find if time passed at the freshness of that level.
func TestNotifiedIndexIsTheGain(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	post, rate := sure(20)
	for _, c := range []struct {
		precision, recall, age float64 // in mean times between changes
		notices                int
	}{{.8, .9, .5, 0}, {.8, .9, .5, 1}, {.98, .95, 3, 0}, {.98, .95, .1, 1}, {.5, .9, .5, 2}, {.5, .5, 1, 0}, {.3, .98, .2, 5}, {.3, .5, .3, 12}} {
		page := told{rate, c.precision, c.recall}
		jump, alpha := -math.Log1p(-c.precision), (1-c.recall)*rate
		level := alpha*c.age/rate + float64(c.notices)*jump
		var days, right float64
		const cycles = 150_000
		for range cycles {
			d, r := page.cycle(rng, func(n int) float64 { return (level - float64(n)*jump) / alpha })
			days, right = days+d/cycles, right+r/cycles
		}
		want := right - math.Exp(-level)*days
		got := fresh.Objective{Fresh: 1}.Notified(&post, tells(c.precision, c.recall), c.age/rate, c.notices)
		if !about(got, want, .03) {
			t.Errorf("%+v: %v, want %v", c, got, want)
		}
	}
}

// stepIntegral is the integral of psi(u) weight(u) up to a level, by the balance of every level: it is
// passed by silence or jumped over, so that alpha psi'(u) = 1 - gamma (psi(u) - psi(u-jump)).
func stepIntegral(alpha, gamma, jump, level float64, weight func(u float64) float64) (sum float64) {
	n := int(math.Ceil(max(jump/min(jump/20, .2*alpha/gamma, level/100), 1)))
	h := jump / float64(n)
	psi := []float64{0}
	for i := 1; float64(i-1)*h < level; i++ {
		before := 0.
		if i > n {
			before = (psi[i-n] + psi[i-n-1]) / 2
		}
		end := 1/gamma + before
		psi = append(psi, end+(psi[i-1]-end)*math.Exp(-gamma/alpha*h))
		part := min(1, level/h-float64(i-1))
		sum += h * part * (psi[i-1] + part*(psi[i]-psi[i-1])/2) * weight((float64(i)-1+part/2)*h)
	}
	return sum
}

// The index of Harmonic is near the sum of those of Fresh for pages of which only some
// changes count, which it is by its definition.
func TestNotifiedHarmonicIsSumOfFresh(t *testing.T) {
	post, rate := sure(20)
	for _, precision := range []float64{.3, .5, .8, .98} {
		for _, recall := range []float64{.1, .5, .9, .99} {
			for _, c := range []struct {
				age     float64
				notices int
			}{{.3, 0}, {3, 0}, {.01, 1}, {1, 1}, {.3, 2}, {3, 3}, {.3, 5}} {
				alpha := 1 - recall
				const parts = 24
				want := 0.
				for i := range parts {
					s := (float64(i) + .5) / parts
					s *= s
					jump := -math.Log1p(-s * precision)
					want += 2 / math.Sqrt(s) / parts * stepIntegral(s*alpha, recall/precision, jump, s*alpha*c.age+float64(c.notices)*jump,
						func(u float64) float64 { return math.Exp(-u) })
				}
				got := rate * fresh.Objective{Harmonic: 1}.Notified(&post, tells(precision, recall), c.age/rate, c.notices)
				if got < .88*want || got > 1.08*want {
					t.Errorf("precision %v, recall %v, %+v: %v, want %v", precision, recall, c, got, want)
				}
			}
		}
	}
}

// At its limits the index is that of polling, of all that is told, and of nothing that is.
func TestNotifiedIndexLimits(t *testing.T) {
	post := new(fresh.Prior).Under(&fresh.Belief{Quiet: 30, Dated: 4})
	for _, o := range objectives {
		for _, age := range []float64{0, .01, 1, 7, 100, 1e4} {
			at := o.At(&post, age)
			if got := o.Notified(&post, fresh.Signal{}, age, 0); got != at {
				t.Errorf("%+v: a site that never sent a notice: %v, want At: %v", o, got, at)
			}
			if got := o.Notified(&post, fresh.Signal{Missed: 1e6, Right: 20}, age, 0); !about(got, at, 2e-3) {
				t.Errorf("%+v: a site with recall 0: %v, want At: %v", o, got, at)
			}
			for _, notices := range []int{0, 1, 3} {
				flood := fresh.Signal{Wrong: 200, Heard: 50}
				if got := o.Notified(&post, flood, age, notices); age > 0 && got > 1.01*at && got-at > 1e-3 {
					t.Errorf("%+v: %d worthless notices at age %v: %v, polling has %v", o, notices, age, got, at)
				}
			}
		}
		if a, b := o.AgeNotified(&post, fresh.Signal{}, 0, .3), o.AgeAt(&post, .3); a != b {
			t.Errorf("%+v: age for a site that never sent a notice is %v, want %v", o, a, b)
		}
	}
	post, rate := sure(18)
	perfect := tells(1, 1)
	for n := 1; n < 4; n++ {
		now, harmonic := fresh.Objective{Fresh: 1}.Notified(&post, perfect, 0, n), fresh.Objective{}.Notified(&post, perfect, 0, n)
		if !about(now, 1/rate, .02) || !about(harmonic, float64(n)/rate, .12) {
			t.Errorf("%d notices from a site that is always right: %v and %v, want %v and %v", n, now, harmonic, 1/rate, float64(n)/rate)
		}
	}
	// Silence is worth little, and yet more and more: the hundredth part of the rate that nobody tells of.
	quiet := fresh.Objective{Fresh: 1}.Notified(&post, perfect, 1/rate, 0) * rate
	long := fresh.Objective{Fresh: 1}.Notified(&post, perfect, 200/rate, 0) * rate
	if quiet > .01 || long < .5 {
		t.Errorf("silence of a site that announces everything: %v after a mean interval, %v after 200", quiet, long)
	}
	// Age: what was told d days ago.
	for _, d := range []float64{.1, 1, 5} {
		days := d / rate
		h := fresh.Hearing{Age: 2/rate + days, Notices: 1, Since: days}
		got := fresh.Objective{Age: 1}.Heard(&post, perfect, h)
		h.Notices = 0 // what it is for the changes that nobody tells of
		got -= fresh.Objective{Age: 1}.Heard(&post, perfect, h)
		if want := days*days/2 + days/rate; !about(got, want, .03) {
			t.Errorf("notice %v days ago: %v, want %v", days, got, want)
		}
	}
}

// The index never falls with time or notices, and the age at which it reaches a price is found.
func TestAgeNotifiedInvertsIndex(t *testing.T) {
	beliefs := []fresh.Belief{{}, {Quiet: 30, Dated: 4}, {Quiet: 300}, {Quiet: 1, Dated: 60}}
	signals := []fresh.Signal{tells(.98, .95), tells(.5, .9), tells(.1, .3), {Right: 3}, {Wrong: 6, Heard: 2},
		{Right: 10, Wrong: 90, Heard: 9, Flood: fresh.Flood{Notices: 900, Days: 1000, Odds: 4}}, {Right: 40, Wrong: 40, Flood: fresh.Flood{Notices: 90, Days: 2000, Odds: -.5}}}
	for _, b := range beliefs {
		post := new(fresh.Prior).Under(&b)
		for _, s := range signals {
			for _, o := range objectives {
				for n := range 5 {
					last := 0.
					for age := 1e-4; age < 1e6; age *= 1.3 {
						w := o.Notified(&post, s, age, n)
						if w < last*(1-1e-9) {
							t.Fatalf("%+v %+v %+v: at age %v with %d notices it falls from %v to %v", b, s, o, age, n, last, w)
						}
						if more := o.Notified(&post, s, age, n+1); more < w*(1-1e-9) {
							t.Fatalf("%+v %+v %+v: at age %v it falls with notice %d from %v to %v", b, s, o, age, n+1, w, more)
						}
						last = w
					}
					for need := 1e-4; need < 1e4; need *= 7 {
						age := o.AgeNotified(&post, s, n, need)
						switch {
						case math.IsInf(age, 1):
							if w := o.Notified(&post, s, 1e9, n); w >= need {
								t.Fatalf("%+v %+v %+v: %d notices, need %v: never, and %v in the end", b, s, o, n, need, w)
							}
						case o.Notified(&post, s, age, n) < need*(1-1e-12):
							t.Fatalf("%+v %+v %+v: %d notices, need %v: %v at age %v", b, s, o, n, need, o.Notified(&post, s, age, n), age)
						case age > 2e-6 && o.Notified(&post, s, age*(1-1e-5), n) > need*(1+5e-6):
							t.Fatalf("%+v %+v %+v: %d notices, need %v: reached before age %v", b, s, o, n, need, age)
						}
					}
				}
			}
		}
	}
}

// A web of pages with the rates of the reference: Gamma with the shape 1/2 and the mean 0.1 a day,
// importance by Zipf's law.
type noisyWeb struct{ rate, weight []float64 }

func newNoisyWeb(n int, seed uint64) (w noisyWeb) {
	rng := rand.New(rand.NewPCG(seed, 1))
	sum := 0.
	for _, place := range rng.Perm(n) {
		z := rng.NormFloat64()
		w.rate = append(w.rate, max(.1*z*z, 1e-5))
		w.weight = append(w.weight, 1/float64(place+1))
		sum += 1 / float64(place+1)
	}
	for i := range w.weight {
		w.weight[i] /= sum
	}
	return w
}

// spend finds the price at which so many requests a page and day are made, and returns the freshness.
func (w noisyWeb) spend(budget float64, at func(page int, need float64) (fresh, visits float64)) (freshness float64) {
	low, high := math.Log(1e-8), math.Log(10.)
	for range 12 {
		price := (low + high) / 2
		freshness = 0
		spent := 0.
		for i := range w.rate {
			f, v := at(i, math.Exp(price)/w.weight[i])
			freshness += w.weight[i] * f
			spent += v / float64(len(w.rate))
		}
		if spent > budget {
			low = price
		} else {
			high = price
		}
	}
	return freshness
}

// bound is the most that any policy can have that knows the rates and the quality of the notices: visits
// from a level on (GREEDY-NCIS). One table does for all rates.
func (w noisyWeb) bound(budget, precision, recall float64) float64 {
	const levels, top = 4000, 14.
	alpha, gamma, jump := 1-recall, recall/precision, -math.Log1p(-precision)
	h := top / levels
	var psi, right, gain [levels + 1]float64
	fine := int(math.Ceil(max(h*gamma/alpha*4, h/jump*8, 1)))
	step := h / float64(fine)
	late := int(math.Round(jump / step)) // the jump in steps
	fineness := make([]float64, levels*fine+1)
	for i := 1; i < len(fineness); i++ {
		before := 0.
		if i > late {
			before = (fineness[i-late] + fineness[i-late-1]) / 2
		}
		end := 1/gamma + before
		fineness[i] = end + (fineness[i-1]-end)*math.Exp(-gamma/alpha*step)
		u := float64(i) * step
		w := math.Exp(-u) * (fineness[i] - fineness[i-1])
		if i%fine == 1 || fine == 1 {
			right[(i+fine-1)/fine] = right[(i-1)/fine]
		}
		right[(i+fine-1)/fine] += w
		if i%fine == 0 {
			psi[i/fine] = fineness[i]
			gain[i/fine] = right[i/fine] - math.Exp(-u)*psi[i/fine]
		}
	}
	return w.spend(budget, func(i int, need float64) (float64, float64) {
		rate := w.rate[i]
		n, _ := slices.BinarySearch(gain[:], need*rate)
		if n > levels {
			return 0, 0
		}
		n = max(n, 1)
		return right[n] / psi[n], rate / psi[n]
	})
}

// polled is the bound of policies that get no notices.
func (w noisyWeb) polled(budget float64) float64 {
	o := fresh.Objective{Fresh: 1}
	return w.spend(budget, func(i int, need float64) (float64, float64) {
		age := o.AgeAtRate(w.rate[i], need)
		if math.IsInf(age, 1) {
			return 0, 0
		}
		return fresh.MeanFresh(w.rate[i], age), 1 / age
	})
}

// lived is the freshness of those who go by the index, and believe this of the notices.
func (w noisyWeb) lived(budget, precision, recall float64, s fresh.Signal, days float64) float64 {
	o := fresh.Objective{Fresh: 1}
	return w.spend(budget, func(i int, need float64) (float64, float64) {
		post := near(w.rate[i])
		ages := []float64{o.AgeNotified(&post, s, 0, need)}
		for n := 1; ages[n-1] > 0 && n < 12; n++ {
			ages = append(ages, o.AgeNotified(&post, s, n, need))
		}
		if math.IsInf(ages[len(ages)-1], 1) {
			return 0, 0
		}
		rng := rand.New(rand.NewPCG(uint64(i), 2))
		page := told{w.rate[i], precision, recall}
		var all, right, visits float64
		for all < days && visits < 2*days {
			d, r := page.cycle(rng, func(n int) float64 { return ages[min(n, len(ages)-1)] })
			all, right, visits = all+d, right+r, visits+1
		}
		return right / all, visits / all
	})
}

// With noisy notices whose quality is known the index is as good as can be; who trusts
// all of them, and who ignores them, has less. The reference prints the bound for
// 4,000 pages; that of these pages is beside it.
func TestNoisyNotices(t *testing.T) {
	reference := newNoisyWeb(4000, 1)
	for _, c := range []struct{ recall, precision, budget, bound float64 }{{.9, .5, .05, .909}, {.9, .1, .2, .960}} {
		if got := reference.bound(c.budget, c.precision, c.recall); math.Abs(got-c.bound) > .012 {
			t.Errorf("%+v: the bound is %.4f", c, got)
		}
	}
	pages := newNoisyWeb(240, 3)
	for _, c := range []struct {
		recall, precision float64
		budgets           []float64
	}{{.99, .95, []float64{.05}}, {.9, .98, []float64{.05}}, {.9, .5, []float64{.05, .2}}, {.5, .98, []float64{.05}}, {.9, .1, []float64{.2}}} {
		for _, budget := range c.budgets {
			bound, polled := pages.bound(budget, c.precision, c.recall), pages.polled(budget)
			index := pages.lived(budget, c.precision, c.recall, tells(c.precision, c.recall), 1500)
			trust := pages.lived(budget, c.precision, c.recall, tells(1, 1), 1500)
			t.Logf("recall %.2f precision %.2f, %.2f requests a page and day: %.4f of %.4f; trusting all %.4f, ignoring all %.4f",
				c.recall, c.precision, budget, index, bound, trust, polled)
			if index < .99*bound || index > bound+.01 {
				t.Errorf("the index has %.4f, the bound is %.4f", index, bound)
			}
			if index < max(trust, polled)-.003 {
				t.Errorf("the index has %.4f, trust %.4f, ignorance %.4f", index, trust, polled)
			}
		}
	}
}

// For any input, NaN included, the index is a finite number, 0 or more: pages are ordered by it.
func TestNotifiedTakesAnyNumber(t *testing.T) {
	hostile := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, -1, 1, 1e-300, 1e300, math.MaxFloat64, 5e-324}
	rng := rand.New(rand.NewPCG(9, 9))
	any := func() float64 {
		if rng.IntN(2) == 0 {
			return hostile[rng.IntN(len(hostile))]
		}
		return math.Exp(rng.NormFloat64() * 5)
	}
	for range 5_000 {
		b := fresh.Belief{Quiet: float32(rng.ExpFloat64() * 100), Dated: float32(rng.IntN(20))}
		post := new(fresh.Prior).Under(&b)
		var s fresh.Signal
		for _, f := range []*float32{&s.Right, &s.Wrong, &s.Heard, &s.Missed, &s.Due, &s.Silent, &s.Lag, &s.Lags, &s.Numbers.Told, &s.Numbers.Lost,
			&s.Turn.Right, &s.Turn.Wrong, &s.Flood.Notices, &s.Flood.Days, &s.Flood.Odds} {
			*f = float32(any())
		}
		s.Numbers.Sure = rng.IntN(2) == 0
		o := fresh.Objective{Fresh: any(), Harmonic: any(), Age: any()}
		age, notices := any(), int(any())
		h := fresh.Hearing{Age: age, Notices: notices, Since: any()}
		what := fmt.Sprintf("%+v %+v %+v", o, s, h)
		if w := o.Heard(&post, s, h); !(w >= 0) || math.IsInf(w, 0) {
			t.Fatalf("%s: index %v", what, w)
		}
		if a := o.AgeNotified(&post, s, notices, any()); !(a >= 0) {
			t.Fatalf("%s: age %v", what, a)
		}
		for range 3 {
			s.Visited(&post, h, rng.IntN(2) == 0)
			s.Judged(rng.IntN(2) == 0)
			s.Found(rng.IntN(2) == 0)
			s.Lagged(any())
			s.Numbers.Add(notices, 0)
			s.Numbers.Add(0, notices)
		}
		for name, share := range map[string]float64{"precision": s.Precision(), "recall": s.Recall(), "precision of a page": s.PrecisionOf(&post)} {
			if !(share >= 0 && share <= 1) {
				t.Fatalf("%s: %s %v, then %+v", what, name, share, s)
			}
		}
		if d, room := s.Delay(), s.Room(); !(d >= 0) || math.IsInf(d, 0) || room < 1 || room > 1000 {
			t.Fatalf("%s: delay %v, room %d", what, d, room)
		}
	}
}

func BenchmarkNotified(b *testing.B) {
	post := new(fresh.Prior).Under(&fresh.Belief{Quiet: 20, Dated: 3})
	s := tells(.96, .9)
	for _, o := range []fresh.Objective{{Fresh: 1}, {Harmonic: 1}, {Age: 1}} {
		for n := range 3 {
			b.Run(fmt.Sprintf("%+v/%d", o, n), func(b *testing.B) {
				for i := range b.N {
					o.Notified(&post, s, float64(i%30), n)
				}
			})
		}
		b.Run(fmt.Sprintf("%+v/age", o), func(b *testing.B) {
			for range b.N {
				o.AgeNotified(&post, s, 0, 1)
			}
		})
	}
}
