package crawl_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parleyweb/parley/client/collection"
)

// A site that names an excessive number of sitemaps gets at most 1,000 requests
// for them, and its pages are fetched meanwhile; one that spells its pages in
// two ways has each once.
func TestSitemapRequestsAreBounded(t *testing.T) {
	const many = 1300
	var mu sync.Mutex
	var asked []string
	w := newWeb(t, nil)
	w.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		mu.Lock()
		asked = append(asked, req.URL.Path)
		mu.Unlock()
		var n, from int
		switch path := req.URL.Path; {
		case path == "/robots.txt":
			for i := range 4 {
				fmt.Fprintf(rw, "Sitemap: %s/index%d.xml\n", w.URL, i)
			}
		case strings.HasPrefix(path, "/index"):
			fmt.Sscanf(path, "/index%d.xml", &from)
			fmt.Fprint(rw, `<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
			for i := range many / 4 {
				fmt.Fprintf(rw, "<sitemap><loc>%s/map%d.xml</loc></sitemap>", w.URL, from*many/4+i)
			}
			fmt.Fprint(rw, "</sitemapindex>")
		case strings.HasPrefix(path, "/map"):
			fmt.Sscanf(path, "/map%d.xml", &n)
			fmt.Fprint(rw, sitemapOf(fmt.Sprintf("%s/caf%%c3%%a9?%d", w.URL, n%50)))
		case path == "/":
			rw.Header().Set("Content-Type", "text/html")
			fmt.Fprint(rw, page("home", "/caf%C3%A9?1", "/linked.html"))
		default:
			rw.Header().Set("Content-Type", "text/html")
			fmt.Fprint(rw, page(req.URL.RequestURI()))
		}
	})
	col := open(t, filepath.Join(t.TempDir(), "crawl"))
	defer col.Close()
	if err := crawler(col, w.URL+"/").Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var maps, pages int
	for _, path := range asked {
		switch {
		case strings.HasPrefix(path, "/map"):
			maps++
		case strings.HasPrefix(path, "/caf"):
			pages++
		}
	}
	if maps+4 > 1000 || maps < 900 {
		t.Errorf("%d sitemaps were fetched", maps)
	}
	if pages != 50 || col.Len() != 52 {
		t.Errorf("%d requests for 50 pages, %d are known", pages, col.Len())
	}
	if i := slices.Index(asked, "/linked.html"); i < 0 || i > 150 {
		t.Errorf("a page was fetched after %d other requests", i)
	}
	all, err := col.Sources(0)
	if err != nil || len(all) > 1000 {
		t.Errorf("%d sources, %v", len(all), err)
	}
	if p, ok, err := col.Page(w.URL + "/caf%C3%A9?7"); !ok || p.State != collection.Held {
		t.Errorf("%v, %v, %v", p.State, ok, err)
	}
}

// If a site has no manifest, the sitemap at the usual place is fetched, though nothing declares it.
func TestUndeclaredSitemapIsFetched(t *testing.T) {
	w := newWeb(t, nil)
	w.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/sitemap.xml":
			fmt.Fprint(rw, sitemapOf(w.URL+"/unlinked.html"))
		case "/", "/unlinked.html":
			rw.Header().Set("Content-Type", "text/html")
			fmt.Fprint(rw, page(req.URL.Path))
		default:
			http.NotFound(rw, req)
		}
	})
	for _, without := range []bool{false, true} {
		col := open(t, filepath.Join(t.TempDir(), "crawl"))
		c := crawler(col, w.URL+"/")
		c.NoManifests = without
		if err := c.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := heldIn(col); n != 2 {
			t.Errorf("manifests left out %v: %d pages of 2 are stored", without, n)
		}
		col.Close()
	}
}
