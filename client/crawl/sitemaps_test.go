package crawl_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/must"
)

// A site that names an excessive number of sitemaps gets at most 1,000 requests
// for them, and its pages are fetched meanwhile; one that spells its pages in
// two ways has each once.
func TestSitemapRequestsAreBounded(t *testing.T) {
	const many = 1300
	w := newWeb(t, nil)
	w.answer(func(rw http.ResponseWriter, req *http.Request) bool {
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
			html(rw, page("home", "/caf%C3%A9?1", "/linked.html"))
		default:
			html(rw, page(req.URL.RequestURI()))
		}
		return true
	})
	col, asked := crawled(t, w.URL+"/"), w.requests()
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
	if n := len(must.Get(col.Sources(0))); n > 1000 {
		t.Errorf("%d sources", n)
	}
	if p := pageOf(t, col, w.URL+"/caf%C3%A9?7"); p.State != collection.Held {
		t.Errorf("a page is %v", p.State)
	}
}

// If a site has no manifest, the sitemap at the usual place is fetched, though nothing declares it.
func TestUndeclaredSitemapIsFetched(t *testing.T) {
	w := newWeb(t, map[string]string{"/": page("home"), "/unlinked.html": page("unlinked")})
	w.pages["/sitemap.xml"] = sitemapOf(w.URL + "/unlinked.html")
	for _, without := range []bool{false, true} {
		c := crawler(t, "", w.URL+"/")
		c.NoManifests = without
		finish(t, c)
		if n := heldIn(c.Collection); n != 2 {
			t.Errorf("manifests left out %v: %d pages of 2 are stored", without, n)
		}

	}
}
