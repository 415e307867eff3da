package order_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/graph"
	"github.com/parleyweb/parley/internal/sim/order"
)

// Castillo 2004 finds larger-sites-first better than breadth-first. On generated webs of many kinds that is so only where all of this holds: the
// crawl knows the start pages of all hosts, as the thesis's did; many links lead to other hosts; the large hosts get more than their share of
// them; and a few hosts do not have nearly all pages. With -v it prints all areas.
func TestWhenLargerSitesFirstWins(t *testing.T) {
	if testing.Short() {
		t.Skip("a long simulation")
	}
	var table strings.Builder
	table.WriteString("exponent of site sizes, links to other hosts, lean of these to large hosts, start pages: breadth-first, larger-sites-first\n")
	for _, m := range []graph.Model{
		{Sites: 1.5, Away: .4, Lean: 2}, {Sites: 1.77, Away: .1, Lean: -1}, {Sites: 1.77, Away: .1, Lean: 0}, {Sites: 1.77, Away: .1, Lean: 2},
		{Sites: 1.77, Away: .4, Lean: -1}, {Sites: 1.77, Away: .4, Lean: 0}, {Sites: 1.77, Away: .4, Lean: 2}, {Sites: 2.2, Away: .1, Lean: 2},
		{Sites: 2.2, Away: .4, Lean: 0}, {Sites: 2.2, Away: .4, Lean: 2},
	} {
		m.Pages, m.Hosts, m.Seed = 10_000, 300, 1
		g := graph.Generate(m)
		for _, starts := range []string{"all", "a tenth", "largest"} {
			w := started(g, starts)
			area := func(name string) float64 { return w.Score(crawlOf(t, order.Run{Web: w, Order: name})).Area }
			breadth, larger := area("breadth-first"), area("larger-sites-first")
			mark := ""
			if larger > breadth {
				mark = " wins"
			}
			if want := m.Away == .4 && m.Lean == 2 && m.Sites > 1.5 && starts == "all"; want != (larger > breadth) {
				t.Errorf("%+v, %s: larger-sites-first wins: %v", m, starts, !want)
			}
			fmt.Fprintf(&table, "%.2f %.1f %4.1f %-8s %6d pages: %.4f %.4f%s\n", m.Sites, m.Away, m.Lean, starts, w.Graph.Len(), breadth, larger, mark)
		}
	}
	t.Log(table.String())
}

// started returns the part of a generated graph that is reached from the start pages of some of the hosts. A host's start page is its
// first, also in a part of the graph.
func started(g *graph.Graph, which string) *order.Web {
	size := make([]int, len(g.Hosts))
	for _, h := range g.Host {
		size[h]++
	}
	chosen := map[string]bool{}
	for h, name := range g.Hosts {
		chosen[name] = which == "all" || which == "a tenth" && h%10 == 0 || which == "largest" && size[h] == slices.Max(size)
	}
	of := func(g *graph.Graph) (starts []uint32) {
		for _, p := range g.Starts() {
			if chosen[g.Hosts[g.Host[p]]] {
				starts = append(starts, p)
			}
		}
		return starts
	}
	w := &order.Web{Graph: g.Reachable(of(g))}
	w.Starts, w.Ranks = of(w.Graph), w.Graph.Pagerank(graph.Pagerank{})
	return w
}
