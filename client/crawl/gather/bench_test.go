package gather_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/parleyweb/parley/client/crawl/gather"
)

// What a page costs to read; bench/links compares it with others.
func BenchmarkRead(b *testing.B) {
	var pages [][]byte
	size := 0
	_ = filepath.WalkDir(os.Getenv("PARLEY_GIT_DOC"), func(name string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(name) == ".html" && len(pages) < 300 {
			page, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			pages, size = append(pages, page), size+len(page)
		}
		return err
	})
	if len(pages) == 0 {
		b.Skip("no real pages")
	}
	for _, c := range []struct {
		name string
		g    gather.Gatherer
	}{{"links", gather.Gatherer{}}, {"text", gather.Gatherer{Text: true}}, {"pairs", gather.Gatherer{Pairs: true}}} {
		b.Run(c.name, func(b *testing.B) {
			var p gather.Page
			b.SetBytes(int64(size / len(pages)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := c.g.Read(&p, at, asHTML, pages[i%len(pages)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
