package order_test

import (
	"math"
	"testing"

	"github.com/parleyweb/parley/internal/graph"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/sim/order"
)

// The figures of the Debian documentation, a web of 33 sites. They are fixed: a change of them is a change of the
// order, to be explained.
func TestRecordedWeb(t *testing.T) {
	if testing.Short() {
		t.Skip("a long simulation")
	}
	g, err := graph.Open(machine.Data(t, "graphs", "debian-docs-web.adj.zst"))
	if err != nil {
		t.Fatal(err)
	}
	w := order.NewWeb(g)
	if n, links := w.Graph.Len(), len(w.Graph.To); n != 91_478 || links != 3_445_570 || len(w.Starts) != 33 {
		t.Fatalf("%d pages, %d links, %d start pages", n, links, len(w.Starts))
	}
	for _, c := range []struct {
		name      string
		area, tau float64
	}{
		{order.Sorted, .8518, 1}, {order.Omniscient, .7369, .661}, {"opic", .7508, .581}, {"breadth-first", .6669, .408},
		{"larger-sites-first", .5283, -.092}, {"backlink-count", .5389, .050},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := w.Score(crawlOf(t, order.Run{Web: w, Order: c.name}))
			t.Logf("area %.4f, tau %.3f, first tenth %.3f, stop %.2f %.3f", s.Area, s.Tau, s.Recall, s.StopPages, s.StopRank)
			if math.Abs(s.Area-c.area) > .001 || math.Abs(s.Tau-c.tau) > .005 {
				t.Errorf("area %.4f, want %.4f; tau %.3f, want %.3f", s.Area, c.area, s.Tau, c.tau)
			}
		})
	}
}
