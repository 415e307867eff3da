package holding_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/mirror/holding"
	"github.com/parleyweb/parley/protocol"
)

// due returns how long it is until the next debt.
func (r *rig) due() time.Duration {
	r.t.Helper()
	_, ok, next, err := r.col.Next()
	if err != nil || ok {
		r.t.Fatalf("a debt is due: %v %v", ok, err)
	}
	if next.IsZero() {
		return 0
	}
	return next.Sub(r.now)
}

func TestMismatchIsAskedForThreeTimes(t *testing.T) {
	r := newRig(t)
	r.apply(told(1, create("a", "said")))
	served := site("a", "served")
	waits := []time.Duration{2 * time.Second, 10 * time.Second, time.Minute, 0}
	for i, wait := range waits {
		d, _, _, _ := r.col.Next()
		if etag, _ := d.Conditional(); (etag != "") != (i == 1 || i == 2) {
			t.Errorf("request %d is conditional on %q", i, etag)
		}
		r.reopen() // gives the debt back
		s := r.pay(served, 1)
		if len(s) != 1 || !s[0].Mismatch || s[0].Fresh {
			t.Fatalf("settled %+v", s)
		}
		if got := r.due(); got != wait {
			t.Errorf("asked for again after %v, want %v", got, wait)
		}
		r.now = r.now.Add(wait)
	}
	r.wantFiles(map[string]string{"a": "served"})
	// The same claim again changes nothing; another one does.
	if a := r.apply(told(2, create("a", "said"))); a.Owed != 0 {
		t.Errorf("applied %+v", a)
	}
	if a := r.apply(told(3, create("a", "said anew"))); a.Owed != 1 {
		t.Errorf("applied %+v", a)
	}
	r.pay(served, 1)
	// The site names what we hold: no request.
	r.apply(told(4, create("a", "served")))
	if got := r.due(); got != 0 {
		t.Errorf("still owed, in %v", got)
	}
	if r.gets[base+"a"] != 5 {
		t.Errorf("%d requests, want 5", r.gets[base+"a"])
	}
}

func TestSiteWhoseDigestsAreNeverRightIsDemoted(t *testing.T) {
	r := newRig(t)
	var changes []protocol.Change
	served := map[string]string{}
	for i := range 30 {
		p := fmt.Sprintf("%02d", i)
		changes = append(changes, create(p, "said"+p))
		served[base+p] = "served" + p
	}
	r.apply(told(30, changes...))
	demoted := 0
	for _, s := range r.pay(served, 100) {
		if s.Demoted {
			demoted++
		}
	}
	c := r.col.Counts()
	if demoted != 1 || !c.Demoted || c.MissRow != 20 || c.Owed != 19 {
		t.Errorf("demoted %d times, counts %+v", demoted, c)
	}
	r.now = r.now.Add(2 * time.Second)
	r.pay(served, 100)
	if c := r.col.Counts(); c.Owed != 0 || c.Mismatched != 49 {
		t.Errorf("counts %+v", c)
	}
	// From then on its validators are gone by.
	r.apply(told(31, create("00", "said anew")))
	d, _, _, _ := r.col.Next()
	if etag, _ := d.Conditional(); etag != `"e"` {
		t.Errorf("the request is not conditional: %+v", d)
	}
	s, err := r.col.Settle([]holding.Result{{Debt: d, Answer: holding.Unchanged, Status: 304}})
	if err != nil || !s[0].Fresh || s[0].Mismatch || r.col.Counts().Owed != 0 {
		t.Errorf("settled %+v %v", s, err)
	}
	// A digest that is right brings the trust back.
	r.apply(told(32, create("ok", "ok")))
	r.pay(site("ok", "ok"), 1)
	if c := r.col.Counts(); c.Demoted || c.MissRow != 0 {
		t.Errorf("counts %+v", c)
	}
}

// What the site tells while a request is under way counts more than its answer.
func TestToldDuringTheRequest(t *testing.T) {
	fetch := func(r *rig, body string, meanwhile ...protocol.Change) holding.Settled {
		t.Helper()
		d, ok, _, err := r.col.Next()
		if err != nil || !ok {
			t.Fatalf("no debt: %v", err)
		}
		b := r.body(body)
		r.apply(told(2, meanwhile...))
		s, err := r.col.Settle([]holding.Result{{Debt: d, Answer: holding.Fetched, Status: 200, Body: b}})
		if err != nil {
			t.Fatal(err)
		}
		return s[0]
	}
	start := func() *rig {
		r := newRig(t)
		r.apply(told(1, create("a", "A1")))
		return r
	}
	t.Run("gone", func(t *testing.T) {
		r := start()
		if s := fetch(r, "A1", remove("a")); !s.Gone {
			t.Errorf("settled %+v", s)
		}
		r.wantFiles(map[string]string{})
	})
	t.Run("newer, not served yet", func(t *testing.T) {
		r := start()
		if s := fetch(r, "A1", create("a", "A2")); s.Fresh || s.Mismatch || !s.Stored {
			t.Errorf("settled %+v", s)
		}
		r.pay(site("a", "A2"), 1) // due at once
		r.wantFiles(map[string]string{"a": "A2"})
	})
	t.Run("newer, served already", func(t *testing.T) {
		r := start()
		if s := fetch(r, "A2", create("a", "A2")); !s.Fresh {
			t.Errorf("settled %+v", s)
		}
	})
	t.Run("moved", func(t *testing.T) {
		r := start()
		if s := fetch(r, "A1", move("a", "b", "A1")); !s.Gone {
			t.Errorf("settled %+v", s)
		}
		r.pay(site("b", "A1"), 1)
		r.wantFiles(map[string]string{"b": "A1"})
	})
}

func TestAnswersThatBringNothing(t *testing.T) {
	type w = []time.Duration
	for _, c := range []struct {
		name   string
		answer holding.Answer
		status int
		waits  w
	}{
		{"gone", holding.Gone, 404, w{10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour, 24 * time.Hour}},
		{"refused", holding.Refused, 403, w{10 * time.Second, time.Minute}},
		{"failed", holding.Failed, 503, w{time.Second, 2 * time.Second, 4 * time.Second}},
		{"no answer", holding.Failed, 0, w{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, 64 * time.Second, 128 * time.Second, 256 * time.Second, 5 * time.Minute, 5 * time.Minute}},
		{"too large", holding.TooLarge, 200, w{0}},
		{"unchanged, though nothing is held", holding.Unchanged, 304, w{10 * time.Second}},
	} {
		r := newRig(t)
		r.apply(told(1, create("held", "H")))
		r.pay(site("held", "H"), 1)
		r.apply(told(2, create("a", "A")))
		for _, wait := range c.waits {
			d, ok, _, err := r.col.Next()
			if err != nil || !ok {
				t.Fatalf("%s: no debt: %v", c.name, err)
			}
			if _, err := r.col.Settle([]holding.Result{{Debt: d, Answer: c.answer, Status: c.status}}); err != nil {
				t.Fatal(err)
			}
			if got := r.due(); got != wait {
				t.Errorf("%s: asked again after %v, want %v", c.name, got, wait)
			}
			r.now = r.now.Add(wait)
		}
		// News makes it due at once, whatever was planned.
		r.apply(told(3, create("a", "A2")))
		r.pay(site("a", "A2"), 1)
		r.wantFiles(map[string]string{"held": "H", "a": "A2"})
	}
}

func TestRetryAfterIsKeptTo(t *testing.T) {
	r := newRig(t)
	r.apply(told(1, create("a", "A")))
	d, _, _, _ := r.col.Next()
	if _, err := r.col.Settle([]holding.Result{{Debt: d, Status: 429, Retry: r.now.Add(5 * time.Minute)}}); err != nil {
		t.Fatal(err)
	}
	if got := r.due(); got != 5*time.Minute {
		t.Errorf("asked again after %v", got)
	}
}

// A file stays until the site says that the page is gone.
func TestNotFoundKeepsTheFile(t *testing.T) {
	r := newRig(t)
	r.apply(told(1, create("a", "A")))
	r.pay(site("a", "A"), 1)
	r.apply(told(2, create("a", "A2")))
	r.pay(site(), 1)
	r.wantFiles(map[string]string{"a": "A"})
	if p, ok, err := r.col.Page(base + "a"); err != nil || !ok || p.Status != 404 {
		t.Errorf("page %+v %v %v", p, ok, err)
	}
	r.apply(told(3, remove("a")))
	r.wantFiles(map[string]string{})
}

func TestForbiddenPagesAreParked(t *testing.T) {
	r := newRig(t)
	r.apply(told(2, create("a", "A"), create("b", "B")))
	for range 2 {
		d, _, _, _ := r.col.Next()
		if _, err := r.col.Settle([]holding.Result{{Debt: d, Answer: holding.Forbidden}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.due(); got != 0 {
		t.Errorf("due in %v", got)
	}
	if c := r.col.Counts(); c.Parked != 2 || c.Owed != 0 {
		t.Errorf("counts %+v", c)
	}
	r.reopen()
	if n, err := r.col.Unpark(); n != 2 || err != nil {
		t.Errorf("unparked %d %v", n, err)
	}
	if s := r.pay(site("a", "A", "b", "B"), 10); len(s) != 2 {
		t.Errorf("settled %+v", s)
	}
}

func TestUnchangedPaysWithoutADigest(t *testing.T) {
	r := newRig(t)
	step := told(1, protocol.Change{Op: protocol.Create, Item: protocol.Item{URL: base + "a", Length: -1}})
	r.apply(step)
	r.pay(site("a", "A"), 1)
	r.apply(told(2, step.Changes...))
	d, ok, _, _ := r.col.Next()
	if !ok || d.ETag != `"e"` {
		t.Fatalf("debt %+v %v", d, ok)
	}
	s, err := r.col.Settle([]holding.Result{{Debt: d, Answer: holding.Unchanged, Status: 304}})
	if err != nil || !s[0].Fresh || s[0].Stored {
		t.Errorf("settled %+v %v", s, err)
	}
	if p, _, _ := r.col.Page(base + "a"); p.ETag != `"e"` || !p.Due.IsZero() {
		t.Errorf("page %+v", p)
	}
}
