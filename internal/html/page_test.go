package html_test

import (
	"bytes"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/internal/must"
)

const at = "https://example.org/docs/page.html"

func TestLanguage(t *testing.T) {
	for page, want := range map[string]string{
		`<html lang="en">`:                                                           "en",
		`<html xml:lang="pt-BR">`:                                                    "pt-BR",
		`<html xml:lang="en" lang=" de ">`:                                           "de",
		`<html lang="en_US" xml:lang="en">`:                                          "en",
		`<!DOCTYPE html><html LANG=zh-Hant-TW><html lang=fr>`:                        "zh-Hant-TW",
		`<html><html lang=fr>`:                                                       "",
		`<meta http-equiv="Content-Language" content="nl">`:                          "nl",
		`<html lang="x y"><meta http-equiv="content-language" content="nl">`:         "nl",
		`<html lang="en"><meta http-equiv="content-language" content="nl">`:          "en",
		`<meta http-equiv="content-language" content="nl, en">`:                      "",
		`<html lang="12">`:                                                           "",
		`<html lang="en-">`:                                                          "",
		`<html lang="-en">`:                                                          "",
		`<html lang="deutschland">`:                                                  "",
		`<html lang="en-` + strings.Repeat("a", 8) + strings.Repeat("-x", 12) + `">`: "en-aaaaaaaa" + strings.Repeat("-x", 12),
		`<html lang="en-` + strings.Repeat("a", 8) + strings.Repeat("-x", 13) + `">`: "",
		`<p lang="en">`:                                                              "",
	} {
		if got := html.Read(at, []byte(page), html.Options{}).Language; got != want {
			t.Errorf("%s: %q, want %q", page, got, want)
		}
	}
}

// What a page has for programs is found in elements that are there, and not in text about them.
func TestData(t *testing.T) {
	for page, want := range map[string]html.Data{
		`<script type="application/ld+json">{"@type": "Person"}</script>`:                  {JSONLD: true},
		`<body><script TYPE=" Application/LD+JSON; charset=utf-8">{}</script>`:             {JSONLD: true},
		`<div itemscope itemtype="https://schema.org/Person"><span itemprop=name>A</span>`: {Items: true},
		`<p typeof="Person">`: {Items: true},
		`<link rel=alternate type="application/rss+xml" href=news.xml>`:                              {Feed: true},
		`<link rel=alternate type="application/rdf+xml" href=robots.rdf><p typeof=x>`:                {RDF: true, Items: true},
		`<p title="itemscope typeof">&lt;div itemscope> <!-- <p itemscope> --><p itemprop=x>`:        {},
		`<template><p itemscope></template><script>"<p itemscope>"</script><script type=a></script>`: {},
		`<div type="application/ld+json"><a type="application/rss+xml" rel=alternate>`:               {},
	} {
		if got := html.Read(at, []byte(page), html.Options{Data: true}).Data; got != want {
			t.Errorf("%s: %+v, want %+v", page, got, want)
		}
		if got := html.Read(at, []byte(page), html.Options{Links: true, Text: true}).Data; got != (html.Data{}) {
			t.Errorf("%s: %+v was not wanted", page, got)
		}
	}
}

func TestCanonical(t *testing.T) {
	for page, want := range map[string]string{
		`<link rel="canonical" href="https://example.org/other#top">`:                            "https://example.org/other",
		`<link REL="Canonical" HREF="other.html">`:                                               "https://example.org/docs/other.html",
		`<link rel="nofollow canonical" href="//www.example.net">`:                               "https://www.example.net",
		`<link rel=canonical href=/a><link rel=canonical href=/b>`:                               "https://example.org/a",
		`<link rel=canonical><link rel=canonical href=/b>`:                                       "https://example.org/b",
		`<base href="https://cdn.example/x/"><link rel=canonical href=y>`:                        "https://cdn.example/x/y",
		`<link rel=canonical href=y><base href="/x/"><base href="/z/">`:                          "https://example.org/x/y",
		`<link rel=canonical href="https://example.org/docs/page.html">`:                         "",
		`<link rel=canonical href="">`:                                                           "",
		`<link rel=canonical href="#top">`:                                                       "",
		`<link rel=canonical href="javascript:alert(1)">`:                                        "",
		`<link rel=canonical href="http://">`:                                                    "",
		`<link rel=canonical href="http://[">`:                                                   "",
		`<link rel=alternate href="/a">`:                                                         "",
		`<body><link rel=canonical href="/a">`:                                                   "",
		`<p>a comment says <link rel=canonical href="/a">`:                                       "",
		`<noscript><img src=x></noscript><link rel=canonical href="/a">`:                         "https://example.org/a",
		`<template><link rel=canonical href="/x"></template><link rel=canonical href="/a">`:      "https://example.org/a",
		`<link rel=canonical href="/` + strings.Repeat("a", 8<<10) + `">`:                        "",
		`<title>x</title></head><link rel=canonical href="/a">`:                                  "https://example.org/a",
		`<html><head><link rel="stylesheet" href="x"><link rel=canonical href="?page=2"></head>`: "https://example.org/docs/page.html?page=2",
	} {
		if got := html.Read(at, []byte(page), html.Options{}).Canonical; got != want {
			t.Errorf("%s: %q, want %q", page, got, want)
		}
	}
	if got := html.Read("::", []byte(`<link rel=canonical href="/a">`), html.Options{}); got.Canonical != "" {
		t.Errorf("a page with an invalid URL: %q", got.Canonical)
	}
}

func TestLinks(t *testing.T) {
	for page, want := range map[string]string{
		`<a href="b.html">b</a> <A HREF='/c'>`:                                     "/docs/b.html /c",
		`<a href="b.html#x"><a href="b.html#y"><a href="./b.html"><a href="#top">`: "/docs/b.html",
		`<a name=x><a href><a href=""><a href="mailto:a@b"><a href="tel:1">`:       "",
		`<a rel=nofollow href=/n>`:                                                 "/n",
		`<map><area href=/area></map><iframe src=/i></iframe><frame src=/f>`:       "/area /i /f",
		`<base href=/x/><a href=y>`:                                                "/x/y",
		`<a href=y><base href=/x/><base href=/z/>`:                                 "/x/y",
		`<body><base href=/x/><a href=y>`:                                          "/docs/y",
		`<base href=":"><a href=y>`:                                                "/docs/y",
		`<base href="mailto:a"><a href=y>`:                                         "/docs/y",
		`<a href="  sp ace&amp;&#x20;">`:                                           "/docs/sp%20ace&",
		"<a href='/a\nb\tc'>":                                                      "/abc",
		`<a href="/100%">, <a href="/%zz%41">`:                                     "/100%25 /%25zz%41",
		`<a href="HTTP://EXAMPLE.org/x">`:                                          "http://EXAMPLE.org/x",
		`<a href="http://user:pass@h/">`:                                           "http://user:pass@h/",
		`<a href="http:opaque"><a href="http://">`:                                 "",
		`<link rel=next href=/2><link rel="alternate" href=/de>`:                   "/2 /de",
		`<link rel=stylesheet href=/c><link rel="alternate stylesheet" href=/d>`:   "",
		`<link rel=icon href=/c><link rel=preload href=/d><link href=/e>`:          "",
		`<link rel="INDEX" href=genindex.html>`:                                    "/docs/genindex.html",
		`<meta http-equiv=refresh content="0; url=new.html">`:                      "/docs/new.html",
		`<meta http-equiv=Refresh content="5;URL='/n ew'">`:                        "/n%20ew",
		`<meta http-equiv=refresh content="0,/old">`:                               "/old",
		`<meta http-equiv=refresh content="30">`:                                   "",
		`<meta http-equiv=refresh content=" .5 new.html">`:                         "/docs/new.html",
		`<meta http-equiv=refresh content="3.5.1 , url = new.html ">`:              "/docs/new.html",
		`<meta http-equiv=refresh content="0;url new.html">`:                       "/docs/url%20new.html",
		`<meta http-equiv=refresh content="0;'new.html' or not">`:                  "/docs/new.html",
		`<meta http-equiv=refresh content="0; url=">`:                              "",
		`<meta http-equiv=refresh content="0x; url=new.html">`:                     "",
		`<meta http-equiv=refresh content="-1; url=new.html">`:                     "",
		`<meta http-equiv=refresh content="; url=new.html">`:                       "",
		`<meta name=refresh content="0; url=new.html">`:                            "",
		`<!-- <a href=/c> --><script>'<a href=/s>'</script>`:                       "",
		`<noscript><a href=/n></noscript><title><a href=/t></title>`:               "",
		`<template><a href="/{{x}}"></template><a href=/after>`:                    "/after",
		`<nav hidden><a href=/hidden></nav>`:                                       "/hidden",
		`<svg><a href=/svg></a></svg>`:                                             "/svg",
	} {
		got := html.Read(at, []byte(page), html.Options{Links: true}).Links
		for i := range got {
			got[i] = strings.TrimPrefix(got[i], "https://example.org")
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: %q, want %q", page, s, want)
		}
	}
	if got := html.Read(at, []byte("<a href=x>"), html.Options{Text: true}).Links; got != nil {
		t.Errorf("returned without being requested: %q", got)
	}
}

// Blocks are lines; the best place has the main text.
func TestText(t *testing.T) {
	for page, want := range map[string]string{
		"":                 "",
		"just  \n text":    "just text",
		"<p>one<p>two":     "one|two",
		"a<b>b</b>c <i> d": "abc d",
		"one<br>two<hr>three<div></div>four<wbr>five":                                                            "one|two|three|fourfive",
		"<ul><li>a<li>b<ul><li>c</ul>d</ul>e":                                                                    "a|b|c|d|e",
		"<h1> Head </h1>text<dl><dt>t<dd>d</dl>":                                                                 "Head|text|t|d",
		"<table><tr><td>a<td>b<th>c</tr><tr><td>d</table>":                                                       "a b c|d",
		"<pre>\n  one\n\n\ttwo  three\n</pre>four\nfive":                                                         "one|two three|four five",
		"a&nbsp;b&#8195;c\u3000d\u0001e\u0085f":                                                                  "a b c d e f",
		"&lt;b&gt; &amp;amp; &eacute;":                                                                           "<b> &amp; é",
		"caf\xe9 \xa0 \xffx":                                                                                     "caf\xe9 \xa0 \xffx",
		"\uFEFFx":                                                                                                "x",
		"<title>t</title><script>s</script><style>s</style>x<!-- c -->y":                                         "xy",
		"<header>h</header>a<nav>n</nav>b<footer>f</footer><aside>x</aside>":                                     "a|b",
		"a<template><p>t</p></template>b<noscript>n</noscript>c<svg>s</svg>d":                                    "abcd",
		"a<iframe>i</iframe><select><option>o</select><textarea>t</textarea>b":                                   "ab",
		"<form><label>Name <input value=v></label><button>Go</button></form>x":                                   "Name|x",
		`a<img alt="b  c" src=x>d <img>e<svg><img alt=f></svg>`:                                                  "ab cd ef", // an img ends a drawing
		"<p hidden>h<p>x<p hidden=''>h</p>y<span hidden>h<span>h</span>h</span>z<div HIDDEN><div>h</div>h</div>": "x|yz",
		"<p hidden=until-found>x":                                                                                "x",
		"<ul><li hidden>h<li>x</ul><table><tr hidden><td>h<tr><td>x<td hidden>h<td>y</table>":                    "x|x y",
		"<dl><dt hidden>h<dd>x</dl><button hidden>h<button>h</button>y":                                          "x|y",
		"<body hidden>x": "",

		"a<main>b<nav>n</nav>c</main>d":                                                  "b|c",
		"a<div role=main>b<div>c</div>d</div>e":                                          "b|c|d",
		"a<div role=' MAIN region'>b</div>":                                              "b",
		"<main>a</main>b<main>c</main>":                                                  "a|c",
		"a<main> <nav>n</nav></main>b":                                                   "a|b", // it has no word
		"a<article>b<header>h</header></article>c<article>d</article><footer>f</footer>": "b|h|d",
		"a<article>b<main>c</main>d</article>":                                           "c",
		"<main>a<article>b</article><footer>c</footer></main>":                           "a|b|c",
		"<article>a</article><main hidden>b</main>c":                                     "a",
		"<nav><main>a</main></nav>b":                                                     "b",
		"<div role=navigation>n</div><p role=banner>b</p>c":                              "c",
		"<form role=search>s<p>s</form>x<div role=article>y</div>":                       "y",
		"<body role=main>x<footer>f</footer></body>y":                                    "x|f|y",

		// Elements that are not closed, or closed in the wrong order.
		"<nav>n<div></nav>x</div>y":                                                     "xy",
		"<div><nav>n</div>x":                                                            "x",
		"<div role=main><form><div></form>a</div>b</div>c":                              "a|b",
		"<p><b hidden>h<p>x</b>y":                                                       "xy", // a browser would go on hiding
		"<table><tr><td><nav>n</table>x":                                                "x",
		"<div role=main><table><tr><td></div>a</table>b</div>c":                         "a|b",
		"<h1 hidden>h</h2>x":                                                            "x",
		"</p></div></main>x</body>y</html>z":                                            "xyz",
		"<svg><g><p>x</p></g></svg>y":                                                   "x|y",
		"<svg><foreignObject><p>n</p></foreignObject>n</svg>y":                          "y",
		"<svg><title>n</title><style>n<p></style>n":                                     "n",
		"<my-part hidden>h<my-part>h</my-part>h</my-part>x":                             "x",
		"<script/>x<script>s":                                                           "x",
		"<nav/>x<div hidden />y":                                                        "x|y",
		strings.Repeat("<div>", 600) + "x" + strings.Repeat("</div>", 600) + "y":        "x|y",
		strings.Repeat("<div hidden>", 600) + "x" + strings.Repeat("</div>", 600) + "y": "y",
		utf16("<p>é😀<p>x", true):                                                        "é😀|x",
		utf16("<p>é😀<p>x", false):                                                       "é😀|x",
	} {
		want = strings.ReplaceAll(want, "|", "\n")
		if got := html.Read(at, []byte(page), html.Options{Text: true}).Text; string(got) != want {
			t.Errorf("%.100q:\n got %q\nwant %q", page, got, want)
		}
	}
	if got := html.Read(at, []byte("<p>x"), html.Options{Links: true}).Text; got != nil {
		t.Errorf("returned without being requested: %q", got)
	}
}

// No page makes Read use more than its share of time or memory.
// hostilePages are pages for which a careless reader would need endless time or all memory.
func hostilePages() map[string]string {
	size := 1 << 20
	if testing.Short() {
		size = 1 << 17
	}
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	return map[string]string{
		"open elements":        fill("<div>"),
		"open inline elements": fill("<b hidden>"),
		"unmatched ends":       strings.Repeat("<div>", 511) + fill("</p>"),
		"unmatched inline":     strings.Repeat("<b hidden>", 511) + fill("</i>"),
		"headings":             fill("<h1></h2>"),
		"forms":                strings.Repeat("<form>", 511) + fill("<form></form>"),
		"drawings":             fill("<svg><g><p>"),
		"table parts":          fill("<table><td><tr>"),
		"list items":           strings.Repeat("<div>", 511) + fill("<li>"),
		"attributes":           "<div " + fill("hiddeN=rolE "),
		"words of a list":      "<link rel='" + fill("x ") + "' href=x>",
		"links":                fill("<a href=x>"),
		"different links": func() string {
			var b strings.Builder
			for i := range 90_000 {
				b.WriteString("<a href=" + strings.Repeat("y", i%10) + "x>")
			}
			return b.String()
		}(),
		"a long base":     "<base href=/" + strings.Repeat("x", 8000) + "/>" + manyLinks(60_000),
		"a long comment":  "<!--" + fill("-"),
		"lesser signs":    fill("<"),
		"entities":        fill("&nGt;"),
		"ranks":           fill("<article>x<main>y"),
		"classes of text": fill("x "),
		"UTF-16":          utf16(fill("ä"), true),
		"title":           "<title>" + fill("x "),
		"quotes":          fill("<a href='"),
		"open quotes":     fill("<a href='x>") + "<a href=\"" + fill("<b c=\"x>"),
		"scripts":         fill("<script><!--<script>-->"),
		"a long script":   "<script><!--" + fill("</script <-"),
		"half comments":   fill("<!-- --!x"),
		"half entities":   "<a href='" + fill("&#x") + "'>" + fill("&aaaaaaaaa"),
		"an entity":       "&" + fill("a"),
		"end tags":        fill("</"),
		"raw ends":        "<title>" + fill("</titl"),
		"images":          "<img srcset='" + fill("a, b 1x,") + "'>",
		"line ends":       "<a href='" + fill("\r\n") + "x'>",
		"link headers":    fill("<link rel=canonical href=&amp;x>"),
	}
}

func TestHostilePages(t *testing.T) {
	for name, page := range hostilePages() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		p := html.Read(at, []byte(page), html.Options{Links: true, Text: true})
		took := time.Since(began)
		runtime.ReadMemStats(&after)
		if took > 20*time.Second {
			t.Errorf("%s: %v for %d bytes", name, took, len(page))
		}
		links := 0
		for _, l := range p.Links {
			links += len(l)
		}
		if len(p.Links) > html.MaxLinks || links > 4<<20 {
			t.Errorf("%s: %d links of %d bytes", name, len(p.Links), links)
		}
		if len(p.Text) > len(page)*6/5 { // &nGt; is two characters of three bytes
			t.Errorf("%s: %d bytes of text", name, len(p.Text))
		}
		// All that was ever allocated, which is more than was held at once.
		if n := after.TotalAlloc - before.TotalAlloc; n > 128<<20 {
			t.Errorf("%s: %d MB allocated for %d bytes", name, n>>20, len(page))
		}
	}
}

func manyLinks(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("<a href=" + strings.Repeat("a", 1+i/1000) + "/" + strings.Repeat("b", i%1000) + ">")
		if b.Len() > 2<<20 {
			break
		}
	}
	return b.String()
}

func FuzzRead(f *testing.F) {
	f.Add("<!DOCTYPE html><html lang=en><head><title>A &amp; b</title><link rel=canonical href=x><base href=/y/></head><body><main>a <a href=z>b</a>")
	f.Add("<table><tr><td>a<th hidden>b<caption>c</table><select><option>x</select><svg><p><foreignobject><title/></svg>")
	f.Add("<form role=search><div></form></div><button>x<button>y<h1>a</h2><li hidden>x<li>y<dd>a<dt hidden>b")
	f.Add("<article>x<main></main><p hidden>y<p>z<pre>a\nb</pre><img alt='c  d'><template><a href=x></template>")
	f.Add("\xff\xfe<\x00m\x00\x00\xd8")
	f.Add("<script/><title/><svg><title>x<meta name=parley content='a,none'")
	f.Add("<title>\xff\xfe\x00</title><!-- --!><![CDATA[<meta]]><plaintext><?x?></")
	f.Fuzz(func(t *testing.T, page string) {
		must.OK(t, sameAsTokens([]byte(page), false))
		p := html.Read(at, []byte(page), html.Options{Links: true, Text: true})
		if len(p.Title) > html.MaxTitle || !utf8.ValidString(p.Title) || strings.ContainsFunc(p.Title, unicode.IsControl) {
			t.Fatalf("title %q", p.Title)
		}
		if len(p.Language) > 35 || strings.Trim(p.Language, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") != "" {
			t.Fatalf("language %q", p.Language)
		}
		for _, l := range append(p.Links, p.Canonical) {
			if u, err := url.Parse(l); err != nil || l != "" && (u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Fragment != "" || len(l) > 8<<10) {
				t.Fatalf("link %q: %v", l, err)
			}
		}
		for line := range bytes.SplitSeq(p.Text, []byte("\n")) {
			if len(p.Text) > 0 && len(line) == 0 || line != nil && (bytes.HasPrefix(line, []byte(" ")) || bytes.HasSuffix(line, []byte(" ")) || bytes.Contains(line, []byte("  "))) {
				t.Fatalf("line %q of %q", line, p.Text)
			}
		}
		// Options do not affect the other results, and the same page gives the same result.
		again := html.Read(at, []byte(page), html.Options{Text: true})
		if !bytes.Equal(again.Text, p.Text) || again.Title != p.Title || again.Canonical != p.Canonical || again.Links != nil {
			t.Fatalf("with links %+v, without %+v", p, again)
		}
		if !strings.HasPrefix(page, "\xff\xfe") && !strings.HasPrefix(page, "\xfe\xff") {
			if p := html.Read(at, []byte(noindex+page), html.Options{}); !p.NoIndex {
				t.Fatalf("noindex before anything else: %+v", p)
			}
		}
		head := html.Read(at, []byte(page), html.Options{})
		if head.Title != p.Title || head.Language != p.Language || head.NoIndex != p.NoIndex || head.Canonical != p.Canonical {
			t.Fatalf("head %+v of %+v", head, p)
		}
	})
}
