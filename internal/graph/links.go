package graph

import (
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
)

// OfLinks returns the graph of links between URLs: pairs of a page and one that it links to, in any order. A pair that comes twice counts
// once. Pages are numbered in the order in which their URLs come first, and so are hosts. An error among the pairs is returned. Memory holds
// the URLs, and 8 bytes for each pair besides the graph.
func OfLinks(links iter.Seq2[[2]string, error]) (*Graph, error) {
	g := &Graph{}
	pages, hosts := map[string]uint32{}, map[string]uint32{}
	number := func(url string) uint64 {
		page, ok := pages[url]
		if ok {
			return uint64(page)
		}
		page = uint32(len(pages))
		pages[url] = page
		_, name, _ := strings.Cut(url, "://")
		if i := strings.IndexAny(name, "/?#"); i >= 0 {
			name = name[:i]
		}
		host, ok := hosts[name]
		if !ok {
			host = uint32(len(hosts))
			hosts[name] = host
			g.Hosts = append(g.Hosts, name)
		}
		g.Host, g.Path = append(g.Host, host), append(g.Path, pathOf(url))
		return uint64(page)
	}
	var pairs []uint64 // from and to, in 32 bits each
	for link, err := range links {
		if err != nil {
			return nil, err
		}
		if uint64(len(pairs)) == math.MaxUint32 || uint64(len(pages)) >= math.MaxUint32-1 {
			return nil, errors.New("more than 2^32-1 pages or links")
		}
		from := number(link[0])
		pairs = append(pairs, from<<32|number(link[1]))
	}
	if len(pages) == 0 {
		return g, nil
	}
	slices.Sort(pairs)
	pairs = slices.Compact(pairs)
	g.link(len(pages), pairs)
	return g, nil
}

// link gives a graph so many pages, and their links: pairs of pages in 32 bits each, in order.
func (g *Graph) link(pages int, pairs []uint64) {
	g.First, g.To = make([]uint32, pages+1), make([]uint32, len(pairs))
	for i, pair := range pairs {
		g.First[pair>>32+1]++
		g.To[i] = uint32(pair)
	}
	for i := range pages {
		g.First[i+1] += g.First[i]
	}
}
