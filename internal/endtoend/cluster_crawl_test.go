package endtoend

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/nats/natstest"
)

// hostsOfPages are web servers, each with a number of pages, that note how often each page was fetched, and which request came too early.
type hostsOfPages struct {
	starts []string
	pages  int
	wait   time.Duration

	mu      sync.Mutex // guards the rest
	fetched map[string]bool
	ended   map[string]time.Time // the last request to each host
	early   []string
}

func serveHosts(t *testing.T, hosts, pages int, wait time.Duration) *hostsOfPages {
	w := &hostsOfPages{pages: pages, wait: wait, fetched: map[string]bool{}, ended: map[string]time.Time{}}
	for i := range hosts {
		l, err := net.Listen("tcp", fmt.Sprintf("127.7.0.%d:0", i+1))
		if err != nil {
			t.Skip("this system has one loopback address: ", err)
		}
		s := &http.Server{Handler: w}
		go s.Serve(l)
		t.Cleanup(func() { s.Close() })
		w.starts = append(w.starts, "http://"+l.Addr().String()+"/")
	}
	return w
}

func (w *hostsOfPages) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	began := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if gap := began.Sub(w.ended[r.Host]); gap < w.wait {
		w.early = append(w.early, fmt.Sprintf("%s%s %v after the last request", r.Host, r.URL.Path, gap))
	}
	defer func() { w.ended[r.Host] = time.Now() }()
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/"), ".html")) // the crawler also asks for pages that cannot be there
	switch {
	case r.URL.Path == "/":
		for i := range w.pages - 1 {
			fmt.Fprintf(rw, `<a href="/%d.html">%d</a> `, i, i)
		}
	case err == nil && n < w.pages-1:
		fmt.Fprint(rw, "<p>", r.Host, r.URL.Path)
	default:
		http.NotFound(rw, r)
		return
	}
	w.fetched["http://"+r.Host+r.URL.Path] = true
}

func (w *hostsOfPages) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.fetched)
}

// Three machines share a crawl, and each is killed once by kill -9 and started again. All pages are fetched and stored, no host gets a request
// too early, and a reader of events has each page once. (V29)
func TestMachinesOfACrawlAreKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts six programs")
	}
	const hosts, pages = 12, 20
	w := serveHosts(t, hosts, pages, 100*time.Millisecond)
	servers, dir := natstest.Start(t, 3).URLs(), t.TempDir()
	r := &rig{t: t}
	nodes := make([]*program, 3)
	node := func(i int) {
		args := append([]string{"run", "--into", filepath.Join(dir, fmt.Sprint(i)), "--cluster", servers, "--partitions", "6", "--lease", "2s", "--allow-private", "--contact", "a@example.net",
			"--wait", "100ms", "--wait-big", "100ms", "--log-level", "warn"}, w.starts...)
		nodes[i] = start(t, nodes[i], "crawler", args...)
	}
	t.Cleanup(func() {
		for i, n := range nodes {
			if n.stop(); t.Failed() {
				t.Logf("node %d:\n%s", i, n.said())
			}
		}
	})
	for i := range nodes {
		node(i)
	}
	for i := range nodes {
		r.until("a part of the pages is fetched", func() bool { return w.count() >= (i+1)*hosts*pages/5 })
		nodes[i].kill9()
		r.until("the others go on", func() bool { return w.count() >= (i+1)*hosts*pages/5+5 })
		node(i)
	}
	r.until("all pages are fetched", func() bool { return w.count() == hosts*pages })
	told := func() (urls []string) {
		out, code := run(t, "crawler", "events", "--cluster", servers)
		if code != 0 {
			t.Logf("events: exit code %d: %s", code, out)
		}
		for line := range strings.Lines(out) {
			var e struct{ Op, URL string }
			if json.Unmarshal([]byte(line), &e) == nil && e.Op == "create" {
				urls = append(urls, e.URL)
			}
		}
		return urls
	}
	var urls []string
	r.until("all pages are told", func() bool { urls = told(); return len(urls) >= hosts*pages })
	slices.Sort(urls)
	if n := len(slices.Compact(slices.Clone(urls))); n != hosts*pages || len(urls) != n {
		t.Errorf("%d events of %d pages, instead of %d", len(urls), n, hosts*pages)
	}
	out, _ := run(t, "crawler", "pages", "--cluster", servers, "--state", "held", "--format", "json")
	if n := strings.Count(out, `"state":"held"`); n != hosts*pages {
		t.Errorf("%d pages are stored, instead of %d", n, hosts*pages)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.early {
		t.Error(e)
	}
}
