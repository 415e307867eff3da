package fresh_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// A tally collects estimates relative to the true rate.
type tally struct{ n, undefined, sum, squares float64 }

func (t *tally) add(estimate, truth float64, ok bool) {
	t.n++
	if !ok {
		t.undefined++
		return
	}
	e := estimate/truth - 1
	t.sum += e
	t.squares += e * e
}

func (t *tally) figures() (bias, error, undefined float64) {
	defined := max(t.n-t.undefined, 1)
	return t.sum / defined, math.Sqrt(t.squares / defined), t.undefined / t.n
}

func (t *tally) check(test *testing.T, what string, bias, rmse, undefined, tolerance float64) {
	test.Helper()
	b, e, u := t.figures()
	// Printed to two digits, and of a sample of its own.
	near := func(a, b, tolerance float64) bool { return math.Abs(a-b) <= .006+tolerance }
	if !near(b, bias, tolerance) || !near(e, rmse, tolerance) || !near(u, undefined, 3*math.Sqrt(u*(1-u)/t.n)) {
		test.Errorf("%s: bias %+.3f RMSE %.3f undefined %.3f; want %+.2f/%.2f/%.2f", what, b, e, u, bias, rmse, undefined)
	}
}

// Table 1.3 of the reference: bias, error and share without a value, for visits at equal intervals with
// r expected changes in each.
func TestEstimatorsOfEqualIntervals(t *testing.T) {
	const repeats = 8_000
	rng := rand.New(rand.NewPCG(13, 1))
	for _, c := range []struct {
		n                                   int
		r                                   float64
		naive, raw, reduced, printed, dated [3]float64
	}{
		{10, .2, [3]float64{.05, .53, .14}, [3]float64{.23, .77, .14}, [3]float64{.16, .70, .14}, [3]float64{-.88, .89, .14}, [3]float64{.16, .70, .13}},
		{10, 1, [3]float64{-.37, .40, 0}, [3]float64{.09, .47, .01}, [3]float64{.01, .44, 0}, [3]float64{-.90, .90, 0}, [3]float64{.01, .42, 0}},
		{10, 2, [3]float64{-.57, .57, 0}, [3]float64{-.08, .25, .24}, [3]float64{-.03, .35, 0}, [3]float64{-.90, .90, 0}, [3]float64{.01, .37, 0}},
		{10, 4, [3]float64{-.76, .76, 0}, [3]float64{-.44, .44, .83}, [3]float64{-.29, .31, 0}, [3]float64{-.90, .90, 0}, [3]float64{0, .35, 0}},
		{50, 1, [3]float64{-.37, .38, 0}, [3]float64{.02, .19, 0}, [3]float64{0, .19, 0}, [3]float64{-.98, .98, 0}, [3]float64{0, .18, 0}},
		{50, 4, [3]float64{-.76, .76, 0}, [3]float64{-.10, .15, .40}, [3]float64{-.05, .18, 0}, [3]float64{-.98, .98, 0}, [3]float64{0, .15, 0}},
	} {
		var naive, raw, reduced, printed, dated tally
		since := time.Duration(c.n) * day
		for range repeats {
			x, quiet := 0, 0.
			for range c.n {
				ago := rng.ExpFloat64() / c.r // the last change before the visit
				if ago < 1 {
					x++
				}
				quiet += min(ago, 1)
			}
			unchanged := time.Duration(quiet * float64(day))
			some := x > 0
			naive.add(float64(x)/float64(c.n), c.r, some)
			r, ok := fresh.Raw(c.n, x, since)
			raw.add(r, c.r, ok && some)
			reduced.add(fresh.Compared(c.n, x, since), c.r, some)
			printed.add(fresh.Dated(c.n, x, unchanged)/float64(c.n), c.r, some)
			dated.add(fresh.Dated(c.n, x, unchanged), c.r, some)
		}
		noise := 3 * c.dated[1] / math.Sqrt(repeats)
		naive.check(t, "naive", c.naive[0], c.naive[1], c.naive[2], noise)
		raw.check(t, "(2.3)", c.raw[0], c.raw[1], c.raw[2], noise)
		reduced.check(t, "bias-reduced", c.reduced[0], c.reduced[1], c.reduced[2], noise)
		printed.check(t, "(2.2) as printed", c.printed[0], c.printed[1], c.printed[2], noise)
		dated.check(t, "(2.2)", c.dated[0], c.dated[1], c.dated[2], noise)
	}
}

// The reference's line for intervals that are not alike, lognormal with the mean 1 and sigma 1.
func TestEstimatorsOfUnequalIntervals(t *testing.T) {
	const repeats, n = 400, 50
	for _, c := range []struct{ rate, raw, reduced, likeliest, halved, firth, bayes float64 }{
		{1, -.31, -.32, .03, .04, -.02, .02}, {4, -.54, -.55, .07, -.03, 0, .05}} {
		rng := rand.New(rand.NewPCG(14, uint64(c.rate)))
		var raw, reduced, likeliest, halved, firth, bayes tally
		for range repeats {
			var checks []fresh.Check
			var b fresh.Belief
			x, all := 0, 0.
			for range n {
				i := math.Exp(rng.NormFloat64() - .5)
				changed := rng.ExpFloat64() < c.rate*i
				checks = append(checks, fresh.Check{Days: i, Changed: changed})
				if all += i; changed {
					x++
					b.Changed(i)
				} else {
					b.Unchanged(i)
				}
			}
			since := time.Duration(all * float64(day))
			r, ok := fresh.Raw(n, x, since)
			raw.add(r, c.rate, ok)
			reduced.add(fresh.Compared(n, x, since), c.rate, true)
			r, ok = fresh.Likeliest(checks)
			likeliest.add(r, c.rate, ok)
			r, ok = fresh.LikeliestHalved(checks)
			halved.add(r, c.rate, ok)
			r, ok = fresh.LikeliestReduced(checks)
			firth.add(r, c.rate, ok)
			post := new(fresh.Prior).Under(&b)
			bayes.add(post.Mean(), c.rate, true)
		}
		for _, e := range []struct {
			what string
			t    tally
			bias float64
		}{{"(2.3)", raw, c.raw}, {"bias-reduced", reduced, c.reduced}, {"likeliest", likeliest, c.likeliest},
			{"halved", halved, c.halved}, {"reduced", firth, c.firth}, {"mean of the belief", bayes, c.bayes}} {
			bias, rmse, undefined := e.t.figures()
			t.Logf("rate %v, %s: bias %+.3f RMSE %.3f undefined %.3f (there %+.2f)", c.rate, e.what, bias, rmse, undefined, e.bias)
			if math.Abs(bias-e.bias) > .006+3*rmse/math.Sqrt(repeats) { // the belief's prior is ours
				t.Errorf("rate %v, %s: bias %+.3f, want %+.2f", c.rate, e.what, bias, e.bias)
			}
		}
	}
}

// Visits at random times, one a day: 500 of a page that changes once a day.
func TestEstimatorsOfOneNumber(t *testing.T) {
	const repeats, n = 500, 500
	rng := rand.New(rand.NewPCG(15, 1))
	var online, approximate, likeliest tally
	for range repeats {
		var checks []fresh.Check
		x, rate := 0, 0.
		for k := range n {
			i := rng.ExpFloat64()
			changed := rng.ExpFloat64() < i
			if changed {
				x++
			}
			checks = append(checks, fresh.Check{Days: i, Changed: changed})
			rate = fresh.Approximate(rate, 1, k+1, changed)
		}
		online.add(fresh.Online(1, n, x), 1, true)
		approximate.add(rate, 1, true)
		if rng.IntN(4) == 0 {
			r, ok := fresh.Likeliest(checks)
			likeliest.add(r, 1, ok)
		}
	}
	for _, e := range []struct {
		what        string
		t           tally
		rmse, noise float64
	}{{"law of large numbers", online, .088, .01}, {"stochastic approximation", approximate, .105, .012}, {"likeliest", likeliest, .069, .014}} {
		if _, rmse, _ := e.t.figures(); math.Abs(rmse-e.rmse) > e.noise {
			t.Errorf("%s: RMSE %.3f, want %.3f", e.what, rmse, e.rmse)
		} else {
			t.Logf("%s: RMSE %.3f (there %.3f)", e.what, rmse, e.rmse)
		}
	}
}

// Whatever the counts, an estimate is a number that can be printed, or is reported as undefined.
func TestEstimatorsTakeAnyNumber(t *testing.T) {
	finite := func(what string, rate float64) {
		t.Helper()
		if !(rate >= 0 && rate <= 24*3600) {
			t.Fatalf("%s: %v", what, rate)
		}
	}
	for n := -1; n <= 60; n++ {
		for x := -1; x <= n+1; x++ {
			for _, since := range []time.Duration{-day, 0, 1, day, math.MaxInt64} {
				r, ok := fresh.Raw(n, x, since)
				finite("raw", r)
				if ok != (n > 0 && x < n && since > 0) {
					t.Fatalf("raw of %d of %d in %v: %v, %v", x, n, since, r, ok)
				}
				finite("compared", fresh.Compared(n, x, since))
				finite("dated", fresh.Dated(n, x, since))
			}
			finite("online", fresh.Online(1, n, x))
		}
	}
	hostile := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 5e-324, 1e-9, 1, 1e9, math.MaxFloat64}
	rng := rand.New(rand.NewPCG(16, 1))
	for range 2000 {
		var checks []fresh.Check
		changed, unchanged := false, false
		for range rng.IntN(6) {
			c := fresh.Check{Days: hostile[rng.IntN(len(hostile))], Changed: rng.IntN(2) == 0}
			checks = append(checks, c)
			if c.Days > 0 {
				changed, unchanged = changed || c.Changed, unchanged || !c.Changed
			}
		}
		r, ok := fresh.Likeliest(checks)
		if finite("likeliest", r); ok != unchanged || !changed && r != 0 {
			t.Fatalf("%v: %v, %v", checks, r, ok)
		}
		r, ok = fresh.LikeliestHalved(checks)
		if finite("halved", r); ok != (changed || unchanged) {
			t.Fatalf("%v: %v, %v", checks, r, ok)
		}
		r, ok = fresh.LikeliestReduced(checks)
		if finite("reduced", r); ok != (changed || unchanged) {
			t.Fatalf("%v: %v, %v", checks, r, ok)
		}
		a, b := hostile[rng.IntN(len(hostile))], hostile[rng.IntN(len(hostile))]
		finite("online", fresh.Online(a, rng.IntN(9)-2, rng.IntN(9)-2))
		finite("approximate", fresh.Approximate(a, b, rng.IntN(9)-2, rng.IntN(2) == 0))
	}
}
