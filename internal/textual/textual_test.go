package textual_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/textual"
)

const at = "https://example.org/a/b.html"

func read(f textual.Format, page string) textual.Text {
	r := textual.Reader{Format: f}
	return r.Read(at, "text/html", []byte(page))
}

func TestBothFormats(t *testing.T) {
	for _, c := range []struct{ page, plain, markdown string }{
		{"", "", ""},
		{"<h1>Title</h1><p>One &amp; two.<p>Three", "Title\nOne & two.\nThree", "# Title\n\nOne & two.\n\nThree"},
		{"<nav><a href=/>Menu</a></nav><main><p>Text</main><footer>(c)</footer>", "Text", "Text"},
		{"<header>Name</header><p>Text<footer>(c)</footer>", "Text", "Text"},
		{"<p>out<article><header>By me</header><p>In</article><p>out", "By me\nIn", "By me\n\nIn"},
		{"<article>A</article><main></main><article>B</article>", "A\nB", "A\n\nB"},
		{"<main> <img alt='A picture' src=x.png> </main><p>out", "A picture", "A picture"},
		{"<p>seen<p hidden>not<script>1</script><p hidden=until-found>found", "seen\nfound", "seen\n\nfound"},
		{"<p>A <a href='c.html?x=1&amp;y=2'>link</a>, <a href=#here>here</a>, <a href='javascript:x()'>none</a>",
			"A link, here, none", "A [link](https://example.org/a/c.html?x=1&y=2), here, none"},
		{"<base href='https://other.example/d/'><p><a href=c.html>c</a>", "c", "[c](https://other.example/d/c.html)"},
		{"<ul><li>one<li>two<ol start=3><li>three</ol></ul>", "one\ntwo\nthree", "- one\n- two\n  \n  3. three"},
		{"<blockquote><p>said</blockquote>", "said", "> said"},
		{"<pre><code class='x language-go'>a := 1\n\tb[*]</code></pre>", "a := 1\nb[*]", "```go\na := 1\n\tb[*]\n```"},
		{"<p><b>bold</b> <em>em</em> <code>a*b</code>", "bold em a*b", "**bold** *em* `a*b`"},
		{"<table><tr><th>a<th>b<tr><td>1<td>2</table>", "a b\n1 2", "| a | b |\n|---|---|\n| 1 | 2 |"},
		{"<table><tr><td>only<tr><td>a frame</table>", "only\na frame", "only\n\na frame"},
		{"<p>5 * 3 * 2 <p># 1 [x](y) &lt;b&gt;", "5 * 3 * 2\n# 1 [x](y) <b>", "5 * 3 * 2\n\n\\# 1 \\[x](y) &lt;b&gt;"},
		{"<p>\x01a\x07b\u200bc", "a b\u200bc", "a b\u200bc"},
		{"<x-widget>unknown <y>elements</y></x-widget>", "unknown elements", "unknown elements"},
	} {
		if got := read(textual.Plain, c.page); got.Body != c.plain || got.Format != textual.Plain || got.Cut {
			t.Errorf("%q as plain text: %+v, want %q", c.page, got, c.plain)
		}
		if got := read(textual.Markdown, c.page); got.Body != c.markdown || got.Format != textual.Markdown || got.Cut {
			t.Errorf("%q as Markdown: %+v, want %q", c.page, got, c.markdown)
		}
	}
}

func TestMediaTypesAndEncodings(t *testing.T) {
	r := textual.Reader{Format: textual.Markdown}
	for _, c := range []struct {
		kind, body string
		want       textual.Text
	}{
		{"text/html; charset=ISO-8859-1", "<p>caf\xe9", textual.Text{Format: textual.Markdown, Body: "café"}},
		{"text/html", "<meta charset=shift_jis><p>\x93\xfa\x96\x7b", textual.Text{Format: textual.Markdown, Body: "日本"}},
		{"text/html; charset=utf-8", "<p>caf\xe9!", textual.Text{Format: textual.Markdown, Body: "caf\uFFFD!"}},
		{"TEXT/HTML;charset", "<p>a", textual.Text{Format: textual.Markdown, Body: "a"}},
		{"application/xhtml+xml", "<p>a", textual.Text{Format: textual.Markdown, Body: "a"}},
		{"text/html", "\xff\xfe<\x00p\x00>\x00h\x00i\x00", textual.Text{Format: textual.Markdown, Body: "hi"}},
		{"text/plain", "\uFEFF two\r\nlines\x00\n", textual.Text{Format: textual.Plain, Body: "two\nlines"}},
		{"text/markdown", "# a", textual.Text{Format: textual.Markdown, Body: "# a"}},
		{"image/png", "\x89PNG", textual.Text{}},
		{"", "<p>a", textual.Text{}},
	} {
		if got := r.Read(at, c.kind, []byte(c.body)); got != c.want {
			t.Errorf("%s %q: %+v, want %+v", c.kind, c.body, got, c.want)
		}
	}
	if got := new(textual.Reader).Read(at, "text/html", []byte("<p>a")); got != (textual.Text{}) {
		t.Errorf("returned although no format was requested: %+v", got)
	}
}

// Lists that follow each other have the words of the page between them, and no others.
func TestAdjacentLists(t *testing.T) {
	r := textual.Reader{Format: textual.Markdown}
	if got := r.Read(at, "text/html", []byte("<ul><li>a</ul><ul><li>b</ul><ol><li>c</ol>")); strings.Contains(got.Body, "END") || strings.Contains(got.Body, "<!--") {
		t.Errorf("%q", got.Body)
	}
}

func TestLongTextIsTruncated(t *testing.T) {
	r := textual.Reader{Format: textual.Plain, MaxText: 20}
	for page, want := range map[string]string{
		"<p>twelve words<p>and more":       "twelve words",
		"<p>" + strings.Repeat("é", 20):    strings.Repeat("é", 10),
		"<p>x" + strings.Repeat("é", 20):   "x" + strings.Repeat("é", 9),
		"<p>a<p>" + strings.Repeat("b", 9): "a\nbbbbbbbbb",
	} {
		got := r.Read(at, "text/html", []byte(page))
		if got.Body != want || got.Cut != (len(page) > 20) {
			t.Errorf("%q: %+v, want %q", page, got, want)
		}
	}
	r = textual.Reader{Format: textual.Markdown, MaxPage: 12}
	if got := r.Read(at, "text/html", []byte("<p>one two three")); got.Body != "one two t" || !got.Cut {
		t.Errorf("a page that is too long: %+v", got)
	}
}

// hostile pages grow, or take the square of their length, where nothing is done about it.
func hostile() map[string]string {
	rep := strings.Repeat
	return map[string]string{
		"elements":        rep("<div>", 50_000) + "x",
		"bold":            rep("<b>", 50_000) + "x",
		"quotes":          rep("<blockquote>", 400) + rep("x<br>", 20_000),
		"lists":           rep("<ul><li>", 240) + rep("<p>x", 20_000),
		"brackets":        "<p>" + rep("[", 200_000),
		"in bold":         "<p>" + rep("<b>x</b>[", 60_000),
		"in headings":     "<h1>" + rep("<div>[</div>", 60_000),
		"in cells":        "<table>" + rep("<tr>", 2) + rep("<td>[", 60_000),
		"in links":        "<a href=x>" + rep("<p>[</p>", 60_000),
		"stars":           "<p>" + rep("*_`~#!", 50_000),
		"spans":           "<table>" + rep("<tr><td rowspan=65000 colspan=1000>x<td>y", 2_000) + "</table>",
		"a span":          "<table><tr><td rowspan=1000000000 colspan=1000000000>x<td>y</table>",
		"ragged":          "<table>" + rep("<tr><td>x", 20_000) + "<tr>" + rep("<td>x", 20_000),
		"tables":          rep("<table><tr><td>x<td>", 120),
		"wide":            "<table>" + rep("<tr><td>x<td>y", 20_000) + "<tr><td>" + rep("z", 100_000),
		"base":            "<base href=https://example.org/" + rep("x", 2_000) + "/>" + rep("<a href=y>z</a> ", 40_000),
		"unread":          "<p>" + rep("x<script></script>", 40_000),
		"titles":          rep("<a href=x title='\n\n# no\n\n'>y</a>", 10_000),
		"fences":          rep("<pre>```\n</pre>", 30_000),
		"spaces":          "<pre>" + rep(" ", 500_000) + "x",
		"lines":           "<p>" + rep("<br>", 200_000) + "x",
		"attributes":      "<p " + rep("a=b ", 200_000) + ">x",
		"markers":         rep("\a\uF002\u001a[", 50_000),
		"mains":           rep("<main>x</main>", 40_000),
		"empty mains":     rep("<main><p></p></main>", 40_000) + "x",
		"articles within": rep("<article>x", 500),
		"definitions":     rep("<dl><dt>x<dd>", 200),
		"foreign":         "<svg>" + rep("<desc><svg>", 100) + "x</svg><math>" + rep("<mi>x", 50_000),
		"forms":           rep("<select><option>x", 40_000),
		"entities":        "<p>" + rep("&#x5b;&lt;&gt;&#42;", 40_000),
	}
}

func TestHostilePagesStayInTheirBounds(t *testing.T) {
	if testing.Short() {
		t.Skip("long, in one goroutine")
	}
	r := textual.Reader{Format: textual.Markdown, MaxText: 2 << 20}
	for name, page := range hostile() {
		got := r.Read(at, "text/html", []byte(page))
		sound(t, name, got, 2<<20)
		if got.Body == "" && name != "forms" && name != "foreign" && name != "brackets" && name != "markers" {
			t.Errorf("%s: no text", name)
		}
	}
}

// sound checks the properties that are promised of every text.
func sound(t *testing.T, name string, got textual.Text, most int) {
	t.Helper()
	switch {
	case len(got.Body) > most:
		t.Errorf("%s: %d bytes", name, len(got.Body))
	case !utf8.ValidString(got.Body):
		t.Errorf("%s: no UTF-8", name)
	case strings.TrimSpace(got.Body) != got.Body:
		t.Errorf("%s: leading or trailing space", name)
	case strings.IndexFunc(got.Body, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 }) >= 0:
		t.Errorf("%s: control characters", name)
	}
}

// docroots are of real pages: CI installs them and names them, so that a test says the same wherever it runs.
var docroots = slices.DeleteFunc([]string{os.Getenv("PARLEY_GIT_DOC"), os.Getenv("PARLEY_APACHE_DOC")}, func(dir string) bool { return dir == "" })

var (
	targets = regexp.MustCompile(`\]\((?:https?|mailto):[^)\s]*\)|(?m:^[ >-]*\d+\. )`) // of links, and the numbers of items
	aWord   = regexp.MustCompile(`[\pL\pN]+`)
)

// The Markdown of a page has exactly the words of its plain text, in the same order. The digest
// of the main text is computed from those words.
func TestRealPagesHaveTheSameTextInBothFormats(t *testing.T) {
	if testing.Short() {
		t.Skip("long, in one goroutine")
	}
	plain, markdown := textual.Reader{Format: textual.Plain}, textual.Reader{Format: textual.Markdown}
	read, size, differ := 0, 0, 0
	look := func(path string, page []byte) {
		if len(page) > 1<<20 {
			return
		}
		a, b := plain.Read(at, "text/html", page), markdown.Read(at, "text/html", page)
		sound(t, path, b, textual.DefaultMaxText)
		if b.Format != textual.Markdown {
			return
		}
		read, size = read+1, size+len(page)
		x := strings.Join(aWord.FindAllString(a.Body, -1), "")
		s := strings.NewReplacer("&lt;", "<", "&gt;", ">").Replace(targets.ReplaceAllString(b.Body, " "))
		y := strings.Join(aWord.FindAllString(s, -1), "")
		if x != y {
			if differ++; differ <= 3 {
				t.Logf("%s: %s", path, firstDifference(x, y))
			}
		}
	}
	for _, dir := range docroots {
		size = 0
		for path, page := range machine.Pages(t, dir) {
			if look(path, page); size > 8<<20 {
				break
			}
		}
	}
	if read < 100 {
		machine.Lacks(t, "neither PARLEY_GIT_DOC nor PARLEY_APACHE_DOC is a directory of pages")
	}
	t.Logf("%d pages, %d MB, %d differ", read, size>>20, differ)
	if differ*50 > read {
		t.Errorf("%d of %d pages have different words in Markdown", differ, read)
	}
}

func firstDifference(x, y string) string {
	i := 0
	for i < len(x) && i < len(y) && x[i] == y[i] {
		i++
	}
	from := max(0, i-30)
	return fmt.Sprintf("%.60q, %.60q", x[from:], y[from:])
}

func FuzzRead(f *testing.F) {
	for _, page := range []string{
		"<main><h1>a</h1><p>b<table><tr><th>c<td colspan=3>d</table>", "<ul><li><blockquote>x<pre>y</pre></ul>",
		"<a href=//x><img alt='['></a>[<b>]", "<table><table><td><tr><caption>x", "<svg><p>x<math><mi><table>", "\xff\xfe<\x00", "<body hidden>x",
	} {
		f.Add(page, "text/html; charset=utf-8")
	}
	f.Add("\x93\xfa", "text/html; charset=shift_jis")
	f.Fuzz(func(t *testing.T, page, kind string) {
		for _, format := range []textual.Format{textual.Plain, textual.Markdown} {
			r := textual.Reader{Format: format, MaxText: 1000}
			sound(t, format.String(), r.Read(at, kind, []byte(page)), 1000)
		}
		r := textual.Reader{Format: textual.Plain}
		if got := r.Read(at, "text/html; charset=utf-8", []byte(page)); utf8.ValidString(page) && len(page) < 1000 {
			want := strings.TrimSpace(string(html.Read(at, []byte(page), html.Options{Text: true}).Text))
			if got.Body != want && !strings.ContainsAny(page, "\uFEFF\u0085") && !regexp.MustCompile(`[\x{80}-\x{9f}]|&#`).MatchString(page) {
				t.Errorf("%q is not the main text %q", got.Body, want)
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	if len(docroots) == 0 {
		b.Skip("PARLEY_GIT_DOC is not a directory of pages")
	}
	page, err := os.ReadFile(filepath.Join(docroots[0], "git-log.html"))
	if err != nil {
		b.Skip(err)
	}
	for _, format := range []textual.Format{textual.Plain, textual.Markdown} {
		b.Run(format.String(), func(b *testing.B) {
			r := textual.Reader{Format: format}
			b.SetBytes(int64(len(page)))
			b.ReportAllocs()
			for b.Loop() {
				r.Read(at, "text/html", page)
			}
		})
	}
}

func TestFormatIsAFlag(t *testing.T) {
	fs := flag.NewFlagSet("x", flag.ContinueOnError)
	fs.SetOutput(new(strings.Builder))
	var f textual.Format
	fs.Var(&f, "text", "")
	if err := fs.Parse([]string{"-text", "markdown"}); err != nil || f != textual.Markdown || f.String() != "markdown" {
		t.Errorf("-text markdown: %v, %v", f, err)
	}
	if fs.Parse([]string{"-text", "rtf"}) == nil {
		t.Error("format rtf is accepted")
	}
}
