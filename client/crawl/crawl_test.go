package crawl_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parleyweb/parley/client/collection"
)

// A web is a server of pages that notes its requests.
type web struct {
	*httptest.Server
	mu    sync.Mutex
	pages map[string]string
	asked []string // the paths
	other func(rw http.ResponseWriter, req *http.Request) bool
}

func newWeb(t *testing.T, pages map[string]string) *web {
	w := &web{pages: pages}
	w.Server = httptest.NewServer(w)
	t.Cleanup(w.Close)
	return w
}

// answer overrides the responses of a web for some paths; f returns false for the rest.
func (w *web) answer(f func(rw http.ResponseWriter, req *http.Request) bool) { w.other = f }

func (w *web) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	w.mu.Lock()
	w.asked = append(w.asked, req.URL.Path)
	w.mu.Unlock()
	if w.other != nil && w.other(rw, req) {
		return
	}
	w.mu.Lock()
	body, ok := w.pages[req.URL.Path]
	w.mu.Unlock()
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
		fmt.Fprint(rw, body)
		return
	}
	html(rw, body)
}

func html(rw http.ResponseWriter, text string) {
	rw.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprint(rw, text)
}

// redirect makes some paths redirect to others.
func (w *web) redirect(to map[string]string) {
	w.answer(func(rw http.ResponseWriter, req *http.Request) bool {
		if to[req.URL.Path] != "" {
			http.Redirect(rw, req, to[req.URL.Path], http.StatusFound)
		}
		return to[req.URL.Path] != ""
	})
}

// requests returns the paths that were requested, in order.
func (w *web) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.asked)
}

// counts returns how often each path was requested, except for special files.
func (w *web) counts() map[string]int {
	n := map[string]int{}
	for _, p := range w.requests() {
		if p != "/robots.txt" && p != "/robots.rdf" && p != "/sitemap.xml" {
			n[p]++
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

// hub returns a home page with links to n pages, these pages, and the links.
func hub(n int) (pages map[string]string, links []string) {
	pages = map[string]string{}
	for i := range n {
		links = append(links, fmt.Sprintf("/p%d.html", i))
		pages[links[i]] = page(links[i])
	}
	pages["/"] = page("home", links...)
	return pages, links
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
	col := crawled(t, w.URL+"/")
	want := map[string]int{"/": 1, "/a.html": 1, "/b.html": 1, "/c.html": 1, "/gone.html": 1}
	if got := w.counts(); !maps.Equal(got, want) {
		t.Errorf("requested %v, want %v", got, want)
	}
	states := map[string]string{}
	for p := range every(t, col.Pages(context.Background())) {
		states[strings.TrimPrefix(p.URL, w.URL)] = p.State.String()
	}
	if want := map[string]string{"/": "held", "/a.html": "held", "/b.html": "held", "/c.html": "held", "/gone.html": "refused", "/secret/x.html": "excluded"}; !maps.Equal(states, want) {
		t.Errorf("pages are %v, want %v", states, want)
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
	w.answer(func(_ http.ResponseWriter, req *http.Request) bool {
		if _, ok := pages[req.URL.Path]; !ok && strings.HasSuffix(req.URL.Path, ".html") {
			req.URL.Path = "/"
		}
		return false
	})
	col := crawled(t, w.URL+"/p1.html")
	for path, want := range map[string]collection.State{"/": collection.Held, "/lost.html": collection.Refused, "/p29.html": collection.Held} {
		if p := pageOf(t, col, w.URL+path); p.State != want {
			t.Errorf("%s is %v (%s), want %v", path, p.State, p.Fault, want)
		}
	}
}
