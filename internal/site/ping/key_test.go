package ping_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/site/ping"
)

func TestPendingKey(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		e.will("202")
		w.change(update("a.html", 1))
		pass(time.Minute)
		e.wantTaken("a.html")
		check(t, "key", engineStatus(t, s).Key, ping.KeyPending)
	})
}

func TestBurnedKeyIsReportedAndReplaced(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		path := must.Get(s.KeyPath())
		old := strings.TrimSuffix(path[1:], ".txt")
		e.keys[old] = true
		w.change(update("a.html", 1))
		pass(time.Minute)
		st := engineStatus(t, s)
		check(t, "key", st.Key, ping.KeyBurned)
		if !strings.Contains(st.Trouble, "UserForbiddedToAccessSite") || !strings.Contains(st.Trouble, path) {
			t.Errorf("trouble %q", st.Trouble)
		}
		w.change(update("b.html", 1))
		pass(20 * time.Hour)
		check(t, "asked", len(e.batches()), 1)
		must.Get(s.NewKey())
		pass(time.Second)
		e.wantTaken("a.html b.html")
		check(t, "key", engineStatus(t, s).Key, ping.KeyAccepted)
		// The old key is served for a day, since engines may still be checking it.
		check(t, "old key is served", s.ServesPath(path), true)
		pass(25 * time.Hour)
		check(t, "old key is served after a day", s.ServesPath(path), false)
	})
}

func TestAutoRotateReplacesBurnedKeyOnceADay(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		pass(30 * time.Hour) // the key has some age
		e.be(func() string { return "403" })
		w.change(update("a.html", 1))
		pass(20 * 24 * time.Hour)
		keys := make(map[string]bool)
		for _, b := range e.batches() {
			keys[b.key] = true
		}
		if n := len(keys); n < 5 || n > 22 {
			t.Errorf("%d keys in 20 days", n)
		}
		e.be(nil)
		pass(25 * time.Hour)
		e.wantTaken("a.html")
	}, func(s *ping.IndexNow) {
		s.Options.AutoRotate = true
		s.KeyPath()
	})
}

// Engines burn a key that they cannot fetch: nothing is sent before the site serves it.
func TestNothingIsSentUntilKeyIsServed(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		serves := w.hosts["www.example.org"]
		w.host("www.example.org", serving{http.NotFoundHandler()})
		w.change(update("a.html", 1))
		pass(time.Minute)
		st := engineStatus(t, s)
		check(t, "asked", len(e.batches()), 0)
		check(t, "key", st.Key, ping.KeyUnserved)
		if !strings.Contains(st.Trouble, "answers 404") {
			t.Errorf("trouble %q", st.Trouble)
		}
		w.host("www.example.org", serves)
		pass(time.Hour)
		e.wantTaken("a.html")
		// If it vanishes later, the engine reports it first.
		w.host("www.example.org", serving{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "<h1>Welcome</h1>") })})
		w.change(update("b.html", 1))
		pass(time.Minute)
		st = engineStatus(t, s)
		check(t, "key", st.Key, ping.KeyUnserved)
		if !strings.Contains(st.Trouble, "does not contain the key") {
			t.Errorf("trouble %q", st.Trouble)
		}
		w.host("www.example.org", serves)
		pass(time.Hour)
		e.wantTaken("b.html")
	})
}

// The sender may be unable to reach its own site: it sends anyway.
func TestUncheckableKeyIsUsed(t *testing.T) {
	story(t, func(w *world, e *searchEngine, s *ping.IndexNow) {
		serves := w.hosts["www.example.org"]
		w.host("www.example.org", nil)
		e.w = &world{t: w.t, hosts: map[string]http.RoundTripper{"www.example.org": serves}}
		w.change(update("a.html", 1))
		pass(time.Minute)
		e.wantTaken("a.html")
	})
}

func TestKeyFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e := newEngine(w, "engine.example")
		docroot := t.TempDir()
		w.host("www.example.org", serving{http.FileServer(http.Dir(docroot))})
		s := &ping.IndexNow{Options: ping.IndexNowOptions{Journal: w.journal, Base: base, Engines: []string{engineURL}, KeyDir: docroot, HTTP: w.client(), Log: w.log}}
		turn := func() ping.Result {
			t.Helper()
			return must.Get(s.Turn(t.Context()))
		}
		turn()
		path := must.Get(s.KeyPath())
		w.change(create("a.html"), create(path[1:])) // the key's own file is not a page
		turn()
		e.wantTaken("a.html")
		file := filepath.Join(docroot, path)
		info := must.Get(os.Stat(file))
		check(t, "mode", info.Mode().Perm(), 0o644)
		// A deployment removes it.
		w.must(os.Remove(file))
		w.change(create("b.html"))
		turn()
		e.wantTaken("b.html")
		// A new key: the old file stays for a day.
		k := must.Get(s.NewKey())
		names := func() (n int) {
			list := must.Get(os.ReadDir(docroot))
			return len(list)
		}
		check(t, "files", names(), 2)
		time.Sleep(25 * time.Hour)
		w.change(create("c.html"))
		turn()
		e.wantTaken("c.html")
		check(t, "files", names(), 1)
		// Another process uses the same key.
		s = &ping.IndexNow{Options: ping.IndexNowOptions{Journal: w.journal, Base: base, Engines: []string{engineURL}, KeyDir: docroot, HTTP: w.client()}}
		path = must.Get(s.KeyPath())
		check(t, "key", path, "/"+k+".txt")
		st := must.Get(s.Status())
		check(t, "key", st.Key.Key, k)
		check(t, "key's URL", st.Key.URL, base+k+".txt")
		check(t, "key's file", st.Key.File, filepath.Join(docroot, k+".txt"))
		if st.Key.Seen.IsZero() {
			t.Error("the key was never seen as served")
		}
	})
}

func TestKeyIsServed(t *testing.T) {
	w := newWorld(t)
	s := &ping.IndexNow{Options: ping.IndexNowOptions{Journal: w.journal, Base: "https://www.example.org/blog/", Engines: []string{"bing"}, Key: "my-own-key-1"}}
	path := must.Get(s.KeyPath())
	check(t, "path", path, "/blog/my-own-key-1.txt")
	for _, c := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", path, 200, "my-own-key-1"},
		{"HEAD", path, 200, ""},
		{"POST", path, 405, "only GET and HEAD\n"},
		{"GET", "/blog/other-key-2.txt", 404, "404 page not found\n"},
		{"GET", "/my-own-key-1.txt", 404, "404 page not found\n"},
		{"GET", "/blog/", 404, "404 page not found\n"},
		{"GET", "/blog/../my-own-key-1.txt", 404, "404 page not found\n"},
	} {
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, httptest.NewRequest(c.method, c.path, nil))
		check(t, c.method+" "+c.path, rec.Code, c.status)
		check(t, c.method+" "+c.path, rec.Body.String(), c.body)
	}
	if _, err := s.NewKey(); err == nil {
		t.Error("a configured key was replaced")
	}
}

// If the site is below a directory, the key is valid for that directory, and its location is sent.
func TestKeyOfSiteBelowPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e := newEngine(w, "engine.example")
		s := w.sender()
		s.Options.Base = base + "blog/"
		must.Get(s.Turn(t.Context()))
		w.change(create("blog/a.html"), create("shop/b.html"))
		r := must.Get(s.Turn(t.Context()))
		e.wantTaken("blog/a.html")
		check(t, "sent", r.Sent, 1)
		check(t, "changes", r.Changes, 2)
	})
}
