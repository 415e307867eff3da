package filename_test

import (
	"path"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/filename"
)

const base = "http://site.test/"

func TestBelow(t *testing.T) {
	long := strings.Repeat("x", 255)
	for _, c := range []struct{ url, mediaType, plain, portable string }{
		{"", "", "index.html", "index.html"},
		{"a.html", "text/html", "a.html", "a.html"},
		{"a/b/", "text/html", "a/b/index.html", "a/b/index.html"},
		{"a", "text/html", "a.html", "a.html"},
		{"a", "", "a", "a"},
		{"v1.2", "text/html", "v1.2", "v1.2"},
		{"a%20b+c.html", "", "a b+c.html", "a b+c.html"},
		{"%C3%A9", "", "é", "é"},
		{"%FF%fe.html", "", "\xff\xfe.html", "\xff\xfe.html"},
		{"100%25.html", "", "100%.html", "100%.html"},
		{"a%2Fb", "", "a%2Fb", "a%2Fb"},
		{"a%2F..%2Fb", "", "a%2F..%2Fb", "a%2F..%2Fb"},
		{"a%5Cb%3A%2A%3F%22%3C%3E%7C", "", `a\b:*?"<>|`, "a%5Cb%3A%2A%3F%22%3C%3E%7C"},
		{"a?b=c/../d&e=%2F", "", "a%3Fb=c%2F..%2Fd&e=%2F", "a%3Fb=c%2F..%2Fd&e=%2F"},
		{"?q", "", "index.html%3Fq", "index.html%3Fq"},
		{"a#frag?ment", "", "a", "a"},
		{".htaccess", "", "%2Ehtaccess", "%2Ehtaccess"},
		{"%2Eparley/tmp/1", "", "%2Eparley/tmp/1", "%2Eparley/tmp/1"},
		{"...", "", "%2E..", "%2E.%2E"},
		{"a%00b%0Ac%7F", "", "a%00b%0Ac%7F", "a%00b%0Ac%7F"},
		{"CON", "", "CON", "%43ON"},
		{"con.html", "", "con.html", "%63on.html"},
		{"lpt1.a.b", "", "lpt1.a.b", "%6Cpt1.a.b"},
		{"console", "", "console", "console"},
		{"com", "", "com", "com"},
		{"a./b ", "", "a./b ", "a%2E/b%20"},
		{long, "", long, ""},
		{long + "x", "", "", ""},
		{strings.Repeat("y/", 1501), "", "", ""},
		{"..", "", "", ""},
		{"a/../b", "", "", ""},
		{"%2e%2E/b", "", "", ""},
		{"./a", "", "", ""},
		{"a//b", "", "", ""},
		{"/a", "", "", ""},
		{"a%zz", "", "", ""},
	} {
		for portable, want := range map[bool]string{false: c.plain, true: c.portable} {
			got, ok := filename.Below(base, base+c.url, c.mediaType, portable)
			if !ok {
				got = ""
			}
			if got != want {
				t.Errorf("name of %.60q, portable %v: %.60q, want %.60q", c.url, portable, got, want)
			}
		}
	}
	if name, ok := filename.Below(base+"docs/", base+"other", "", false); ok {
		t.Errorf("a URL outside of the base gets the name %q", name)
	}
}

func TestOther(t *testing.T) {
	a, b := filename.Other(base+"a//b.HTML?x"), filename.Other(base+"a//c.HTML?x")
	if a == b || path.Ext(a) != ".HTML" || path.Dir(a) != ".parley/other" {
		t.Errorf("%q, %q", a, b)
	}
	if s := filename.Other(base + "a.%2F%2F"); path.Ext(s) != "" {
		t.Errorf("%q", s)
	}
}

// A name never leads out of the directory, or to the keeper's own files.
func FuzzBelow(f *testing.F) {
	for _, s := range []string{"", "a/b.html", "../x", "%2e%2e/x", "a/%2F../b", ".parley/site", "a?../..", "a\\..\\b", "CON", "%ff", "a%00", "x/./y", "C:/x"} {
		f.Add(s, "text/html", true)
		f.Add(s, "", false)
	}
	f.Fuzz(func(t *testing.T, rest, mediaType string, portable bool) {
		name, ok := filename.Below(base, base+rest, mediaType, portable)
		if !ok {
			return
		}
		if path.Clean(name) != name || path.IsAbs(name) || len(name) > 3000 {
			t.Fatalf("%q gets the name %q", rest, name)
		}
		for _, s := range strings.Split(name, "/") {
			if s == "" || s[0] == '.' || len(s) > 255 || strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c == 0x7f }) {
				t.Fatalf("%q gets the name %q", rest, name)
			}
			if portable && (strings.ContainsAny(s, `\:*?"<>|`) || strings.HasSuffix(s, ".") || strings.HasSuffix(s, " ")) {
				t.Fatalf("%q gets the name %q, which Windows rejects", rest, name)
			}
		}
	})
}
