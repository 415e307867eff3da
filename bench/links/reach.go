package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/parleyweb/parley/client/crawl/gather"
	"github.com/parleyweb/parley/protocol"
)

// reach follows links through a directory, from a file in it, in three ways.
func reach(start string, out io.Writer) error {
	dir := filepath.Dir(start)
	const base = "http://h.example/"
	type page struct {
		links                  []string
		body, parsed, resolved protocol.Digest
	}
	read := map[string]*page{} // by URL; nil: no page
	var g gather.Gatherer
	var p gather.Page
	header := http.Header{"Content-Type": {"text/html"}}
	visit := func(u string) *page {
		if got, ok := read[u]; ok {
			return got
		}
		read[u] = nil
		parsed, err := url.Parse(u)
		if err != nil {
			return nil
		}
		name := filepath.Join(dir, filepath.FromSlash(parsed.Path))
		if strings.HasSuffix(parsed.Path, "/") {
			name = filepath.Join(name, "index.html")
		}
		if filepath.Ext(name) != ".html" {
			return nil
		}
		body, err := os.ReadFile(name)
		if err != nil {
			return nil
		}
		if err := g.Read(&p, u, header, body); err != nil {
			return nil
		}
		got := &page{body: p.Body, parsed: p.Parsed}
		var all strings.Builder
		for _, l := range p.Links {
			if l.Kind <= gather.Alternate && strings.HasPrefix(l.URL, base) {
				got.links = append(got.links, l.URL)
			}
			fmt.Fprintln(&all, l.URL)
		}
		got.resolved = protocol.Sum(append(p.Parsed[:], all.String()...))
		read[u] = got
		return got
	}
	walk := func(of func(*page) protocol.Digest) (pages, duplicates int) {
		seen, held := map[string]bool{}, map[protocol.Digest]bool{}
		queue := []string{base + filepath.Base(start)}
		seen[queue[0]] = true
		for len(queue) > 0 {
			p := visit(queue[0])
			queue = queue[1:]
			if p == nil {
				continue
			}
			pages++
			if of != nil {
				if d := of(p); held[d] {
					duplicates++
					continue
				} else {
					held[d] = true
				}
			}
			for _, l := range p.links {
				if !seen[l] {
					seen[l] = true
					queue = append(queue, l)
				}
			}
		}
		return pages, duplicates
	}
	all, _ := walk(nil)
	fmt.Fprintf(out, "%s: %d pages reached\n", start, all)
	for _, c := range []struct {
		what string
		of   func(*page) protocol.Digest
	}{
		{"the same bytes", func(p *page) protocol.Digest { return p.body }},
		{"the same content after parsing", func(p *page) protocol.Digest { return p.parsed }},
		{"the same content, leading to the same pages", func(p *page) protocol.Digest { return p.resolved }},
	} {
		n, d := walk(c.of)
		fmt.Fprintf(out, "  %d duplicates and %d pages lost, if the links of pages are ignored that have %s as another\n", d, all-n, c.what)
	}
	return nil
}
