package html_test

import (
	"crypto/sha256"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/parleyweb/parley/internal/html"
)

// What reading a page costs, beside the hash that every page pays anyway. The
// pages are those of -pages.
func BenchmarkRead(b *testing.B) {
	var pagesRead [][]byte
	size := 0
	err := filepath.WalkDir(*pages, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".html" || size > 16<<20 {
			return err
		}
		page, err := os.ReadFile(path)
		pagesRead, size = append(pagesRead, page), size+len(page)
		return err
	})
	if err != nil || size == 0 {
		b.Skipf("no pages: %v", err)
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
