package sim_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/parleyweb/parley/internal/sim"
)

// BenchmarkFeeds prints the tables of feeds: with -benchtime 1x, 460 feeds of
// two seeds, and the real ones at polls as frequent, learned in 28 days and scored in the 28 after them. Metrics:
// delay and its bounds in minutes, their ratio, polls of each feed a day, items pending in the worst feed and in all, share lost.
func BenchmarkFeeds(b *testing.B) {
	for _, c := range []struct {
		name string
		seed uint64
	}{{"feeds", 1}, {"feeds", 2}, {"feeds-weekly", 1}, {"feeds-real", 0}} {
		data := os.Getenv("PARLEY_DATA")
		if c.name == "feeds-real" && data == "" {
			continue
		}
		w, err := sim.NamedFeeds(c.name, filepath.Join(data, "feeds"), c.seed)
		if err != nil {
			b.Fatal(err)
		}
		w = w.Cut(0, 56)
		for _, polls := range []float64{5, 15, 45, 60.7} {
			for _, p := range sim.FeedPolicies() {
				real := c.name == "feeds-real"
				if p.Free && polls != 5 || real && (p.Known || p.Even) {
					continue
				}
				b.Run(fmt.Sprintf("%s/%d/%v/%s", c.name, c.seed, polls, p.Name), func(b *testing.B) {
					for b.Loop() {
						r, err := sim.SimulateFeeds(context.Background(), p.Run(w, 28, polls*float64(len(w.Feeds))/460))
						if err != nil {
							b.Fatal(err)
						}
						b.ReportMetric(0, "ns/op")
						b.ReportMetric(r.Delay, "1_delay")
						b.ReportMetric(r.Bound, "2_bound")
						b.ReportMetric(r.Delay/r.Bound, "3_ratio")
						if real {
							b.ReportMetric(r.Foreseen, "4_foreseen")
						}
						b.ReportMetric(r.PerDay, "5_polls")
						b.ReportMetric(r.Pending, "6_worst")
						b.ReportMetric(r.Total, "7_all")
						b.ReportMetric(r.Lost, "8_lost")
					}
				})
			}
		}
	}
}
