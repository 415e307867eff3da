package collection_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/protocol"
)

func TestSilentPageIsGoneBy410(t *testing.T) {
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

func TestTwo404sHoursApart(t *testing.T) {
	r := newRig(t)
	r.find("/a")
	r.visit("/a", 200, "A")
	want(t, "gone by one", r.visit("/a", 404, "").Gone, false)
	want(t, "state", r.page("/a").State, collection.Failing)
	want(t, "asked again", r.due("/a"), 4*time.Hour)
	r.wait(time.Hour) // somebody asked for it
	want(t, "gone by two", r.visit("/a", 404, "").Gone, false)
	want(t, "asked again", r.due("/a"), 3*time.Hour)
	r.wait(time.Hour)
	r.visit("/a", 503, "") // proves nothing, and makes nothing undone
	r.wait(2 * time.Hour)
	want(t, "gone by the last", r.visit("/a", 404, "").Gone, true)

	r.find("/b")
	r.visit("/b", 200, "B")
	r.visit("/b", 404, "")
	r.wait(3 * time.Hour)
	r.visit("/b", 200, "B")
	r.wait(3 * time.Hour)
	want(t, "gone though it was there between", r.visit("/b", 404, "").Gone, false)
	check(t, r.c)
}

func TestNothingElseMakesAPageGone(t *testing.T) {
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
			out := r.commit(collection.Turn{Visits: []collection.Visit{v}}).Visited[0]
			if p := out.Page; out.Gone || out.Changed || p.State == collection.Gone || p.Digest.IsZero() {
				t.Errorf("after %+v: %+v", v, out)
			}
			r.wait(5 * time.Hour)
		}
	}
	check(t, r.c)
}

func TestFailuresAreRetriedFirstSoonThenSeldom(t *testing.T) {
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
	// P05: a name that cannot be resolved is asked for an hour later at first,
	// since a network may be down, and a week later in the end.
	r.commit(collection.Turn{Visits: []collection.Visit{{Page: r.page("/a").ID, Asked: r.now, Fault: "no such host", Silent: true, DNS: true}}})
	want(t, "after DNS", r.due("/a"), time.Hour)
	// What the site asks for is kept to, within reason.
	v := r.answer("/a", 503, "")
	v.Again = r.now.Add(48 * time.Hour)
	r.commit(collection.Turn{Visits: []collection.Visit{v}})
	want(t, "Retry-After", r.due("/a"), 48*time.Hour)
	v.Again = r.now.AddDate(100, 0, 0)
	r.commit(collection.Turn{Visits: []collection.Visit{v}})
	want(t, "Retry-After of 100 years", r.due("/a"), 30*day)
}

// A history is what F09 and F10 need: the first visit is no change.
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
	want(t, "changed", r.commit(collection.Turn{Visits: []collection.Visit{v}}).Visited[0].Changed, true)
	r.reopen()
	h := r.page("/a").History
	if !h.First.Equal(first) || !h.Last.Equal(r.now) || h.Visits != 4 || h.Changes != 1 || h.Unchanged != 17*time.Hour || !h.Modified.Equal(v.Modified) {
		t.Errorf("history %+v", h)
	}
	want(t, "due", r.due("/a"), 24*time.Hour)
}

func TestLinksOfADuplicateAreIgnored(t *testing.T) {
	r := newRig(t)
	r.find("/a", "/b", "/c")
	r.visit("/a", 200, "Same", "/x", "/a", "/x")
	out := r.visit("/b", 200, "SAME", "/trap") // the same but for format
	if !out.Duplicate || out.Page.Original != r.page("/a").ID {
		t.Errorf("visited %+v", out)
	}
	if _, ok := r.c.Known(home + "/trap"); ok {
		t.Error("the link of a duplicate was followed")
	}
	links := func(path string) []frontier.PageID {
		l, err := r.c.Links(r.page(path).ID)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	if l := links("/a"); len(l) != 2 || l[0] != r.page("/a").ID || l[1] != r.page("/x").ID {
		t.Errorf("links %v", l)
	}
	want(t, "links of the duplicate", len(links("/b")), 0)
	site, _ := r.c.Site(home)
	want(t, "duplicates", site.Duplicates, 1)
	// The original becomes another page; the duplicate is none any more, and the next one is its.
	r.visit("/a", 200, "Other")
	want(t, "duplicate of what is no more", r.visit("/b", 200, "SAME", "/free").Duplicate, false)
	r.page("/free")
	want(t, "duplicate of the new original", r.visit("/c", 200, "same").Page.Original, r.page("/b").ID)
	check(t, r.c)
	r.reopen()
	check(t, r.c)
	want(t, "duplicate after a restart", r.visit("/x", 200, "sAME").Page.Original, r.page("/b").ID)
}

// When its original goes, a page is no duplicate any more: its links are read
// with the next body.
func TestOriginalGoes(t *testing.T) {
	goes := map[string]func(r *rig){
		"gone":  func(r *rig) { r.visit("/a", 410, "") },
		"other": func(r *rig) { r.visit("/a", 200, "Other") },
		"moved": func(r *rig) {
			v := r.answer("/a", 301, "")
			v.Target = &collection.Find{URL: home + "/b", Depth: 1}
			r.commit(collection.Turn{Visits: []collection.Visit{v}})
		},
		"told to be gone": func(r *rig) {
			s := r.source(collection.ManifestRDF)
			r.apply(s, whole(1, create("/a", "Same"), create("/b", "Same")), collection.ByManifest)
			r.apply(s, told(2, remove("/a")), collection.ByStream)
		},
		"told to have moved": func(r *rig) {
			s := r.source(collection.ManifestRDF)
			r.apply(s, whole(1, create("/a", "Same"), create("/b", "Same")), collection.ByManifest)
			r.apply(s, told(2, move("/a", "/b", "Same")), collection.ByStream)
		},
	}
	for name, gone := range goes {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.find("/a", "/b")
			r.visit("/a", 200, "Same", "/x")
			r.visit("/b", 200, "Same", "/x", "/y")
			original := func() string {
				p := r.page("/b")
				o, ok, err := r.c.Original(&p)
				if err != nil || ok != (o.ID != 0) {
					t.Errorf("original %+v, %v, %v", o, ok, err)
				}
				return strings.TrimPrefix(o.URL, home)
			}
			want(t, "original", original(), "/a")
			gone(r)
			want(t, "original that is none", original(), "")
			if out := r.visit("/b", 200, "Same", "/x", "/y"); out.Duplicate || out.Page.Original != 0 || out.Changed {
				t.Errorf("visited %+v", out)
			}
			if l, err := r.c.Links(r.page("/b").ID); err != nil || len(l) != 2 {
				t.Errorf("links %v, %v", l, err)
			}
			check(t, r.c)
		})
	}
}

// What is alike on two sites leads to pages of its own on each.
func TestAlikeOnTwoSites(t *testing.T) {
	r := newRig(t)
	const other = "http://other.test/"
	r.find("/")
	r.visit("/", 200, "Welcome", "/a")
	p := r.commit(collection.Turn{Finds: []collection.Find{{URL: other}}}).New[0]
	v := r.answer("/", 200, "Welcome")
	v.Page, v.Links = p.ID, []collection.Find{{URL: other + "a", Depth: 1}}
	out := r.commit(collection.Turn{Visits: []collection.Visit{v}})
	if d := out.Visited[0]; d.Duplicate || d.Page.Original != r.page("/").ID {
		t.Errorf("visited %+v", d)
	}
	if _, ok := r.c.Known(other + "a"); !ok {
		t.Error("the link on the other site was not followed")
	}
	check(t, r.c)
}

func TestRedirect(t *testing.T) {
	r := newRig(t)
	r.find("/old")
	v := r.answer("/old", 301, "")
	v.Target = &collection.Find{URL: "https://other.example/new", Depth: 1}
	out := r.commit(collection.Turn{Visits: []collection.Visit{v}})
	if p := out.Visited[0].Page; p.State != collection.Moved || p.Target != "https://other.example/new" || len(out.New) != 1 || len(out.Queue) != 1 {
		t.Errorf("committed %+v", out)
	}
	want(t, "asked again", r.due("/old"), 7*24*time.Hour)
	site, ok := r.c.Site("https://other.example")
	want(t, "its site", ok && site.Ready == 1, true)
	check(t, r.c)
}

func TestExcludedPages(t *testing.T) {
	r := newRig(t)
	out := r.commit(collection.Turn{Finds: []collection.Find{
		{URL: home + "/deep", Depth: 17, By: collection.ByLink, Exclude: "depth 17 over 15"},
		{URL: home + "/pic.png", Depth: 1, By: collection.ByLink, LogOnly: true},
		{URL: home + "/page", Depth: 3, By: collection.ByLink},
	}})
	want(t, "ready", len(out.Queue), 1)
	if p := r.page("/deep"); p.State != collection.Excluded || p.Why != "depth 17 over 15" || r.due("/deep") != -1 {
		t.Errorf("page %+v", p)
	}
	// A shorter way admits it; a longer way that is forbidden says nothing of it then.
	out = r.commit(collection.Turn{Finds: finds(4, "/deep")})
	want(t, "ready", len(out.Queue), 1)
	want(t, "depth", r.page("/deep").Depth, 4)
	r.commit(collection.Turn{Finds: []collection.Find{{URL: home + "/deep", Depth: 16, By: collection.ByLink, Exclude: "depth"}}})
	want(t, "state", r.page("/deep").State, collection.Known)
	// robots.txt is asked right before the request, and is obeyed.
	out = r.commit(collection.Turn{Visits: []collection.Visit{{Page: r.page("/page").ID, Exclude: "robots.txt: Disallow: /page"}}})
	if p := out.Visited[0].Page; p.State != collection.Excluded || r.due("/page") != -1 {
		t.Errorf("page %+v", p)
	}
	wantAll(t, "queue", r.queue(), "/deep")
	out = r.commit(collection.Turn{Finds: []collection.Find{{URL: home + "/deep", Depth: 1, By: collection.ByLink, Exclude: "robots.txt"}}})
	if len(out.Dropped) != 1 || len(r.queue()) != 0 {
		t.Errorf("dropped %+v, queue %q", out.Dropped, r.queue())
	}
	check(t, r.c)
	r.reopen()
	check(t, r.c)
}

func TestShorterWayRaisesARank(t *testing.T) {
	r := newRig(t)
	r.commit(collection.Turn{Finds: append(finds(5, "/far"), finds(3, "/near")...)})
	wantAll(t, "queue", r.queue(), "/near", "/far")
	r.commit(collection.Turn{Finds: finds(2, "/far", "/far")})
	r.commit(collection.Turn{Finds: finds(4, "/far")})
	wantAll(t, "queue", r.queue(), "/far", "/near")
	want(t, "depth", r.page("/far").Depth, 2)
	check(t, r.c)
}

func TestPersonComesAtOnce(t *testing.T) {
	r := newRig(t)
	r.find("/a")
	r.visit("/a", 200, "A")
	want(t, "due", r.due("/a"), 24*time.Hour)
	out := r.commit(collection.Turn{Finds: []collection.Find{{URL: home + "/a", By: collection.ByPerson}}})
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
	out := r.commit(collection.Turn{Finds: []collection.Find{
		{URL: "https://a.example/1"}, {URL: "https://b.example/1"}, {URL: "https://c.example/1"},
		{URL: "https://b.example/2"}, {URL: "https://b.example/3"}, {URL: "https://b.example/2"},
		{URL: ""}, {URL: "mailto:x"}, {URL: "https://"}, {URL: "https:///x"}, {URL: "https://a.example"}, {URL: "http://x/" + string(make([]byte, 9000))},
	}})
	want(t, "new", len(out.New), 3)
	want(t, "refused", out.Refused, 8)
	check(t, r.c)
}

func TestPromote(t *testing.T) {
	r := newRig(t)
	r.find("/a", "/b", "/c")
	r.visit("/b", 200, "B")
	r.wait(time.Hour)
	r.visit("/a", 200, "A")
	wantAll(t, "queue", r.queue(), "/c")
	next, err := r.c.Queue().Next()
	if err != nil || time.UnixMilli(next).Sub(r.now) != 23*time.Hour {
		t.Errorf("next at %d %v", next, err)
	}
	r.wait(23 * time.Hour)
	r.promote()
	wantAll(t, "queue", r.queue(), "/b", "/c")
	r.wait(time.Hour)
	r.promote()
	wantAll(t, "queue", r.queue(), "/a", "/b", "/c")
	check(t, r.c)
	r.visit("/a", 304, "")
	wantAll(t, "queue", r.queue(), "/b", "/c")
	check(t, r.c)
}

// A page of which its site would have told a change is not asked for when it comes
// due, but planned anew, and no follower hears of it.
func TestConfirmed(t *testing.T) {
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
	turn := collection.Turn{Finds: []collection.Find{{URL: home + "/told", By: collection.ByPerson}}}
	for _, path := range []string{"/a", "/told", "/new", "/failing"} {
		turn.Confirmed = append(turn.Confirmed, r.page(path).ID)
	}
	turn.Confirmed = append(turn.Confirmed, 4711) // no page
	out := r.commit(turn)
	if len(out.Dropped) != 1 || out.Dropped[0] != entry || len(out.Queue) != 1 || out.Queue[0].Page != r.page("/told").ID {
		t.Errorf("dropped %+v, queued %+v", out.Dropped, out.Queue)
	}
	p := r.page("/a")
	if h := p.History; h.Visits != 1 || !h.Confirmed.Equal(r.now) || h.Unchanged != 24*time.Hour || !h.Last.Equal(r.now.Add(-24*time.Hour)) {
		t.Errorf("history %+v", h)
	}
	want(t, "due again", r.due("/a"), 24*time.Hour)
	want(t, "told stays told", r.page("/told").Told, true)
	want(t, "told is due", r.due("/told"), 0)
	want(t, "failing is due, and was", r.page("/failing").Confirmed.IsZero(), true)
	wantAll(t, "queue", r.queue(), "/told", "/new", "/failing")
	want(t, "journal", r.c.Log().Head(), head)
	check(t, r.c)
	r.reopen()
	check(t, r.c)
	r.wait(24 * time.Hour)
	r.promote()
	want(t, "confirmed again", len(r.commit(collection.Turn{Confirmed: []frontier.PageID{p.ID, p.ID}}).Dropped), 1)
	want(t, "due once more", r.due("/a"), 24*time.Hour)
	check(t, r.c)
}

func TestRerank(t *testing.T) {
	r := newRig(t)
	r.find("/a", "/b", "/c")
	list, err := r.c.Queue().Head(1, frontier.Entry{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	anew := append([]frontier.Entry(nil), list...)
	anew[2].Rank = 7
	anew[1].Rank = -7
	stale := list[0]
	stale.Rank = 99
	if err := r.c.Queue().Rerank(append(list, stale), append(anew, frontier.Entry{Page: 1, Site: 1, Rank: 100})); err != nil {
		t.Fatal(err)
	}
	wantAll(t, "queue", r.queue(), "/c", "/a", "/b")
	r.reopen()
	wantAll(t, "queue", r.queue(), "/c", "/a", "/b")
	check(t, r.c)
	// Another strategy makes another order of what there is.
	r.o.Strategy = frontier.BreadthFirst{}
	r.reopen()
	wantAll(t, "queue", r.queue(), "/c", "/a", "/b")
	r.o.Strategy = frontier.LargerSites{}
	r.reopen()
	wantAll(t, "queue", r.queue(), "/a", "/b", "/c")
	check(t, r.c)
}

func TestSitesAndSources(t *testing.T) {
	r := newRig(t)
	r.find("/a")
	out := r.commit(collection.Turn{
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
	r.commit(collection.Turn{Sources: []collection.Source{src}})
	if list, err = r.c.Sources(src.Site); err != nil || list[0].Fails != 3 || !list[0].Cursor.IsZero() || !list[0].At.Equal(src.At) {
		t.Errorf("sources %+v %v", list, err)
	}
	if _, err := r.c.Commit(&collection.Turn{Sources: []collection.Source{{ID: 77}}, Finds: finds(1, "/not")}); err == nil {
		t.Error("a source that is not known was taken in")
	}
	if _, ok := r.c.Known(home + "/not"); ok {
		t.Error("half of a turn was taken in")
	}
}

func TestGraphAndRanks(t *testing.T) {
	r := newRig(t)
	r.find("/a", "/b")
	r.visit("/a", 200, "A", "/b", "/c", "/a")
	r.visit("/c", 200, "C", "/a")
	var edges []string
	for range 2 {
		edges = edges[:0]
		for from, to := range r.c.Graph() {
			edges = append(edges, fmt.Sprint(from, to))
			if _, err := r.c.Commit(&collection.Turn{}); err != nil { // the loop may write
				t.Fatal(err)
			}
		}
	}
	wantAll(t, "links", edges, "1 [1 2 3]", "3 [1]")
	r.o.Strategy = frontier.Profit{}
	r.o.Quality = func(p *collection.Page, _ *collection.Site) float64 { return float64(p.Rank) }
	r.o.Policy = nil
	r.reopen()
	queue, err := r.c.SetRanks(func(yield func(frontier.PageID, float32) bool) {
		_ = yield(2, 0.25) && yield(77, 1) && yield(1, 0.5)
	})
	if err != nil || len(queue) != 1 || queue[0] != (frontier.Entry{Page: 2, Site: 1, Rank: 0.25}) {
		t.Errorf("queue %+v %v", queue, err)
	}
	if p := r.page("/b"); p.Rank != 0.25 || p.Value != 0.25 {
		t.Errorf("page %+v", p)
	}
	check(t, r.c)
}

// Readers see whole turns while others write.
func TestReadersBesideTheWriter(t *testing.T) {
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

// One turn does not take a site beyond its limit, however many it finds (G04).
func TestPerSite(t *testing.T) {
	c, err := collection.Open(t.TempDir(), &collection.Options{PerSite: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var finds []collection.Find
	for i := range 50 {
		finds = append(finds, collection.Find{URL: fmt.Sprintf("%s/%d", home, i)}, collection.Find{URL: fmt.Sprintf("http://other.test/%d", i%5)})
	}
	finds = append(finds, collection.Find{URL: home + "/wanted", By: collection.ByPerson})
	done, err := c.Commit(&collection.Turn{Finds: finds})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "new pages", len(done.New), 10+5+1)
	want(t, "refused", done.Refused, 40)
	done, err = c.Commit(&collection.Turn{Finds: finds})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "new pages in the next turn", len(done.New), 0)
}

// Whoever wants news of the text alone is not kept running by a clock in the footer.
func TestTextOnly(t *testing.T) {
	for _, only := range []bool{false, true} {
		r := newRig(t)
		r.c.Close()
		r.o.TextOnly = only
		r.reopen()
		r.find("/a")
		body := func(clock, text string, changed, differs bool) {
			v := r.answer("/a", 200, clock+text)
			v.Parsed, v.Text = protocol.Sum([]byte(clock+text)), protocol.Sum([]byte(text))
			out := r.commit(collection.Turn{Visits: []collection.Visit{v}}).Visited[0]
			if out.Changed != changed || out.Differs != differs {
				t.Errorf("text only %v: %s%s changed %v, differs %v", only, clock, text, out.Changed, out.Differs)
			}
			r.wait(24 * time.Hour)
		}
		body("1", "text", true, false)
		body("2", "text", true, !only)
		body("3", "text", true, !only)
		body("4", "other", true, true)
		body("4", "other", false, false)
		r.visit("/a", 410, "")
		body("4", "other", true, false) // it is back as it was
		want := 3
		if only {
			want = 1
		}
		if p := r.page("/a"); p.Changes != want || p.Digest != protocol.Sum([]byte("4other")) {
			t.Errorf("text only %v: %d changes, want %d; holds %v", only, p.Changes, want, p.Digest)
		}
	}
}
