//go:build linux

package anysite

import (
	"bytes"
	"fmt"
	"html"
	"strings"
	"unicode/utf16"
)

// A Page is a file of a docroot.
type Page struct {
	Path    string   // below the docroot
	Quirk   string   // its special property
	Links   []string // paths
	Out     []string // URLs on other sites
	Age     int      // age of its date in hours at the beginning; negative: a date in the future
	Version int
	Name    string // appears in its text; twins share it
}

// oversize is the size of a page over the crawler's default limit: that of the largest page of a manual that
// many people have on their disk.
const oversize = 402_759

// drawPages gives a site its pages: plain ones, all linked from the first, and in the first site those of the
// features.
func (p *Plan) drawPages(s *Site) {
	n := map[string]int{"small": 6, "middle": 22, "large": 60}[p.Chosen["size"]]
	if len(p.Sites) > 0 {
		n = 5
	}
	add := func(path, quirk string) *Page {
		s.Pages = append(s.Pages, Page{Path: path, Quirk: quirk, Age: 48, Name: path})
		return &s.Pages[len(s.Pages)-1]
	}
	add("index.html", "")
	for i := 1; i < n; i++ {
		dir := ""
		if i%5 == 4 {
			dir = "news/"
		}
		add(fmt.Sprintf("%spage-%d.html", dir, i), "")
	}
	add("private/secret-1.html", "private")
	add("private/secret-2.html", "private")
	if len(p.Sites) == 0 {
		p.drawQuirks(s, add)
	}
	for i := range s.Pages {
		q := &s.Pages[i]
		switch {
		case q.Path == "index.html":
			for _, o := range s.Pages {
				if o.Quirk != "unlinked" {
					q.Links = append(q.Links, o.Path)
				}
			}
		case strings.HasSuffix(q.Path, ".html"):
			q.Links = append(q.Links, s.Pages[(i+1)%len(s.Pages)].Path)
		}
		if q.Links != nil && q.Path != "index.html" && s.Pages[(i+1)%len(s.Pages)].Quirk == "unlinked" {
			q.Links = nil
		}
	}
}

func (p *Plan) drawQuirks(s *Site, add func(path, quirk string) *Page) {
	has := p.Has
	simple := []struct{ feature, path string }{{"empty", "empty.html"}, {"oversize", "oversize.html"}, {"huge", "huge.html"}, {"pdf", "paper.pdf"},
		{"canonical", "canonical.html"}, {"noindex", "noindex.html"}, {"nofollow", "nofollow.html"}, {"base", "sub/base.html"}, {"unreadable", "unreadable.html"},
		{"unlinked", "unlinked.html"}, {"old-dates", "old.html"}, {"future-dates", "future.html"}, {"nonce", "nonce-1.html"}, {"nonce", "nonce-2.html"},
		{"ssi-date", "date.html"}, {"minified", "minified.html"}, {"stale", "stale.html"}}
	for _, q := range simple {
		if has(q.feature) {
			add(q.path, q.feature)
		}
	}
	many := func(feature string, paths ...string) {
		for _, path := range paths {
			if has(feature) {
				add(path, feature).Name = map[bool]string{true: "the same", false: path}[feature == "twins"]
			}
		}
	}
	many("types", "plain.txt", "style.css", "data.json", "archive.zip", "note.md")
	many("twins", "en/about.html", "de/about.html", "fr/about.html")
	many("odd-names", "with space.html", "ü-umlaut.html", "100%.html", "a+b&c.html", "semi;colon.html", "Case.html", "case.html", "quest?ion.html")
	many("encodings", "latin1.html", "utf16.html")
	for i := range s.Pages {
		q := &s.Pages[i]
		switch {
		case q.Quirk == "old-dates":
			q.Age = 24 * 365 * 40
		case q.Quirk == "future-dates":
			q.Age = -24 * 30
		}
	}
	if has("nonce") && p.Chosen["size"] != "small" { // a theme that puts a nonce into every other page
		for i := range s.Pages {
			if q := &s.Pages[i]; i%2 == 1 && q.Quirk == "" {
				q.Quirk = "nonce"
			}
		}
	}
}

// Bytes returns the content of a page's version; its links are relative to base.
func (q Page) Bytes(seed uint64, site string) []byte {
	if q.Quirk == "empty" && q.Version == 0 {
		return nil
	}
	text := fmt.Sprintf("Words of %s, version %d, of site %s in world %d.", q.Name, q.Version, site, seed)
	if q.Quirk == "twins" && q.Version == 0 {
		text = "The same words under every name."
	}
	var b bytes.Buffer
	if !strings.HasSuffix(q.Path, ".html") {
		fmt.Fprintf(&b, "%s\n", text)
		if q.Quirk == "pdf" {
			b.Reset()
			fmt.Fprintf(&b, "%%PDF-1.4\n%% %s\n%%%%EOF\n", text)
		}
		return b.Bytes()
	}
	head := ""
	switch q.Quirk {
	case "canonical":
		head = `<link rel="canonical" href="/elsewhere.html">`
	case "noindex":
		head = `<meta name="robots" content="noindex">`
	case "nofollow":
		head = `<meta name="robots" content="nofollow">`
	case "base":
		head = `<base href="../">`
	}
	if strings.HasPrefix(q.Path, "latin1") {
		head += `<meta charset="iso-8859-1">`
		text += " Stra\xdfe"
	}
	fmt.Fprintf(&b, "<!DOCTYPE html>\n<html><head>%s\n<title>%s</title></head>\n<body>\n\n<p>%s</p>\n", head, q.Name, text)
	up := ""
	if q.Quirk != "base" {
		up = strings.Repeat("../", strings.Count(q.Path, "/"))
	}
	for _, l := range q.Links {
		fmt.Fprintf(&b, "<a href=\"%s%s\">%s</a>\n", up, strings.ReplaceAll(escapePath(l), "&", "&amp;"), html.EscapeString(l))
	}
	for _, u := range q.Out {
		fmt.Fprintf(&b, "<a href=\"%s\">elsewhere</a>\n", u)
	}
	fill := 0
	switch q.Quirk {
	case "oversize":
		fill = oversize
	case "huge":
		fill = 3_000_000
	}
	for i := 0; b.Len() < fill; i++ {
		fmt.Fprintf(&b, "<p>Line %d of a long page, version %d.</p>\n", i, q.Version)
	}
	fmt.Fprint(&b, "</body></html>\n")
	if strings.HasPrefix(q.Path, "utf16") {
		out := []byte{0xff, 0xfe}
		for _, u := range utf16.Encode([]rune(b.String())) {
			out = append(out, byte(u), byte(u>>8))
		}
		return out
	}
	return b.Bytes()
}

// escapePath writes the path of a file as a reference (RFC 3986).
func escapePath(path string) string {
	if path == "index.html" {
		return "./"
	}
	var b strings.Builder
	for _, c := range []byte(path) {
		if strings.IndexByte("/.-_~!$&'()*+,;=:@", c) >= 0 || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
