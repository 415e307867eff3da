package graph_test

import (
	"testing"

	"github.com/parleyweb/parley/internal/graph"
)

// BenchmarkMillion computes what follows from the links of a generated web of a million pages, 10 million links and 50,000 sites:
//
//	go test -run xxx -bench Million -benchtime 1x ./internal/graph
func BenchmarkMillion(b *testing.B) {
	g := graph.Generate(graph.Model{Pages: 1_000_000, Hosts: 50_000, Seed: 1})
	s := g.Sites()
	for _, c := range []struct {
		name string
		f    func()
	}{
		{"pagerank", func() { g.Pagerank(graph.Pagerank{}) }},
		{"weighted", func() { g.Pagerank(graph.Pagerank{Weight: s.Weight}) }},
		{"hits", func() { graph.HITS{}.Scores(g.Len(), g.All()) }},
		{"hits-weighted", func() { graph.HITS{Weight: s.Weight}.Scores(g.Len(), g.All()) }},
		{"sites", func() { g.Sites() }},
		{"siterank", func() { s.Pagerank(graph.Pagerank{}) }},
		{"bow-tie-of-pages", func() { g.BowTie() }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				c.f()
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s")
		})
	}
}
