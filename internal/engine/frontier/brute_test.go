package frontier_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/must"
)

// A world is the surroundings of a frontier: a store that is authoritative, and
// a crawler that records finds and visits in it and notifies the frontier.
type world struct {
	t        *testing.T
	rng      *rand.Rand
	strategy frontier.Strategy
	options  *frontier.Options
	store    *frontier.MemoryStore
	front    *frontier.Frontier
	facts    map[PageID]frontier.Facts
	site     map[PageID]SiteID
	speed    map[SiteID]frontier.Speed
	out      map[PageID]bool
	now      int64
	per      int // see Small

	// For a Sharer: what pages have, and what waiting ones had before a restart.
	cash, kept map[PageID]float32
}

// The two ways to make a batch: with a heap of the sites, and from a list of all.
const (
	byHeap = 0
	byList = 1 << 30
)

func newWorld(t *testing.T, s frontier.Strategy, o *frontier.Options, per int, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), strategy: s, options: o, store: &frontier.MemoryStore{}, per: per,
		facts: map[PageID]frontier.Facts{}, site: map[PageID]SiteID{}, speed: map[SiteID]frontier.Speed{}, out: map[PageID]bool{}, now: 1000,
		cash: map[PageID]float32{}, kept: map[PageID]float32{}}
	w.restart()
	return w
}

// measure gives the world's sites speeds, exact ones: all means are exact.
func (w *world) measure(sites int) {
	o := frontier.Options{}
	if w.options != nil {
		o = *w.options
	}
	o.Step, o.Speed = 1, func(id SiteID) frontier.Speed { return w.speed[id] }
	w.options = &o
	for id := SiteID(1); id <= SiteID(sites); id++ {
		w.speed[id] = someSpeed(w.rng)
	}
	w.restart()
}

// someSpeed is unknown in part, of times in eighths of a second.
func someSpeed(rng *rand.Rand) frontier.Speed {
	eighths := func() float64 { return float64(rng.IntN(3)*rng.IntN(9)) / 8 }
	return frontier.Speed{Connect: eighths(), Response: eighths(), PerConnection: rng.IntN(6), Pipelined: rng.IntN(3) == 0, Busy: rng.IntN(6) == 0}
}

// whole is a site's speed with nothing unknown.
func whole(speeds map[SiteID]frontier.Speed, id SiteID) frontier.Speed {
	connect, response, n, m := 0., 0., 0., 0.
	for _, s := range speeds {
		if s.Connect > 0 {
			connect, n = connect+s.Connect, n+1
		}
		if s.Response > 0 {
			response, m = response+s.Response, m+1
		}
	}
	s := speeds[id]
	switch {
	case s.Connect > 0:
	case n > 0:
		s.Connect = connect / n
	default:
		s.Connect = 1
	}
	switch {
	case s.Response > 0:
	case m > 0:
		s.Response = response / m
	default:
		s.Response = 1
	}
	if s.PerConnection == 0 {
		s.PerConnection = 50
	}
	return s
}

// restart simulates a killed crawler: the pages handed out are forgotten.
func (w *world) restart() {
	f := must.Get(frontier.New(w.strategy, w.store, w.options))
	f.Small(w.per)
	f.ExactMeans()
	for id := range w.speed {
		f.Moved(id)
	}
	w.front = f
	clear(w.out)
	for p := range w.facts {
		e, _ := w.store.Entry(p)
		w.cash[p], w.kept[p] = e.Rank, 0
		if e.At != 0 {
			w.cash[p], w.kept[p] = 0, e.Rank
		}
	}
}

func (w *world) shares() bool { _, ok := w.strategy.(frontier.Sharer); return ok }

// entry is a page's. Under a Sharer its rank may be of any age.
func (w *world) entry(p PageID, at int64) Entry {
	if w.shares() {
		old, _ := w.store.Entry(p)
		return Entry{Page: p, Site: w.site[p], Rank: old.Rank, At: at}
	}
	return Entry{Page: p, Site: w.site[p], Rank: w.strategy.Page(w.facts[p]), At: at}
}

// pay has a page pass on what the strategy says; setRanks gives pages any ranks.
func (w *world) pay() {
	from, fresh := w.page(), float32(w.rng.IntN(2))
	var to []PageID
	for range w.rng.IntN(6) {
		to = append(to, w.page())
	}
	must.OK(w.t, w.front.Share(from, fresh, to))
	for _, p := range to {
		if _, counts := w.strategy.(frontier.BacklinkCount); counts {
			w.cash[p] += fresh
		}
	}
}

func (w *world) setRanks() {
	ranks := map[PageID]float32{}
	for range w.rng.IntN(10) {
		p := w.page()
		ranks[p] = float32(w.rng.IntN(9))
		w.cash[p], w.kept[p] = ranks[p], 0
	}
	must.OK(w.t, w.front.SetRanks(maps.All(ranks)))
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

// visit records that pages of the batch were fetched: some wait for another
// visit, some are due again at once, some never. Others are given back.
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

// brute computes a batch by its definition, without regard to cost.
func (w *world) brute(o frontier.BatchOptions) []frontier.SiteEntries {
	queues := map[SiteID][]Entry{}
	for p := range w.facts {
		e, ok := w.store.Entry(p)
		if !ok || e.At > w.now {
			continue
		}
		if w.shares() {
			if w.kept[p] > w.cash[p] {
				w.cash[p] = w.kept[p]
			}
			w.kept[p] = 0
			e.Rank = w.cash[p]
		}
		if e.At = 0; !w.out[p] {
			queues[e.Site] = append(queues[e.Site], e)
		}
	}
	for _, q := range queues {
		slices.SortFunc(q, func(a, b Entry) int {
			return cmp.Or(cmp.Compare(b.Rank, a.Rank), cmp.Compare(a.Page, b.Page))
		})
	}
	type scored struct {
		site  SiteID
		score float32
		first PageID
	}
	ranked := func() (order []scored) {
		for id, q := range queues {
			if len(q) == 0 || w.speed[id].Busy || o.Skip != nil && o.Skip(id) {
				continue
			}
			speed, sum := whole(w.speed, id), 0.
			for _, e := range q[:min(len(q), speed.PerConnection)] {
				sum += float64(e.Rank)
			}
			score := w.strategy.Site(frontier.SiteFacts{Site: id, Ready: len(q), First: q[0].Page, Best: q[0].Rank, Sum: float32(sum), Speed: speed})
			order = append(order, scored{id, score, q[0].Page})
		}
		slices.SortFunc(order, func(a, b scored) int {
			return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.first, b.first))
		})
		return order
	}
	var list []frontier.SiteEntries
	total := 0
	given := map[SiteID]int{}
	take := func(id SiteID) (took bool) {
		if total == o.Size || given[id] == o.SameSite || len(queues[id]) == 0 {
			return false
		}
		i := slices.IndexFunc(list, func(e frontier.SiteEntries) bool { return e.Site == id })
		if i < 0 {
			i = len(list)
			list = append(list, frontier.SiteEntries{Site: id})
		}
		list[i].Entries = append(list[i].Entries, queues[id][0])
		queues[id] = queues[id][1:]
		given[id]++
		total++
		return true
	}
	for o.Round < 0 && slices.ContainsFunc(ranked(), func(s scored) bool { return take(s.site) }) {
	}
	order := ranked()
	for before := -1; o.Round > 0 && total > before; {
		before = total
		for _, s := range order {
			for range o.Round {
				take(s.site)
			}
		}
	}
	return list
}

// strategies are those whose ranks are easy to compute: for the others see order_test.go and cash_test.go. What
// is tested is that batches follow the ranks, not the ranks: tests of client/collection do that.
func strategies(t *testing.T) []frontier.Strategy {
	computed := must.Get(frontier.Named("batch-pagerank", 0))
	return []frontier.Strategy{frontier.BreadthFirst{}, frontier.LargerSites{}, frontier.ManifestFirst{}, frontier.BacklinkCount{}, computed,
		frontier.Random(7), frontier.Random(8), frontier.Profit{}, frontier.Performance{}, frontier.CrawlAbility{}}
}

// After any sequence of finds, changes, visits, returns, payments and restarts, with memory of
// any size, a batch has the entries that a sort of all entries would put first,
// whether it is made with a heap of the sites or from a list of all.
func TestBatchMatchesBruteForce(t *testing.T) {
	for _, s := range strategies(t) {
		for _, o := range []*frontier.Options{{Step: 1}, {Step: 1, Memory: 1, PerSite: 1}, {Step: 1, Memory: 40, PerSite: 7}} {
			for _, per := range []int{byHeap, byList, 2} { // with 2 the ways alternate
				t.Run(fmt.Sprintf("%s/%v/%d", s.Name(), o, per), func(t *testing.T) {
					for seed := range uint64(12) {
						w := newWorld(t, s, o, per, seed)
						if _, known := s.(frontier.Performance); known || seed%2 == 1 {
							w.measure(12)
						}
						w.find(30, 12)
						for step := range 60 {
							w.step(step)
						}
					}
				})
			}
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
			w.kept[p] = 0
		}
	case 4:
		if w.rng.IntN(4) == 0 {
			w.restart()
		}
	case 5:
		if id := SiteID(1 + w.rng.IntN(12)); len(w.speed) > 0 {
			w.speed[id] = someSpeed(w.rng)
			w.front.Moved(id)
		}
	case 6:
		if w.shares() {
			w.pay()
		}
	case 7:
		if w.shares() {
			w.setRanks()
		}
	}
	w.now += int64(w.rng.IntN(10))
	o := frontier.BatchOptions{Size: 1 + w.rng.IntN(40), SameSite: 1 + w.rng.IntN(8), Round: w.rng.IntN(4)}
	if o.Round = min(o.Round, o.SameSite); o.Round == 0 {
		o.Round = -1 // each page is from the site that is then first
	}
	if w.rng.IntN(3) == 0 {
		o.Skip = func(id SiteID) bool { return id%3 == 0 }
	}
	want := w.brute(o)
	got := must.Get(w.front.Batch(w.now, o))
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
		w.t.Fatalf("step %d: %d pages are ready, want %d", step, got, want)
	}
}

func (w *world) ready() (n int) {
	for p := range w.facts {
		if e, ok := w.store.Entry(p); ok && e.At == 0 && !w.out[p] {
			n++
		}
	}
	return n
}

// A store may change without a notification to the frontier: pages vanish, wait, move
// and appear. No ready page is left out for ever, none is handed out
// twice at a time, and only changed ones are handed out wrongly.
func TestUnreportedStoreChangesHeal(t *testing.T) {
	for _, o := range []*frontier.Options{nil, {Memory: 1, PerSite: 2}} {
		for seed := range uint64(80) {
			w := newWorld(t, frontier.Profit{}, o, []int{byHeap, byList}[seed%2], seed)
			w.find(200, 6)
			left := map[PageID]bool{}
			for p := range w.facts {
				left[p] = true
			}
			stale := 0
			for turn := 0; ; turn++ {
				list := must.Get(w.front.Batch(w.now, frontier.BatchOptions{Size: 20, SameSite: 10}))
				if len(list) == 0 {
					break
				}
				if turn > 2000 {
					t.Fatal("no end")
				}
				for _, s := range list {
					for _, e := range s.Entries {
						if w.out[e.Page] {
							t.Fatalf("page %d is handed out twice", e.Page)
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
					t.Fatalf("seed %d: page %d is still ready (%v) and not handed out; %d were stale", seed, p, e, stale)
				}
			}
		}
	}
}
