package gather_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/engine/gather"
	"github.com/parleyweb/parley/internal/engine/references"
	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/maintext"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

const at = "https://example.org/docs/page.html"

func header(lines ...string) http.Header {
	h := http.Header{}
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ": ")
		h.Add(name, value)
	}
	return h
}

var asHTML = header("Content-Type: text/html; charset=utf-8")

func read(t testing.TB, g *gather.Gatherer, h http.Header, body string) gather.Page {
	t.Helper()
	var p gather.Page
	must.OK(t, g.Read(&p, at, h, []byte(body)))
	return p
}

func links(p gather.Page) string {
	var list []string
	for _, l := range p.Links {
		s := fmt.Sprint(l.Kind, " ", strings.TrimPrefix(l.URL, "https://example.org"))
		if l.NoFollow {
			s += " nofollow"
		}
		list = append(list, s)
	}
	return strings.Join(list, ", ")
}

func TestPage(t *testing.T) {
	body := `<!DOCTYPE html><html lang=en><head><title>Fish &amp; chips</title><link rel=canonical href="../fish#x">
<meta name=ourbot content=nofollow><link rel=alternate type=application/atom+xml href=/feed><link rel=alternate type=application/rdf+xml href=/robots.rdf>
<link rel=sitemap href=/sitemap.xml><link rel=stylesheet href=style.css></head><body>
<a href=a.html>a</a> <a href="./a.html#part">a again</a> <a href="HTTPS://EXAMPLE.org:443/docs/a.html" rel=nofollow>and again</a>
<a href="mailto:a@b"> <a rel=nofollow href="/b c"><iframe src=frame.html></iframe><img src=i.png></body>`
	p := read(t, &gather.Gatherer{Agent: "OurBot"}, asHTML, body)
	if p.Title != "Fish & chips" || p.Language != "en" || p.Canonical != "https://example.org/fish" || p.Base != at || !p.HTML || p.NoIndex || !p.NoFollow {
		t.Errorf("%+v", p)
	}
	want := "3 /fish, 5 /feed, 7 /robots.rdf, 6 /sitemap.xml, 0 /docs/a.html, 0 /b%20c nofollow, 1 /docs/frame.html"
	if got := links(p); got != want {
		t.Errorf("links %s\nwant  %s", got, want)
	}
	if p.Body != protocol.Sum([]byte(body)) || p.Parsed.IsZero() || !p.Text.IsZero() {
		t.Errorf("digests %v %v, %v", p.Body, p.Parsed, p.Text)
	}
	p = read(t, &gather.Gatherer{Embedded: true, Text: true}, asHTML, body)
	if got, want := links(p), strings.Replace(want, ", 0 /docs/a", ", 4 /docs/style.css, 0 /docs/a", 1)+", 4 /docs/i.png"; got != want {
		t.Errorf("with embedded resources: %s\nwant %s", got, want)
	}
	if want := protocol.Sum(html.Read(at, []byte(body), html.Options{Text: true}).Text); p.Text != want {
		t.Errorf("main text %v, want %v", p.Text, want)
	}
	sketched := read(t, &gather.Gatherer{Sketch: true}, asHTML, body)
	if share, known := maintext.Share([]byte(sketched.Sketch), []byte(sketched.Sketch)); share != 0 || !known || sketched.Text != p.Text || p.Sketch != "" {
		t.Errorf("sketch %q, share %v, %v; main text %v, want %v", sketched.Sketch, share, known, sketched.Text, p.Text)
	}
}

func TestBase(t *testing.T) {
	g := new(gather.Gatherer)
	for body, want := range map[string]string{
		`<base href="/x/"><a href=y><link rel=canonical href=c>`: "https://example.org/x/: 0 /x/y, 3 /x/c",
		`<a href=y><base href="//cdn.example/x/#f">`:             "https://cdn.example/x/: 0 https://cdn.example/x/y",
		`<base href="mailto:x"><a href=y>`:                       at + ": 0 /docs/y",
		`<base href=""><a href=y>`:                               at + ": 0 /docs/y",
	} {
		p := read(t, g, header("Content-Type: text/html", "Link: <n>; rel=next"), body)
		if got := p.Base + ": " + links(p); got != strings.Replace(want, ": ", ": 3 /docs/n, ", 1) { // a header starts from the page
			t.Errorf("%s: %s", body, got)
		}
	}
}

// The content type decides which reader is used: P09.
func TestTypes(t *testing.T) {
	const page = "<title>t</title><a href=x>"
	utf16 := "\xff\xfe"
	for _, c := range page {
		utf16 += string([]byte{byte(c), 0})
	}
	for _, c := range []struct {
		typ, body string
		html      bool
		parsed    bool
		lies      bool
	}{
		{"text/html", page, true, true, false},
		{"TEXT/HTML ;charset=x", page, true, true, false},
		{"application/xhtml+xml", page, true, true, false},
		{"text/html", utf16, true, true, false},
		{"text/html", "", true, false, false},
		{"text/html", "<div id=root></div><script src=app.js></script>", true, false, false},
		{"text/html", strings.Repeat(" ", 2000) + "\x00" + page, true, true, false},
		{"text/plain", page, false, true, false},
		{"text/html", "PK\x03\x04" + page, false, false, true},
		{"text/html", "%PDF-1.5 <a href=x>", false, false, true},
		{"text/plain", "\x89PNG\r\n\x1a\n\x00\x00", false, false, true},
		{"image/png", page, false, false, false},
		{"application/json", `{"a":"<a href=x>"}`, false, false, false},
		{"", "\n<!DOCTYPE html>" + page, true, true, false},
		{"", "words and nothing else", false, false, false},
		{"", "\x1f\x8b\x08", false, false, false},
	} {
		h := http.Header{}
		if c.typ != "" {
			h.Set("Content-Type", c.typ)
		}
		var p gather.Page
		err := new(gather.Gatherer).Read(&p, at, h, []byte(c.body))
		if p.HTML != c.html || p.Parsed.IsZero() == c.parsed || (err != nil) != c.lies || p.Body != protocol.Sum([]byte(c.body)) {
			t.Errorf("%q %.40q: %+v, %v", c.typ, c.body, p, err)
		}
		if got := links(p); c.html && c.parsed && got != "0 /docs/x" || !c.html && got != "" {
			t.Errorf("%q %.40q: links %s", c.typ, c.body, got)
		}
	}
}

func TestRobotsTag(t *testing.T) {
	g := &gather.Gatherer{Agent: "ourbot"}
	for value, want := range map[string][2]bool{
		"noindex":                          {true, false},
		"nofollow":                         {false, true},
		"NOINDEX, nofollow":                {true, true},
		"none":                             {true, true},
		"all, index":                       {},
		"otherbot: noindex":                {},
		"otherbot: noindex, nofollow":      {},
		"OurBot: noindex":                  {true, false},
		"otherbot: none, ourbot: nofollow": {false, true},
		"nofollow, otherbot: noindex":      {false, true},
		"unavailable_after: 25 Jun 2010 15:00:00 PST, noindex": {true, false},
		"unavailable_after: Wed, 03 Aug 2011 15:00:00 GMT":     {true, false},
		"unavailable_after: Wed, 03 Aug 2211 15:00:00 GMT":     {},
		"ourbot: unavailable_after: 2011-08-03":                {true, false},
		"otherbot: unavailable_after: 2011-08-03":              {},
		"max-snippet: 10, noindex":                             {true, false},
		"":                                                     {},
		":,:":                                                  {},
	} {
		p := read(t, g, header("Content-Type: text/html", "X-Robots-Tag: "+value), "")
		if got := [2]bool{p.NoIndex, p.NoFollow}; got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
	p := read(t, g, header("Content-Type: image/png", "X-Robots-Tag: all", "X-Robots-Tag: noindex"), "")
	if !p.NoIndex {
		t.Error("the second header is ignored, or only used for HTML")
	}
}

// A refresh in the header is a link, of any type of page. It is relative to the page's own URL.
func TestRefreshHeader(t *testing.T) {
	for value, want := range map[string]string{
		"0; url=n.html":          "2 /docs/n.html",
		"5;URL='/n.html#part' x": "2 /n.html",
		"0 https://b.example/":   "2 https://b.example/",
		"0; url=#part":           "",
		"0; url= ":               "",
		"30":                     "",
		"url=n.html":             "",
	} {
		for _, typ := range []string{"text/html", "application/pdf"} {
			p := read(t, new(gather.Gatherer), header("Content-Type: "+typ, "Refresh: "+value), "<base href=/elsewhere/>")
			if got := links(p); got != want {
				t.Errorf("%s of %s: %q, want %q", value, typ, got, want)
			}
		}
	}
}

func TestLinkHeader(t *testing.T) {
	for value, want := range map[string]string{
		`<n>; rel=next`:                   "3 /docs/n",
		`</c>; rel="canonical"`:           "3 /c canonical /c",
		`<a>;rel="x NEXT" , <b>;rel=prev`: "3 /docs/a, 3 /docs/b",
		`<f>; title="a, \"b; <c>"; rel=alternate; type="application/rss+xml"`: "5 /docs/f",
		`<s>; rel=preload; as=style`:                                          "",
		`<x>; rel=next; anchor="#foo"`:                                        "",
		`<x>`:                                                                 "",
		`<x; rel=next`:                                                        "",
		`nonsense; rel=next`:                                                  "",
		`<#y>; rel=next`:                                                      "",
		`<x>; rel=next; rel=stylesheet; =; ;;"`:                               "3 /docs/x",
		`<x>; rel=nofollow, <y>; rel = next ; z`:                              "3 /docs/y",
		strings.Repeat("<", 10_000):                                           "",
	} {
		p := read(t, new(gather.Gatherer), header("Content-Type: application/pdf", "Link: "+value), "")
		got := links(p)
		if p.Canonical != "" {
			got += " canonical " + strings.TrimPrefix(p.Canonical, "https://example.org")
		}
		if got != want {
			t.Errorf("%.80s: %q, want %q", value, got, want)
		}
	}
	p := read(t, new(gather.Gatherer), header("Content-Type: text/html", `Link: </header>; rel=canonical`), `<link rel=canonical href=/page>`)
	if p.Canonical != "https://example.org/page" {
		t.Errorf("canonical %q: the page's link should override the header", p.Canonical)
	}
	p = read(t, new(gather.Gatherer), header("Content-Type: text/html", `Link: <c>; rel=canonical`), `<base href=/elsewhere/>`)
	if p.Canonical != "https://example.org/docs/c" {
		t.Errorf("canonical %q: header links should not be resolved against <base>", p.Canonical)
	}
}

// Pages that differ only in presentation are duplicates: P17.
func TestDuplicates(t *testing.T) {
	g := new(gather.Gatherer)
	const one = "<title>t</title><body bgcolor=red><p>Some <b>words</b> and <a href=x.html>a link</a>."
	first := read(t, g, asHTML, one)
	for name, other := range map[string]string{
		"colours":     strings.Replace(one, "red", "blue", 1),
		"fonts":       strings.Replace(one, "words", "<font face=Arial size=3>words</font>", 1),
		"style":       "<style>p {}</style>" + one,
		"scripts":     one + "<script>track('" + "nonce" + "')</script>",
		"comments":    one + "<!-- built on Monday -->",
		"white space": strings.ReplaceAll(one, " ", "\n\t "),
		"classes":     strings.Replace(one, "<p>", "<p class='x y' id=z>", 1),
	} {
		p := read(t, g, asHTML, other)
		if p.Parsed != first.Parsed || p.Body == first.Body {
			t.Errorf("%s: no duplicate, or the same bytes", name)
		}
	}
	for name, other := range map[string]string{
		"a word":     strings.Replace(one, "Some", "Many", 1),
		"the title":  strings.Replace(one, "<title>t", "<title>u", 1),
		"a link":     strings.Replace(one, "x.html", "y.html", 1),
		"an image":   one + "<img src=i>",
		"more of it": one + "..",
	} {
		if p := read(t, g, asHTML, other); p.Parsed == first.Parsed {
			t.Errorf("%s: a duplicate", name)
		}
	}
	plain := read(t, g, header("Content-Type: text/plain"), " a\n b ")
	if again := read(t, g, header("Content-Type: text/plain"), "a b"); plain.Parsed != again.Parsed || plain.Parsed.IsZero() {
		t.Errorf("plain texts that differ in white space: %v and %v", plain.Parsed, again.Parsed)
	}
}

// One Gatherer reads page after page: its result for one page stays valid after the next,
// and it needs hardly any new memory.
func TestReuse(t *testing.T) {
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, "<p>Words of paragraph %d with <a href=../dir/page%d.html?x=%d#y>a link</a>.\n", i, i, i)
	}
	body := []byte(b.String())
	g := new(gather.Gatherer)
	var p gather.Page
	check := func() {
		if err := g.Read(&p, at, asHTML, body); err != nil || len(p.Links) != 100 {
			t.Fatal(len(p.Links), err)
		}
	}
	check()
	kept := slices.Clone(p.Links)
	for range 3 {
		if err := g.Read(&p, at, asHTML, []byte("<a href=other>")); err != nil || links(p) != "0 /docs/other" {
			t.Fatal(links(p), err)
		}
	}
	for i, l := range kept {
		if want := fmt.Sprintf("https://example.org/dir/page%d.html?x=%d", i, i); l.URL != want {
			t.Fatalf("link %d has become %s", i, l.URL)
		}
	}
	if n := testing.AllocsPerRun(20, check); n > 20 {
		t.Errorf("%v allocations for a page of 100 links", n)
	}
}

// On real pages the Gatherer finds the same as html.Read, which is compared with x/net in its package.
func TestRealPages(t *testing.T) {
	g := &gather.Gatherer{Text: true}
	n, found := 0, 0
	for name, body := range machine.Pages(t, machine.GitDoc(t)) {
		p := read(t, g, asHTML, string(body))
		want := html.Read(at, body, html.Options{Links: true, Text: true})
		if p.Title != want.Title || p.Language != want.Language || p.Canonical != want.Canonical || p.NoIndex != want.NoIndex || p.Text != protocol.Sum(want.Text) {
			t.Errorf("%s: %+v", name, p)
		}
		var got, links []string
		for _, l := range p.Links {
			got = append(got, l.URL)
		}
		for _, l := range want.Links {
			if u, err := protocol.CanonicalURL("", l); err == nil && !slices.Contains(links, u) {
				links = append(links, u)
			}
		}
		if !slices.Equal(got, links) {
			t.Errorf("%s: links\n%q, want\n%q", name, got, links)
		}
		n, found = n+1, found+len(links)
		if n == 100 {
			break
		}
	}
	t.Logf("%d pages with %d links", n, found)
}

func TestKinds(t *testing.T) {
	for ours, theirs := range map[gather.LinkKind]html.Kind{gather.Anchor: html.Anchor, gather.Frame: html.Frame, gather.Refresh: html.Refresh,
		gather.Alternate: html.Alternate, gather.Embedded: html.Embedded, gather.Feed: html.Feed, gather.Sitemap: html.Sitemap, gather.Manifest: html.Manifest} {
		if ours != gather.LinkKind(theirs) {
			t.Errorf("kind %d is %d in package html", ours, theirs)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("text/html", `</c>; rel=canonical, <n>;rel="next`, "noindex, x: none", []byte(`<base href=//h><a href=../x?y#z><img srcset="a 1x, b">`))
	f.Add("", "<", ":", []byte("\xff\xfe<\x00a\x00"))
	f.Add("text/plain", "", "", []byte("a\x00b"))
	f.Add("text/html;,x", "", "", []byte("a"))
	g, counting := &gather.Gatherer{Agent: "bot", Embedded: true}, &gather.Gatherer{Agent: "bot", References: true}
	var p gather.Page
	f.Fuzz(func(t *testing.T, typ, link, tag string, body []byte) {
		err := g.Read(&p, at, http.Header{"Content-Type": {typ}, "Link": {link}, "X-Robots-Tag": {tag}}, body)
		if err != nil && (p.HTML || !p.Parsed.IsZero()) {
			t.Fatalf("%v, but parsed", err)
		}
		seen := map[string]bool{}
		for _, l := range p.Links {
			if u, err := protocol.CanonicalURL("", l.URL); err != nil || u != l.URL || seen[u] {
				t.Fatalf("link %q, canonical %q, %v; twice: %v", l.URL, u, err, seen[u])
			}
			seen[l.URL] = true
		}
		if p.Canonical != "" {
			if u, err := protocol.CanonicalURL("", p.Canonical); err != nil || u != p.Canonical || u == at {
				t.Fatalf("canonical %q", p.Canonical)
			}
		}
		before := p
		if g.Read(&p, at, http.Header{"Content-Type": {typ}}, body); p.Parsed != before.Parsed || p.Body != before.Body || p.Title != before.Title {
			t.Fatal("a second read gives another result")
		}
		counting.Read(&p, at, http.Header{"Content-Type": {typ}, "Link": {link}, "X-Robots-Tag": {tag}}, body)
		if c, ok := references.Parse(p.References); p.References != nil && !ok {
			t.Fatalf("references %x are %+v", p.References, c)
		}
	})
}
