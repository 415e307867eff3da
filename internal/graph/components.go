package graph

import (
	"cmp"
	"math"
	"slices"
)

// Components returns the number of the strongly connected component of each page, and the sizes of the components: in one component each
// page can be reached from each other one by links. The largest is 0, and of two with the same size, the one with the lowest page is first.
// Memory holds some 50 bytes a page, and the stack does not grow (Tarjan's algorithm without recursion).
func (g *Graph) Components() (of, sizes []uint32) {
	n := g.Len()
	type component struct{ size, lowest, number uint32 }
	var all []component
	of = make([]uint32, n)
	order, low := make([]uint32, n), make([]uint32, n) // when a page was reached, from 1; the least order of those to which it leads, of open components
	edge := slices.Clone(g.First[:n])                  // the link of each page that is followed next
	var path, open []uint32                            // the pages whose links are being followed; those whose component is not yet whole
	reached := uint32(0)
	for root := range uint32(n) {
		if order[root] == 0 {
			path = append(path, root)
		}
	follow:
		for len(path) > 0 {
			i := path[len(path)-1]
			if order[i] == 0 {
				reached++
				order[i], low[i] = reached, reached
				open = append(open, i)
			}
			for ; edge[i] < g.First[i+1]; edge[i]++ {
				j := g.To[edge[i]]
				if order[j] == 0 {
					path = append(path, j)
					continue follow // and come back to this link, since edge stays
				}
				low[i] = min(low[i], low[j])
			}
			path = path[:len(path)-1]
			if low[i] < order[i] {
				continue
			}
			c := component{lowest: i, number: uint32(len(all))}
			for last := i + 1; last != i; c.size++ {
				last = open[len(open)-1]
				open = open[:len(open)-1]
				of[last], low[last], c.lowest = c.number, math.MaxUint32, min(c.lowest, last)
			}
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b component) int { return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.lowest, b.lowest)) })
	number := make([]uint32, len(all))
	for i, c := range all {
		sizes = append(sizes, c.size)
		number[c.number] = uint32(i)
	}
	for i, c := range of {
		of[i] = number[c]
	}
	return of, sizes
}
