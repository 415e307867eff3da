package sitemap_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/sitemap"
)

// A place keeps what a Writer writes, by name and in the order of creation.
type place struct {
	names []string
	files map[string]*bytes.Buffer
	open  int
}

type placed struct {
	*bytes.Buffer
	p *place
}

func (f placed) Close() error { f.p.open--; return nil }

func (p *place) create(name string) (io.WriteCloser, error) {
	if p.open > 0 {
		return nil, errors.New("the previous file is still open")
	}
	if p.files == nil {
		p.files = make(map[string]*bytes.Buffer)
	}
	p.open++
	p.names = append(p.names, name)
	p.files[name] = new(bytes.Buffer)
	return placed{p.files[name], p}, nil
}

// write writes pages as they need it.
func write(t testing.TB, w sitemap.Writer, pages []sitemap.Page) (*place, sitemap.Written) {
	t.Helper()
	p := new(place)
	w.Create = p.create
	fits, err := sitemap.Fit(seq(pages), w.MaxURLs, w.MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	w.Parts = !fits
	for _, page := range pages {
		if err := w.Add(page); err != nil {
			t.Fatal(err)
		}
	}
	done, err := w.Close()
	if err != nil || p.open != 0 {
		t.Fatalf("%v, %d open", err, p.open)
	}
	return p, done
}

func seq(pages []sitemap.Page) iter.Seq2[sitemap.Page, error] {
	return func(yield func(sitemap.Page, error) bool) {
		for _, p := range pages {
			if !yield(p, nil) {
				return
			}
		}
	}
}

// pagesOf makes n pages, a minute between their dates.
func pagesOf(n int) (pages []sitemap.Page) {
	for i := range n {
		pages = append(pages, sitemap.Page{Loc: fmt.Sprintf("https://e.example/d/%06d.html", i),
			Modified: time.Date(2024, 5, 1, 10, i, 0, 0, time.UTC)})
	}
	return pages
}

// back reads a whole site's sitemap from what stands at a place.
func (p *place) back(t testing.TB, base, name string) (all []sitemap.Entry) {
	t.Helper()
	text, ok := p.files[name]
	if !ok {
		t.Fatalf("no file %s", name)
	}
	r, entries, err := read(bytes.NewReader(text.Bytes()), sitemap.Options{URL: base + name})
	if n, first := r.Skipped(); err != nil || n > 0 {
		t.Fatalf("%s: %v, skipped %v", name, err, first)
	}
	if r.Kind() == sitemap.URLSet {
		return entries
	}
	for _, e := range entries {
		name, below := strings.CutPrefix(e.Loc, base)
		if !e.Sitemap || !below || strings.Contains(name, "/") {
			t.Fatalf("the index lists %+v", e)
		}
		part := p.back(t, base, name)
		newest := slices.MaxFunc(part, func(a, b sitemap.Entry) int { return a.Modified.Compare(b.Modified) })
		if !newest.Modified.Equal(e.Modified) || newest.Span != e.Span {
			t.Errorf("%s has lastmod %v, its newest page %v", name, e.Modified, newest.Modified)
		}
		all = append(all, part...)
	}
	return all
}

func TestOneFile(t *testing.T) {
	p, done := write(t, sitemap.Writer{Base: "https://e.example/"}, []sitemap.Page{
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
	if got := p.files["sitemap.xml"].String(); got != want || len(p.names) != 1 || done != (sitemap.Written{URLs: 3}) {
		t.Errorf("%v %+v\n%s", p.names, done, got)
	}
}

// An entry links to the page in its languages, unless the links would make it longer than a part may be.
func TestLanguages(t *testing.T) {
	var all []sitemap.Language
	for i := range 40 {
		all = append(all, sitemap.Language{Tag: fmt.Sprintf("x-%d", i), Loc: "https://e.example/" + strings.Repeat("&", 100)})
	}
	for n, links := range map[int]int{2: 2, 10: 10, 40: 0} {
		p, done := write(t, sitemap.Writer{Base: "https://e.example/", MaxBytes: 16 << 10}, []sitemap.Page{{Loc: "https://e.example/", Languages: all[:n]}})
		text := p.files["sitemap.xml"].String()
		link := `<xhtml:link xmlns:xhtml="http://www.w3.org/1999/xhtml" rel="alternate" hreflang="x-1" href="https://e.example/` + strings.Repeat("&amp;", 100) + `"/>`
		if strings.Count(text, "<xhtml:link ") != links || strings.Contains(text, link) != (links > 0) || done.Parts != 0 || len(p.back(t, "https://e.example/", "sitemap.xml")) != 1 {
			t.Errorf("%d languages: %+v\n%.2000s", n, done, text)
		}
	}
}

// The limit of URLs, and that of bytes, at the last page that fits and at the next one.
func TestSplitAtLimits(t *testing.T) {
	const base = "https://e.example/d/"
	long := strings.Repeat("x", 1000)
	for _, c := range []struct {
		w     sitemap.Writer
		n     int
		long  bool
		names []string
	}{
		{sitemap.Writer{MaxURLs: 10}, 10, false, []string{"sitemap.xml"}},
		{sitemap.Writer{MaxURLs: 10}, 11, false, []string{"sitemap-0001.xml", "sitemap-0002.xml", "sitemap.xml"}},
		{sitemap.Writer{MaxURLs: 10, Name: "map.xml", PartExt: ".xml.gz"}, 21, false, []string{"map-0001.xml.gz", "map-0002.xml.gz", "map-0003.xml.gz", "map.xml"}},
		{sitemap.Writer{MaxBytes: 16 << 10}, 14, true, []string{"sitemap.xml"}},
		{sitemap.Writer{MaxBytes: 16 << 10}, 29, true, []string{"sitemap-0001.xml", "sitemap-0002.xml", "sitemap-0003.xml", "sitemap.xml"}},
		{sitemap.Writer{}, 50_000, false, []string{"sitemap.xml"}},
		{sitemap.Writer{}, 50_001, false, []string{"sitemap-0001.xml", "sitemap-0002.xml", "sitemap.xml"}},
	} {
		if testing.Short() && c.n >= 50_000 {
			continue
		}
		c.w.Base = base
		pages := pagesOf(c.n)
		for i := range pages {
			if c.long {
				pages[i].Loc += long
			}
		}
		p, done := write(t, c.w, pages)
		if !slices.Equal(p.names, c.names) || done.URLs != c.n || done.Parts != len(c.names)-1 && len(c.names) > 1 {
			t.Errorf("%d pages: %v, %+v", c.n, p.names, done)
		}
		all := p.back(t, base, c.names[len(c.names)-1])
		if len(all) != c.n {
			t.Errorf("%d of %d pages are read back", len(all), c.n)
		}
		for i, e := range all {
			if e.Loc != pages[i].Loc || !e.Modified.Equal(pages[i].Modified) {
				t.Fatalf("page %d: %+v", i, e)
			}
		}
		for name, b := range p.files {
			if urls := bytes.Count(b.Bytes(), []byte("<url>")); urls > 50_000 || c.w.MaxURLs > 0 && urls > c.w.MaxURLs || c.long && b.Len() > 16<<10 {
				t.Errorf("%s: %d URLs, %d bytes", name, urls, b.Len())
			}
		}
	}
}

// 50 MB and not a byte more, also when URLs grow by being escaped.
func TestFiftyMegabytes(t *testing.T) {
	if testing.Short() {
		t.Skip("100 MB are written")
	}
	loc := "https://e.example/?" + strings.Repeat("&", 2028)
	pages := slices.Repeat([]sitemap.Page{{Loc: loc}}, 5_200)
	p, done := write(t, sitemap.Writer{Base: "https://e.example/"}, pages)
	if done.Parts != 2 || done.LeftOut != 0 {
		t.Fatalf("%+v", done)
	}
	entry := len("<url><loc></loc></url>\n") + len(loc) + 4*2028
	if n := p.files["sitemap-0001.xml"].Len(); n > sitemap.MaxBytes || n+entry <= sitemap.MaxBytes {
		t.Errorf("the first part has %d bytes", n)
	}
}

func TestLongURLsAreLeftOut(t *testing.T) {
	head := "https://e.example/"
	longest := head + strings.Repeat("x", 2047-len(head))
	p, done := write(t, sitemap.Writer{Base: head}, []sitemap.Page{{Loc: longest + "y"}, {Loc: longest}})
	if done != (sitemap.Written{URLs: 1, LeftOut: 1}) || show(p.back(t, head, "sitemap.xml")) != longest {
		t.Errorf("%+v", done)
	}
}

func TestASiteWithoutPages(t *testing.T) {
	p, _ := write(t, sitemap.Writer{}, nil)
	if all := p.back(t, "https://e.example/", "sitemap.xml"); len(all) != 0 {
		t.Errorf("%v", all)
	}
}

func TestWriterKeepsItsFirstError(t *testing.T) {
	w := sitemap.Writer{MaxURLs: 2, Create: new(place).create}
	for _, p := range pagesOf(2) {
		if err := w.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Add(pagesOf(1)[0]); !errors.Is(err, sitemap.ErrFull) {
		t.Errorf("%v", err)
	}
	if _, err := w.Close(); !errors.Is(err, sitemap.ErrFull) {
		t.Errorf("%v", err)
	}
	full := errors.New("disk full")
	w = sitemap.Writer{Create: func(string) (io.WriteCloser, error) { return nil, full }}
	if err := w.Add(pagesOf(1)[0]); err != full {
		t.Errorf("%v", err)
	}
	if _, err := sitemap.Fit(func(yield func(sitemap.Page, error) bool) { yield(sitemap.Page{}, full) }, 0, 0); err != full {
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
	for _, limit := range []int{0, 5} {
		p, _ := write(t, sitemap.Writer{Base: "https://e.example/", MaxURLs: limit}, odd())
		for name, b := range p.files {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			schema := "testdata/sitemap.xsd"
			if bytes.Contains(b.Bytes(), []byte("<sitemapindex")) {
				schema = "testdata/siteindex.xsd"
			}
			t.Run(fmt.Sprintf("xmllint/%d/%s", limit, name), func(t *testing.T) {
				if out, err := exec.Command(machine.Tool(t, "xmllint"), "--noout", "--schema", schema, path).CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
			t.Run(fmt.Sprintf("python/%d/%s", limit, name), func(t *testing.T) {
				out, err := exec.Command(machine.Tool(t, "python3"), "testdata/witness.py", path).Output()
				if err != nil {
					t.Fatal(err)
				}
				_, all, err := read(bytes.NewReader(b.Bytes()), sitemap.Options{})
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
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(xmllint, "--noout", "--schema", "testdata/sitemap.xsd", path).CombinedOutput(); err == nil {
			t.Errorf("the schema accepts: %s\n%s", text, out)
		}
	}
}

type discard struct{ io.Writer }

func (discard) Close() error { return nil }

// A million pages take no more memory than ten thousand.
func TestMemoryIsConstant(t *testing.T) {
	if testing.Short() {
		t.Skip("a second")
	}
	var m runtime.MemStats
	w := sitemap.Writer{Base: "https://e.example/", Parts: true,
		Create: func(string) (io.WriteCloser, error) { return discard{io.Discard}, nil }}
	var early uint64
	for i := range 1_000_000 {
		if err := w.Add(sitemap.Page{Loc: fmt.Sprintf("https://e.example/directory/%07d/page.html", i), Modified: time.Unix(1.7e9+int64(i), 0)}); err != nil {
			t.Fatal(err)
		}
		if i == 10_000 || i == 999_999 {
			runtime.GC()
			runtime.ReadMemStats(&m)
			if early == 0 {
				early = m.HeapAlloc
			}
		}
	}
	done, err := w.Close()
	if err != nil || done.URLs != 1_000_000 || done.Parts != 20 {
		t.Fatalf("%+v, %v", done, err)
	}
	t.Logf("%d KB after 10,000 pages, %d KB after 1,000,000", early>>10, m.HeapAlloc>>10)
	if m.HeapAlloc > early+256<<10 {
		t.Errorf("%d bytes after 10,000 pages, %d after 1,000,000", early, m.HeapAlloc)
	}
}

func BenchmarkWriter(b *testing.B) {
	pages := pagesOf(1000)
	w := sitemap.Writer{Base: "https://e.example/", Parts: true,
		Create: func(string) (io.WriteCloser, error) { return discard{io.Discard}, nil }}
	for i := 0; b.Loop(); i++ {
		if err := w.Add(pages[i%1000]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReader(b *testing.B) {
	p, _ := write(b, sitemap.Writer{}, pagesOf(50_000))
	text := p.files["sitemap.xml"].Bytes()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, all, err := read(bytes.NewReader(text), sitemap.Options{URL: "https://e.example/sitemap.xml"}); err != nil || len(all) != 50_000 {
			b.Fatal(err)
		}
	}
	b.ReportMetric(50_000*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
}
