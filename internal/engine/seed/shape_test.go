package seed_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/parleyweb/parley/internal/engine/seed"
)

// A web defines a site's links: a page is its depth and a number, and has links.
type web func(depth, n int) (links [][2]int)

// walk crawls a site from its start, breadth first or in any order,
// and counts; it returns how many pages were admitted within base and
// beyond it, and the greatest depth.
func walk(t *testing.T, s *seed.Seeder, site string, dynamic bool, base, most int, w web, any *rand.Rand) (within, beyond, deepest int) {
	t.Helper()
	type page struct{ depth, n int }
	known := map[page]bool{{0, 0}: true}
	queue := []page{{0, 0}}
	within = 1
	s.Count(site, seed.Tally{Depth: 0, New: 1, Dynamic: dynamic})
	for len(queue) > 0 && len(known) < most {
		i := 0
		if any != nil {
			i = any.IntN(len(queue))
		}
		p := queue[i]
		queue = append(queue[:i], queue[i+1:]...)
		for _, l := range w(p.depth, p.n) {
			to := page{l[0], l[1]}
			url := fmt.Sprintf("%s/%d-%d", site, to.depth, to.n)
			if dynamic {
				url += "?x"
			}
			if known[to] {
				s.Count(site, seed.Tally{Depth: p.depth + 1, Seen: 1, Dynamic: dynamic})
				continue
			}
			if v := s.Admit(seed.Ref{URL: url, Depth: p.depth + 1}); !v.OK {
				continue
			}
			known[to] = true
			queue = append(queue, to)
			if to.depth <= base {
				within++
			} else {
				beyond++
			}
			deepest = max(deepest, to.depth)
			s.Count(site, seed.Tally{Depth: p.depth + 1, New: 1, Dynamic: dynamic})
		}
	}
	return within, beyond, deepest
}

// levels is a site with so many pages at each depth, each page having links
// to its neighbours and to the next level, so that all are reached.
func levels(sizes []int) web {
	return func(d, n int) (links [][2]int) {
		links = append(links, [2]int{0, 0})
		if d+1 < len(sizes) {
			for i := n; i < sizes[d+1]; i += sizes[d] {
				links = append(links, [2]int{d + 1, i})
			}
		}
		return links
	}
}

// TestShape: finite sites are crawled to their end, endless ones are cut off (B11).
func TestShape(t *testing.T) {
	for _, c := range []struct {
		name  string
		sizes []int
		whole bool
	}{
		{"a manual", []int{1, 130, 2881, 1314, 63}, true},
		{"a large manual", []int{1, 11, 1400, 1567, 16900, 1680, 74}, true},
		{"a deep site with ever fewer pages per level", falling(3000, 0.75, 40), true},
		{"a chain of a hundred", repeat(1, 100), true},
		{"a chain at a large site", append([]int{1, 100, 1000, 3000}, repeat(1, 900)...), true},
		{"a chain without end", repeat(1, 5000), false},
		{"a calendar", repeat(12, 5000), false},
		{"growing levels", grow(2, 14), true}, // within the base depth: MaxPerSite is the limit
	} {
		for _, order := range []*rand.Rand{nil, rand.New(rand.NewPCG(1, 2))} {
			s := &seed.Seeder{Rules: seed.Rules{MaxPerSite: -1}}
			all := 0
			for _, n := range c.sizes {
				all += n
			}
			if testing.Short() && all > 10_000 {
				continue
			}
			if order != nil && (all > 5000 && c.whole || c.name == "a deep site with ever fewer pages per level") {
				continue // the order of a real crawl is nearly breadth-first; only the bound is promised for every order
			}
			within, beyond, deepest := walk(t, s, "https://a.example", false, 15, 1<<30, levels(c.sizes), order)
			if got := within+beyond == all; got != c.whole {
				t.Errorf("%s: %d of %d pages, %d deep", c.name, within+beyond, all, deepest)
			}
			if bound := within + within/2 + 200; beyond > bound {
				t.Errorf("%s: %d pages beyond the base depth, bound %d", c.name, beyond, bound)
			}
			t.Logf("%s: %d within, %d beyond, %d deep", c.name, within, beyond, deepest)
		}
	}
}

func repeat(n, times int) (l []int) {
	l = append(l, 1)
	for len(l) < times {
		l = append(l, n)
	}
	return l
}

func falling(n int, by float64, times int) (l []int) {
	l = append(l, 1)
	for x := float64(n); len(l) < times && x >= 1; x *= by {
		l = append(l, int(x))
	}
	return l
}

func grow(by, times int) (l []int) {
	for n := 1; len(l) < times; n *= by {
		l = append(l, n)
	}
	return l
}

// TestShapeBound: whatever a site does, and in whatever order it is crawled,
// the number of pages beyond the base depth is bounded.
func TestShapeBound(t *testing.T) {
	trials := uint64(60)
	if testing.Short() {
		trials = 6
	}
	for trial := range trials {
		r := rand.New(rand.NewPCG(trial, 7))
		s := &seed.Seeder{Rules: seed.Rules{MaxPerSite: -1}}
		width := 1 + r.IntN(6)
		trap := func(d, n int) (links [][2]int) {
			for range 1 + r.IntN(width) {
				links = append(links, [2]int{d + 1, r.IntN(1 << 30)})
			}
			if r.IntN(50) == 0 { // and then, suddenly, many
				for range 300 {
					links = append(links, [2]int{d + 1, r.IntN(1 << 30)})
				}
			}
			return links
		}
		dynamic, base := trial%2 == 0, 15
		if dynamic {
			base = 5
		}
		order := r
		if trial%3 == 0 {
			order = nil
		}
		within, beyond, deepest := walk(t, s, "https://a.example", dynamic, base, 4000, trap, order)
		if bound := within + within/2 + 200; beyond > bound || deepest > 1023 {
			t.Errorf("trial %d: %d within, %d beyond, %d deep", trial, within, beyond, deepest)
		}
	}
}

// TestDuplicates: a page whose content was seen before does not count (B13).
func TestDuplicates(t *testing.T) {
	s := &seed.Seeder{}
	const site = "https://a.example"
	for d := range 30 {
		s.Count(site, seed.Tally{Depth: d, New: 50})
		if d > 15 {
			s.Count(site, seed.Tally{Depth: d, Duplicates: 50})
		}
	}
	if v := s.Admit(seed.Ref{URL: site + "/a", Depth: 30}); !v.OK {
		t.Error("duplicates count as new pages:", v.Rule)
	}
}

// TestShapeSurvivesRestart: a shape restored after a restart decides as before.
func TestShapeSurvivesRestart(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		a, b := &seed.Seeder{}, &seed.Seeder{}
		const site = "https://a.example"
		if a.Shape(site) != nil {
			t.Fatal("an unknown site has a shape")
		}
		for range r.IntN(200) {
			a.Count(site, seed.Tally{Depth: r.IntN(300) - 1, Dynamic: r.IntN(2) == 0, New: r.IntN(40), Seen: r.IntN(10), Duplicates: r.IntN(5)})
		}
		shape := a.Shape(site)
		b.SetShape(site, 0, shape)
		if !bytes.Equal(b.Shape(site), shape) {
			t.Fatal("the shape differs after a restart")
		}
		for d := range 280 {
			for _, url := range []string{site + "/a", site + "/a?b"} {
				ref := seed.Ref{URL: url, Depth: d, Kind: seed.Link}
				if x, y := a.Admit(ref), b.Admit(ref); x != y && x.Rule != "limit of 25000 pages per site reached" {
					t.Fatalf("%+v: %+v before, %+v after", ref, x, y)
				}
			}
		}
	}
}

// FuzzShape: any stored bytes can be read, and a valid shape is unchanged.
func FuzzShape(f *testing.F) {
	f.Add([]byte{1, 2, 1, 0, 0, 5, 2, 1, 0})
	f.Add([]byte{1, 255, 255, 255, 255, 15})
	f.Add([]byte{2})
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &seed.Seeder{}
		s.SetShape("https://a.example", 1, b)
		s.Admit(seed.Ref{URL: "https://a.example/", Depth: 20})
		one := s.Shape("https://a.example")
		s.SetShape("https://a.example", 1, one)
		if two := s.Shape("https://a.example"); !bytes.Equal(one, two) {
			t.Fatalf("%x becomes %x", one, two)
		}
	})
}
