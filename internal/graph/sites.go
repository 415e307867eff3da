package graph

import (
	"maps"
	"slices"
)

// Sites is the graph of the sites of a web: its pages are the sites, numbered as hosts are. A site links to another one if a page of it
// links to a page of the other; it does not link to itself.
type Sites struct {
	Graph
	Count  []uint32 // how many links between pages each link in To stands for
	Within []uint32 // how many links lead from the pages of each site to pages of the same site

	host []uint32 // the site of each page
}

// Sites returns the graph of the sites of a graph.
func (g *Graph) Sites() *Sites { return SitesOf(g.All(), g.Host, g.Hosts) }

// SitesOf returns the graph of sites, whose names are given, by the links between pages and the site of each page. It keeps host. The
// links are read once. Memory holds some 60 bytes for each pair of linked sites; afterwards 8.
func SitesOf(links Links, host []uint32, names []string) *Sites {
	s := &Sites{Within: make([]uint32, len(names)), host: host}
	count := map[uint64]uint32{} // by two sites, in 32 bits each
	for i, to := range links {
		from := host[i]
		for _, j := range to {
			if h := host[j]; h == from {
				s.Within[h]++
			} else {
				count[uint64(from)<<32|uint64(h)]++
			}
		}
	}
	if len(names) == 0 {
		return s
	}
	pairs := slices.Sorted(maps.Keys(count))
	s.link(len(names), pairs)
	s.Hosts, s.Host, s.Count = names, make([]uint32, len(names)), make([]uint32, len(pairs))
	for i := range s.Host {
		s.Host[i] = uint32(i)
	}
	for i, pair := range pairs {
		s.Count[i] = count[pair]
	}
	return s
}

// Weight returns the weight of a link between two pages: 1/k, if k links lead from pages of the one's site to pages of the other's. Thus
// each site has one vote on another one, however many links it is cast with, and one on itself (the remedy of Bharat and Henzinger,
// Castillo 2004, section 2.3.2). With it, [Pagerank] is the weighted link rank.
func (s *Sites) Weight(from, to uint32) float64 {
	a, b := s.host[from], s.host[to]
	if a == b {
		return 1 / float64(max(s.Within[a], 1))
	}
	if k, ok := slices.BinarySearch(s.Links(a), b); ok {
		return 1 / float64(s.Count[s.First[a]+uint32(k)])
	}
	return 1 // the first one, and new
}

// Sums returns the sum of the scores of each site's pages (Castillo 2004, section 8.6.2).
func (s *Sites) Sums(scores []float64) []float64 {
	sums := make([]float64, s.Len())
	for i, x := range scores {
		sums[s.host[i]] += x
	}
	return sums
}
