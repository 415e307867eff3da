package gather_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/gather"
	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// linkTo returns the URL that a reference on the page at a base has, empty if none.
func linkTo(t testing.TB, g *gather.Gatherer, base, ref string) string {
	t.Helper()
	href := strings.NewReplacer("&", "&amp;", `"`, "&quot;", "\x01", "&#1;", "\x02", "&#2;", "\x0b", "&#11;", "\x1f", "&#31;").Replace(ref) // a page with such bytes is no text
	return linkOn(t, g, base, "utf-8", href)
}

func linkOn(t testing.TB, g *gather.Gatherer, base, charset, href string) string {
	t.Helper()
	var p gather.Page
	must.OK(t, g.Read(&p, base, header("Content-Type: text/html; charset="+charset), []byte(`<p>x<a href="`+href+`">y</a>`)))
	if len(p.Links) == 0 {
		return ""
	}
	return p.Links[0].URL
}

// browserRefs says where references lead, by the URL standard, and how that is spelled, by protocol.CanonicalURL. It is written by
// reading both, apart from the code.
var browserRefs = []struct{ base, ref, url string }{
	// Characters of a path and a query. What a browser sends otherwise is in the comment: servers see no difference.
	{at, "a b.html", "https://example.org/docs/a%20b.html"},
	{at, "/Grüße/日本.html?q=ü", "https://example.org/Gr%C3%BC%C3%9Fe/%E6%97%A5%E6%9C%AC.html?q=%C3%BC"},
	{at, `a"b<c>d`, "https://example.org/docs/a%22b%3Cc%3Ed"},
	{at, "a|b", "https://example.org/docs/a%7Cb"}, // a|b
	{at, "a^b`{c}", "https://example.org/docs/a%5Eb%60%7Bc%7D"},
	{at, "?a|b={c}^`", "https://example.org/docs/page.html?a%7Cb=%7Bc%7D%5E%60"}, // ?a|b={c}^`
	{at, "?a='b'", "https://example.org/docs/page.html?a='b'"},                   // ?a=%27b%27
	{at, "100%.html", "https://example.org/docs/100%25.html"},                    // 100%.html
	{at, "a%zz%4", "https://example.org/docs/a%25zz%254"},                        // a%zz%4
	{at, "%7euser/%C3%BC", "https://example.org/docs/%7euser/%C3%BC"},
	{at, "a\x01b\x7f?\x02x", "https://example.org/docs/a%01b%7F?%02x"},

	// White space.
	{at, " \t\n a.html \r\n", "https://example.org/docs/a.html"},
	{at, "a\n  b\t.html", "https://example.org/docs/a%20%20b.html"},
	{at, "ht\ntps://exam\tple.org/\rx", "https://example.org/x"},
	{at, "\x01\x1f a.html\x0b", "https://example.org/docs/a.html"},
	{at, "/\t/example.net/x", "https://example.net/x"},

	// Backslashes are slashes, up to the query.
	{at, `a\b.html`, "https://example.org/docs/a/b.html"},
	{at, `..\x\y?a\b`, "https://example.org/x/y?a%5Cb"}, // ?a\b
	{at, `\x`, "https://example.org/x"},
	{at, `\\example.net\x`, "https://example.net/x"},
	{at, `http:\\example.net\x`, "http://example.net/x"},

	// Slashes before the host.
	{at, "///example.net/x", "https://example.net/x"},
	{at, "https:////example.net//x", "https://example.net//x"},
	{at, "http:/example.net/x", "http://example.net/x"},
	{at, "http:example.net", "http://example.net/"},
	{at, "https:x.html", "https://example.org/docs/x.html"}, // relative: the page has this scheme
	{at, "https:/x.html?y", "https://example.org/x.html?y"},
	{at, "HTTPS:?y", "https://example.org/docs/page.html?y"},
	{"http://h/a/", "http:b:c", "http://h/a/b:c"},
	{at, "https: x", "https://example.org/docs/%20x"},
	{at, "//?x", ""},

	// Dots.
	{at, "%2e%2E/x", "https://example.org/x"},
	{at, "a/.%2e/%2e/b", "https://example.org/docs/b"},
	{at, "a/%2e%2e", "https://example.org/docs/"},
	{at, "%2e.html", "https://example.org/docs/%2e.html"},
	{at, "?%2e%2e/", "https://example.org/docs/page.html?%2e%2e/"},
	{at, "../../../x", "https://example.org/x"},

	// Colons that end no scheme.
	{at, "12:30.html", "https://example.org/docs/12:30.html"},
	{at, "a b:c", "https://example.org/docs/a%20b:c"},
	{at, "ü:x", "https://example.org/docs/%C3%BC:x"},
	{at, ":x", "https://example.org/docs/:x"},
	{at, "Talk:Ü", ""}, // another scheme
	{at, "javascript:a?b", ""},

	// Hosts.
	{at, "https://Müller.example/ü", "https://xn--mller-kva.example/%C3%BC"},
	{at, "//bücher.example:8080", "https://xn--bcher-kva.example:8080/"},
	{at, "https://ex%61mple.org/", "https://example.org/"},
	{at, "https://a%2Fb/", ""},
	{at, "https://" + strings.Repeat("ü", 50) + ".example/", "https://xn--tdaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.example/"},
	{at, "https://", ""},
	{at, "https:///", ""},
	{at, `https://u\x@h/`, "https://u/x@h/"},
}

func TestReferencesAsBrowsersReadThem(t *testing.T) {
	g := new(gather.Gatherer)
	for _, c := range browserRefs {
		if got := linkTo(t, g, c.base, c.ref); got != c.url {
			t.Errorf("%q on %s leads to %q, want %q", c.ref, c.base, got, c.url)
		}
		// What is stored by its URL keeps its name when a page names it by that URL.
		if c.url != "" && linkTo(t, g, c.base, c.url) != c.url {
			t.Errorf("%s, as a reference, leads to %q", c.url, linkTo(t, g, c.base, c.url))
		}
	}
}

// On a page that is not in UTF-8, the path of a reference is, and its query is not; the same for <base> and canonical URLs.
func TestReferencesInOtherEncodings(t *testing.T) {
	g := new(gather.Gatherer)
	for _, c := range []struct{ charset, href, want string }{
		{"iso-8859-1", "/\xe9t\xe9?q=\xe9", "https://example.org/%C3%A9t%C3%A9?q=%E9"},
		{"shift_jis", "/\x95\x5c.html?\x95\x5c", "https://example.org/%E8%A1%A8.html?%95%5C"}, // its second byte is a backslash
		{"utf-8", "/\xe9", "https://example.org/%E9"},                                         // no encoding is known
		{"iso-8859-1", "https://M\xfcller.example/", "https://xn--mller-kva.example/"},
	} {
		if got := linkOn(t, g, at, c.charset, c.href); got != c.want {
			t.Errorf("%s: %q leads to %q, want %q", c.charset, c.href, got, c.want)
		}
	}
	p := read(t, g, header("Content-Type: text/html; charset=iso-8859-1"), "<base href='\\\xe9\\'><link rel=canonical href='.\\x'><a href=y>y</a>")
	if p.Base != "https://example.org/%C3%A9/" || p.Canonical != "https://example.org/%C3%A9/x" || links(p) != "3 /%C3%A9/x, 0 /%C3%A9/y" {
		t.Errorf("base %s, canonical %s, links %s", p.Base, p.Canonical, links(p))
	}
	if got := read(t, g, header("Content-Type: application/pdf", `Link: <\a>; rel=next`), "%PDF"); links(got) != "3 /a" {
		t.Errorf("a header of no page has the links %s", links(got))
	}
}

// The table, and random references, lead where Node's URL leads.
func TestReferencesAsNodeReadsThem(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node on this machine") // which .ci/run does not install
	}
	parts := []string{"/", "/", "/", "//", `\`, `\\`, ".", "..", "../", "./", `..\`, "a", "b.html", "?", "?x=1&y=2", ":", "http:", "https:", "HTTPS:", "http://h", "https://H.example",
		"//h", ":80", ":443", ":8080", "%", "%41", "%2e", "%2E%2e/", "%2f", "%zz", " ", "\t", "\n", "\x01", "\x7f", "é", "日", "\u2028", "<", `"`, "*", ";", "&", "=", "+", "~", "|", "^", "`", "{", "}",
		"mailto:", "1a", "-", "[", "]", "!", "$", "(", ",", "_"}
	bases := []string{at, "http://h/", "http://h", "http://h/a/b;c=d/?q=/x/", "https://h:8080/a//b/../c/"}
	r := rand.New(rand.NewPCG(1, 2))
	var asked [][2]string
	for _, c := range browserRefs {
		asked = append(asked, [2]string{c.base, c.ref})
	}
	for range 20_000 {
		var ref strings.Builder
		for range 1 + r.IntN(6) {
			ref.WriteString(parts[r.IntN(len(parts))])
		}
		asked = append(asked, [2]string{bases[r.IntN(len(bases))], ref.String()})
	}
	in := must.Get(json.Marshal(asked))
	cmd := exec.Command(node, "-e", `
		const asked = JSON.parse(require("fs").readFileSync(0, "utf8"));
		console.log(JSON.stringify(asked.map(([base, ref]) => {
			try {
				const u = new URL(ref, base);
				u.hash = "";
				return /^https?:$/.test(u.protocol) && u.username + u.password == "" ? u.href : "";
			} catch { return ""; }
		})));`)
	cmd.Stdin = bytes.NewReader(in)
	out := must.Get(cmd.Output())
	var answers []string
	if err := json.Unmarshal(out, &answers); err != nil || len(answers) != len(asked) {
		t.Fatalf("%d answers, want %d: %v", len(answers), len(asked), err)
	}
	g, slashes := new(gather.Gatherer), regexp.MustCompile("/+")
	good, bad := 0, 0
	for i, a := range asked {
		want := ""
		if answers[i] != "" {
			if want, err = protocol.CanonicalURL("", answers[i]); err != nil {
				want = ""
			}
			path, query, asks := strings.Cut(want, "?")
			if asks { // which a browser encodes, see AsBrowser
				want = path + "?" + strings.ReplaceAll(query, "%27", "'")
			}
		}
		got := linkTo(t, g, a[0], a[1])
		if want != "" {
			good++
		}
		self, _ := protocol.CanonicalURL("", a[0])
		switch {
		case got == "" && want == self: // an empty reference is to the page itself, and left out
		case strings.Contains(want[min(len(want), 8):], "//") && slashes.ReplaceAllString(got, "/") == slashes.ReplaceAllString(want, "/"): // ".." above the root, and "//" after it
		case strings.Contains(want, "://xn--"): // of a host, browsers accept more, such as a hyphen at its end
		case got != want:
			if bad++; bad <= 20 {
				t.Errorf("%q on %s leads to %q, and in a browser to %q (%s)", a[1], a[0], got, want, answers[i])
			}
		}
	}
	if bad > 20 || good < len(asked)/4 {
		t.Errorf("%d of %d references differ, %d lead somewhere", bad, len(asked), good)
	}
}

// The encoding of a page is found out once, however many references need it, and however late in the page that is known.
func TestManyReferencesInAnotherEncoding(t *testing.T) {
	var b bytes.Buffer
	for i := 0; b.Len() < 4<<20; i++ {
		fmt.Fprintf(&b, "<a href=\"\u00e9%d\">x</a>", i)
	}
	b.WriteString("\xe9")
	var g gather.Gatherer
	var p gather.Page
	begun := time.Now()
	must.OK(t, g.Read(&p, at, header("Content-Type: text/html; charset=koi8-r"), b.Bytes()))
	if took := time.Since(begun); took > 10*time.Second { // a minute, if each reference reads the page
		t.Errorf("it took %v", took)
	}
	if want := "https://example.org/docs/%D1%86%E2%95%98"; len(p.Links) != html.MaxLinks || !strings.HasPrefix(p.Links[0].URL, want) {
		t.Errorf("%d links, the first is %s", len(p.Links), p.Links[0].URL)
	}
}
