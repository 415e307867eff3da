package browse_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/browse"
	"github.com/parleyweb/parley/internal/must"
)

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within) {
		t.Errorf("%s: %.5f, want %.5f within %g", what, got, want, within)
	}
}

func forecast(t *testing.T, m *browse.Model) *browse.Forecast {
	t.Helper()
	return must.Get(m.Forecast())
}

// Castillo's table 5.1, with 3.33 in place of 3.34. Each session ends by a return to level 0, so that its length is one by the share of
// level 0. From q = 0.5 on, no depth bounds model A.
func TestTable51(t *testing.T) {
	for i, want := range [][3]float64{{1.13, 1.11, 1.23}, {1.33, 1.25, 1.56}, {1.75, 1.43, 2.04}, {3, 1.67, 2.78}, {0, 2, 4}, {0, 2.5, 6.25}, {0, 3.33, 11.11}, {0, 5, 25}, {0, 10, 100}} {
		for j, name := range []string{"A", "B", "C"} {
			m := &browse.Model{Name: name, Q: float64(i+1) / 10}
			f, err := m.Forecast()
			if want[j] == 0 {
				if _, stop := m.StopDepth(.9); err == nil || stop == nil || !strings.Contains(err.Error(), "more than 1024 levels") {
					t.Errorf("%s with q = %g has an end: %v", name, m.Q, err)
				}
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			near(t, fmt.Sprint(name, m.Q), f.Length, want[j], .0051)
			near(t, fmt.Sprint(name, m.Q, " share of level 0"), f.Shares[0], 1/f.Length, 1e-9)
			// The closed forms of the paper.
			q, sum := m.Q, browse.Cumulative(f.Shares)
			for k := range 12 {
				n := float64(k + 1)
				near(t, fmt.Sprint(name, q, " to level ", k), sum[k], map[string]float64{"A": 1 - math.Pow(q/(1-q), n), "B": 1 - math.Pow(q, n),
					"C": 1 - (2+float64(k)-n*q)*math.Pow(q, n)}[name], 1e-9)
			}
		}
	}
}

// Equal shares by level need another parameter in model A than in B; then the lengths are equal as well, and the stop depths.
func TestEquivalenceOfAAndB(t *testing.T) {
	for _, q := range []float64{.3, .5, .7} {
		b := forecast(t, &browse.Model{Name: "B", Q: q})
		a := forecast(t, &browse.Model{Name: "A", Q: q / (1 + q)})
		near(t, "length", a.Length, b.Length, 1e-9)
		for k := range 20 {
			near(t, fmt.Sprint("share of level ", k), a.Shares[k], b.Shares[k], 1e-12)
		}
		if !(a.Depth < b.Depth) {
			t.Errorf("sessions of A are %.3f deep, those of B %.3f", a.Depth, b.Depth)
		}
	}
}

// A million simulated views agree with the models: in shares, length and depth. The actions add up.
func TestWalk(t *testing.T) {
	models := []*browse.Model{{Name: "A", Q: .3}, {Name: "A", Q: .4}, {Name: "B", Q: .3}, {Name: "B", Q: .7}, {Name: "C", Q: .3}, {Name: "C", Q: .5}, {Name: "C", Q: .7},
		{Name: "B", Q: .6, Duplicates: .3}, {Name: "A", Q: .45, Duplicates: .2}, browse.Table54().ByLevel()}
	for i, m := range models {
		name := fmt.Sprint(m.Name, m.Q, m.Duplicates)
		f, v := forecast(t, m), m.Walk(1_000_000, rand.New(rand.NewPCG(7, uint64(i))))
		near(t, name+" length", v.Length(), f.Length, .01*f.Length)
		near(t, name+" depth", v.Depth(), f.Depth, .01*f.Depth)
		for k, x := range v.Shares()[:5] {
			near(t, fmt.Sprint(name, " share of level ", k), x, f.Shares[k], .002)
		}
		views, ends := 0., 0.
		for l, a := range v.Levels {
			views += a.Sum()
			ends += a.Jump
			if l < 2 && a.Start > 0 || l < 3 && a.Prev > 0 || l == 0 && a.Back > 0 {
				t.Errorf("%s: level %d has %+v", name, l, a)
			}
		}
		if v.Views != 1_000_000 || int64(views) != v.Views || int64(ends) != v.Sessions {
			t.Errorf("%s: %d views in %d sessions; actions of %.0f views, %.0f ends", name, v.Views, v.Sessions, views, ends)
		}
	}
	if v := (&browse.Model{Name: "A", Q: .6}).Walk(1000, rand.New(rand.NewPCG(1, 1))); v.Views != 1000 || len(v.Levels) < 100 {
		t.Errorf("visitors without a bound: %d views of %d levels", v.Views, len(v.Levels))
	}
}

// The depths at which 90 % of the views are covered. Section 5.2.4 says otherwise of some.
func TestStopDepth(t *testing.T) {
	for text, want := range map[string]int{"0.4": 2, ".5": 3, "B:0.6": 4, "C:0.4": 3, "c: 0.5": 5, "C:0.6": 7, "A:0.4": 5, "B:0.1": 0, "B:0": 0, "C:0.63": 7, "B:0.79": 9} {
		m := must.Get(browse.ParseModel(text))
		if k, err := m.StopDepth(.9); k != want || err != nil {
			t.Errorf("%s: depth %d, want %d: %v", text, k, want, err)
		}
	}
	for _, text := range []string{"", "1", "-0.1", "NaN", "D:0.5", "AB:0.5", ":0.5", "C:", "0.5:C", " :.5"} {
		if m, err := browse.ParseModel(text); err == nil {
			t.Errorf("%q is %+v", text, m)
		}
	}
	if _, err := (&browse.Model{Name: "B", Q: .9999}).StopDepth(.99); err == nil {
		t.Error("a depth of thousands of levels is a stop depth")
	}
}

// A duplicate page leads back to the level where its content was seen first. In model C, which goes back to any level anyway, that is a
// smaller q; in all models visitors come less deep.
func TestDuplicatesLeadBack(t *testing.T) {
	for _, name := range []string{"A", "B", "C"} {
		last := math.Inf(1)
		for _, share := range []float64{0, .2, .5, .9} {
			f := forecast(t, &browse.Model{Name: name, Q: .45, Duplicates: share})
			if !(f.Depth < last) {
				t.Errorf("%s with %g duplicates: depth %.4f, with fewer %.4f", name, share, f.Depth, last)
			}
			last = f.Depth
			less := forecast(t, &browse.Model{Name: "C", Q: .45 * (1 - share)})
			for k := range 10 {
				if name == "C" {
					near(t, fmt.Sprint("share of level ", k), f.Shares[k], less.Shares[k], 1e-12)
				}
			}
		}
	}
	m := &browse.Model{Name: "B", Q: .6}
	k, _ := m.StopDepth(.9)
	m.Duplicates = .3
	if less, err := m.StopDepth(.9); err != nil || less >= k {
		t.Errorf("stop depth %d with duplicates, %d without: %v", less, k, err)
	}
}

// The q of simulated visitors is found again, by the fit of their own model, with a smaller error than that of another one.
func TestFitFindsQ(t *testing.T) {
	for i, c := range []struct {
		m     browse.Model
		other string
	}{{browse.Model{Name: "A", Q: .35}, "C"}, {browse.Model{Name: "B", Q: .2}, "C"}, {browse.Model{Name: "B", Q: .69}, "C"}, {browse.Model{Name: "C", Q: .33}, "B"}, {browse.Model{Name: "C", Q: .63}, "B"}} {
		v := c.m.Walk(200_000, rand.New(rand.NewPCG(2, uint64(i))))
		own, err1 := browse.FitTo(c.m.Name, v)
		other, err2 := browse.FitTo(c.other, v)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		near(t, fmt.Sprint(c.m.Name, c.m.Q), own.Model.Q, c.m.Q, .01)
		if !(own.RMS < other.RMS/3 && own.Error < other.Error && own.Worst < .01 && own.Error > 0) {
			t.Errorf("%s: error %+v, as %s %+v", c.m.Name, own, c.other, other)
		}
	}
	one := &browse.Visits{}
	if _, err := browse.FitTo("B", one); err == nil {
		t.Error("a fit without sessions")
	}
	one.Add([]int{0})
	if f, err := browse.FitTo("C", one); err != nil || f.Model.Q != 0 || f.Error != 0 || f.Worst != 0 {
		t.Errorf("one page: %+v, %v", f, err)
	}
}

// What table 5.4 says of levels and lengths. The model of its actions, which knows nothing else, comes near to it, though the rows are
// means over sites of different size: by them, more visitors would reach level 1.
func TestTable54(t *testing.T) {
	v := browse.Table54()
	sum := browse.Cumulative(v.Shares())
	near(t, "level 0", sum[0], .445, .0005)
	near(t, "levels 0 to 4", sum[4], .913, .0005)
	near(t, "length", v.Length(), 2.714, .0005)
	for l, a := range v.Levels {
		near(t, fmt.Sprint("row ", l), a.Shares().Sum(), 1, 1e-12)
	}
	f := forecast(t, v.ByLevel())
	near(t, "length of the model", f.Length, 2.714, .07)
	for k := range 6 {
		near(t, fmt.Sprint("to level ", k), browse.Cumulative(f.Shares)[k], sum[k], .031)
	}
}

// A session's actions by its levels, as in table 5.4.
func TestActionsOfASession(t *testing.T) {
	v := &browse.Visits{}
	v.Add([]int{0, 1, 2, 1, 2, 3, 4, 2, 0, 0, 1, 0, 2, 3, 1})
	v.Add([]int{0})
	if v.Sessions != 2 || v.Views != 16 || v.Single != 1 || v.Length() != 8 || v.Depth() != 2 || len(v.Levels) != 5 {
		t.Errorf("%+v", v)
	}
	for l, want := range []browse.Actions{{Next: 2, Fwd: 1, Stay: 1, Jump: 1}, {Next: 2, Back: 1, Jump: 1}, {Next: 2, Back: 1, Start: 1}, {Next: 1, Prev: 1}, {Prev: 1}} {
		if v.Levels[l] != want {
			t.Errorf("level %d: %+v, want %+v", l, v.Levels[l], want)
		}
	}
	if _, err := (&browse.Model{Name: "still", Levels: []browse.Actions{{Stay: 1}}}).Forecast(); err == nil {
		t.Error("a visitor who stays for ever has a forecast")
	}
	if f := forecast(t, &browse.Model{Name: "empty", Levels: []browse.Actions{{}}}); f.Length != 1 || f.Depth != 0 {
		t.Errorf("without actions: %+v", f)
	}
}
