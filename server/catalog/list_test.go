package catalog_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/catalog"
	"github.com/parleyweb/parley/server/inventory"
)

// A stream is a source that reads a list from any reader.
type stream struct {
	open func() io.Reader
	seen []catalog.Entry
	keep bool
}

func (s *stream) Read(_ context.Context, _ string, each func(catalog.Entry) error) (string, error) {
	return "", catalog.ReadList(s.open(), func(e catalog.Entry) error {
		if s.keep {
			s.seen = append(s.seen, e)
		}
		return each(e)
	})
}
func (s *stream) Partial() bool  { return false }
func (s *stream) String() string { return "stream" }

const listBase = "https://www.example.org/a/"

// noRobots is a robots.txt that forbids nothing.
func noRobots(t testing.TB) string {
	path := filepath.Join(t.TempDir(), "robots.txt")
	must.OK(t, os.WriteFile(path, nil, 0o644))
	return path
}

func offers(t testing.TB, c *catalog.Catalog) (list []inventory.Offer, err error) {
	for o, err := range c.Scan(t.Context(), nil) {
		if err != nil {
			return list, err
		}
		list = append(list, o)
	}
	return list, nil
}

func FuzzList(f *testing.F) {
	for _, s := range []string{
		"https://www.example.org/a/b\n/a/c\n# x\n\n/b\n",
		"\uFEFFurl,modified\r\n\"/a/x\",2026-01-01\r\n\"/a/,\"\"y\",\r\n",
		"# loc;lastmod;size;type;title\n/a/1;2026-01-01T00:00:00Z;12;text/html;T\n",
		"{\"url\":\"/a/1\",\"modified\":1700000000,\"length\":3,\"digest\":\"sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:\"}\n{}\nnull\n[]\n",
		"url\n\"/a/1\n/a/2\n", "\x1f\x8b\x08\x00", "\x28\xb5\x2f\xfd", "/a/\x00", "url,url\n/a,/b\n", "\"url\n\",x\n",
		"/a/%2e%2e/x\n/a/..//./y\nHTTPS://WWW.EXAMPLE.ORG:443/a/Z?q#f\n/a/é%zz\n",
	} {
		f.Add([]byte(s))
	}
	robots := noRobots(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &stream{open: func() io.Reader { return bytes.NewReader(b) }, keep: true}
		c := &catalog.Catalog{Base: listBase, Sources: []catalog.Source{s}, Robots: robots}
		got, err := offers(t, c)
		if err != nil {
			return
		}
		want := map[string]string{} // title by URL; the last one wins
		for _, e := range s.seen {
			if e.Bad != "" {
				continue
			}
			if url, err := protocol.CanonicalURL(listBase, e.URL); err == nil && strings.HasPrefix(url, listBase) {
				want[url] = strings.Join(strings.Fields(strings.ToValidUTF8(e.Title, "\uFFFD")), " ")
			}
		}
		last := ""
		for _, o := range got {
			if o.URL == "" {
				continue
			}
			if url, err := protocol.CanonicalURL("", o.URL); err != nil || url != o.URL {
				t.Fatalf("%q is not canonical", o.URL)
			}
			if last != "" && protocol.Compare(last, o.URL) >= 0 {
				t.Fatalf("%q after %q", o.URL, last)
			}
			last = o.URL
			title, ok := want[o.URL]
			if !ok {
				t.Fatalf("%q is in no list", o.URL)
			}
			if len(title) < 1000 && !strings.ContainsFunc(title, func(r rune) bool { return r < ' ' || r == 0x7f }) && o.Title != title {
				t.Fatalf("%q has the title %q, want %q", o.URL, o.Title, title)
			}
			if len(o.Stamp) == 0 != (o.LeftOut != "") || o.LeftOut == "" && strings.Contains(o.URL, "/.git/") {
				t.Fatalf("%q is left out as %q, with the stamp %q", o.URL, o.LeftOut, o.Stamp)
			}
			delete(want, o.URL)
		}
		if len(want) > 0 {
			t.Fatalf("%q were lost", want)
		}
	})
}

// CSV written by the standard library is read back.
func TestCSVWitness(t *testing.T) {
	titles := []string{"plain", "with, comma", `with "quotes"`, "with\nline\nbreaks", "  spaces  ", "", "ü; €\t", `"`, `a"b`}
	for _, comma := range []rune{',', ';', '\t'} {
		var b bytes.Buffer
		w := csv.NewWriter(&b)
		w.Comma = comma
		w.Write([]string{"title", "ignored", "url"})
		for i, title := range titles {
			w.Write([]string{title, "x,y;z", fmt.Sprintf("/a/%d", i)})
		}
		w.Flush()
		c := &catalog.Catalog{Base: listBase, Robots: noRobots(t), Sources: []catalog.Source{&stream{open: func() io.Reader { return bytes.NewReader(b.Bytes()) }}}}
		got, err := offers(t, c)
		if err != nil || len(got) != len(titles) {
			t.Fatalf("%q: %d of %d: %v", comma, len(got), len(titles), err)
		}
		for i, o := range got {
			if want := strings.Join(strings.Fields(titles[i]), " "); o.Title != want {
				t.Errorf("%q: title %q, want %q", comma, o.Title, want)
			}
		}
	}
}

// repeat returns a reader of s n times.
func repeat(s string, n int) io.Reader { return &repeating{s: s, n: n} }

type repeating struct {
	s, rest string
	n       int
}

func (r *repeating) Read(p []byte) (int, error) {
	if r.rest == "" {
		if r.n == 0 {
			return 0, io.EOF
		}
		r.n, r.rest = r.n-1, r.s
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// bomb returns a reader of 5 GiB of s, compressed to a few kilobytes.
func bomb(s string) io.Reader {
	r, w := io.Pipe()
	go func() {
		z := coding.NewZstd(w)
		_, err := io.Copy(z, repeat(s, 5<<30/len(s)))
		w.CloseWithError(errors.Join(err, z.Close()))
	}()
	return r
}

func TestHostileLists(t *testing.T) {
	for name, c := range map[string]struct {
		open   func() io.Reader
		offers int    // entries with a URL
		left   string // an expected reason
		fails  string // the error message
	}{
		"a line of 10 MB": {open: func() io.Reader {
			return io.MultiReader(strings.NewReader("/a/1\n"), repeat(strings.Repeat("x", 1<<10), 10<<10), strings.NewReader("\n/a/2\n"))
		}, offers: 2, left: "line too long"},
		"a last line of 10 MB": {open: func() io.Reader {
			return io.MultiReader(strings.NewReader("/a/1\n"), repeat(strings.Repeat("x", 1<<10), 10<<10))
		}, offers: 1, left: "line too long"},
		"one line without end": {open: func() io.Reader { return repeat(strings.Repeat("x", 1<<10), 10<<10) }, fails: "line too long"},
		"a quote without end": {open: func() io.Reader {
			return io.MultiReader(strings.NewReader("url\n\"/a/1"), repeat(strings.Repeat("\n", 1<<10), 1<<10))
		}, fails: "quote"},
		"one URL repeated": {open: func() io.Reader { return repeat("/a/1\n", 100_000) }, offers: 1},
		"a hundred thousand URLs of another site": {open: func() io.Reader {
			return io.MultiReader(strings.NewReader("/a/1\n"), repeat("http://other.example/\n", 100_000))
		}, offers: 1, left: "another site"},
		"a cut gzip": {open: func() io.Reader {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			io.Copy(z, repeat("/a/1\n/a/2\n", 1000))
			z.Close()
			return bytes.NewReader(b.Bytes()[:b.Len()-10])
		}, fails: "EOF"},
		"a bomb of long lines":  {open: func() io.Reader { return bomb(strings.Repeat("x", 1<<20)) }, fails: "too long"},
		"a bomb of short lines": {open: func() io.Reader { return bomb(strings.Repeat("\n", 1<<20)) }, fails: "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && strings.HasPrefix(name, "a bomb") {
				t.Skip("decompresses gigabytes")
			}
			t.Parallel()
			got, err := offers(t, &catalog.Catalog{Base: listBase, Robots: noRobots(t), Sources: []catalog.Source{&stream{open: c.open}}})
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Fatalf("error %v, want one with %q", err, c.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			urls, left := 0, false
			for _, o := range got {
				if o.URL != "" {
					urls++
				}
				left = left || o.LeftOut == c.left
			}
			if urls != c.offers || !left && c.left != "" {
				t.Errorf("%d URLs of %d offers, left out %v", urls, len(got), left)
			}
		})
	}
}

func TestTooManyURLs(t *testing.T) {
	list := func() io.Reader { return strings.NewReader("/a/1\n/a/2\n/a/3\n/a/3\n") }
	c := &catalog.Catalog{Base: listBase, Robots: noRobots(t), Sources: []catalog.Source{&stream{open: list}, &stream{open: list}}}
	c.SetMost(6)
	if _, err := offers(t, c); err == nil || !strings.Contains(err.Error(), "more than 6 URLs") {
		t.Errorf("error %v", err)
	}
	c.SetMost(7)
	if got, err := offers(t, c); err != nil || len(got) != 3 {
		t.Errorf("%d offers, error %v", len(got), err)
	}
}

// A server that does not answer delays a scan no longer than its context allows.
func TestHangingList(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	loop := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, r.URL.Path+"x", http.StatusFound) }))
	defer loop.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	hang := "http://" + l.Addr().String() + "/"
	for _, s := range []catalog.Source{catalog.List(hang), catalog.Sitemap(hang), catalog.Feed(hang), catalog.List(loop.URL + "/"), catalog.List(t.TempDir())} {
		c := &catalog.Catalog{Base: listBase, Robots: noRobots(t), Sources: []catalog.Source{s}}
		for _, err := range c.Scan(ctx, nil) {
			if err == nil {
				t.Errorf("%v: an offer", s)
			}
		}
	}
}

// The benchmark measures the time and the memory of a source of many URLs.
func BenchmarkMillionURLs(b *testing.B) {
	const n = 1_000_000
	list := func() io.Reader {
		r, w := io.Pipe()
		go func() {
			var line []byte
			fmt.Fprintln(w, "url,modified,title")
			for i := range n {
				line = fmt.Appendf(line[:0], "/a/section-%03d/an-article-about-something-%07d.html,2026-%02d-%02dT10:00:00Z,\n", i*7919%1000, i, i%12+1, i%28+1)
				if _, err := w.Write(line); err != nil {
					return
				}
			}
			w.Close()
		}()
		return r
	}
	robots := noRobots(b)
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		c := &catalog.Catalog{Base: listBase, Robots: robots, Sources: []catalog.Source{&stream{open: list}}}
		urls, began := 0, time.Now()
		var first time.Duration
		for _, err := range c.Scan(b.Context(), nil) {
			if err != nil {
				b.Fatal(err)
			}
			if urls++; urls == 1 {
				first = time.Since(began)
			}
		}
		if urls != n {
			b.Fatal(urls)
		}
		total := time.Since(began)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "held-B/url")
		b.ReportMetric(float64(after.Sys)/1e6, "sys-MB")
		b.ReportMetric(first.Seconds(), "read-s")
		b.ReportMetric((total - first).Seconds(), "walk-s")
		runtime.KeepAlive(c)
	}
}

func TestParseTime(t *testing.T) {
	for s, want := range map[string]string{
		"2026-10-01":                      "2026-10-01",
		"2026-10":                         "2026-10",
		"2026-10-01T10:00Z":               "2026-10-01T10:00Z",
		"2026-10-01T10:00:00+02:00":       "2026-10-01T08:00:00Z",
		"2026-10-01 10:00:00+02:00":       "2026-10-01T08:00:00Z",
		"2026-10-01 10:00:00 +0200":       "2026-10-01T08:00:00Z", // git log --format=%ci
		"2026-10-01 10:00:00 UTC":         "2026-10-01T10:00:00Z",
		"Thu, 01 Oct 2026 10:00:00 GMT":   "2026-10-01T10:00:00Z",
		"Thu, 01 Oct 2026 10:00:00 +0200": "2026-10-01T08:00:00Z",
		"1790000000":                      "2026-09-21T14:13:20Z",
		"1790000000123":                   "2026-09-21T14:13:20.123Z",
	} {
		got, span, ok := catalog.ParseTime(s)
		if d := (protocol.Date{Time: got, Span: span}); !ok || d.String() != want {
			t.Errorf("%q is %v, want %s", s, d, want)
		}
	}
	// Without a zone it may be in any zone.
	got, span, ok := catalog.ParseTime("2026-10-01 10:00:00")
	if want := date("2026-09-30T20:00:00Z"); !ok || !got.Equal(want) || span != 26*time.Hour {
		t.Errorf("%v %v %v", got, span, ok)
	}
	for _, s := range []string{"", "yesterday", "0", "-5", "2026-13-01", "01/10/2026", "Thu, 01 Oct 2026 10:00:00 PST", strings.Repeat("1", 100)} {
		if got, _, ok := catalog.ParseTime(s); ok {
			t.Errorf("%q is %v", s, got)
		}
	}
}

// A scan of scopes yields their pages and no others.
func TestScopes(t *testing.T) {
	urls := "/a/x\n/a/b/1\n/a/b/2?q=/z\n/a/b/c/3\n/a/d/4\n/a/\n"
	c := &catalog.Catalog{Base: listBase, Robots: noRobots(t), Sources: []catalog.Source{&stream{open: func() io.Reader { return strings.NewReader(urls) }}}}
	for _, tc := range []struct {
		scopes []inventory.Scope
		want   []string
	}{
		{nil, []string{"", "x", "b/1", "d/4", "b/2?q=/z", "b/c/3"}},
		{[]inventory.Scope{{Prefix: listBase}}, []string{"", "x"}},
		{[]inventory.Scope{{Prefix: listBase + "b/"}}, []string{"b/1", "b/2?q=/z"}},
		{[]inventory.Scope{{Prefix: listBase + "b/", Deep: true}, {Prefix: listBase + "d/"}}, []string{"b/1", "b/2?q=/z", "d/4", "b/c/3"}},
		{[]inventory.Scope{{Page: listBase + "b/1"}, {Page: listBase}, {Page: listBase + "b/2"}, {Prefix: listBase + "d/"}}, []string{"", "b/1", "d/4"}},
		{[]inventory.Scope{{Prefix: "https://other.example/", Deep: true}}, nil},
	} {
		var got []string
		for o, err := range c.Scan(t.Context(), tc.scopes) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, strings.TrimPrefix(o.URL, listBase))
		}
		slices.Sort(got)
		slices.Sort(tc.want)
		if fmt.Sprint(got) != fmt.Sprint(tc.want) {
			t.Errorf("%v: %q, want %q", tc.scopes, got, tc.want)
		}
	}
}
