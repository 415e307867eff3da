package collection_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/must"
)

func TestShorterPathRaisesRank(t *testing.T) {
	r := newRig(t)
	r.commit(collection.Commit{Finds: append(finds(5, "/far"), finds(3, "/near")...)})
	wantAll(t, "queue", r.queue(), "/near", "/far")
	r.commit(collection.Commit{Finds: finds(2, "/far", "/far")})
	r.commit(collection.Commit{Finds: finds(4, "/far")})
	wantAll(t, "queue", r.queue(), "/far", "/near")
	want(t, "depth", r.page("/far").Depth, 2)
	check(t, r.c)
}

func TestPromote(t *testing.T) {
	r := newRig(t)
	r.find("/a", "/b", "/c")
	r.visit("/b", 200, "B")
	r.wait(time.Hour)
	r.visit("/a", 200, "A")
	wantAll(t, "queue", r.queue(), "/c")
	next, err := r.c.Queue().Next()
	if err != nil || time.UnixMilli(next).Sub(r.now) != 23*time.Hour {
		t.Errorf("next at %d %v", next, err)
	}
	r.wait(23 * time.Hour)
	r.promote()
	wantAll(t, "queue", r.queue(), "/b", "/c")
	r.wait(time.Hour)
	r.promote()
	wantAll(t, "queue", r.queue(), "/a", "/b", "/c")
	check(t, r.c)
	r.visit("/a", 304, "")
	wantAll(t, "queue", r.queue(), "/b", "/c")
	check(t, r.c)
}

func TestRerank(t *testing.T) {
	r := newRig(t)
	r.find("/a", "/b", "/c")
	list := must.Get(r.c.Queue().Head(1, frontier.Entry{}, 10))
	anew := append([]frontier.Entry(nil), list...)
	anew[2].Rank = 7
	anew[1].Rank = -7
	stale := list[0]
	stale.Rank = 99
	must.OK(t, r.c.Queue().Rerank(append(list, stale), append(anew, frontier.Entry{Page: 1, Site: 1, Rank: 100})))
	wantAll(t, "queue", r.queue(), "/c", "/a", "/b")
	r.reopen()
	wantAll(t, "queue", r.queue(), "/c", "/a", "/b")
	check(t, r.c)
	// Another strategy reorders the same pages.
	r.o.Strategy = frontier.BreadthFirst{}
	r.reopen()
	wantAll(t, "queue", r.queue(), "/c", "/a", "/b")
	r.o.Strategy = frontier.LargerSites{}
	r.reopen()
	wantAll(t, "queue", r.queue(), "/a", "/b", "/c")
	check(t, r.c)
}

// A page that was visited has given its cash away, but keeps the count of its links.
func TestRankAfterVisit(t *testing.T) {
	for s, want := range map[frontier.Strategy]float32{frontier.BacklinkCount{}: 3, frontier.OPIC{}: 0} {
		r := newRig(t)
		r.o.Strategy = s
		r.reopen()
		r.find("/a", "/b")
		p := r.page("/a")
		e, _ := p.Entry()
		anew := e
		anew.Rank = 3
		must.OK(t, r.c.Queue().Rerank([]frontier.Entry{e}, []frontier.Entry{anew}))
		r.visit("/a", 200, "A")
		r.wait(24 * time.Hour)
		r.promote()
		p = r.page("/a")
		if e, ok := p.Entry(); !ok || e.Rank != want {
			t.Errorf("%s: the entry is %+v %v, want rank %v", s.Name(), e, ok, want)
		}
		if n, err := r.c.Queue().Ready(1); n != 2 || err != nil {
			t.Errorf("%s: %d pages are ready, %v", s.Name(), n, err)
		}
		check(t, r.c)
	}
}

// Start pages begin with equal cash, and pages found by links with none; what the rank was under another strategy is no cash. A page
// that did not answer keeps its cash.
func TestCashOfNewPages(t *testing.T) {
	r := newRig(t)
	r.o.Strategy = frontier.OPIC{}
	r.reopen()
	list := finds(0, "/start", "/second", "/a")
	list[0].By, list[1].By = collection.ByPerson, collection.ByPerson
	r.commit(collection.Commit{Finds: list})
	r.visit("/second", 503, "")
	ranks := func() (list []float32) {
		for _, path := range []string{"/start", "/second", "/a"} {
			p := r.page(path)
			e, _ := p.Entry()
			list = append(list, e.Rank)
		}
		return list
	}
	if got := ranks(); !slices.Equal(got, []float32{1, 1, 0}) {
		t.Errorf("the ranks are %v", got)
	}
	r.o.Strategy = frontier.Random(3)
	r.reopen()
	if got := ranks(); slices.Contains(got, 0) || slices.Contains(got, 1) {
		t.Errorf("in random order the ranks are %v", got)
	}
	r.o.Strategy = frontier.OPIC{}
	r.reopen()
	if got := ranks(); !slices.Equal(got, []float32{0, 0, 0}) {
		t.Errorf("after random order the cash is %v", got)
	}
	check(t, r.c)
}

func TestGraphAndRanks(t *testing.T) {
	r := newRig(t)
	r.find("/a", "/b")
	r.visit("/a", 200, "A", "/b", "/c", "/a")
	r.visit("/c", 200, "C", "/a")
	var edges []string
	for range 2 {
		edges = edges[:0]
		must.OK(t, r.c.Graph(func(from frontier.PageID, to []frontier.PageID, damaged error) bool {
			edges = append(edges, fmt.Sprint(from, to))
			_, err := r.c.Commit(&collection.Commit{}) // it may write
			if err = errors.Join(damaged, err); err != nil {
				t.Fatal(err)
			}
			return true
		}))
	}
	wantAll(t, "links", edges, "1 [1 2 3]", "3 [1]")
	r.o.Strategy = frontier.Profit{}
	r.o.Quality = func(p *collection.Page, _ *collection.Site) float64 { return float64(p.Rank) }
	r.o.Policy = nil
	r.reopen()
	queue, err := r.c.SetRanks(func(yield func(frontier.PageID, float32) bool) {
		_ = yield(2, 0.25) && yield(77, 1) && yield(1, 0.5)
	})
	if err != nil || len(queue) != 1 || queue[0] != (frontier.Entry{Page: 2, Site: 1, Rank: 0.25}) {
		t.Errorf("queue %+v %v", queue, err)
	}
	if p := r.page("/b"); p.Rank != 0.25 || p.Value != 0.25 {
		t.Errorf("page %+v", p)
	}
	check(t, r.c)
}
