package probe_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/probe"
	"github.com/parleyweb/parley/internal/sitetest"
	"github.com/parleyweb/parley/protocol"
)

// A web is a handful of hosts in process. It records all requests with their times,
// and whether two were concurrent.
type web struct {
	mu    sync.Mutex
	hosts map[string]http.HandlerFunc
	log   []line
	busy  int
	twice bool
}

type line struct {
	url        string
	begin, end time.Time
}

func (w *web) RoundTrip(req *http.Request) (*http.Response, error) {
	w.mu.Lock()
	h := w.hosts[req.URL.Host]
	w.busy++
	w.twice = w.twice || w.busy > 1
	begin := time.Now()
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.busy--
		w.log = append(w.log, line{req.URL.String(), begin, time.Now()})
		w.mu.Unlock()
	}()
	if h == nil {
		return nil, fmt.Errorf("no such host: %s", req.URL.Host)
	}
	if req.Header.Get("User-Agent") == "" || req.Header.Get("User-Agent") == "Go-http-client/1.1" {
		return nil, fmt.Errorf("request without a User-Agent")
	}
	rec := httptest.NewRecorder()
	h(rec, req)
	resp := rec.Result()
	resp.Request = req
	return resp, nil
}

// probeOf probes a site of one host, without waiting.
func probeOf(t *testing.T, h http.HandlerFunc, change ...func(*probe.Prober)) (*probe.Report, *web) {
	t.Helper()
	w := &web{hosts: map[string]http.HandlerFunc{"example.org": h}}
	p := &probe.Prober{HTTP: &http.Client{Transport: w}, Agent: "TestBot/1.0", Wait: -1}
	for _, c := range change {
		c(p)
	}
	r := must.Get(p.Probe(context.Background(), "https://example.org/"))
	if w.twice {
		t.Error("two concurrent requests")
	}
	if r.Requests != len(w.log) {
		t.Errorf("%d requests are reported, %d were sent", r.Requests, len(w.log))
	}
	must.OK(t, r.WriteText(io.Discard))
	return r, w
}

const day = 24 * time.Hour

// plain is a site that behaves like a web server with files.
func plain(files map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		text, ok := files[r.URL.RequestURI()]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if strings.HasPrefix(text, "<!DOCTYPE") {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
		}
		http.ServeContent(w, r, "", time.Now().Add(-40*day), strings.NewReader(text))
	}
}

func sitemapOf(n int, date func(i int) time.Time) string {
	var b strings.Builder
	b.WriteString(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
	for i := range n {
		fmt.Fprintf(&b, "<url><loc>https://example.org/p%d.html</loc>", i)
		if t := date(i); !t.IsZero() {
			fmt.Fprintf(&b, "<lastmod>%s</lastmod>", t.UTC().Format(time.RFC3339))
		}
		b.WriteString("</url>")
	}
	return b.String() + "</urlset>"
}

func pagesOf(files map[string]string, n int) map[string]string {
	for i := range n {
		files[fmt.Sprintf("/p%d.html", i)] = fmt.Sprintf("<!DOCTYPE html><title>%d</title>", i)
	}
	return files
}

func TestParleySite(t *testing.T) {
	site := sitetest.NewSite(t, map[string]string{
		"index.html": "<!DOCTYPE html><title>Home</title><a href=a.html>a</a>", "a.html": "<!DOCTYPE html><title>A</title>", "b.html": "<!DOCTYPE html><title>B</title>"})
	p := &probe.Prober{Agent: "TestBot/1.0", Wait: -1}
	r := must.Get(p.Probe(t.Context(), site.Base))
	m := r.Manifest
	if m == nil || m.Items != 3 || m.Digests != 3 || !m.Complete || m.Cursor == "" || m.NotModified != "304" || !m.ChangesOpen || !m.StreamOpen {
		t.Fatalf("manifest: %+v (%s)", m, r.Fault)
	}
	if r.Cost == nil || r.Cost.Pages != 3 || !r.Cost.AllPages {
		t.Fatalf("cost: %+v", r.Cost)
	}
	for _, d := range r.Cost.Doors {
		if want := d.Name != "sitemap" && d.Name != "feed"; d.Offered != want {
			t.Errorf("door %s: offered %v, want %v", d.Name, d.Offered, want)
		}
	}
	if r.Requests > 20 {
		t.Errorf("%d requests", r.Requests)
	}
}

// Of a manifest in parts the index says how many items there are.
func TestManifestInParts(t *testing.T) {
	w := &protocol.Whole{Cursor: protocol.Cursor{Epoch: "e", Seq: 7}, Items: 300}
	for i := range 3 {
		w.Parts = append(w.Parts, protocol.Part{URL: fmt.Sprintf("https://example.org/parts/%d.rdf", i), Seq: 7, Items: 100, Length: 1000, Digest: protocol.Sum(nil)})
	}
	var b strings.Builder
	m := protocol.Manifest{URL: "https://example.org/robots.rdf", Base: "https://example.org/", Items: 1, Whole: w}
	must.OK(t, protocol.WriteManifest(&b, m, func(yield func(protocol.Item, error) bool) {
		yield(protocol.Item{URL: "https://example.org/p1.html", Length: -1}, nil)
	}, nil))
	r, _ := probeOf(t, plain(pagesOf(map[string]string{"/": "<!DOCTYPE html><title>Home</title>", "/robots.rdf": b.String()}, 3)))
	var text strings.Builder
	if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), "300 items in 3 parts") {
		t.Errorf("%v\n%s", err, text.String())
	}
	if m := r.Manifest; m == nil || m.Items != 300 || m.Parts != 3 || !m.Complete || m.Cursor != "e:7" || r.Cost == nil || r.Cost.Pages != 300 || !r.Cost.AllPages {
		t.Errorf("manifest %+v, cost %+v", m, r.Cost)
	}
}

func TestSiteWithoutSources(t *testing.T) {
	r, _ := probeOf(t, plain(map[string]string{"/": "<!DOCTYPE html><html lang=en><title>Home</title><a href=x>x</a><a href=y>y</a>"}))
	p := r.Page
	if p.Status != 200 || p.Title != "Home" || p.Language != "en" || p.Links != 2 || p.ByDate != "304" || p.ByETag != "" {
		t.Errorf("page: %+v", p)
	}
	if r.Robots.Status != 404 || !r.Robots.Allowed || r.Manifest != nil || len(r.Feeds)+len(r.Sitemaps) != 0 || r.Missing.Verdict != "honest" {
		t.Errorf("report: %+v", r)
	}
	if c := r.Cost; c.Pages != 3 || c.AllPages || c.Dates != "" || !c.Doors[1].Offered || c.Doors[6].Offered {
		t.Errorf("cost: %+v", c)
	}
	if !strings.HasPrefix(r.Twin.Verdict, "unreachable") {
		t.Errorf("twin: %+v", r.Twin)
	}
}

func TestHonestDatesAndFeeds(t *testing.T) {
	now := time.Now()
	r, _ := probeOf(t, plain(pagesOf(map[string]string{
		"/":           `<!DOCTYPE html><title>Home</title><link rel=alternate type=application/rss+xml href=/feed.xml>`,
		"/robots.txt": "User-agent: *\nCrawl-delay: 7\nSitemap: https://example.org/map.xml\nSitemap: https://elsewhere.example/map.xml\n",
		"/map.xml":    sitemapOf(40, func(i int) time.Time { return now.Add(-40*day - time.Duration(i)*30*time.Minute) }),
		"/feed.xml":   `<rss version="2.0"><channel><title>f</title><link>https://example.org/</link><item><title>a</title><link>https://example.org/p1.html</link></item></channel></rss>`,
	}, 40)))
	if len(r.Sitemaps) != 1 || r.Sitemaps[0].Pages != 40 || r.Sitemaps[0].Dates.Verdict != "plausible" || r.Sitemaps[0].NotModified != "304" || r.SitemapsUnread != 1 {
		t.Errorf("sitemaps: %+v, %d not read", r.Sitemaps, r.SitemapsUnread)
	}
	if s := r.Sample; s == nil || s.Asked != 5 || s.Agree != 5 || s.Dead != 0 {
		t.Errorf("sample: %+v", r.Sample)
	}
	if len(r.Feeds) != 1 || r.Feeds[0].Entries != 1 || r.Feeds[0].NotModified != "304" {
		t.Errorf("feeds: %+v", r.Feeds)
	}
	c := r.Cost
	if r.Robots.Delay != 7*time.Second || c.Delay != 15*time.Second || c.Dates != "its sitemaps" || c.Pages != 40 {
		t.Errorf("robots %+v, cost %+v", r.Robots, c)
	}
	if !c.Doors[2].Offered || !c.Doors[3].Offered {
		t.Errorf("doors: %+v", c.Doors)
	}
	// All that polls reaches the freshness; fewer requests the more a door tells.
	for i, d := range c.Doors {
		if d.Freshness < 0.9-1e-6 {
			t.Errorf("%s: freshness %v", d.Name, d.Freshness)
		}
		if i > 1 && d.Requests >= c.Doors[0].Requests {
			t.Errorf("%s: %v requests, no fewer than without it (%v)", d.Name, d.Requests, c.Doors[0].Requests)
		}
	}
	if get, cond := c.Doors[0], c.Doors[1]; cond.Bytes >= get.Bytes {
		t.Errorf("conditional requests cost %v bytes, others %v", cond.Bytes, get.Bytes)
	}
}

func TestUselessSitemapDates(t *testing.T) {
	for verdict, date := range map[string]func(int) time.Time{
		"always now": func(int) time.Time { return time.Now() },
		"all alike":  func(int) time.Time { return time.Now().Add(-3 * day) },
		"absurd":     func(int) time.Time { return time.Unix(0, 0) },
		"none":       func(int) time.Time { return time.Time{} },
	} {
		files := pagesOf(map[string]string{"/": "<!DOCTYPE html>"}, 30)
		r, _ := probeOf(t, func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/sitemap.xml" {
				io.WriteString(w, sitemapOf(30, date))
				return
			}
			plain(files)(w, req)
		})
		if len(r.Sitemaps) != 1 || r.Sitemaps[0].Dates.Verdict != verdict {
			t.Errorf("%s: %+v", verdict, r.Sitemaps)
			continue
		}
		if r.Cost.Doors[2].Offered {
			t.Errorf("%s: the sitemap is reported as a usable door", verdict)
		}
		if r.Cost.Dates != "the Last-Modified of a few pages" {
			t.Errorf("%s: rates are estimated from %q", verdict, r.Cost.Dates)
		}
	}
}

func TestSoft404(t *testing.T) {
	home := "<!DOCTYPE html><title>Home</title>"
	for verdict, h := range map[string]http.HandlerFunc{
		"honest":                               plain(map[string]string{"/": home}),
		"soft: answered like an existing page": func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, home) },
		"soft: redirects to the probed page": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" {
				http.Redirect(w, r, "/", http.StatusFound)
				return
			}
			io.WriteString(w, home)
		},
		"soft: redirects to another site": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" && r.URL.Path != "/robots.txt" {
				http.Redirect(w, r, "https://parked.example/", http.StatusFound)
				return
			}
			io.WriteString(w, home)
		},
	} {
		if r, _ := probeOf(t, h); r.Missing == nil || r.Missing.Verdict != verdict {
			t.Errorf("%+v, want %s", r.Missing, verdict)
		}
	}
}

func TestWWWTwin(t *testing.T) {
	home := plain(map[string]string{"/": "<!DOCTYPE html><title>Home</title>"})
	for verdict, h := range map[string]http.HandlerFunc{
		"same site: same page": home,
		"same site: redirects here": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://example.org"+r.URL.Path, http.StatusMovedPermanently)
		},
		"another page, or one that differs at each request": plain(map[string]string{"/": "<!DOCTYPE html>Another"}),
		"forbidden by its robots.txt":                       plain(map[string]string{"/robots.txt": "User-agent: *\nDisallow: /"}),
	} {
		w := &web{hosts: map[string]http.HandlerFunc{"example.org": home, "www.example.org": h}}
		r := must.Get((&probe.Prober{HTTP: &http.Client{Transport: w}, Wait: -1}).Probe(t.Context(), "example.org"))
		if r.Twin == nil || r.Twin.Origin != "https://www.example.org" || r.Twin.Verdict != verdict {
			t.Errorf("%+v, want %s", r.Twin, verdict)
		}
	}
}

func TestPageRedirectsToAnotherOrigin(t *testing.T) {
	w := &web{hosts: map[string]http.HandlerFunc{
		"example.org": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://www.example.org"+r.URL.Path, http.StatusMovedPermanently)
		},
		"www.example.org": plain(map[string]string{"/": "<!DOCTYPE html>Home"}),
	}}
	r, err := (&probe.Prober{HTTP: &http.Client{Transport: w}, Wait: -1}).Probe(t.Context(), "https://example.org/")
	if err != nil || r.Origin != "https://www.example.org" || len(r.Moved) != 1 || r.Page.Status != 200 || r.Fault != "" {
		t.Errorf("%+v, %v", r, err)
	}
}

// URLs that robots.txt forbids are not fetched, whatever else names them.
func TestRobotsTxtIsObeyed(t *testing.T) {
	files := pagesOf(map[string]string{
		"/robots.txt":  "User-agent: testbot\nDisallow: /p\nDisallow: /feed\nDisallow: /.well-known/\nDisallow: /robots.rdf\nSitemap: /sitemap.xml\n",
		"/":            "<!DOCTYPE html><link rel=alternate type=application/rss+xml href=/feed.xml>",
		"/sitemap.xml": sitemapOf(20, func(int) time.Time { return time.Time{} }),
		"/feed.xml":    "<rss/>",
	}, 20)
	r, w := probeOf(t, plain(files))
	for _, l := range w.log {
		for _, bad := range []string{"/p", "/feed", "/.well-known", "/robots.rdf"} {
			if strings.HasPrefix(l.url, "https://example.org"+bad) {
				t.Errorf("%s was fetched", l.url)
			}
		}
	}
	if !r.Robots.Named || r.Sample.Forbidden == 0 || len(r.Forbidden) < 3 {
		t.Errorf("robots %+v, sample %+v, forbidden %+v", r.Robots, r.Sample, r.Forbidden)
	}

	// Nothing at all may be fetched while it is unavailable.
	for _, status := range []int{500, 503} {
		r, w = probeOf(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) })
		if len(w.log) != 1 || r.Fault == "" {
			t.Errorf("status %d: %d requests, fault %q", status, len(w.log), r.Fault)
		}
	}
	r, w = probeOf(t, plain(map[string]string{"/robots.txt": "User-agent: *\nDisallow: /"}))
	for _, l := range w.log {
		if !strings.HasSuffix(l.url, "/robots.txt") {
			t.Errorf("%s was fetched", l.url)
		}
	}
	if r.Robots.Allowed {
		t.Error("everything is forbidden, but Allowed is true")
	}
}

func TestProbeEndsOn429(t *testing.T) {
	n := 0
	r, w := probeOf(t, func(w http.ResponseWriter, r *http.Request) {
		if n++; n == 4 {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(429)
			return
		}
		plain(map[string]string{"/": "<!DOCTYPE html>"})(w, r)
	})
	if len(w.log) != 4 || !strings.Contains(r.Fault, "asked for fewer requests") || r.Page.Status != 200 {
		t.Errorf("%d requests, fault %q, page %+v", len(w.log), r.Fault, r.Page)
	}
}

// Whatever a site does, the probe ends, within its number of requests.
func TestHostileSites(t *testing.T) {
	size := 100 << 20 // over the limit of a document, of which there are several
	if testing.Short() {
		size = 8 << 20 // over that of a page
	}
	bomb := func() []byte {
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
		for range size >> 20 {
			z.Write(make([]byte, 1<<20))
		}
		z.Close()
		return b.Bytes()
	}()
	n := 0
	for what, h := range map[string]http.HandlerFunc{
		"endless redirects": func(w http.ResponseWriter, r *http.Request) {
			n++
			http.Redirect(w, r, fmt.Sprint("/", n), http.StatusFound)
		},
		"redirects to itself": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) },
		"redirects nowhere":   func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(301) },
		"endless sitemaps": func(w http.ResponseWriter, r *http.Request) {
			n++
			fmt.Fprint(w, `<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
			for i := range 1000 {
				fmt.Fprintf(w, "<sitemap><loc>https://example.org/%d-%d.xml</loc></sitemap>", n, i)
			}
			fmt.Fprint(w, `</sitemapindex>`)
		},
		"decompression bombs": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(bomb)
		},
		"invalid gzip": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			io.WriteString(w, "not that")
		},
		"a thousand feeds": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			for i := range 1000 {
				fmt.Fprintf(w, "<link rel=alternate type=application/rss+xml href=/f%d>", i)
				w.Header().Add("Link", fmt.Sprintf("<h%d>; rel=hub", i))
			}
		},
		"broken dates": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Last-Modified", "Thu, 99 Xxx 99999 25:61:61 GMT")
			w.Header().Set("ETag", "\x00\"")
			io.WriteString(w, sitemapOf(100, func(i int) time.Time { return time.Unix(int64(i)<<40, 0) }))
		},
		"every path answers with its name": func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path) },
		"errors":                           func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(418) },
		"an odd status":                    func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(999) },
		"an unexpected 206":                func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(206) },
	} {
		r, _ := probeOf(t, h)
		if r.Requests > 40 {
			t.Errorf("%s: %d requests", what, r.Requests)
		}
		if len(r.Hubs) > 10 {
			t.Errorf("%s: %d hubs", what, len(r.Hubs))
		}
	}
}

func TestMaxRequests(t *testing.T) {
	files := pagesOf(map[string]string{"/": "<!DOCTYPE html>", "/sitemap.xml": sitemapOf(20, func(int) time.Time { return time.Time{} })}, 20)
	r, w := probeOf(t, plain(files), func(p *probe.Prober) { p.MaxRequests = 5 })
	if len(w.log) != 5 || r.Fault == "" || r.Cost == nil {
		t.Errorf("%d requests, fault %q, cost %v", len(w.log), r.Fault, r.Cost)
	}
}

func TestWaitAndCrawlDelay(t *testing.T) {
	r, _ := probeOf(t, plain(map[string]string{"/": "<!DOCTYPE html>", "/robots.txt": "User-agent: *\nCrawl-delay: 60"}))
	if r.Cost.Delay != time.Minute {
		t.Errorf("the cost assumes a request every %v, want every minute", r.Cost.Delay)
	}
	for robots, gap := range map[string]time.Duration{
		"":                                2 * time.Second,
		"User-agent: *\nCrawl-delay: 10":  10 * time.Second,
		"User-agent: *\nCrawl-delay: 300": 5 * time.Minute,
	} {
		synctest.Test(t, func(t *testing.T) {
			files := plain(pagesOf(map[string]string{"/": "<!DOCTYPE html>", "/robots.txt": robots, "/sitemap.xml": sitemapOf(20, func(int) time.Time { return time.Time{} })}, 20))
			slow := func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(700 * time.Millisecond)
				files(w, r)
			}
			begin := time.Now()
			r, w := probeOf(t, slow, func(p *probe.Prober) { p.Wait = 0 })
			if took := time.Since(begin); took > 30*time.Minute || len(w.log) < 3 || (gap > time.Minute) != (r.Fault != "") {
				t.Errorf("%q: %d requests in %v, fault %q", robots, len(w.log), took, r.Fault)
			}
			for i, l := range w.log[1:] {
				if strings.HasPrefix(l.url, "https://www.") {
					continue // a robots.txt of its own
				}
				if got := l.begin.Sub(w.log[i].end); got < gap {
					t.Errorf("%s begins %v after the previous response, want %v", l.url, got, gap)
				}
			}
		})
	}
}

func TestCanceledProbeAndInvalidURL(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := &web{hosts: map[string]http.HandlerFunc{"example.org": func(http.ResponseWriter, *http.Request) { cancel() }}}
	r, err := (&probe.Prober{HTTP: &http.Client{Transport: w}, Wait: -1}).Probe(ctx, "https://example.org/")
	if err == nil || r != nil {
		t.Errorf("%+v, %v", r, err)
	}
	for _, u := range []string{"", "ftp://example.org/", "https://", "https://a:b@example.org/"} {
		if _, err := new(probe.Prober).Probe(t.Context(), u); err == nil {
			t.Errorf("no error for the URL %q", u)
		}
	}
}

func TestReportRoundTrip(t *testing.T) {
	r, _ := probeOf(t, plain(pagesOf(map[string]string{
		"/":            "<!DOCTYPE html><title>Home \x1b[2J\u202e</title>",
		"/sitemap.xml": sitemapOf(20, func(i int) time.Time { return time.Now().Add(-time.Duration(i) * day) })}, 20)))
	var b bytes.Buffer
	must.OK(t, json.NewEncoder(&b).Encode(r))
	var again probe.Report
	must.OK(t, json.Unmarshal(b.Bytes(), &again))
	var one, two bytes.Buffer
	r.WriteText(&one)
	again.WriteText(&two)
	if one.String() != two.String() || !reflect.DeepEqual(r.Cost, again.Cost) {
		t.Errorf("read back:\n%s\nwant\n%s", &two, &one)
	}
	for _, c := range one.String() {
		if c < ' ' && c != '\n' || c == '\u202e' {
			t.Errorf("the text contains %q", c)
		}
	}
	t.Log("\n" + one.String())
}

func FuzzProbe(f *testing.F) {
	f.Add("User-agent: *", "<link rel=alternate type=application/atom+xml href=f>", "<urlset/>", "<feed/>", `<h>; rel="hub", </f>; rel=alternate; type="application/rss+xml"`)
	f.Add("Sitemap: /x\nManifest: /y", "<a href=b>", "<sitemapindex>", "{", `<`)
	f.Fuzz(func(t *testing.T, robots, home, sitemap, other, link string) {
		w := &web{hosts: map[string]http.HandlerFunc{"example.org": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", link)
			switch r.URL.Path {
			case "/robots.txt":
				io.WriteString(w, robots)
			case "/":
				w.Header().Set("Content-Type", "text/html")
				io.WriteString(w, home)
			case "/sitemap.xml":
				io.WriteString(w, sitemap)
			default:
				w.Header().Set("ETag", `"1"`)
				io.WriteString(w, other)
			}
		}}}
		r := must.Get((&probe.Prober{HTTP: &http.Client{Transport: w}, Wait: -1}).Probe(t.Context(), "https://example.org/"))
		if r.Requests > 40 || len(w.log) != r.Requests {
			t.Fatalf("%d requests, %d reported", len(w.log), r.Requests)
		}
		must.Get(json.Marshal(r))
		must.OK(t, r.WriteText(io.Discard))
	})
}

// The report names the forms that a site offers besides plain changes.
func TestForms(t *testing.T) {
	site := sitetest.NewWhole(t, map[string]string{"index.html": "home"})
	r := must.Get((&probe.Prober{Agent: "TestBot/1.0", Wait: -1}).Probe(t.Context(), site.Base))
	m := r.Manifest
	if m == nil || len(m.Forms) != 5 || !slices.Contains(m.Filters, "where") || m.Batch != site.Base+"parley/batch" || m.Archive != site.Base+"parley/site.wacz" {
		t.Errorf("%+v", m)
	}
	var b strings.Builder
	r.WriteText(&b)
	if !strings.Contains(b.String(), "forms: meta, delta, page, batch, site\n") {
		t.Errorf("%s", b.String())
	}
}
