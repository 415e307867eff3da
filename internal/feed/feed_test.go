package feed_test

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
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/parleyweb/parley/internal/feed"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// forms are the three that are written.
var forms = map[string]func(io.Writer, feed.Feed) error{
	"rss": feed.WriteRSS, "atom": feed.WriteAtom, "json": feed.WriteJSON,
}

const home = "https://e.example/"

var may = time.Date(2024, 5, 1, 10, 11, 12, 0, time.UTC)

// some is a feed that has one of everything.
func some() feed.Feed {
	return feed.Feed{
		Title: "Examples & more", Home: home, Self: home + "feed.xml", Description: "What <we> do", Hub: "https://hub.example/?a=1&b=2",
		Entries: []feed.Entry{
			{URL: home + "a?b=1&c='2'", Title: "A <b>bold</b> title", Summary: "Changed: 12% of it & more", Modified: may, Op: protocol.Update,
				Significance: protocol.SignificanceOf(0.12)},
			{URL: home + "%C3%A4/new.html", Modified: may.Add(-time.Hour), Op: protocol.Create},
			{URL: home + "gone", Modified: may.Add(-2 * time.Hour), Op: protocol.Delete},
			{URL: home + "undated", Title: "Undated"},
			{URL: home + "named", Title: "Named", ID: "tag:e.example,2024:1", Modified: may.Add(-3 * time.Hour)},
		},
	}
}

// hostile are titles that pages have had.
var hostile = []string{
	"\x00\x01\x1b[31mred\x7f", "]]>", "<![CDATA[x]]>", "&amp;&lt;&#0;&nope;", "<script>alert(1)</script>", `"'>`,
	"bad \xff\xfe utf-8 \xc3", "\u202eesrever\u2066", "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627", "\ufffe\uffff\ufdd0",
	"\u0085\u2028\u2029\u00a0", strings.Repeat("long \u00e4", 900), " \t\r\n ", "{{ }}", "%s%n", "\U0001f600\U000e0041",
}

func written(t testing.TB, form string, f feed.Feed) []byte {
	t.Helper()
	var b bytes.Buffer
	must.OK(t, forms[form](&b, f))
	return b.Bytes()
}

func TestRoundTrip(t *testing.T) {
	f := some()
	for form := range forms {
		got := must.Get(feed.Read(bytes.NewReader(written(t, form, f)), feed.Options{}))
		if got.Title != f.Title || got.Home != home || form != "rss" && got.Self != f.Self || form != "json" && got.Hub != f.Hub {
			t.Errorf("%s: %+v", form, got)
		}
		var want []feed.Entry
		for _, e := range f.Entries {
			if e.Op == protocol.Delete && form != "atom" || e.Modified.IsZero() && form == "atom" {
				continue
			}
			if e.ID == "" {
				e.ID = e.URL
			}
			switch {
			case e.Op == protocol.Delete:
				e.Title, e.Summary = "", ""
			case e.Title == "":
				e.Title = "/\u00e4/new.html"
			}
			if form == "rss" && e.Summary != "" {
				e.Summary = "Changed: 12% of it &amp; more" // RSS takes it for HTML
			}
			if form == "json" {
				e.Summary = "" // it is the content there
			}
			if e.Op != protocol.Delete {
				e.Op = ""
			}
			e.Significance = 0
			want = append(want, e)
		}
		if form == "atom" { // the dead come last
			slices.SortStableFunc(want, func(a, b feed.Entry) int { return strings.Compare(string(a.Op), string(b.Op)) })
		}
		if !slices.Equal(got.Entries, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", form, got.Entries, want)
		}
		if form != "json" && !got.Updated.Equal(may) {
			t.Errorf("%s: updated %v", form, got.Updated)
		}
	}
}

// The output depends on the feed alone.
func TestWriteIsDeterministic(t *testing.T) {
	for form := range forms {
		if !bytes.Equal(written(t, form, some()), written(t, form, some())) {
			t.Errorf("%s: written twice, the feeds differ", form)
		}
	}
}

// A title comes through as one line of clean text, whatever it was, and never
// becomes markup.
func TestHostileTitles(t *testing.T) {
	f := some()
	f.Entries = nil
	for i, s := range hostile {
		f.Entries = append(f.Entries, feed.Entry{URL: fmt.Sprint(home, i), Title: s, Summary: s, Modified: may})
	}
	for form := range forms {
		for _, s := range hostile {
			f.Title, f.Description = s, s
			text := written(t, form, f)
			if !utf8.Valid(text) {
				t.Errorf("%s: not UTF-8 for a site called %q", form, s)
			}
			got, err := feed.Read(bytes.NewReader(text), feed.Options{})
			if err != nil || len(got.Entries) != len(hostile) {
				t.Fatalf("%s: %d entries, %v", form, len(got.Entries), err)
			}
			for i, e := range got.Entries {
				if strings.ContainsAny(e.Title, "\x00\x01\x1b\x7f\n\t\u0085\u2028\u202e\u2066") || len(e.Title) > 1024 || e.Title == "" {
					t.Errorf("%s: %q became %q", form, hostile[i], e.Title)
				}
			}
			for i, want := range map[int]string{0: "[31mred", 1: "]]>", 2: "<![CDATA[x]]>", 4: "<script>alert(1)</script>", 6: "bad \ufffd\ufffd utf-8 \ufffd", 7: "esrever", 9: "/9"} {
				if e := got.Entries[i]; e.Title != want {
					t.Errorf("%s: %q became %q", form, hostile[i], e.Title)
				}
			}
		}
	}
}

func TestAnEmptyFeed(t *testing.T) {
	for form := range forms {
		text := written(t, form, feed.Feed{Home: home})
		got, err := feed.Read(bytes.NewReader(text), feed.Options{})
		if err != nil || len(got.Entries) != 0 || got.Title != home {
			t.Errorf("%s: %+v, %v", form, got, err)
		}
	}
}

// Independent tools agree that the output is a feed, and on its content.
func TestOtherToolsReadFeeds(t *testing.T) {
	for what, f := range map[string]feed.Feed{"some": some(), "empty": {Home: home}, "hostile": hostileFeed()} {
		for form := range forms {
			path := filepath.Join(t.TempDir(), form)
			must.OK(t, os.WriteFile(path, written(t, form, f), 0o600))
			t.Run("xmllint/"+what+"/"+form, func(t *testing.T) {
				args := map[string][]string{"rss": {"--schema", "testdata/rss20.xsd"}, "atom": {"--relaxng", "testdata/atom.rng"}}[form]
				if args == nil {
					return
				}
				if out, err := exec.Command(machine.Tool(t, "xmllint"), append(args, "--noout", path)...).CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
			t.Run("python/"+what+"/"+form, func(t *testing.T) {
				out, err := exec.Command(machine.Tool(t, "python3"), "testdata/witness.py", path).CombinedOutput()
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				read := must.Get(feed.Read(bytes.NewReader(written(t, form, f)), feed.Options{}))
				var want []string
				for _, e := range read.Entries {
					if e.Op == protocol.Delete {
						want = append(want, "deleted\t"+e.ID)
					} else {
						want = append(want, e.ID+"\t"+e.URL+"\t"+e.Title+"\t"+protocol.FormatDate(e.Modified))
					}
				}
				got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
				if len(out) == 0 {
					got = nil
				}
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("the tool reads\n%s\nwe read\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			})
		}
	}
}

func hostileFeed() feed.Feed {
	f := feed.Feed{Home: home, Self: home + "f.xml", Title: hostile[0], Description: hostile[4]}
	for i, s := range hostile {
		f.Entries = append(f.Entries, feed.Entry{URL: fmt.Sprint(home, i), Title: s, Summary: s, Modified: may})
	}
	return f
}

func TestReadFormats(t *testing.T) {
	const rdf = `xmlns="http://purl.org/rss/1.0/" xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/"`
	for name, c := range map[string]struct{ text, kind, want string }{
		"RSS 0.91": {`<rss version="0.91"><channel><title>t</title><link>http://e.example/</link><item><title>a</title><link>http://e.example/a</link></item></channel></rss>`,
			"rss 0.91", "http://e.example/a"},
		"RSS 2.0": {`<rss version="2.0"><channel><link>http://e.example/d/</link>
			<item><link>b</link><pubDate>Wed, 01 May 2024 10:11:12 +0200</pubDate></item>
			<item><guid>HTTP://E.example/c#x</guid></item><item><title>no URL</title></item>
			<item><link>javascript:alert(1)</link></item></channel></rss>`,
			"rss 2.0", "http://e.example/d/b 2024-05-01T08:11:12Z+0s | http://e.example/c"},
		"RSS 1.0": {`<rdf:RDF ` + rdf + `><channel rdf:about="x"><link>http://e.example/</link></channel>
			<item rdf:about="http://e.example/a"><link>http://e.example/a</link><dc:date>2024-05-01</dc:date><dcterms:modified>2024-05-02T00:00:00Z</dcterms:modified></item>
			<item rdf:about="http://e.example/b"><link>http://e.example/b</link><dc:date>2024-05-01</dc:date></item></rdf:RDF>`,
			"rss 1.0", "http://e.example/a 2024-05-02T00:00:00Z+0s | http://e.example/b 2024-05-01T00:00:00Z+24h0m0s"},
		"Atom": {`<feed xmlns="http://www.w3.org/2005/Atom" xmlns:t="http://purl.org/atompub/tombstones/1.0"><link href="http://e.example/"/>
			<t:deleted-entry ref="http://e.example/z" when="2024-05-03T00:00:00Z"/><t:deleted-entry ref="tag:x"/>
			<entry><link href="/a"/><published>2024-05-01T00:00:00Z</published><updated>2024-05-02T00:00:00Z</updated></entry>
			<entry><link href="/b"/><published>2024-05-01T00:00:00Z</published></entry></feed>`,
			"atom 1.0", "http://e.example/a 2024-05-02T00:00:00Z+0s | http://e.example/b 2024-05-01T00:00:00Z+0s | http://e.example/z 2024-05-03T00:00:00Z+0s delete"},
		"JSON Feed": {`{"version":"https://jsonfeed.org/version/1.1","items":[{"id":"1","url":"http://e.example/a","date_published":"2024-05-01T00:00:00Z","date_modified":"2024-05-02T01:00:00+01:00"}]}`,
			"json 1.1", "http://e.example/a 2024-05-02T00:00:00Z+0s"},
		"Latin-1": {"<?xml version='1.0' encoding='ISO-8859-1'?><rss version='2.0'><channel><item><link>http://e.example/\xe4</link></item></channel></rss>",
			"rss 2.0", "http://e.example/%C3%A4"},
	} {
		f, err := feed.Read(iotest.HalfReader(strings.NewReader(c.text)), feed.Options{URL: "http://e.example/feed"})
		var got []string
		for _, e := range f.Entries {
			s := e.URL
			if !e.Modified.IsZero() {
				s += fmt.Sprintf(" %s+%v", protocol.FormatDate(e.Modified), e.Span)
			}
			if e.Op != "" {
				s += " " + string(e.Op)
			}
			got = append(got, s)
		}
		if s := strings.Join(got, " | "); err != nil || s != c.want || f.Kind != c.kind {
			t.Errorf("%s: %v, %q\n got %s\nwant %s", name, err, f.Kind, s, c.want)
		}
	}
}

func TestReadErrors(t *testing.T) {
	reset := errors.New("connection reset")
	for name, c := range map[string]struct {
		in   io.Reader
		want error
	}{
		"a page":              {strings.NewReader("<!DOCTYPE html><title>Not found</title>"), feed.ErrHTML},
		"a page of XHTML":     {strings.NewReader(`<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"/>`), feed.ErrHTML},
		"a sitemap":           {strings.NewReader(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"/>`), feed.ErrOther},
		"nothing":             {strings.NewReader(""), feed.ErrOther},
		"a truncated feed":    {strings.NewReader(`<rss version="2.0"><channel><item>`), nil},
		"one that is too big": {io.LimitReader(zeros{}, 1<<30), feed.ErrLimit},
		"many empty elements": {strings.NewReader(`<rss version="2.0"><channel>` + strings.Repeat("<item/>", 250_000)), feed.ErrLimit},
		"deep nesting":        {strings.NewReader(`<rss version="2.0" xmlns:a="urn:a"><channel>` + strings.Repeat("<a:b>", 250_000)), feed.ErrLimit},
		"deep nesting behind CDATA in an attribute": {strings.NewReader(`<rss version="2.0" xmlns:a="urn:a" b="<![CDATA[">` + strings.Repeat("<a:b>", 250_000) + "]]>"), feed.ErrLimit},
		"JSON of empty objects":                     {strings.NewReader(`{"version":"https://jsonfeed.org/version/1.1","items":[` + strings.Repeat("{},", 250_000) + "{}]}"), feed.ErrLimit},
		"a broken connection":                       {iotest.ErrReader(reset), reset},
	} {
		_, err := feed.Read(c.in, feed.Options{URL: home + "feed"})
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.HasPrefix(err.Error(), "read feed "+home+"feed: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// Feeds as they are in the wild, and as test suites have them: none makes the
// reader panic or run away, and what it reads it can write and read again.
func TestRecordedFeeds(t *testing.T) {
	for name, least := range map[string]int{"feeds-gofeed": 500, "feeds-w3c-feedvalidator": 1500} {
		files, feeds, entries := 0, 0, 0
		for _, b := range machine.Recorded(t, name) {
			files++
			if n, ok := again(t, b); ok {
				feeds, entries = feeds+1, entries+n
			}
		}
		t.Logf("%s: %d files, %d read as feeds, %d entries", name, files, feeds, entries)
		if feeds < least {
			t.Errorf("%s: %d of %d files read as feeds", name, feeds, files)
		}
	}
}

// again reads a document and, if it is a feed, demands that its entries are
// read the same once they have been written.
func again(t testing.TB, b []byte) (n int, ok bool) {
	t.Helper()
	f, err := feed.Read(bytes.NewReader(b), feed.Options{URL: home})
	if err != nil {
		return 0, false
	}
	f.Home = home
	for _, e := range f.Entries {
		if c, err := protocol.CanonicalURL("", e.URL); err != nil || c != e.URL {
			t.Fatalf("%q: %q, %v", e.URL, c, err)
		}
	}
	for form := range forms {
		got, err := feed.Read(bytes.NewReader(written(t, form, f)), feed.Options{})
		if err != nil {
			t.Fatalf("%s: %v\n%s", form, err, written(t, form, f))
		}
		i := 0
		for _, e := range f.Entries {
			if e.Op == protocol.Delete || form == "atom" && e.Modified.IsZero() {
				continue
			}
			if i == len(got.Entries) || got.Entries[i].URL != e.URL || !got.Entries[i].Modified.Truncate(time.Second).Equal(e.Modified.Truncate(time.Second)) {
				t.Fatalf("%s: entry %d of %+v\nis %+v", form, i, f.Entries, got.Entries)
			}
			i++
		}
	}
	return len(f.Entries), true
}

// Any input is a feed that can be written, or an error.
func FuzzRead(f *testing.F) {
	for form := range forms {
		f.Add(written(f, form, some()))
	}
	f.Add([]byte(`<rdf:RDF xmlns="http://purl.org/rss/1.0/" xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><item rdf:about="http://e.example/a"/></rdf:RDF>`))
	f.Fuzz(func(t *testing.T, b []byte) { again(t, b) })
}
