package urlref_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/urlref"
	"github.com/parleyweb/parley/protocol"
)

const at = "https://example.org/docs/api/page.html?v=1"

func newBase(url string) *urlref.Base {
	b := new(urlref.Base)
	b.Reset(url)
	return b
}

func resolve(t testing.TB, base, ref string) (string, bool) {
	t.Helper()
	const before = "before "
	in := []byte(ref)
	out, ok := newBase(base).Resolve([]byte(before), in)
	if string(in) != ref {
		t.Fatalf("Resolve changed its reference from %q to %q", ref, in)
	}
	s, found := strings.CutPrefix(string(out), before)
	if !found || !ok && s != "" {
		t.Fatalf("Resolve(%q, %q) has changed the bytes before its result: %q", base, ref, out)
	}
	return s, ok
}

func same(t testing.TB, base, ref string) {
	t.Helper()
	want, err := protocol.CanonicalURL(base, ref)
	if got, ok := resolve(t, base, ref); got != want || ok != (err == nil) {
		t.Fatalf("base %q, reference %q: %q, %v; CanonicalURL returns %q, %v", base, ref, got, ok, want, err)
	}
}

func TestResolve(t *testing.T) {
	for ref, want := range map[string]string{
		"other.html":             "https://example.org/docs/api/other.html",
		"a/b/c.html#part":        "https://example.org/docs/api/a/b/c.html",
		"./x":                    "https://example.org/docs/api/x",
		"../x?y=../z":            "https://example.org/docs/x?y=../z",
		"../../../../x/./y/..":   "https://example.org/x/",
		".":                      "https://example.org/docs/api/",
		"..":                     "https://example.org/docs/",
		".hidden/..x":            "https://example.org/docs/api/.hidden/..x",
		"/":                      "https://example.org/",
		"/a//b":                  "https://example.org/a//b",
		"?":                      "https://example.org/docs/api/page.html?",
		"?q=a b":                 "https://example.org/docs/api/page.html?q=a%20b",
		"#top":                   at,
		" \t/x\r\n":              "https://example.org/x",
		"//Example.NET":          "https://example.net/",
		"//example.net:443?x":    "https://example.net/?x",
		"HTTP://Example.NET:80#": "http://example.net/",
		"http://a_b.net:0443/":   "http://a_b.net:0443/",
		"https://h:80/é%zz%41":   "https://h:80/%C3%A9%25zz%41",
		"http://[::1]:8080/x":    "http://[::1]:8080/x",
		"http://h/a/../b//c":     "http://h/b//c",
		"/a:b":                   "https://example.org/a:b",
		"x/a:b":                  "https://example.org/docs/api/x/a:b",

		"": "", "  ": "", "mailto:a@b": "", "javascript:void(0)": "", "data:,x": "", "a:b": "", ":": "", "1:2": "", "é:x": "",
		"http:": "", "http:x": "", "http:/x": "", "http://": "", "http:///x": "", "http://u@h/": "", "http://h%41/": "", "//h:x/": "",
		"a\x00b": "", "a\nb": "", "https://h\\x": "", "///x": "https://example.org///x",
		"/" + strings.Repeat("x", protocol.MaxURL): "", "/" + strings.Repeat("é", protocol.MaxURL/3): "",
	} {
		got, ok := resolve(t, at, ref)
		if got != want && !(ref == "///x" || strings.Contains(ref, "\\")) || ok != (got != "") {
			t.Errorf("%q: %q, %v, want %q", ref, got, ok, want)
		}
		for _, base := range bases {
			same(t, base, ref)
		}
	}
}

// A base need not be canonical, or a URL.
var bases = []string{at, "", "http://h", "http://h/", "http://h//a//b", "http://h/a/b;c=d/?q=/x/", "HTTP://H:80/a/../b", "http://u:p@h/x",
	"http://h/x#y/z", "http://[::1]:81/a/", "::", "x/y", "/x", "mailto:a@b", "ws://h/", "http://h/a b", "https://example.org/é",
	"http://h/" + strings.Repeat("x/", protocol.MaxURL/2-4)}

// Random combinations of significant parts resolve as CanonicalURL does.
func TestResolveIsCanonicalURL(t *testing.T) {
	parts := []string{"/", "/", "/", "//", ".", "..", "...", "../", "./", "a", "b.html", "index", "?", "?x=1&y=2", "#", "#f", ":", "http:", "https:",
		"HTTPS:", "http://", "https://", "//", "example.org", "Example.NET", "h", ":80", ":443", ":8080", ":", "@", "u:p@", "[::1]", "[", "]", "%", "%41",
		"%2e", "%2E%2e/", "%2f", "%zz", " ", "\t", "\n", "\x00", "\x7f", "é", "\xff", "\\", "<", "\"", "'", "*", ";", "&", "=", "+", "~", "mailto:", "1", "-"}
	r := rand.New(rand.NewPCG(1, 2))
	n := 400_000
	if testing.Short() {
		n = 50_000
	}
	good := 0
	for range n {
		var ref, base strings.Builder
		for range r.IntN(8) {
			ref.WriteString(parts[r.IntN(len(parts))])
		}
		b := bases[r.IntN(len(bases)-1)]
		if r.IntN(8) == 0 {
			base.WriteString("http://h/")
			for range r.IntN(5) {
				base.WriteString(parts[r.IntN(len(parts))])
			}
			b = base.String()
		}
		same(t, b, ref.String())
		if _, err := protocol.CanonicalURL(b, ref.String()); err == nil {
			good++
		}
	}
	if good < n/10 {
		t.Errorf("only %d of %d references can be resolved", good, n)
	}
}

func TestResolveNeedsNoMemory(t *testing.T) {
	base, buf := newBase(at), make([]byte, 0, 256)
	refs := [][]byte{[]byte("../x/y.html#z"), []byte("/a/b"), []byte("http://Example.NET:80/"), []byte("?a b"), []byte("mailto:x")}
	if n := testing.AllocsPerRun(100, func() {
		for _, ref := range refs {
			base.Resolve(buf, ref)
		}
	}); n >= 1 {
		t.Errorf("%v allocations for typical references", n)
	}
}

func FuzzResolve(f *testing.F) {
	for _, base := range bases {
		f.Add(base, "../a/./b?c#d")
	}
	for _, ref := range []string{"//h:80", "HTTPS://X/..//y", "a:b", "%2e%2e/", "http://[::1]/", " \\ ", "/.//..", "?"} {
		f.Add(at, ref)
	}
	f.Fuzz(func(t *testing.T, base, ref string) { same(t, base, ref) })
}

func BenchmarkResolve(b *testing.B) {
	refs := []string{"../lang/String.html#length()", "index.html", "../../../java/util/concurrent/atomic/AtomicLong.html", "/usr/share/x.html",
		"https://example.com/a/b?c=d", "#top", "javascript:show(4)", "package-summary.html"}
	const from = "https://docs.example.org/openjdk/api/java.base/java/util/Map.html"
	b.Run("urlref", func(b *testing.B) {
		base, in, buf := newBase(from), make([][]byte, len(refs)), make([]byte, 0, 256)
		for i := range refs {
			in[i] = []byte(refs[i])
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			base.Resolve(buf, in[i&7])
		}
	})
	b.Run("CanonicalURL", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			_, _ = protocol.CanonicalURL(from, refs[i&7])
		}
	})
}
