package graph_test

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	gonum "gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/iterator"
	"gonum.org/v1/gonum/graph/network"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/graph"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
)

// recorded reads a recorded graph.
func recorded(t *testing.T, name string) *graph.Graph {
	t.Helper()
	return must.Get(graph.Open(machine.Data(t, "graphs", name+".adj.zst")))
}

// wikispeedia reads the graph of articles.
func wikispeedia(t *testing.T) *graph.Graph {
	t.Helper()
	f := must.Get(os.Open(machine.Data(t, "graphs", "wikispeedia", "links.tsv.zst")))
	defer f.Close()
	r := must.Get(coding.NewReader(f))
	defer r.Close()
	g := must.Get(graph.OfLinks(func(yield func([2]string, error) bool) {
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			from, to, ok := strings.Cut(lines.Text(), "\t")
			if ok && from != "Article_Name1" && !yield([2]string{"https://en.wikipedia.org/" + from, "https://en.wikipedia.org/" + to}, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield([2]string{}, err)
		}
	}))
	return g
}

// The sites of three recorded graphs of pages about a topic: how many are in each part of the bow-tie.
func TestBowTieOfRecordedSites(t *testing.T) {
	for name, want := range map[string]string{
		"epa":                 "3220 sites: MAIN 89 (6 54 17 12), IN 434, OUT 489, T-IN 1453, T-OUT 111, TUNNEL 236, OTHER 121, ISLAND 287",
		"toronto-automobiles": "1844 sites: MAIN 120 (13 77 18 12), IN 408, OUT 789, T-IN 106, T-OUT 314, TUNNEL 36, OTHER 37, ISLAND 34",
		"toronto-cheese":      "1873 sites: MAIN 156 (34 72 24 26), IN 442, OUT 359, T-IN 137, T-OUT 599, TUNNEL 36, OTHER 127, ISLAND 17",
	} {
		s := recorded(t, name).Sites()
		var n [graph.Island + 1]int
		for _, p := range s.BowTie() {
			n[p]++
		}
		got := fmt.Sprintf("%d sites: MAIN %d (%d %d %d %d)", s.Len(), n[0]+n[1]+n[2]+n[3], n[0], n[1], n[2], n[3])
		for p := graph.In; p <= graph.Island; p++ {
			got += fmt.Sprintf(", %v %d", p, n[p])
		}
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// A directed is a graph as gonum reads it.
type directed struct {
	*graph.Graph
	back  *graph.Graph
	nodes []gonum.Node
	last  []gonum.Node // the list that was asked for last
}

func newDirected(g *graph.Graph) *directed {
	d := &directed{Graph: g, back: &graph.Graph{First: []uint32{0}}}
	in := make([][]uint32, g.Len())
	for i, to := range g.All() {
		for _, j := range to {
			in[j] = append(in[j], i)
		}
	}
	for i, list := range in {
		d.back.To = append(d.back.To, list...)
		d.back.First = append(d.back.First, uint32(len(d.back.To)))
		d.nodes = append(d.nodes, node(i))
	}
	return d
}

type node int64

func (n node) ID() int64 { return int64(n) }

func (d *directed) list(of []uint32) gonum.Nodes {
	d.last = d.last[:0]
	for _, p := range of {
		d.last = append(d.last, d.nodes[p])
	}
	return iterator.NewOrderedNodes(d.last)
}

func (d *directed) Node(id int64) gonum.Node  { return d.nodes[id] }
func (d *directed) Nodes() gonum.Nodes        { return iterator.NewOrderedNodes(d.nodes) }
func (d *directed) From(id int64) gonum.Nodes { return d.list(d.Links(uint32(id))) }
func (d *directed) To(id int64) gonum.Nodes   { return d.list(d.back.Links(uint32(id))) }
func (d *directed) HasEdgeFromTo(u, v int64) bool {
	return slices.Contains(d.Links(uint32(u)), uint32(v))
}
func (d *directed) HasEdgeBetween(u, v int64) bool {
	return d.HasEdgeFromTo(u, v) || d.HasEdgeFromTo(v, u)
}
func (d *directed) Edge(u, v int64) gonum.Edge { return nil } // not asked for here

// Pagerank, hubs and authorities of the recorded graphs are those that gonum computes, within 1e-6.
func TestRanksAreThoseOfGonum(t *testing.T) {
	graphs := map[string]*graph.Graph{"wikispeedia": wikispeedia(t)}
	for _, name := range []string{"epa", "hollins-edu", "toronto-automobiles", "toronto-cheese", "wb-cs-stanford", "debian-docs-web"} {
		graphs[name] = recorded(t, name)
	}
	if r := graphs["epa"].Pagerank(graph.Pagerank{})[1247]; math.Abs(r-.01911627) > 5e-9 {
		t.Errorf("page 1247 of epa has the rank %.8f, want .01911627", r)
	}
	for name, g := range graphs {
		d := newDirected(g)
		ranks := g.Pagerank(graph.Pagerank{})
		hubs, authorities := graph.HITS{}.Scores(g.Len(), g.All())
		var hubSum, authoritySum float64
		theirs := network.HITS(d, 1e-10)
		for id := range int64(g.Len()) { // theirs have the length 1, ours the sum 1
			hubSum, authoritySum = hubSum+theirs[id].Hub, authoritySum+theirs[id].Authority
		}
		for id, rank := range network.PageRankSparse(d, .85, 1e-9) {
			x := theirs[id]
			worst := max(math.Abs(rank-ranks[id]), math.Abs(x.Hub/hubSum-hubs[id]), math.Abs(x.Authority/authoritySum-authorities[id]))
			if !(worst <= 1e-6) {
				t.Fatalf("%s, page %d: Pagerank %v, want %v; hub %v, want %v; authority %v, want %v", name, id, ranks[id], rank,
					hubs[id], x.Hub/hubSum, authorities[id], x.Authority/authoritySum)
			}
		}
	}
}
