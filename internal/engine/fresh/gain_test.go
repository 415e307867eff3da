package fresh_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

var objectives = []fresh.Objective{{}, {Fresh: 1}, {Harmonic: 1}, {Age: 1}, {Fresh: 0.3, Harmonic: 0.5, Age: 0.01}}

// cost is what a copy costs that was right u days ago, by its definition: summed
// over how many changes there may have been.
func cost(o fresh.Objective, rate, u float64) (c float64) {
	if o == (fresh.Objective{}) {
		o.Harmonic = 1
	}
	x := rate * u
	p, harmonic := math.Exp(-x), 0.
	for n := 0.; n < 40+3*x; n++ {
		if n > 0 {
			p *= x / n
			harmonic += 1 / n
			// The first of n changes is after a share 1/(n+1) of the time.
			c += p * (o.Fresh + o.Harmonic*harmonic + o.Age*u*(1-1/(n+1)))
		}
	}
	return c
}

// integral is that of f from 0 to t by Simpson's rule.
func integral(f func(float64) float64, t float64) (sum float64) {
	const n = 10_000
	for i := range n + 1 {
		w := 2. + 2*float64(i%2)
		if i == 0 || i == n {
			w = 1
		}
		sum += w * f(t*float64(i)/n)
	}
	return sum * t / n / 3
}

// The index is by definition the loss of a moment's delay, compared with the average cost
// of a day.
func TestIndexIsTheGain(t *testing.T) {
	for _, o := range objectives {
		for _, rate := range []float64{0.01, 0.3, 1, 7} {
			for _, age := range []float64{0.5, 2, 3, 10} {
				want := age*cost(o, rate, age) - integral(func(u float64) float64 { return cost(o, rate, u) }, age)
				if got := o.AtRate(rate, age); !about(got, want, 1e-9*max(1, 1/(rate*age))) {
					t.Errorf("%+v at rate %v and age %v: %v, want %v", o, rate, age, got, want)
				}
			}
		}
	}
}

// Where the closed forms lose their digits, the first two terms of their series do
// not; where x is beyond all powers of e, they have ended.
func TestIndexAtNumericLimits(t *testing.T) {
	for _, x := range []float64{1e-300, 1e-12, 1e-6, 1e-4} {
		for rate := 1e-3; rate < 1e4; rate *= 10 {
			age := x / rate
			for _, c := range []struct {
				o    fresh.Objective
				want float64
			}{
				{fresh.Objective{Fresh: 1}, age * x / 2 * (1 - 2*x/3)},
				{fresh.Objective{Harmonic: 1}, age * x / 2 * (1 - x/3)},
				{fresh.Objective{Age: 1}, age * age * x / 3 * (1 - 3*x/8)},
			} {
				if got := c.o.AtRate(rate, age); math.Abs(got-c.want) > 1e-8*c.want {
					t.Errorf("%+v at rate %v and age %v: %v, want %v", c.o, rate, age, got, c.want)
				}
			}
		}
	}
	for _, c := range []struct {
		o         fresh.Objective
		rate, age float64
		want      float64
	}{
		{fresh.Objective{Fresh: 1}, 2, 1e6, 0.5}, {fresh.Objective{Harmonic: 1}, 2, 1e6, 1e6 - 0.5}, {fresh.Objective{Age: 1}, 2, 1e6, 5e11 - 0.25},
		{fresh.Objective{Fresh: 1}, 0, 1e6, 0}, {fresh.Objective{}, 1, 0, 0}, {fresh.Objective{}, math.Inf(1), 3, 3}, {fresh.Objective{Fresh: 1}, math.Inf(1), 3, 0},
	} {
		if got := c.o.AtRate(c.rate, c.age); !about(got, c.want, 1e-12) && math.Abs(got-c.want) > 1e-30 {
			t.Errorf("%+v at rate %v and age %v: %v, want %v", c.o, c.rate, c.age, got, c.want)
		}
	}
	// From series to closed form without a step.
	for _, o := range objectives {
		if a, b := o.AtRate(1, (1-1e-15)/32), o.AtRate(1, 1./32); !about(a, b, 1e-11) {
			t.Errorf("%+v: %v beside %v", o, a, b)
		}
	}
}

// AgeAtRate returns the age at which the index has exactly the given value.
func TestAgeAtRateInverts(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	never := 0
	for range 100_000 {
		o := objectives[rng.IntN(len(objectives))]
		rate, need := math.Exp(rng.Float64()*30-18), math.Exp(rng.Float64()*40-30)
		age := o.AgeAtRate(rate, need)
		if math.IsInf(age, 1) {
			if never++; o.AtRate(rate, 1e9) >= need {
				t.Fatalf("%+v at rate %v never needs %v, but %v is more", o, rate, need, o.AtRate(rate, 1e9))
			}
			continue
		}
		if got := o.AtRate(rate, age); !about(got, need, 1e-9) {
			// Near its end freshness does not tell ages apart.
			if o.Fresh == 0 || rate*age < 15 || got < need*(1-1e-9) {
				t.Fatalf("%+v at rate %v: need %v, at age %v it is %v", o, rate, need, age, got)
			}
		}
	}
	if never < 1000 {
		t.Errorf("only %d are never met", never)
	}
}

// beliefs returns posteriors of pages that were visited for a while.
func beliefs(rng *rand.Rand) (p fresh.Posterior) {
	var b fresh.Belief
	rate := math.Exp(rng.Float64()*14 - 9)
	for range rng.IntN(20) {
		span := math.Exp(rng.Float64()*9 - 6)
		switch {
		case rng.Float64() > -math.Expm1(-rate*span):
			b.Unchanged(span)
		case rng.IntN(2) == 0:
			b.Changed(span)
		default:
			b.ChangedAt(span * rng.Float64())
		}
	}
	return new(fresh.Prior).Under(&b)
}

// The mean over a posterior is a sum; tables and interpolation cause an error of at most 1/2500.
func TestIndexOverAPosterior(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	rates := fresh.Rates()
	worst, early := map[string]float64{}, 0
	for range 50_000 {
		o := objectives[rng.IntN(len(objectives))]
		p, age := beliefs(rng), math.Exp(rng.Float64()*30-16)
		want, stale := 0., 0.
		for k, share := range p {
			want += share * o.AtRate(rates[k], age)
			stale += share * (1 - fresh.MeanFresh(rates[k], age))
		}
		name := fmt.Sprint(o)
		got := o.At(&p, age)
		worst[name] = max(worst[name], math.Abs(got/want-1))
		if !about(got, want, 4e-4) {
			t.Fatalf("%+v at age %v: %v, want %v of %v", o, age, got, want, p)
		}
		if got := 1 - p.MeanFresh(age); !about(got, stale, 2e-4) && math.Abs(got-stale) > 1e-15 {
			t.Fatalf("%v of the time outdated at %v, want %v", got, age, stale)
		}
		if least := o.AgeAt(&p, got*(1-1e-12)); least > age*(1+1e-9) {
			t.Fatalf("%+v: %v is met at %v, and not before %v", o, got, age, least)
		} else if again := o.At(&p, least); !about(again, got, 1e-9) && !(least < 1e-6) {
			t.Fatalf("%+v: need %v, at age %v it is %v", o, got, least, again)
		} else if o.Fresh != 1 && !about(least, age, 1e-6) {
			early++
		}
	}
	t.Logf("worst relative errors: %v", worst)
	if early > 0 {
		t.Errorf("%v of 50000 ages were met earlier", early)
	}
}

// Freshness is given up for pages that never pay, even after infinite time; the other objectives never are.
func TestFreshnessDropsPagesThatNeverPay(t *testing.T) {
	p := new(fresh.Prior).Under(&fresh.Belief{Dated: 400, Quiet: 100}) // four a day
	if age := (fresh.Objective{Fresh: 1}).AgeAt(&p, 0.3); !math.IsInf(age, 1) {
		t.Errorf("a page that is fresh for six hours gains seven after %v days", age)
	}
	if age := (fresh.Objective{}).AgeAt(&p, 0.3); !about(age, 0.3+0.25, 0.2) {
		t.Errorf("the harmonic cost is 0.3 days after %v days", age)
	}
	for _, o := range objectives[2:4] {
		if age := o.AgeAt(&p, 1e6); !(age < 1.1e6) {
			t.Errorf("%+v of 1e6 is reached after %v days", o, age)
		}
	}
}

// F06: the freshness and age that result from a visit every so many days.
func TestMeanFreshnessAndAge(t *testing.T) {
	for _, c := range []struct{ rate, fresh, age float64 }{{1, 0.6321, 0.1321}, {2, 0.4323, 0.2162}, {0.2, 0.9063, 0.0317}} {
		if f, a := fresh.MeanFresh(c.rate, 1), fresh.MeanAge(c.rate, 1); math.Abs(f-c.fresh) > 6e-5 || math.Abs(a-c.age) > 6e-5 {
			t.Errorf("rate %v: fresh %.4f, age %.4f, want %v and %v", c.rate, f, a, c.fresh, c.age)
		}
		if a := fresh.MeanAge(c.rate, 1); !about(a, integral(func(u float64) float64 { return u - (1-math.Exp(-c.rate*u))/c.rate }, 1), 1e-9) {
			t.Errorf("rate %v: mean age %v", c.rate, a)
		}
	}
	p := new(fresh.Prior).Under(&fresh.Belief{Dated: 3, Quiet: 10})
	want := 0.
	for k, rate := range fresh.Rates() {
		want += p[k] * fresh.MeanAge(rate, 5)
	}
	if got := p.MeanAge(5); !about(got, want, 1e-4) {
		t.Errorf("mean age %v, want %v", got, want)
	}
}

var hostile = []float64{0, 1, -1, 1e-300, 1e300, math.Inf(1), math.Inf(-1), math.NaN(), math.SmallestNonzeroFloat64, math.MaxFloat64, 1e-9, 700, 1e4}

// Whatever the rates, ages, weights and needs: an index is a number, 0 or more, and grows with the age.
func TestIndexTakesAnyInput(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	any := func() float64 {
		if rng.IntN(3) == 0 {
			return math.Exp(rng.Float64()*100 - 50)
		}
		return hostile[rng.IntN(len(hostile))]
	}
	index := func(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }
	for range 20_000 {
		o := fresh.Objective{Fresh: any(), Harmonic: any(), Age: any()}
		rate, age, need := any(), any(), any()
		p := beliefs(rng)
		w, v := o.AtRate(rate, age), o.At(&p, age)
		if !index(w) || !index(v) {
			t.Fatalf("%+v at rate %v and age %v: %v; over a posterior: %v", o, rate, age, w, v)
		}
		if age > 1e-50 && age < 1e8 {
			if o.AtRate(rate, 1.5*age) < w*(1-1e-12) || o.At(&p, 1.5*age) < v*(1-1e-12) {
				t.Fatalf("%+v at rate %v shrinks after %v", o, rate, age)
			}
		}
		if a, b := o.AgeAtRate(rate, need), o.AgeAt(&p, need); !(a >= 0) || !(b >= 0) {
			t.Fatalf("%+v at rate %v: %v is needed at %v; over a posterior at %v", o, rate, need, a, b)
		}
		if f, a := fresh.MeanFresh(rate, age), fresh.MeanAge(rate, age); !(f >= 0 && f <= 1) || !index(a) {
			t.Fatalf("rate %v, every %v: fresh %v, age %v", rate, age, f, a)
		}
		if f, a := p.MeanFresh(age), p.MeanAge(age); !(f >= 0 && f <= 1+1e-12) || !index(a) {
			t.Fatalf("every %v: fresh %v, age %v", age, f, a)
		}
	}
}

func BenchmarkAt(b *testing.B) {
	p := new(fresh.Prior).Under(&fresh.Belief{Dated: 3, Quiet: 100})
	age := 1e-3
	for b.Loop() {
		fresh.Objective{}.At(&p, age)
		if age *= 1.01; age > 1e3 {
			age = 1e-3
		}
	}
}

func BenchmarkAgeAt(b *testing.B) {
	p := new(fresh.Prior).Under(&fresh.Belief{Dated: 3, Quiet: 100})
	need := 1e-3
	for b.Loop() {
		fresh.Objective{}.AgeAt(&p, need)
		if need *= 1.01; need > 1e3 {
			need = 1e-3
		}
	}
}

func BenchmarkUnder(b *testing.B) {
	var seen fresh.Belief
	for i := range 12 {
		if seen.Unchanged(float64(i)); i%3 == 0 {
			seen.Changed(float64(i))
		}
	}
	var prior fresh.Prior
	for b.Loop() {
		prior.Under(&seen)
	}
}
