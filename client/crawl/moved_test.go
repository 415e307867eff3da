package crawl_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/protocol"
)

// A mover crawls hosts in a synctest bubble, and begins at old.test.
type mover struct {
	t     *testing.T
	w     *hosts
	h     *harvest.Harvester
	dir   string
	rules seed.Rules
	suits func(string) error // see Settings
	start []string           // nil: old.test
	log   bytes.Buffer
}

// run crawls for a time, or, if that is 0, until nothing is left to fetch, and calls f with the collection.
func (m *mover) run(d time.Duration, beside func(), f func(*collection.Collection)) {
	m.t.Helper()
	col := open(m.t, m.dir)
	defer col.Close()
	ctx, cancel := context.WithCancel(m.t.Context())
	defer cancel()
	if d > 0 {
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
		go beside()
	}
	if m.start == nil {
		m.start = []string{oldSite}
	}
	c := crawl.NewEngine(col, &harvest.Harvester{Options: m.h.Options}, crawl.Settings{Seeder: &seed.Seeder{Rules: m.rules}, Strategy: frontier.BreadthFirst{},
		Policy: fresh.Thesis{}, Quality: crawl.DefaultQuality, Start: m.start, Suits: m.suits, Once: d == 0, Log: slog.New(slog.NewTextHandler(&m.log, nil))})
	if err := c.Run(ctx); err != nil {
		m.t.Fatal(err)
	}
	f(col)
}

// held returns the paths of a site whose content is stored, and not gone.
func held(t *testing.T, col *collection.Collection, base string) (paths []string) {
	t.Helper()
	for p, err := range col.Pages(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if path, ok := strings.CutPrefix(p.URL, base); ok && !p.Digest.IsZero() && p.State != collection.Gone {
			paths = append(paths, "/"+path)
		}
	}
	slices.Sort(paths)
	return paths
}

func linked() map[string]string {
	return map[string]string{"": page("home", "a.html", "d/b.html"), "a.html": page("A"), "d/b.html": page("B", "/", "../a.html"), "gone.html": page("G")}
}

// A site of a crawl moves to another host, which is no start page. The next crawl goes over: it fetches what was edited during the move,
// and nothing else. Subscribers learn that the pages have moved. The crawl after that asks the old address for nothing but its manifest.
func TestCrawlMovesWithItsSite(t *testing.T) {
	dir := filepath.Join(scratch(t), "crawl")
	synctest.Test(t, func(t *testing.T) {
		w, h := newHosts(t)
		m := &mover{t: t, w: w, h: h, dir: dir, rules: seed.Rules{Hosts: []string{"old.test"}}}
		w.site("old.test", linked())
		m.run(0, nil, func(col *collection.Collection) {
			if got := held(t, col, oldSite); len(got) != 4 {
				t.Fatalf("stored %q", got)
			}
		})
		time.Sleep(90 * time.Minute)
		w.gets("old.test")
		pages := linked()
		pages["a.html"], pages["new.html"] = page("A, edited"), page("N")
		delete(pages, "gone.html")
		w.site("new.test", pages, oldSite)
		w.redirect("old.test", newSite, http.StatusMovedPermanently, true)
		m.run(0, nil, func(col *collection.Collection) {
			if got := held(t, col, newSite); fmt.Sprint(got) != "[/ /a.html /d/b.html /new.html]" {
				t.Errorf("stored of the new address: %q\n%s", got, &m.log)
			}
			if got, _ := w.gets("new.test"); strings.Join(got, " ") != "a.html new.html" {
				t.Errorf("requested from the new address: %q", got)
			}
			was, _, _ := col.Page(oldSite)
			if was.State != collection.Gone || was.Target != newSite {
				t.Errorf("the old home page is %v, and leads to %s", was.State, was.Target)
			}
			home, _, _ := col.Page(newSite)
			a, _, _ := col.Page(newSite + "a.html")
			b, _, _ := col.Page(newSite + "d/b.html")
			if l, err := col.Links(b.ID); err != nil || len(l) != 2 || !slices.Contains(l, home.ID) || !slices.Contains(l, a.ID) {
				t.Errorf("%s links to %v, want %d and %d: %v", b.URL, l, home.ID, a.ID, err)
			}
			if body, err := col.Version(b.URL, b.Digest, 1<<20); err != nil || string(body) != pages["d/b.html"] {
				t.Errorf("content of a page that has moved: %q, %v", body, err)
			}
			moves := 0
			for e, err := range col.Events(t.Context(), protocol.Cursor{}, false) {
				if err != nil {
					t.Fatal(err)
				}
				if e.Op == protocol.Move && strings.TrimPrefix(e.URL, newSite) == strings.TrimPrefix(e.From, oldSite) {
					moves++
				}
			}
			if moves != 2 {
				t.Errorf("%d moves in the events, want 2", moves)
			}
		})
		if !strings.Contains(m.log.String(), "moved from "+oldSite+" to "+newSite) {
			t.Errorf("the log does not say where the site has moved:\n%s", &m.log)
		}
		w.gets("old.test")
		time.Sleep(90 * time.Minute)
		m.rules.Hosts = append(m.rules.Hosts, "new.test") // as Options.Open does
		m.run(0, nil, func(col *collection.Collection) {
			if got, n := w.gets("new.test"); len(got) > 0 || n > 3 {
				t.Errorf("the new address got %d requests, for pages %q", n, got)
			}
		})
	})
}

// The new address is crawled already when the old one begins to redirect to it, and serves its manifest, but no page. Its manifest is
// read again then, and what the crawl has of the old address moves.
func TestCrawlKnowsTheNewAddress(t *testing.T) {
	dir := filepath.Join(scratch(t), "crawl")
	synctest.Test(t, func(t *testing.T) {
		w, h := newHosts(t)
		m := &mover{t: t, w: w, h: h, dir: dir, rules: seed.Rules{Hosts: []string{"old.test", "new.test"}}}
		pages := linked()
		pages["a.html"] = page("A", newSite+"other.html")
		w.addresses["new.test"] = "20.1.1.2" // so that neither waits for the other
		w.site("old.test", pages)
		moved := w.site("new.test", pages, oldSite)
		for path := range pages {
			moved.odd[path] = func(rw http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
				rw.WriteHeader(http.StatusServiceUnavailable)
			}
		}
		m.run(5*time.Hour, func() {
			time.Sleep(2 * time.Hour)
			if _, n := w.gets("new.test"); n == 0 {
				t.Error("the new address is not crawled yet")
			}
			w.redirect("old.test", newSite, http.StatusPermanentRedirect, true)
		}, func(col *collection.Collection) {
			if got := held(t, col, newSite); len(got) != 4 {
				t.Errorf("stored of the new address: %q\n%s", got, &m.log)
			}
			if got := held(t, col, oldSite); len(got) != 0 {
				t.Errorf("stored of the old address: %q", got)
			}
		})
	})
}

// The crawler is killed after it has found that the site has moved, and before it has read a page of the manifest at the new address. The
// next run knows of that address only that it is no start page.
func TestCrawlIsKilledWhileItMoves(t *testing.T) {
	dir := filepath.Join(scratch(t), "crawl")
	synctest.Test(t, func(t *testing.T) {
		w, h := newHosts(t)
		m := &mover{t: t, w: w, h: h, dir: dir, rules: seed.Rules{Hosts: []string{"old.test"}}}
		w.site("old.test", linked())
		moved := w.site("new.test", linked(), oldSite)
		w.addresses["new.test"] = "20.1.1.2"
		reads := 0
		moved.odd["robots.rdf"] = func(rw http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
			if reads++; reads == 1 {
				moved.manifest(rw)
				return
			}
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
		m.run(5*time.Hour, func() {
			time.Sleep(2 * time.Hour)
			w.redirect("old.test", newSite, http.StatusMovedPermanently, true)
		}, func(col *collection.Collection) {
			if site, known := col.Site("http://new.test"); reads < 2 || !known || site.Requests+int64(site.Held+site.Ready) > 0 {
				t.Fatalf("%d reads; the new address: %+v", reads, site)
			}
		})
		moved.with(func() { clear(moved.odd) })
		m.run(3*time.Hour, func() {}, func(col *collection.Collection) {
			if old, now := held(t, col, oldSite), held(t, col, newSite); len(old) != 0 || len(now) != 4 {
				t.Errorf("stored of the old address: %q, of the new one: %q\n%s", old, now, &m.log)
			}
		})
		if got, _ := w.gets("new.test"); strings.Contains(fmt.Sprint(got), "html") {
			t.Errorf("requested from the new address: %q", got)
		}
	})
}

// A move is undone: the old address serves the site again, as it was before, and the new one is gone.
func TestCrawlGoesBack(t *testing.T) {
	dir := filepath.Join(scratch(t), "crawl")
	synctest.Test(t, func(t *testing.T) {
		w, h := newHosts(t)
		m := &mover{t: t, w: w, h: h, dir: dir, rules: seed.Rules{Hosts: []string{"old.test"}}}
		old := w.site("old.test", linked())
		m.run(0, nil, func(*collection.Collection) {})
		time.Sleep(90 * time.Minute)
		w.site("new.test", linked(), oldSite)
		w.redirect("old.test", newSite, http.StatusMovedPermanently, true)
		m.run(0, nil, func(col *collection.Collection) {
			if got := held(t, col, newSite); len(got) != 4 {
				t.Fatalf("stored of the new address: %q", got)
			}
		})
		time.Sleep(8 * aDay)
		w.set("old.test", old)
		w.set("new.test", http.NotFoundHandler())
		m.run(3*time.Hour, func() {}, func(col *collection.Collection) { // it continues from the cursor that it has
			if got := held(t, col, oldSite); len(got) != 4 {
				t.Errorf("stored of the old address: %q\n%s", got, &m.log)
			}
		})
	})
}

// Two sites of one host, each below a path of its own, move to another host at the same time.
func TestTwoSitesMoveToOneHost(t *testing.T) {
	dir := filepath.Join(scratch(t), "crawl")
	synctest.Test(t, func(t *testing.T) {
		w, h := newHosts(t)
		m := &mover{t: t, w: w, h: h, dir: dir, rules: seed.Rules{Hosts: []string{"old.test"}}, start: []string{oldSite + "a/", oldSite + "b/"}}
		h.Options.Wait = time.Second
		below := func(host string, former func(path string) []string) {
			mux := http.NewServeMux()
			for _, path := range []string{"/a/", "/b/"} {
				pages := map[string]string{"": page(path)}
				for i := range 29 {
					pages[fmt.Sprint(i, ".html")] = page(fmt.Sprint(path, i))
				}
				site := newSpeaker("http://"+host+path, pages)
				site.epoch, site.former = host[:3], former(path)
				mux.Handle(path, http.StripPrefix(strings.TrimSuffix(path, "/"), site))
			}
			w.set(host, mux)
		}
		below("old.test", func(string) []string { return nil })
		m.run(0, nil, func(col *collection.Collection) {
			if got := held(t, col, oldSite); len(got) != 60 {
				t.Fatalf("stored %d: %q\n%s", len(got), got, &m.log)
			}
		})
		time.Sleep(90 * time.Minute)
		below("new.test", func(path string) []string { return []string{oldSite + path[1:]} })
		w.redirect("old.test", newSite, http.StatusMovedPermanently, true)
		w.gets("new.test")
		m.run(0, nil, func(col *collection.Collection) {
			if got := held(t, col, newSite); len(got) != 60 {
				t.Errorf("stored of the new address: %d\n%s", len(got), &m.log)
			}
		})
		if got, _ := w.gets("new.test"); strings.Contains(fmt.Sprint(got), "html") {
			t.Errorf("requested from the new address: %q", got)
		}
	})
}

// What is no move, or leaves the domains that a person has set, changes nothing.
func TestCrawlStaysWithoutConfirmation(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		former []string // which new.test names
		rules  seed.Rules
		suits  func(string) error
		most   int // requests to new.test
	}{
		"a temporary redirect":          {http.StatusFound, []string{oldSite}, seed.Rules{Hosts: []string{"old.test"}}, nil, 0},
		"new.test does not know":        {http.StatusMovedPermanently, nil, seed.Rules{Hosts: []string{"old.test"}}, nil, 2},
		"new.test is not in the domain": {http.StatusMovedPermanently, []string{oldSite}, seed.Rules{DomainSuffixes: []string{"old.test"}}, nil, 0},
		"the options are for this machine alone": {http.StatusMovedPermanently, []string{oldSite}, seed.Rules{Hosts: []string{"old.test"}},
			(&crawl.Options{}).CheckURL, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(scratch(t), "crawl")
			synctest.Test(t, func(t *testing.T) {
				w, h := newHosts(t)
				m := &mover{t: t, w: w, h: h, dir: dir, rules: c.rules, suits: c.suits}
				w.site("old.test", linked())
				m.run(0, nil, func(*collection.Collection) {})
				time.Sleep(90 * time.Minute)
				w.site("new.test", linked(), c.former...)
				w.set("old.test", redirectManifest(w.by["old.test"], c.status))
				m.run(0, nil, func(col *collection.Collection) {
					if got := held(t, col, oldSite); len(got) != 4 {
						t.Errorf("stored of the old address: %q", got)
					}
				})
				if got, n := w.gets("new.test"); len(got) > 0 || n > c.most {
					t.Errorf("the other host got %d requests, for pages %q", n, got)
				}
			})
		})
	}
}

// redirectManifest redirects what tells of a site's changes to new.test.
func redirectManifest(s http.Handler, status int) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/robots.rdf", "/parley/changes", "/.well-known/parley":
			http.Redirect(rw, r, strings.TrimSuffix(newSite, "/")+r.URL.RequestURI(), status)
			return
		}
		s.ServeHTTP(rw, r)
	})
}
