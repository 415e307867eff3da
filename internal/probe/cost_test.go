package probe

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func one(perDay float64) mix {
	return mix{{1, perDay / (24 * hour)}}
}

// The numbers of F06: interval 1, rates 1, 2 and 0.2.
func TestFreshnessAndAgeMatchThesis(t *testing.T) {
	const day = 24 * hour
	for _, c := range []struct{ rate, f, a float64 }{{1, 0.6321, 0.1321}, {2, 0.4323, 0.2162}, {0.2, 0.9063, 0.0317}} {
		m := one(c.rate)
		if f, a := m.fresh(day), m.age(day)/day; math.Abs(f-c.f) > 5e-5 || math.Abs(a-c.a) > 5e-5 {
			t.Errorf("rate %v: freshness %.4f and age %.4f, want %.4f and %.4f", c.rate, f, a, c.f, c.a)
		}
	}
}

func TestIntervalReachesFreshness(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		var m mix
		n := 1 + r.IntN(20)
		for range n {
			m = append(m, struct{ share, rate float64 }{1 / float64(n), math.Exp(-20 + 18*r.Float64())})
		}
		want := 0.05 + 0.94*r.Float64()
		if got := m.fresh(m.interval(want)); math.Abs(got-want) > 1e-6 {
			t.Fatalf("freshness %v, want %v", got, want)
		}
		// The series of the age meets the formula.
		i := 1e-4 / m[0].rate
		low, high := mix{m[0]}.age(i*0.9999), mix{m[0]}.age(i*1.0001)
		if m[0].share = 1; high < low || high > low*1.01 {
			t.Fatalf("age jumps from %v to %v", low, high)
		}
	}
}

// For a site whose pages change at known rates, the estimates come near
// them, though only each page's last change is visible.
func TestEstimatedRatesNearTrueRates(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 2))
		var truth, alike float64
		var mixed, same []time.Duration
		for range 1000 {
			rate := math.Exp(-17 + 4*r.Float64()) // from one in 280 days to one in 5
			truth += rate / 1000
			mixed = append(mixed, time.Duration(r.ExpFloat64()/rate*1e9))
			alike = 1 / (10 * 24 * hour)
			same = append(same, time.Duration(r.ExpFloat64()/alike*1e9))
		}
		if got := believe(mixed).rate(); got < truth/1.5 || got > truth*1.5 {
			t.Errorf("seed %d: mixed rates: believed %.3g, true %.3g", seed, got, truth)
		}
		if got := believe(same).rate(); got < alike/1.3 || got > alike*1.3 {
			t.Errorf("seed %d: one rate: believed %.3g, true %.3g", seed, got, alike)
		}
	}
}

func TestEstimateTakesAnyDates(t *testing.T) {
	for _, ages := range [][]time.Duration{
		nil, {0}, {-time.Hour}, {math.MaxInt64}, {0, math.MaxInt64}, make([]time.Duration, 50_000), {time.Second, 1e18},
	} {
		m := believe(ages)
		sum := 0.0
		for _, g := range m {
			sum += g.share
		}
		i := m.interval(0.9)
		for what, f := range map[string]float64{"rate": m.rate(), "interval": i, "fresh": m.fresh(i), "age": m.age(i), "changed": m.changed(i)} {
			if math.IsNaN(f) || math.IsInf(f, 0) || f <= 0 {
				t.Errorf("%d ages: %s is %v", len(ages), what, f)
			}
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Errorf("%d ages: shares are %v together", len(ages), sum)
		}
	}
}
