package crawl_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/must"
)

// A crawler that is stopped at any moment, with requests under way, ends; so it does
// when its time limit is over. What arrived by then is stored.
func TestStopDuringRequests(t *testing.T) {
	noRace(t)
	for i := range 12 {
		inBubble(t, fakeweb.Options{Seed: 1, Pages: 60}, func(t *testing.T, w *bubble) {
			s := w.Add(fakeweb.Honest)
			c, col := w.open(t, 100*time.Millisecond, crawl.Settings{})
			after := time.Second + time.Duration(i)*97*time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if i%2 == 0 {
				time.AfterFunc(after, cancel)
			} else {
				c.Once, c.Stop.After = true, after
			}
			begun := time.Now()
			must.OK(t, c.Run(ctx))
			if took := time.Since(begun); took > after+time.Minute {
				t.Errorf("canceled after %v, it ended after %v", after, took)
			}
			if site, ok := col.Site(s.Origin); !ok || site.Held == 0 && i > 4 {
				t.Errorf("after %v, nothing is stored: %+v", after, site)
			}
		})
	}
}

// In a crawl one day later, when robots.txt must be fetched first, a site is asked for its changes, though
// nothing else there is due.
func TestRecrawlADayLater(t *testing.T) {
	noRace(t)
	inBubble(t, fakeweb.Options{Seed: 1, Pages: 3}, func(t *testing.T, w *bubble) {
		s := w.Add(fakeweb.Honest)
		s.Speaks, s.Sitemap, s.Robots = true, false, "User-agent: *\nDisallow: /cgi-bin/\n"
		for day := range 3 {
			s.Edit("/p1.html")
			w.Forget()
			c, col := w.open(t, time.Millisecond, crawl.Settings{Once: true})
			finish(t, c)
			if log := fmt.Sprint(w.Log()); !strings.Contains(log, "/robots.rdf") || !strings.Contains(log, "/p1.html") {
				t.Errorf("on day %d it fetches only %s", day, log)
			} else if strings.Contains(log, "/sitemap.xml") { // which the manifest makes superfluous
				t.Errorf("on day %d it fetches %s", day, log)
			}
			col.Close()
			time.Sleep(25 * time.Hour)
		}
	})
}

// A crawl ends though pages that are gone, refused or elsewhere come due again faster than it can fetch all of
// them. The next crawl fetches them again.
func TestCrawlEndsDespiteRefusedPages(t *testing.T) {
	noRace(t)
	inBubble(t, fakeweb.Options{Seed: 1}, func(t *testing.T, w *bubble) {
		s := numbered(w, 0)
		s.Handler = func(rw http.ResponseWriter, r *http.Request) bool {
			switch {
			case strings.HasPrefix(r.URL.Path, "/refused"):
				rw.WriteHeader(http.StatusForbidden)
			case strings.HasPrefix(r.URL.Path, "/moved"):
				http.Redirect(rw, r, "/"+strings.TrimPrefix(r.URL.Path, "/moved"), http.StatusMovedPermanently)
			case strings.HasPrefix(r.URL.Path, "/failing"):
				rw.WriteHeader(http.StatusInternalServerError)
			default:
				return false
			}
			return true
		}
		links := ""
		for _, kind := range []string{"missing", "refused", "moved", "failing"} {
			for i := range 10 {
				links += fmt.Sprintf("<p><a href=/%s%d.html>%s</a></p>\n", kind, i, kind)
			}
		}
		s.Put("/", "<title>home</title>"+links)
		for crawls := 1; crawls <= 2; crawls++ {
			c, col := w.open(t, 100*time.Millisecond, crawl.Settings{Once: true, TrapShare: 1}, func(o *collection.Options) {
				o.Again = collection.Again{Failing: []time.Duration{time.Second, 2 * time.Second}, Lost: 3 * time.Second,
					Missing: 2 * time.Second, Refused: 2 * time.Second, Gone: 2 * time.Second, Moved: 2 * time.Second}
			})
			began := time.Now()
			runFor(t, c, time.Hour, nil)
			if took := time.Since(began); took > 5*time.Minute {
				t.Errorf("crawl %d took %v to end", crawls, took)
			}
			asked, _ := visits(w, s, began)
			for _, kind := range []string{"missing", "refused", "moved", "failing"} {
				if n := len(asked["/"+kind+"3.html"]); n == 0 || n > 4 {
					t.Errorf("crawl %d fetched %d times a page that is %s", crawls, n, kind)
				}
			}
			must.OK(t, col.Close())
			w.Forget()
			time.Sleep(time.Hour)
		}
	})
}

// A crawl that retries sites more often than it waits for them ends when none has given a page for that long.
func TestCrawlOfDeadSitesEnds(t *testing.T) {
	noRace(t)
	for _, kind := range []fakeweb.Kind{fakeweb.Refusing, fakeweb.Silent, fakeweb.Unresolved, ""} {
		inBubble(t, fakeweb.Options{Seed: 1, Pages: 3}, func(t *testing.T, w *bubble) {
			s := w.Add(kind)
			back := time.Now().Add(8 * time.Second)
			if kind == "" { // its pages fail after robots.txt, until it is back
				s.Kind = fakeweb.Honest
				s.Handler = func(rw http.ResponseWriter, r *http.Request) bool {
					fails := r.URL.Path != "/robots.txt" && time.Now().Before(back)
					if fails {
						rw.WriteHeader(http.StatusServiceUnavailable)
					}
					return fails
				}
			}
			c := w.opened(t, func(o *crawl.Options) {
				o.Retries.Hurry, o.Retries.Patience, o.Fetch.MaxFailedLookups = time.Second, 10*time.Second, 1
			})
			began := time.Now()
			runFor(t, c, time.Hour, nil)
			if took := time.Since(began); took > 10*time.Minute {
				t.Errorf("a crawl of a site that is %s took %v to end", kind, took)
			}
			if got := heldIn(c.Collection); (got > 0) != (kind == "") {
				t.Errorf("of a site that is %q, %d pages are stored", kind, got)
			}
		})
	}
}

// So does a crawl of good sites beside several that hang, or refuse all requests for a while, again and again: some task of theirs is always
// under way. None of these counts as recovered.
func TestCrawlBesideDeadSitesEnds(t *testing.T) {
	noRace(t)
	inBubble(t, fakeweb.Options{Seed: 1}, func(t *testing.T, w *bubble) {
		links := []string{"/1.html", "/2.html", "/3.html", "/4.html", "/5.html"}
		w.plain(links...)
		w.plain(links...).Handler = func(_ http.ResponseWriter, r *http.Request) bool {
			hangs := strings.HasSuffix(r.URL.Path, ".html")
			if hangs {
				<-r.Context().Done()
			}
			return hangs
		}
		refusing := w.plain(links...)
		refusing.Handler = func(rw http.ResponseWriter, r *http.Request) bool {
			rw.Header().Set("Retry-After", "30")
			rw.WriteHeader(http.StatusTooManyRequests)
			return true
		}
		refusing.Robots = "User-agent: *\nDisallow: /cgi-bin/\n"
		for _, kind := range []fakeweb.Kind{fakeweb.Refusing, fakeweb.Silent, fakeweb.Silent, fakeweb.Silent} {
			w.Add(kind)
		}
		c := w.opened(t, nil)
		began := time.Now()
		runFor(t, c, time.Hour, nil)
		if took := time.Since(began); took > 10*time.Minute {
			t.Errorf("it took %v to end", took)
		}
		if n := heldIn(c.Collection); n != 7 { // of the first site, and the home page of the second
			t.Errorf("%d pages are stored", n)
		}
		if site, _ := c.Collection.Site(refusing.Origin); site.Fault == "" {
			t.Error("a site that refuses all requests has no fault")
		}
	})
}

// A crawl ends when none of the remaining pages is worth Stop.Value: with a quality that falls
// with depth, at a certain depth; and when it has as many pages or bytes as Stop allows.
func TestStopRules(t *testing.T) {
	w := newWeb(t, map[string]string{
		"/": page("home", "a.html"), "/a.html": page("a", "b.html"), "/b.html": page("b", "c.html"), "/c.html": page("c"),
	})
	for _, c := range []struct {
		stop crawl.Stop
		want string
	}{
		{crawl.Stop{}, "map[/:1 /a.html:1 /b.html:1 /c.html:1]"},
		{crawl.Stop{Value: 0.4}, "map[/:1 /a.html:1]"}, // values by depth: 1, 1/2, 1/3, 1/4
		{crawl.Stop{Value: 0.3}, "map[/:1 /a.html:1 /b.html:1]"},
		{crawl.Stop{Pages: 3}, "map[/:1 /a.html:1 /b.html:1]"},
		{crawl.Stop{Bytes: 1}, "map[/:1]"},
	} {
		finish(t, open(t, t.TempDir(), quick(), crawl.Settings{Quality: crawl.Quality{Depth: 1}, Stop: c.stop, Start: []string{w.URL + "/"}, Once: true}))
		if got := fmt.Sprint(w.counts()); got != c.want {
			t.Errorf("%+v: fetched %s, want %s", c.stop, got, c.want)
		}
		w.mu.Lock()
		w.asked = nil
		w.mu.Unlock()
	}
}
