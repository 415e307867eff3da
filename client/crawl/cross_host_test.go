package crawl_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/seed"
)

func sitemapOf(urls ...string) string {
	var b strings.Builder
	b.WriteString(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
	for _, u := range urls {
		fmt.Fprintf(&b, "<url><loc>%s</loc></url>", u)
	}
	b.WriteString("</urlset>")
	return b.String()
}

// A sitemap may be on another host, if the site's robots.txt names it: it is
// fetched as that host's rules allow, and affects only the site that named it.
func TestSitemapOnAnotherHost(t *testing.T) {
	for _, c := range []struct {
		name, robots string
		foreign      bool // a host that is not crawled, and of another name
		read         bool
	}{
		{"allowed", "User-agent: *\nDisallow: /private/\n", false, true},
		{"without a robots.txt", "", false, true},
		{"forbidden", "User-agent: *\nDisallow: /maps/\n", false, false},
		{"unrelated host", "", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			other := newWeb(t, map[string]string{"/own.html": page("own")})
			if c.robots != "" {
				other.pages["/robots.txt"] = c.robots
			}
			at := other.URL
			if c.foreign {
				at = strings.Replace(at, "127.0.0.1", "localhost", 1)
			}
			w := newWeb(t, map[string]string{"/": page("home"), "/orphan.html": page("orphan"), "/robots.txt": "Sitemap: " + at + "/maps/index.xml\n"})
			other.pages["/maps/index.xml"] = `<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap><loc>` + at + `/maps/1.xml</loc></sitemap></sitemapindex>`
			other.pages["/maps/1.xml"] = sitemapOf(w.URL+"/orphan.html", at+"/own.html")
			one := crawler(t, "", w.URL+"/")
			one.Seeder = &seed.Seeder{Rules: seed.Rules{Hosts: []string{"127.0.0.1"}}}
			finish(t, one)
			asked := "map[]"
			if c.read {
				asked = "map[/maps/1.xml:1 /maps/index.xml:1]"
			}
			if got := fmt.Sprint(other.counts()); got != asked {
				t.Errorf("fetched %s from the other host, want %s", got, asked)
			}
			if got := strings.Join(other.requests(), " "); strings.Count(got, "/robots.txt") > 1 || strings.Contains(got, "/sitemap.xml") {
				t.Errorf("fetched %s from the other host", got)
			}
			p := pageOf(t, one.Collection, w.URL+"/orphan.html")
			if known := p.URL != ""; known != c.read || known && (p.State != collection.Held || p.By != collection.BySitemap) {
				t.Errorf("listed page: %+v", p)
			}
			if pageOf(t, one.Collection, at+"/own.html").URL != "" {
				t.Error("a sitemap of one site added a page of another")
			}
		})
	}
}
