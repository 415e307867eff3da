package html_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	xhtml "golang.org/x/net/html"

	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/urlref"
	"github.com/parleyweb/parley/protocol"
)

func scan(page string) *html.Scanner {
	s := &html.Scanner{Contents: true, Embedded: true}
	s.Scan([]byte(page))
	return s
}

func refs(s *html.Scanner) string {
	var list []string
	for _, r := range s.Refs.List {
		entry := fmt.Sprintf("%d:%s", r.Kind, r.URL)
		if r.NoFollow {
			entry += "!"
		}
		list = append(list, entry)
	}
	return strings.Join(list, " ")
}

func TestScanRefs(t *testing.T) {
	for page, want := range map[string]string{
		`<a href=x><A HREF='y'><a href = "z" href=no><area href=w>`:                                   "0:x 0:y 0:z 0:w",
		`<a href=x#a><a href="x#b"><a href=" x ">, <a href="#c"><a href>`:                             "0:x",
		`<a href="?a=1&amp;b=2&copy=3&copy;&#x26;&#38;c">`:                                            "0:?a=1&b=2&copy=3©&&c",
		"<a href='/a\nb\tc\r\n'>":                                                                     "0:/abc",
		`<a rel="x NOFOLLOW" href=a><a rel=ugc href=b><a rel=sponsored,x href=c>`:                     "0:a! 0:b! 0:c!",
		`<a rel=nofollow href=a><a href=a>`:                                                           "0:a",
		`<iframe src=i><a href=no></iframe><frame src=f><a href=x>`:                                   "1:i 1:f 0:x",
		`<meta http-equiv=refresh content="0; url='r'"><meta http-equiv=refresh content="1,s">`:       "2:r 2:s",
		`<link rel=next href=n><link rel="alternate" hreflang=de href=de><link rel=canonical href=c>`: "3:n 3:de 3:c",
		`<link rel=alternate type="application/rss+xml; charset=x" href=r><link rel=alternate type=application/atom+xml href=a>` +
			`<link rel=alternate type=APPLICATION/feed+json href=j><link rel=feed href=f>`: "5:r 5:a 5:j 5:f",
		`<link rel=sitemap type=application/xml href=/s.xml>`:                                                               "6:/s.xml",
		`<link rel=alternate type=application/rdf+xml href=/robots.rdf><link rel=manifest type=application/rdf+xml href=m>`: "7:/robots.rdf 7:m",
		`<link rel=stylesheet href=c><link rel=icon href=i><link rel=manifest href=app.json><link rel=preconnect href=no>`:  "4:c 4:i 4:app.json",
		`<img src=i srcset="a 1x, b 2x,c"><script src=s></script><video src=v poster=p><source src=o><object data=d>`:       "4:i 4:a 4:b 4:c 4:s 4:v 4:p 4:o 4:d",
		`<img src=data:image/png;base64,AAAA><input src=no><input type=IMAGE src=yes>`:                                      "4:yes",
		`<img src=x><a href=x>`: "0:x",

		// Where nothing stands that counts.
		`<!-- <a href=no> --><a href=x>`:                                                              "0:x",
		`<!--><a href=x><!---><a href=y><!--a--!><a href=z><!-- -- > <a href=no>`:                     "0:x 0:y 0:z",
		`<script>"<a href=no>"</script><style><a href=no></style><a href=x>`:                          "0:x",
		`<script><!-- <script> </script> <a href=no> --></script><a href=x>`:                          "0:x",
		`<textarea><a href=no></TEXTAREA ><title><a href=no></title><xmp><a href=no></xmp><a href=x>`: "0:x",
		`<noscript><a href=x></noscript><template><a href=no></template><a href=y>`:                   "0:x 0:y",
		`<![CDATA[<a href=x>]]>`:                  "",
		`<? <a href=no> ?><a href=x>`:             "0:x",
		`<plaintext><a href=no>`:                  "",
		`<script/><a href=x>`:                     "0:x",
		`<svg><style/><a href=x></svg><a href=y>`: "0:x 0:y",

		// The five kinds of P14, and worse.
		`<a href='x"><a href="y'>`:                       `0:x"><a href="y`,
		`<a href="x'y"><a href='x"y'><a href=x"y'>`:      `0:x'y 0:x"y 0:x"y'`,
		`<a href=x/><br/><p/ ><a href=y / ><A/href=z>`:   "0:x/ 0:y 0:z",
		`</a></b><b><i></b><a href=x><a href=y></i></p>`: "0:x 0:y",
		`<A HrEf=x></A><a HREF="Y">`:                     "0:x 0:Y",
		`<a href="x>text</a> <p>more`:                    "0:x",
		`<a href="x>text</a> <a href='y>more <a href=z>`: "0:x 0:y 0:z",
		`<a title="x" href="a" <b> <a href=b>`:           "0:a 0:b",
		`< a href=no><a\href=no><a  href=x><>`:           "0:x",
		`<a href=x`:                                      "",
		`<a href="x`:                                     "",
		`<`:                                              "",
		`</`:                                             "",
		`<!-`:                                            "",
		`<a =href=no href=x>`:                            "0:x",
		`<a href=>x</a><a href= y>`:                      "0:y",
		"<a\x00href=no><a href='\x00'>":                  "0:\uFFFD",
		`<abcdefghijklmnop href=no><a href=x>`:           "0:x",
		strings.Repeat("<a href=x>", 3) + "<b" + strings.Repeat(" c='", 999): "0:x",
	} {
		if got := refs(scan(page)); got != want {
			t.Errorf("%.200s\n got %s\nwant %s", page, got, want)
		}
	}
}

// What is embedded is the same apart and among the other references, where a link to it counts more, and changes nothing else.
func TestScanEmbeddedApart(t *testing.T) {
	const page = `<link rel=stylesheet href=c><link rel=preload href=i><script src=s></script><img src=i#x srcset="a 1x, i 2x"><video src=v poster=p><source src=o></video>
<audio src=u><embed src=e><object data=d></object><input type=image src=n><img src=data:x><img src=" data:y"><img src="&#32;z&amp;"><template><img src=no></template><a href=a><a href=l>`
	for _, embedded := range []bool{false, true} {
		s := &html.Scanner{Contents: true, Embedded: embedded}
		s.Scan([]byte(page))
		without := refs(s) + string(s.Content.Words)
		s.Embeds.Wanted = true
		s.Scan([]byte(page))
		if got := refs(s) + string(s.Content.Words); got != without {
			t.Errorf("embedded %v: %q, want %q", embedded, got, without)
		}
		s.Refs.List = s.Embeds.List
		if got, want := refs(s), "4:c 8:i 4:s 8:a 8:v 8:p 8:o 8:u 8:e 8:d 8:n 8:z&"; got != want {
			t.Errorf("embedded %v: %s, want %s", embedded, got, want)
		}
	}
	s := new(html.Scanner)
	s.Embeds.Wanted = true
	for _, page := range []string{page, "<img src=i>"} {
		s.Scan([]byte(page))
	}
	if s.Refs.List = s.Embeds.List; refs(s) != "8:i" {
		t.Errorf("of another page: %s", refs(s))
	}
}

// What is embedded is bounded as links are, without taking their room.
func TestScanManyEmbedded(t *testing.T) {
	var b strings.Builder
	for i := range html.MaxLinks + 100 {
		fmt.Fprintf(&b, "<img src=%d>", i)
	}
	s := new(html.Scanner)
	s.Embeds.Wanted = true
	s.Scan([]byte(b.String() + "<a href=x>"))
	if len(s.Embeds.List) != html.MaxLinks || refs(s) != "0:x" {
		t.Errorf("%d embedded, and %s", len(s.Embeds.List), refs(s))
	}
}

func TestScanBounds(t *testing.T) {
	var b strings.Builder
	for i := range html.MaxLinks + 100 {
		fmt.Fprintf(&b, "<a href=%d>", i)
	}
	if n := len(scan(b.String()).Refs.List); n != html.MaxLinks {
		t.Errorf("%d references", n)
	}
	if s := scan("<a href=" + strings.Repeat("x", 1<<20) + "><a href=y>"); refs(s) != "0:y" {
		t.Errorf("%d references, although one is too long", len(s.Refs.List))
	}
	s := &html.Scanner{Contents: true}
	for range 2 { // what the first page made grow serves the second
		s.Scan([]byte(b.String()))
		s.Scan([]byte("<a href=1><a href=2><a href=1>"))
		if refs(s) != "0:1 0:2" {
			t.Errorf("after a large page: %s", refs(s))
		}
	}
}

func TestScanContent(t *testing.T) {
	for _, same := range [][]string{
		{"a b", " a\n\tb ", "<p>a b", "<p>a<p>b</p>", "<P CLASS=x>a</P>\n<!-- x --><p style='color:red'>b", "<script>x</script>a<style>y</style> <b>b</b>",
			"a<br>b", "&#97; &#x62;", "<font color=red>a</font> <noscript>x</noscript>b", "<body bgcolor=#fff>a<td>b", "a<svg><style>x</style></svg> b"},
		{"ab", "<b>a</b>b", "<span>a</span><em>b", "a<!-- -->b", "a<script></script>b", "<template>x</template>ab"},
		{"a\x01x\x01 b", "a<a href=x>  b</a>", "a<a href='x#y' class=z onclick='q()'> b", "a<a\n\thref=\" x\n\"> b"},
		{"\x01i\x01 pic", "<img src=i alt=pic>", "<img alt=' pic ' width=100 src='i'>"},
		{"t < x & y", "<title>t</title>&lt; x &amp; y", "t < x & y", "<xmp>t < x & y</xmp>"},
		{"", "<!-- x --><script>y</script>", " \n ", "<p></p>"},
	} {
		for _, page := range same[1:] {
			if got := string(scan(page).Content.Words); got != same[0] {
				t.Errorf("%q: %q, want %q", page, got, same[0])
			}
		}
	}
	for _, differ := range [][2]string{{"<td>1</td><td>23", "<td>12</td><td>3"}, {"<a href=x>a", "<a href=y>a"}, {"<img src=x>", "<img src=y>"}, {"a b", "ab"}} {
		if a, b := scan(differ[0]).Content.Words, scan(differ[1]).Content.Words; bytes.Equal(a, b) {
			t.Errorf("%q and %q have one content %q", differ[0], differ[1], a)
		}
	}
}

func TestScanHead(t *testing.T) {
	s := &html.Scanner{Agent: "ourbot"}
	for page, want := range map[string][2]bool{
		`<meta name=robots content="noindex, nofollow">`:                    {true, true},
		`<meta name=OurBot content=NoFollow>`:                               {false, true},
		`<meta name=otherbot content=none>`:                                 {},
		`<meta name=robots content=none>`:                                   {true, true},
		`<body><meta name=robots content=none>`:                             {},
		`<noscript><meta name=parley content=noindex></noscript>`:           {true, false},
		`<meta name=robots content=all><meta content=nofollow name=robots>`: {false, true},
	} {
		s.Scan([]byte(page))
		if got := [2]bool{s.Head.NoIndex, s.Head.NoFollow}; got != want {
			t.Errorf("%s: %v, want %v", page, got, want)
		}
	}
	s.Scan([]byte(`<base target=x><base href=" /b/ "><base href=no><link rel=canonical href=c>`))
	if string(s.Head.Base) != "/b/" || string(s.Head.Canonical) != "c" {
		t.Errorf("base %q, canonical %q", s.Head.Base, s.Head.Canonical)
	}
}

// agree checks that a Scanner and Read find what readTokens finds, and that the references of the Scanner are
// those of a plain walk over the tokens of x/net.
func agree(page []byte) error {
	if err := sameAsTokens(page, false); err != nil {
		return err
	}
	s := html.Scanner{MainText: true}
	s.Scan(page)
	want, odd := oracleRefs(page)
	var got []string
	escaped := false
	for _, r := range s.Refs.List {
		got = append(got, string(r.URL))
		// net/url, that Read uses, escapes more where such are:
		escaped = escaped || bytes.ContainsFunc(r.URL, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("<>\"'\\^`{|}", r) })
	}
	if s.Torn() {
		if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
			return fmt.Errorf("references %q do not begin with %q", got, want)
		}
		return nil
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("references\n%q, want\n%q", got, want)
	}
	if odd {
		return nil // readTokens sees no markup in a <noscript>, and follows the nesting of a drawing
	}
	p := readTokens(at, page, html.Options{Links: true, Text: true}, false)
	if s.Head.Title != p.Title || s.Head.Language != p.Language || s.Head.NoIndex != p.NoIndex {
		return fmt.Errorf("head %q %q %v, want %q %q %v", s.Head.Title, s.Head.Language, s.Head.NoIndex, p.Title, p.Language, p.NoIndex)
	}
	if !bytes.Equal(s.Text.Lines, p.Text) {
		i := 0
		for i < min(len(s.Text.Lines), len(p.Text)) && s.Text.Lines[i] == p.Text[i] {
			i++
		}
		i = max(0, i-20)
		return fmt.Errorf("main text\n%.200q, want\n%.200q", s.Text.Lines[i:], p.Text[i:])
	}
	if escaped {
		return nil
	}
	base, err := protocol.CanonicalURL(at, string(s.Head.Base))
	if s.Head.Base == nil || err != nil {
		base = at
	}
	var b urlref.Base
	b.Reset(base)
	own := map[string]bool{}
	for _, r := range s.Refs.List {
		if u, ok := b.Resolve(nil, r.URL); ok {
			own[string(u)] = true
		}
	}
	for _, l := range p.Links {
		if u, err := protocol.CanonicalURL("", l); err == nil && !own[u] && u != at && u != base { // a blank reference is to the page itself, which the Scanner leaves out
			return fmt.Errorf("link %q is missing in %s", u, refs(&s))
		}
	}
	return nil
}

// oracleRefs lists what tokens of x/net refer to, by the rules of the Scanner
// and without its speed; odd says that readTokens has other rules for such a page.
func oracleRefs(page []byte) (list []string, odd bool) {
	z := xhtml.NewTokenizer(bytes.NewReader(page))
	templates, svg, foreign := 0, false, false
	seen := map[string]bool{}
	add := func(ref string) {
		ref = strings.TrimFunc(ref, func(r rune) bool { return r <= ' ' })
		ref = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(ref)
		ref, _, _ = strings.Cut(ref, "#")
		if ref != "" && len(ref) <= 8<<10 && !seen[ref] && templates == 0 {
			seen[ref], list = true, append(list, ref)
		}
	}
	for {
		kind := z.Next()
		switch kind {
		case xhtml.ErrorToken:
			return list, odd
		case xhtml.EndTagToken:
			switch name, _ := z.TagName(); string(name) {
			case "template":
				templates = max(0, templates-1)
			case "svg":
				svg, foreign = false, false
			case "foreignobject", "desc":
				svg, foreign = svg || foreign, false
			}
		case xhtml.StartTagToken, xhtml.SelfClosingTagToken:
			b, _ := z.TagName()
			name := string(b)
			attr := map[string]string{}
			for {
				key, val, more := z.TagAttr()
				if _, ok := attr[string(key)]; !ok && key != nil {
					attr[string(key)] = string(val)
				}
				if !more {
					break
				}
			}
			if svg && among(" b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li listing menu meta nobr ol p pre ruby s"+
				" small span strike strong sub sup table tt u ul var ", name) {
				svg = false
			}
			if name == "noscript" || kind == xhtml.SelfClosingTagToken || svg {
				z.NextIsNotRawText()
			}
			if kind == xhtml.StartTagToken {
				switch {
				case svg && (name == "foreignobject" || name == "desc"):
					svg, foreign = false, true
				case !svg && name == "svg":
					svg, foreign = true, false
				case !svg && name == "template":
					templates++
				}
			}
			odd = odd || among(" noscript svg template ", name)
			if kind == xhtml.StartTagToken && !svg && name == "template" {
				continue
			}
			rel := strings.ToLower(attr["rel"])
			switch name {
			case "a", "area":
				add(attr["href"])
			case "iframe", "frame":
				add(attr["src"])
			case "link":
				words := strings.FieldsFunc(rel, func(r rune) bool { return r <= ' ' || r == ',' })
				if slices.ContainsFunc(words, func(w string) bool {
					return among(" alternate appendix author canonical chapter contents copyright first glossary help index last license next prev previous"+
						" search section start subsection toc top up feed sitemap ", w) || w == "manifest" && strings.Contains(strings.ToLower(attr["type"]), "application/rdf+xml")
				}) && !slices.Contains(words, "stylesheet") {
					add(attr["href"])
				}
			case "meta":
				if strings.EqualFold(strings.TrimSpace(attr["http-equiv"]), "refresh") {
					var s html.Scanner // how a refresh is read, TestLinks says
					s.Scan([]byte("<meta http-equiv=refresh content='" + xhtml.EscapeString(attr["content"]) + "'>"))
					for _, r := range s.Refs.List {
						add(string(r.URL))
					}
				}
			}
		}
	}
}

func TestScanRealPages(t *testing.T) {
	n := 0
	for path, page := range machine.Pages(t, machine.GitDoc(t)) {
		if !utf8.Valid(page) {
			continue // where the oracle has no answer
		}
		if n++; n > 300 {
			break
		}
		if err := agree(page); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// Broken pages are read as x/net reads them: real ones, with what matters in
// markup put in, taken out and cut off at random.
func TestScanBrokenPages(t *testing.T) {
	parts := []string{"<", ">", "\"", "'", "<!--", "-->", "--!>", "<script>", "</script>", "<title>", "</title>", "<style>", "<a href=\"x", "<a href='y'>", "=", "/", "&",
		"&amp;", "&#", "&copy", "<![CDATA[", "]]>", "<?", "<textarea>", "</textarea ", "\x00", "\r", "<b ", "<base href=/z/>", "<body>", "</head>", "<template>",
		"<noscript>", "</noscript>", "<svg>", "</svg>", "<iframe src=i>", "<plaintext>", "<meta http-equiv=refresh content=\"1; URL='q'\">", "\xff", "é"}
	r := rand.New(rand.NewPCG(3, 4))
	var seeds [][]byte
	for _, page := range machine.Pages(t, os.Getenv("PARLEY_GIT_DOC")) {
		if utf8.Valid(page) {
			seeds = append(seeds, page[:min(len(page), 20_000)])
		}
		if len(seeds) == 40 {
			break
		}
	}
	seeds = append(seeds, []byte(`<!DOCTYPE html><html lang=en><head><title>A title</title><link rel=canonical href=/c></head><body><p class="x">Words <a href="a.html">a</a>
<a href='b.html?x=1&amp;y=2'>b</a> <script>var x = "<a href=no>";</script><!-- <a href=no> --><img src=i><iframe src=f></iframe></body></html>`))
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	torn := 0
	for i := range rounds {
		page := bytes.Clone(seeds[r.IntN(len(seeds))])
		if i%2 == 0 {
			page = bytes.Clone(seeds[len(seeds)-1])
		}
		page = broken(r, page, parts)
		if err := agree(page); err != nil {
			t.Fatalf("round %d: %v\n%.30000q", i, err, page)
		}
		if scan(string(page)).Torn() {
			torn++
		}
	}
	t.Logf("%d of %d pages have a quote that is never closed", torn, rounds)
}

// broken returns a page with a few changes.
func broken(r *rand.Rand, page []byte, parts []string) []byte {
	for range 1 + r.IntN(5) {
		at, part := r.IntN(len(page)+1), parts[r.IntN(len(parts))]
		switch r.IntN(4) {
		case 0:
			page = page[:at]
		case 1:
			end := min(len(page), at+r.IntN(20))
			page = slices.Delete(page, at, end)
		default:
			page = slices.Insert(page, at, []byte(part)...)
		}
	}
	return page
}

// The test has a deadline; what is not linear in the size of a page does not meet it.
func TestScanHostilePages(t *testing.T) {
	for name, page := range hostilePages() {
		s := html.Scanner{Contents: true, Embedded: true, MainText: true}
		s.Embeds.Wanted = true
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 2 { // it keeps its memory
			s.Scan([]byte(page))
		}
		runtime.ReadMemStats(&after)
		links := 0
		for _, r := range s.Refs.List {
			links += len(r.URL)
		}
		if len(s.Refs.List) > html.MaxLinks || links > 5<<20 || len(s.Content.Words) > 2*len(page) || len(s.Text.Lines) > len(page)*6/5 {
			t.Errorf("%s: %d references of %d bytes, %d bytes of content, %d of text", name, len(s.Refs.List), links, len(s.Content.Words), len(s.Text.Lines))
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
			t.Errorf("%s: %d MB allocated for %d bytes", name, n>>20, len(page))
		}
	}
}

func FuzzScan(f *testing.F) {
	for _, page := range []string{`<a href="x'y"><a href='z`, `<script><!--<script></script>--></script><a href=x>`, "<!--><!---->", `<a b=c d='e' /f =g>`,
		`<svg><title><a href=x></title></svg>`, `<title>a&ampb&notit;&#128;&#xfffffff;</title>`, `<meta http-equiv=refresh content="0;url=x">`,
		`<template><a href=x></template><base href=y>`, "<a href='&Gt;&nGt;&ThickSpace;&semi;&amp'>", `<textarea></textareax></textarea/>`} {
		f.Add([]byte(page))
	}
	f.Fuzz(func(t *testing.T, page []byte) {
		if len(page) > 2 && (page[0] == 0xff && page[1] == 0xfe || page[0] == 0xfe && page[1] == 0xff) {
			return // UTF-16: the oracle does not read it
		}
		must.OK(t, agree(bytes.TrimPrefix(page, []byte("\uFEFF"))))
		s := html.Scanner{Contents: true, Embedded: true}
		s.Scan(page)
		if len(s.Content.Words) > 3*len(page)+16 {
			t.Fatalf("content of %d bytes of a page of %d", len(s.Content.Words), len(page))
		}
	})
}
