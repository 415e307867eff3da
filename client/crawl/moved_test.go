package crawl_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// A mover crawls hosts in a synctest bubble, and begins at old.test.
type mover struct {
	*hosts
	t     *testing.T
	dir   string
	col   *collection.Collection
	rules seed.Rules
	suits func(string) error // see Settings
	start []string
	log   bytes.Buffer
}

// inMove runs a test with one.
func inMove(t *testing.T, test func(*testing.T, *mover)) {
	dir := scratch(t)
	synctest.Test(t, func(t *testing.T) {
		test(t, &mover{hosts: newHosts(t), t: t, dir: dir, rules: seed.Rules{Hosts: []string{"old.test"}}, start: []string{oldSite}})
	})
}

// run crawls until nothing is left to fetch, or, if there is a function beside it, for a time.
func (m *mover) run(d time.Duration, beside func()) {
	m.t.Helper()
	if m.col != nil {
		must.OK(m.t, m.col.Close())
	}
	c := open(m.t, m.dir, m.web.Options, crawl.Settings{Seeder: &seed.Seeder{Rules: m.rules}, Start: m.start, Suits: m.suits,
		Once: beside == nil, Log: slog.New(slog.NewTextHandler(&m.log, nil))}, archiving)
	m.col = c.Collection
	if beside == nil {
		finish(m.t, c)
		return
	}
	go beside()
	runFor(m.t, c, d, nil)
}

// holds fails unless so many pages of a site are stored, and not gone.
func (m *mover) holds(base string, n int) {
	m.t.Helper()
	if got := m.held(base); len(got) != n {
		m.t.Errorf("stored of %s: %d, want %d: %q\n%s", base, len(got), n, got, &m.log)
	}
}

// held returns the paths of a site whose content is stored, and not gone.
func (m *mover) held(base string) (paths []string) {
	m.t.Helper()
	for p := range every(m.t, m.col.Pages(m.t.Context())) {
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
	inMove(t, func(t *testing.T, m *mover) {
		m.site("old.test", linked())
		m.run(0, nil)
		m.holds(oldSite, 4)
		time.Sleep(90 * time.Minute)
		m.gets("old.test")
		pages := linked()
		pages["a.html"], pages["new.html"] = page("A, edited"), page("N")
		delete(pages, "gone.html")
		m.site("new.test", pages, oldSite)
		m.redirect("old.test", newSite, http.StatusMovedPermanently, true)
		m.run(0, nil)
		if got := m.held(newSite); fmt.Sprint(got) != "[/ /a.html /d/b.html /new.html]" {
			t.Errorf("stored of the new address: %q\n%s", got, &m.log)
		}
		if got, _ := m.gets("new.test"); strings.Join(got, " ") != "a.html new.html" {
			t.Errorf("requested from the new address: %q", got)
		}
		if was := pageOf(t, m.col, oldSite); was.State != collection.Gone || was.Target != newSite {
			t.Errorf("the old home page is %v, and leads to %s", was.State, was.Target)
		}
		home, a, b := pageOf(t, m.col, newSite), pageOf(t, m.col, newSite+"a.html"), pageOf(t, m.col, newSite+"d/b.html")
		if l, err := m.col.Links(b.ID); err != nil || len(l) != 2 || !slices.Contains(l, home.ID) || !slices.Contains(l, a.ID) {
			t.Errorf("%s links to %v, want %d and %d: %v", b.URL, l, home.ID, a.ID, err)
		}
		if body, err := m.col.Version(b.URL, b.Digest, 1<<20); err != nil || string(body) != pages["d/b.html"] {
			t.Errorf("content of a page that has moved: %q, %v", body, err)
		}
		moves := 0
		for e := range every(t, m.col.Events(t.Context(), protocol.Cursor{}, false)) {
			if e.Op == protocol.Move && strings.TrimPrefix(e.URL, newSite) == strings.TrimPrefix(e.From, oldSite) {
				moves++
			}
		}
		if moves != 2 {
			t.Errorf("%d moves in the events, want 2", moves)
		}
		if !strings.Contains(m.log.String(), "moved from "+oldSite+" to "+newSite) {
			t.Errorf("the log does not say where the site has moved:\n%s", &m.log)
		}
		m.gets("old.test")
		time.Sleep(90 * time.Minute)
		m.rules.Hosts = append(m.rules.Hosts, "new.test") // as Options.Open does
		m.run(0, nil)
		if got, n := m.gets("new.test"); len(got) > 0 || n > 3 {
			t.Errorf("the new address got %d requests, for pages %q", n, got)
		}
	})
}

// The new address is crawled already when the old one begins to redirect to it, and serves its manifest, but no page. Its manifest is
// read again then, and what the crawl has of the old address moves.
func TestCrawlKnowsTheNewAddress(t *testing.T) {
	inMove(t, func(t *testing.T, m *mover) {
		m.rules.Hosts = append(m.rules.Hosts, "new.test")
		pages := linked()
		pages["a.html"] = page("A", newSite+"other.html")
		m.addresses["new.test"] = "20.1.1.2" // so that neither waits for the other
		m.site("old.test", pages)
		moved := m.site("new.test", pages, oldSite)
		for path := range pages {
			moved.odd[path] = func(rw http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
				rw.WriteHeader(http.StatusServiceUnavailable)
			}
		}
		m.run(5*time.Hour, func() {
			time.Sleep(2 * time.Hour)
			if _, n := m.gets("new.test"); n == 0 {
				t.Error("the new address is not crawled yet")
			}
			m.redirect("old.test", newSite, http.StatusPermanentRedirect, true)
		})
		m.holds(newSite, 4)
		m.holds(oldSite, 0)
	})
}

// The crawler is killed after it has found that the site has moved, and before it has read a page of the manifest at the new address. The
// next run knows of that address only that it is no start page.
func TestCrawlIsKilledWhileItMoves(t *testing.T) {
	inMove(t, func(t *testing.T, m *mover) {
		m.site("old.test", linked())
		moved := m.site("new.test", linked(), oldSite)
		m.addresses["new.test"] = "20.1.1.2"
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
			m.redirect("old.test", newSite, http.StatusMovedPermanently, true)
		})
		if site, known := m.col.Site("http://new.test"); reads < 2 || !known || site.Requests+int64(site.Held+site.Ready) > 0 {
			t.Fatalf("%d reads; the new address: %+v", reads, site)
		}
		moved.with(func() { clear(moved.odd) })
		m.run(3*time.Hour, func() {})
		m.holds(oldSite, 0)
		m.holds(newSite, 4)
		if got, _ := m.gets("new.test"); strings.Contains(fmt.Sprint(got), "html") {
			t.Errorf("requested from the new address: %q", got)
		}
	})
}

// A move is undone: the old address serves the site again, as it was before, and the new one is gone.
func TestCrawlGoesBack(t *testing.T) {
	inMove(t, func(t *testing.T, m *mover) {
		old := m.site("old.test", linked())
		m.run(0, nil)
		time.Sleep(90 * time.Minute)
		m.site("new.test", linked(), oldSite)
		m.redirect("old.test", newSite, http.StatusMovedPermanently, true)
		m.run(0, nil)
		m.holds(newSite, 4)
		time.Sleep(8 * aDay)
		m.set("old.test", old)
		m.set("new.test", http.NotFoundHandler())
		m.run(3*time.Hour, func() {}) // it continues from the cursor that it has
		m.holds(oldSite, 4)
	})
}

// Two sites of one host, each below a path of its own, move to another host at the same time.
func TestTwoSitesMoveToOneHost(t *testing.T) {
	inMove(t, func(t *testing.T, m *mover) {
		m.start = []string{oldSite + "a/", oldSite + "b/"}
		m.web.Options.Wait = time.Second
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
			m.set(host, mux)
		}
		below("old.test", func(string) []string { return nil })
		m.run(0, nil)
		m.holds(oldSite, 60)
		time.Sleep(90 * time.Minute)
		below("new.test", func(path string) []string { return []string{oldSite + path[1:]} })
		m.redirect("old.test", newSite, http.StatusMovedPermanently, true)
		m.gets("new.test")
		m.run(0, nil)
		m.holds(newSite, 60)
		if got, _ := m.gets("new.test"); strings.Contains(fmt.Sprint(got), "html") {
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
			inMove(t, func(t *testing.T, m *mover) {
				m.rules, m.suits = c.rules, c.suits
				m.site("old.test", linked())
				m.run(0, nil)
				time.Sleep(90 * time.Minute)
				m.site("new.test", linked(), c.former...)
				m.set("old.test", redirectManifest(m.by["old.test"], c.status))
				m.run(0, nil)
				m.holds(oldSite, 4)
				if got, n := m.gets("new.test"); len(got) > 0 || n > c.most {
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
