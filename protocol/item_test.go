package protocol_test

import (
	"cmp"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/protocol"
)

func TestCursor(t *testing.T) {
	long := strings.Repeat("x", 64)
	for in, want := range map[string]protocol.Cursor{
		"0:0":                    {},
		"k3v7q2m4x5n6p2aa:48213": {Epoch: "k3v7q2m4x5n6p2aa", Seq: 48213},
		"A-b_9:0":                {Epoch: "A-b_9"},
		"00:1":                   {Epoch: "00", Seq: 1},
		"e:18446744073709551615": {Epoch: "e", Seq: 1<<64 - 1},
		long + ":1":              {Epoch: long, Seq: 1},
	} {
		c, err := protocol.ParseCursor(in)
		if err != nil || c != want || c.String() != in || c.IsZero() != (in == "0:0") {
			t.Errorf("%s: %v, %v", in, c, err)
		}
		var back protocol.Cursor
		b, err := json.Marshal(want)
		if err != nil || string(b) != `"`+in+`"` || json.Unmarshal(b, &back) != nil || back != want {
			t.Errorf("%s in JSON: %s, %v, back %v", in, b, err, back)
		}
	}
	for _, bad := range []string{
		"", ":", "0", "e", "e:", ":1", "0:1", "0:00", "e:-1", "e:+1", "e:01", "e:1 ", " e:1", "e:1:1", "e:0x1", "e:1_0",
		"e:18446744073709551616", "e f:1", "\u00e9:1", "e\n:1", long + "x:1", "e:\u0661",
	} {
		if c, err := protocol.ParseCursor(bad); err == nil {
			t.Errorf("%q: %v, want an error", bad, c)
		}
	}
}

func TestDigest(t *testing.T) {
	const empty = "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:"
	if got := protocol.Sum(nil).String(); got != empty {
		t.Errorf("digest of nothing: %s", got)
	}
	if d, err := protocol.ParseDigest(empty); err != nil || d != protocol.Sum(nil) {
		t.Errorf("%v, %v", d, err)
	}
	if d, err := protocol.ParseDigest(""); err != nil || !d.IsZero() || d.String() != "" {
		t.Errorf("unknown: %v, %v", d, err)
	}
	for _, bad := range []string{
		":", "sha-256=::", empty[:len(empty)-1], empty[1:], " " + empty, strings.ToUpper(empty),
		"sha-512" + empty[7:], strings.Replace(empty, "=:", "=", 1), strings.Replace(empty, "+", "-", 1),
		"sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFV=:", // trailing bits that carry no data
		"sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hS\r\n==:",
		"sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFUA:",
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
	} {
		if d, err := protocol.ParseDigest(bad); err == nil || !d.IsZero() {
			t.Errorf("%q: %v, %v", bad, d, err)
		}
	}
}

// URLs are sorted by level and then by bytes, so that a directory stays together (C25).
func TestURLOrder(t *testing.T) {
	want := []string{
		"https://h", "https://h/", "https://h/?a/b/c", "https://h/a", "https://h/b?x=/y/z", "https://h/c#/d/e",
		"https://h/a/", "https://h/a/b", "https://h/b/", "https://h/a/b/c",
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, protocol.Compare)
	if !slices.Equal(got, want) {
		t.Errorf("order:\n%s", strings.Join(got, "\n"))
	}
	for url, depth := range map[string]int{
		"https://h": 1, "https://h/": 1, "https://h/a": 1, "https://h/a/": 2, "https://h/a/b?c/d": 2, "https://h/a/b#c/d?e/f": 2, "": 1, "/a/b": 2,
	} {
		if got := protocol.Depth(url); got != depth {
			t.Errorf("depth of %q: %d, want %d", url, got, depth)
		}
	}
}

// Even for very similar URLs, the order is by level, then by bytes.
func TestURLOrderOfSimilarURLs(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	piece := []string{"/", "/", "a", "b", "aa", "?", "#", "://", ".", "-", "%2F", "https://h", ""}
	random := func() string {
		s := []string{"https://h/", "https://h", "", "/"}[rnd.IntN(4)]
		for range rnd.IntN(6) {
			s += piece[rnd.IntN(len(piece))]
		}
		return s
	}
	for range 20_000 {
		a, b := random(), random()
		if rnd.IntN(2) == 0 {
			b = a[:rnd.IntN(len(a)+1)] + b
		}
		want := cmp.Or(cmp.Compare(protocol.Depth(a), protocol.Depth(b)), strings.Compare(a, b))
		if got := protocol.Compare(a, b); got != want {
			t.Fatalf("compare %q with %q: %d, want %d", a, b, got, want)
		}
	}
}

// Shares are stored in thousandths and hundredths, and a share above zero stays above zero.
func TestShareRounding(t *testing.T) {
	for k := range 1001 {
		share := float64(k) / 1000
		if got, known := protocol.SignificanceOf(share).Share(); got != share || !known {
			t.Errorf("significance of %v: %v, %v", share, got, known)
		}
	}
	for k := 1; k <= 100; k++ {
		share := float64(k) / 100
		if got, known := protocol.ImportanceOf(share).Share(); got != share || !known {
			t.Errorf("importance of %v: %v, %v", share, got, known)
		}
	}
	for share, want := range map[float64]float64{-1: 0, 1e-9: 0.001, 0.0015: 0.002, 7: 1, math.Inf(1): 1} {
		if got, known := protocol.SignificanceOf(share).Share(); got != want || !known {
			t.Errorf("significance of %v: %v, %v", share, got, known)
		}
	}
	for share, want := range map[float64]float64{1e-9: 0.01, 0.014: 0.01, 0.016: 0.02, 7: 1} {
		if got, known := protocol.ImportanceOf(share).Share(); got != want || !known {
			t.Errorf("importance of %v: %v, %v", share, got, known)
		}
	}
	for _, none := range []float64{math.NaN(), 0, -1} {
		if i := protocol.ImportanceOf(none); i != 0 {
			t.Errorf("importance of %v: %v", none, i)
		}
	}
	if s := protocol.SignificanceOf(math.NaN()); s != 0 {
		t.Errorf("significance of NaN: %v", s)
	}
}

func TestItemEqual(t *testing.T) {
	a := protocol.Item{URL: "https://h/", Modified: time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC), Length: 1}
	b := a
	b.Modified = a.Modified.In(time.FixedZone("", 3600))
	if !a.Equal(b) {
		t.Error("the same instant in another zone makes a different item")
	}
	b.Length = 2
	if a.Equal(b) {
		t.Error("items of different lengths are equal")
	}
}

func TestTombstoneOfChange(t *testing.T) {
	item := protocol.Item{URL: "https://h/a"}
	for op, want := range map[protocol.Op]protocol.Tombstone{
		protocol.Delete: {URL: "https://h/a", Seq: 3},
		protocol.Move:   {URL: "https://h/b", Seq: 3, To: "https://h/a"},
		protocol.Create: {},
		protocol.Update: {},
	} {
		c := protocol.Change{Seq: 3, Op: op, Item: item}
		if op == protocol.Move {
			c.From = "https://h/b"
		}
		if got, ok := c.Tombstone(); got != want || ok != (want.URL != "") {
			t.Errorf("%s: %+v, %v", op, got, ok)
		}
	}
}

func TestCanonicalURL(t *testing.T) {
	for _, c := range []struct{ base, ref, want string }{
		{"", "https://h/a", "https://h/a"},
		{"", "HTTPS://WWW.Example.COM", "https://www.example.com/"},
		{"", "http://h:80/", "http://h/"},
		{"", "https://h:443?q", "https://h/?q"},
		{"", "http://h:443/", "http://h:443/"},
		{"", "http://h:/", "http://h/"},
		{"", "http://[::1]:8080/a", "http://[::1]:8080/a"},
		{"", "http://h/a/./b/../c", "http://h/a/c"},
		{"", "http://h/../../a", "http://h/a"},
		{"", "http://h//a//b/", "http://h//a//b/"},
		{"", "http://h/a#b", "http://h/a"},
		{"", "http://h/a?", "http://h/a?"},
		{"", "http://h/a?b=/../c", "http://h/a?b=/../c"},
		{"", "http://h/a%2fb%2Fc", "http://h/a%2fb%2Fc"},
		{"", "http://h/a%2fb c", "http://h/a%2fb%20c"},
		{"", "http://h/%7Euser", "http://h/%7Euser"},
		{"", "http://h/100%", "http://h/100%25"},
		{"", "http://h/%zz", "http://h/%25zz"},
		{"", "http://h/caf\u00e9?\u00e9", "http://h/caf%C3%A9?%C3%A9"},
		{"", "http://h/\xff\"<>\\^`{|}", "http://h/%FF%22%3C%3E%5C%5E%60%7B%7C%7D"},
		{"", "  http://h/a \n", "http://h/a"},
		{"http://h/d/robots.rdf", "a.html", "http://h/d/a.html"},
		{"http://h/d/robots.rdf", "/a.html", "http://h/a.html"},
		{"http://h/d/robots.rdf", "../a:b", "http://h/a:b"},
		{"http://h/d/robots.rdf", "?q", "http://h/d/robots.rdf?q"},
		{"http://h/d/robots.rdf", "//other/x", "http://other/x"},
		{"http://h/d/robots.rdf", "https://h/x", "https://h/x"},
		{"http://h/d/robots.rdf", "#top", "http://h/d/robots.rdf"},
	} {
		got, err := protocol.CanonicalURL(c.base, c.ref)
		if err != nil || got != c.want {
			t.Errorf("%s at %q: %q, %v, want %q", c.ref, c.base, got, err, c.want)
		}
	}
	for ref, why := range map[string]string{
		"":                                      "no URL",
		" ":                                     "no URL",
		"a.html":                                "relative URL",
		"//h/a":                                 "relative URL",
		"http:a":                                "without a host",
		"http:///a":                             "without a host",
		"http://:80/":                           "without a host",
		"https://me@h/":                         "user",
		"https://me:secret@h/":                  "user",
		"ftp://h/":                              "scheme",
		"mailto:a@h":                            "scheme",
		"javascript:alert(1)":                   "scheme",
		"file:///etc/passwd":                    "scheme",
		"http://h/a\x00b":                       "control character",
		"http://h/a\x7f":                        "control character",
		"http://h/a\nb":                         "control character",
		"http://h\u00e9/":                       "host",
		"http://h h/":                           "not a URL",
		"http://h:port/":                        "not a URL",
		"http://[fe80::1%25eth0]/":              "host",
		"http://h/" + strings.Repeat("a", 8184): "longer",
		"http://h/" + strings.Repeat(" ", 3000) + "a": "longer",
	} {
		got, err := protocol.CanonicalURL("", ref)
		if err == nil || !strings.Contains(err.Error(), why) || len(err.Error()) > 400 {
			t.Errorf("%.60q: %q, %v, want an error with %q", ref, got, err, why)
		}
	}
	for url, want := range map[string]string{
		"https://h/a/b": "https://h", "http://h:8080/": "http://h:8080", "http://h": "http://h", "/a": "",
	} {
		if got := protocol.Origin(url); got != want {
			t.Errorf("origin of %s: %s", url, got)
		}
	}
}

func FuzzCursor(f *testing.F) {
	for _, s := range []string{"0:0", "k3v7q2m4x5n6p2aa:48213", "e:18446744073709551615", "0:1", "e:01"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := protocol.ParseCursor(s)
		if err == nil && c.String() != s {
			t.Fatalf("%q has a second spelling, %q", s, c)
		}
		d, err := protocol.ParseDigest(s)
		if err == nil && d.String() != s && !d.IsZero() {
			t.Fatalf("%q has a second spelling, %q", s, d)
		}
	})
}

func FuzzCanonicalURL(f *testing.F) {
	for _, s := range []string{"http://h/a%2fb c", "HTTP://H:80/../a?b#c", "//x/y", "http://[::1]:8080/", "http://h/\xff%"} {
		f.Add("http://base/d/", s)
		f.Add("", s)
	}
	f.Fuzz(func(t *testing.T, base, ref string) {
		url, err := protocol.CanonicalURL(base, ref)
		if err != nil {
			return
		}
		for _, base := range []string{base, "", "https://other/x/"} {
			if again, err := protocol.CanonicalURL(base, url); err != nil || again != url {
				t.Fatalf("%q at %q is %q, which is %q, %v", ref, base, url, again, err)
			}
		}
		if !strings.HasPrefix(url, protocol.Origin(url)+"/") {
			t.Fatalf("%q does not begin with its origin", url)
		}
	})
}
