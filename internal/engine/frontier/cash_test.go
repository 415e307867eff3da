package frontier_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/parleyweb/parley/internal/engine/frontier"
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
	e.granted += fresh
	amount := e.cash[from] + fresh
	e.cash[from] = 0
	if to := e.links[from]; len(to) > 0 {
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
	list, err := f.Batch(1, o)
	if err != nil {
		t.Fatal(err)
	}
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
		if err := f.Share(p, fresh, e.links[p]); err != nil {
			t.Fatal(err)
		}
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
				e.store.Put(Entry{Page: p, Site: e.site(p)})
			}
			f, err := frontier.New(frontier.OPIC{}, &e.store, &o)
			if err != nil {
				t.Fatal(err)
			}
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

// The site whose pages have the most cash together comes first, and on it the richest page.
func TestRichestFirst(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	e := newEconomy(rng, 400)
	for p := PageID(1); p <= 400; p++ {
		e.store.Put(Entry{Page: p, Site: e.site(p)})
	}
	f, err := frontier.New(frontier.OPIC{}, &e.store, &frontier.Options{Step: 1, Memory: 1, PerSite: 3})
	if err != nil {
		t.Fatal(err)
	}
	for turn := range 300 {
		sum := map[SiteID]float64{}
		best := map[SiteID]float64{}
		for p, cash := range e.cash {
			if _, ok := e.store.Entry(p); ok {
				sum[e.site(p)] += cash
				best[e.site(p)] = max(best[e.site(p)], cash)
			}
		}
		list := e.crawlBefore(t, f)
		if len(list) != 1 || len(list[0].Entries) != 1 {
			t.Fatalf("turn %d: %v", turn, list)
		}
		got := list[0].Site
		for id, s := range sum {
			if s > sum[got] && !near(s, sum[got]) {
				t.Fatalf("batch %d: site %d with %v came first, but site %d has %v", turn, got, sum[got], id, s)
			}
		}
		if p := list[0].Entries[0].Page; e.cash[p] < best[got] && !near(e.cash[p], best[got]) {
			t.Fatalf("batch %d: page %d with %v came first, but another page of the site has %v", turn, p, e.cash[p], best[got])
		}
		p := list[0].Entries[0].Page
		e.store.Remove(p)
		f.Done([]PageID{p})
		if err := f.Share(p, 1, e.links[p]); err != nil {
			t.Fatal(err)
		}
		e.share(p, 1)
	}
}

func (e *economy) crawlBefore(t *testing.T, f *frontier.Frontier) []frontier.SiteEntries {
	t.Helper()
	list, err := f.Batch(1, frontier.BatchOptions{Size: 1})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// After a restart pages have the cash by which they were ranked, and the order continues.
func TestCashAfterRestart(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	e := newEconomy(rng, 300)
	for p := PageID(1); p <= 300; p++ {
		e.store.Put(Entry{Page: p, Site: e.site(p)})
	}
	o := frontier.Options{Step: 1}
	f, err := frontier.New(frontier.OPIC{}, &e.store, &o)
	if err != nil {
		t.Fatal(err)
	}
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
	f, err = frontier.New(frontier.OPIC{}, &e.store, &o)
	if err != nil {
		t.Fatal(err)
	}
	if after := order(f); !slices.Equal(before, after) {
		t.Errorf("the order was\n%v and is now\n%v", before, after)
	}
	if got, bank := f.Cash(); !near(got, queued) || bank != 0 {
		t.Errorf("pages have %v and the bank %v; the queue's ranks are %v together", got, bank, queued)
	}
}

// Invalid cash values do no damage.
func TestInvalidCash(t *testing.T) {
	var store frontier.MemoryStore
	store.Put(Entry{Page: 1, Site: 1, Rank: float32(math.NaN())})
	store.Put(Entry{Page: 2, Site: 1, Rank: -4})
	f := front(t, frontier.OPIC{}, &store)
	for _, fresh := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), -1, math.MaxFloat32} {
		if err := f.Share(1, fresh, []PageID{1, 2, 0, 1 << 40, 2}); err != nil {
			t.Fatal(err)
		}
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
