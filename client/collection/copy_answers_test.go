package collection_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/protocol"
)

func TestCopyFetchesMismatchThreeTimes(t *testing.T) {
	r := newCopyRig(t)
	r.apply(told(1, create("/a", "said")))
	served := homeSite("/a", "served")
	for _, wait := range []time.Duration{2 * time.Second, 10 * time.Second, time.Minute, -1} {
		r.reopen()
		if v := r.pay(served, 1); len(v) != 1 || !v[0].Mismatched || v[0].Matched {
			t.Fatalf("visited %+v", v)
		}
		if got, ok := r.next(); ok != (wait >= 0) || ok && got != wait {
			t.Errorf("fetched again after %v %v, want %v", got, ok, wait)
		}
		r.wait(max(0, wait))
	}
	r.wantFiles(map[string]string{"a": "served"})
	// The same claim again changes nothing, over either door; another one does.
	for _, step := range []client.Step{told(2, create("/a", "said")), whole(2, create("/a", "said"))} {
		if a := r.apply(step); a.Pending != 0 {
			t.Errorf("applied %+v", a)
		}
	}
	if a := r.apply(told(3, create("/a", "said anew"))); a.Pending != 1 {
		t.Errorf("applied %+v", a)
	}
	r.pay(served, 1)
	r.apply(told(4, create("/a", "served"))) // the site names the digest that we hold: no request
	r.wantCounts(1, 1, 0)
	want(t, "requests", r.gets["/a"], 5)
}

func TestSiteWithWrongDigestsIsDemoted(t *testing.T) {
	r := newCopyRig(t)
	var changes []protocol.Change
	served := map[string]string{}
	for i := range 30 {
		p := fmt.Sprintf("/%02d", i)
		changes = append(changes, create(p, "said"+p))
		served[p] = "served" + p
	}
	r.apply(told(30, changes...))
	demoted := 0
	for _, v := range r.pay(served, 100) {
		if v.Demoted {
			demoted++
		}
	}
	c, _ := r.c.Copy()
	if demoted != 1 || !c.Demoted || c.MissRow != 20 {
		t.Errorf("demoted %d times, copy %+v", demoted, c)
	}
	r.wantCounts(30, 30, 19)
	r.wait(2 * time.Second)
	r.reopen()
	r.pay(served, 100)
	r.wantCounts(30, 30, 0)
	if c, _ := r.c.Copy(); c.Mismatched != 49 {
		t.Errorf("copy %+v", c)
	}
	// A correct digest restores the trust in digests.
	r.apply(told(32, create("/00", "said anew"), create("/ok", "ok")))
	served["/ok"] = "ok"
	r.pay(served, 100)
	r.wantCounts(31, 31, 0)
	if c, _ := r.c.Copy(); c.Demoted || c.MissRow != 0 {
		t.Errorf("copy %+v", c)
	}
}

// A notice that arrives while a request is under way overrides the response,
// even if the clock gives both the same time.
func TestCopyNoticeDuringRequest(t *testing.T) {
	for _, c := range []struct {
		name      string
		body      string
		meanwhile protocol.Change
		then      map[string]string // the pages fetched after that, and the final copy
	}{
		{"gone", "A1", remove("/a"), map[string]string{}},
		{"newer, not served yet", "A1", create("/a", "A2"), homeSite("/a", "A2")},
		{"newer, served already", "A2", create("/a", "A2"), homeSite("/a", "A2")},
		{"moved", "A1", move("/a", "/b", "A1"), homeSite("/b", "A1")},
	} {
		for _, later := range []time.Duration{0, time.Second} {
			r := newCopyRig(t)
			r.apply(told(1, create("/a", "A1")))
			v := r.reply(&r.due()[0], homeSite("/a", c.body))
			r.wait(later)
			r.apply(told(2, c.meanwhile))
			out := r.commit(collection.Commit{Visits: []collection.Visit{v}}).Visited[0]
			if out.Mismatched {
				t.Errorf("%s: %+v", c.name, out)
			}
			r.pay(c.then, 10) // due at once
			r.wantCounts(len(c.then), len(c.then), 0)
			files := map[string]string{}
			for path, body := range c.then {
				files[path[1:]] = body
			}
			r.wantFiles(files)
		}
	}
}

// A page that changes and changes back while a request for it is under way, as when a release is
// rolled back, is stored as it is now, not as the late response has it.
func TestCopyPageRevertsDuringRequest(t *testing.T) {
	for name, between := range map[string]map[string]string{"another content": homeSite("/a", "A2"), "nothing": homeSite()} {
		for _, later := range []time.Duration{0, time.Second} {
			r := newCopyRig(t)
			r.apply(told(1, create("/a", "A1")))
			r.pay(homeSite("/a", "A1"), 1)
			r.apply(told(2, create("/a", "A2")))
			v := r.reply(&r.due()[0], between)
			r.wait(later)
			r.apply(told(3, create("/a", "A1")))
			if out := r.commit(collection.Commit{Visits: []collection.Visit{v}}).Visited[0]; out.Mismatched {
				t.Errorf("%s: %+v", name, out)
			}
			r.pay(homeSite("/a", "A1"), 10)
			r.wantCounts(1, 1, 0)
			r.wantFiles(map[string]string{"a": "A1"})
		}
	}
}

// A page that the site names but does not serve keeps its content, and its fetch stays pending.
func TestUnservedPageStaysPending(t *testing.T) {
	type w = []time.Duration
	for _, c := range []struct {
		name  string
		visit collection.Visit
		waits w
	}{
		{"not found", collection.Visit{Status: 404}, w{10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour, 24 * time.Hour}},
		{"gone", collection.Visit{Status: 410}, w{10 * time.Second, time.Minute}},
		{"refused", collection.Visit{Status: 403}, w{10 * time.Second, time.Minute}},
		{"redirect", collection.Visit{Status: 302, Target: &collection.Find{URL: home + "/b"}}, w{10 * time.Second}},
		{"failed", collection.Visit{Status: 503, Fault: "busy"}, w{time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second}},
		{"no answer", collection.Visit{Fault: "nobody there"}, w{time.Second, 2 * time.Second}},
		{"too large", collection.Visit{Status: 200, Cut: true, Fault: "size", Body: []byte("A")}, w{-1}},
		{"busy", collection.Visit{Status: 429, Again: time.Date(2026, 3, 1, 12, 5, 0, 0, time.UTC)}, w{5 * time.Minute}},
	} {
		for _, had := range []bool{false, true} {
			r := newCopyRig(t)
			r.o.Again.Failing, r.o.Again.Lost = []time.Duration{time.Second, 2 * time.Second}, 4*time.Second
			r.reopen()
			files := map[string]string{}
			if had {
				r.apply(told(1, create("/a", "A0")))
				r.pay(homeSite("/a", "A0"), 1)
				files["a"] = "A0"
			}
			r.apply(told(2, create("/a", "A1")))
			for _, wait := range c.waits {
				list := r.due()
				if len(list) != 1 {
					t.Fatalf("%s: %d pages are due", c.name, len(list))
				}
				v := c.visit
				v.Page, v.Asked, v.Want = list[0].ID, r.now, list[0].Debt
				v.Claimed, _ = list[0].Claim()
				r.commit(collection.Commit{Visits: []collection.Visit{v}})
				if got, ok := r.next(); ok != (wait >= 0) || ok && got != wait {
					t.Errorf("%s: fetched again after %v %v, want %v", c.name, got, ok, wait)
				}
				r.wantFiles(files)
				r.wait(max(0, wait))
			}
			// The site names the digest that we have: no fetch is pending, and all is well.
			if had {
				r.apply(told(3, create("/a", "A0")))
				r.wantCounts(1, 1, 0)
				if p := r.page("/a"); p.State != collection.Held || p.Fails != 0 {
					t.Errorf("%s: page %+v", c.name, p)
				}
			}
			// A new change makes it due at once, whatever was scheduled.
			r.apply(told(4, create("/a", "A2")))
			r.pay(homeSite("/a", "A2"), 1)
			r.wantFiles(map[string]string{"a": "A2"})
			r.apply(told(5, remove("/a")))
			r.wantFiles(map[string]string{})
		}
	}
}

// With each page of a batch the site sends the page's current digest. If that is newer than the last
// notice, and the page then returns to its earlier content, the copy follows.
func TestBatchDigestNewerThanNotice(t *testing.T) {
	r := newCopyRig(t)
	r.apply(told(1, create("/a", "first")))
	v := r.reply(&r.due()[0], homeSite("/a", "second"))
	v.Shared = true
	if out := r.commit(collection.Commit{Visits: []collection.Visit{v}}).Visited[0]; out.Mismatched {
		t.Errorf("%+v", out)
	}
	r.wantCounts(1, 1, 0)
	r.wantFiles(map[string]string{"a": "second"})
	r.apply(told(3, create("/a", "first"))) // the changes to the second and back, as one
	r.pay(homeSite("/a", "first"), 10)
	r.wantCounts(1, 1, 0)
	r.wantFiles(map[string]string{"a": "first"})
}
