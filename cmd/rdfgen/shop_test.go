package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/check"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/protocol"
)

// A shop is a web site without faults until a test switches one on.
type shop struct {
	*testing.T
	url   string
	pages map[string]*shelf // by path

	mu    sync.Mutex
	asked []string // paths, in order
}

// A shelf is the resource at a path.
type shelf struct {
	body, kind          string
	status              int
	to                  string // it redirects there
	header              map[string]string
	modified            time.Time
	dead                bool // the connection breaks
	plain, blind, stale bool // without compression; without validators; without 304
}

func newShop(t *testing.T) *shop {
	s := &shop{T: t, pages: map[string]*shelf{}}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	s.url = srv.URL
	for i := range shopPages {
		s.add(fmt.Sprintf("/p/%02d.html", i), "text/html", fmt.Sprintf("<!DOCTYPE html><title>Page %d</title><p>%s", i, strings.Repeat("some words ", 300)))
	}
	s.add("/robots.txt", "text/plain", "User-agent: *\nDisallow: /private/\n\nSitemap: "+s.url+"/sitemap.xml\n")
	s.add("/sitemap.xml", "application/xml", s.sitemap(s.urls()...))
	s.add("/feed.xml", "application/rss+xml", s.feed())
	s.add("/atom.xml", "application/atom+xml", s.atom())
	s.add("/robots.rdf", "application/rdf+xml", s.manifest())
	s.add("/parts/a.xml", "application/xml", s.sitemap(s.urls()[:12]...))
	s.add("/parts/b.xml", "application/xml", s.sitemap(s.urls()[12:]...))
	s.add("/index.xml", "application/xml", s.index("/parts/a.xml", "/parts/b.xml"))
	return s
}

func (s *shop) add(path, kind, body string) *shelf {
	p := &shelf{body: body, kind: kind, modified: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	s.pages[path] = p
	return p
}

// change replaces text in the resource at a path.
func (s *shop) change(path, old, new string) *shelf {
	s.Helper()
	p := s.pages[path]
	if !strings.Contains(p.body, old) {
		s.Fatalf("%s has no %q", path, old)
	}
	p.body = strings.Replace(p.body, old, new, 1)
	return p
}

// all applies f to every page.
func (s *shop) all(f func(*shelf)) {
	for path, p := range s.pages {
		if strings.HasPrefix(path, "/p/") {
			f(p)
		}
	}
}

// sameDate gives all pages of the sitemap one date.
func (s *shop) sameDate(date string) {
	for i := range shopPages {
		s.change("/sitemap.xml", when(i).Format(time.RFC3339), date)
	}
}

func (s *shop) urls() (list []string) {
	for i := range shopPages {
		list = append(list, fmt.Sprintf("%s/p/%02d.html", s.url, i))
	}
	return list
}

func when(i int) time.Time {
	return time.Date(2026, 1, 1+i*7, i%24, i*5%60, i, 0, time.UTC)
}

func (s *shop) sitemap(urls ...string) string {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n" + `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">` + "\n")
	for i, u := range urls {
		fmt.Fprintf(&b, "<url><loc>%s</loc><lastmod>%s</lastmod></url>\n", u, when(i).Format(time.RFC3339))
	}
	return b.String() + "</urlset>\n"
}

func (s *shop) index(paths ...string) string {
	b := `<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`
	for _, p := range paths {
		b += "<sitemap><loc>" + s.url + p + "</loc></sitemap>"
	}
	return b + "</sitemapindex>"
}

func (s *shop) feed() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel><title>Shop</title><link>%[1]s/</link><description>News</description>`+
		`<atom:link rel="self" href="%[1]s/feed.xml"/>`+"\n", s.url)
	for i, u := range s.urls() {
		fmt.Fprintf(&b, "<item><title>%d</title><link>%s</link><pubDate>%s</pubDate></item>\n", i, u, when(i).Format(time.RFC1123Z))
	}
	return b.String() + "</channel></rss>\n"
}

func (s *shop) atom() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<feed xmlns="http://www.w3.org/2005/Atom"><title>Shop</title><id>urn:shop</id><updated>%s</updated><author><name>Shop</name></author>`+"\n", when(0).Format(time.RFC3339))
	for i, u := range s.urls() {
		fmt.Fprintf(&b, `<entry><title>%[1]d</title><id>urn:shop:%[1]d</id><link href="%s"/><updated>%s</updated></entry>`+"\n", i, u, when(i).Format(time.RFC3339))
	}
	return b.String() + "</feed>\n"
}

func (s *shop) manifest() string {
	var seq, items strings.Builder
	for i, u := range s.urls() {
		date := when(i).Format(time.RFC3339)
		fmt.Fprintf(&seq, `<rdf:li rdf:resource="%s"/>`, u)
		fmt.Fprintf(&items, "<item rdf:about=\"%[1]s\">\n<title>%[2]d</title>\n<link>%[1]s</link>\n<dc:date>%[3]s</dc:date>\n<dcterms:modified>%[3]s</dcterms:modified>\n</item>\n", u, i, date)
	}
	return fmt.Sprintf(`<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"`+
		` xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/" xmlns:p="urn:parley:1#">
<channel rdf:about="%[1]s/robots.rdf"><title>Shop</title><link>%[1]s/</link><description>All</description>
<p:items>%[2]d</p:items><p:complete>true</p:complete>
<items><rdf:Seq>%[3]s</rdf:Seq></items></channel>
%[4]s</rdf:RDF>
`, s.url, shopPages, seq.String(), items.String())
}

// divide makes robots.rdf a manifest in parts: one with all pages, and so many more with a page each, which are not there.
func (s *shop) divide(more int) {
	const complete = "<p:complete>true</p:complete>"
	part := strings.Replace(s.manifest(), complete, "<p:complete>false</p:complete>", 1)
	s.add("/parts/0.rdf", "application/rdf+xml", part)
	whole := fmt.Sprintf(`<p:complete>false</p:complete><p:whole rdf:parseType="Resource"><p:epoch>e</p:epoch><p:seq>1</p:seq><p:items>%d</p:items><p:parts><rdf:Seq>`, shopPages+more)
	for i := range 1 + more {
		items, sum := 1, protocol.Sum(nil)
		if i == 0 {
			items, sum = shopPages, protocol.Sum([]byte(part))
		}
		whole += fmt.Sprintf(`<rdf:li><p:Part rdf:about="%s/parts/%d.rdf"><p:seq>1</p:seq><p:items>%d</p:items><dcterms:extent>%d</dcterms:extent><p:digest>%s</p:digest></p:Part></rdf:li>`, s.url, i, items, len(part), sum)
	}
	s.change("/robots.rdf", complete, whole+"</rdf:Seq></p:parts></p:whole>")
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.URL.Path)
	s.mu.Unlock()
	p := cmp.Or(s.pages[r.URL.Path], s.pages["*"])
	if p == nil {
		http.NotFound(w, r)
		return
	}
	if p.dead {
		panic(http.ErrAbortHandler)
	}
	h := w.Header()
	for k, v := range p.header {
		h.Set(k, v)
	}
	if p.to != "" {
		h.Set("Location", p.to)
		w.WriteHeader(http.StatusMovedPermanently)
		return
	}
	if p.kind != "" {
		h.Set("Content-Type", p.kind)
	} else {
		h["Content-Type"] = nil
	}
	if !p.blind {
		sum := fnv.New64()
		sum.Write([]byte(p.body))
		tag := fmt.Sprintf(`"%x"`, sum.Sum64())
		h.Set("Etag", tag)
		h.Set("Last-Modified", p.modified.Format(http.TimeFormat))
		if !p.stale && r.Header.Get("If-None-Match") == tag && r.Header.Get("If-Modified-Since") == p.modified.Format(http.TimeFormat) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	body := []byte(p.body)
	if !p.plain && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = gzipped(p.body)
	}
	if p.status != 0 {
		w.WriteHeader(p.status)
	}
	w.Write(body)
}

func gzipped(s string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(s))
	z.Close()
	return b.Bytes()
}

// check runs rdfgen check and returns its report and exit code.
func (s *shop) check(target string, flags ...string) (check.Report, int) {
	s.Helper()
	var out, errs strings.Builder
	args := append([]string{target, "--json", "--rate", "1000"}, flags...)
	code := command.Main(s.Context(), checkCommand, args, nil, &out, &errs)
	var r check.Report
	if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
		s.Fatalf("check %s: exit code %d: %s%s", target, code, out.String(), errs.String())
	}
	return r, code
}

func (s *shop) find(r check.Report, rule string) check.Finding {
	s.Helper()
	for _, f := range r.Findings {
		if f.Rule == rule {
			return f
		}
	}
	s.Errorf("no %s among %v", rule, names(r))
	return check.Finding{}
}
