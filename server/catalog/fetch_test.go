package catalog_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/catalog"
	"github.com/parleyweb/parley/server/inventory"
)

// Every story begins with a site of /a, /b and /c, which are listed, and which the first scan has fetched.
func TestFetchStories(t *testing.T) {
	for name, story := range map[string]func(w *world){
		"fetched pages are published": func(w *world) {
			it := w.item("a")
			if it.Digest != protocol.Sum([]byte("page a")) || it.Length != 6 || it.Type != "text/html" {
				w.Errorf("%+v", it)
			}
			w.look()
			if r := w.requests(); len(r) > 0 {
				w.Errorf("fetched again: %q", r)
			}
			w.wantTold()
		},
		"a changed page is found at its next check": func(w *world) {
			w.page("/b", "other")
			w.pass(25 * time.Hour)
			r := w.look()
			if r.Changed != 1 || r.Touched != 2 {
				w.Errorf("%+v", r)
			}
			w.wantTold("update b")
			asked := w.requests()
			slices.Sort(asked)
			if got := fmt.Sprint(asked); got != "[GET /a 304 GET /b 200 GET /c 304]" {
				w.Errorf("asked %s", got)
			}
			if m := w.item("a").Modified; !m.IsZero() {
				w.Errorf("a 304 moved modified to %v", m)
			}
		},
		"validators outlive the process": func(w *world) {
			w.restart()
			w.look()
			if r := w.requests(); len(r) > 0 {
				w.Errorf("fetched after a restart: %q", r)
			}
			w.pass(25 * time.Hour)
			w.restart()
			w.look()
			asked := w.requests()
			slices.Sort(asked)
			if got := fmt.Sprint(asked); got != "[GET /a 304 GET /b 304 GET /c 304]" {
				w.Errorf("asked %s", got)
			}
			w.wantTold()
		},
		"a changed list entry triggers a fetch": func(w *world) {
			w.write("urls", "url,modified\n/a,2026-10-30\n/b,\n/c,\n")
			w.look()
			if got := fmt.Sprint(w.requests()); got != "[GET /a 304]" {
				w.Errorf("asked %s", got)
			}
			w.wantTold() // the digest is unchanged
		},
		"a listed page that does not exist is deleted": func(w *world) {
			w.remove("/b")
			w.pass(25 * time.Hour)
			if r := w.look(); r.Held != 1 {
				w.Errorf("%+v", r)
			}
			w.pass(time.Minute)
			w.look()
			w.wantTold("delete b")
			w.page("/b", "back")
			w.pass(time.Hour)
			w.look()
			w.wantTold("create b")
		},
		"a listed page that does not exist is deleted under cron": func(w *world) {
			w.remove("/b")
			w.pass(25 * time.Hour)
			for range 2 {
				w.restart()
				w.publisher.Pace.Once = true
				w.look()
				w.pass(time.Hour)
			}
			w.wantTold("delete b")
		},
		"a page that is back at the next run": func(w *world) {
			w.remove("/b")
			w.pass(25 * time.Hour)
			w.restart()
			w.look()
			w.page("/b", "page b")
			w.restart()
			if r := w.look(); r.Returned != 1 {
				w.Errorf("%+v", r)
			}
			w.wantTold()
		},
		"a missing page that then fails with 500": func(w *world) {
			w.remove("/b")
			w.pass(25 * time.Hour)
			w.look()
			w.answer("/b", answer{status: 500})
			w.pass(time.Hour)
			w.restart()
			if r := w.look(); r.HeldNow != 1 || r.Returned != 0 {
				w.Errorf("%+v", r)
			}
			w.remove("/b")
			w.pass(time.Hour)
			w.restart()
			w.look()
			w.wantTold("delete b")
		},
		"noindex comes with a 304": func(w *world) {
			tag := fmt.Sprintf("%q", protocol.Sum([]byte("page a")).String()[9:20])
			w.answer("/a", answer{body: "page a", header: http.Header{"Etag": {tag}, "X-Robots-Tag": {"noindex"}}})
			w.pass(25 * time.Hour)
			w.look()
			if !slices.Contains(w.requests(), "GET /a 304") {
				w.Error("the response was not a 304")
			}
			w.wantTold("delete a")
		},
		"redirects and noindex pages are left out": func(w *world) {
			w.answer("/a", answer{status: 301, header: http.Header{"Location": {"/b"}}})
			w.answer("/b", answer{body: "x", header: http.Header{"X-Robots-Tag": {"unavailable_after: 25 Jun 2030 15:00:00 PST", "googlebot: nofollow, noindex"}}})
			w.answer("/c", answer{body: "<meta name=robots content=noindex>"})
			w.pass(25 * time.Hour)
			r := w.look()
			w.wantTold("delete a", "update b", "delete c")
			if w.catalog.Public(w.base+"a") || w.catalog.Public(w.base+"c") || !w.catalog.Public(w.base+"b") {
				w.Errorf("a left-out page is public, or a listed one is not: %+v", r)
			}
			got := w.leftOut()
			if got["a"] != "redirects" || got["c"] != "noindex" || len(got) != 2 {
				w.Errorf("left out %q", got)
			}
			w.answer("/b", answer{body: "x", header: http.Header{"X-Robots-Tag": {"max-snippet: 3, NoIndex"}}})
			w.page("/c", "index me")
			w.pass(25 * time.Hour)
			w.look()
			w.wantTold("delete b", "create c")
		},
		"a redirect loop is fetched once": func(w *world) {
			w.answer("/a", answer{status: 302, header: http.Header{"Location": {"/a"}}})
			w.pass(25 * time.Hour)
			w.look()
			n := 0
			for _, r := range w.requests() {
				if strings.HasPrefix(r, "GET /a ") {
					n++
				}
			}
			if n != 1 {
				w.Errorf("asked %d times", n)
			}
		},
		"a page over the limit": func(w *world) {
			w.page("/a", strings.Repeat("x", 2000))
			w.page("/c", strings.Repeat("x", 1000))
			w.answer("/b", answer{serve: func(rw http.ResponseWriter, r *http.Request) { // without a Content-Length
				rw.(http.Flusher).Flush()
				rw.Write([]byte(strings.Repeat("x", 1001)))
			}})
			w.pass(25 * time.Hour)
			w.look()
			w.wantTold("delete a", "delete b", "update c")
			if got := w.leftOut(); got["a"] != "too large" || got["b"] != "too large" {
				w.Errorf("left out are %q", got)
			}
		},
		"a failing server deletes nothing, and fetches pause": func(w *world) {
			for _, p := range []string{"/a", "/b", "/c"} {
				w.answer(p, answer{status: 503, header: http.Header{"Retry-After": {"120"}}})
			}
			w.pass(25 * time.Hour)
			w.look()
			w.wantTold()
			w.wantPages("a", "b", "c")
			w.requests()
			w.page("/a", "page a")
			w.pass(time.Minute)
			w.look()
			if r := w.requests(); len(r) != 0 {
				w.Errorf("asked %q within Retry-After", r)
			}
			w.pass(2 * time.Minute)
			w.look()
			if r := w.requests(); len(r) == 0 {
				w.Error("no request after Retry-After")
			}
		},
		"a response that never ends": func(w *world) {
			stop := make(chan struct{})
			w.Cleanup(func() { close(stop) })
			w.answer("/a", answer{serve: func(rw http.ResponseWriter, r *http.Request) {
				rw.Write([]byte("begin"))
				rw.(http.Flusher).Flush()
				select {
				case <-stop:
				case <-r.Context().Done():
				}
			}})
			w.pass(25 * time.Hour)
			w.look()
			w.wantTold()
			w.wantPages("a", "b", "c")
		},
		"a truncated response": func(w *world) {
			w.answer("/a", answer{serve: func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Content-Length", "100")
				rw.Write([]byte("only this"))
			}})
			w.pass(25 * time.Hour)
			w.look()
			w.wantTold()
		},
		"compression does not change the digest": func(w *world) {
			w.answer("/a", answer{serve: func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Content-Type", "text/html")
				gzipped(rw, r, "page a")
			}})
			w.pass(25 * time.Hour)
			w.look()
			w.wantTold()
		},
		"Last-Modified is used if the source has no date": func(w *world) {
			w.write("urls", "/a\n/b\n/c\n/d\n/e\n/f\n")
			at := func(d time.Duration) http.Header {
				return http.Header{"Last-Modified": {w.clock().Add(d).Format(http.TimeFormat)}, "Date": {w.clock().Format(http.TimeFormat)}}
			}
			w.answer("/d", answer{body: "d", header: at(-24 * time.Hour)})
			w.answer("/e", answer{body: "e", header: at(0)}) // generated just now by a program
			w.answer("/f", answer{body: "f", header: at(30 * 24 * time.Hour)})
			w.look()
			w.wantTold("create d", "create e", "create f")
			if m := w.item("d").Modified; !m.Equal(w.clock().Add(-24 * time.Hour)) {
				w.Errorf("d was modified %v", m)
			}
			for _, p := range []string{"e", "f"} { // dated when first seen
				if m := w.item(p).Modified; !m.Equal(w.clock()) {
					w.Errorf("%s was modified %v", p, m)
				}
			}
		},
		"an announcement is newer than the fetched page": func(w *world) {
			w.page("/b", "announced")
			d := protocol.Sum([]byte("announced"))
			length := int64(9)
			done := must.Get(w.publisher.Announce(w.Context(), []protocol.Announcement{{URL: w.base + "b", Digest: d, Length: &length, Type: "text/html"}}))
			if done.Updated != 1 {
				w.Errorf("%+v", done)
			}
			w.wantTold("update b")
			for range 3 {
				w.look()
			}
			w.wantTold()
			if got := w.item("b").Digest; got != d {
				w.Errorf("digest %v", got)
			}
		},
		"the title is read from the page": func(w *world) {
			w.answer("/a", answer{body: "<title>From the page</title>"})
			w.pass(25 * time.Hour)
			w.look()
			if got := w.item("a").Title; got != "From the page" {
				w.Errorf("title %q", got)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for _, p := range []string{"a", "b", "c"} {
				w.page("/"+p, "page "+p)
			}
			w.write("urls", "url,modified\n/a,\n/b,\n/c,\n")
			w.catalog.Sources = []catalog.Source{catalog.List(w.path("urls"))}
			w.catalog.Fetch = &catalog.Fetch{Rate: 1000, MaxBytes: 1000, Timeout: time.Second, Budget: 5 * time.Second, Features: features}
			w.restart()
			w.baseline()
			w.wantPages("a", "b", "c")
			w.requests()
			story(w)
		})
	}
}

// features extracts a title and noindex, roughly as the commands do.
func features(_ string, page []byte, _ bool) (f inventory.Features, err error) {
	s := string(page)
	if strings.Contains(s, "broken") {
		return f, errors.New("broken")
	}
	if _, rest, ok := strings.Cut(s, "<title>"); ok {
		f.Title, _, _ = strings.Cut(rest, "</title>")
	}
	f.NoIndex = strings.Contains(s, "noindex")
	return f, nil
}

// A scan takes no longer than its budget, and the next ones do the rest.
func TestFetchBudget(t *testing.T) {
	w := newWorld(t)
	list := ""
	for i := range 40 {
		w.page(fmt.Sprintf("/%02d", i), fmt.Sprint(i))
		list += fmt.Sprintf("/%02d\n", i)
	}
	w.write("urls", list)
	w.catalog.Sources = []catalog.Source{catalog.List(w.path("urls"))}
	w.catalog.Fetch = &catalog.Fetch{Rate: 50, Budget: 200 * time.Millisecond}
	w.restart()
	began := time.Now()
	r := w.baseline()
	if d := time.Since(began); d > 5*time.Second || r.New == 0 || r.New > 15 {
		t.Errorf("%d pages in %v, at 50 a second for 0.2 s", r.New, d)
	}
	looks := 1
	for ; w.journal.Len() < 40; looks++ {
		if looks > 50 {
			t.Fatalf("only %d pages after %d looks", w.journal.Len(), looks)
		}
		w.look()
	}
	// A request in flight when a scan's time is over is sent again.
	if got := len(w.requests()); got < 40 || got >= 40+looks {
		t.Errorf("%d requests for 40 pages in %d looks", got, looks)
	}
}

// While the Publisher runs, pages are fetched continuously, at the configured rate.
func TestFetchWhilePublisherRuns(t *testing.T) {
	w := newWorld(t)
	w.page("/a", "page a")
	w.write("urls", "/a\n")
	w.catalog.Sources = []catalog.Source{catalog.List(w.path("urls"))}
	w.catalog.Fetch = &catalog.Fetch{Rate: 100, Recheck: time.Hour}
	w.catalog.Every = 50 * time.Millisecond
	w.restart()
	w.publisher.Pace.Grace = time.Millisecond
	w.running()
	w.until("the first page", func() bool { return w.journal.Whole() && w.journal.Len() == 1 })
	w.cursor = w.journal.Head()

	w.page("/b", "page b")
	w.write("urls", "/a\n/b\n")
	w.until("the new page", func() bool { return w.journal.Len() == 2 })
	w.page("/a", "other")
	w.pass(2 * time.Hour)
	w.until("the change", func() bool { return w.item("a").Digest == protocol.Sum([]byte("other")) })
	// A single 404 is not a deletion.
	w.requests()
	w.remove("/b")
	w.pass(2 * time.Hour)
	w.untilAsked("GET /b 404")
	w.page("/b", "page b")
	w.pass(30 * time.Minute)
	w.until("asked again", func() bool {
		w.pass(time.Minute) // if the answer is recorded after the half hour, another half hour passes before the next request
		return slices.Contains(w.requests(), "GET /b 304")
	})
	w.remove("/b")
	w.pass(2 * time.Hour)
	w.until("the deletion", func() bool { w.pass(time.Minute); return w.journal.Len() == 1 })
	w.wantTold("create b", "update a", "delete b")
}

// untilAsked waits until the site has answered the given request.
func (w *world) untilAsked(what string) {
	w.Helper()
	w.until(what, func() bool { return slices.Contains(w.requests(), what) })
}

// While a page was being fetched, a newer version was announced.
func TestAnnouncementDuringFetchWins(t *testing.T) {
	w := newWorld(t)
	w.page("/b", "page b")
	w.write("urls", "/b\n")
	w.catalog.Sources = []catalog.Source{catalog.List(w.path("urls"))}
	w.catalog.Fetch = &catalog.Fetch{Rate: 100, Recheck: time.Hour}
	w.catalog.Every = 20 * time.Millisecond
	w.restart()
	w.running()
	w.until("the first page", func() bool { return w.journal.Whole() && w.journal.Len() == 1 })
	w.cursor = w.journal.Head()

	asked, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.answer("/b", answer{serve: func(rw http.ResponseWriter, r *http.Request) {
		first := false
		once.Do(func() { first = true })
		rw.Header().Set("Content-Type", "text/html")
		if !first {
			fmt.Fprint(rw, "announced")
			return
		}
		close(asked)
		<-release
		fmt.Fprint(rw, "old")
	}})
	w.requests()
	w.pass(2 * time.Hour)
	<-asked
	d, length := protocol.Sum([]byte("announced")), int64(9)
	must.Get(w.publisher.Announce(t.Context(), []protocol.Announcement{{URL: w.base + "b", Digest: d, Length: &length, Type: "text/html"}}))
	close(release)
	n := 0
	w.until("it is fetched again", func() bool { n += len(w.requests()); return n > 1 })
	w.until("its result is stored", func() bool {
		e, _, err := w.journal.Get(w.base + "b")
		w.must(err)
		return strings.HasPrefix(string(e.Stamp), "parley/fetched:")
	})
	if got := w.item("b").Digest; got != d {
		t.Errorf("digest %v, want %v", got, d)
	}
	w.wantTold("update b")
}

// A page that a feed no longer lists still exists until the server has answered twice that it is gone.
func TestFetchWithPartialSource(t *testing.T) {
	w := newWorld(t)
	rss := `<?xml version="1.0"?><rss version="2.0"><channel><title>t</title>`
	for _, p := range []string{"a", "b"} {
		w.page("/"+p, "page "+p)
		rss += "<item><link>" + w.base + p + "</link></item>"
	}
	w.page("/feed", rss+"</channel></rss>")
	w.catalog.Sources = []catalog.Source{catalog.Feed(w.base + "feed")}
	w.catalog.Fetch = &catalog.Fetch{Rate: 1000}
	w.restart()
	w.baseline()
	w.wantPages("a", "b")
	w.remove("/b")
	w.pass(25 * time.Hour)
	w.look()
	w.wantTold()
	w.pass(time.Minute)
	w.look()
	w.wantTold("delete b")
}

// Page fetches stop when the server keeps failing.
func TestFetchPausesWhenServerFails(t *testing.T) {
	w := newWorld(t)
	list := ""
	for i := range 200 {
		w.answer(fmt.Sprintf("/%d", i), answer{status: 500})
		list += fmt.Sprintf("/%d\n", i)
	}
	w.write("urls", list)
	w.catalog.Sources = []catalog.Source{catalog.List(w.path("urls"))}
	w.catalog.Fetch = &catalog.Fetch{Rate: 1000}
	w.restart()
	w.baseline()
	if n := len(w.requests()); n < 5 || n > 30 {
		t.Errorf("%d requests", n)
	}
	w.look()
	if r := w.requests(); len(r) > 0 {
		t.Errorf("fetched without a pause: %q", r)
	}
	w.pass(2 * time.Minute)
	w.look()
	if r := w.requests(); len(r) == 0 {
		t.Error("no request after the pause")
	}
}

// A page whose Last-Modified is the time of the request has no date unless another source has one.
func TestNoDateForPageModifiedAtRequestTime(t *testing.T) {
	w := newWorld(t)
	now := http.Header{"Last-Modified": {w.clock().Format(http.TimeFormat)}, "Date": {w.clock().Format(http.TimeFormat)}}
	w.answer("/a", answer{body: "a", header: now})
	w.write("urls", "/a\n")
	w.catalog.Sources = []catalog.Source{catalog.List(w.path("urls"))}
	w.catalog.Fetch = &catalog.Fetch{Rate: 1000}
	w.restart()
	w.baseline()
	if m := w.item("a").Modified; !m.IsZero() {
		t.Errorf("modified %v", m)
	}
}
