package crawl_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/harvest"
)

// A web is a server of pages that counts its requests.
type web struct {
	*httptest.Server
	mu    sync.Mutex
	pages map[string]string
	asked map[string]int
}

func newWeb(t *testing.T, pages map[string]string) *web {
	w := &web{pages: pages, asked: map[string]int{}}
	w.Server = httptest.NewServer(w)
	t.Cleanup(w.Close)
	return w
}

func (w *web) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[req.URL.Path]++
	body, ok := w.pages[req.URL.Path]
	if !ok {
		http.NotFound(rw, req)
		return
	}
	etag := fmt.Sprintf(`"%x"`, len(body)*31+len(req.URL.Path))
	rw.Header().Set("ETag", etag)
	if req.Header.Get("If-None-Match") == etag {
		rw.WriteHeader(http.StatusNotModified)
		return
	}
	if strings.HasSuffix(req.URL.Path, ".txt") {
		rw.Header().Set("Content-Type", "text/plain")
	} else {
		rw.Header().Set("Content-Type", "text/html")
	}
	fmt.Fprint(rw, body)
}

// counts returns how often each path was requested, except for special files.
func (w *web) counts() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := map[string]int{}
	for p, c := range w.asked {
		if p != "/robots.txt" && p != "/robots.rdf" && p != "/sitemap.xml" {
			n[p] = c
		}
	}
	return n
}

func page(title string, links ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<!doctype html><title>%s</title><p>This is %s.", title, title)
	for _, l := range links {
		fmt.Fprintf(&b, " <a href=%q>%s</a>", l, l)
	}
	return b.String()
}

func open(t *testing.T, dir string) *collection.Collection {
	t.Helper()
	col, err := collection.Open(dir, &collection.Options{Strategy: frontier.BreadthFirst{}, Policy: fresh.Thesis{}, Quality: crawl.DefaultQuality.Of, Contents: collection.WARC})
	if err != nil {
		t.Fatal(err)
	}
	return col
}

func crawler(col *collection.Collection, start ...string) *crawl.Engine {
	return crawl.NewEngine(col, &harvest.Harvester{Options: harvest.Options{Wait: -1, Slow: -1, Private: true, Agent: "parley-test/1"}}, crawl.Settings{Strategy: frontier.BreadthFirst{}, Policy: fresh.Thesis{}, Quality: crawl.DefaultQuality, Start: start, Once: true})
}

func TestSilentSite(t *testing.T) {
	w := newWeb(t, map[string]string{
		"/":            page("home", "a.html", "/b.html", "secret/x.html", "#top"),
		"/a.html":      page("a", "b.html", "c.html"),
		"/b.html":      page("b", "/"),
		"/c.html":      page("c", "gone.html"),
		"/orphan.html": page("orphan"),
		"/robots.txt":  "User-agent: *\nDisallow: /secret/\n",
	})
	dir := filepath.Join(t.TempDir(), "crawl")
	col := open(t, dir)
	if err := crawler(col, w.URL+"/").Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"/": 1, "/a.html": 1, "/b.html": 1, "/c.html": 1, "/gone.html": 1}
	if got := w.counts(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("requested %v, want %v", got, want)
	}
	states := map[string]string{}
	for p, err := range col.Pages(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		states[strings.TrimPrefix(p.URL, w.URL)] = p.State.String()
	}
	if want := map[string]string{"/": "held", "/a.html": "held", "/b.html": "held", "/c.html": "held", "/gone.html": "refused", "/secret/x.html": "excluded"}; fmt.Sprint(states) != fmt.Sprint(want) {
		t.Errorf("pages are %v, want %v", states, want)
	}
	if err := col.Close(); err != nil {
		t.Fatal(err)
	}
}

// A site that serves its front page for every missing URL still has a front
// page.
func TestFrontPageForMissingURLs(t *testing.T) {
	front := page("front", "/p1.html")
	pages := map[string]string{"/": front, "/lost.html": front}
	var links []string
	for i := 2; i < 30; i++ {
		path := fmt.Sprintf("/p%d.html", i)
		links = append(links, path)
		pages[path] = page(path, "/", "/lost.html")
	}
	pages["/p1.html"] = page("p1", links...)
	w := newWeb(t, pages)
	w.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if _, ok := pages[req.URL.Path]; !ok && strings.HasSuffix(req.URL.Path, ".html") {
			req.URL.Path = "/"
		}
		w.ServeHTTP(rw, req)
	})
	col := open(t, filepath.Join(t.TempDir(), "crawl"))
	defer col.Close()
	if err := crawler(col, w.URL+"/p1.html").Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]collection.State{"/": collection.Held, "/lost.html": collection.Refused, "/p29.html": collection.Held} {
		if p, _, err := col.Page(w.URL + path); err != nil || p.State != want {
			t.Errorf("%s is %v (%s), want %v; %v", path, p.State, p.Fault, want, err)
		}
	}
}

// With a quality that weighs links, the page that all pages link to ranks above the pages
// that only the front page links to (K02).
func TestLinkedPagesRankHigher(t *testing.T) {
	w := newWeb(t, map[string]string{
		"/": page("home", "a.html", "b.html", "c.html"), "/a.html": page("a", "hub.html"),
		"/b.html": page("b", "hub.html"), "/c.html": page("c", "hub.html"), "/hub.html": page("hub", "/"),
	})
	col := open(t, filepath.Join(t.TempDir(), "crawl"))
	defer col.Close()
	for range 2 { // the second run ranks the pages that the first found
		c := crawler(col, w.URL+"/")
		c.Quality = crawl.Quality{Pagerank: 1}
		if err := c.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	rank := func(path string) float32 {
		p, _, err := col.Page(w.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		return p.Rank
	}
	if hub, leaf := rank("/hub.html"), rank("/a.html"); hub <= 1 || leaf >= 1 || leaf <= 0 {
		t.Errorf("the hub ranks %g, a leaf %g, where the average is 1", hub, leaf)
	}
}
