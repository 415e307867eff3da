package frontier_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/must"
)

// A MemoryStore behaves like a map and a sort, over thousands of changes: its
// lists are split into blocks and its blocks become empty.
func TestMemoryStoreAgainstMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var m frontier.MemoryStore
	truth := map[PageID]Entry{}
	list := func(keep func(Entry) bool, less func(a, b Entry) int) (l []Entry) {
		for _, e := range truth {
			if keep(e) {
				l = append(l, e)
			}
		}
		slices.SortFunc(l, less)
		return l
	}
	byRank := func(a, b Entry) int { return cmp.Or(cmp.Compare(b.Rank, a.Rank), cmp.Compare(a.Page, b.Page)) }
	byTime := func(a, b Entry) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Page, b.Page)) }
	now := int64(1)
	for step := range 30_000 {
		p := PageID(1 + rng.IntN(4000))
		switch rng.IntN(8) {
		case 0:
			m.Remove(p)
			delete(truth, p)
		case 1:
			e := Entry{Page: p, Site: SiteID(p%3 + 1), Rank: float32(rng.IntN(9)), At: now + int64(rng.IntN(5000))}
			m.Put(e)
			truth[p] = e
		default:
			e := Entry{Page: p, Site: SiteID(p%3 + 1), Rank: float32(rng.IntN(9))}
			m.Put(e)
			truth[p] = e
		}
		if step%500 != 0 {
			continue
		}
		now += 100
		n := rng.IntN(100)
		due := list(func(e Entry) bool { return e.At != 0 && e.At <= now }, byTime)
		due = due[:min(n, len(due))]
		for i := range due {
			due[i].At = 0
			truth[due[i].Page] = due[i]
		}
		if got, err := m.Promote(now, n); err != nil || !slices.Equal(got, due) {
			t.Fatalf("step %d: promoted %v, %v; want %v", step, got, err, due)
		}
		var next int64
		if w := list(func(e Entry) bool { return e.At != 0 }, byTime); len(w) > 0 {
			next = w[0].At
		}
		if got, err := m.Next(); err != nil || got != next {
			t.Fatalf("step %d: next is %d, %v; want %d", step, got, err, next)
		}
		counts := map[SiteID]int{}
		must.OK(t, m.Sites(func(s SiteID, n int) error { counts[s] = n; return nil }))
		for s := SiteID(1); s <= 3; s++ {
			want := list(func(e Entry) bool { return e.Site == s && e.At == 0 }, byRank)
			if counts[s] != len(want) {
				t.Fatalf("step %d: site %d has %d ready, want %d", step, s, counts[s], len(want))
			}
			var got []Entry
			after := Entry{}
			for n := 1 + rng.IntN(200); ; {
				l := must.Get(m.Head(s, after, n))
				got = append(got, l...)
				if len(l) < n {
					break
				}
				after = l[len(l)-1]
			}
			if !slices.Equal(got, want) {
				t.Fatalf("step %d: site %d has\n%v\nwant\n%v", step, s, got, want)
			}
			if len(want) > 0 { // what was never there has a place too
				gap := Entry{Page: 5000, Site: s, Rank: want[len(want)/2].Rank}
				i, _ := slices.BinarySearchFunc(want, gap, byRank)
				if l, err := m.Head(s, gap, 3); err != nil || !slices.Equal(l, want[i:min(i+3, len(want))]) {
					t.Fatalf("step %d: after %v comes %v, %v", step, gap, l, err)
				}
			}
		}
	}
}

// However many pages of however many sites are found, memory stays bounded, and all of them come out.
func TestMemoryIsBounded(t *testing.T) {
	var store frontier.MemoryStore
	f := must.Get(frontier.New(frontier.BreadthFirst{}, &store, &frontier.Options{Memory: 2000, PerSite: 100}))
	rng := rand.New(rand.NewPCG(1, 2))
	check := func() {
		t.Helper()
		if held, bound := f.Held(), max(2000, 4*f.Sites()); held > bound {
			t.Fatalf("%d entries are in memory, of %d sites", held, f.Sites())
		}
	}
	const n = 60_000
	for p := PageID(1); p <= n; {
		var list []Entry
		for range 50 {
			e := Entry{Page: p, Site: SiteID(1 + rng.IntN(1+rng.IntN(900))), Rank: -float32(rng.IntN(5))}
			store.Put(e)
			list = append(list, e)
			p++
		}
		f.Add(list)
		check()
	}
	total := 0
	for {
		got := batch(t, f, 0, frontier.BatchOptions{Size: 7000})
		if len(got) == 0 {
			break
		}
		check()
		total += len(got)
		for _, p := range got {
			store.Remove(p)
		}
		f.Done(got)
	}
	if total != n {
		t.Errorf("%d pages came out", total)
	}
}
