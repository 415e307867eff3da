package sim_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/trust"
	"github.com/parleyweb/parley/internal/sim"
)

var freshness = fresh.Objective{Fresh: 1}

func simulated(tb testing.TB, w *sim.World, policy string, budget, days, from float64) *sim.Result {
	tb.Helper()
	r, err := sim.Simulate(context.Background(), sim.Run{World: w, Policy: sim.MustPolicy(policy), Budget: budget, Days: days, From: from, Seed: 1})
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// smallTrust is the web of mixed trust, small enough for a test of a second or two.
func smallTrust() sim.Web {
	web := sim.TrustWeb("gamma", 0)
	web.Pages, web.Sites = 300, 20
	return web
}

// One site in five lies and floods, others lose notices, make them up, or are silent. A policy that learns
// which sites to trust gets most of the possible gain; one that trusts all of them
// does worse than one without notices.
func TestMixedTrust(t *testing.T) {
	long(t)
	w, is := smallTrust().World().MixedTrust(1)
	count := make([]int, len(sim.Characters()))
	for _, c := range is {
		count[c]++
	}
	if fmt.Sprint(count) != "[4 4 4 4 4]" {
		t.Errorf("sites by character: %v", count)
	}
	for _, c := range []struct{ budget, goal float64 }{{.05, .6}, {.1, .75}} {
		poll := sim.PollBound(w, freshness, sim.Costs{}, c.budget).Fresh
		best := sim.WebBound(w, freshness, sim.Costs{}, c.budget, sim.Listening{Push: true}).Fresh
		learned := simulated(t, w, "freshness", c.budget, 120, 50)
		naive := simulated(t, w, "trust-importance", c.budget, 120, 50)
		part := (learned.Fresh - poll) / (best - poll)
		t.Logf("budget %v: polling %.4f at most, with signals %.4f; learned %.4f: %.0f %% of the gap; trusting all %.4f", c.budget, poll, best, learned.Fresh, 100*part, naive.Fresh)
		if part < c.goal {
			t.Errorf("budget %v: %.0f %% of what signals are worth, want %.0f %%", c.budget, 100*part, 100*c.goal)
		}
		if naive.Fresh > poll-.03 {
			t.Errorf("budget %v: trusting all sites gives %.4f, too close to polling's %.4f for a world with liars", c.budget, naive.Fresh, poll)
		}
	}
}

// If all sites lie, listening costs almost nothing.
func TestAllLiars(t *testing.T) {
	long(t)
	w := smallTrust().World().AllLiars()
	listening, deaf := simulated(t, w, "freshness", .1, 90, 40), simulated(t, w, "freshness-deaf", .1, 90, 40)
	t.Logf("heeding liars %.4f, ignoring all notices %.4f", listening.Fresh, deaf.Fresh)
	if listening.Fresh < .99*deaf.Fresh {
		t.Errorf("heeding liars %.4f, less than 99 %% of %.4f for ignoring all notices", listening.Fresh, deaf.Fresh)
	}
}

// The simulated crawler's trust in a site's notices and the verdict of its trust rule (C31) on the
// same notices agree: liars are muted or thinned out, and no other site is muted.
func TestTrustAgreesWithTrustRule(t *testing.T) {
	long(t)
	w, is := smallTrust().World().MixedTrust(1)
	var rules trust.Rules
	voices := make([]trust.Source, len(w.Sites))
	told := make([]bool, len(w.Pages))
	type tally struct{ right, wrong int }
	tallies := make([]tally, len(w.Sites))
	clock := func(days float64) time.Time {
		return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(days * 24 * float64(time.Hour)))
	}
	_, err := sim.Simulate(context.Background(), sim.Run{World: w, Policy: sim.MustPolicy("freshness"), Budget: .2, Days: 60, Seed: 1, Watch: func(e sim.Event) {
		switch {
		case e.Kind == sim.Told && !told[e.Page]:
			told[e.Page] = true
			rules.Notice(&voices[e.Site], clock(e.At))
		case e.Kind == sim.Visited && told[e.Page]:
			told[e.Page] = false
			outcome := trust.Wrong
			if e.Changed {
				outcome = trust.Right
				tallies[e.Site].right++
			} else {
				tallies[e.Site].wrong++
			}
			rules.Outcome(&voices[e.Site], outcome, clock(e.At))
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	for s := range voices {
		v, n := &voices[s], tallies[s]
		kind := sim.Characters()[is[s]].Name
		_, mute := v.Muted()
		suspect := mute || v.Rationed || v.Level > 0
		if judged := n.right + n.wrong; judged < 40 || kind == "silent" {
			continue
		}
		precision := fresh.Signal{Right: float32(n.right), Wrong: float32(n.wrong)}.Precision()
		if believed := precision > .35; believed == (kind == "liar") {
			t.Errorf("site %d is %s, but its estimated precision is %.2f", s, kind, precision)
		}
		t.Logf("site %d %s: %d right, %d wrong, precision %.2f, mute %v, thin %v, level %d", s, kind, n.right, n.wrong, precision, mute, v.Rationed, v.Level)
		if kind == "sloppy" { // half of what they say is wrong: the rule may thin them out, and must not mute them
			suspect = mute
		}
		if lies := kind == "liar"; suspect != lies {
			t.Errorf("site %d is %s, %d of its notices right and %d wrong: %v", s, kind, n.right, n.wrong, v)
		}
	}
}
