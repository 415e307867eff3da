package sitemap_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitemap"
)

// write writes pages as one file, and returns how many it has room for.
func write(t testing.TB, w sitemap.Writer, pages []sitemap.Page) (text []byte, n int) {
	t.Helper()
	var b bytes.Buffer
	w.To = &b
	for _, page := range pages {
		fits := must.Get(w.Add(page))
		if !fits {
			break
		}
	}
	must.OK(t, w.Close())
	return b.Bytes(), w.URLs
}

// pagesOf makes n pages, a minute between their dates.
func pagesOf(n int) (pages []sitemap.Page) {
	for i := range n {
		pages = append(pages, sitemap.Page{Loc: fmt.Sprintf("https://e.example/d/%06d.html", i),
			Modified: time.Date(2024, 5, 1, 10, i, 0, 0, time.UTC)})
	}
	return pages
}

// back reads what was written.
func back(t testing.TB, text []byte) []sitemap.Entry {
	t.Helper()
	r, entries, err := read(bytes.NewReader(text), sitemap.Options{URL: "https://e.example/d/sitemap.xml"})
	if n, first := r.Skipped(); err != nil || n > 0 {
		t.Fatalf("%v, skipped %v", err, first)
	}
	return entries
}

func TestOneFile(t *testing.T) {
	text, n := write(t, sitemap.Writer{}, []sitemap.Page{
		{Loc: "https://e.example/"},
		{Loc: "https://e.example/a?b=c&d='e'", Modified: time.Date(2024, 5, 1, 10, 0, 0, 0, time.FixedZone("", 7200))},
		{Loc: "https://e.example/b", Modified: time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC), Span: 24 * time.Hour},
	})
	const want = `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
<url><loc>https://e.example/</loc></url>
<url><loc>https://e.example/a?b=c&amp;d=&apos;e&apos;</loc><lastmod>2024-05-01T08:00:00Z</lastmod></url>
<url><loc>https://e.example/b</loc><lastmod>2024-05-01</lastmod></url>
</urlset>
`
	if string(text) != want || n != 3 {
		t.Errorf("%d pages\n%s", n, text)
	}
}

// An entry links to the page in its languages, unless the links would make it longer than a part may be.
func TestLanguages(t *testing.T) {
	var all []sitemap.Language
	for i := range 40 {
		all = append(all, sitemap.Language{Tag: fmt.Sprintf("x-%d", i), Loc: "https://e.example/" + strings.Repeat("&", 100)})
	}
	for n, links := range map[int]int{2: 2, 10: 10, 40: 0} {
		b, _ := write(t, sitemap.Writer{MaxBytes: 16 << 10}, []sitemap.Page{{Loc: "https://e.example/", Languages: all[:n]}})
		text := string(b)
		link := `<xhtml:link xmlns:xhtml="http://www.w3.org/1999/xhtml" rel="alternate" hreflang="x-1" href="https://e.example/` + strings.Repeat("&amp;", 100) + `"/>`
		if strings.Count(text, "<xhtml:link ") != links || strings.Contains(text, link) != (links > 0) || len(back(t, b)) != 1 {
			t.Errorf("%d languages:\n%.2000s", n, text)
		}
	}
}

// The limit of URLs, and that of bytes, at the last page that fits.
func TestLimits(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for _, c := range []struct {
		w    sitemap.Writer
		long bool
		fit  int
	}{
		{sitemap.Writer{MaxURLs: 10}, false, 10},
		{sitemap.Writer{MaxBytes: 1}, true, 14},
		{sitemap.Writer{MaxBytes: 16 << 10}, true, 14},
		{sitemap.Writer{}, false, 50_000},
		{sitemap.Writer{MaxURLs: 60_000, MaxBytes: 60 << 20}, false, 50_000},
	} {
		if testing.Short() && c.fit >= 50_000 {
			continue
		}
		pages := pagesOf(c.fit + 1)
		for i := range pages {
			if c.long {
				pages[i].Loc += long
			}
		}
		text, n := write(t, c.w, pages)
		all := back(t, text)
		if n != c.fit || len(all) != n || c.long && len(text) > 16<<10 {
			t.Errorf("%+v: %d pages fit, want %d; %d are read back; %d bytes", c.w, n, c.fit, len(all), len(text))
		}
		for i, e := range all {
			if e.Loc != pages[i].Loc || !e.Modified.Equal(pages[i].Modified) {
				t.Fatalf("page %d: %+v", i, e)
			}
		}
	}
}

// 50 MB and not a byte more, also when URLs grow by being escaped.
func TestFiftyMegabytes(t *testing.T) {
	if testing.Short() {
		t.Skip("50 MB are written")
	}
	loc := "https://e.example/?" + strings.Repeat("&", 2028)
	text, _ := write(t, sitemap.Writer{}, slices.Repeat([]sitemap.Page{{Loc: loc}}, 5_200))
	entry := len("<url><loc></loc></url>\n") + len(loc) + 4*2028
	if n := len(text); n > sitemap.MaxBytes || n+entry <= sitemap.MaxBytes {
		t.Errorf("%d bytes", n)
	}
}

func TestASiteWithoutPages(t *testing.T) {
	text, _ := write(t, sitemap.Writer{}, nil)
	if all := back(t, text); len(all) != 0 {
		t.Errorf("%v", all)
	}
}

type fullDisk struct{ error }

func (f fullDisk) Write([]byte) (int, error) { return 0, f.error }

func TestErrorsOfWriting(t *testing.T) {
	full := errors.New("disk full")
	w := sitemap.Writer{To: fullDisk{full}}
	if fits, err := w.Add(pagesOf(1)[0]); fits || err != full {
		t.Errorf("%v, %v", fits, err)
	}
	w = sitemap.Writer{To: fullDisk{full}}
	if err := w.Close(); err != full {
		t.Errorf("%v", err)
	}
	if err := sitemap.WriteIndex(fullDisk{full}, pagesOf(1)); err != full {
		t.Errorf("%v", err)
	}
	if err := sitemap.WriteIndex(io.Discard, pagesOf(50_001)); err == nil || !strings.Contains(err.Error(), "50001 parts") {
		t.Errorf("%v", err)
	}
}

func TestLastmod(t *testing.T) {
	at := time.Date(2024, 2, 29, 10, 11, 12, 0, time.UTC)
	day := time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		at   time.Time
		span time.Duration
		want string
	}{
		{at, 0, "2024-02-29T10:11:12Z"},
		{at.Add(5 * time.Millisecond), 0, "2024-02-29T10:11:12.005Z"},
		{at.In(time.FixedZone("", -5*3600)), 0, "2024-02-29T10:11:12Z"},
		{at, time.Second, "2024-02-29"},
		{at.Truncate(time.Minute), time.Minute, "2024-02-29"},
		{day, 24 * time.Hour, "2024-02-29"},
		{day, 24*time.Hour + 1, ""},
		{day.Add(1), 24 * time.Hour, ""},
		{day.AddDate(0, 0, -28), 29 * 24 * time.Hour, ""}, // a month is no form that the schema has
		{day.Add(-4 * time.Hour), 26 * time.Hour, ""},     // a time without a zone
		{time.Time{}, 0, ""},
		{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), 0, ""},
		{at, -1, ""},
	} {
		if got := sitemap.Lastmod(c.at, c.span); got != c.want {
			t.Errorf("%v+%v: %q, want %q", c.at, c.span, got, c.want)
		}
	}
}

// odd are pages whose URLs and dates are at the edge of what there is. Only
// square brackets are not among them: xmllint wants them in addresses only,
// and many a query has them.
func odd() []sitemap.Page {
	pages := pagesOf(3)
	for _, path := range []string{"", "?a=1&b=2&amp;c", "'quoted'", "%3Cb%3E", "%E2%80%AE", "%00", "a;b,c@d:e!$*()+=~", strings.Repeat("y", 2000)} {
		pages = append(pages, sitemap.Page{Loc: "https://e.example/" + path, Modified: time.Date(1993, 1, 1, 0, 0, 0, 0, time.UTC), Span: 24 * time.Hour})
	}
	return append(pages, sitemap.Page{Loc: "http://xn--e1afmkfd.example:8080/", Modified: time.Date(2024, 5, 1, 10, 0, 0, 123e6, time.UTC)})
}

// Independent tools agree that the output is a sitemap, by the rules
// of the published schemas, and on its content.
func TestOtherToolsReadSitemaps(t *testing.T) {
	dir := t.TempDir()
	text, _ := write(t, sitemap.Writer{}, odd())
	var index bytes.Buffer
	must.OK(t, sitemap.WriteIndex(&index, odd()))
	for schema, b := range map[string][]byte{"sitemap.xsd": text, "siteindex.xsd": index.Bytes()} {
		path := filepath.Join(dir, schema+".xml")
		must.OK(t, os.WriteFile(path, b, 0o600))
		t.Run("xmllint/"+schema, func(t *testing.T) {
			if out, err := exec.Command(machine.Tool(t, "xmllint"), "--noout", "--schema", "testdata/"+schema, path).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
		t.Run("python/"+schema, func(t *testing.T) {
			out, err := exec.Command(machine.Tool(t, "python3"), "testdata/witness.py", path).Output()
			if err != nil {
				t.Fatal(err)
			}
			_, all, err := read(bytes.NewReader(b), sitemap.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var want strings.Builder
			for _, e := range all {
				fmt.Fprintf(&want, "%s\t%s\n", e.Loc, e.RawLastmod)
			}
			if string(out) != want.String() || len(all) == 0 {
				t.Errorf("the tool reads\n%s, we read\n%s", out, want.String())
			}
		})
	}
}

// The schemas reject invalid files; otherwise the tests that use them would prove nothing.
func TestSchemasRejectInvalid(t *testing.T) {
	xmllint, path := machine.Tool(t, "xmllint"), filepath.Join(t.TempDir(), "s.xml")
	for _, text := range []string{
		"<urlset" + ns + "/>",
		"<urlset" + ns + "><url/></urlset>",
		"<urlset><url><loc>https://e.example/</loc></url></urlset>",
		"<urlset" + ns + "><url><loc>https://e.example/</loc><lastmod>2024-05</lastmod></url></urlset>",
		"<urlset" + ns + "><url><loc>https://e.example/</loc><lastmod>2024-05-01T10:00Z</lastmod></url></urlset>",
		"<urlset" + ns + "><url><lastmod>2024-05-01</lastmod><loc>https://e.example/</loc></url></urlset>",
		"<urlset" + ns + "><url><loc>https://e.example/" + strings.Repeat("x", 2048) + "</loc></url></urlset>",
		"<urlset" + ns + "><url><loc>https://e.example/</loc><title>x</title></url></urlset>",
	} {
		must.Write(t, path, text)
		if out, err := exec.Command(xmllint, "--noout", "--schema", "testdata/sitemap.xsd", path).CombinedOutput(); err == nil {
			t.Errorf("the schema accepts: %s\n%s", text, out)
		}
	}
}

func BenchmarkWriter(b *testing.B) {
	pages := pagesOf(1000)
	w := sitemap.Writer{To: io.Discard}
	for i := 0; b.Loop(); i++ {
		if fits, err := w.Add(pages[i%1000]); err != nil {
			b.Fatal(err)
		} else if !fits {
			w = sitemap.Writer{To: io.Discard}
		}
	}
}

func BenchmarkReader(b *testing.B) {
	text, _ := write(b, sitemap.Writer{}, pagesOf(50_000))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, all, err := read(bytes.NewReader(text), sitemap.Options{URL: "https://e.example/sitemap.xml"}); err != nil || len(all) != 50_000 {
			b.Fatal(err)
		}
	}
	b.ReportMetric(50_000*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
}
