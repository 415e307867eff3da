package order_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/parleyweb/parley/internal/graph"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/sim/order"
)

// BenchmarkCrawl crawls the Debian documentation by each order.
func BenchmarkCrawl(b *testing.B) {
	g, err := graph.Open(machine.Data(b, "graphs", "debian-docs-web.adj.zst"))
	if err != nil {
		b.Fatal(err)
	}
	crawlAll(b, order.NewWeb(g), every())
}

// BenchmarkMillion crawls a generated web of a million pages on 50,000 hosts.
func BenchmarkMillion(b *testing.B) {
	g := graph.Generate(graph.Model{Pages: 1_000_000, Hosts: 50_000, Seed: 1})
	crawlAll(b, order.NewWeb(g), []string{"breadth-first", "larger-sites-first", "opic", "backlink-count", "batch-pagerank"})
}

func crawlAll(b *testing.B, w *order.Web, names []string) {
	w.History = w.DrawHistory(order.PaperOldPages, order.PaperOldRank, 1)
	for _, name := range names {
		b.Run(fmt.Sprintf("%s/pages=%d", name, w.Graph.Len()), func(b *testing.B) {
			for b.Loop() {
				if _, err := (order.Run{Web: w, Order: name, Seed: 1}).Pages(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.Sys)/1e6, "MB-of-process")
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/crawl")
		})
	}
}
