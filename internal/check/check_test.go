package check_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/check"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// A web is a server without a network, so that time can be fake.
type web struct {
	mu    sync.Mutex
	at    []time.Time // time of each request
	asked []string    // its URL
	agent string
	serve func(r *http.Request) (status int, body string, header map[string]string)
}

func (w *web) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.at, w.asked, w.agent = append(w.at, time.Now()), append(w.asked, r.URL.String()), r.UserAgent()
	w.mu.Unlock()
	status, body, header := w.serve(r)
	if status == 0 {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	h := http.Header{}
	for k, v := range header {
		h.Set(k, v)
	}
	return &http.Response{StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), Header: h,
		Body: io.NopCloser(strings.NewReader(body)), Request: r, ProtoMajor: 1, ProtoMinor: 1}, nil
}

func (w *web) checker() *check.Checker { return &check.Checker{Client: &http.Client{Transport: w}} }

const site = "http://site.example"

func sitemapOf(n int) string {
	var b strings.Builder
	b.WriteString(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
	for i := range n {
		fmt.Fprintf(&b, "<url><loc>%s/%d</loc></url>\n", site, i)
	}
	return b.String() + "</urlset>"
}

// plain serves a sitemap of 100 pages, without validators.
func plain(robots string) func(r *http.Request) (int, string, map[string]string) {
	return func(r *http.Request) (int, string, map[string]string) {
		switch r.URL.Path {
		case "/robots.txt":
			return 200, robots, nil
		case "/sitemap.xml":
			return 200, sitemapOf(100), map[string]string{"Content-Type": "application/xml"}
		}
		if _, err := strconv.Atoi(r.URL.Path[1:]); err != nil {
			return 404, "", nil
		}
		return 200, "<!doctype html><title>page</title>", map[string]string{"Content-Type": "text/html"}
	}
}

func has(r *check.Report, rule string) (f check.Finding, ok bool) {
	i := slices.IndexFunc(r.Findings, func(f check.Finding) bool { return f.Rule == rule })
	if i < 0 {
		return f, false
	}
	return r.Findings[i], true
}

func TestPaceOfRequests(t *testing.T) {
	for delay, gap := range map[string]time.Duration{"": time.Second, "Crawl-delay: 7\n": 7 * time.Second, "Crawl-delay: 0.1\n": time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := &web{serve: plain("User-agent: *\nDisallow: /private\n" + delay)}
			r, err := w.checker().URL(t.Context(), site+"/sitemap.xml")
			if err != nil || r.Sampled != 20 || len(w.at) != 23 {
				t.Fatalf("%v, %+v, %d requests", err, r, len(w.at))
			}
			for i := 1; i < len(w.at); i++ {
				if d := w.at[i].Sub(w.at[i-1]); d < gap || d > gap+time.Second {
					t.Errorf("with %q, request %d came after %v", delay, i, d)
				}
			}
			if w.agent != "parley-check" {
				t.Errorf("User-Agent: %s", w.agent)
			}
		})
	}
}

// An index that lists more parts than exist is not fetched completely.
func TestIndexOfManyMissingSitemaps(t *testing.T) {
	const parts = 60_000
	for name, c := range map[string]struct {
		alive           func(part int) bool
		missing, unread int
	}{
		"all missing":               {func(int) bool { return false }, 20, parts - 20},
		"half missing":              {func(i int) bool { return i < parts/2 }, 10, parts - 20},
		"none missing":              {func(int) bool { return true }, 0, parts - 20},
		"all but the first missing": {func(i int) bool { return i == 0 }, 19, parts - 20},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &web{serve: func(r *http.Request) (int, string, map[string]string) {
				if r.URL.Path == "/index.xml" {
					var b strings.Builder
					b.WriteString(`<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
					for i := range parts {
						fmt.Fprintf(&b, "<sitemap><loc>%s/part/%d</loc></sitemap>\n", site, i)
					}
					return 200, b.String() + "</sitemapindex>", nil
				}
				if s, ok := strings.CutPrefix(r.URL.Path, "/part/"); ok {
					if i, err := strconv.Atoi(s); err == nil && c.alive(i) {
						return 200, sitemapOf(1), nil
					}
				}
				return 404, "", nil
			}}
			r := must.Get(w.checker().URL(t.Context(), site+"/index.xml"))
			asked := 0
			for _, u := range w.asked {
				if strings.Contains(u, "/part/") {
					asked++
				}
			}
			missing, _ := has(r, "part-missing")
			unread, ok := has(r, "parts-unread")
			if asked != 20 || missing.Count != c.missing || c.missing > 0 && missing.Of != 20 ||
				!ok || unread.Severity != check.Note || unread.Count != c.unread || unread.Of != parts {
				t.Errorf("%s: %d fetched, missing %+v, unread %+v", name, asked, missing, unread)
			}
			if _, ok := has(r, "out-of-time"); ok {
				t.Errorf("%s: the check timed out", name)
			}
		})
	}
}

func TestSampleIsSpreadAndReproducible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := func(n int) []string {
			w := &web{serve: plain("")}
			c := w.checker()
			c.Sample = n
			must.Get(c.URL(t.Context(), site+"/sitemap.xml"))
			return w.asked[2:max(2, len(w.asked)-1)] // without the page that does not exist
		}
		a, b, more := ask(20), ask(20), ask(40)
		if !slices.Equal(a, b) || len(a) != 20 || len(more) != 40 {
			t.Errorf("samples of 20: %q, then %q; of 40: %q", a, b, more)
		}
		low := 0
		for _, u := range a {
			if len(u) < len(site)+3 || u < site+"/50" {
				low++
			}
			if !slices.Contains(more, u) {
				t.Errorf("%s is not in the larger sample", u)
			}
		}
		if low < 4 || low > 16 {
			t.Errorf("%d of 20 are in the first half: %q", low, a)
		}
		if n := len(ask(-1)); n != 0 {
			t.Errorf("%d pages fetched", n)
		}
	})
}

func TestRobotsAndRedirectLimits(t *testing.T) {
	for _, c := range []struct {
		what   string
		target string
		serve  func(r *http.Request) (int, string, map[string]string)
		most   int // requests
		rule   string
		never  string // must not be fetched
	}{
		{"the target is forbidden", "/sitemap.xml", plain("User-agent: *\nDisallow: /sitemap"), 1, "forbidden", "sitemap.xml"},
		{"forbidden to this program by name", "/sitemap.xml", plain("User-agent: parley-check\nDisallow: /"), 1, "forbidden", "sitemap.xml"},
		{"pages are forbidden", "/sitemap.xml", plain("User-agent: *\nDisallow: /1\nDisallow: /2"), 23, "disallowed", "example/1"},
		{"robots.txt fails", "/sitemap.xml", func(r *http.Request) (int, string, map[string]string) { return 500, "", nil }, 1, "robots-unreachable", "sitemap.xml"},
		{"robots.txt hangs", "/sitemap.xml", func(r *http.Request) (int, string, map[string]string) { return 0, "", nil }, 1, "robots-unreachable", "sitemap.xml"},
		{"redirects of pages", "/sitemap.xml", func(r *http.Request) (int, string, map[string]string) {
			if r.URL.Path != "/robots.txt" && r.URL.Path != "/sitemap.xml" {
				return 302, "", map[string]string{"Location": "http://other.example/"}
			}
			return plain("")(r)
		}, 23, "redirect-other", "other.example"},
		{"a redirect of the document to another host", "/map", func(r *http.Request) (int, string, map[string]string) {
			if r.URL.Path == "/map" {
				return 301, "", map[string]string{"Location": "http://other.example/sitemap.xml"}
			}
			return plain("")(r)
		}, 2, "unreachable", "other.example"},
		{"a redirect to what is forbidden", "/map", func(r *http.Request) (int, string, map[string]string) {
			if r.URL.Path == "/map" {
				return 301, "", map[string]string{"Location": "/sitemap.xml"}
			}
			return plain("User-agent: *\nDisallow: /sitemap")(r)
		}, 2, "forbidden", "sitemap.xml"},
		{"a robots.txt that cannot be fetched", "/sitemap.xml", func(*http.Request) (int, string, map[string]string) { return 503, "", nil }, 1, "robots-unreachable", "sitemap.xml"},
		{"redirects without an end", "/map", func(r *http.Request) (int, string, map[string]string) {
			if r.URL.Path == "/robots.txt" {
				return 404, "", nil
			}
			return 301, "", map[string]string{"Location": r.URL.Path + "x"}
		}, 8, "unreachable", "\x00"},
		{"a server that is busy", "/sitemap.xml", func(r *http.Request) (int, string, map[string]string) {
			if r.URL.Path != "/robots.txt" && r.URL.Path != "/sitemap.xml" {
				return 503, "", nil
			}
			return plain("")(r)
		}, 3, "busy", "\x00"},
		{"a sitemap of another host", "/index.xml", func(r *http.Request) (int, string, map[string]string) {
			if r.URL.Path == "/robots.txt" {
				return 404, "", nil
			}
			return 200, `<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap><loc>http://other.example/a.xml</loc></sitemap></sitemapindex>`, nil
		}, 2, "parts-unread", "other.example"},
		{"pages of another host", "/sitemap.xml", func(r *http.Request) (int, string, map[string]string) {
			s, body, h := plain("")(r)
			return s, strings.Replace(body, site, "http://other.example", 1), h
		}, 23, "foreign-url", "other.example"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &web{serve: c.serve}
			r := must.Get(w.checker().URL(t.Context(), site+c.target))
			if _, ok := has(r, c.rule); !ok || len(w.asked) > c.most {
				t.Errorf("%s: %d requests, found %+v", c.what, len(w.asked), r.Findings)
			}
			if _, ok := has(r, "forbidden"); ok && c.rule != "forbidden" {
				t.Errorf("%s: no rule forbids it, but found %+v", c.what, r.Findings)
			}
			for _, u := range w.asked {
				if strings.Contains(u, c.never) {
					t.Errorf("%s: fetched %s", c.what, u)
				}
			}
		})
	}
}

func TestCheckEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A page that the server never answers costs its timeout and no more.
		w := &web{serve: func(r *http.Request) (int, string, map[string]string) {
			if r.URL.Path == "/robots.txt" || r.URL.Path == "/sitemap.xml" {
				return plain("")(r)
			}
			return 0, "", nil
		}}
		c := w.checker()
		c.Sample = 1000
		begin := time.Now()
		r, err := c.URL(t.Context(), site+"/sitemap.xml")
		if err != nil || time.Since(begin) > 16*time.Minute {
			t.Fatalf("%v after %v", err, time.Since(begin))
		}
		if f, _ := has(r, "page-unreachable"); f.Count < 20 {
			t.Errorf("%+v", r.Findings)
		}
		if _, ok := has(r, "out-of-time"); !ok {
			t.Errorf("%+v", r.Findings)
		}

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := c.URL(ctx, site+"/sitemap.xml"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("interrupted: %v", err)
		}
	})
}

// A list of any length, or a bomb, is read in bounded memory.
func TestMemoryIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	dir := t.TempDir()
	write := func(name string, f func(w io.Writer)) string {
		t.Helper()
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
		f(z)
		z.Close()
		path := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(path, b.Bytes(), 0o600))
		return path
	}
	bomb := write("bomb", func(w io.Writer) {
		io.WriteString(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
		for range 60 {
			io.WriteString(w, "<!--"+strings.Repeat(strings.Repeat("x", 1000)+"\n", 1000)+"-->")
		}
		io.WriteString(w, "</urlset>")
	})
	text := write("text", func(w io.Writer) {
		io.WriteString(w, "http://a.example/")
		for range 20 {
			w.Write(bytes.Repeat([]byte("x"), 1<<20))
		}
	})
	robots := write("robots.txt", func(w io.Writer) {
		for range 60 {
			w.Write(bytes.Repeat([]byte("Disallow: /x\n"), 80_000))
		}
	})
	many := write("many", func(w io.Writer) {
		var items iter.Seq2[protocol.Item, error] = func(yield func(protocol.Item, error) bool) {
			for i := range 30_000 {
				at := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * time.Minute)
				if !yield(protocol.Item{URL: fmt.Sprintf("%s/%07d", site, i), Modified: at, Length: 5}, nil) {
					return
				}
			}
		}
		must.OK(t, protocol.WriteManifest(w, protocol.Manifest{URL: site + "/robots.rdf", Base: site + "/", Items: 30_000, Complete: true}, items, nil))
	})
	for _, c := range []struct {
		file, rule string
		entries    int
	}{{bomb, "too-large", 0}, {text, "bad-url", 0}, {robots, "robots-too-long", 0}, {many, "", 30_000}} {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var most uint64
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				runtime.ReadMemStats(&after)
				most = max(most, after.HeapAlloc)
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond):
				}
			}
		}()
		r, err := new(check.Checker).File(t.Context(), c.file, false)
		close(stop)
		<-stopped
		if err != nil || r.Entries != c.entries {
			t.Fatalf("%s: %v, %+v", c.file, err, r)
		}
		if _, ok := has(r, c.rule); c.rule != "" && !ok || c.rule == "" && len(r.Findings) > 0 {
			t.Errorf("%s: %+v", filepath.Base(c.file), r.Findings)
		}
		grown := int64(most) - int64(before.HeapAlloc)
		t.Logf("%s: %d MB read, heap grown by %d MB", filepath.Base(c.file), r.Bytes>>20, grown>>20)
		if grown > 100<<20 {
			t.Errorf("%s: the heap grew by %d MB", filepath.Base(c.file), grown>>20)
		}
	}
}

// No document can hang or crash the check, and its text reaches the terminal only as plain text.
func FuzzDocument(f *testing.F) {
	for _, s := range []string{
		sitemapOf(3), "User-agent: *\nDisallow: /\nSitemap: x", "<rss><channel><item><link>http://a/</link><pubDate>x</pubDate></item></channel></rss>",
		`<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"><channel><items><rdf:Seq><rdf:li resource="a"/></rdf:Seq></items></channel><item about="http://a/"><title/></item></rdf:RDF>`,
		`{"version":"https://jsonfeed.org/version/1","items":[{"id":"1","url":"http://a/"}]}`, "http://a/\nhttp://b/\n", "<!doctype html>", "\xff\xfe<\x00", "<?xml?><!DOCTYPE rss [<!ENTITY a 'b'>]><rss/>",
		"<sitemapindex xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'><sitemap><loc>http://site.example/a\x1b[2J</loc><lastmod>\u202e</lastmod></sitemap></sitemapindex>",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		w := &web{serve: func(r *http.Request) (int, string, map[string]string) {
			return 200, string(body), map[string]string{"Etag": `"1"`}
		}}
		c := w.checker()
		c.Every, c.Sample, c.Wait = time.Nanosecond, 2, 5*time.Second
		r := must.Get(c.URL(t.Context(), site+"/sitemap.xml"))
		var b bytes.Buffer
		must.OK(t, r.WriteText(&b))
		for _, c := range b.String() {
			if c < ' ' && c != '\n' || c == 0x7f || 0x80 <= c && c < 0xa0 || c == 0x202e {
				t.Fatalf("%q in %q", c, b.String())
			}
		}
		if _, ok := has(r, "out-of-time"); ok {
			t.Fatal("the check timed out")
		}
		for _, f := range r.Findings {
			if f.Count < 1 || f.Of > 0 && f.Count > f.Of {
				t.Fatalf("%+v", f)
			}
		}
	})
}
