package html_test

import (
	"testing"

	"github.com/parleyweb/parley/internal/html"
)

// Titles of Western pages are read, whatever names their charset, or nothing; of
// other charsets they are left out, and what is UTF-8 is taken as that.
func TestTitlesInLatin1(t *testing.T) {
	const caf = "Caf\xe9 \x80 5 \x96 &eacute;t&eacute;"
	for _, c := range []struct{ charset, head, title, want string }{
		{"", "", caf, "Café € 5 – été"},
		{"ISO-8859-1", "", caf, "Café € 5 – été"},
		{"windows-1252", "<meta charset=koi8-r>", caf, "Café € 5 – été"}, // the header wins
		{"", "<meta charset=latin1>", caf, "Café € 5 – été"},
		{"", `<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=iso-8859-1">`, caf, "Café € 5 – été"},
		{"", `<meta charset = 'windows-1251' >`, caf, ""},
		{"shift_jis", "", caf, ""},
		{"utf-8", "", caf, ""},
		{"iso-8859-1", "", "Café", "Café"},
		{"iso-8859-1", "", "a\x81b", "a b"},
	} {
		page := []byte("<html><head>" + c.head + "<title>" + c.title + "</title>")
		if got := html.Read("", page, html.Options{Charset: c.charset}).Title; got != c.want {
			t.Errorf("%+v: read as %q", c, got)
		}
		s := html.Scanner{Charset: c.charset}
		if s.Scan(page); s.Head.Title != c.want {
			t.Errorf("%+v: scanned as %q", c, s.Head.Title)
		}
	}
}
