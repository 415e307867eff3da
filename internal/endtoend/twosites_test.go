package endtoend

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/front"
)

const twoPages = 25 // pages of each of the two sites

// twoSites is a host with two sites below paths of it, docs and blog, each with a notifier of its own. The
// description at the root of the host is that of docs.
type twoSites struct {
	t   *testing.T
	web *httptest.Server
	dir string

	mu    sync.Mutex
	asked map[string]int // by path, by the crawler
}

func newTwoSites(t *testing.T) *twoSites {
	s := &twoSites{t: t, dir: t.TempDir(), asked: map[string]int{}}
	mux := http.NewServeMux()
	s.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.UserAgent(), "Parley/") { // the crawler, not the notifier
			s.mu.Lock()
			s.asked[r.URL.Path]++
			s.mu.Unlock()
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.web.Close)
	mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "User-agent: *\nDisallow:\n\nManifest: %s\nManifest: %s\n", s.base("docs")+"robots.rdf", s.base("blog")+"robots.rdf")
	})
	for i, name := range []string{"docs", "blog"} {
		address := front.FreeAddress()
		for page := range twoPages {
			s.write(fmt.Sprintf("%s/%d.html", name, page), fmt.Sprintf("<p>Page %d of %s", page, name))
		}
		doors := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", address; r.SetXForwarded() },
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }} // until it listens
		mux.Handle("/"+name+"/", http.StripPrefix("/"+name+"/", http.FileServer(http.Dir(s.path(name)))))
		for _, door := range []string{"robots.rdf", "parley/", ".well-known/parley"} {
			mux.Handle("/"+name+"/"+door, doors)
		}
		if i == 0 {
			mux.Handle("/.well-known/parley", doors)
		}
		n := start(t, nil, "notifier", "--docroot", s.path(name), "--base", s.base(name), "--listen", address, "--state", filepath.Join(s.dir, name+".state"),
			"--preset", "high", "--trust-docroot", "--no-self-check")
		t.Cleanup(n.stop)
		s.until("the notifier of "+name+" describes it", func() bool {
			resp, err := http.Get(s.base(name) + "robots.rdf")
			return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
		}, n)
	}
	return s
}

func (s *twoSites) base(name string) string { return s.web.URL + "/" + name + "/" }

func (s *twoSites) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

func (s *twoSites) write(name, text string) {
	s.t.Helper()
	err := os.MkdirAll(filepath.Dir(s.path(name)), 0o755)
	if err == nil {
		err = os.WriteFile(s.path(name), []byte(text), 0o644)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// until waits for a condition that a program should bring about.
func (s *twoSites) until(what string, ok func() bool, p *program) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if p.ended() || time.Now().After(end) {
			s.t.Fatalf("ended or timed out before %s: %s", what, p.said())
		}
	}
}

// requests returns the number of requests by path, and resets the counts.
func (s *twoSites) requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = map[string]int{}
	return asked
}

// pagesAsked counts the requests for single pages of a site.
func pagesAsked(asked map[string]int, name string) (n int) {
	for path, times := range asked {
		if strings.HasPrefix(path, "/"+name+"/") && strings.HasSuffix(path, ".html") {
			n += times
		}
	}
	return n
}

// holds counts the pages that a crawler stores.
func holds(c *crawling) (n int) {
	for _, is := range c.stands() {
		if strings.HasPrefix(is, "held") {
			n++
		}
	}
	return n
}

// Two sites below one host, each with a notifier of its own: both publish their pages, although one file at
// the root of the host can describe only one of them.
func TestTwoSitesOnOneHost(t *testing.T) {
	s := newTwoSites(t)
	for _, name := range []string{"docs", "blog"} {
		mirror := s.path(name + ".mirror")
		c := start(t, nil, "crawler", "follow", s.base(name), "--into", mirror, "--as", "page")
		s.until("the mirror of "+name+" equals the site", func() bool { return difference(tree(t, s.path(name)), tree(t, mirror)) == "" }, c)
		c.stop()
	}
}

// Both sites are crawled in batches, each by its own door, and their pages are not fetched one by one.
func TestTwoSitesAreCrawledInBatches(t *testing.T) {
	s := newTwoSites(t)
	s.requests()
	c := &crawling{t: t, dir: s.path("crawl"), args: []string{"crawl", s.base("docs") + "0.html", s.base("blog") + "0.html"}}
	c.start()
	c.finished()
	asked := s.requests()
	for _, name := range []string{"docs", "blog"} {
		if n := pagesAsked(asked, name); asked["/"+name+"/parley/batch"] == 0 || n > 2 { // a start page is fetched at once, and so is a page in a new directory
			t.Errorf("%s: %d batches, %d pages fetched one by one: %v\n%s", name, asked["/"+name+"/parley/batch"], n, asked, c.p.said())
		}
	}
	if n := holds(c); n != 2*twoPages {
		t.Errorf("%d pages are stored: %s", n, c.p.said())
	}
}

// Both sites are followed, and an edit of either is fetched when it is announced.
func TestTwoSitesAreStreamed(t *testing.T) {
	s := newTwoSites(t)
	c := &crawling{t: t, dir: s.path("run"), args: []string{"run", s.base("docs") + "0.html", s.base("blog") + "0.html"}}
	c.start()
	defer c.stop()
	asked := map[string]int{}
	s.until("both are stored and streamed", func() bool {
		all := holds(c) == 2*twoPages // evaluated before the requests are reset
		for path, n := range s.requests() {
			asked[path] += n
		}
		return asked["/docs/parley/stream"] > 0 && asked["/blog/parley/stream"] > 0 && all
	}, c.p)
	for _, name := range []string{"docs", "blog"} {
		if asked["/"+name+"/parley/batch"] == 0 {
			t.Errorf("%s gets no batch requests: %v", name, asked)
		}
		url, was := s.base(name)+"7.html", maps.Clone(c.stands())
		s.write(name+"/7.html", "<p>Page 7 of "+name+", in other words")
		s.until("an edit of "+name+" is fetched", func() bool { return c.stands()[url] != was[url] }, c.p)
	}
}
