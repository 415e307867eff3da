package rank_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/parleyweb/parley/client/crawl/internal/rank"
)

func graph(links [][]int32) func(func(int, []int32) bool) {
	return func(yield func(int, []int32) bool) {
		for i, to := range links {
			if len(to) > 0 && !yield(i, to) {
				return
			}
		}
	}
}

// Graphs that can be solved by hand, with the jump 0.15.
func TestSmallGraphs(t *testing.T) {
	for _, c := range []struct {
		what  string
		links [][]int32
		want  []float64
	}{
		{"a page alone", [][]int32{nil}, []float64{1}},
		{"no links at all", [][]int32{nil, nil, nil, nil}, []float64{.25, .25, .25, .25}},
		{"a ring", [][]int32{{1}, {2}, {0}}, []float64{1. / 3, 1. / 3, 1. / 3}},
		// a = .05 + .85(b + c), b = c = .05 + .425 a
		{"a hub and two leaves that lead back", [][]int32{{1, 2}, {0}, {0}},
			[]float64{.135 / .2775, .142500 / .2775 / 2, .142500 / .2775 / 2}},
		// b leads to both alike: b = .075 + .85(a + b/2), a = .075 + .425 b
		{"a page without links", [][]int32{{1}, nil}, []float64{.5 / 1.425, .925 / 1.425}},
		{"a duplicate link", [][]int32{{1, 1, 2}, {0}, {0}}, nil},
		{"links out of range", [][]int32{{1, 7, -1}, nil}, []float64{.5 / 1.425, .925 / 1.425}},
	} {
		got := rank.Pagerank(len(c.links), graph(c.links), &rank.Options{Tolerance: 1e-12, Rounds: 1000})
		want := c.want
		if want == nil {
			want = dense(c.links, .15)
		}
		for i := range want {
			if math.Abs(float64(got[i])-want[i]) > 1e-6 {
				t.Errorf("%s: %v, want %v", c.what, got, want)
				break
			}
		}
	}
	if got := rank.Pagerank(0, graph(nil), nil); got != nil {
		t.Errorf("no pages have ranks %v", got)
	}
}

// dense solves (2.6) with a whole matrix, pages without links leading to all.
func dense(links [][]int32, jump float64) []float64 {
	n := len(links)
	now := make([]float64, n)
	for i := range now {
		now[i] = 1 / float64(n)
	}
	for range 2000 {
		next := make([]float64, n)
		for i, to := range links {
			if len(to) == 0 {
				for j := range next {
					next[j] += (1 - jump) * now[i] / float64(n)
				}
			}
			for _, j := range to {
				next[j] += (1 - jump) * now[i] / float64(len(to))
			}
		}
		for j := range next {
			next[j] += jump / float64(n)
		}
		now = next
	}
	return now
}

// E24: to normalise once after the ranks have settled is Pagerank where pages without
// links lead to all; they sum to 1 whatever the jump.
func TestPagerankMatchesMatrix(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		n := 2 + rng.IntN(60)
		links := make([][]int32, n)
		for i := range links {
			if rng.IntN(5) < 2 {
				continue
			}
			for range rng.IntN(8) {
				links[i] = append(links[i], int32(rng.IntN(1+rng.IntN(n))))
			}
		}
		jump := 0.05 + 0.4*rng.Float64()
		got := rank.Pagerank(n, graph(links), &rank.Options{Jump: jump, Tolerance: 1e-13, Rounds: 2000})
		want := dense(links, jump)
		sum := 0.
		for i := range got {
			sum += float64(got[i])
			if math.Abs(float64(got[i])-want[i]) > 1e-6 {
				t.Fatalf("page %d of %d: %v, want %v", i, n, got[i], want[i])
			}
		}
		if math.Abs(sum-1) > 1e-5 {
			t.Errorf("the ranks sum to %v", sum)
		}
	}
}

// Invalid settings are replaced by the defaults, and the number of iterations is bounded.
func TestBounds(t *testing.T) {
	links := [][]int32{{1}, {2}, {3}, {0, 1}}
	want := rank.Pagerank(4, graph(links), nil)
	for _, o := range []rank.Options{{Jump: math.NaN()}, {Jump: 1}, {Jump: -1}, {Tolerance: math.Inf(-1)}, {Tolerance: math.NaN()}, {Rounds: -1}} {
		for i, x := range rank.Pagerank(4, graph(links), &o) {
			if x != want[i] {
				t.Errorf("%+v: page %d has %v, want %v", o, i, x, want[i])
			}
		}
	}
	rounds := 0
	rank.Pagerank(4, func(yield func(int, []int32) bool) {
		rounds++
		graph(links)(yield)
	}, &rank.Options{Tolerance: 1e-300, Rounds: 17})
	if rounds != 17 {
		t.Errorf("the links were read %d times", rounds)
	}
	rank.Pagerank(2, func(yield func(int, []int32) bool) { yield(-1, []int32{0}); yield(9, []int32{0}) }, nil)
}
