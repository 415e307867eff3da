package html_test

import (
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/internal/urlref"
)

// Where a reference leads, leads there again, and no reference is too odd. Where references lead is tested with package gather.
func FuzzAsBrowser(f *testing.F) {
	for _, ref := range []string{`\\h\x`, "http:x", "https:////h//", "%2e%2E/%2e", "12:30", "//ü%41:80/", "\x01", "a\xe9?\xe9", "https://a%2Fb", "///", ":", "?"} {
		f.Add("iso-8859-1", ref)
	}
	f.Fuzz(func(t *testing.T, charset, ref string) {
		s := html.Scanner{Charset: charset}
		s.Scan([]byte("<p>" + ref))
		ref = strings.TrimFunc(ref, func(r rune) bool { return r <= ' ' }) // as the Scanner does
		in := []byte(ref)
		var b urlref.Base
		b.Reset(at)
		url, ok := b.Resolve(nil, s.AsBrowser(at, in))
		if string(in) != ref {
			t.Fatalf("%q was changed to %q", ref, in)
		}
		if !ok {
			return
		}
		if again, ok := b.Resolve(nil, s.AsBrowser(at, url)); !ok || string(again) != string(url) {
			t.Errorf("%q leads to %q, and that to %q", ref, url, again)
		}
	})
}
