package graph_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/parleyweb/parley/internal/graph"
	"github.com/parleyweb/parley/internal/must"
)

// Links between URLs are a graph: each page and each link is in it once, and hosts are those of the URLs.
func TestGraphOfLinks(t *testing.T) {
	const a, b, c = "https://a.example/", "http://b.example:8080/x?y", "http://c.example"
	broken := errors.New("broken")
	links := func(err error) func(func([2]string, error) bool) {
		return func(yield func([2]string, error) bool) {
			for _, l := range [][2]string{{a, b}, {b, a}, {a, a + "1"}, {a, b}, {c, a}, {a, a}} {
				if !yield(l, nil) {
					return
				}
			}
			if err != nil {
				yield([2]string{}, err)
			}
		}
	}
	g := must.Get(graph.OfLinks(links(nil)))
	if want := []string{"a.example", "b.example:8080", "c.example"}; !slices.Equal(g.Hosts, want) || !slices.Equal(g.Host, []uint32{0, 1, 0, 2}) {
		t.Errorf("the hosts are %q, %v", g.Hosts, g.Host)
	}
	if want := []string{"/", "/x?y", "/1", "/"}; !slices.Equal(g.Path, want) {
		t.Errorf("the paths are %q, want %q", g.Path, want)
	}
	for page, want := range [][]uint32{{0, 1, 2}, {0}, nil, {0}} {
		if got := g.Links(uint32(page)); !slices.Equal(got, want) {
			t.Errorf("page %d links to %v, want %v", page, got, want)
		}
	}
	if _, err := graph.OfLinks(links(broken)); err != broken {
		t.Errorf("links that cannot be read: %v", err)
	}
	if g, err := graph.OfLinks(func(func([2]string, error) bool) {}); err != nil || g.Len() != 0 {
		t.Errorf("no links: %v, %v", g, err)
	}
}
