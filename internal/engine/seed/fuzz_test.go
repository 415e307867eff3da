package seed_test

import (
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/protocol"
)

// FuzzAdmit: for any URL there is one verdict, the name is canonical and stays
// the same if admitted again, and a URL that robots.txt forbids is never admitted.
func FuzzAdmit(f *testing.F) {
	f.Add("https://a.example/x/", "../b;jsessionid=1?PHPSESSID=2&utm_a=3#c", uint8(0))
	f.Add("", "http://www.a.example:80/(S(1))/p%20q?;&=", uint8(3))
	f.Add("https://a.example", "//www.b.example/?login", uint8(1))
	f.Add("https://a.example/x?", "/forbidden/%66?", uint8(2))
	f.Add("", "http://a.example./x/.;jsessionid=1", uint8(0))
	f.Add("", "http://./", uint8(0))
	f.Add("", "http://www..", uint8(0))
	f.Add("", "http://www./", uint8(0))
	f.Add("", "http://www.www..", uint8(3))
	f.Add("", "http://example/", uint8(0))
	f.Add("", "http://www.example/", uint8(0))
	s := &seed.Seeder{}
	for _, o := range []string{"https://a.example", "http://a.example", "https://www.b.example"} {
		s.SetRobots(o, seed.RobotsAnswer{Status: 200, Body: []byte("User-agent: *\nDisallow: /forbidden/\nDisallow: /*?secret")}, noon)
	}
	f.Fuzz(func(t *testing.T, from, ref string, kind uint8) {
		r := seed.Ref{URL: ref, From: from, Depth: int(kind), Kind: seed.Kind(kind % 5)}
		v := s.Admit(r)
		if again := s.Admit(r); again != v {
			t.Fatalf("%+v, then %+v", v, again)
		}
		if v.OK != (v.Rule == "") || v.URL == "" && v.OK {
			t.Fatalf("%+v", v)
		}
		if v.URL == "" {
			if u, err := protocol.CanonicalURL(from, ref); err == nil {
				t.Fatalf("%s could be fetched: %+v", u, v)
			}
			return
		}
		if u, err := protocol.CanonicalURL("", v.URL); err != nil || u != v.URL {
			t.Fatalf("%q is not canonical: %q, %v", v.URL, u, err)
		}
		if w := s.Admit(seed.Ref{URL: v.URL, Depth: r.Depth, Kind: r.Kind}); w.URL != v.URL {
			t.Fatalf("%q is known as %q", v.URL, w.URL)
		}
		if v.OK {
			if strings.Contains(v.URL, "example/forbidden/") || s.Forbids(v.URL) != "" {
				t.Fatalf("admitted and forbidden: %+v", v)
			}
		}
	})
}

// FuzzRead: reading any sitemap or feed ends, within bounds.
func FuzzRead(f *testing.F) {
	f.Add([]byte("<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'><url><loc>https://a.example/</loc><lastmod>2026-11-21</lastmod></url></urlset>"))
	f.Add([]byte("<sitemapindex><sitemap><loc>/b.xml.gz</loc></sitemap></sitemapindex>"))
	f.Add([]byte("https://a.example/a\nhttps://a.example/b\r\n"))
	f.Add([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00"))
	f.Add([]byte("<rss version='2.0'><channel><item><link>https://a.example/</link></item></channel></rss>"))
	f.Fuzz(func(t *testing.T, body []byte) {
		const at = "https://a.example/sitemap.xml"
		for _, read := range []func(string, []byte) (seed.List, error){seed.ReadSitemap, seed.ReadFeed} {
			l, err := read(at, body)
			if err != nil && err.Error() == "" {
				t.Fatal("an empty error")
			}
			for _, n := range append(l.Pages, l.Sitemaps...) {
				if u, err := protocol.CanonicalURL("", n.URL); err != nil || u != n.URL {
					t.Fatalf("%q is not canonical", n.URL)
				}
				if n.Foreign == strings.HasPrefix(n.URL, "https://a.example/") {
					t.Fatalf("%q: foreign %v", n.URL, n.Foreign)
				}
			}
		}
	})
}
