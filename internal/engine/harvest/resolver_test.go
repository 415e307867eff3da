package harvest_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/fakeweb"
)

// A resolver that fails is a problem of our own: the cycle stops, and no page is
// marked as failed (P04).
func TestBrokenResolverStopsCycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 4, Sites: 200, Kinds: []fakeweb.Kind{fakeweb.Honest}})
		defer w.Close()
		w.Blind(95)
		h := newHarvester(w)
		b := everything(w, 5)
		var got answers
		if err := h.Run(t.Context(), once(b), got.take); !errors.Is(err, harvest.ErrResolver) {
			t.Fatalf("run: %v", err)
		}
		faults, all := got.faults(), 0
		for _, n := range faults {
			all += n
		}
		tasks := 0
		for _, s := range b.Sites {
			tasks += len(s.Tasks)
		}
		if faults["dns"] > 0 || all != tasks || faults["stopped"] < tasks/2 {
			t.Errorf("%v of %d tasks", faults, tasks)
		}

		// The names are tried again when the resolver works.
		w.Blind(0)
		for _, a := range harvestAll(t, h, everything(w, 5)) {
			if a.Status != 200 {
				t.Errorf("%s: %d %q %v", a.URL, a.Status, a.Fault, a.Err)
			}
		}
	})
}

// How large a share of failures ends the cycle is an option (G33).
func TestMaxFailedLookups(t *testing.T) {
	for _, c := range []struct {
		share float64
		blind int // percentage of lookups that fail
		want  error
		says  string
	}{
		{0.3, 60, harvest.ErrResolver, "more than 30 %"},
		{0, 60, nil, ""},
		{0, 100, harvest.ErrResolver, "more than 90 %"},
		{1, 100, nil, ""}, // no share is larger
	} {
		synctest.Test(t, func(t *testing.T) {
			w := fakeweb.New(fakeweb.Options{Seed: 4, Sites: 100, Kinds: []fakeweb.Kind{fakeweb.Honest}})
			defer w.Close()
			w.Blind(c.blind)
			h := newHarvester(w)
			h.Options.MaxFailedLookups = c.share
			var got answers
			err := h.Run(t.Context(), once(everything(w, 1)), got.take)
			if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%d %% fail, MaxFailedLookups is %g: %v, want %v", c.blind, c.share, err, c.want)
			}
			if n := got.faults()["dns"]; (n > 0) != (c.want == nil) {
				t.Errorf("%d %% fail, MaxFailedLookups is %g: %d sites are blamed", c.blind, c.share, n)
			}
		})
	}
}

// Many names that do not exist are not a failure of the resolver.
func TestMissingNamesAreNoResolverFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 4, Sites: 100, Kinds: []fakeweb.Kind{fakeweb.Unresolved}})
		defer w.Close()
		for url, a := range harvestAll(t, newHarvester(w), everything(w, 5)) {
			if a.Fault != harvest.FaultDNS {
				t.Errorf("%s: %q", url, a.Fault)
			}
		}
	})
}
