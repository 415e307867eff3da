package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/parleyweb/parley/internal/must"
)

// rdfgen sends no requests to the web server unless told to; then pages that the server refuses are left out,
// also in later runs that send no requests.
func TestRefusedPagesAreLeftOutOfManifest(t *testing.T) {
	d := newDesk(t, "index.html", "open/a.html", "open/b.html", "staff/rota.html")
	var mu sync.Mutex
	asked, refuses := 0, "/staff/"
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if asked++; strings.HasPrefix(r.URL.Path, refuses) {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		http.ServeFile(w, r, filepath.Join(d.root, r.URL.Path))
	}))
	defer web.Close()
	said := func(more ...string) string {
		t.Helper()
		d.run(0, append(append(d.published(), "--base", web.URL), more...)...)
		b := must.Get(os.ReadFile(filepath.Join(d.root, "robots.rdf")))
		list, _, _ := strings.Cut(string(b), "Tombstone")
		return list
	}
	if m := said(); asked != 0 || !strings.Contains(m, "rota.html") {
		t.Errorf("%d requests; manifest: %s", asked, m)
	}
	if m := said("--ask-rate", "1000"); asked < 4 || strings.Contains(m, "rota.html<") || !strings.Contains(m, "open/a.html") {
		t.Errorf("%d requests; manifest: %s", asked, m)
	}
	before := asked
	if m := said(); asked != before || strings.Contains(m, "rota.html<") {
		t.Errorf("%d more requests; manifest: %s", asked-before, m)
	}
	d.write("other/new.html", "new")
	mu.Lock()
	refuses = "/other/"
	mu.Unlock()
	if m := said("--ask-rate", "1000", "--hurry", "1ms"); strings.Contains(m, "new.html") || !strings.Contains(m, "rota.html") {
		t.Errorf("manifest: %s", m)
	}
}
