package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/parleyweb/parley/bench/internal/cost"
	"github.com/parleyweb/parley/client/crawl/gather"
	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/internal/urlref"
	xhtml "golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// A contender reads a page, and returns how many references or links it found.
type contender struct {
	name string
	read func(url string, page []byte) int
}

func contenders() []contender {
	tags := &html.Scanner{}
	content := &html.Scanner{Contents: true}
	links, text := &gather.Gatherer{}, &gather.Gatherer{Text: true}
	var page gather.Page
	header := http.Header{"Content-Type": {"text/html"}}
	var base urlref.Base
	var buf []byte
	return []contender{
		{"x/net tokenizer, link tags only", func(_ string, b []byte) int { return len(tokenizer(b)) }},
		{"the same, each resolved by net/url", func(u string, b []byte) int {
			from, err := url.Parse(u)
			if err != nil {
				return 0
			}
			n := 0
			for ref := range tokenizer(b) {
				if _, err := from.Parse(ref); err == nil {
					n++
				}
			}
			return n
		}},
		{"html.Read, links", func(u string, b []byte) int { return len(html.Read(u, b, html.Options{Links: true}).Links) }},
		{"scanner, references", func(_ string, b []byte) int { tags.Scan(b); return len(tags.Refs) }},
		{"the same, each resolved by urlref", func(u string, b []byte) int {
			tags.Scan(b)
			base.Reset(u)
			n := 0
			for _, r := range tags.Refs {
				var ok bool
				if buf, ok = base.Resolve(buf[:0], r.URL); ok {
					n++
				}
			}
			return n
		}},
		{"scanner, references and content", func(_ string, b []byte) int { content.Scan(b); return len(content.Refs) }},
		{"sha-256 of the body", func(_ string, b []byte) int { sha256.Sum256(b); return 0 }},
		{"gatherer: all of these", func(u string, b []byte) int { _ = links.Read(&page, u, header, b); return len(page.Links) }},
		{"gatherer, with the main text", func(u string, b []byte) int { _ = text.Read(&page, u, header, b); return len(page.Links) }},
	}
}

// tokenizer returns what a page refers to, as the reference finds it: each
// value of href or src of the tags that lead to pages, without its fragment.
func tokenizer(page []byte) map[string]bool {
	refs := map[string]bool{}
	for z := xhtml.NewTokenizer(bytes.NewReader(page)); ; {
		switch z.Next() {
		case xhtml.ErrorToken:
			return refs
		case xhtml.StartTagToken, xhtml.SelfClosingTagToken:
			name, more := z.TagName()
			want := "href"
			switch atom.Lookup(name) {
			case atom.A, atom.Area:
			case atom.Iframe, atom.Frame:
				want = "src"
			default:
				more = false
			}
			for more {
				var key, val []byte
				if key, val, more = z.TagAttr(); string(key) == want {
					val, _, _ = bytes.Cut(bytes.TrimSpace(val), []byte{'#'})
					if len(val) > 0 {
						refs[string(val)] = true
					}
				}
			}
		}
	}
}

// speed prints what reading the pages below a directory costs.
func speed(dir string, limit, rounds int, out io.Writer) error {
	var pages [][]byte
	var urls []string
	size := 0
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Ext(name) != ".html" {
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if size+len(b) > limit {
			return fs.SkipAll
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		u := url.URL{Scheme: "https", Host: "docs.example.org", Path: "/" + filepath.ToSlash(rel)}
		pages, urls, size = append(pages, b), append(urls, u.String()), size+len(b)
		return nil
	})
	if err != nil {
		return err
	}
	if len(pages) == 0 {
		return fmt.Errorf("%s has no .html files", dir)
	}
	all := contenders()
	took := make([][]time.Duration, len(all))
	allocated, found := make([]uint64, len(all)), make([]int, len(all))
	for range rounds {
		for i, c := range all {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			begin := cost.Processor()
			n := 0
			for j, b := range pages {
				n += c.read(urls[j], b)
			}
			took[i] = append(took[i], cost.Processor()-begin)
			runtime.ReadMemStats(&after)
			allocated[i], found[i] = after.TotalAlloc-before.TotalAlloc, n
		}
	}
	fmt.Fprintf(out, "%s: %d pages of %d KB, %d rounds, %s\n%-36s %8s %8s %8s %10s %10s\n", dir, len(pages), size/len(pages)>>10, rounds, runtime.Version(),
		"", "MB/s", "ratio", "us/page", "B/page", "refs/page")
	var first time.Duration
	for i, c := range all {
		slices.Sort(took[i])
		t := max(took[i][rounds/2], 1)
		if i == 0 {
			first = t
		}
		n := len(pages)
		fmt.Fprintf(out, "%-36s %8.0f %8.2f %8.1f %10d %10.1f\n", c.name, float64(size)/1e6/t.Seconds(), first.Seconds()/t.Seconds(), t.Seconds()*1e6/float64(n),
			allocated[i]/uint64(n), float64(found[i])/float64(n))
	}
	return nil
}
