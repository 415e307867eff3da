package endtoend

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/front"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// A crawler that crawls a site again fetches only the pages that the manifest reports as changed, and not
// even the manifest if it is unchanged.
func TestRecrawlFetchesOnlyChangedPages(t *testing.T) {
	for _, stream := range []bool{true, false} {
		t.Run(fmt.Sprint("stream ", stream), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			for i := range 300 {
				r.write(fmt.Sprintf("d%d/p%d.html", i%7, i), fmt.Sprintf("<title>%d</title><p>This is page %d.", i, i))
			}
			var flags []string
			if !stream {
				flags = append(flags, "--no-streams")
			}
			r.startNotifier()
			c := &crawling{t: t, dir: t.TempDir(), args: append([]string{"crawl", r.base}, flags...)}
			crawl := func() map[string]int {
				t.Helper()
				r.web.Requests()
				c.start()
				c.finished()
				asked := r.web.Requests()
				maps.DeleteFunc(asked, func(path string, _ int) bool { return !isFile(r.path(path)) }) // the site's answers for missing files
				return asked
			}
			if n := len(crawl()); n != 300 {
				t.Fatalf("the first crawl fetched %d pages of 300", n)
			}
			told := 0
			for round, n := range []int{10, 0} {
				var want []string
				for i := range n {
					name := fmt.Sprintf("d%d/p%d.html", (round*20+i)%7, round*20+i)
					want = append(want, "/"+name)
					r.write(name, fmt.Sprintf("<title>%d</title><p>This is page %d, in edition %d.", i, i, round))
				}
				told += n
				r.until("the manifest has the edits", func() bool { return int(r.listed().Seq) == told })
				before := r.web.Crawler()
				exactlyOnce(t, fmt.Sprint("after ", n, " edits"), crawl(), want)
				if cost := r.web.Crawler().Sub(before); cost.Bytes > 4000+2500*int64(n) {
					t.Errorf("after %d edits the crawl has cost %d bytes", n, cost.Bytes)
				}
			}
		})
	}
}

// listed returns the cursor of the manifest.
func (r *rig) listed() protocol.Cursor {
	r.t.Helper()
	resp := must.Get(http.Get(r.base + "robots.rdf"))
	defer resp.Body.Close()
	m := must.Get(readManifest(resp.Body))
	return m.Cursor
}

// A crawl that ends reports the pages that the site announced and that could not be fetched.
func TestCrawlReportsPendingFetches(t *testing.T) {
	r := newRig(t)
	r.write("index.html", "<title>home</title>")
	for i := range 5 {
		r.write(fmt.Sprintf("p%d.html", i), fmt.Sprint("<title>page</title>", i))
	}
	r.startNotifier()
	out, code := run(t, "crawler", "crawl", r.base, "--into", t.TempDir(), "--allow-private", "--wait", "0", "--stop-pages", "2")
	if code != 0 || !strings.Contains(out, "4 listed pages were not fetched (4: page limit reached)") {
		t.Errorf("the crawl exits with %d: %s", code, out)
	}
}

// A crawl does not fetch pages announced by a site that lied before, and reports that when it ends.
func TestCrawlReportsIgnoredAnnouncements(t *testing.T) {
	crawls := 0
	mux := http.NewServeMux()
	web := httptest.NewServer(mux)
	defer web.Close()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" && !strings.HasPrefix(r.URL.Path, "/p") {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<title>%s</title><p>This is what has always stood here, at %s.", r.URL.Path, r.URL.Path)
	})
	mux.HandleFunc("/robots.rdf", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", protocol.ManifestType)
		m := protocol.Manifest{URL: web.URL + "/robots.rdf", Base: web.URL + "/", Complete: true, Items: 40, Cursor: protocol.Cursor{Epoch: "liar", Seq: uint64(crawls)}}
		protocol.WriteManifest(w, m, func(yield func(protocol.Item, error) bool) {
			for i := 10; i < 50; i++ {
				u := fmt.Sprintf("%s/p%d.html", web.URL, i)
				if !yield(protocol.Item{URL: u, Modified: time.Now().UTC().Truncate(time.Second), Digest: protocol.Sum(fmt.Append(nil, u, crawls))}, nil) {
					return
				}
			}
		}, nil)
	})
	dir := t.TempDir()
	for crawls = 1; crawls <= 2; crawls++ {
		out, code := run(t, "crawler", "crawl", web.URL+"/", "--into", dir, "--allow-private", "--wait", "0", "--hurry", "10ms")
		if said := strings.Contains(out, "announced changes were ignored"); code != 0 || said != (crawls == 2) {
			t.Errorf("crawl %d exits with %d: %s", crawls, code, out)
		}
	}
}

// A crawl that obtains nothing fails, and says why.
func TestCrawlWithoutPagesFails(t *testing.T) {
	out, code := run(t, "crawler", "crawl", "http://"+front.FreeAddress()+"/", "--into", t.TempDir(), "--allow-private", "--wait", "0", "--patience", "1ms")
	if code != 1 || !strings.Contains(out, "connection refused") || !strings.Contains(out, "no page was obtained") {
		t.Errorf("the crawl exits with %d: %s", code, out)
	}
}
