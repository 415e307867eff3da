package crawl_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/trust"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// A push is one edit that a site announces at once.
type push struct {
	path string
	at   time.Time
}

// pushing edits one page after the other, and returns what was edited when.
func pushing(ctx context.Context, s *fakeweb.Site, edits int, every time.Duration) (list []push) {
	for i := range edits {
		if !pause.For(ctx, every) {
			break
		}
		s.Edit(nth(i % 30))
		list = append(list, push{nth(i % 30), time.Now()})
	}
	return list
}

// prompt returns how many of the pushed edits were fetched within five minutes.
func prompt(w *bubble, s *fakeweb.Site, list []push) (n int) {
	at, _ := visits(w, s, time.Time{})
	for _, p := range list {
		for _, v := range at[p.path] {
			if after := v.Sub(p.at); after >= 0 && after < 5*time.Minute {
				n++
				break
			}
		}
	}
	return n
}

// nonce makes a site's pages differ at each GET, as with a server that writes a nonce or the time into them.
func nonce(s *fakeweb.Site, of func(path string) bool, format string) {
	var n atomic.Int64
	s.Handler = func(rw http.ResponseWriter, req *http.Request) bool {
		body, ok := s.Body(req.URL.Path)
		if !ok || !of(req.URL.Path) {
			return false
		}
		html(rw, fmt.Sprintf("%s"+format, body, n.Add(1)))
		return true
	}
}

func everyPage(string) bool { return true }

// explained returns the crawler's explanation of a page.
func explained(t *testing.T, c *crawl.Engine, url string) string {
	t.Helper()
	why, err := crawl.Explain(c.Collection, c.Seeder, url, time.Now())
	must.OK(t, err)
	return strings.Join(append(append(why.Rules, why.Beliefs...), why.Signals...), "\n")
}

// A page longer than the crawler's limit does not affect the trust in its site: pushed changes of the others
// are fetched.
func TestOversizePageDoesNotAffectTrust(t *testing.T) {
	noRace(t)
	t.Parallel()
	inBubble(t, fakeweb.Options{Seed: 6}, func(t *testing.T, w *bubble) {
		s := speaking(w, 30)
		s.Put("/long.html", "<title>long</title>"+strings.Repeat("<p>many words", 40_000))
		c, col := w.paid(t, eager(0.5))
		c.Harvester.Options.MaxBytes = 400_000
		var list []push
		runFor(t, c, aDay, func(ctx context.Context) {
			pause.For(ctx, 2*time.Hour)
			list = pushing(ctx, s, 5, time.Hour)
		})
		if n := prompt(w, s, list); n < len(list) {
			t.Errorf("%d of %d pushed edits were fetched at once\n%s", n, len(list), explained(t, c, s.Origin+nth(0)))
		}
		long := 0
		for e := range every(t, col.Events(t.Context(), protocol.Cursor{}, false)) {
			if e.Truncated != strings.HasSuffix(e.URL, "/long.html") {
				t.Errorf("event %v of %s: truncated %v", e.Cursor, e.URL, e.Truncated)
			} else if e.Truncated {
				long++
			}
		}
		site, _ := col.Site(s.Origin)
		if says := explained(t, c, s.Origin+"/long.html"); long != 1 || site.Cut != 1 || !strings.Contains(says, "truncated: only its first 400000 bytes") {
			t.Errorf("%d events, %d pages of the site, and %q have the truncated page", long, site.Cut, says)
		}
		if at, _ := visits(w, s, time.Time{}); len(at["/long.html"]) != 1 {
			t.Errorf("the long page was fetched %d times, want once: its length was announced", len(at["/long.html"]))
		}
	})
}

// A site whose pages all change while they are crawled, after its manifest was read, is not taken for a liar: the dates
// of the pages are later than the manifest. This must also hold where a 304 has no Last-Modified.
func TestEditsDuringCrawlDoNotAffectTrust(t *testing.T) {
	noRace(t)
	t.Parallel()
	inBubble(t, fakeweb.Options{Seed: 6}, func(t *testing.T, w *bubble) {
		s := speaking(w, 40)
		c, col := w.paid(t, eager(0.5))
		c.Once, c.NoStreams, c.NoChanges = true, true, true
		// Where many pages differ at each request, the others are fetched again only once, with validators: the 304 is judged.
		nonce(s, func(path string) bool { return len(path) > 3 && strings.Contains("135", path[3:4]) }, "<!-- %d -->")
		runFor(t, c, aDay, func(ctx context.Context) {
			for at := 0; at == 0 && pause.For(ctx, time.Second); _, at = visits(w, s, time.Time{}) {
			}
			for i := range 40 {
				s.Edit(nth(i))
			}
		})
		site, _ := col.Site(s.Origin)
		rec := must.Get(trust.Parse(site.Trust))
		if again := c.Status().Again; again < 30 {
			t.Errorf("%d pages were fetched again, want nearly all: they differ from the manifest", again)
		}
		for _, src := range rec.Sources {
			if src.Wrong > 0 {
				t.Errorf("%s", src.String())
			}
		}
	})
}

// Events have the page's robots directives, as the page itself does.
func TestEventsHaveRobotsDirectives(t *testing.T) {
	inBubble(t, fakeweb.Options{Seed: 6}, func(t *testing.T, w *bubble) {
		s := numbered(w, 1)
		want := map[string]collection.Marks{"/": {}, nth(0): {},
			"/a.html": {NoIndex: true}, "/b.html": {NoFollow: true}, "/c.html": {NoIndex: true, NoFollow: true}}
		s.Put("/a.html", `<meta name="robots" content="noindex"><p>a`)
		s.Put("/b.html", `<meta name="robots" content="nofollow"><p>b`)
		s.Put("/c.html", `<meta name="robots" content="none"><p>c`)
		s.Speaks = true
		c, col := w.paid(t, crawl.Revisit{})
		c.Once = true
		runFor(t, c, aDay, nil)
		for e := range every(t, col.Events(t.Context(), protocol.Cursor{}, false)) {
			path := strings.TrimPrefix(e.URL, s.Origin)
			if marks, ok := want[path]; !ok || e.Marks != marks {
				t.Errorf("%s: %+v, want %+v", path, e.Marks, marks)
			}
			delete(want, path)
		}
		if len(want) > 0 {
			t.Errorf("no events of %v", want)
		}
	})
}

// A site that announces lengths and digests that its pages never had is detected, though the pages are
// truncated: their announced length was below the limit.
func TestPagesLongerThanAnnounced(t *testing.T) {
	noRace(t)
	t.Parallel()
	inBubble(t, fakeweb.Options{Seed: 6}, func(t *testing.T, w *bubble) {
		s := speaking(w, 30)
		long := strings.Repeat("<p>many words", 40_000)
		s.Handler = func(rw http.ResponseWriter, req *http.Request) bool {
			if _, ok := s.Body(req.URL.Path); !ok {
				return false
			}
			html(rw, fmt.Sprintf("<title>%s</title>%s", req.URL.Path, long))
			return true
		}
		c, col := w.paid(t, crawl.Revisit{Policy: fresh.Priced{Eager: true}, PerPage: 10})
		c.Harvester.Options.MaxBytes = 400_000
		runFor(t, c, 3*aDay, func(ctx context.Context) {
			pause.For(ctx, 2*time.Hour)
			pushing(ctx, s, 60, time.Hour)
		})
		site, _ := col.Site(s.Origin)
		rec := must.Get(trust.Parse(site.Trust))
		if v := rec.Source("changes"); v.Right > 0 || v.Wrong < 5 || site.Belief.Signal.Precision() > .5 {
			t.Errorf("%v; its announcements are estimated to be right in %.0f of 100 cases", v, 100*site.Belief.Signal.Precision())
		}
	})
}

// A site whose server writes something different into each response is as honest as any other: its pushed
// pages are fetched.
func TestPagesThatDifferInEachResponse(t *testing.T) {
	noRace(t)
	t.Parallel()
	for _, c := range []struct{ what, format string }{
		{"nonce", "<script nonce=\"%x\"></script>"},
		{"text", "<p>You are visitor number %d of this page, and most welcome.</p>"},
	} {
		t.Run(c.what, func(t *testing.T) {
			inBubble(t, fakeweb.Options{Seed: 6}, func(t *testing.T, w *bubble) {
				s := speaking(w, 30)
				nonce(s, everyPage, c.format)
				c, _ := w.paid(t, crawl.Revisit{Policy: fresh.Priced{Eager: true}, PerDay: 0.5, OutsideBudget: -1})
				var list []push
				runFor(t, c, 3*aDay, func(ctx context.Context) {
					pause.For(ctx, 2*time.Hour)
					list = pushing(ctx, s, 50, time.Hour)
				})
				if n := prompt(w, s, list); n < len(list) {
					t.Errorf("%d of %d pushed edits were fetched at once\n%s", n, len(list), explained(t, c, s.Origin+nth(0)))
				}
			})
		})
	}
}

// A site all of whose pages change during the first crawl, after its manifest was read, has not lied: the
// next crawl fetches the pages that changed since, according to the manifest.
func TestChangesDuringCrawlAreNoLies(t *testing.T) {
	noRace(t)
	t.Parallel()
	inBubble(t, fakeweb.Options{Seed: 1}, func(t *testing.T, w *bubble) {
		s := speaking(w, 40)
		edit := func() {
			for i := range 40 {
				s.Edit(nth(i))
			}
		}
		var once sync.Once
		s.Handler = func(rw http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/" {
				once.Do(func() { time.Sleep(2 * time.Second); edit() })
			}
			return false
		}
		for crawls := 1; crawls <= 2; crawls++ {
			c, col := w.paid(t, eager(0))
			c.Once, c.Harvester.Options.Wait = true, 100*time.Millisecond
			began := time.Now()
			finish(t, c)
			asked, _ := visits(w, s, began)
			for i := range 40 {
				if len(asked[nth(i)]) == 0 {
					t.Errorf("crawl %d has not fetched %s\n%s", crawls, nth(i), explained(t, c, s.Origin+nth(i)))
					break
				}
			}
			must.OK(t, col.Close())
			time.Sleep(30 * time.Second)
			edit()
			time.Sleep(30 * time.Second)
		}
	})
}
