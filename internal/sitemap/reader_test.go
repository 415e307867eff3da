package sitemap_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitemap"
	"github.com/parleyweb/parley/protocol"
)

const ns = ` xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"`

// read reads a document to its end.
func read(r io.Reader, o sitemap.Options) (*sitemap.Reader, []sitemap.Entry, error) {
	s := sitemap.NewReader(r, o)
	var all []sitemap.Entry
	for {
		e, err := s.Next()
		if err == io.EOF {
			return s, all, nil
		}
		if err != nil {
			return s, all, err
		}
		all = append(all, e)
	}
}

// show writes entries so that a test can say what it wants in one line.
func show(entries []sitemap.Entry) string {
	var b strings.Builder
	for i, e := range entries {
		if i > 0 {
			b.WriteString(" | ")
		}
		b.WriteString(e.Loc)
		if !e.Modified.IsZero() {
			fmt.Fprintf(&b, " %s+%v", protocol.FormatDate(e.Modified), e.Span)
		}
		if e.Sitemap {
			b.WriteString(" sitemap")
		}
		if e.Foreign {
			b.WriteString(" foreign")
		}
	}
	return b.String()
}

func TestReadFormats(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		kind sitemap.Kind
		want string
		skip int
	}{
		"a set": {`<?xml version="1.0"?><urlset` + ns + `><url><loc> http://E.example/a?x=1&amp;y=2 </loc><lastmod>2024-05-01</lastmod>
			<changefreq>daily</changefreq></url><url><lastmod>2024-05-01T10:00:00+02:00</lastmod><loc><![CDATA[http://e.example/ä b]]></loc></url></urlset>`,
			sitemap.URLSet, "http://e.example/a?x=1&y=2 2024-05-01T00:00:00Z+24h0m0s | http://e.example/%C3%A4%20b 2024-05-01T08:00:00Z+0s", 0},
		"an index": {`<sitemapindex` + ns + `><sitemap><loc>http://e.example/1.xml</loc></sitemap></sitemapindex>`,
			sitemap.Index, "http://e.example/1.xml sitemap", 0},
		"a list":                        {"http://e.example/a\r\n\n  https://e.example/b?q \rnot a URL\nhttp://e.example/c", sitemap.Text, "http://e.example/a | https://e.example/b?q foreign | http://e.example/c", 1},
		"a list with a byte order mark": {"\xEF\xBB\xBFhttp://e.example/a\n", sitemap.Text, "http://e.example/a", 0},
		"no namespace":                  {`<urlset><url><loc>http://e.example/a</loc></url></urlset>`, sitemap.URLSet, "http://e.example/a", 0},
		"a wrong namespace":             {`<urlset xmlns="http://www.google.com/schemas/sitemap/0.84"><url><loc>http://e.example/a</loc></url></urlset>`, sitemap.URLSet, "http://e.example/a", 0},
		"a prefix":                      {`<s:urlset xmlns:s="http://www.sitemaps.org/schemas/sitemap/0.9"><s:url><s:loc>http://e.example/a</s:loc></s:url></s:urlset>`, sitemap.URLSet, "http://e.example/a", 0},
		"pages without prefix":          {`<s:urlset xmlns:s="urn:x"` + ns + `><url><loc>http://e.example/a</loc></url></s:urlset>`, sitemap.URLSet, "http://e.example/a", 0},
		"extensions": {`<urlset` + ns + ` xmlns:i="urn:image"><i:url><loc>http://e.example/no</loc></i:url><url><i:image><i:loc>http://e.example/i.png</i:loc></i:image>
			<i:loc>http://e.example/no</i:loc><loc>http://e.example/a</loc><i:lastmod>2024</i:lastmod></url></urlset>`, sitemap.URLSet, "http://e.example/a", 0},
		"relative URLs": {`<urlset` + ns + `><url><loc>b</loc></url><url><loc>/c</loc></url></urlset>`, sitemap.URLSet, "http://e.example/d/b | http://e.example/c", 0},
		"foreign URLs":  {`<urlset` + ns + `><url><loc>http://www.e.example/a</loc></url><url><loc>http://e.example:80/a</loc></url></urlset>`, sitemap.URLSet, "http://www.e.example/a foreign | http://e.example/a", 0},
		"unusable entries": {`<urlset` + ns + `><url/><url><loc/></url><url><loc>mailto:a@b</loc></url><url><loc>http://e.example/` + strings.Repeat("x", 9000) +
			`</loc></url>text<other/><url><loc>http://e.example/a</loc><loc>http://e.example/b</loc></url></urlset>`, sitemap.URLSet, "http://e.example/a", 4},
		"dates of all kinds": {`<urlset` + ns + `>` + dated("2024") + dated("2024-02") + dated("2024-02-29T10:00Z") + dated("2024-02-29T10:00:00.5Z") +
			dated("2024-02-29 10:00:00") + dated("2024-02-29T10:00") + dated("yesterday") + dated("2024-02-30") + dated("") + `</urlset>`, sitemap.URLSet,
			"http://e.example/ 2024-01-01T00:00:00Z+8784h0m0s | http://e.example/ 2024-02-01T00:00:00Z+696h0m0s | http://e.example/ 2024-02-29T10:00:00Z+1m0s | " +
				"http://e.example/ 2024-02-29T10:00:00.500Z+0s | http://e.example/ 2024-02-28T20:00:00Z+26h0m0s | http://e.example/ 2024-02-28T20:00:00Z+26h1m0s | " +
				"http://e.example/ | http://e.example/ | http://e.example/", 0},
	} {
		for _, in := range []io.Reader{strings.NewReader(c.text), iotest.OneByteReader(strings.NewReader(c.text))} {
			r, all, err := read(in, sitemap.Options{URL: "http://e.example/d/sitemap.xml"})
			if n, first := r.Skipped(); err != nil || show(all) != c.want || r.Kind() != c.kind || n != c.skip || len(first) != c.skip {
				t.Errorf("%s: %v, %v, skipped %d %v\n got %s\nwant %s", name, err, r.Kind(), n, first, show(all), c.want)
			}
			if r.Bytes() != int64(len(c.text)) && c.kind != sitemap.Text {
				t.Errorf("%s: %d of %d bytes", name, r.Bytes(), len(c.text))
			}
		}
	}
}

func dated(s string) string {
	return "<url><loc>http://e.example/</loc><lastmod>" + s + "</lastmod></url>"
}

func TestReadKeepsOriginalText(t *testing.T) {
	r, all, err := read(strings.NewReader(`<urlset xmlns="urn:x"><url><loc>
		HTTP://E.example </loc><lastmod> May 1 </lastmod></url></urlset>`), sitemap.Options{})
	if err != nil || len(all) != 1 || all[0].RawLoc != "HTTP://E.example" || all[0].RawLastmod != "May 1" || r.Space() != "urn:x" || all[0].Foreign {
		t.Errorf("%+v, %q, %v", all, r.Space(), err)
	}
}

func TestReadErrors(t *testing.T) {
	const entry = "<url><loc>http://e.example/</loc></url>"
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"a page":                       {"\n<!DOCTYPE HTML><title>Not found</title>", sitemap.ErrHTML},
		"a page without a type":        {"<html><p>Not found", sitemap.ErrHTML},
		"a page of XHTML":              {`<?xml version="1.0"?><!-- x --><html xmlns="http://www.w3.org/1999/xhtml"/>`, sitemap.ErrHTML},
		"a page of XHTML with a type":  {`<?xml version="1.0"?> <!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN"><html/>`, sitemap.ErrHTML},
		"a page after a long comment":  {"<!--" + strings.Repeat("x", 5000) + "--><html/>", sitemap.ErrHTML},
		"a feed":                       {`<feed xmlns="http://www.w3.org/2005/Atom"/>`, sitemap.ErrOther},
		"JSON":                         {`{"error": "not found"}`, sitemap.ErrOther},
		"a word":                       {`Not found`, sitemap.ErrOther},
		"nothing":                      {"", sitemap.ErrOther},
		"white space":                  {" \n ", sitemap.ErrOther},
		"a compressed file":            {"\x1f\x8b\x08\x00", sitemap.ErrOther},
		"a truncated sitemap":          {"<urlset" + ns + ">" + entry + "<url><loc>http://e.exam", sitemap.ErrTruncated},
		"no end tag":                   {"<urlset" + ns + ">" + entry, sitemap.ErrTruncated},
		"too many":                     {"<urlset" + ns + ">" + strings.Repeat(entry, 6) + "</urlset>", sitemap.ErrLimit},
		"too many unusable entries":    {"<urlset" + ns + ">" + strings.Repeat("<url/>", 6) + "</urlset>", sitemap.ErrLimit},
		"too many lines":               {strings.Repeat("http://e.example/\n", 6), sitemap.ErrLimit},
		"too long":                     {"<urlset" + ns + ">" + strings.Repeat(" ", 9000) + "</urlset>", sitemap.ErrLimit},
		"too long a list":              {"http://e.example/\n" + strings.Repeat("\n", 9000), sitemap.ErrLimit},
		"too long a line":              {"http://e.example/" + strings.Repeat("x", 9000), sitemap.ErrLimit},
		"nested too deep":              {"<urlset" + ns + "><url>" + strings.Repeat("<a>", 100), sitemap.ErrLimit},
		"a document type":              {`<!DOCTYPE urlset [<!ENTITY a "b">]><urlset/>`, nil},
		"a bare ampersand":             {"<urlset" + ns + "><url><loc>http://e.example/?a&b</loc></url></urlset>", nil},
		"UTF-16":                       {"\xff\xfe<\x00u\x00", nil},
		"text after the end":           {"<urlset" + ns + ">" + entry + "</urlset>\nPHP Warning: x", nil},
		"a warning of PHP in front":    {"<br />\n<b>Warning</b>: x<urlset" + ns + "/>", nil},
		"white space before the start": {` <?xml version="1.0"?><urlset/>`, nil},
	} {
		r, _, err := read(strings.NewReader(c.text), sitemap.Options{URL: "http://e.example/s.xml", MaxBytes: 8000, MaxEntries: 5})
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.HasPrefix(err.Error(), "read sitemap http://e.example/s.xml: ") {
			t.Errorf("%s: %v", name, err)
		}
		if errors.Is(err, sitemap.ErrTruncated) != (c.want == sitemap.ErrTruncated) {
			t.Errorf("%s: truncated? %v", name, err)
		}
		if _, again := r.Next(); again != err {
			t.Errorf("%s: %v, then %v", name, err, again)
		}
	}
}

// An error of the underlying reader is not reported as a truncated document, and a truncated
// gzip stream is.
func TestErrorsOfUnderlyingReader(t *testing.T) {
	const text = "<urlset" + ns + "><url>"
	broken := errors.New("connection reset")
	_, _, err := read(io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken)), sitemap.Options{})
	if !errors.Is(err, broken) || errors.Is(err, sitemap.ErrTruncated) {
		t.Errorf("%v", err)
	}
	if _, _, err = read(iotest.ErrReader(broken), sitemap.Options{}); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(text + "</url></urlset>"))
	z.Close()
	cut := must.Get(gzip.NewReader(bytes.NewReader(b.Bytes()[:b.Len()-9])))
	if _, _, err := read(cut, sitemap.Options{}); !errors.Is(err, sitemap.ErrTruncated) {
		t.Errorf("%v", err)
	}
}

// Every truncation of a sitemap is an error that says so.
func TestEveryTruncation(t *testing.T) {
	const text = `<?xml version="1.0" encoding="UTF-8"?><urlset` + ns + `><url><loc>http://e.example/a</loc><lastmod>2024-05-01</lastmod></url><!-- c --></urlset>`
	for i := 1; i < len(text); i++ {
		if _, _, err := read(strings.NewReader(text[:i]), sitemap.Options{}); !errors.Is(err, sitemap.ErrTruncated) {
			t.Errorf("%q: %v", text[:i], err)
		}
	}
}

// corpus calls f with every recorded sitemap and feed.
func corpus(t testing.TB, f func(name string, b []byte)) {
	for name, b := range machine.Recorded(t, "sitemaps-robots-urls-crawler-commons") {
		if !strings.Contains(name, "/sitemaps/") && !strings.Contains(name, "/rss/") {
			continue
		}
		if strings.HasSuffix(name, ".gz") {
			if z, err := gzip.NewReader(bytes.NewReader(b)); err == nil {
				if plain, err := io.ReadAll(io.LimitReader(z, 16<<20)); err == nil {
					b = plain
				}
			}
		}
		f(strings.TrimSuffix(filepath.Base(name), ".gz"), b)
	}
}

// The recorded sitemaps are read as who recorded them reads them: entries are
// counted with the help of nothing but their tags.
func TestRecordedSitemaps(t *testing.T) {
	sets, others := 0, 0
	corpus(t, func(name string, b []byte) {
		r, all, err := read(bytes.NewReader(b), sitemap.Options{})
		if strings.Contains(name, "atom") || strings.Contains(name, "rss") || strings.Contains(name, "Rss") {
			if others++; !errors.Is(err, sitemap.ErrOther) {
				t.Errorf("%s: %v", name, err)
			}
			return
		}
		n, first := r.Skipped()
		want := bytes.Count(b, []byte("<url>")) + bytes.Count(b, []byte("<sitemap>")) + bytes.Count(b, []byte("<sit:url>"))
		if r.Kind() == sitemap.Text {
			want = len(bytes.Fields(b))
		}
		useless := 0
		if name == "sitemap.index.xml" {
			useless = 15 // its URLs stand where none belongs
		}
		if sets++; err != nil || len(all)+n != want || want == 0 || n != useless {
			t.Errorf("%s: %v, %d entries of %d, skipped %d %v", name, err, len(all), want, n, first)
		}
	})
	t.Logf("%d sitemaps, %d feeds", sets, others)
	if sets < 15 || others < 2 {
		t.Errorf("%d sitemaps, %d feeds: not the expected corpus", sets, others)
	}
}

// For any input, the reader ends, keeps its limits, and returns canonical URLs.
func FuzzReader(f *testing.F) {
	for _, s := range []string{
		`<urlset` + ns + `><url><loc>http://e.example/</loc><lastmod>2024-05-01T10:00:00Z</lastmod></url></urlset>`,
		`<sitemapindex` + ns + `><sitemap><loc>/a.xml</loc></sitemap></sitemapindex>`,
		"http://e.example/\nhttp://e.example/b\r\r\n", "\xEF\xBB\xBF<!DOCTYPE html>", "<?xml?><!---->",
	} {
		f.Add([]byte(s))
	}
	if os.Getenv("PARLEY_DATA") != "" {
		corpus(f, func(_ string, b []byte) { f.Add(b[:min(len(b), 4096)]) })
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		const most = 50
		r, all, err := read(bytes.NewReader(b), sitemap.Options{URL: "https://e.example/d/s.xml", MaxEntries: most, MaxBytes: 1 << 16})
		n, first := r.Skipped()
		if len(all)+n > most || len(first) > 20 || r.Bytes() > 1<<16 || (err == nil) == (r.Kind() == sitemap.Unknown) && err == nil {
			t.Fatalf("%d entries, %d skipped, %d bytes, %v, %v", len(all), n, r.Bytes(), r.Kind(), err)
		}
		for _, e := range all {
			if c, err := protocol.CanonicalURL("", e.Loc); err != nil || c != e.Loc {
				t.Fatalf("%q: %q, %v", e.Loc, c, err)
			}
			if e.Span < 0 || e.Span > 0 && e.Modified.IsZero() || e.Modified.Location() != time.UTC {
				t.Fatalf("%v+%v", e.Modified, e.Span)
			}
		}
	})
}
