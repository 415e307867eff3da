package sim_test

import (
	"testing"

	"github.com/parleyweb/parley/internal/sim"
)

// On what really happened to two sites, learning costs next to nothing beside being told the true
// mean rates, and Poisson's formulas promise what comes true, in spite of the bursts.
func TestLearningOnRealTraces(t *testing.T) {
	long(t)
	dir := traceDir(t)
	w, err := sim.TraceWeb{Dir: dir, Names: []string{"python-peps", "astro-docs:src/content/docs/en/"}}.World()
	if err != nil {
		t.Fatal(err)
	}
	for _, budget := range []float64{.005, .02} { // 7.5 and 30 requests a day for 1,500 pages
		known, learned := simulated(t, w, "freshness-known", budget, 900, 300), simulated(t, w, "freshness", budget, 900, 300)
		poisson := sim.PollBound(w, freshness, sim.Costs{}, budget).Fresh
		t.Logf("budget %v: known %.4f (Poisson's formula %.4f), learned %.4f", budget, known.Fresh, poisson, learned.Fresh)
		if learned.Fresh < .97*known.Fresh {
			t.Errorf("budget %v: learned %.4f, want 97 %% of %.4f", budget, learned.Fresh, known.Fresh)
		}
		if known.Fresh < poisson-.03 || known.Fresh > poisson+.03 {
			t.Errorf("budget %v: %.4f at known rates, Poisson's formula says %.4f", budget, known.Fresh, poisson)
		}
		if budget > .01 {
			continue
		}
		manifest := simulated(t, w.All(sim.Site{Manifest: true}), "freshness", budget, 900, 300)
		push := simulated(t, w.All(sim.Site{Push: true}), "freshness", budget, 900, 300)
		t.Logf("budget %v: with manifests %.4f, with push %.4f", budget, manifest.Fresh, push.Fresh)
		if manifest.Fresh < .945 || push.Fresh < manifest.Fresh {
			t.Errorf("budget %v: %.4f with manifests, want .945; %.4f with push", budget, manifest.Fresh, push.Fresh)
		}
	}
}
