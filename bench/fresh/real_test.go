package main

import (
	"testing"

	"github.com/parleyweb/parley/internal/sim"
)

// Pages that change together do so no longer where each is shifted by a time of its own, and as often.
func TestAloneAndSteady(t *testing.T) {
	const days = 360
	w, err := sim.Web{Pages: 400, Sites: 4, Seed: 1}.Structured("deploys", days)
	if err != nil {
		t.Fatal(err)
	}
	b := w.Bursts(days)
	if alone := alone(w, days).Bursts(days); b.Shared < .2 || alone.Changes != b.Changes || alone.Shared > .2*b.Shared {
		t.Errorf("%+v with each page's changes shifted, %+v before", alone, b)
	}
	for i, p := range steady(w).Pages {
		if was := &w.Pages[i]; p.Trace != nil || p.Rate != was.Rate || was.Trace == nil {
			t.Fatalf("page %d changes %v times a day when steady, want %v, and not when recorded", i, p.Rate, was.Rate)
		}
	}
}
