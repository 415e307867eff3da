package order_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/graph"
	"github.com/parleyweb/parley/internal/sim/order"
)

// Castillo 2004 finds larger-sites-first better than breadth-first. On generated webs of many kinds that is so if the crawl knows the start
// pages of all hosts and waits between two pages of a site, both as the thesis's did: then it does not fetch one large site after the other.
// Without the wait it is so only where, besides, many links lead to other hosts, the large hosts get more than their share of them, and a few
// hosts do not have nearly all pages. With -v it prints all areas.
func TestWhenLargerSitesFirstWins(t *testing.T) {
	if testing.Short() {
		t.Skip("a long simulation")
	}
	var table strings.Builder
	table.WriteString("exponent of site sizes, links to other hosts, lean of these to large hosts, start pages: breadth-first, larger-sites-first; with a wait\n")
	for _, m := range []graph.Model{
		{Sites: 1.5, Away: .4, Lean: 2}, {Sites: 1.77, Away: .1, Lean: -1}, {Sites: 1.77, Away: .1, Lean: 0}, {Sites: 1.77, Away: .1, Lean: 2},
		{Sites: 1.77, Away: .4, Lean: -1}, {Sites: 1.77, Away: .4, Lean: 0}, {Sites: 1.77, Away: .4, Lean: 2}, {Sites: 2.2, Away: .1, Lean: 2},
		{Sites: 2.2, Away: .4, Lean: 0}, {Sites: 2.2, Away: .4, Lean: 2},
	} {
		m.Pages, m.Hosts, m.Seed = 10_000, 300, 1
		g := graph.Generate(m)
		for _, starts := range []string{"all", "a tenth"} {
			w := started(g, starts)
			area := func(name string, rest int) float64 {
				return w.Score(crawlOf(t, order.Run{Web: w, Order: name, Rest: rest})).Area
			}
			breadth, larger := area("breadth-first", 0), area("larger-sites-first", 0)
			mark := ""
			if larger > breadth {
				mark = " wins"
			}
			if want := m.Away == .4 && m.Lean == 2 && m.Sites > 1.5 && starts == "all"; want != (larger > breadth) {
				t.Errorf("%+v, %s: larger-sites-first wins: %v", m, starts, !want)
			}
			waits := ""
			if starts == "all" {
				breadth, larger := area("breadth-first", 15), area("larger-sites-first", 15)
				if waits = fmt.Sprintf("; %.4f %.4f", breadth, larger); larger <= breadth {
					t.Errorf("%+v: with a wait, areas of %.4f by breadth-first and %.4f by larger-sites-first", m, breadth, larger)
				}
			}
			fmt.Fprintf(&table, "%.2f %.1f %4.1f %-7s %6d pages: %.4f %.4f%s%s\n", m.Sites, m.Away, m.Lean, starts, w.Graph.Len(), breadth, larger, waits, mark)
		}
	}
	t.Log(table.String())
}

// started returns the part of a generated graph that is reached from the start pages of some of the hosts. A host's start page is its
// first, also in a part of the graph.
func started(g *graph.Graph, which string) *order.Web {
	chosen := map[string]bool{}
	for h, name := range g.Hosts {
		chosen[name] = which == "all" || h%10 == 0
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
