package docroot_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/internal/docroot"
)

func TestURLTable(t *testing.T) {
	for _, c := range []struct {
		place, plain, clean string
	}{
		{"index.html", "", ""},
		{"a/b/index.html", "a/b/", "a/b/"},
		{"INDEX.HTML", "INDEX.HTML", "INDEX.HTML"},
		{"index.htm", "index.htm", "index.htm"},
		{"a.html", "a.html", "a"},
		{"a.b.html", "a.b.html", "a.b"},
		{"a.HTML", "a.HTML", "a.HTML"},
		{"a.html/b.html", "a.html/b.html", "a.html/b"},
		{"-._~!$&'()*+,;=:@.pdf", "-._~!$&'()*+,;=:@.pdf", "-._~!$&'()*+,;=:@.pdf"},
		{"a b.pdf", "a%20b.pdf", "a%20b.pdf"},
		{"a%20b.pdf", "a%2520b.pdf", "a%2520b.pdf"},
		{"a?b#c.pdf", "a%3Fb%23c.pdf", "a%3Fb%23c.pdf"},
		{`"<>[]\^{|}` + "`.pdf", "%22%3C%3E%5B%5D%5C%5E%7B%7C%7D%60.pdf", "%22%3C%3E%5B%5D%5C%5E%7B%7C%7D%60.pdf"},
		{"\xc3\xa9/\xe9.pdf", "%C3%A9/%E9.pdf", "%C3%A9/%E9.pdf"},
		{"\n\r\t\x01\x7f.pdf", "%0A%0D%09%01%7F.pdf", "%0A%0D%09%01%7F.pdf"},
		{"a./b.pdf", "a./b.pdf", "a./b.pdf"},
		{"index.html/index.html", "index.html/", "index.html/"},
	} {
		for clean, want := range map[bool]string{false: c.plain, true: c.clean} {
			if got := docroot.URLOf(base, clean, c.place); got != base+want {
				t.Errorf("%q: %q, want %q", c.place, got, base+want)
			}
			if places := docroot.PlacesOf(base, clean, base+want); len(places) == 0 || places[0] != c.place && places[1] != c.place {
				t.Errorf("%q: back to %q, want %q", want, places, c.place)
			}
		}
	}
	for _, u := range []string{"", "x", "http://other.example/a.html", "http://site.example", base + "index.html", base + "a/index.html", base + "a%2fb.html", base + "a%2Fb.html",
		base + "a%41.html", base + "a%00.html", base + "../a.html", base + "./a.html", base + "a/../b.html", base + "a//b.html", base + "%", base + "%2", base + "%zz", base + "a?b", base + "a b",
		base + ".", base + "..", base + "%2e", "//site.example/a.html"} {
		if places := docroot.PlacesOf(base, false, u); len(places) > 0 && !(len(places) == 1 && docroot.URLOf(base, false, places[0]) == u) {
			t.Errorf("%q: %q", u, places)
		}
	}
}

func FuzzURL(f *testing.F) {
	for _, s := range []string{"a.html", "a/b/index.html", "\xff/\n.html", "%41.html", "a b/c?d", "ü.html", "x/.y.html"} {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, place string, clean bool) {
		for name := range strings.SplitSeq(place, "/") {
			if name == "" || name == "." || name == ".." || strings.IndexByte(name, 0) >= 0 {
				return // no path
			}
		}
		s := docroot.URLOf(base, clean, place)
		if len(s) > protocol.MaxURL {
			return
		}
		if c, err := protocol.CanonicalURL("", s); err != nil || c != s {
			t.Fatalf("%q -> %q: canonical is %q, %v", place, s, c, err)
		}
		u, err := url.Parse(s)
		if err != nil || u.EscapedPath() != s[len(base)-1:] || u.RawQuery != "" || u.Fragment != "" {
			t.Fatalf("%q -> %q: parsed as %+v, %v", place, s, u, err)
		}
		path := strings.TrimPrefix(u.Path, "/")
		switch {
		case path == place:
		case strings.TrimSuffix(place, "index.html") == path:
		case clean && path+".html" == place:
		default:
			t.Fatalf("%q -> %q -> %q", place, s, path)
		}
		found := false
		for _, p := range docroot.PlacesOf(base, clean, s) {
			found = found || p == place
			if back := docroot.URLOf(base, clean, p); back != s {
				t.Fatalf("%q -> %q, but %q -> %q", s, p, p, back)
			}
		}
		if !found {
			t.Fatalf("%q -> %q, and not back", place, s)
		}
	})
}
