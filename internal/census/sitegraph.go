package census

import (
	"cmp"
	"slices"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/graph"
)

// A siteGraph is the links between sites (Castillo 8.6).
type siteGraph struct {
	*graph.Sites
	in   []uint32 // how many sites link to each
	from []uint32 // how many links of their pages these are
}

func newSiteGraph(w *web) *siteGraph {
	g := &siteGraph{Sites: w.Sites()}
	g.in, g.from = make([]uint32, g.Len()), make([]uint32, g.Len())
	for k, to := range g.To {
		g.in[to]++
		g.from[to] += g.Count[k]
	}
	return g
}

// linked reports whether a site has a link to or from another one.
func (g *siteGraph) linked(site uint32) bool { return g.in[site] > 0 || len(g.Links(site)) > 0 }

// mostLinked is how many sites are in the table linked_sites.
const mostLinked = 20

// tables are the tables of links between sites.
func (g *siteGraph) tables(col *collection.Collection, s *sites) []Table {
	in, out := histogram{}, histogram{}
	order := make([]uint32, 0, g.Len())
	var linkedTo, linking, either int64
	for site := range uint32(g.Len()) {
		n := len(g.Links(site))
		in.add(int64(g.in[site]))
		out.add(int64(n))
		if g.in[site] > 0 {
			linkedTo++
			order = append(order, site)
		}
		if n > 0 {
			linking++
		}
		if g.linked(site) {
			either++
		}
	}
	figures := table("site_graph", "R20, Castillo 8.6", 1, "figure", "number", "share")
	siteFigures(&figures, int64(g.Len()), linkedTo, linking, either)

	degrees := table("site_degrees", "R21, Castillo 8.6.1", 2, "from", "to", "in", "out")
	degrees.classes(in, out)

	most := table("linked_sites", "R23, Castillo 8.6.3", 1, "site", "linking_sites", "links", "pages")
	slices.SortFunc(order, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(g.in[b], g.in[a]), cmp.Compare(g.from[b], g.from[a]), cmp.Compare(a, b))
	})
	for _, site := range order {
		if x, _ := col.SiteByID(s.counts[site].id); !x.Withheld && len(most.Rows) < mostLinked {
			most.row(x.Origin, g.in[site], g.from[site], s.counts[site].pages)
		}
	}
	_, sizes := g.Components()
	return []Table{figures, degrees, most, components(sizes, int64(g.Len())-either), g.bowTie(s)}
}

// siteFigures are the numbers of Castillo's Table 8.3.
func siteFigures(t *Table, sites, linkedTo, linking, either int64) {
	t.row("sites", sites, per(sites, sites))
	t.row("with a link from another site", linkedTo, per(linkedTo, sites))
	t.row("with a link to another site", linking, per(linking, sites))
	t.row("with either", either, per(either, sites))
}

// components counts strongly connected components by size. As in Castillo's Table 8.5, sites without links to or from others are left
// out; each of them is a component.
func components(sizes []uint32, alone int64) Table {
	t := table("components", "R24, Castillo 8.6.4", 1, "size", "components")
	count := map[int64]int64{1: -alone}
	for _, size := range sizes {
		count[int64(size)]++
	}
	if count[1] <= 0 {
		delete(count, 1)
	}
	counts(&t, count)
	return t
}

// bowTie counts sites and their pages by their part of the bow-tie.
func (g *siteGraph) bowTie(s *sites) Table {
	t := table("bowtie", "R25, Castillo 8.6.5", 1, "part", "sites", "pages", "share")
	var sites, pages [graph.Island + 1]int64
	for site, part := range g.BowTie() {
		sites[part]++
		pages[part] += s.counts[site].pages
	}
	for part, n := range sites {
		t.row(graph.Part(part).String(), n, pages[part], per(n, int64(g.Len())))
	}
	return t
}
