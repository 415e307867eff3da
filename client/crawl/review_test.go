package crawl_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/internal/must"
)

// A failure of the last commits is reported, even if the crawl was stopped before.
func TestLastCommitsFail(t *testing.T) {
	w := newWeb(t, map[string]string{"/": page("home")})
	c := crawler(t, "", w.URL+"/")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	w.answer(func(_ http.ResponseWriter, req *http.Request) bool {
		if req.URL.Path == "/" {
			must.OK(t, c.Collection.Close())
			stop()
		}
		return false
	})
	c.NoManifests, c.NoSitemaps = true, true
	if err := c.Run(ctx); err == nil {
		t.Error("the last commit failed without an error")
	}
}

// An excluded page is fetched when it is given as a start page.
func TestStartWithExcludedPage(t *testing.T) {
	w := newWeb(t, map[string]string{"/": page("home", "/a.zip"), "/a.zip": "PK"})
	dir := t.TempDir()
	for start, want := range []collection.State{collection.Excluded, collection.Held} {
		c := crawler(t, dir, w.URL+[]string{"/", "/a.zip"}[start])
		finish(t, c)
		if p := pageOf(t, c.Collection, w.URL+"/a.zip"); p.State != want || w.counts()["/a.zip"] != start {
			t.Errorf("start page %d: the archive is %v, fetched %d times", start, p.State, w.counts()["/a.zip"])
		}
		must.OK(t, c.Collection.Close())
	}
}

// Redirects to unknown sites create neither sites nor pages.
func TestRedirectsToUnknownSites(t *testing.T) {
	pages, links := hub(20)
	pages["/new.html"], pages["/robots.txt"] = page("new"), "User-agent: *\nDisallow: /secret/\n"
	w := newWeb(t, pages)
	to := map[string]string{links[0]: w.URL + "/new.html", links[1]: w.URL + "/secret/x.html"}
	for i, path := range links[2:] {
		to[path] = fmt.Sprintf("http://a%d.example/", i+2)
	}
	w.redirect(to)
	c := crawler(t, "", w.URL+"/")
	col := c.Collection
	c.Seeder = &seed.Seeder{Rules: seed.Rules{Hosts: []string{"127.0.0.1"}}}
	finish(t, c)
	sites := 0
	for range col.Sites() {
		sites++
	}
	if n := col.Len(); sites != 1 || n != 23 {
		t.Errorf("%d sites and %d pages, want 1 and 23", sites, n)
	}
	for path, want := range to {
		if p := pageOf(t, col, w.URL+path); p.State != collection.Moved || p.Target != want {
			t.Errorf("%s is %v and leads to %q, want %q", path, p.State, p.Target, want)
		}
	}
	for path, want := range map[string]collection.State{"/new.html": collection.Held, "/secret/x.html": collection.Excluded} {
		if p := pageOf(t, col, w.URL+path); p.State != want {
			t.Errorf("%s is %v, want %v", path, p.State, want)
		}
	}
}

// The target of a sitemap's redirect is read as one of the site's own sitemaps, for a few redirects in
// a row, and not on other sites.
func TestSitemapRedirects(t *testing.T) {
	other := newWeb(t, map[string]string{"/sitemap.xml": ""})
	w := newWeb(t, map[string]string{"/": page("home"), "/orphan.html": page("orphan"),
		"/robots.txt": "Sitemap: /sitemap.xml\nSitemap: /endless/0\nSitemap: /elsewhere.xml\n"})
	w.pages["/maps/real.xml"] = sitemapOf(w.URL + "/orphan.html")
	to := map[string]string{"/sitemap.xml": "/maps/real.xml", "/elsewhere.xml": other.URL + "/sitemap.xml"}
	for i := range 30 {
		path := "/endless/0" + strings.Repeat("0", i)
		to[path] = path + "0"
	}
	w.redirect(to)
	col := crawled(t, w.URL+"/")
	if p := pageOf(t, col, w.URL+"/orphan.html"); p.State != collection.Held {
		t.Errorf("the page in the sitemap is %v", p.State)
	}
	endless := 0
	for p := range w.counts() {
		if strings.HasPrefix(p, "/endless/") {
			endless++
		}
	}
	if got := other.requests(); endless != 6 || len(got) > 0 {
		t.Errorf("%d redirects in a row were followed, want 5, and the other site got requests for %v", endless-1, got)
	}
}

// Stopping is not an error, whatever a crawl was about to do.
func TestImmediateStopIsNoError(t *testing.T) {
	w := newWeb(t, map[string]string{"/": page("home")})
	dir := t.TempDir()
	c := crawler(t, dir, w.URL+"/")
	finish(t, c)
	must.OK(t, c.Collection.Close())
	ctx, stop := context.WithCancel(t.Context())
	stop()
	c = crawler(t, dir, w.URL+"/")
	c.Again = true
	must.OK(t, c.Run(ctx))
}
