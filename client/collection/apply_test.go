package collection_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

func TestManifestCreatesPendingFetches(t *testing.T) {
	r := newRig(t)
	m := r.source(collection.ManifestRDF)
	r.find("/linked")
	a := r.apply(m, whole(5, create("/a", "A"), create("/b", "B"), create("/linked", "L"),
		protocol.Change{Op: protocol.Create, Item: protocol.Item{URL: "https://other.example/x"}}), collection.ByManifest)
	if a.Pending != 3 || a.Foreign != 1 || len(a.New) != 2 || len(a.Queue) != 2 { // /linked was ready before
		t.Errorf("applied %+v", a)
	}
	if p := r.page("/linked"); !p.Told || p.Debt != protocol.Sum([]byte("L")) || p.Signal != collection.ByManifest || p.By != collection.ByLink {
		t.Errorf("page %+v", p)
	}
	list, err := r.c.Sources(0)
	if err != nil || list[0].Cursor != cursor(5) || list[0].Door != "manifest" {
		t.Errorf("sources %+v %v", list, err)
	}
	for _, p := range []string{"/a", "/b", "/linked"} {
		body := map[string]string{"/a": "A", "/b": "B", "/linked": "L"}[p]
		if out := r.visit(p, 200, body); !out.Matched || out.Page.Told {
			t.Errorf("visited %+v", out)
		}
	}
	// The next manifest names one digest that the collection does not hold.
	a = r.apply(m, whole(6, create("/a", "A"), create("/b", "B2"), create("/linked", "L")), collection.ByManifest)
	if a.Pending != 1 || a.Known != 2 || len(a.Queue) != 1 {
		t.Errorf("applied %+v", a)
	}
	wantAll(t, "queue", r.queue(), "/b")
	// Announced again, and then announced as unchanged after all.
	a = r.apply(m, told(7, create("/b", "B2")), collection.ByStream)
	want(t, "owed by the same claim", a.Pending, 0)
	r.apply(m, told(8, create("/b", "B")), collection.ByStream)
	wantAll(t, "queue", r.queue())
	want(t, "due", r.due("/b"), 24*time.Hour)
	// The numbers have been applied.
	a = r.apply(m, told(8, create("/a", "other"), create("/b", "other")), collection.ByStream)
	want(t, "owed by old changes", a.Pending, 0)
	check(t, r.c)
	r.reopen()
	check(t, r.c)
}

func TestMismatchIsFetchedThreeTimes(t *testing.T) {
	r := newRig(t)
	m := r.source(collection.ManifestRDF)
	r.apply(m, told(1, create("/a", "said")), collection.ByStream)
	for i, wait := range []time.Duration{2 * time.Second, 10 * time.Second, time.Minute, 24 * time.Hour} {
		r.reopen()
		out := r.visit("/a", 200, "served")
		if !out.Mismatched || out.Matched || out.Page.Told != (i < 3) {
			t.Errorf("visited %+v", out)
		}
		want(t, "wait", r.due("/a"), wait)
		r.wait(wait)
	}
	// The same claim again changes nothing; another one does; a digest that is already held needs no fetch.
	want(t, "owed", r.apply(m, whole(2, create("/a", "said")), collection.ByManifest).Pending, 0)
	want(t, "owed", r.apply(m, told(3, create("/a", "said anew")), collection.ByStream).Pending, 1)
	want(t, "owed", r.apply(m, told(4, create("/a", "served")), collection.ByStream).Pending, 0)
	want(t, "told", r.page("/a").Told, false)
	// A page that goes back to an earlier content counts as changed when the site announces it as a change.
	r.visit("/a", 200, "newer")
	want(t, "owed", r.apply(m, told(5, create("/a", "served")), collection.ByStream).Pending, 1)
	check(t, r.c)
}

// A notice that arrives while a request is under way overrides the response to that request.
func TestNoticeDuringRequest(t *testing.T) {
	start := func(t *testing.T) (*rig, collection.Source, collection.Visit) {
		r := newRig(t)
		m := r.source(collection.ManifestRDF)
		r.apply(m, told(1, create("/a", "A1")), collection.ByStream)
		v := r.answer("/a", 200, "A1")
		r.wait(time.Second)
		return r, m, v
	}
	t.Run("gone", func(t *testing.T) {
		r, m, v := start(t)
		r.apply(m, told(2, remove("/a")), collection.ByStream)
		out := r.commit(collection.Commit{Visits: []collection.Visit{v}}).Visited[0]
		if !out.Gone || out.Page.State != collection.Gone || r.due("/a") != -1 {
			t.Errorf("visited %+v", out)
		}
		check(t, r.c)
	})
	t.Run("newer", func(t *testing.T) {
		r, m, v := start(t)
		r.apply(m, told(2, create("/a", "A2")), collection.ByStream)
		out := r.commit(collection.Commit{Visits: []collection.Visit{v}}).Visited[0]
		if out.Matched || out.Mismatched || !out.Page.Told || out.Page.State != collection.Held || r.due("/a") != 0 {
			t.Errorf("visited %+v", out)
		}
		check(t, r.c)
	})
	t.Run("newer, and served already", func(t *testing.T) {
		r, m, v := start(t)
		r.apply(m, told(2, create("/a", "A2")), collection.ByStream)
		v.Body, v.Digest = []byte("A2"), protocol.Sum([]byte("A2"))
		want(t, "matched", r.commit(collection.Commit{Visits: []collection.Visit{v}}).Visited[0].Matched, true)
	})
	for _, status := range []int{404, 410, 403, 503, 301} {
		t.Run(fmt.Sprint("newer, and nothing served before: ", status), func(t *testing.T) {
			r, m, v := start(t)
			v.Status, v.Body, v.Digest, v.Parsed = status, nil, protocol.Digest{}, protocol.Digest{}
			if status == 301 {
				v.Target = &collection.Find{URL: home + "/b", By: collection.ByLink}
			}
			r.apply(m, told(2, create("/a", "A2")), collection.ByStream)
			out := r.commit(collection.Commit{Visits: []collection.Visit{v}}).Visited[0]
			if !out.Page.Told || r.due("/a") != 0 {
				t.Errorf("visited %+v", out)
			}
			if out = r.visit("/a", 200, "A2"); !out.Matched || out.Page.Told || out.Page.State != collection.Held {
				t.Errorf("visited again %+v", out)
			}
			check(t, r.c)
		})
	}
	t.Run("without a digest", func(t *testing.T) {
		r, m, v := start(t)
		r.apply(m, told(2, create("/a", "")), collection.ByStream)
		r.commit(collection.Commit{Visits: []collection.Visit{v}})
		want(t, "told", r.page("/a").Told, true)
	})
}

func TestDeleteAndMove(t *testing.T) {
	r := newRig(t)
	m := r.source(collection.ManifestRDF)
	r.apply(m, whole(1, create("/a", "A"), create("/b", "B"), create("/c", "C")), collection.ByManifest)
	for p, body := range map[string]string{"/a": "A", "/b": "B"} {
		r.visit(p, 200, body, "/linked")
	}
	r.wait(time.Hour)
	a := r.apply(m, told(5, remove("/a"), move("/b", "/b2", "B"), move("/c", "/c2", "C"), remove("/never")), collection.ByStream)
	if a.Gone != 2 || a.Moved != 1 || a.Pending != 1 || a.Known != 1 || len(a.Dropped) != 1 {
		t.Errorf("applied %+v", a)
	}
	for _, p := range []string{"/a", "/b", "/c"} {
		want(t, "state of "+p, r.page(p).State, collection.Gone)
		want(t, "due "+p, r.due(p), -1)
	}
	old, p := r.page("/b"), r.page("/b2")
	if p.State != collection.Held || p.Digest != protocol.Sum([]byte("B")) || p.ETag != "" || p.Visits != 1 || p.Told || old.Target != p.URL {
		t.Errorf("moved to %+v", p)
	}
	if l, err := r.c.Links(p.ID); err != nil || len(l) != 1 || l[0] != r.page("/linked").ID {
		t.Errorf("links %v %v", l, err)
	}
	want(t, "due", r.due("/b2"), 23*time.Hour)
	want(t, "told", r.page("/c2").Told, true)
	// It comes back.
	want(t, "owed", r.apply(m, told(6, create("/a", "A")), collection.ByStream).Pending, 1)
	if out := r.visit("/a", 200, "A"); !out.Changed || !out.Matched {
		t.Errorf("visited %+v", out)
	}
	check(t, r.c)
	r.reopen()
	check(t, r.c)
}

func TestWholeSnapshotDropsUnlistedPages(t *testing.T) {
	r := newRig(t)
	m := r.source(collection.ManifestRDF)
	r.find("/linked")
	r.apply(m, whole(1, create("/a", "A"), create("/b", "B"), create("/c", "C")), collection.ByManifest)
	r.visit("/a", 200, "A")
	a := r.apply(m, whole(2, create("/b", "B"), create("/c", "C")), collection.ByManifest)
	want(t, "gone", a.Gone, 1)
	want(t, "state", r.page("/a").State, collection.Gone)
	want(t, "state", r.page("/linked").State, collection.Known)
	// A snapshot in several steps; the remains of an earlier, unfinished one are ignored.
	part := func(reset bool, changes ...protocol.Change) client.Step {
		return client.Step{Changes: changes, Door: client.Manifest, Reset: reset}
	}
	r.apply(m, part(true, create("/c", "C")), collection.ByManifest)
	r.apply(m, part(true, create("/d", "D")), collection.ByManifest)
	end := whole(3, create("/b", "B"))
	end.Reset = false
	a = r.apply(m, end, collection.ByManifest)
	want(t, "gone", a.Gone, 1)
	want(t, "state", r.page("/c").State, collection.Gone)
	// A snapshot that is not whole drops nothing.
	r.apply(m, client.Step{Changes: []protocol.Change{create("/d", "D")}, Door: client.Manifest, Reset: true, Cursor: cursor(4)}, collection.ByManifest)
	want(t, "state", r.page("/b").State, collection.Known)
	// Nor does one whose beginning was seen by another process.
	r.apply(m, part(true, create("/d", "D")), collection.ByManifest)
	r.reopen()
	end.Changes, end.Cursor = nil, cursor(5)
	want(t, "gone", r.apply(m, end, collection.ByManifest).Gone, 0)
	list, _ := r.c.Sources(0)
	want(t, "cursor", list[0].Cursor, cursor(5))
	check(t, r.c)
}

// A state written before pages recorded whether they are listed: when it is opened, the pages that their
// manifests named are marked as listed, though the manifests are not read again.
func TestOldStateMarksListedPages(t *testing.T) {
	r := newRig(t)
	one := r.source(collection.ManifestRDF)
	two := r.commit(collection.Commit{Sources: []collection.Source{{Kind: collection.ManifestRDF, URL: home + "/docs/robots.rdf"}}}).Sources[0]
	r.find("/linked")
	all := make([]protocol.Change, 12_000) // more than one transaction has
	for i := range all {
		all[i] = create(fmt.Sprintf("/%d", i), "A")
	}
	r.apply(one, whole(1, append(all, create("/dropped", "A"))...), collection.ByManifest)
	r.apply(one, whole(2, all...), collection.ByManifest)
	r.apply(two, whole(1, create("/docs/", "B")), collection.ByManifest)
	r.visit("/0", 200, "A")
	before := dump(t, r.c)
	must.OK(t, r.c.ForgetListed())
	want(t, "listed", r.page("/0").Listed, false)
	r.reopen()
	for path, listed := range map[string]bool{"/0": true, "/11999": true, "/docs/": true, "/linked": false, "/dropped": false} {
		want(t, path+" listed", r.page(path).Listed, listed)
	}
	if dump(t, r.c) != before {
		t.Error("the reopened collection differs from the original")
	}
	check(t, r.c)
}

func TestTwoManifestsOfOneSite(t *testing.T) {
	r := newRig(t)
	one := r.source(collection.ManifestRDF)
	two := r.commit(collection.Commit{Sources: []collection.Source{{Kind: collection.ManifestRDF, URL: home + "/docs/robots.rdf"}}}).Sources[0]
	r.apply(one, whole(1, create("/a", "A"), create("/b", "B")), collection.ByManifest)
	r.apply(two, whole(1, create("/b", "B")), collection.ByManifest)
	want(t, "gone", r.apply(one, whole(2), collection.ByManifest).Gone, 1)
	want(t, "state", r.page("/b").State, collection.Known)
	want(t, "gone", r.apply(two, whole(2), collection.ByManifest).Gone, 1)
}

func TestMassDeletionIsHeld(t *testing.T) {
	r := newRig(t)
	m := r.source(collection.ManifestRDF)
	var all []protocol.Change
	for i := range 50 {
		all = append(all, create(fmt.Sprintf("/p%02d", i), fmt.Sprint(i)))
	}
	site := func() collection.Site { s, _ := r.c.Site(home); return s }
	state := func() collection.Source { l, _ := r.c.Sources(0); return l[0] }
	doomed := func(pages int) {
		t.Helper()
		want(t, "doomed", site().Doomed, pages)
	}
	doomed(0)
	r.apply(m, whole(1, all...), collection.ByManifest)
	want(t, "gone of half", r.apply(m, whole(2, all[25:]...), collection.ByManifest).Gone, 25)
	r.apply(m, whole(3, all...), collection.ByManifest)
	a := r.apply(m, whole(4, all[30:]...), collection.ByManifest)
	if a.Gone != 0 || a.Held != 30 || site().Gone != 0 || state().Doomed != 30 || state().Cursor != cursor(4) {
		t.Errorf("applied %+v, site %+v", a, site())
	}
	doomed(30)
	// It was the site's mistake: the next manifest names them again.
	r.wait(time.Hour)
	r.apply(m, whole(5, all...), collection.ByManifest)
	if s := state(); !s.Held.IsZero() || s.Doomed != 0 {
		t.Errorf("source %+v", s)
	}
	doomed(0)
	want(t, "released", must.Get(r.c.Release(m.ID)).Gone, 0)
	// It is no mistake: a day later the manifest says the same.
	r.apply(m, whole(6, all[30:]...), collection.ByManifest)
	r.reopen()
	doomed(30)
	r.wait(23 * time.Hour)
	want(t, "held", r.apply(m, whole(7, all[30:]...), collection.ByManifest).Held, 30)
	r.wait(time.Hour)
	want(t, "gone", r.apply(m, whole(8, all[30:]...), collection.ByManifest).Gone, 30)
	want(t, "gone", site().Gone, 30)
	doomed(0)
	// A person releases the held deletions, except for pages that were named since.
	r.apply(m, whole(9, all...), collection.ByManifest)
	r.apply(m, whole(10), collection.ByManifest)
	want(t, "gone", site().Gone, 0)
	doomed(50)
	r.apply(m, told(11, all[7]), collection.ByStream)
	a = must.Get(r.c.Release(m.ID))
	if a.Gone != 49 || len(a.Dropped) != 49 || site().Gone != 49 || state().Doomed != 0 || state().Cursor != cursor(11) {
		t.Errorf("released %+v, site %+v", a, site())
	}
	doomed(0)
	check(t, r.c)
}

func TestDatesAsSignals(t *testing.T) {
	r := newRig(t)
	s := r.source(collection.SitemapXML)
	named := func(path string, modified time.Time, span time.Duration) collection.Applied {
		return r.apply(s, client.Step{Changes: []protocol.Change{{Op: protocol.Create,
			Item: protocol.Item{URL: home + path, Modified: modified, Span: span, Length: -1}}}}, collection.BySitemap)
	}
	r.find("/a")
	if a := named("/a", time.Time{}, 0); a.Pending != 1 || r.page("/a").Signal != collection.BySitemap {
		t.Errorf("applied %+v", a)
	}
	r.visit("/a", 200, "A")
	r.wait(time.Hour)
	want(t, "owed without a date", named("/a", time.Time{}, 0).Pending, 0)
	want(t, "owed for an old date", named("/a", r.now.Add(-2*time.Hour), 0).Pending, 0)
	want(t, "owed for a date that cannot be", named("/a", r.now.AddDate(-100, 0, 0), 0).Pending, 0)
	want(t, "owed for the far future", named("/a", r.now.AddDate(1, 0, 0), 0).Pending, 0)
	changed := r.now.Add(-time.Minute)
	want(t, "owed for a newer date", named("/a", changed, 0).Pending, 1)
	if h := r.page("/a").History; !h.Heard.Notified || !h.Modified.Equal(changed) {
		t.Errorf("history %+v", h)
	}
	r.visit("/a", 304, "")
	want(t, "owed for the same date", named("/a", changed, 0).Pending, 0)
	// A date one hour in the future is believed once.
	r.wait(time.Second)
	soon := r.now.Add(time.Hour)
	want(t, "owed for the near future", named("/a", soon, 0).Pending, 1)
	r.wait(time.Second)
	r.visit("/a", 304, "")
	want(t, "owed for it again", named("/a", soon, 0).Pending, 0)
	// A date without a time of day: the page is visited once more when that day is over.
	day := r.now.Truncate(24 * time.Hour)
	r.wait(time.Hour)
	want(t, "owed for today", named("/a", day, 24*time.Hour).Pending, 0)
	want(t, "due", r.now.Add(r.due("/a")), day.Add(24*time.Hour))
	r.wait(r.due("/a"))
	r.promote()
	wantAll(t, "queue", r.queue(), "/a")
	r.visit("/a", 304, "")
	want(t, "owed for that day", named("/a", day, 24*time.Hour).Pending, 0)
	want(t, "due", r.due("/a"), 24*time.Hour)
	check(t, r.c)
	// The far future is nearer with other limits.
	r.o.Dates.Ahead = 2 * 365 * 24 * time.Hour
	r.reopen()
	r.wait(time.Hour)
	want(t, "owed for the next year", named("/a", r.now.AddDate(1, 0, 0), 0).Pending, 1)
}

// A missing page that a list keeps naming is not fetched each time the list is read.
func TestListedMissingPagesAreNotRefetched(t *testing.T) {
	r := newRig(t)
	s, m := r.source(collection.SitemapXML), r.source(collection.ManifestRDF)
	list := client.Step{Changes: []protocol.Change{create("/dead", ""), create("/forbidden", "")}}
	want(t, "owed", r.apply(s, list, collection.BySitemap).Pending, 2)
	want(t, "owed", r.apply(m, whole(1, create("/never", "N")), collection.ByManifest).Pending, 1)
	r.visit("/dead", 410, "")
	r.visit("/forbidden", 403, "")
	r.visit("/never", 410, "")
	for i := range 3 {
		r.wait(time.Hour)
		want(t, "owed by the sitemap", r.apply(s, list, collection.BySitemap).Pending, 0)
		want(t, "owed by the manifest", r.apply(m, whole(uint64(i+2), create("/never", "N")), collection.ByManifest).Pending, 0)
	}
	wantAll(t, "queue", r.queue())
	check(t, r.c)
}

func TestNotices(t *testing.T) {
	r := newRig(t)
	r.find("/a")
	r.visit("/a", 200, "A")
	notice := client.Step{Changes: []protocol.Change{create("/a", ""), {Op: protocol.Create, Item: protocol.Item{URL: "https://b.example/new"}}}}
	a, err := r.c.Apply(0, notice, collection.ByIndexNow, collection.ApplyOptions{})
	if err != nil || a.Pending != 2 || len(a.New) != 1 {
		t.Errorf("applied %+v %v", a, err)
	}
	want(t, "due", r.due("/a"), 0)
	check(t, r.c)
	if _, err := r.c.Apply(99, notice, collection.ByIndexNow, collection.ApplyOptions{}); err == nil {
		t.Error("a step of an unknown source was applied")
	}
}

// A site that lies again and again about a page having changed does not affect that page's estimate, and
// a page whose notice was not believed is not fetched, whatever date the notice named.
func TestDisbelievedNoticesDoNotChangeEstimates(t *testing.T) {
	r := newRig(t)
	r.c.Close()
	r.o.Policy = fresh.Thesis{}
	r.reopen()
	r.find("/a")
	r.visit("/a", 200, "A")
	for range 2 {
		r.wait(24 * time.Hour)
		r.visit("/a", 200, "A")
	}
	rate := func() float64 {
		p := r.page("/a")
		post := new(fresh.Prior).Under(&p.Belief)
		return post.Mean()
	}
	before, due := rate(), r.page("/a").At
	say := func(ch protocol.Change) {
		must.Get(r.c.Apply(0, client.Step{Changes: []protocol.Change{ch}}, collection.ByIndexNow, collection.ApplyOptions{}))
	}
	refuted := map[string]func(){
		"unbelieved":          func() { r.commit(collection.Commit{Unbelieved: []frontier.PageID{r.page("/a").ID}}) },
		"announced unchanged": func() { say(create("/a", "A")) },
	}
	for what, refute := range refuted {
		for i := range 5 {
			r.wait(time.Hour)
			lie := create("/a", fmt.Sprint("lie ", i))
			lie.Item.Modified = r.now.Add(-time.Minute)
			say(lie)
			if p := r.page("/a"); !p.Outdated() || p.Heard.Notices != 1 || rate() <= before {
				t.Fatalf("notice was not applied: %+v", p.History)
			}
			refute()
			if p := r.page("/a"); p.Outdated() || p.Heard.Notices != 0 || rate() > before*1.001 || p.At.Before(due) {
				t.Errorf("%s: %.4f changes a day, and before %.4f; due at %v, and before at %v", what, rate(), before, p.At, due)
			}
		}
	}
	check(t, r.c)
}

func TestAdmission(t *testing.T) {
	r := newRig(t)
	m := r.source(collection.ManifestRDF)
	forbidden := home + "/private"
	o := collection.ApplyOptions{Admit: func(url string) collection.Find {
		switch url {
		case forbidden:
			return collection.Find{URL: url, Exclude: "robots.txt: Disallow: /private"}
		case home + "/dropped":
			return collection.Find{}
		case home + "/index.html?sid=1":
			return collection.Find{URL: home + "/index.html"}
		}
		return collection.Find{URL: url, Depth: 3}
	}}
	step := whole(1, create("/private", "P"), create("/dropped", "D"), create("/index.html?sid=1", "I"), create("/a", "A"))
	for range 2 {
		a, err := r.c.Apply(m.ID, step, collection.ByManifest, o)
		if err != nil || a.Refused != 2 || a.Gone != 0 {
			t.Errorf("applied %+v %v", a, err)
		}
	}
	wantAll(t, "queue", r.queue(), "/index.html", "/a")
	want(t, "state", r.page("/private").State, collection.Excluded)
	want(t, "depth", r.page("/a").Depth, 3)
	forbidden = ""
	a, err := r.c.Apply(m.ID, step, collection.ByManifest, o)
	if err != nil || a.Refused != 1 || a.Pending != 1 {
		t.Errorf("applied %+v %v", a, err)
	}
	want(t, "due", r.due("/private"), 0)
	check(t, r.c)
}
