package frontier_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/must"
)

// An economy is a small Web under OPIC, with its accounts kept in the slow, simple way.
type economy struct {
	store   frontier.MemoryStore
	links   map[PageID][]PageID
	cash    map[PageID]float64
	bank    float64
	granted float64
	visited map[PageID]bool
}

func newEconomy(rng *rand.Rand, n int) *economy {
	e := &economy{links: map[PageID][]PageID{}, cash: map[PageID]float64{}, visited: map[PageID]bool{}}
	for p := PageID(1); p <= PageID(n); p++ {
		for range rng.IntN(3) * rng.IntN(6) { // a third leads nowhere
			e.links[p] = append(e.links[p], PageID(1+rng.IntN(1+rng.IntN(n))))
		}
	}
	return e
}

func (e *economy) site(p PageID) SiteID { return SiteID(p%7 + 1) }

func (e *economy) share(from PageID, fresh float64) {
	amount := e.cash[from]
	e.cash[from] = 0
	if to := e.links[from]; len(to) > 0 {
		if amount == 0 {
			amount = fresh
			e.granted += fresh
		}
		amount += e.bank / 1000
		e.bank -= e.bank / 1000
		for _, p := range to {
			e.cash[p] += amount / float64(len(to))
		}
		return
	}
	e.bank += amount
}

// crawl requests a batch, and distributes the cash of its pages to their links.
func (e *economy) crawl(t *testing.T, f *frontier.Frontier, o frontier.BatchOptions) []frontier.SiteEntries {
	t.Helper()
	list := must.Get(f.Batch(1, o))
	for _, p := range pages(list) {
		e.store.Remove(p)
		f.Done([]PageID{p})
		fresh := float32(1)
		if e.visited[p] {
			fresh = 0
		}
		e.visited[p] = true
		for _, q := range e.links[p] {
			if _, known := e.store.Entry(q); !known && !e.visited[q] {
				x := Entry{Page: q, Site: e.site(q)}
				e.store.Put(x)
				f.Add([]Entry{x})
			}
		}
		must.OK(t, f.Share(p, fresh, e.links[p]))
		e.share(p, float64(fresh))
	}
	return list
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-4*max(math.Abs(a), math.Abs(b), 1e-3) }

// No cash is lost or created, whatever the links; every page is in the
// queue at its cash, or at no less than a Step'th of it.
func TestCashIsConserved(t *testing.T) {
	for _, o := range []frontier.Options{{Step: 1}, {}, {Step: 1, Memory: 1, PerSite: 2}, {Step: 3, Memory: 30, PerSite: 2}} {
		t.Run(fmt.Sprint(o), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 4))
			e := newEconomy(rng, 600)
			for p := PageID(1); p <= 4; p++ {
				e.store.Put(Entry{Page: p, Site: e.site(p), Rank: frontier.OPIC{}.Page(frontier.Facts{Start: true})})
				e.cash[p] = 1
				e.granted++
			}
			f := must.Get(frontier.New(frontier.OPIC{}, &e.store, &o))
			step := max(float64(o.Step), 1)
			if o.Step == 0 {
				step = 2
			}
			for turn := 0; len(e.crawl(t, f, frontier.BatchOptions{Size: 1 + rng.IntN(9), Round: 2})) > 0; turn++ {
				if turn%5 == 4 { // some are fetched again, and have cash to give again
					for p := range e.visited {
						if _, ok := e.store.Entry(p); !ok && rng.IntN(9) == 0 && turn < 60 {
							x := Entry{Page: p, Site: e.site(p)}
							e.store.Put(x)
							f.Add([]Entry{x})
						}
					}
				}
				inPages, bank := f.Cash()
				if math.Abs(inPages+bank-e.granted) > 1e-9*e.granted || !near(bank, e.bank) {
					t.Fatalf("pages have %v and the bank %v: %v was granted, and the bank must have %v", inPages, bank, e.granted, e.bank)
				}
				if list, err := f.Batch(1, frontier.BatchOptions{Size: 1}); err != nil { // settles
					t.Fatal(err)
				} else {
					f.Return(pages(list))
				}
				for p, cash := range e.cash {
					if x, ok := e.store.Entry(p); ok && (float64(x.Rank) > cash*1.001+1e-9 || float64(x.Rank)*step < cash*.999-1e-9) {
						t.Fatalf("page %d has %v, but is queued at %v", p, cash, x.Rank)
					}
				}
			}
			if len(e.visited) < 100 {
				t.Fatalf("only %d pages were found", len(e.visited))
			}
		})
	}
}

// The page with the most cash comes first, however rich its site is.
func TestRichestFirst(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	e := newEconomy(rng, 400)
	for p := PageID(1); p <= 400; p++ {
		e.store.Put(Entry{Page: p, Site: e.site(p)})
	}
	f := must.Get(frontier.New(frontier.OPIC{}, &e.store, &frontier.Options{Step: 1, Memory: 1, PerSite: 3}))
	for turn := range 300 {
		richest := 0.
		for p, cash := range e.cash {
			if _, ok := e.store.Entry(p); ok {
				richest = max(richest, cash)
			}
		}
		list, err := f.Batch(1, frontier.BatchOptions{Size: 1})
		if got := pages(list); err != nil || len(got) != 1 {
			t.Fatalf("turn %d: %v, %v", turn, list, err)
		}
		p := list[0].Entries[0].Page
		if e.cash[p] < richest && !near(e.cash[p], richest) {
			t.Fatalf("batch %d: page %d with %v came first, but another has %v", turn, p, e.cash[p], richest)
		}
		e.store.Remove(p)
		f.Done([]PageID{p})
		must.OK(t, f.Share(p, 1, e.links[p]))
		e.share(p, 1)
	}
}

// Links count once, however often their page is fetched, and a page that is fetched again keeps its count. After a
// restart the pages of the queue have theirs.
func TestLinksAreCountedOnce(t *testing.T) {
	var store frontier.MemoryStore
	for p := PageID(1); p <= 5; p++ {
		store.Put(Entry{Page: p, Site: SiteID(p)})
	}
	f := front(t, frontier.BacklinkCount{}, &store)
	fetch := func(p PageID, fresh float32, to ...PageID) {
		t.Helper()
		if !f.Take(Entry{Page: p, Site: SiteID(p)}) {
			t.Fatalf("page %d is out", p)
		}
		f.Done([]PageID{p})
		e := Entry{Page: p, Site: SiteID(p)}
		store.Put(e)
		must.OK(t, f.Share(p, fresh, to))
		f.Add([]Entry{e})
	}
	check := func(want ...PageID) {
		t.Helper()
		got := batch(t, f, 1, frontier.BatchOptions{})
		if f.Return(got); !slices.Equal(got, want) {
			t.Errorf("the order is %v, want %v", got, want)
		}
	}
	fetch(1, 1, 5)
	fetch(1, 0, 5, 2)
	fetch(1, 0, 5, 2)
	fetch(3, 1, 4, 4, 1)
	check(4, 1, 5, 2, 3)
	fetch(4, 1, 1, 1)
	check(1, 4, 5, 2, 3)
	f = front(t, frontier.BacklinkCount{}, &store)
	check(1, 4, 5, 2, 3)
	fetch(2, 1, 5, 5)
	check(1, 5, 4, 2, 3)
}

// Ranks from outside move pages up and down, also pages that are given out or not found yet; after a restart they are
// those of the queue.
func TestSetRanks(t *testing.T) {
	s := must.Get(frontier.Named("batch-pagerank", 0))
	var store frontier.MemoryStore
	for p := PageID(1); p <= 4; p++ {
		store.Put(Entry{Page: p, Site: 1})
	}
	f := front(t, s, &store)
	ranks := func(list ...float32) {
		t.Helper()
		must.OK(t, f.SetRanks(func(yield func(PageID, float32) bool) {
			for i, rank := range list {
				if !yield(PageID(i+1), rank) {
					return
				}
			}
		}))
	}
	check := func(want ...PageID) {
		t.Helper()
		got := batch(t, f, 1, frontier.BatchOptions{})
		if f.Return(got); !slices.Equal(got, want) {
			t.Errorf("the order is %v, want %v", got, want)
		}
	}
	ranks(.1, .2, .3, .4, .25)
	check(4, 3, 2, 1)
	if got := batch(t, f, 1, frontier.BatchOptions{Size: 2}); !slices.Equal(got, []PageID{4, 3}) {
		t.Fatalf("%v are given out", got)
	}
	ranks(float32(math.NaN()), .2, .35, -1, .25)
	f.Return([]PageID{4, 3})
	found := []Entry{{Page: 5, Site: 1}, {Page: 6, Site: 1}}
	for _, e := range found {
		store.Put(e)
	}
	f.Add(found)
	check(3, 5, 2, 1, 4, 6)
	f = front(t, s, &store)
	check(3, 5, 2, 1, 4, 6)
	ranks(.1, .2, float32(math.Inf(1)))
	check(3, 5, 2, 1, 4, 6)
}

// After a restart pages have the cash by which they were ranked, and the order continues.
func TestCashAfterRestart(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	e := newEconomy(rng, 300)
	for p := PageID(1); p <= 300; p++ {
		e.store.Put(Entry{Page: p, Site: e.site(p)})
	}
	o := frontier.Options{Step: 1}
	f := must.Get(frontier.New(frontier.OPIC{}, &e.store, &o))
	for range 20 {
		e.crawl(t, f, frontier.BatchOptions{Size: 5})
	}
	order := func(f *frontier.Frontier) []PageID {
		got := batch(t, f, 1, frontier.BatchOptions{SameSite: 1 << 20, Round: 1 << 20})
		f.Return(got)
		return got
	}
	before := order(f)
	var queued float64
	for p := range e.cash {
		if x, ok := e.store.Entry(p); ok {
			queued += float64(x.Rank)
		}
	}
	f = must.Get(frontier.New(frontier.OPIC{}, &e.store, &o))
	if after := order(f); !slices.Equal(before, after) {
		t.Errorf("the order was\n%v and is now\n%v", before, after)
	}
	if got, bank := f.Cash(); !near(got, queued) || bank != 0 {
		t.Errorf("pages have %v and the bank %v; the queue's ranks are %v together", got, bank, queued)
	}
}

// Rounding may leave the bank with less than nothing: then it lends nothing, or pages would owe it.
func TestNoPageHasLessThanNothing(t *testing.T) {
	var store frontier.MemoryStore
	store.Put(Entry{Page: 1, Site: 1, Rank: 1})
	for p := PageID(2); p <= 9; p++ {
		store.Put(Entry{Page: p, Site: 1})
	}
	f := front(t, frontier.OPIC{}, &store)
	must.OK(t, f.Share(1, 1, []PageID{2, 3, 4}))
	if _, bank := f.Cash(); bank >= 0 {
		t.Fatalf("a third is rounded up, but the bank has %v", bank)
	}
	if err := f.Share(9, 0, []PageID{5, 6}); err != nil { // it has nothing
		t.Fatal(err)
	}
	if got := batch(t, f, 0, frontier.BatchOptions{}); !slices.Equal(got, []PageID{2, 3, 4, 1, 5, 6, 7, 8, 9}) {
		t.Errorf("the order is %v", got)
	}
}

// A reranker counts how many pages are moved at a time.
type reranker struct {
	frontier.MemoryStore
	calls, most int
}

func (r *reranker) Rerank(old, new []Entry) error {
	r.calls++
	r.most = max(r.most, len(old))
	return r.MemoryStore.Rerank(old, new)
}

// However many pages move, neither one transaction nor the memory of their site grows beyond its limit.
func TestManyPagesMove(t *testing.T) {
	const n = 400_000
	var store reranker
	for p := PageID(1); p <= n; p++ {
		store.Put(Entry{Page: p, Site: 1})
	}
	f := must.Get(frontier.New(frontier.OPIC{}, &store, &frontier.Options{PerSite: 100}))
	batch(t, f, 0, frontier.BatchOptions{Size: 1})
	must.OK(t, f.SetRanks(func(yield func(PageID, float32) bool) {
		for p := PageID(2); p <= n && yield(p, float32(p)); p++ {
		}
	}))
	if store.calls == 0 {
		t.Error("no page has moved before the next batch")
	}
	if got := batch(t, f, 0, frontier.BatchOptions{Size: 3}); !slices.Equal(got, []PageID{n, n - 1, n - 2}) {
		t.Errorf("the first pages are %v", got)
	}
	if store.most > 10_000 || f.Held() > 200 {
		t.Errorf("%d pages move at a time; %d are in memory", store.most, f.Held())
	}
}

// What pages got since the last batch is stored by Settle, for the next Frontier. The cash of a page that waits moves it as
// soon as it is due.
func TestSettle(t *testing.T) {
	var store frontier.MemoryStore
	for p := PageID(1); p <= 3; p++ {
		store.Put(Entry{Page: p, Site: SiteID(p)})
	}
	store.Put(Entry{Page: 4, Site: 4, At: 100})
	f := front(t, frontier.OPIC{}, &store)
	for _, to := range [][]PageID{{3, 4, 4}, {2}} {
		must.OK(t, f.Share(1, 1, to))
	}
	must.OK(t, f.Settle())
	if got := batch(t, front(t, frontier.OPIC{}, &store), 1, frontier.BatchOptions{}); !slices.Equal(got, []PageID{2, 3, 1}) {
		t.Errorf("after a restart the order is %v", got)
	}
	if got := batch(t, f, 100, frontier.BatchOptions{}); !slices.Equal(got, []PageID{2, 4, 3, 1}) {
		t.Errorf("the order is %v", got)
	}
}

// Invalid cash values do no damage.
func TestInvalidCash(t *testing.T) {
	var store frontier.MemoryStore
	store.Put(Entry{Page: 1, Site: 1, Rank: float32(math.NaN())})
	store.Put(Entry{Page: 2, Site: 1, Rank: -4})
	f := front(t, frontier.OPIC{}, &store)
	for _, fresh := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), -1, math.MaxFloat32} {
		must.OK(t, f.Share(1, fresh, []PageID{1, 2, 0, 1 << 40, 2}))
	}
	if got := batch(t, f, 0, frontier.BatchOptions{}); len(got) != 2 {
		t.Errorf("the batch is %v", got)
	}
	if inPages, bank := f.Cash(); math.IsNaN(inPages+bank) || math.IsInf(inPages+bank, 0) {
		t.Errorf("pages have %v and the bank %v", inPages, bank)
	}
	if err := front(t, nil, &store).Share(1, 1, []PageID{2}); err != nil {
		t.Errorf("without a Sharer: %v", err)
	}
}
