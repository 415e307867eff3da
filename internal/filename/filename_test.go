package filename_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/filename"
)

func TestNatural(t *testing.T) {
	for _, c := range []struct{ url, mediaType, want, portable string }{
		{"https://example.org/", "text/html", "example.org/index.html", ""},
		{"https://example.org:8080/a/b", "text/html", "example.org:8080/a/b.html", "example.org%3A8080/a/b.html"},
		{"http://example.org/a/", "", "example.org/a/index.html", ""},
		{"http://example.org/a.png?x=/1", "image/png", "example.org/a.png%3Fx=%2F1", ""},
		{"http://example.org/%C3%A9%2Fx#frag", "image/png", "example.org/é%2Fx", ""},
		{"http://example.org/.htaccess", "", "example.org/%2Ehtaccess", ""},
		{"http://example.org/nul.txt", "", "example.org/nul.txt", "example.org/%6Eul.txt"},
		{"http://example.org/a//b", "", "", ""},
		{"http://example.org/%2e%2e/b", "", "", ""},
		{"http://example.org/%zz", "", "", ""},
		{"http://../b", "", "%2E./b", "%2E%2E/b"},
		{"mailto:a", "", "", ""},
		{"http://example.org/" + strings.Repeat("x", 255), "", "example.org/" + strings.Repeat("x", 255), ""},
		{"http://example.org/" + strings.Repeat("x", 256), "", "", ""},
		{"http://example.org/" + strings.Repeat("x/", 1200), "", "example.org/" + strings.Repeat("x/", 1200) + "index.html", ""},
	} {
		got, ok := filename.Natural(c.url, c.mediaType, false)
		if ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%s: %q, want %q", c.url, got, c.want)
		}
		if c.portable != "" {
			if got, _ := filename.Natural(c.url, c.mediaType, true); got != c.portable {
				t.Errorf("%s: %q, want %q", c.url, got, c.portable)
			}
		}
	}
	a, b := filename.Other("http://example.org/a//b.html?x"), filename.Other("http://example.org/a//c.html?x")
	if a == b || !strings.HasPrefix(a, filename.Own+"/") || !strings.HasSuffix(a, ".html") {
		t.Errorf("%s, %s", a, b)
	}
}

// For any URL, the name stays below the directory, and differs from our own files.
func FuzzNatural(f *testing.F) {
	f.Add("https://example.org/a/%2e%2e/..%2f?q", "text/html")
	f.Add("https://.parley/x", "")
	f.Fuzz(func(t *testing.T, url, mediaType string) {
		for _, portable := range []bool{false, true} {
			name, ok := filename.Natural(url, mediaType, portable)
			if !ok {
				continue
			}
			if !filepath.IsLocal(name) || strings.HasPrefix(name, filename.Own) || strings.HasSuffix(name, "/") || filepath.Clean(name) != name {
				t.Errorf("%q gets the name %q", url, name)
			}
		}
	})
}
