package frontier_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/parleyweb/parley/client/frontier"
)

type (
	Entry  = frontier.Entry
	SiteID = frontier.SiteID
	PageID = frontier.PageID
)

// A world is what surrounds a frontier: a store that is the truth, and
// somebody who records finds and visits in it and tells the frontier.
type world struct {
	t        *testing.T
	rng      *rand.Rand
	strategy frontier.Strategy
	options  *frontier.Options
	store    *frontier.MemoryStore
	front    *frontier.Frontier
	facts    map[PageID]frontier.Facts
	site     map[PageID]SiteID
	out      map[PageID]bool
	first    []PageID
	now      int64
}

func newWorld(t *testing.T, s frontier.Strategy, o *frontier.Options, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), strategy: s, options: o, store: &frontier.MemoryStore{},
		facts: map[PageID]frontier.Facts{}, site: map[PageID]SiteID{}, out: map[PageID]bool{}, now: 1000}
	w.restart()
	return w
}

// restart is what a killed crawler does: what was given out is forgotten.
func (w *world) restart() {
	f, err := frontier.New(w.strategy, w.store, w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	w.front = f
	clear(w.out)
	w.first = nil
}

func (w *world) entry(p PageID, at int64) Entry {
	return Entry{Page: p, Site: w.site[p], Rank: w.strategy.Page(w.facts[p]), At: at}
}

// find makes n new pages known.
func (w *world) find(n, sites int) {
	var list []Entry
	for range n {
		p := PageID(len(w.facts) + 1)
		w.site[p] = SiteID(1 + w.rng.IntN(1+w.rng.IntN(sites))) // few sites have most
		w.facts[p] = frontier.Facts{Page: p, Depth: w.rng.IntN(6), Value: float32(w.rng.IntN(20)) / 20, Told: w.rng.IntN(8) == 0}
		e := w.entry(p, 0)
		w.store.Put(e)
		list = append(list, e)
	}
	w.front.Add(list)
}

// page draws a known page.
func (w *world) page() PageID { return PageID(1 + w.rng.IntN(len(w.facts))) }

// change gives a page another value, and with it another place in the queue.
func (w *world) change() {
	p := w.page()
	if old, ok := w.store.Entry(p); ok && old.At != 0 {
		return
	}
	f := w.facts[p]
	f.Value, f.Told, f.Depth = float32(w.rng.IntN(20))/20, !f.Told, w.rng.IntN(6)
	w.facts[p] = f
	w.store.Put(w.entry(p, 0))
	w.front.Add([]Entry{w.entry(p, 0)})
}

// visit records that pages of the batch were asked for: some wait for another
// visit, some are to be asked again at once, some never. Others are given back.
func (w *world) visit(list []frontier.SiteEntries) {
	var done, back []PageID
	var ready []Entry
	for _, s := range list {
		for _, e := range s.Entries {
			if w.rng.IntN(5) == 0 {
				back = append(back, e.Page)
				continue
			}
			done = append(done, e.Page)
			switch w.rng.IntN(6) {
			case 0:
				w.store.Remove(e.Page)
			case 1:
				e := w.entry(e.Page, 0)
				w.store.Put(e)
				ready = append(ready, e)
			default:
				w.store.Put(w.entry(e.Page, w.now+1+int64(w.rng.IntN(50))))
			}
			delete(w.out, e.Page)
		}
	}
	for _, p := range back {
		delete(w.out, p)
	}
	w.front.Done(done)
	w.front.Add(ready)
	w.front.Return(back)
}

// brute is the batch as the words say it, with no thought for cost.
func (w *world) brute(o frontier.BatchOptions) []frontier.SiteEntries {
	for p := range w.facts {
		if e, ok := w.store.Entry(p); ok && e.At != 0 && e.At <= w.now {
			e.At = 0
			w.store.Put(e)
			w.front.Add([]Entry{e}) // as Promote would have told
		}
	}
	queues := map[SiteID][]Entry{}
	for p := range w.facts {
		if e, ok := w.store.Entry(p); ok && e.At == 0 && !w.out[p] {
			queues[e.Site] = append(queues[e.Site], e)
		}
	}
	type scored struct {
		site  SiteID
		score float32
	}
	var order []scored
	for id, q := range queues {
		slices.SortFunc(q, func(a, b Entry) int {
			return cmp.Or(cmp.Compare(b.Rank, a.Rank), cmp.Compare(a.Page, b.Page))
		})
		if o.Skip == nil || !o.Skip(id) {
			score := w.strategy.Site(frontier.SiteFacts{Site: id, Ready: len(q), Best: q[0].Rank})
			order = append(order, scored{id, score})
		}
	}
	slices.SortFunc(order, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.site, b.site))
	})
	var list []frontier.SiteEntries
	total := 0
	given := map[SiteID]int{}
	for total < o.Size {
		before := total
		for _, s := range order {
			for range o.Round {
				if total == o.Size || given[s.site] == o.SameSite || len(queues[s.site]) == 0 {
					break
				}
				i := slices.IndexFunc(list, func(e frontier.SiteEntries) bool { return e.Site == s.site })
				if i < 0 {
					i = len(list)
					list = append(list, frontier.SiteEntries{Site: s.site})
				}
				list[i].Entries = append(list[i].Entries, queues[s.site][0])
				queues[s.site] = queues[s.site][1:]
				given[s.site]++
				total++
			}
		}
		if total == before {
			break
		}
	}
	return list
}

func strategies() []frontier.Strategy {
	return []frontier.Strategy{frontier.BreadthFirst{}, frontier.LargerSites{}, frontier.ManifestFirst{},
		frontier.Random(7), frontier.Random(8), frontier.Profit{}}
}

// Whatever is found, changed, visited, given back and restarted, in memory of
// any size: a batch has what a sort of all entries would have put first.
func TestBatchIsWhatBruteForceTakes(t *testing.T) {
	for _, s := range strategies() {
		for _, o := range []*frontier.Options{nil, {Memory: 1, PerSite: 1}, {Memory: 40, PerSite: 7}} {
			t.Run(fmt.Sprintf("%s/%v", s.Name(), o), func(t *testing.T) {
				for seed := range uint64(12) {
					w := newWorld(t, s, o, seed)
					w.find(30, 12)
					for step := range 60 {
						w.step(step)
					}
				}
			})
		}
	}
}

func (w *world) step(step int) {
	w.t.Helper()
	switch w.rng.IntN(8) {
	case 0:
		w.find(w.rng.IntN(40), 12)
	case 1, 2:
		for range w.rng.IntN(10) {
			w.change()
		}
	case 3:
		p := w.page()
		if e, ok := w.store.Entry(p); ok {
			w.store.Remove(p)
			w.front.Drop([]Entry{e})
		}
	case 4:
		if w.rng.IntN(4) == 0 {
			w.restart()
		}
	}
	w.now += int64(w.rng.IntN(10))
	o := frontier.BatchOptions{Size: 1 + w.rng.IntN(40), SameSite: 1 + w.rng.IntN(8), Round: 1 + w.rng.IntN(3)}
	o.Round = min(o.Round, o.SameSite)
	if w.rng.IntN(3) == 0 {
		o.Skip = func(id SiteID) bool { return id%3 == 0 }
	}
	want := w.brute(o)
	got, err := w.front.Batch(w.now, o)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, s := range got {
		for i := range s.Entries {
			s.Entries[i].At = 0
			w.out[s.Entries[i].Page] = true
		}
	}
	if !slices.EqualFunc(got, want, func(a, b frontier.SiteEntries) bool {
		return a.Site == b.Site && slices.Equal(a.Entries, b.Entries)
	}) {
		w.t.Fatalf("step %d, %+v:\n got %v\nwant %v", step, o, got, want)
	}
	if w.rng.IntN(3) > 0 {
		w.visit(got)
	}
	if got, want := w.front.Len(), w.ready(); got != want {
		w.t.Fatalf("step %d: %d pages may be asked for, want %d", step, got, want)
	}
}

// ready counts the pages that may be asked for.
func (w *world) ready() (n int) {
	for p := range w.facts {
		if e, ok := w.store.Entry(p); ok && e.At == 0 && !w.out[p] {
			n++
		}
	}
	return n
}

// A store may change without a word to the frontier: pages vanish, wait, move
// and appear. Nothing that is ready is left out for ever, nothing is given
// out twice at a time, and only what changed is given out wrongly.
func TestUntoldChangesHeal(t *testing.T) {
	for _, o := range []*frontier.Options{nil, {Memory: 1, PerSite: 2}} {
		for seed := range uint64(40) {
			w := newWorld(t, frontier.Profit{}, o, seed)
			w.find(200, 6)
			left := map[PageID]bool{}
			for p := range w.facts {
				left[p] = true
			}
			stale := 0
			for turn := 0; ; turn++ {
				list, err := w.front.Batch(w.now, frontier.BatchOptions{Size: 20, SameSite: 10})
				if err != nil {
					t.Fatal(err)
				}
				if len(list) == 0 {
					break
				}
				if turn > 2000 {
					t.Fatal("no end")
				}
				for _, s := range list {
					for _, e := range s.Entries {
						if w.out[e.Page] {
							t.Fatalf("page %d is given out twice", e.Page)
						}
						w.out[e.Page] = true
						if own, ok := w.store.Entry(e.Page); ok && own.Rank == e.Rank && own.At == 0 {
							w.store.Remove(e.Page)
							delete(left, e.Page)
						} else {
							stale++
						}
					}
				}
				for range 3 { // meanwhile, behind its back
					p := w.page()
					e, ok := w.store.Entry(p)
					switch w.rng.IntN(3) {
					case 0:
						w.store.Remove(p)
						delete(left, p)
					case 1:
						if ok {
							e.Rank = float32(w.rng.IntN(20)) / 20
							w.store.Put(e)
						}
					case 2:
						if turn < 20 {
							w.store.Put(Entry{Page: p, Site: w.site[p], Rank: float32(w.rng.IntN(20)) / 20})
							left[p] = true
						}
					}
				}
				for p := range w.out {
					w.front.Done([]PageID{p})
				}
				clear(w.out)
			}
			for p := range left {
				if e, ok := w.store.Entry(p); ok {
					t.Fatalf("seed %d: page %d is still ready (%v) and not given out; %d were stale", seed, p, e, stale)
				}
			}
		}
	}
}

func pages(list []frontier.SiteEntries) (p []PageID) {
	for _, s := range list {
		for _, e := range s.Entries {
			p = append(p, e.Page)
		}
	}
	return p
}

func batch(t *testing.T, f *frontier.Frontier, now int64, o frontier.BatchOptions) []PageID {
	t.Helper()
	list, err := f.Batch(now, o)
	if err != nil {
		t.Fatal(err)
	}
	return pages(list)
}

func front(t *testing.T, s frontier.Strategy, store frontier.Store) *frontier.Frontier {
	t.Helper()
	f, err := frontier.New(s, store, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The thesis's own example (fig 7.1, V07): the profits of three pages are
// 0.36, 0.07 and 0.6, and the batch of two has the third and the first.
func TestThesisExample(t *testing.T) {
	var store frontier.MemoryStore
	for i, profit := range []float32{0.36, 0.07, 0.6} {
		store.Put(Entry{Page: PageID(i + 1), Site: SiteID(i + 1), Rank: frontier.Profit{}.Page(frontier.Facts{Value: profit})})
	}
	if got := batch(t, front(t, frontier.Profit{}, &store), 0, frontier.BatchOptions{Size: 2}); !slices.Equal(got, []PageID{3, 1}) {
		t.Errorf("the batch is %v", got)
	}
}

// On demand is first in line (V01), even of a site that would come last, and of a page that
// nobody would ask for yet; the batch before does not have to be done.
func TestOnDemandIsFirst(t *testing.T) {
	var store frontier.MemoryStore
	for p := range PageID(50) {
		store.Put(Entry{Page: p + 1, Site: SiteID(p%5 + 1), Rank: float32(p)})
	}
	store.Put(Entry{Page: 51, Site: 1, At: 1 << 50})
	f := front(t, frontier.Profit{}, &store)
	if got := batch(t, f, 1, frontier.BatchOptions{Size: 2}); !slices.Equal(got, []PageID{50, 49}) {
		t.Fatalf("the first batch is %v", got)
	}
	f.First(Entry{Page: 3, Site: 3})
	f.First(Entry{Page: 51, Site: 1})
	f.First(Entry{Page: 3, Site: 3})  // once is enough
	f.First(Entry{Page: 50, Site: 5}) // is being asked for
	busy := func(s SiteID) bool { return s == 1 }
	if got := batch(t, f, 1, frontier.BatchOptions{Size: 2, Skip: busy}); !slices.Equal(got, []PageID{3, 48}) {
		t.Fatalf("the second batch is %v, want page 3 first and 51 left for later", got)
	}
	f.Return([]PageID{3})
	if got := batch(t, f, 1, frontier.BatchOptions{Size: 3}); !slices.Equal(got, []PageID{51, 3, 47}) {
		t.Fatalf("the third batch is %v", got)
	}
	f.Done([]PageID{3, 51})
	store.Remove(3)
	for seen := map[PageID]bool{}; ; {
		got := batch(t, f, 1, frontier.BatchOptions{Size: 7})
		if len(got) == 0 {
			break
		}
		for _, p := range got {
			if seen[p] || p == 3 || p == 51 {
				t.Errorf("page %d is given out again", p)
			}
			seen[p] = true
		}
	}
	if n := f.Len(); n != 0 {
		t.Errorf("%d pages are left", n)
	}
}

// What is put into the open cycle is taken at once, wherever it stands, and by one only.
func TestTake(t *testing.T) {
	var store frontier.MemoryStore
	for p := PageID(1); p <= 5; p++ {
		store.Put(Entry{Page: p, Site: 1})
	}
	f := front(t, nil, &store)
	f.First(Entry{Page: 4, Site: 1})
	if !f.Take(Entry{Page: 4, Site: 1}) || f.Take(Entry{Page: 4, Site: 1}) {
		t.Fatal("page 4 can be taken not at all, or twice")
	}
	if got := batch(t, f, 0, frontier.BatchOptions{Size: 2}); !slices.Equal(got, []PageID{1, 2}) {
		t.Fatalf("the batch is %v", got)
	}
	if f.Take(Entry{Page: 2, Site: 1}) {
		t.Error("page 2 is in the batch, and taken")
	}
	if !f.Take(Entry{Page: 5, Site: 1}) || !f.Take(Entry{Page: 9, Site: 3}) {
		t.Error("what stands deep in the queue, or not in it, cannot be taken")
	}
	f.Return([]PageID{9, 4})
	if got := batch(t, f, 0, frontier.BatchOptions{}); !slices.Equal(got, []PageID{9, 4, 3}) {
		t.Errorf("then come %v", got)
	}
}

// A page that stands deep in a long queue is taken from there for First, and
// its site gives no more than its share with it; what the site then has less
// than it seemed, others give.
func TestOnDemandFromTheDepth(t *testing.T) {
	var store frontier.MemoryStore
	for p := PageID(1); p <= 20; p++ {
		store.Put(Entry{Page: p, Site: 1})
		store.Put(Entry{Page: p + 20, Site: 2})
	}
	f, err := frontier.New(nil, &store, &frontier.Options{PerSite: 2, Memory: 1})
	if err != nil {
		t.Fatal(err)
	}
	for p := PageID(11); p <= 20; p++ {
		f.First(Entry{Page: p, Site: 1})
	}
	list, err := f.Batch(0, frontier.BatchOptions{Size: 3, SameSite: 1})
	if got := pages(list); err != nil || !slices.Equal(got, []PageID{11, 21}) {
		t.Fatalf("of each site comes one: %v, %v", got, err)
	}
	if got := batch(t, f, 0, frontier.BatchOptions{Size: 9}); !slices.Equal(got, []PageID{12, 13, 14, 15, 16, 17, 18, 19, 20}) {
		t.Fatalf("then comes what is asked for: %v", got)
	}
	// Site 1 seems to have 20 pages, and has 10.
	got := batch(t, f, 0, frontier.BatchOptions{Size: 26})
	slices.Sort(got)
	want := []PageID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37}
	if !slices.Equal(got, want) {
		t.Errorf("then come %v", got)
	}
	if got := batch(t, f, 0, frontier.BatchOptions{}); !slices.Equal(got, []PageID{38, 39, 40}) || f.Out() != 40 {
		t.Errorf("then come %v; %d are out", got, f.Out())
	}
}

// Batches are made while visits are recorded: between a commit and the Done
// and Add that tell of it the store is ahead of the frontier.
func TestBatchBetweenCommitAndDone(t *testing.T) {
	var store frontier.MemoryStore
	for p := PageID(1); p <= 3; p++ {
		store.Put(Entry{Page: p, Site: 1})
	}
	f := front(t, nil, &store)
	if got := batch(t, f, 0, frontier.BatchOptions{}); len(got) != 3 {
		t.Fatalf("the batch is %v", got)
	}
	store.Remove(1) // the visits, which found pages 4 and 5
	store.Remove(2)
	store.Remove(3)
	if got := batch(t, f, 0, frontier.BatchOptions{}); len(got) != 0 {
		t.Errorf("all are given out, and %v again", got)
	}
	found := []Entry{{Page: 4, Site: 1}, {Page: 5, Site: 1}}
	for _, e := range found {
		store.Put(e)
	}
	early := batch(t, f, 0, frontier.BatchOptions{Size: 1})
	f.Done([]PageID{1, 2, 3})
	f.Add(found)
	if n := f.Len(); n != 2-len(early) {
		t.Errorf("%d pages are left", n)
	}
	late := batch(t, f, 0, frontier.BatchOptions{})
	if all := slices.Sorted(slices.Values(append(early, late...))); !slices.Equal(all, []PageID{4, 5}) {
		t.Errorf("the finds come as %v and %v", early, late)
	}
	if f.Len() != 0 || f.Out() != 2 || f.Sites() != 0 {
		t.Errorf("%d are left, %d are out, of %d sites", f.Len(), f.Out(), f.Sites())
	}
}

// What waits is given out when its time has come, and Wake says when that is.
func TestWaitingPages(t *testing.T) {
	var store frontier.MemoryStore
	f := front(t, nil, &store)
	if at := f.Wake(5); at != 0 {
		t.Errorf("nothing waits, and Wake says %d", at)
	}
	store.Put(Entry{Page: 1, Site: 1, At: 300})
	store.Put(Entry{Page: 2, Site: 2, At: 200})
	if at := f.Wake(5); at != 200 {
		t.Errorf("Wake says %d, want 200", at)
	}
	if got := batch(t, f, 199, frontier.BatchOptions{}); len(got) != 0 {
		t.Errorf("%v is given out too early", got)
	}
	if got := batch(t, f, 200, frontier.BatchOptions{}); !slices.Equal(got, []PageID{2}) {
		t.Errorf("at 200 the batch is %v", got)
	}
	if at := f.Wake(400); at != 400 {
		t.Errorf("page 1 waited for 300, and at 400 Wake says %d", at)
	}
	if got := batch(t, f, 400, frontier.BatchOptions{}); !slices.Equal(got, []PageID{1}) {
		t.Errorf("at 400 the batch is %v", got)
	}
}

// As many sites as possible (S07): with less room than sites every page is of
// another site, and no site ever gives more than its share (G13).
func TestManySitesInABatch(t *testing.T) {
	var store frontier.MemoryStore
	page := PageID(0)
	for site := SiteID(1); site <= 40; site++ {
		for range int(site) * 10 {
			page++
			store.Put(Entry{Page: page, Site: site})
		}
	}
	f := front(t, frontier.LargerSites{}, &store)
	list, err := f.Batch(0, frontier.BatchOptions{Size: 30})
	if err != nil || len(list) != 30 || list[0].Site != 40 || list[29].Site != 11 {
		t.Fatalf("a batch of 30 has %d sites: %v, %v", len(list), list, err)
	}
	list, err = f.Batch(0, frontier.BatchOptions{Size: 4000, SameSite: 25})
	if err != nil || len(list) != 40 {
		t.Fatalf("%d sites, %v", len(list), err)
	}
	for _, s := range list {
		if n := len(s.Entries); n > 25 || s.Site >= 3 && n < 25 {
			t.Errorf("site %d gives %d pages", s.Site, n)
		}
	}
	if got, want := f.Out(), len(pages(list))+30; got != want {
		t.Errorf("%d pages are given out, want %d", got, want)
	}
	if got, want := f.Len(), int(page)-f.Out(); got != want {
		t.Errorf("%d pages are left, want %d", got, want)
	}
	if got := f.Sites(); got != 38 { // the two smallest have nothing left
		t.Errorf("%d sites have pages left", got)
	}
}

// A site whose store fails takes nothing with it: what the batch had is in its place again.
func TestFailingStore(t *testing.T) {
	var store frontier.MemoryStore
	for p := range PageID(300) {
		store.Put(Entry{Page: p + 1, Site: SiteID(p%3 + 1)})
	}
	broken := &brokenStore{Store: &store}
	f, err := frontier.New(nil, broken, &frontier.Options{PerSite: 10})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 12 {
		broken.after = n
		if _, err := f.Batch(0, frontier.BatchOptions{}); err == nil {
			continue
		} else if !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
		if f.Out() != 0 {
			t.Fatalf("after a failure %d pages are given out", f.Out())
		}
	}
	broken.after = 1 << 30
	if got := batch(t, f, 0, frontier.BatchOptions{}); len(got) != 300-f.Out()+len(got) {
		t.Errorf("%d pages come in the end", len(got))
	}
}

var errBroken = errors.New("broken")

type brokenStore struct {
	frontier.Store
	after int
}

func (b *brokenStore) Head(s SiteID, e Entry, n int) ([]Entry, error) {
	if b.after--; b.after < 0 {
		return nil, errBroken
	}
	return b.Store.Head(s, e, n)
}

func TestNamed(t *testing.T) {
	for _, name := range []string{"breadth-first", "larger-sites-first", "opic", "manifest-first", "random", "profit"} {
		if s, err := frontier.Named(name, 3); err != nil || s.Name() != name {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
	if s, err := frontier.Named("best-first", 0); err == nil {
		t.Errorf("best-first is %v", s)
	}
}
