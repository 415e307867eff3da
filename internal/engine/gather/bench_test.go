package gather_test

import (
	"testing"

	"github.com/parleyweb/parley/internal/engine/gather"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
)

// BenchmarkRead measures reading one page.
func BenchmarkRead(b *testing.B) {
	var pages [][]byte
	size := 0
	for _, page := range machine.Pages(b, machine.GitDoc(b)) {
		if len(pages) == 300 {
			break
		}
		pages, size = append(pages, page), size+len(page)
	}
	for _, c := range []struct {
		name string
		g    gather.Gatherer
	}{{"links", gather.Gatherer{}}, {"text", gather.Gatherer{Text: true}}, {"sketch", gather.Gatherer{Sketch: true}}, {"pairs", gather.Gatherer{Pairs: true}}, {"references", gather.Gatherer{References: true}}} {
		b.Run(c.name, func(b *testing.B) {
			var p gather.Page
			b.SetBytes(int64(size / len(pages)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				must.OK(b, c.g.Read(&p, at, asHTML, pages[i%len(pages)]))
			}
		})
	}
}
