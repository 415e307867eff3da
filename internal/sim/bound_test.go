package sim_test

import (
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/sim"
)

// schedule computes the outcome of visits at intervals, independently of the package.
func schedule(w *sim.World, o fresh.Objective, every []float64) (cost float64) {
	for i, p := range w.Pages {
		d, t := p.Rate, every[i]
		x := d * t
		switch {
		case o.Fresh > 0:
			cost += p.Weight * (1 - (1-math.Exp(-x))/x)
		default:
			cost += p.Weight * t * (.5 - 1/x + (1-math.Exp(-x))/(x*x))
		}
	}
	return cost
}

// TestNoScheduleBeatsTheBound lets thousands of other schedules of the same budget try.
func TestNoScheduleBeatsTheBound(t *testing.T) {
	w := &sim.World{Name: "five", Sites: make([]sim.Site, 1), Pages: []sim.Page{
		{Rate: .02, Weight: 5}, {Rate: .1, Weight: 1}, {Rate: 1, Weight: 9}, {Rate: .5, Weight: 2}, {Rate: .3, Weight: 3},
	}}
	w.Normalize()
	const budget = .5
	for _, o := range []fresh.Objective{{Fresh: 1}, {Age: 1}} {
		bound := sim.PollBound(w, o, sim.Costs{}, budget)
		if math.Abs(bound.Spend-budget) > 1e-6 {
			t.Errorf("%+v: spends %v of %v", o, bound.Spend, budget)
		}
		best := math.Inf(1)
		rng := rand.New(rand.NewPCG(1, 1))
		every, at := make([]float64, len(w.Pages)), []float64{1, 1, 1, 1, 1} // logarithms of shares of the budget
		for try := range 60_000 {
			step := 2 * math.Exp(-float64(try)/8000)
			next, sum := make([]float64, len(at)), 0.
			for i := range next {
				next[i] = at[i] + step*rng.NormFloat64()
				sum += math.Exp(next[i])
			}
			for i := range next {
				every[i] = sum / (math.Exp(next[i]) * budget * float64(len(next)))
			}
			if cost := schedule(w, o, every); cost < best {
				best, at = cost, next
			}
		}
		got := bound.Age
		if o.Fresh > 0 {
			got = 1 - bound.Fresh
		}
		if got > best*(1+1e-9) || got < best*.999 {
			t.Errorf("%+v: the bound has %.6f, the best of many others %.6f", o, got, best)
		}
	}
}

// TestBoundsInBytes: costs in bytes, as in the reference.
func TestBoundsInBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second")
	}
	w := world(lognormal, 10_000, 100)
	bytes := fresh.Bytes()
	for i, b := range []float64{.05, .1, .2} {
		for _, c := range []struct {
			name  string
			want  float64
			bound sim.Bound
		}{
			{"blind GET", []float64{.225, .150, .091}[i], sim.PollBound(w, freshness, sim.Costs{}, b)},
			{"conditional GET", []float64{.081, .030, .0066}[i], sim.PollBound(w, freshness, bytes, b)},
			{"gzip manifest", []float64{.072, .022, .0032}[i], sim.ManifestBound(w.All(sim.Site{Manifest: true}), bytes, b)},
			{"delta manifest", []float64{.059, .013, .0006}[i], sim.ManifestBound(w.All(sim.Site{Manifest: true, Format: sim.Delta}), bytes, b)},
		} {
			if got := 1 - c.bound.Fresh; math.Abs(got-c.want) > .012 {
				t.Errorf("%s, B = %g: stale %.4f, printed %.4f", c.name, b, got, c.want)
			}
		}
	}
}

// TestBoundsAreInOrder: additional sources of notices, a larger budget, or a better signal never make the
// bound worse.
func TestBoundsAreInOrder(t *testing.T) {
	w := world(gamma, 1000, 30)
	both := sim.Listening{Manifest: true, Push: true}
	last := 0.
	for _, b := range []float64{.02, .05, .1, .3} {
		bound := func(s sim.Site) float64 { return sim.WebBound(w.All(s), freshness, sim.Costs{}, b, both).Fresh }
		order := []float64{last, bound(sim.Site{}), bound(sim.Site{Push: true, Recall: .5, Precision: .3}), bound(sim.Site{Push: true, Recall: .9, Precision: .5}),
			bound(sim.Site{Push: true, Recall: .99}), bound(sim.Site{Push: true}) + 1e-6}
		for i := range order[1:] {
			if order[i+1] < order[i]-1e-6 {
				t.Errorf("B = %g: %v is not in order", b, order)
			}
		}
		if m := bound(sim.Site{Manifest: true}); m < order[1] || m > order[5] {
			t.Errorf("B = %g: manifests %v, polling %v, push %v", b, m, order[1], order[5])
		}
		last = order[1]
	}
}

// TestRunsRepeat: a result depends on nothing but the run and its seed, and does depend on the seed.
func TestRunsRepeat(t *testing.T) {
	long(t)
	web := world(gamma, 60, 4)
	for _, site := range []sim.Site{{}, {Push: true, Recall: .8, Precision: .6}, {Manifest: true, Lag: .3}} {
		for _, p := range sim.Policies() {
			run := sim.Run{World: web.All(site), Policy: p, Budget: .2, Days: 12, From: 5, Seed: 4, Bound: true}
			a, b := simulate(t, run), simulate(t, run)
			if !reflect.DeepEqual(a, b) {
				t.Errorf("%s: %+v and %+v", p.Name, a, b)
			}
			if !(a.Fresh > 0 && a.Fresh <= 1 && a.Age >= 0 && a.Spend >= 0) {
				t.Errorf("%s: %+v", p.Name, a)
			}
			run.Seed++
			if c := simulate(t, run); c.Fresh == a.Fresh && a.Fresh < 1 {
				t.Errorf("%s: another seed has the same result", p.Name)
			}
		}
	}
}

// TestInvalidRuns fail, and say why.
func TestInvalidRuns(t *testing.T) {
	ok := sim.Run{World: world(gamma, 50, 5), Policy: sim.MustPolicy("uniform"), Budget: .1, Days: 5}
	for want, change := range map[string]func(*sim.Run){
		"no world":     func(r *sim.Run) { r.World = nil },
		"no pages":     func(r *sim.Run) { r.World = &sim.World{} },
		"budget NaN":   func(r *sim.Run) { r.Budget = math.NaN() },
		"budget 0":     func(r *sim.Run) { r.Budget = 0 },
		"+Inf days":    func(r *sim.Run) { r.Days = math.Inf(1) },
		"from day 9":   func(r *sim.Run) { r.From = 9 },
		"unknown rule": func(r *sim.Run) { r.Policy.Rule = "luck" },
		"site 7 does not exist": func(r *sim.Run) {
			w := *r.World
			w.Pages = append([]sim.Page{{Site: 7}}, w.Pages...)
			r.World = &w
		},
	} {
		run := ok
		change(&run)
		if _, err := sim.Simulate(context.Background(), run); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := sim.Simulate(ctx, ok); err == nil {
		t.Error("a canceled run has a result")
	}
	for _, name := range []string{"", "beta", "gamma/pareto", "gamma/zipf/2", "gamma/zipf/x", "a/b/c/d"} {
		if w, err := sim.ParseWeb(name); err == nil && name != "" {
			t.Errorf("%q is %v", name, w)
		}
	}
}
