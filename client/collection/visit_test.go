package collection_test

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

func TestPageIsGoneAfter410(t *testing.T) {
	r := newRig(t)
	r.find("/a")
	r.visit("/a", 200, "A")
	if out := r.visit("/a", 410, ""); !out.Gone {
		t.Errorf("visited: %+v", out)
	}
	want(t, "state", r.page("/a").State, collection.Gone)
	want(t, "asked again", r.due("/a"), 30*24*time.Hour)
	// A page may come back.
	r.wait(30 * 24 * time.Hour)
	if out := r.visit("/a", 200, "A"); !out.Changed || out.Page.State != collection.Held || out.Page.Visits != 2 {
		t.Errorf("visited: %+v", out)
	}
	check(t, r.c)
}

func TestPageIsGoneAfterTwo404sHoursApart(t *testing.T) {
	r := newRig(t)
	r.find("/a")
	r.visit("/a", 200, "A")
	want(t, "gone by one", r.visit("/a", 404, "").Gone, false)
	want(t, "state", r.page("/a").State, collection.Failing)
	want(t, "asked again", r.due("/a"), 4*time.Hour)
	r.wait(time.Hour) // somebody requested it
	want(t, "gone by two", r.visit("/a", 404, "").Gone, false)
	want(t, "asked again", r.due("/a"), 3*time.Hour)
	r.wait(time.Hour)
	r.visit("/a", 503, "") // proves nothing, and undoes nothing
	r.wait(2 * time.Hour)
	want(t, "gone by the last", r.visit("/a", 404, "").Gone, true)

	r.find("/b")
	r.visit("/b", 200, "B")
	r.visit("/b", 404, "")
	r.wait(3 * time.Hour)
	r.visit("/b", 200, "B")
	r.wait(3 * time.Hour)
	want(t, "gone with a 200 in between", r.visit("/b", 404, "").Gone, false)
	check(t, r.c)
}

func TestOtherResponsesDoNotDeletePages(t *testing.T) {
	r := newRig(t)
	r.find("/a", "/")
	r.visit("/a", 200, "A")
	spoil := []collection.Visit{
		{Status: 500}, {Status: 503}, {Status: 429}, {Status: 403},
		{Fault: "timeout"}, {Fault: "connect: refused", Silent: true}, {Fault: "no such host", Silent: true, DNS: true},
		{Status: 200, Soft404: true, Body: []byte("not here")},
		{Status: 302, Target: &collection.Find{URL: home + "/"}},
		{Status: 302}, {Status: 304},
	}
	for range 3 {
		for _, v := range spoil {
			v.Page, v.Asked = r.page("/a").ID, r.now
			out := r.commit(collection.Commit{Visits: []collection.Visit{v}}).Visited[0]
			if p := out.Page; out.Gone || out.Changed || p.State == collection.Gone || p.Digest.IsZero() {
				t.Errorf("after %+v: %+v", v, out)
			}
			r.wait(5 * time.Hour)
		}
	}
	check(t, r.c)
}

// A deleted page is not restored by a response without content, such as a redirect to its new URL.
func TestDeletedPageIsNotRestoredByOtherResponses(t *testing.T) {
	for _, v := range []collection.Visit{
		{Status: 308, Target: &collection.Find{URL: home + "/b"}},
		{Status: 403}, {Status: 503}, {Fault: "timeout"},
		{Status: 200, Soft404: true, Body: []byte("not here")},
	} {
		r := newRig(t)
		r.find("/a")
		r.visit("/a", 200, "A")
		r.visit("/a", 410, "")
		r.wait(30 * 24 * time.Hour)
		v.Page, v.Asked = r.page("/a").ID, r.now
		r.commit(collection.Commit{Visits: []collection.Visit{v}})
		if p := r.page("/a"); !p.Digest.IsZero() || p.State == collection.Held {
			t.Errorf("after %+v: %+v", v, p)
		}
		var told []protocol.Op
		for _, e := range r.events(protocol.Cursor{}) {
			if e.URL == home+"/a" {
				told = append(told, e.Op)
			}
		}
		if !slices.Equal(told, []protocol.Op{protocol.Create, protocol.Delete}) {
			t.Errorf("after %+v events are %v", v, told)
		}
		check(t, r.c)
	}
}

func TestFailuresBackOff(t *testing.T) {
	r := newRig(t)
	r.find("/a")
	day := 24 * time.Hour
	for i, wait := range []time.Duration{time.Minute, 10 * time.Minute, time.Hour, day / 2, day / 2, day / 2, day / 2, 7 * day, 7 * day} {
		r.visit("/a", 503, "")
		want(t, "wait", r.due("/a"), wait)
		want(t, "fails", r.page("/a").Fails, i+1)
		r.wait(wait)
	}
	r.visit("/a", 200, "A")
	if p := r.page("/a"); p.Fails != 0 || p.Fault != "" || !p.Failed.IsZero() || p.Visits != 1 {
		t.Errorf("page %+v", p)
	}
	// P05: a host name that cannot be resolved is retried an hour later at first,
	// since a network may be down, and a week later in the end.
	r.commit(collection.Commit{Visits: []collection.Visit{{Page: r.page("/a").ID, Asked: r.now, Fault: "no such host", Silent: true, DNS: true}}})
	want(t, "after DNS", r.due("/a"), time.Hour)
	// A Retry-After of the site is kept, within reason.
	v := r.answer("/a", 503, "")
	v.Again = r.now.Add(48 * time.Hour)
	r.commit(collection.Commit{Visits: []collection.Visit{v}})
	want(t, "Retry-After", r.due("/a"), 48*time.Hour)
	v.Again = r.now.AddDate(100, 0, 0)
	r.commit(collection.Commit{Visits: []collection.Visit{v}})
	want(t, "Retry-After of 100 years", r.due("/a"), 30*day)
}

// A history has the data that F09 and F10 need: the first visit is not a change.
func TestHistoryOfVisits(t *testing.T) {
	r := newRig(t)
	r.find("/a")
	first := r.now
	r.visit("/a", 200, "one")
	r.wait(10 * time.Hour)
	r.visit("/a", 304, "")
	r.wait(5 * time.Hour)
	want(t, "changed", r.visit("/a", 200, "ONE").Changed, false) // other bytes, the same after parsing
	r.wait(8 * time.Hour)
	v := r.answer("/a", 200, "two")
	v.Modified = r.now.Add(-2 * time.Hour)
	want(t, "changed", r.commit(collection.Commit{Visits: []collection.Visit{v}}).Visited[0].Changed, true)
	r.reopen()
	h := r.page("/a").History
	if !h.First.Equal(first) || !h.Last.Equal(r.now) || h.Visits != 4 || h.Changes != 1 || h.Unchanged != 17*time.Hour || !h.Modified.Equal(v.Modified) {
		t.Errorf("history %+v", h)
	}
	want(t, "due", r.due("/a"), 24*time.Hour)
}

func TestRedirect(t *testing.T) {
	r := newRig(t)
	r.find("/old")
	v := r.answer("/old", 301, "")
	v.Target = &collection.Find{URL: "https://other.example/new", Depth: 1}
	out := r.commit(collection.Commit{Visits: []collection.Visit{v}})
	if p := out.Visited[0].Page; p.State != collection.Moved || p.Target != "https://other.example/new" || len(out.New) != 1 || len(out.Queue) != 1 {
		t.Errorf("committed %+v", out)
	}
	want(t, "asked again", r.due("/old"), 7*24*time.Hour)
	site, ok := r.c.Site("https://other.example")
	want(t, "its site", ok && site.Ready == 1, true)
	check(t, r.c)
}

// A page that robots.txt comes to forbid is not fetched again, and its content stays stored.
func TestForbiddenPageKeepsContent(t *testing.T) {
	r := newRig(t)
	r.find("/a")
	r.visit("/a", 200, "A")
	before := r.page("/a")
	r.commit(collection.Commit{Visits: []collection.Visit{{Page: before.ID, Exclude: "robots.txt: Disallow: /a"}}})
	p := r.page("/a")
	if p.State != collection.Excluded || p.Digest != before.Digest || p.Stored != before.Stored || r.due("/a") != -1 {
		t.Errorf("page %+v, before %+v", p, before)
	}
	if list := r.events(protocol.Cursor{}); len(list) != 1 || list[0].Op != protocol.Create {
		t.Errorf("events %+v", list)
	}
	if site, _ := r.c.Site(home); site.Held != 1 {
		t.Errorf("site %+v", site)
	}
	check(t, r.c)
}

func TestExcludedPages(t *testing.T) {
	r := newRig(t)
	out := r.commit(collection.Commit{Finds: []collection.Find{
		{URL: home + "/deep", Depth: 17, By: collection.ByLink, Exclude: "depth 17 exceeds the limit 15"},
		{URL: home + "/pic.png", Depth: 1, By: collection.ByLink, LogOnly: true},
		{URL: home + "/page", Depth: 3, By: collection.ByLink},
	}})
	want(t, "ready", len(out.Queue), 1)
	if p := r.page("/deep"); p.State != collection.Excluded || p.Why != "depth 17 exceeds the limit 15" || r.due("/deep") != -1 {
		t.Errorf("page %+v", p)
	}
	// A shorter path admits it; a longer one that is forbidden has no effect then.
	out = r.commit(collection.Commit{Finds: finds(4, "/deep")})
	want(t, "ready", len(out.Queue), 1)
	want(t, "depth", r.page("/deep").Depth, 4)
	r.commit(collection.Commit{Finds: []collection.Find{{URL: home + "/deep", Depth: 16, By: collection.ByLink, Exclude: "depth"}}})
	want(t, "state", r.page("/deep").State, collection.Known)
	// robots.txt is checked right before the request, and obeyed.
	out = r.commit(collection.Commit{Visits: []collection.Visit{{Page: r.page("/page").ID, Exclude: "robots.txt: Disallow: /page"}}})
	if p := out.Visited[0].Page; p.State != collection.Excluded || r.due("/page") != -1 {
		t.Errorf("page %+v", p)
	}
	wantAll(t, "queue", r.queue(), "/deep")
	out = r.commit(collection.Commit{Finds: []collection.Find{{URL: home + "/deep", Depth: 1, By: collection.ByLink, Exclude: "robots.txt"}}})
	if len(out.Dropped) != 1 || len(r.queue()) != 0 {
		t.Errorf("dropped %+v, queue %q", out.Dropped, r.queue())
	}
	check(t, r.c)
	r.reopen()
	check(t, r.c)
}

func TestPageAddedByPersonIsDueAtOnce(t *testing.T) {
	r := newRig(t)
	r.find("/a")
	r.visit("/a", 200, "A")
	want(t, "due", r.due("/a"), 24*time.Hour)
	out := r.commit(collection.Commit{Finds: []collection.Find{{URL: home + "/a", By: collection.ByPerson}}})
	if p := r.page("/a"); len(out.Queue) != 1 || !p.Told || p.Signal != collection.ByPerson || r.due("/a") != 0 {
		t.Errorf("page %+v, queue %+v", p, out.Queue)
	}
	r.visit("/a", 304, "")
	want(t, "told", r.page("/a").Told, false)
	want(t, "due", r.due("/a"), 24*time.Hour)
}

func TestLimits(t *testing.T) {
	r := newRig(t)
	r.o.MaxPages, r.o.MaxSites = 3, 2
	r.reopen()
	out := r.commit(collection.Commit{Finds: []collection.Find{
		{URL: "https://a.example/1"}, {URL: "https://b.example/1"}, {URL: "https://c.example/1"},
		{URL: "https://b.example/2"}, {URL: "https://b.example/3"}, {URL: "https://b.example/2"},
		{URL: ""}, {URL: "mailto:x"}, {URL: "https://"}, {URL: "https:///x"}, {URL: "https://a.example"}, {URL: "http://x/" + string(make([]byte, 9000))},
	}})
	want(t, "new", len(out.New), 3)
	want(t, "refused", out.Refused, 8)
	check(t, r.c)
}

// If the site would have announced any change of a page, the page is not fetched when it comes
// due, but scheduled anew, and no follower gets an event.
func TestConfirmedPageIsRescheduled(t *testing.T) {
	r := newRig(t)
	r.find("/a", "/told", "/new", "/failing")
	for _, path := range []string{"/a", "/told", "/failing"} {
		r.visit(path, 200, path)
	}
	r.wait(23 * time.Hour)
	r.visit("/failing", 503, "")
	r.wait(time.Hour)
	r.promote()
	entry, _ := func() (frontier.Entry, bool) { p := r.page("/a"); return p.Entry() }()
	head := r.c.Log().Head()
	turn := collection.Commit{Finds: []collection.Find{{URL: home + "/told", By: collection.ByPerson}}}
	for _, path := range []string{"/a", "/told", "/new", "/failing"} {
		turn.Confirmed = append(turn.Confirmed, r.page(path).ID)
	}
	turn.Confirmed = append(turn.Confirmed, 4711) // no such page
	out := r.commit(turn)
	if len(out.Dropped) != 1 || out.Dropped[0] != entry || len(out.Queue) != 1 || out.Queue[0].Page != r.page("/told").ID {
		t.Errorf("dropped %+v, queued %+v", out.Dropped, out.Queue)
	}
	p := r.page("/a")
	if h := p.History; h.Visits != 1 || !h.Heard.Confirmed.Equal(r.now) || h.Unchanged != 24*time.Hour || !h.Last.Equal(r.now.Add(-24*time.Hour)) {
		t.Errorf("history %+v", h)
	}
	want(t, "due again", r.due("/a"), 24*time.Hour)
	want(t, "announced page stays pending", r.page("/told").Told, true)
	want(t, "announced page is due", r.due("/told"), 0)
	want(t, "failing is due, and was", r.page("/failing").Heard.Confirmed.IsZero(), true)
	wantAll(t, "queue", r.queue(), "/told", "/new", "/failing")
	want(t, "journal", r.c.Log().Head(), head)
	check(t, r.c)
	r.reopen()
	check(t, r.c)
	r.wait(24 * time.Hour)
	r.promote()
	want(t, "confirmed again", len(r.commit(collection.Commit{Confirmed: []frontier.PageID{p.ID, p.ID}}).Dropped), 1)
	want(t, "due once more", r.due("/a"), 24*time.Hour)
	check(t, r.c)
}

// The speed of a site follows the visits that needed a request and were answered, and is still known after a restart.
func TestSpeedOfSite(t *testing.T) {
	r := newRig(t)
	r.find("/a", "/b")
	if s, _ := r.c.Site(home); s.Speed != (frontier.Speed{}) {
		t.Errorf("before any visit: %+v", s.Speed)
	}
	r.reopen() // states of earlier versions have no speeds, either
	visit := func(change func(*collection.Visit)) {
		v := r.answer("/a", 200, "A")
		v.Connect, v.Took, v.PerConnection = 100*time.Millisecond, 600*time.Millisecond, 1
		change(&v)
		r.commit(collection.Commit{Visits: []collection.Visit{v}})
	}
	visit(func(*collection.Visit) {})
	visit(func(v *collection.Visit) { v.Connect, v.Took, v.PerConnection = 0, time.Second, 0 })
	visit(func(v *collection.Visit) { v.Fault, v.Silent, v.Took = "no answer", true, time.Minute })
	visit(func(v *collection.Visit) { v.Delivered, v.Took = true, time.Minute })
	visit(func(v *collection.Visit) { v.Shared, v.Took = true, time.Minute })
	for _, when := range []string{"", " after a restart"} {
		s, _ := r.c.Site(home)
		if v := s.Speed; math.Abs(v.Connect-.1) > 1e-6 || math.Abs(v.Response-.6) > 1e-6 || v.PerConnection != 1 {
			t.Errorf("speed%s: %+v, want 0.1 s to connect and 0.6 s to answer", when, v)
		}
		check(t, r.c)
		r.reopen()
	}
}

func TestSitesAndSources(t *testing.T) {
	r := newRig(t)
	r.find("/a")
	out := r.commit(collection.Commit{
		Sites: []collection.Site{{Origin: home, Delay: 3 * time.Second, Soft404: true, Trust: []byte("t"), Shape: []byte("s"), Quiet: r.now.Add(time.Hour)},
			{Origin: "https://b.example", Fault: "down", FaultAt: r.now}, {Origin: "nonsense"}},
		Sources: []collection.Source{{Kind: collection.Robots, URL: home + "/robots.txt", Body: []byte("User-agent: *")},
			{Kind: collection.SitemapXML, URL: "https://b.example/sitemap.xml"}, {Kind: collection.Robots, URL: home + "/robots.txt", Status: 200}},
	})
	want(t, "new sources", len(out.Sources), 2)
	want(t, "refused", out.Refused, 1)
	r.reopen()
	s, _ := r.c.Site(home)
	if s.Delay != 3*time.Second || !s.Soft404 || string(s.Trust) != "t" || string(s.Shape) != "s" || !s.Quiet.Equal(r.now.Add(time.Hour)) || s.Pages != 1 {
		t.Errorf("site %+v", s)
	}
	list, err := r.c.Sources(s.ID)
	if err != nil || len(list) != 1 || list[0].Status != 200 || list[0].ID != out.Sources[0].ID {
		t.Errorf("sources %+v %v", list, err)
	}
	if list, err = r.c.Sources(0); err != nil {
		t.Fatal(err)
	}
	want(t, "all sources", len(list), 2)
	src := list[1]
	src.Fails, src.Fault, src.At, src.Cursor = 3, "timeout", r.now.Add(time.Hour), cursor(9)
	r.commit(collection.Commit{Sources: []collection.Source{src}})
	if list, err = r.c.Sources(src.Site); err != nil || list[0].Fails != 3 || !list[0].Cursor.IsZero() || !list[0].At.Equal(src.At) {
		t.Errorf("sources %+v %v", list, err)
	}
	if _, err := r.c.Commit(&collection.Commit{Sources: []collection.Source{{ID: 77}}, Finds: finds(1, "/not")}); err == nil {
		t.Error("an unknown source was stored")
	}
	if _, ok := r.c.Known(home + "/not"); ok {
		t.Error("half of a commit was stored")
	}
}

// Readers see whole transactions while others write.
func TestReadersSeeWholeTransactions(t *testing.T) {
	r := newRig(t)
	r.find("/p0")
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				n := 0
				for p, err := range r.c.Pages(t.Context()) {
					if n++; err != nil || p.URL == "" {
						t.Errorf("page %+v %v", p, err)
					}
					if id, ok := r.c.Known(p.URL); ok && id != p.ID {
						t.Errorf("%s is known as %d, want %d", p.URL, id, p.ID)
					}
				}
				if now := r.c.Len(); now < n-10 {
					t.Errorf("%d pages of %d", n, now)
				}
				for s := range r.c.Sites() {
					list, err := r.c.Queue().Head(s.ID, frontier.Entry{}, 1000)
					for i, e := range list {
						if err != nil || i > 0 && list[i-1].Page >= e.Page && list[i-1].Rank <= e.Rank {
							t.Errorf("entry %d: %+v after %+v %v", i, e, list[max(0, i-1)], err)
						}
					}
				}
				if _, err := r.c.Queue().Next(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 60 {
		var links []string
		for j := range 10 {
			links = append(links, fmt.Sprintf("/p%d", i*9+j))
		}
		r.visit(fmt.Sprintf("/p%d", i), 200, fmt.Sprint("body", i), links...)
	}
	close(done)
	readers.Wait()
	check(t, r.c)
}

// One transaction does not take a site over its limit, however many URLs it finds (G04).
func TestPerSiteLimit(t *testing.T) {
	c := must.Get(collection.Open(t.TempDir(), &collection.Options{PerSite: 10}))
	defer c.Close()
	var finds []collection.Find
	for i := range 50 {
		finds = append(finds, collection.Find{URL: fmt.Sprintf("%s/%d", home, i)}, collection.Find{URL: fmt.Sprintf("http://other.test/%d", i%5)})
	}
	finds = append(finds, collection.Find{URL: home + "/wanted", By: collection.ByPerson})
	done := must.Get(c.Commit(&collection.Commit{Finds: finds}))
	want(t, "new pages", len(done.New), 10+5+1)
	want(t, "refused", done.Refused, 40)
	done = must.Get(c.Commit(&collection.Commit{Finds: finds}))
	want(t, "new pages in the next commit", len(done.New), 0)
}
