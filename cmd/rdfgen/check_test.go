package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/check"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/must"
)

const shopPages = 24

func names(r check.Report) []string {
	list := []string{}
	for _, f := range r.Findings {
		list = append(list, f.Rule)
	}
	slices.Sort(list)
	return list
}

func TestCheckFindsNothingWrongWithACleanSite(t *testing.T) {
	s := newShop(t)
	for path, kind := range map[string]string{
		"/robots.txt": "robots.txt", "/sitemap.xml": "sitemap", "/index.xml": "sitemap index", "/feed.xml": "feed, rss 2.0", "/atom.xml": "feed, atom 1.0", "/robots.rdf": "robots.rdf",
	} {
		r, code := s.check(s.url+path, "--strict")
		if code != 0 || len(r.Findings) > 0 || r.Kind != kind || path != "/robots.txt" && (r.Entries != shopPages || r.Sampled != 20) {
			t.Errorf("%s: exit code %d, %+v", path, code, r)
		}
		for _, f := range r.Findings {
			t.Errorf("%+v", f)
		}
	}
	// Each page is fetched at most twice, a forbidden one never.
	if n := len(s.asked); n > 6+2*5*20+20+5 || slices.Contains(s.asked, "/private/") {
		t.Errorf("%d requests: %q", n, s.asked)
	}
}

// faults has a fault for every rule, and the findings to expect.
var faults = []struct {
	want, at string // rules, separated by blanks; the path that is checked
	do       func(*shop)
}{
	{"unreachable", "/sitemap.xml", func(s *shop) { s.pages["/sitemap.xml"].to = "http://other.example/sitemap.xml" }},
	{"status", "/nothing.xml", func(s *shop) {}},
	{"forbidden", "/private/sitemap.xml", func(s *shop) {}},
	{"challenge", "/sitemap.xml", func(s *shop) {
		p := s.add("/sitemap.xml", "text/html", `<!doctype html><title>Making sure</title><script src="/.within.website/x/cmd/anubis/static/js/main.mjs">`)
		p.status = http.StatusAccepted
	}},
	{"html-instead", "/sitemap.xml", func(s *shop) { s.add("/sitemap.xml", "text/html", "<!doctype html><title>Not found</title>") }},
	{"html-instead", "/feed.xml", func(s *shop) { s.add("/feed.xml", "application/rss+xml", "\n<html><body>Not found</body></html>") }},
	{"unknown-kind", "/opml.xml", func(s *shop) { s.add("/opml.xml", "application/xml", "<?xml version='1.0'?><opml/>") }},
	{"unknown-kind", "/a.json", func(s *shop) { s.add("/a.json", "application/json", `{"a": 1}`) }},
	{"unknown-kind", "/empty.xml", func(s *shop) { s.add("/empty.xml", "application/xml", "") }},
	{"malformed", "/sitemap.xml", func(s *shop) { s.change("/sitemap.xml", "/p/23.html", "/p/23.html?a=1&b=2") }},
	{"malformed", "/feed.xml", func(s *shop) { s.change("/feed.xml", "<title>3<", "<title>3 & 4<") }},
	{"malformed", "/robots.rdf", func(s *shop) { s.change("/robots.rdf", "<title>3<", "<title>3 & 4<") }},
	{"cut-short", "/sitemap.xml", func(s *shop) { s.change("/sitemap.xml", "</urlset>", "") }},
	{"cut-short", "/robots.rdf", func(s *shop) { s.change("/robots.rdf", "</rdf:RDF>", "") }},
	{"over-limit", "/sitemap.xml", func(s *shop) { s.change("/sitemap.xml", "<urlset", "<urlset a=\""+strings.Repeat("x", 100_000)+"\"") }},
	{"too-many-urls coarse-dates", "/sitemap.xml", func(s *shop) {
		var b strings.Builder
		for i := range 50_001 {
			fmt.Fprintf(&b, "<url><loc>%s/p/%02d.html?%d</loc><lastmod>2025-%02d-%02d</lastmod></url>\n", s.url, i%shopPages, i, 1+i%11, 1+i%28)
		}
		s.change("/sitemap.xml", "</urlset>", b.String()+"</urlset>")
	}},
	{"too-large", "/sitemap.xml", func(s *shop) {
		s.change("/sitemap.xml", "</urlset>", strings.Repeat("<!--"+strings.Repeat("x", 1000)+"-->", 53_000)+"</urlset>")
	}},
	{"namespace", "/sitemap.xml", func(s *shop) {
		s.change("/sitemap.xml", "http://www.sitemaps.org/schemas", "http://www.google.com/schemas")
	}},
	{"namespace", "/robots.rdf", func(s *shop) { s.change("/robots.rdf", "rdf-syntax-ns#", "rdf-syntax-ns") }},
	{"no-entries", "/sitemap.xml", func(s *shop) { s.add("/sitemap.xml", "application/xml", s.sitemap()) }},
	{"redirected", "/map.xml", func(s *shop) { s.add("/map.xml", "", "").to = "/sitemap.xml" }},
	{"wrong-type", "/sitemap.xml", func(s *shop) { s.pages["/sitemap.xml"].kind = "text/html" }},
	{"wrong-type", "/robots.rdf", func(s *shop) { s.pages["/robots.rdf"].kind = "" }},
	{"wrong-type", "/robots.txt", func(s *shop) { s.pages["/robots.txt"].kind = "text/html" }},
	{"no-validators", "/sitemap.xml", func(s *shop) { s.pages["/sitemap.xml"].blind = true }},
	{"no-304", "/feed.xml", func(s *shop) { s.pages["/feed.xml"].stale = true }},
	{"not-compressed", "/robots.rdf", func(s *shop) { s.pages["/robots.rdf"].plain = true }},

	{"robots-unreachable", "/sitemap.xml", func(s *shop) { s.pages["/robots.txt"].status = 503 }},
	{"robots-none", "/robots.txt", func(s *shop) { delete(s.pages, "/robots.txt") }},
	{"robots-html no-sitemap-line", "/sitemap.xml", func(s *shop) { s.add("/robots.txt", "text/html", "<!doctype html><title>Shop</title>") }},
	{"robots-too-long no-sitemap-line", "/robots.txt", func(s *shop) { s.change("/robots.txt", "Disallow", strings.Repeat("# long\n", 80_000)+"Disallow") }},
	{"robots-not-text", "/robots.txt", func(s *shop) { s.change("/robots.txt", "\n", "\x00\n") }},
	{"robots-no-group", "/robots.txt", func(s *shop) { s.change("/robots.txt", "User-agent", "Disallow: /x\nUser-agent") }},
	{"robots-url-rule", "/robots.txt", func(s *shop) { s.change("/robots.txt", "Disallow", "Disallow: "+s.url+"/x\nDisallow") }},
	{"robots-forbids-all sitemap-forbidden", "/robots.txt", func(s *shop) { s.change("/robots.txt", "/private/", "/") }},
	{"robots-misspelt", "/robots.txt", func(s *shop) { s.change("/robots.txt", "Disallow", "Disalow") }},
	{"robots-misspelt", "/robots.txt", func(s *shop) { s.change("/robots.txt", "Disallow:", "Disallow") }},
	{"robots-no-line", "/robots.txt", func(s *shop) { s.change("/robots.txt", "Disallow", "these are our rules\nDisallow") }},
	{"robots-relative-rule", "/robots.txt", func(s *shop) { s.change("/robots.txt", "/private/", "private/") }},
	{"robots-unknown-line", "/robots.txt", func(s *shop) { s.change("/robots.txt", "Disallow", "Noindex: /x\nDisallow") }},
	{"robots-delay", "/robots.txt", func(s *shop) {
		s.change("/robots.txt", "Disallow", "Crawl-delay: 60\nDisallow")
		s.change("/robots.txt", "Sitemap:", "User-agent: parley-check\nDisallow:\n\nSitemap:") // the test must not wait that long
	}},
	{"bad-delay", "/robots.txt", func(s *shop) { s.change("/robots.txt", "Disallow", "Crawl-delay: fast\nDisallow") }},
	{"bad-delay", "/robots.txt", func(s *shop) {
		s.change("/robots.txt", "Disallow", "Crawl-delay:\nCrawl-delay: NaN\nCrawl-delay: 0,5\nDisallow")
	}},
	{"", "/robots.txt", func(s *shop) {
		s.change("/robots.txt", "Disallow", "Crawl-delay: 0.001 # fast\ncrawl-delay:0\nDisallow")
	}},
	{"no-sitemap-line", "/robots.txt", func(s *shop) { s.change("/robots.txt", "Sitemap:", "# Sitemap:") }},
	{"no-sitemap-line", "/sitemap.xml", func(s *shop) { s.change("/robots.txt", "Sitemap:", "# Sitemap:") }},
	{"sitemap-relative", "/robots.txt", func(s *shop) { s.change("/robots.txt", s.url, "") }},
	{"sitemap-foreign", "/robots.txt", func(s *shop) { s.change("/robots.txt", s.url, "https://www.other.example") }},
	{"sitemap-forbidden", "/robots.txt", func(s *shop) { s.change("/robots.txt", s.url, s.url+"/private") }},
	{"sitemap-missing", "/robots.txt", func(s *shop) { s.change("/robots.txt", "sitemap.xml", "map.xml") }},

	{"nested-index", "/index.xml", func(s *shop) { s.add("/parts/b.xml", "application/xml", s.index("/parts/a.xml")) }},
	{"part-missing", "/index.xml", func(s *shop) { delete(s.pages, "/parts/b.xml") }},
	{"parts-unread", "/index.xml", func(s *shop) {
		paths := []string{"/parts/a.xml", "/parts/b.xml"}
		for i := range 30 {
			paths = append(paths, fmt.Sprintf("/parts/%d.xml", i))
			s.add(paths[i+2], "application/xml", s.sitemap(fmt.Sprintf("%s/p/%02d.html?%d", s.url, i%shopPages, i)))
		}
		s.add("/index.xml", "application/xml", s.index(paths...))
	}},

	{"lastmod-build-time", "/sitemap.xml", func(s *shop) { // as most generators write it
		s.sameDate("2026-11-20T12:00:00+00:00")
		s.all(func(p *shelf) { p.modified = when(0) })
	}},
	{"lastmod-alike", "/sitemap.xml", func(s *shop) { s.sameDate("2026-11-20T12:00:00+00:00") }},
	{"lastmod-alike", "/sitemap.xml", func(s *shop) { // few pages are older
		s.sameDate("2026-11-20T12:00:00Z")
		s.pages["/p/00.html"].modified = when(0)
	}},
	{"lastmod-alike", "/sitemap.xml", func(s *shop) { // whether pages are older is not known
		s.sameDate("2026-11-20T12:00:00Z")
		s.all(func(p *shelf) { p.modified = time.Unix(0, 0) })
	}},
	{"", "/sitemap.xml", func(s *shop) { // a page has changed since: the others kept their date
		s.sameDate("2026-11-20T12:00:00Z")
		s.change("/sitemap.xml", "2026-11-20T12:00:00Z", "2026-11-20T13:00:00Z")
	}},
	{"", "/sitemap.xml", func(s *shop) { // the sitemap was written again: all kept their date
		s.sameDate("2026-11-20T12:00:00Z")
		s.pages["/sitemap.xml"].modified = time.Date(2026, 11, 22, 13, 0, 0, 0, time.UTC)
	}},
	{"lastmod-alike", "/robots.rdf", func(s *shop) { // each file with its own second
		for i := range shopPages {
			for range 2 {
				s.change("/robots.rdf", when(i).Format(time.RFC3339), time.Date(2026, 11, 20, 11, 59, i, 0, time.UTC).Format(time.RFC3339))
			}
		}
	}},
	{"bad-date", "/sitemap.xml", func(s *shop) { s.change("/sitemap.xml", "2026-01-01T00:00:00Z", "01.01.2026") }},
	{"bad-date", "/feed.xml", func(s *shop) { s.change("/feed.xml", "Thu, 01 Jan 2026 00:00:00 +0000", "today") }},
	{"bad-date", "/robots.rdf", func(s *shop) { s.change("/robots.rdf", "<dc:date>2026-01-01T00:00:00Z", "<dc:date>1 January 2026") }},
	{"absurd-date", "/sitemap.xml", func(s *shop) { s.change("/sitemap.xml", "2026-01-01T00:00:00Z", "1970-01-01T00:00:00Z") }},
	{"absurd-date", "/sitemap.xml", func(s *shop) { s.change("/sitemap.xml", "2026-01-01T00:00:00Z", "2926-01-01T00:00:00Z") }},
	{"future-date", "/sitemap.xml", func(s *shop) {
		s.change("/sitemap.xml", "2026-01-01T00:00:00Z", time.Now().Add(3*time.Hour).UTC().Format(time.RFC3339))
	}},
	{"zoneless-date", "/sitemap.xml", func(s *shop) { s.change("/sitemap.xml", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00") }},
	{"no-dates", "/sitemap.xml", func(s *shop) {
		for i := range shopPages {
			s.change("/sitemap.xml", "<lastmod>"+when(i).Format(time.RFC3339)+"</lastmod>", "")
		}
	}},
	{"coarse-dates", "/sitemap.xml", func(s *shop) {
		for i := range shopPages {
			s.change("/sitemap.xml", when(i).Format(time.RFC3339), when(i).Format(time.DateOnly))
		}
	}},
	{"bad-priority", "/sitemap.xml", func(s *shop) { s.change("/sitemap.xml", "</lastmod>", "</lastmod><priority>7</priority>") }},
	{"bad-priority", "/sitemap.xml", func(s *shop) { s.change("/sitemap.xml", "</lastmod>", "</lastmod><priority>high</priority>") }},
	{"bad-priority", "/index.xml", func(s *shop) { s.change("/parts/b.xml", "</lastmod>", "</lastmod><priority>-0.1</priority>") }},
	{"", "/sitemap.xml", func(s *shop) {
		for _, p := range []string{"0", " 1.0 ", "0.5", ""} {
			s.change("/sitemap.xml", "</lastmod></url>", "</lastmod><priority>"+p+"</priority></url>")
		}
	}},
	{"bad-url", "/sitemap.xml", func(s *shop) { s.change("/sitemap.xml", s.url+"/p/00.html", "mailto:shop@example.org") }},
	{"relative-url", "/sitemap.xml", func(s *shop) { s.change("/sitemap.xml", s.url+"/p/00.html", "/p/00.html") }},
	{"foreign-url", "/sitemap.xml", func(s *shop) { s.change("/sitemap.xml", s.url, "https://www.other.example") }},
	{"foreign-url order", "/robots.rdf", func(s *shop) {
		s.change("/robots.rdf", `<item rdf:about="`+s.url, `<item rdf:about="https://a.example`)
	}},
	{"outside-path", "/parts/a.xml", func(s *shop) {}},
	{"long-url", "/sitemap.xml", func(s *shop) { s.change("/sitemap.xml", "/p/00.html", "/p/00.html?"+strings.Repeat("x", 2048)) }},
	{"duplicate", "/sitemap.xml", func(s *shop) { s.change("/sitemap.xml", "/p/00.html", "/p/01.html") }},
	{"not-canonical", "/sitemap.xml", func(s *shop) { s.change("/sitemap.xml", "/p/00.html", "/p/00.html#top") }},
	{"disallowed", "/sitemap.xml", func(s *shop) { s.change("/robots.txt", "/private/", "/p/00.html") }},

	{"rdf-attribute", "/robots.rdf", func(s *shop) { s.change("/robots.rdf", "<item rdf:about", "<item about") }},
	{"rdf-value", "/robots.rdf", func(s *shop) { s.change("/robots.rdf", "</item>", "<p:digest>md5=abc</p:digest></item>") }},
	{"no-channel", "/feed.rdf", func(s *shop) {
		body := s.manifest()
		i, j := strings.Index(body, "<channel"), strings.Index(body, "</channel>")
		s.add("/feed.rdf", "application/rdf+xml", body[:i]+body[j+len("</channel>"):])
	}},
	{"rss-incomplete", "/robots.rdf", func(s *shop) { s.change("/robots.rdf", "<title>0</title>\n", "") }},
	{"rss-seq", "/robots.rdf", func(s *shop) { s.change("/robots.rdf", `<rdf:li rdf:resource="`+s.url+`/p/00.html"/>`, "") }},
	{"dc-modified", "/robots.rdf", func(s *shop) {
		s.change("/robots.rdf", "<dcterms:modified>2026-01-01T00:00:00Z</dcterms:modified>", "<dc:modified>2026-01-01T00:00:00Z</dc:modified>")
	}},
	{"one-date", "/robots.rdf", func(s *shop) {
		s.change("/robots.rdf", "<dcterms:modified>2026-01-01T00:00:00Z</dcterms:modified>", "")
	}},
	{"count", "/robots.rdf", func(s *shop) { s.change("/robots.rdf", "<p:items>24", "<p:items>25") }},
	{"", "/robots.rdf", func(s *shop) { s.divide(0) }},
	{"part-differs", "/robots.rdf", func(s *shop) {
		s.divide(1)
		s.add("/parts/1.rdf", "application/rdf+xml", s.pages["/parts/0.rdf"].body)
	}},
	{"order", "/robots.rdf", func(s *shop) {
		s.change("/robots.rdf", `<item rdf:about="`+s.url+`/p/00.html"`, `<item rdf:about="`+s.url+`/p/22.html?"`)
	}},
	{"gone-and-listed", "/robots.rdf", func(s *shop) {
		s.change("/robots.rdf", "</rdf:RDF>", `<p:Tombstone rdf:about="`+s.url+`/p/03.html"/></rdf:RDF>`)
	}},
	{"no-atom-id", "/atom.xml", func(s *shop) { s.change("/atom.xml", "<id>urn:shop</id>", "") }},
	{"no-atom-id", "/atom.xml", func(s *shop) { s.change("/atom.xml", "<id>urn:shop:7</id>", "<id> </id>") }},
	{"no-atom-id", "/atom.xml", func(s *shop) { // that of its source is another feed's
		s.change("/atom.xml", "<id>urn:shop:23</id>", "<source><id>urn:other</id></source>")
	}},
	{"feed-self", "/feed.xml", func(s *shop) { s.change("/feed.xml", "/feed.xml", "/old-feed.xml") }},

	{"page-unreachable", "/sitemap.xml", func(s *shop) { s.all(func(p *shelf) { p.dead = true }) }},
	{"page-gone", "/sitemap.xml", func(s *shop) { s.all(func(p *shelf) { p.status = 410 }) }},
	{"page-refused", "/sitemap.xml", func(s *shop) { s.all(func(p *shelf) { p.status = 403 }) }},
	{"page-error", "/sitemap.xml", func(s *shop) { s.all(func(p *shelf) { p.status = 500 }) }},
	{"page-challenge", "/sitemap.xml", func(s *shop) {
		s.all(func(p *shelf) {
			p.body, p.status = "<!doctype html><title>Just a moment...</title><script>window._cf_chl_opt={}</script>", 403
		})
	}},
	{"page-bytes", "/robots.rdf", func(s *shop) {
		const other = "<p:digest>sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:</p:digest></item>"
		p := s.pages["/robots.rdf"]
		p.body = strings.ReplaceAll(p.body, "</item>", other)
	}},
	{"page-noindex", "/sitemap.xml", func(s *shop) {
		s.all(func(p *shelf) {
			p.body = strings.Replace(p.body, "<title>", `<meta name="robots" content="noindex"><title>`, 1)
		})
	}},
	{"page-noindex", "/feed.xml", func(s *shop) {
		s.all(func(p *shelf) { p.header = map[string]string{"X-Robots-Tag": "noarchive, NoIndex"} })
	}},
	{"page-canonical", "/sitemap.xml", func(s *shop) {
		s.all(func(p *shelf) {
			p.body = strings.Replace(p.body, "<title>", `<link rel="canonical" href="/p/"><title>`, 1)
		})
	}},
	{"soft-404", "/sitemap.xml", func(s *shop) { s.add("*", "text/html", "<!doctype html><title>Sorry, there is no such page</title>") }},
	{"soft-404", "/feed.xml", func(s *shop) { s.add("*", "", "").to = "/" }},
	{"", "/sitemap.xml", func(s *shop) { s.add("*", "", "").to = "/search" }},
	{"", "/sitemap.xml", func(s *shop) { // a bot challenge says nothing about pages
		s.add("*", "text/html", `<!doctype html><title>Making sure</title><script src="/.within.website/x/cmd/anubis/static/js/main.mjs">`)
	}},
	{"", "/sitemap.xml", func(s *shop) { // it may not be requested
		s.add("*", "text/html", "<!doctype html><title>Shop</title>")
		s.change("/robots.txt", "Disallow: /private/", "Disallow: /p/\nAllow: "+strings.Join(s.urls(), "\nAllow: "))
		s.pages["/robots.txt"].body = strings.ReplaceAll(s.pages["/robots.txt"].body, "Allow: "+s.url, "Allow: ")
	}},
	{"redirect-https", "/sitemap.xml", func(s *shop) {
		for path, p := range s.pages {
			if strings.HasPrefix(path, "/p/") {
				p.to = strings.Replace(s.url, "http:", "https:", 1) + path
			}
		}
	}},
	{"redirect-host", "/sitemap.xml", func(s *shop) {
		for path, p := range s.pages {
			if strings.HasPrefix(path, "/p/") {
				p.to = "http://www.shop.example" + path
			}
		}
	}},
	{"redirect-slash", "/sitemap.xml", func(s *shop) {
		for path, p := range s.pages {
			if strings.HasPrefix(path, "/p/") {
				p.to = path + "/"
			}
		}
	}},
	{"redirect-html", "/sitemap.xml", func(s *shop) {
		for path, p := range s.pages {
			if strings.HasPrefix(path, "/p/") {
				p.to = strings.TrimSuffix(path, ".html")
			}
		}
	}},
	{"redirect-other", "/sitemap.xml", func(s *shop) { s.all(func(p *shelf) { p.to = "/" }) }},
	{"page-no-validators", "/sitemap.xml", func(s *shop) { s.all(func(p *shelf) { p.blind = true }) }},
	{"page-no-304", "/sitemap.xml", func(s *shop) { s.all(func(p *shelf) { p.stale = true }) }},
	{"page-not-compressed", "/sitemap.xml", func(s *shop) { s.all(func(p *shelf) { p.plain = true }) }},

	{"busy", "/sitemap.xml", func(s *shop) { s.all(func(p *shelf) { p.status = 429 }) }},
}

func TestCheckFindsEachFault(t *testing.T) {
	found := map[string]bool{"out-of-time": true} // tested in the package
	for _, f := range faults {
		s := newShop(t)
		f.do(s)
		r, code := s.check(s.url+f.at, "--sample", "4")
		want := strings.Fields(f.want)
		slices.Sort(want)
		if got := names(r); !slices.Equal(got, want) {
			t.Errorf("%s: found %v, want %v", f.at, got, want)
		}
		errors := 0
		for _, g := range r.Findings {
			found[g.Rule] = true
			if g.Severity == check.Error {
				errors++
			}
			if all := g.Message + g.Cost + g.Fix; strings.Contains(all, "{") || g.Message == "" || g.Cost == "" || g.Fix == "" || g.Count < 1 || g.Of > 0 && g.Count > g.Of {
				t.Errorf("%+v", g)
			}
		}
		if (code == 1) != (errors > 0) {
			t.Errorf("%s: exit code %d with %d errors", f.want, code, errors)
		}
	}
	for _, rule := range check.Rules() {
		if !found[rule] {
			t.Errorf("no test case for rule %s", rule)
		}
	}
}

// For a page that is no list, check names what to check instead: robots.txt, and the lists that it names.
func TestCheckOfFrontPageNamesLists(t *testing.T) {
	s := newShop(t)
	s.add("/", "text/html", "<!doctype html><title>Shop</title>")
	r, code := s.check(s.url + "/")
	fix := s.find(r, "html-instead").Fix
	for _, list := range []string{"/robots.txt", "/sitemap.xml"} {
		if code != 1 || !strings.Contains(fix, s.url+list) {
			t.Errorf("exit code %d; no %s%s in %q", code, s.url, list, fix)
		}
	}
}

func TestCheckReportsCosts(t *testing.T) {
	s := newShop(t)
	s.sameDate("2026-11-20T12:00:00Z")
	s.all(func(p *shelf) { p.stale, p.modified = true, when(0) })
	var out, errs strings.Builder
	code := command.Main(t.Context(), checkCommand, []string{s.url + "/sitemap.xml", "--rate", "1000"}, nil, &out, &errs)
	for _, want := range []string{"error    lastmod-build-time", "24 of 24 are 2026-11-20T12:00:00Z, but the web server dates 20 of 20 fetched pages earlier, such as http://", "fetches 24 unchanged pages again after each build",
		"warning  page-no-304", "20 of 20 fetched", "1 error, 1 warning, 0 notes."} {
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if code != 1 || errs.Len() > 0 {
		t.Errorf("exit code %d, %s", code, errs.String())
	}
	if strings.Index(out.String(), "lastmod-build-time") > strings.Index(out.String(), "page-no-304") {
		t.Error("errors are not listed before warnings")
	}
}

// A site that was just copied has one date for all pages. That is no error: with the first change it is no
// finding at all.
func TestCheckOfAFirstDescription(t *testing.T) {
	root, sitemap := t.TempDir(), filepath.Join(t.TempDir(), "sitemap.xml")
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sitemap.xml" {
			http.ServeFile(w, r, sitemap)
			return
		}
		http.FileServer(http.Dir(root)).ServeHTTP(w, r)
	}))
	defer srv.Close()
	copied := time.Now().Add(-time.Hour)
	write := func(name, text string, at time.Time) {
		t.Helper()
		path := filepath.Join(root, name)
		must.OK(t, errors.Join(os.WriteFile(path, []byte(text), 0o644), os.Chtimes(path, at, at)))
	}
	write("robots.txt", "User-agent: *\nDisallow:\nSitemap: "+srv.URL+"/sitemap.xml\n", copied)
	for i := range 12 {
		write(fmt.Sprintf("%d.html", i), fmt.Sprintf("<!doctype html><title>Page %d</title>", i), copied)
	}
	s := &shop{T: t}
	state := filepath.Join(t.TempDir(), "state")
	for _, want := range []string{"lastmod-alike", ""} {
		ran(t, rdfgen, 0, "--docroot", root, "--base", srv.URL+"/", "--sitemap", sitemap, "--state", state, "--out", filepath.Join(t.TempDir(), "robots.rdf"))
		r, code := s.check(srv.URL + "/sitemap.xml")
		if got := strings.Join(names(r), " "); code != 0 || got != want || r.Entries != 12 {
			t.Errorf("exit code %d, found %q in %d entries, want %q", code, got, r.Entries, want)
		}
		write("3.html", "<!doctype html><title>Another page</title>", copied.Add(50*time.Minute))
	}
}

func TestCheckLocalFile(t *testing.T) {
	s := newShop(t)
	dir := t.TempDir()
	write := func(name string, body []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(path, body, 0o644))
		return path
	}
	// Nothing is fetched, and the file name does not give the format.
	file := write("list.txt", gzipped(s.sitemap(s.urls()...)))
	if r, code := s.check(file, "--strict"); code != 0 || r.Kind != "sitemap" || r.Entries != shopPages || r.Sampled != 0 || len(s.asked) > 0 {
		t.Errorf("exit code %d, %+v, requests %q", code, r, s.asked)
	}
	if r, code := s.check(file, "--strict", "--fetch", "--sample", "3"); code != 0 || r.Sampled != 3 || len(s.asked) != 8 {
		t.Errorf("exit code %d, %+v, requests %q", code, r, s.asked)
	}
	// The parts of a sitemap index are files beside it.
	write("a.xml", []byte(s.sitemap(s.urls()[:12]...)))
	index := write("index.xml", []byte(s.index("/parts/a.xml", "/parts/b.xml")))
	if r, _ := s.check(index); r.Entries != 12 || s.find(r, "parts-unread").Count != 1 {
		t.Errorf("%+v", r)
	}
	write("b.xml", []byte(s.sitemap(append(s.urls()[12:], "http://a.example/")...)))
	if r, code := s.check(index); r.Entries != 25 || s.find(r, "foreign-url").Count != 1 || code != 1 {
		t.Errorf("%+v", r)
	}
	// With --strict, warnings are failures.
	file = write("dup.xml", []byte(s.sitemap(append(s.urls(), s.urls()[0])...)))
	if r, code := s.check(file); code != 0 || s.find(r, "duplicate").Count != 1 {
		t.Errorf("exit code %d, %+v", code, r)
	}
	if _, code := s.check(file, "--strict"); code != 1 {
		t.Errorf("exit code %d", code)
	}
}

func TestCheckMisuse(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
	}{
		{nil, 2}, {[]string{"a", "b"}, 2}, {[]string{"--sample", "-1", "a"}, 2}, {[]string{"--rate", "0", "a"}, 2}, {[]string{"--rate", "NaN", "a"}, 2},
		{[]string{filepath.Join(t.TempDir(), "none")}, 1}, {[]string{t.TempDir()}, 1}, {[]string{"http://user@host/"}, 1},
	} {
		var out, errs strings.Builder
		if code := command.Main(t.Context(), checkCommand, c.args, nil, &out, &errs); code != c.code || errs.Len() == 0 || out.Len() > 0 {
			t.Errorf("check %q: exit code %d, %q %q", c.args, code, out.String(), errs.String())
		}
	}
}
