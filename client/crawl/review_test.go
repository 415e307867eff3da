package crawl_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/seed"
)

// answer overrides the responses of a web for some paths; f returns false for the rest.
func (w *web) answer(f func(rw http.ResponseWriter, req *http.Request) bool) {
	w.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if f(rw, req) {
			w.mu.Lock()
			w.asked[req.URL.Path]++
			w.mu.Unlock()
			return
		}
		w.ServeHTTP(rw, req)
	})
}

// A failure of the last commits is reported, even if the crawl was stopped before.
func TestLastCommitsFail(t *testing.T) {
	w := newWeb(t, map[string]string{"/": page("home")})
	col := open(t, filepath.Join(t.TempDir(), "crawl"))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	w.answer(func(rw http.ResponseWriter, req *http.Request) bool {
		if req.URL.Path == "/" {
			if err := col.Close(); err != nil {
				t.Error(err)
			}
			stop()
		}
		return false
	})
	c := crawler(col, w.URL+"/")
	c.NoManifests, c.NoSitemaps = true, true
	if err := c.Run(ctx); err == nil {
		t.Error("the last commit failed without an error")
	}
}

// An excluded page is fetched when it is given as a start page.
func TestStartWithExcludedPage(t *testing.T) {
	w := newWeb(t, map[string]string{"/": page("home", "/a.zip"), "/a.zip": "PK"})
	col := open(t, filepath.Join(t.TempDir(), "crawl"))
	defer col.Close()
	if err := crawler(col, w.URL+"/").Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p, _, err := col.Page(w.URL + "/a.zip"); err != nil || p.State != collection.Excluded {
		t.Fatalf("the archive is %v; %v", p.State, err)
	}
	if err := crawler(col, w.URL+"/a.zip").Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p, _, err := col.Page(w.URL + "/a.zip"); err != nil || p.State != collection.Held || w.counts()["/a.zip"] != 1 {
		t.Errorf("the archive is %v, fetched %d times; %v", p.State, w.counts()["/a.zip"], err)
	}
}

// Redirects to unknown sites create neither sites nor pages.
func TestRedirectsToUnknownSites(t *testing.T) {
	var links []string
	for i := range 20 {
		links = append(links, fmt.Sprintf("/to%d", i))
	}
	w := newWeb(t, map[string]string{"/": page("home", links...), "/new.html": page("new"),
		"/robots.txt": "User-agent: *\nDisallow: /secret/\n"})
	w.answer(func(rw http.ResponseWriter, req *http.Request) bool {
		to := ""
		switch n, ok := strings.CutPrefix(req.URL.Path, "/to"); {
		case !ok:
			return false
		case n == "0":
			to = "/new.html"
		case n == "1":
			to = "/secret/x.html"
		default:
			to = "http://a" + n + ".example/"
		}
		http.Redirect(rw, req, to, http.StatusFound)
		return true
	})
	col := open(t, filepath.Join(t.TempDir(), "crawl"))
	defer col.Close()
	c := crawler(col, w.URL+"/")
	c.Seeder = &seed.Seeder{Rules: seed.Rules{Hosts: []string{"127.0.0.1"}}}
	if err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	sites := 0
	for range col.Sites() {
		sites++
	}
	if n := col.Len(); sites != 1 || n != 23 {
		t.Errorf("%d sites and %d pages, want 1 and 23", sites, n)
	}
	for path, want := range map[string]string{"/to0": w.URL + "/new.html", "/to1": w.URL + "/secret/x.html", "/to2": "http://a2.example/"} {
		if p, _, err := col.Page(w.URL + path); err != nil || p.State != collection.Moved || p.Target != want {
			t.Errorf("%s is %v and leads to %q, want %q; %v", path, p.State, p.Target, want, err)
		}
	}
	for path, want := range map[string]collection.State{"/new.html": collection.Held, "/secret/x.html": collection.Excluded} {
		if p, _, err := col.Page(w.URL + path); err != nil || p.State != want {
			t.Errorf("%s is %v, want %v; %v", path, p.State, want, err)
		}
	}
}

// The target of a sitemap's redirect is read as one of the site's own sitemaps, for a few redirects in
// a row, and not on other sites.
func TestSitemapRedirects(t *testing.T) {
	other := newWeb(t, map[string]string{"/sitemap.xml": ""})
	w := newWeb(t, map[string]string{"/": page("home"), "/orphan.html": page("orphan"),
		"/robots.txt": "Sitemap: /sitemap.xml\nSitemap: /endless/0\nSitemap: /elsewhere.xml\n"})
	w.pages["/maps/real.xml"] = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>` + w.URL + `/orphan.html</loc></url></urlset>`
	w.answer(func(rw http.ResponseWriter, req *http.Request) bool {
		to := ""
		switch p := req.URL.Path; {
		case p == "/sitemap.xml":
			to = "/maps/real.xml"
		case p == "/elsewhere.xml":
			to = other.URL + "/sitemap.xml"
		case strings.HasPrefix(p, "/endless/"):
			to = p + "0"
		default:
			return false
		}
		http.Redirect(rw, req, to, http.StatusMovedPermanently)
		return true
	})
	col := open(t, filepath.Join(t.TempDir(), "crawl"))
	defer col.Close()
	if err := crawler(col, w.URL+"/").Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p, _, err := col.Page(w.URL + "/orphan.html"); err != nil || p.State != collection.Held {
		t.Errorf("the page in the sitemap is %v; %v", p.State, err)
	}
	endless := 0
	for p := range w.counts() {
		if strings.HasPrefix(p, "/endless/") {
			endless++
		}
	}
	if endless != 6 || len(other.asked) > 0 {
		t.Errorf("%d redirects in a row were followed, want 5, and the other site got requests for %v", endless-1, other.asked)
	}
}

// Stopping is not an error, whatever a crawl was about to do.
func TestImmediateStopIsNoError(t *testing.T) {
	w := newWeb(t, map[string]string{"/": page("home")})
	col := open(t, filepath.Join(t.TempDir(), "crawl"))
	defer col.Close()
	if err := crawler(col, w.URL+"/").Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	c := crawler(col, w.URL+"/")
	c.Again = true
	if err := c.Run(ctx); err != nil {
		t.Error(err)
	}
}
