package crawl_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// Hosts are several web servers, by name, for a synctest bubble. One without an address is at a public one.
type hosts struct {
	web       *harvest.Harvester // reaches them
	mu        sync.Mutex
	by        map[string]http.Handler
	addresses map[string]string
	asked     []string // "host/path", in order
}

func newHosts(t testing.TB) *hosts {
	w := &hosts{by: map[string]http.Handler{}, addresses: map[string]string{}}
	w.web = piped(t, w, w)
	return w
}

func (w *hosts) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.addresses[host]; a != "" {
		return []netip.Addr{netip.MustParseAddr(a)}, nil
	}
	return []netip.Addr{netip.MustParseAddr("20.1.1.1")}, nil
}

func (w *hosts) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.asked = append(w.asked, r.Host+r.URL.Path)
	h := w.by[r.Host]
	w.mu.Unlock()
	if h == nil {
		h = http.NotFoundHandler()
	}
	h.ServeHTTP(rw, r)
}

func (w *hosts) set(host string, h http.Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.by[host] = h
}

// site puts a site on a host.
func (w *hosts) site(host string, pages map[string]string, former ...string) *speaker {
	s := newSpeaker("http://"+host+"/", pages)
	s.epoch, s.former, s.web = host[:strings.IndexByte(host, '.')], former, w.web
	w.set(host, s)
	return s
}

// archived returns a site that offers an archive of all its pages, and reports an error if it is requested.
func archived(t *testing.T, s *speaker) http.Handler {
	offer, err := json.Marshal(protocol.Discovery{Version: 1, Base: s.base, Manifest: s.base + "robots.rdf", Changes: s.base + "parley/changes",
		Forms: []protocol.Form{protocol.AsMeta, protocol.AsSite}, Site: s.base + "parley/site"})
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("as") == "site" || err != nil {
			t.Errorf("an archive is requested: %s; %v", r.URL, err)
		}
		if r.URL.Path != "/.well-known/parley" {
			s.ServeHTTP(rw, r)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		rw.Write(offer)
	})
}

// redirect redirects a host: each URL to the same path, or all to one URL.
func (w *hosts) redirect(host, to string, status int, each bool) {
	w.set(host, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if each {
			http.Redirect(rw, r, strings.TrimSuffix(to, "/")+r.URL.RequestURI(), status)
			return
		}
		http.Redirect(rw, r, to, status)
	}))
}

// gets returns the paths requested from a host since the last call, without the doors of a site.
func (w *hosts) gets(host string) (pages []string, all int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = slices.DeleteFunc(w.asked, func(u string) bool {
		path, ok := strings.CutPrefix(u, host+"/")
		if ok {
			all++
		}
		if ok && path != "robots.txt" && path != "robots.rdf" && path != ".well-known/parley" && path != "parley/changes" {
			pages = append(pages, path)
		}
		return ok
	})
	slices.Sort(pages)
	return pages, all
}

const oldSite, newSite, thirdSite = "http://old.test/", "http://new.test/", "http://third.test/"

func fourPages() map[string]string {
	return map[string]string{"": "home", "a.html": "A", "d/b.html": "B", "gone.html": "G"}
}

// inode returns what identifies a file of the copy.
func (c *copied) inode(name string) os.FileInfo {
	c.t.Helper()
	info, err := os.Stat(filepath.Join(c.m.Dir, name))
	must.OK(c.t, err)
	return info
}

// following starts a copy of old.test, and waits for its first pages.
func following(t *testing.T, w *hosts, set ...func(*crawl.Copy)) (old *speaker, c *copied) {
	old = w.site("old.test", fourPages())
	c = old.follow(t, func(m *crawl.Copy) {
		m.Delay = -1
		for _, f := range set {
			f(m)
		}
	})
	time.Sleep(time.Minute)
	c.want(old.live())
	w.gets("old.test")
	return old, c
}

// A site moves to another host. Its copy goes with it, as soon as the old address redirects to the new one, and keeps its files: only
// what was edited during the move is fetched. Later it is opened by either address.
func TestCopyMovesWithItsSite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHosts(t)
		_, c := following(t, w)
		before := c.c.Collection.Log().Head()
		kept := c.inode("d/b.html")

		pages := fourPages()
		pages["a.html"], pages["new.html"] = "A, edited while the site moved", "N"
		delete(pages, "gone.html")
		moved := w.site("new.test", pages, oldSite)
		w.set("new.test", archived(t, moved))
		time.Sleep(time.Hour)
		if _, n := w.gets("new.test"); n > 0 {
			t.Errorf("the new address got %d requests before the old one redirects to it", n)
		}
		w.gets("old.test")
		w.redirect("old.test", newSite, http.StatusMovedPermanently, true)
		time.Sleep(time.Hour)
		c.want(moved.live())
		if pages, _ := w.gets("old.test"); len(pages) > 0 {
			t.Errorf("requested from the old address: %q", pages)
		}
		if pages, _ := w.gets("new.test"); strings.Join(pages, " ") != "a.html new.html" {
			t.Errorf("requested from the new address: %q", pages)
		}
		if !os.SameFile(kept, c.inode("d/b.html")) {
			t.Error("an unchanged file was written again")
		}
		if m := c.manifest(); m.URL != newSite+"robots.rdf" || m.Cursor != moved.cursor() {
			t.Errorf("the manifest is %s, at %v", m.URL, m.Cursor)
		}

		// Its events have the new URLs, in a new epoch.
		for e, err := range c.c.Collection.Events(t.Context(), protocol.Cursor{}, false) {
			if err != nil || !strings.HasPrefix(e.URL, newSite) {
				t.Errorf("event of %s, %v", e.URL, err)
			}
		}
		var refused error
		for _, err := range c.c.Collection.Events(t.Context(), before, false) {
			refused = err
		}
		if !errors.Is(refused, protocol.ErrEpoch) {
			t.Errorf("events after a cursor of the old address: %v", refused)
		}
		for i, base := range []string{oldSite, newSite} {
			c.stop()
			c.m.Base = base
			c.start()
			moved.edit("d/b.html", base)
			time.Sleep(time.Hour)
			c.want(moved.live())
			if _, n := w.gets("old.test"); n > 0 {
				t.Errorf("started with %s: %d requests to the old address", base, n)
			}
			if pages, _ := w.gets("new.test"); strings.Join(pages, " ") != "d/b.html" {
				t.Errorf("%d: requested from the new address: %q", i, pages)
			}
		}
		if offered, owed, _, faults := c.counts(); offered != len(moved.live()) || owed != 0 || len(faults) != 0 {
			t.Errorf("%d pages, %d pending, faults %q", offered, owed, faults)
		}
	})
}

// A follower that begins at an address from which the site has moved, and one that was away while it moved twice, end at the
// last one. The manifest there need not name every address on the way.
func TestCopyFollowsSeveralMoves(t *testing.T) {
	for name, c := range map[string]struct {
		second string   // where old.test redirects to
		former []string // which the manifest at the end names
	}{
		"one after the other":        {newSite, []string{newSite}},
		"the manifest names both":    {newSite, []string{newSite, oldSite}},
		"the first redirect was set": {thirdSite, []string{newSite, oldSite}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHosts(t)
				_, copied := following(t, w)
				copied.stop()
				third := w.site("third.test", fourPages(), c.former...)
				w.redirect("old.test", c.second, http.StatusPermanentRedirect, true)
				w.redirect("new.test", thirdSite, http.StatusPermanentRedirect, true)
				copied.start()
				time.Sleep(time.Hour)
				copied.want(third.live())
				if pages, _ := w.gets("third.test"); len(pages) > 0 {
					t.Errorf("fetched %q", pages)
				}
				if m := copied.manifest(); m.Cursor != third.cursor() {
					t.Errorf("the copy is at %v", m.Cursor)
				}
				copied.stop()

				late := third.follow(t, func(m *crawl.Copy) { m.Base, m.Delay = oldSite, -1 })
				time.Sleep(time.Hour)
				late.want(third.live())
			})
		})
	}
}

// What is no move leaves a copy where it is, and costs the other host few requests. Once the move is confirmed, the copy follows.
func TestCopyStaysWithoutConfirmation(t *testing.T) {
	noTotals(t)
	for name, c := range map[string]struct {
		redirect func(w *hosts)
		former   []string // which new.test names
		asked    bool     // whether new.test gets requests
		says     string
	}{
		"nothing redirects":           {func(*hosts) {}, []string{oldSite}, false, ""},
		"a temporary redirect":        {func(w *hosts) { w.redirect("old.test", newSite, http.StatusFound, true) }, []string{oldSite}, false, "answered 302"},
		"all URLs to the home page":   {func(w *hosts) { w.redirect("old.test", newSite, http.StatusMovedPermanently, false) }, []string{oldSite}, false, "redirects to another path"},
		"new.test does not know":      {func(w *hosts) { w.redirect("old.test", newSite, http.StatusMovedPermanently, true) }, nil, true, "does not say that it replaces " + oldSite},
		"new.test names another site": {func(w *hosts) { w.redirect("old.test", newSite, http.StatusMovedPermanently, true) }, []string{thirdSite}, true, "does not say that it replaces " + oldSite},
		"a circle": {func(w *hosts) {
			w.redirect("old.test", newSite, http.StatusMovedPermanently, true)
			w.redirect("new.test", oldSite, http.StatusMovedPermanently, true)
		}, nil, true, "lead in a circle"},
		"robots.txt forbids it": {func(w *hosts) {
			w.by["new.test"].(*speaker).robots = "User-agent: *\nDisallow: /robots.rdf\n"
			w.redirect("old.test", newSite, http.StatusMovedPermanently, true)
		}, []string{oldSite}, true, "is not fetched"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newHosts(t)
				var log bytes.Buffer
				old, copied := following(t, w, func(m *crawl.Copy) { m.Log = slog.New(slog.NewTextHandler(&log, nil)) })
				pages := fourPages()
				pages["a.html"] = "of somebody else"
				w.site("new.test", pages, c.former...)
				c.redirect(w)
				time.Sleep(24 * time.Hour)
				copied.want(old.live())
				switch pages, n := w.gets("new.test"); {
				case len(pages) > 0 || n > 120:
					t.Errorf("the other host got %d requests in a day, for pages %q", n, pages)
				case (n > 0) != c.asked:
					t.Errorf("the other host got %d requests", n)
				}
				other := copied.m // a claim gives nobody the copy of another site
				other.Base, other.Harvester = newSite, nil
				copied.stop()
				if !strings.Contains(log.String(), c.says) {
					t.Errorf("the log does not say %q:\n%s", c.says, log.String())
				}
				if _, err := other.Open(); !errors.Is(err, collection.ErrOther) {
					t.Errorf("opened by the other address: %v", err)
				}

				moved := w.site("new.test", pages, oldSite)
				w.redirect("old.test", newSite, http.StatusMovedPermanently, true)
				copied.start()
				time.Sleep(24 * time.Hour)
				copied.want(moved.live())
			})
		})
	}
}

// A site at a public address does not move into a private network, unless the operator allows it.
func TestCopyDoesNotMoveToPrivateAddress(t *testing.T) {
	noTotals(t)
	for _, allowed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newHosts(t)
			w.addresses["new.test"] = "169.254.169.254"
			old, c := following(t, w)
			c.stop()
			c.m.Private = allowed
			pages := fourPages()
			pages["a.html"] = "inside"
			moved := w.site("new.test", pages, oldSite)
			w.redirect("old.test", newSite, http.StatusMovedPermanently, true)
			c.start()
			time.Sleep(24 * time.Hour)
			if _, n := w.gets("new.test"); (n > 0) != allowed {
				t.Errorf("allowed: %v, requests: %d", allowed, n)
			}
			if allowed {
				old = moved
			}
			c.want(old.live())
		})
	}
}

// A site moves away, and later back.
func TestCopyMovesBack(t *testing.T) {
	noTotals(t)
	synctest.Test(t, func(t *testing.T) {
		w := newHosts(t)
		_, c := following(t, w)
		for _, to := range []string{"new", "old", "new"} {
			from := map[string]string{"new": "old", "old": "new"}[to]
			s := w.site(to+".test", fourPages(), "http://"+from+".test/")
			s.epoch = time.Now().Format("at150405")
			w.redirect(from+".test", "http://"+to+".test/", http.StatusMovedPermanently, true)
			time.Sleep(24 * time.Hour)
			s.edit("a.html", "at "+to)
			time.Sleep(time.Hour)
			c.want(s.live())
			if m := c.manifest(); m.Cursor != s.cursor() {
				t.Errorf("the copy is at %v, the site at %v", m.Cursor, s.cursor())
			}
		}
	})
}

// Two addresses that redirect to each other by turns lead a copy to and fro at most once an hour.
func TestCopyIsNotLedToAndFro(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHosts(t)
		_, c := following(t, w)
		var mu sync.Mutex
		left, moves := "", 0 // the host that redirected last
		for from, to := range map[string]string{"old.test": "new.test", "new.test": "old.test"} {
			s := w.site(from, fourPages(), "http://"+to+"/")
			w.set(from, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				mu.Lock()
				confirms := r.URL.Path == "/robots.rdf" && left == to
				if r.URL.Path == "/robots.rdf" {
					left = from
				}
				if confirms {
					left = ""
					moves++
				}
				mu.Unlock()
				if confirms || r.URL.Path == "/robots.txt" {
					s.ServeHTTP(rw, r)
					return
				}
				http.Redirect(rw, r, "http://"+to+r.URL.Path, http.StatusMovedPermanently)
			}))
		}
		time.Sleep(5*time.Hour + 30*time.Minute)
		c.stop()
		if moves < 2 || moves > 7 {
			t.Errorf("the copy has moved %d times", moves)
		}
	})
}

// The robots.txt of the new address does not lead requests into a private network.
func TestMovedRobotsStayPublic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHosts(t)
		w.addresses["inside.test"] = "10.0.0.1"
		_, c := following(t, w)
		moved := w.site("new.test", fourPages(), oldSite)
		w.set("new.test", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/robots.txt" {
				http.Redirect(rw, r, "http://inside.test/robots.txt", http.StatusFound)
				return
			}
			moved.ServeHTTP(rw, r)
		}))
		w.redirect("old.test", newSite, http.StatusMovedPermanently, true)
		time.Sleep(time.Hour)
		if _, n := w.gets("inside.test"); n > 0 {
			t.Errorf("%d requests to a private address", n)
		}
		if m := c.manifest(); m.URL != newSite+"robots.rdf" {
			t.Errorf("the copy follows %s", m.URL)
		}
	})
}

// A site moves from http to https, and its copy follows. No redirect or manifest makes the copy go back from https to http.
func TestCopyMovesToHTTPS(t *testing.T) {
	w, log := &hosts{by: map[string]http.Handler{}}, new(said)
	plain, secure := httptest.NewServer(w), httptest.NewTLSServer(w)
	defer plain.Close()
	defer secure.Close()
	host := func(s *httptest.Server) string { return s.Listener.Addr().String() }
	site := func(at, former *httptest.Server) *speaker {
		s := newSpeaker(at.URL+"/", fourPages())
		s.epoch, s.former = "on"+strings.TrimSuffix(at.URL[:5], ":"), []string{former.URL + "/"}
		w.set(host(at), s)
		return s
	}
	moved := site(secure, plain)
	w.redirect(host(plain), secure.URL, http.StatusMovedPermanently, true)
	c := moved.follow(t, func(m *crawl.Copy) {
		m.Base, m.Hurry, m.Log = plain.URL+"/", 20*time.Millisecond, log.log()
		m.Harvester = &harvest.Harvester{Options: harvest.Options{TLS: &tls.Config{RootCAs: x509.NewCertPool()}}}
		m.Harvester.Options.TLS.RootCAs.AddCert(secure.Certificate())
	})
	c.want(moved.live())
	c.stop()

	site(plain, secure)
	w.redirect(host(secure), plain.URL, http.StatusMovedPermanently, true)
	c.start()
	until(t, crawl.EngineOf(c.c), "the log says that https must not become http", func() bool { return log.has("redirects from https to http") > 0 })
	if m := c.manifest(); m.URL != secure.URL+"/robots.rdf" {
		t.Errorf("the copy follows %s", m.URL)
	}
}
