package graph

import "slices"

// A Part is a part of the bow-tie (Castillo 2004, sections 2.1.3 and 8.6.5).
type Part uint8

// MAIN, the largest strongly connected component, consists of the first four.
const (
	MainNorm    Part = iota // in MAIN, and none of the next three
	MainMain                // in MAIN, with a link from IN and one to OUT
	MainIn                  // in MAIN, with a link from IN
	MainOut                 // in MAIN, with a link to OUT
	In                      // leads to MAIN, which does not lead there
	Out                     // MAIN leads there, and it does not lead to MAIN
	TentacleIn              // IN leads there
	TentacleOut             // leads to OUT
	Tunnel                  // IN leads there, and it leads to OUT, past MAIN
	Other                   // connected to MAIN all the same, if links counted in both directions
	Island                  // not connected to MAIN
)

// String returns the name of the part in the thesis; it has none for Other.
func (p Part) String() string {
	return [...]string{"MAIN-NORM", "MAIN-MAIN", "MAIN-IN", "MAIN-OUT", "IN", "OUT", "T-IN", "T-OUT", "TUNNEL", "OTHER", "ISLAND"}[p]
}

// BowTie returns the part in which each page is; it is meant for the graph of [Sites]. Each page is in one part. Of components with the same
// size the one with the lowest page is MAIN.
func (g *Graph) BowTie() []Part {
	component, _ := g.Components()
	back := g.reversed()
	parts := make([]Part, g.Len())
	pages := func(of Part) (list []uint32) {
		for i, p := range parts {
			if p == of {
				list = append(list, uint32(i))
			}
		}
		return list
	}
	for i, c := range component {
		if parts[i] = Island; c == 0 {
			parts[i] = MainNorm
		}
	}
	main := pages(MainNorm)
	fromMain, toMain, near := reached(main, g), reached(main, back), reached(main, g, back)
	for i := range parts {
		switch {
		case parts[i] == MainNorm:
		case toMain[i]:
			parts[i] = In
		case fromMain[i]:
			parts[i] = Out
		}
	}
	fromIn, toOut := reached(pages(In), g), reached(pages(Out), back)
	for i, p := range parts {
		switch {
		case p != Island:
		case fromIn[i] && toOut[i]:
			parts[i] = Tunnel
		case fromIn[i]:
			parts[i] = TentacleIn
		case toOut[i]:
			parts[i] = TentacleOut
		case near[i]:
			parts[i] = Other
		}
	}
	linked := func(list []uint32, part Part) bool {
		for _, j := range list {
			if parts[j] == part {
				return true
			}
		}
		return false
	}
	for _, i := range main {
		switch in, out := linked(back.Links(i), In), linked(g.Links(i), Out); {
		case in && out:
			parts[i] = MainMain
		case in:
			parts[i] = MainIn
		case out:
			parts[i] = MainOut
		}
	}
	return parts
}

// reversed returns a graph with the links of g, each in the other direction.
func (g *Graph) reversed() *Graph {
	n := g.Len()
	r := &Graph{First: make([]uint32, n+1), To: make([]uint32, len(g.To))}
	for _, j := range g.To {
		r.First[j+1]++
	}
	for i := range n {
		r.First[i+1] += r.First[i]
	}
	next := slices.Clone(r.First[:n])
	for i := range uint32(n) {
		for _, j := range g.Links(i) {
			r.To[next[j]] = i
			next[j]++
		}
	}
	return r
}

// reached reports which pages can be reached from some by the links of any of the graphs, which have the same pages.
func reached(from []uint32, graphs ...*Graph) []bool {
	is := make([]bool, graphs[0].Len())
	var queue []uint32
	reach := func(list []uint32) {
		for _, i := range list {
			if !is[i] {
				is[i] = true
				queue = append(queue, i)
			}
		}
	}
	for reach(from); len(queue) > 0; {
		i := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, g := range graphs {
			reach(g.Links(i))
		}
	}
	return is
}
