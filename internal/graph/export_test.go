package graph

import (
	"fmt"
	"io"
	"math"
)

// Exponent returns the a with which whole numbers that occur in proportion to k^-a, for all k from least on, would most likely be the
// given values; smaller values than least, which is 1 or more, are left aside. The result lies between 1 and 20, and is NaN without values.
func Exponent(values []int, least int) float64 {
	least = max(least, 1)
	var n, logs float64
	for _, v := range values {
		if v >= least {
			n++
			logs += math.Log(float64(v))
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return likeliest(logs/n, float64(least))
}

// Read reads a graph from the texts of two files; nodes may be nil: then all pages are of one host, whose name is unknown.
func Read(adj, nodes io.Reader) (*Graph, error) {
	g, err := readLinks(adj)
	if err != nil {
		return nil, fmt.Errorf("read links: %w", err)
	}
	if nodes != nil {
		if err := g.readNames(nodes); err != nil {
			return nil, fmt.Errorf("read names of pages: %w", err)
		}
	}
	return g, nil
}
