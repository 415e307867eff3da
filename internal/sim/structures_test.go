package sim_test

import (
	"math"
	"testing"

	"github.com/parleyweb/parley/internal/sim"
)

// TestForeseenChangesAreWorthMuch is the gap that visits leave open: with the same budget, a crawler that is told when changes are
// expected has fresher copies than one that knows how often each page changes.
func TestForeseenChangesAreWorthMuch(t *testing.T) {
	for _, structure := range sim.Structures() {
		t.Run(structure, func(t *testing.T) {
			const days = 180
			w, err := sim.Web{Pages: 200, Sites: 8, Seed: 3}.Structured(structure, days)
			if err != nil {
				t.Fatal(err)
			}
			changes, expected := 0., 0.
			for i := range w.Pages {
				changes += float64(len(w.Pages[i].Trace))
				expected += w.Pages[i].Rate * days
			}
			if math.Abs(changes-expected) > 5*math.Sqrt(expected) {
				t.Errorf("%v changes of %.0f that are expected", changes, expected)
			}
			known := simulated(t, w, "freshness-known-deaf", .1, days, 60)
			told := simulate(t, sim.Run{World: w, Policy: sim.Foreseeing(), Budget: .1, Days: days, From: 60})
			if told.Fresh < known.Fresh+.01 {
				t.Errorf("freshness %.4f where changes are foreseen, want a point above %.4f at mean rates", told.Fresh, known.Fresh)
			}
		})
	}
	if _, err := (sim.Web{}).Structured("tides", 10); err == nil {
		t.Error("an unknown structure is no error")
	}
}
