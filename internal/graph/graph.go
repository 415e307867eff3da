// Package graph holds the links of a web, to simulate a crawl of it: graphs that were recorded, graphs of the WebGraph framework, and
// generated ones. What follows from links is computed here, too: ranks of pages and sites, hubs and authorities, components, the bow-tie.
//
// Pages and hosts are numbered from 0. A graph may have up to 2^32-1 pages and as many links, and needs 4 bytes for each link.
package graph

import (
	"cmp"
	"iter"
	"strings"
)

// Links are links as an algorithm reads them: pages, in increasing order, each with the pages that it links to. Pages without links may
// be left out. An algorithm that goes in steps reads them once a step, and so they may come from a disk. A slice is valid until the next
// page is read.
type Links = iter.Seq2[uint32, []uint32]

// A Graph is a web at one moment. The links of all pages lie in one slice, one page after the other. It is not changed once made, and
// so many goroutines may read it.
type Graph struct {
	First []uint32 // First[i]:First[i+1] are i's links in To; Len()+1 entries, nil for an empty graph
	To    []uint32 // the links of each page, in increasing order where the order on the page is not known; a page may link to itself
	Host  []uint32 // the host of each page
	Hosts []string // names by number; "" where unknown
	Path  []string // what follows the host in a page's URL, from "/" on; nil: unknown
	Bytes []uint32 // the length of each page; nil: unknown
}

// Len returns the number of pages.
func (g *Graph) Len() int { return max(len(g.First)-1, 0) }

// Links returns the pages that page i links to. The slice is the graph's own.
func (g *Graph) Links(i uint32) []uint32 { return g.To[g.First[i]:g.First[i+1]:g.First[i+1]] }

// All returns all links.
func (g *Graph) All() Links {
	return func(yield func(uint32, []uint32) bool) {
		for i := range uint32(g.Len()) {
			if to := g.Links(i); len(to) > 0 && !yield(i, to) {
				return
			}
		}
	}
}

// Starts returns the page of each host with which a crawl begins, in the order of the hosts: "/" or "/index.html"; else the page with the
// fewest slashes in its path, then the shortest path, then the lowest number. Without paths it is the host's first page.
func (g *Graph) Starts() []uint32 {
	best, found := make([]uint32, len(g.Hosts)), make([]bool, len(g.Hosts))
	for i := range uint32(g.Len()) {
		h := g.Host[i]
		if !found[h] || g.Path != nil && comparePaths(g.Path[i], g.Path[best[h]]) < 0 {
			best[h], found[h] = i, true
		}
	}
	starts := best[:0]
	for h, ok := range found {
		if ok {
			starts = append(starts, best[h])
		}
	}
	return starts
}

// comparePaths is negative if a is the likelier start page of a host.
func comparePaths(a, b string) int {
	return cmp.Or(cmp.Compare(slashes(a), slashes(b)), cmp.Compare(len(a), len(b)))
}

func slashes(path string) int {
	if path == "/" || path == "/index.html" {
		return 0
	}
	return strings.Count(path, "/")
}

// Reachable returns the graph of the pages that can be reached by links from the given ones, and these themselves. Pages and hosts are
// numbered anew, in the order in which they were.
func (g *Graph) Reachable(from []uint32) *Graph {
	var pages []uint32
	links := 0
	for i, ok := range reached(from, g) {
		if ok {
			pages = append(pages, uint32(i))
			links += len(g.Links(uint32(i)))
		}
	}
	if len(pages) == 0 {
		return &Graph{}
	}

	number, used := make([]uint32, g.Len()), make([]bool, len(g.Hosts))
	for k, i := range pages {
		number[i], used[g.Host[i]] = uint32(k), true
	}
	r := &Graph{First: make([]uint32, 1, len(pages)+1), To: make([]uint32, 0, links), Host: make([]uint32, 0, len(pages))}
	host := make([]uint32, len(g.Hosts))
	for h, name := range g.Hosts {
		if used[h] {
			host[h] = uint32(len(r.Hosts))
			r.Hosts = append(r.Hosts, name)
		}
	}
	for _, i := range pages {
		for _, j := range g.Links(i) {
			r.To = append(r.To, number[j])
		}
		r.First = append(r.First, uint32(len(r.To)))
		r.Host = append(r.Host, host[g.Host[i]])
		if g.Path != nil {
			r.Path = append(r.Path, g.Path[i])
		}
		if g.Bytes != nil {
			r.Bytes = append(r.Bytes, g.Bytes[i])
		}
	}
	return r
}
