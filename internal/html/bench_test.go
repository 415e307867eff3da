package html_test

import (
	"crypto/sha256"
	"testing"

	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/internal/machine"
)

// BenchmarkRead measures reading a page, beside the hash that every page needs anyway. The
// pages are those of git-doc.
func BenchmarkRead(b *testing.B) {
	var pagesRead [][]byte
	size := 0
	for _, page := range machine.Pages(b, machine.GitDoc(b)) {
		if size > 16<<20 {
			break
		}
		pagesRead, size = append(pagesRead, page), size+len(page)
	}
	bare, full, text := new(html.Scanner), &html.Scanner{Contents: true}, &html.Scanner{MainText: true}
	for _, c := range []struct {
		name string
		do   func([]byte)
	}{
		{"sha256", func(p []byte) { sha256.Sum256(p) }},
		{"head", func(p []byte) { html.Read("https://example.org/", p, html.Options{}) }},
		{"text", func(p []byte) { html.Read("https://example.org/", p, html.Options{Text: true}) }},
		{"links", func(p []byte) { html.Read("https://example.org/", p, html.Options{Links: true}) }},
		{"text+links", func(p []byte) { html.Read("https://example.org/", p, html.Options{Text: true, Links: true}) }},
		{"tokens text+links", func(p []byte) { readTokens("https://example.org/", p, html.Options{Text: true, Links: true}, true) }},
		{"scan", func(p []byte) { bare.Scan(p) }},
		{"scan+content", func(p []byte) { full.Scan(p) }},
		{"scan+text", func(p []byte) { text.Scan(p) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				for _, p := range pagesRead {
					c.do(p)
				}
			}
		})
	}
}
