package crawl_test

import (
	"context"
	"iter"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/steer"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// steered changes what is set on a running crawl.
func steered(t *testing.T, c *crawl.Engine, change func(*steer.Steering) error) {
	t.Helper()
	if _, err := c.Steer(change); err != nil {
		t.Error(err)
	}
}

func pausing(sites ...string) func(*steer.Steering) error {
	return func(s *steer.Steering) error { return s.Pause(sites) }
}

func resuming(sites ...string) func(*steer.Steering) error {
	return func(s *steer.Steering) error { return s.Resume(sites) }
}

func rejecting(pattern string) func(*steer.Steering) error {
	return func(s *steer.Steering) error { return s.SetScope(steer.Scope{Reject: []string{pattern}}) }
}

// daily is so large a budget of a crawl that goes on.
func daily(budget string) func(*crawl.Options) {
	return func(o *crawl.Options) { o.Once, o.Revisits.Budget = false, budget }
}

// offline changes what is set on the crawl in a directory, while no crawler runs.
func offline(t *testing.T, dir string, change func(*steer.Steering) error) {
	t.Helper()
	err := collection.EditSteering(dir, func(text []byte, _ iter.Seq[string]) ([]byte, error) {
		s, err := steer.Parse(text)
		if err == nil {
			err = change(&s)
		}
		if err != nil {
			return nil, err
		}
		return s.Text(), nil
	})
	if err != nil {
		t.Error(err)
	}
}

// requestsSince returns the requests to a site since a time.
func requestsSince(w *bubble, s *fakeweb.Site, since time.Time) (paths []string) {
	for _, a := range w.Log() {
		if a.Site == s && a.Begin.After(since) {
			paths = append(paths, a.Path)
		}
	}
	return paths
}

// stateOf returns the state of a page, and the digest of its stored content.
func stateOf(t *testing.T, c *crawl.Engine, url string) (string, protocol.Digest) {
	t.Helper()
	p := pageOf(t, c.Collection, url)
	if p.URL == "" {
		return "unknown", p.Digest
	}
	return p.State.String(), p.Digest
}

// A paused site gets no request of any kind, over a restart too, and no other site is held up. When it is resumed, its
// changes since then are read from the old cursor, and fetched.
func TestPausedSiteGetsNoRequest(t *testing.T) {
	inBubble(t, fakeweb.Options{Seed: 5}, func(t *testing.T, w *bubble) {
		told, other := w.plain("/a.html"), w.plain("/a.html")
		told.Speaks = true
		set := daily("100")
		one := w.opened(t, set)
		var paused time.Time
		var cursor protocol.Cursor
		quiet := func() {
			t.Helper()
			if got := requestsSince(w, told, paused); len(got) > 0 {
				t.Errorf("the paused site got %q", got)
			}
			if got := requestsSince(w, other, paused); len(got) == 0 {
				t.Error("the other site got no request")
			}
		}
		runFor(t, one, 30*time.Hour, func(ctx context.Context) {
			pause.For(ctx, 3*time.Hour)
			if state, _ := stateOf(t, one, told.Origin+"/a.html"); state != "held" {
				t.Errorf("a page is %s after three hours", state)
			}
			steered(t, one, pausing(told.Origin))
			paused = time.Now()
			for _, src := range must.Get(one.Collection.Sources(0)) {
				if src.Kind == collection.ManifestRDF && !src.Cursor.IsZero() {
					cursor = src.Cursor
				}
			}
			told.Put("/a.html", page("a, changed"))
			told.Put("/new.html", page("new"))
			pause.For(ctx, 26*time.Hour) // robots.txt would be fetched again
			quiet()
		})
		one.Collection.Close()

		one = w.opened(t, set)
		runFor(t, one, 30*time.Hour, func(ctx context.Context) {
			pause.For(ctx, 26*time.Hour)
			quiet()
			resumed := time.Now()
			steered(t, one, resuming(told.Origin))
			pause.For(ctx, 3*time.Minute)
			for _, path := range []string{"/a.html", "/new.html"} {
				if state, digest := stateOf(t, one, told.Origin+path); state != "held" || !current(t, one.Collection, told, path) {
					t.Errorf("%s is %s three minutes later, with the digest %v of another content", path, state, digest)
				}
			}
			for _, a := range w.Log() {
				if a.Site == told && !a.Begin.Before(resumed) {
					if a.Path != "/robots.txt" {
						t.Errorf("the first request after more than a day is %s", a.Path)
					}
					break
				}
			}
			if got := strings.Join(requestsSince(w, told, resumed), " "); !strings.Contains(got, "after="+url.QueryEscape(cursor.String())) {
				t.Errorf("the changes after the cursor %v were not read: %s", cursor, got)
			}
		})
		for _, f := range w.Impolite(fakeweb.Manners{Gap: 5 * time.Second, Robots: true}) {
			t.Error(f)
		}
	})
}

// While all sites are paused, a crawl that would end waits; when they are resumed it does its work and ends. A crawl with one
// paused site ends without it.
func TestCrawlWaitsWhileAllIsPaused(t *testing.T) {
	inBubble(t, fakeweb.Options{Seed: 5}, func(t *testing.T, w *bubble) {
		a, b := w.plain("/a.html"), w.plain("/b.html")
		w.opened(t, nil).Collection.Close()
		offline(t, w.dir, pausing(steer.All))

		one := w.opened(t, nil)
		ended := make(chan error, 1)
		go func() { ended <- one.Run(t.Context()) }()
		time.Sleep(48 * time.Hour)
		if n := len(w.Log()); n > 0 || !one.Status().Running {
			t.Errorf("%d requests were sent while all sites were paused", n)
		}
		steered(t, one, func(s *steer.Steering) error {
			if err := s.Resume([]string{steer.All}); err != nil {
				return err
			}
			return s.Pause([]string{strings.TrimPrefix(b.Origin, "http://")}) // by its host name
		})
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if state, _ := stateOf(t, one, a.Origin+"/a.html"); state != "held" {
			t.Errorf("the page of the resumed site is %s", state)
		}
		if n := len(requestsSince(w, b, time.Time{})); n > 0 {
			t.Errorf("%d requests were sent to the paused site", n)
		}
		must.OK(t, one.Collection.Close())
		offline(t, w.dir, resuming(steer.All))

		one = w.opened(t, nil)
		finish(t, one)
		if state, _ := stateOf(t, one, b.Origin+"/b.html"); state != "held" {
			t.Errorf("the page of the other site is %s in the next run", state)
		}
	})
}

// Pages that were handed out when their site was paused come back, and are fetched once it is resumed.
func TestPauseInTheMiddleOfASite(t *testing.T) {
	inBubble(t, fakeweb.Options{Seed: 5}, func(t *testing.T, w *bubble) {
		var paths []string
		for c := 'a'; c <= 'z'; c++ {
			paths = append(paths, "/"+string(c)+".html")
		}
		s := w.plain(paths...)
		one := w.opened(t, nil)
		ended := make(chan error, 1)
		go func() { ended <- one.Run(t.Context()) }()
		time.Sleep(2 * time.Minute)
		steered(t, one, pausing(steer.All))
		since := time.Now()
		time.Sleep(10 * time.Hour)
		if got := requestsSince(w, s, since); len(got) > 0 {
			t.Errorf("requests while it was paused: %q", got)
		}
		steered(t, one, resuming(steer.All))
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for _, path := range paths {
			if state, _ := stateOf(t, one, s.Origin+path); state != "held" {
				t.Errorf("%s is %s in the end", path, state)
			}
		}
		asked, _ := visits(w, s, time.Time{})
		for path, at := range asked {
			if len(at) > 1 {
				t.Errorf("%s was fetched %d times", path, len(at))
			}
		}
	})
}

// The budget and the gap change while the crawler runs, and hold in its next run, which began with the same options.
func TestRateChangesWhileTheCrawlerRuns(t *testing.T) {
	inBubble(t, fakeweb.Options{Seed: 5}, func(t *testing.T, w *bubble) {
		w.plain("/a.html", "/b.html", "/c.html", "/d.html")
		set := daily("10")
		one := w.opened(t, set)
		budget := func() float64 {
			if v := one.Status().Revisits; v != nil {
				return v.Budget
			}
			return 0
		}
		runFor(t, one, 12*time.Hour, func(ctx context.Context) {
			pause.For(ctx, time.Hour)
			if b := budget(); b != 10 {
				t.Errorf("the budget is %g, want 10", b)
			}
			if _, err := one.Steer(func(s *steer.Steering) error { return s.SetRate(steer.Rate{Budget: "many"}) }); err == nil || !strings.Contains(err.Error(), `Budget "many"`) {
				t.Errorf("a budget of many: %v", err)
			}
			if _, err := one.Steer(func(s *steer.Steering) error { return s.SetRate(steer.Rate{Wait: "10ms"}) }); err == nil {
				t.Error("a wait of 10 ms was accepted for somebody else's host")
			}
			steered(t, one, func(s *steer.Steering) error { return s.SetRate(steer.Rate{Budget: "2000", Wait: "90s"}) })
			pause.For(ctx, 2*time.Minute)
			if b := budget(); b != 2000 {
				t.Errorf("the budget is %g two minutes later, want 2000", b)
			}
			w.Forget()
			pause.For(ctx, 6*time.Hour)
		})
		one.Collection.Close()
		polite := func() {
			t.Helper()
			if n := len(w.Log()); n < 10 {
				t.Errorf("only %d requests", n)
			}
			for _, f := range w.Impolite(fakeweb.Manners{Gap: 90 * time.Second}) {
				t.Error(f)
			}
			w.Forget()
		}
		polite()
		one = w.opened(t, set)
		runFor(t, one, 6*time.Hour, func(ctx context.Context) {
			pause.For(ctx, 5*time.Hour)
			if b := budget(); b != 2000 {
				t.Errorf("the budget is %g in the next run, want 2000", b)
			}
		})
		polite()
	})
}

// Pages that leave the scope are not fetched any more, and keep their content, though the manifest is read again; those that enter it
// are fetched, though the manifest listed them before.
func TestScopeChangesWhileTheCrawlerRuns(t *testing.T) {
	inBubble(t, fakeweb.Options{Seed: 5}, func(t *testing.T, w *bubble) {
		told, other := w.plain(), w.plain("/docs/a.html", "/news/a.html")
		told.Speaks = true
		for _, path := range []string{"/docs/a.html", "/news/a.html"} {
			told.Put(path, page(path))
		}
		one := w.opened(t, func(o *crawl.Options) { o.Once, o.Revisits.Budget, o.Scope.Reject = false, "150", []string{"/old/"} })
		runFor(t, one, 58*time.Hour, func(ctx context.Context) {
			pause.For(ctx, 5*time.Hour)
			steered(t, one, rejecting("/news/"))
			narrowed := time.Now()
			told.Put("/news/a.html", page("news, changed"))
			told.Put("/news/new.html", page("new"))
			told.Put("/old/new.html", page("new")) // the given list is replaced
			pause.For(ctx, 50*time.Hour)
			for _, s := range []*fakeweb.Site{told, other} {
				for _, path := range requestsSince(w, s, narrowed) {
					if strings.HasPrefix(path, "/news/") {
						t.Errorf("%s%s was fetched outside of the scope", s.Origin, path)
					}
				}
				// A page that publishes nothing is excluded when a visit would be due.
				if state, digest := stateOf(t, one, s.Origin+"/news/a.html"); state != "excluded" && (s == told || state != "held") || digest.IsZero() {
					t.Errorf("%s/news/a.html is %s with the digest %v, want excluded, with its content", s.Origin, state, digest)
				}
			}
			if state, _ := stateOf(t, one, told.Origin+"/old/new.html"); state != "held" {
				t.Errorf("a page that is no longer rejected is %s", state)
			}
			if verdicts, err := one.Add(ctx, []string{other.Origin + "/news/a.html"}); err != nil || !verdicts[0].OK {
				t.Errorf("a person adds a page outside of the scope: %v %v", verdicts, err)
			}
			pause.For(ctx, time.Hour)
			if got := requestsSince(w, other, narrowed); !strings.Contains(strings.Join(got, " "), "/news/a.html") {
				t.Error("the page that a person added was not fetched")
			}
			steered(t, one, rejecting("default"))
			pause.For(ctx, time.Hour)
			for _, path := range []string{"/news/a.html", "/news/new.html"} {
				if state, digest := stateOf(t, one, told.Origin+path); state != "held" || !current(t, one.Collection, told, path) {
					t.Errorf("%s is %s with the digest %v after it has entered the scope", path, state, digest)
				}
			}
		})
	})
}

// Sites outside of the domains that a person sets get no request of any kind, until the domains change.
func TestSitesOutsideOfTheScope(t *testing.T) {
	inBubble(t, fakeweb.Options{Seed: 5}, func(t *testing.T, w *bubble) {
		in, out := w.plain("/a.html"), w.plain()
		out.Speaks, out.Sitemap = true, true
		one := w.opened(t, daily("30"))
		runFor(t, one, 40*time.Hour, func(ctx context.Context) {
			pause.For(ctx, 5*time.Hour)
			steered(t, one, func(s *steer.Steering) error { return s.SetScope(steer.Scope{Domain: []string{in.Host}}) })
			since := time.Now()
			out.Put("/", page("home, changed"))
			pause.For(ctx, 26*time.Hour) // robots.txt would be fetched again
			if got := requestsSince(w, out, since); len(got) > 0 {
				t.Errorf("the site outside got %q", got)
			}
			if got := requestsSince(w, in, since); len(got) == 0 {
				t.Error("the site inside got no request")
			}
			if verdicts, err := one.Add(ctx, []string{out.Origin + "/"}); err != nil || verdicts[0].OK {
				t.Errorf("a page of the site outside was added: %v %v", verdicts, err)
			}
			steered(t, one, func(s *steer.Steering) error { return s.SetScope(steer.Scope{Domain: []string{"default"}}) })
			pause.For(ctx, 2*time.Hour)
			if state, digest := stateOf(t, one, out.Origin+"/"); state != "held" || !current(t, one.Collection, out, "/") {
				t.Errorf("the front page of the site that is inside again is %s, with the digest %v", state, digest)
			}
		})
	})
}

// The scope is changed while no crawler runs: the next run, and if it is killed at once the one after it, reads the sitemap again, and
// pages that were excluded come back.
func TestScopeChangesWhileNoCrawlerRuns(t *testing.T) {
	inBubble(t, fakeweb.Options{Seed: 5}, func(t *testing.T, w *bubble) {
		s := w.plain("/old/a.html")
		s.Sitemap = true
		s.Put("/news/a.html", page("news"))
		set := daily("100")
		runs := func(d time.Duration, want string) {
			t.Helper()
			one := w.opened(t, set)
			defer one.Collection.Close()
			runFor(t, one, d, nil)
			for _, path := range []string{"/news/a.html", "/old/a.html"} {
				if state, _ := stateOf(t, one, s.Origin+path); !strings.Contains(want, path+" "+state) {
					t.Errorf("%s is %s, want %s", path, state, want)
				}
			}
		}
		rejects := func(pattern string) { offline(t, w.dir, rejecting(pattern)) }
		w.opened(t, set).Collection.Close()
		rejects("/news/")
		runs(3*time.Hour, "/news/a.html unknown, /old/a.html held")
		rejects("/old/")
		runs(time.Second, "/news/a.html known, /old/a.html held") // killed before the sitemap is read
		runs(30*time.Hour, "/news/a.html held, /old/a.html excluded")
		rejects("default")
		runs(3*time.Hour, "/news/a.html held, /old/a.html held")
	})
}
