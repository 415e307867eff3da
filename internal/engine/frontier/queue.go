package frontier

import (
	"fmt"
	"sync"
)

// Options sets how much a Frontier keeps in memory. The zero value is useful.
type Options struct {
	// Memory is roughly how many ready entries are kept in memory in total, of 16 bytes each; the others are
	// in the store alone. Zero means 1,000,000. Of every site a few are kept, however many sites there are.
	Memory int

	// PerSite bounds the entries of one site in memory. Zero means 1,000.
	PerSite int

	// Step is the factor by which the cash of a page must grow before the page moves in the queue, at least 1.
	// With 1 every payment moves it, and the order is exact. Zero means 2.
	Step float32

	// Speed returns what is known of a site's speed; nil means that nothing is. It is called whenever the place
	// of a site is computed, and must not call the Frontier. When its answer changes, the caller of the Frontier
	// calls Moved. A new Frontier knows only the speeds of the sites in the queue, until it is told of others.
	Speed func(SiteID) Speed
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Memory <= 0 {
		d.Memory = 1_000_000
	}
	if d.PerSite <= 0 {
		d.PerSite = 1000
	}
	if !(d.Step >= 1) {
		d.Step = 2
	}
	return d
}

// A Frontier gives out pages to fetch next, from a Store. Beyond the store's state it knows only which pages
// are out and, for a [Sharer], the cash: a new Frontier over the same store continues. It is safe for
// concurrent use.
type Frontier struct {
	mu       sync.Mutex
	strategy Strategy
	store    Store
	o        Options
	now      int64  // the greatest time passed in
	last     PageID // the greatest page ever in a window: no window has a page beyond it
	held     int    // items in all windows
	sites    table
	out      map[PageID]given
	line     line  // on demand
	cash     *book // nil unless the strategy is a Sharer
	ranking  ranking
}

// A site is the frontier's state of a site.
type site struct {
	id    SiteID
	ready int // entries in the store, including those given out
	out   int // of those, given out
	round uint32
	at    int // in the table's list
	window
	standing standing
}

func (s *site) left() int { return max(s.ready-s.out, len(s.items)) }

// given is the state of a page that was given out.
type given struct {
	item
	site    SiteID
	counted bool // it counts in its site's ready entries; not always for a page requested by First
	first   bool
}

// New returns a Frontier over a store. The strategy must be the one that ranked the store's entries; nil
// means BreadthFirst. For a Sharer all ready entries are read once; a page begins with the cash of its rank.
func New(strategy Strategy, store Store, o *Options) (*Frontier, error) {
	f := &Frontier{strategy: strategy, store: store, o: o.withDefaults(),
		sites: newTable(), out: map[PageID]given{}, line: line{pages: map[PageID]bool{}},
		ranking: ranking{sitesPerPage: 8}}
	if f.strategy == nil {
		f.strategy = BreadthFirst{}
	}
	f.ranking.speeds = newSpeeds(f.strategy)
	if err := f.readSites(); err != nil {
		return nil, fmt.Errorf("open frontier: %w", err)
	}
	if s, ok := f.strategy.(Sharer); ok {
		f.cash = newBook(s)
		if err := f.readCash(); err != nil {
			return nil, fmt.Errorf("open frontier: %w", err)
		}
	}
	return f, nil
}

// readSites reads from the store how many entries each site has.
func (f *Frontier) readSites() error {
	f.sites.round++
	err := f.store.Sites(func(id SiteID, ready int) error {
		s := f.site(id)
		s.ready, s.round = ready, f.sites.round
		return nil
	})
	if err != nil {
		return err
	}
	for i := 0; i < len(f.sites.list); i++ {
		s := f.sites.list[i]
		if s.round == f.sites.round {
			continue
		}
		s.ready = 0
		if s.out == 0 { // nothing left to track
			f.held -= s.forget()
			f.sites.remove(s)
			i--
		}
	}
	return nil
}

func (f *Frontier) site(id SiteID) *site {
	s := f.sites.get(id)
	if s == nil {
		s = &site{id: id, round: f.sites.round, standing: standing{slot: -1}}
		f.sites.add(s)
		f.measure(id)
	}
	return s
}

// Add tells the frontier of entries that the store has made ready, or given another rank, after the commit.
// Their At does not matter. For a page that is given out it only changes where Return puts it: call Done first.
func (f *Frontier) Add(entries []Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range entries {
		f.add(&entries[i])
	}
	f.spill()
}

func (f *Frontier) add(e *Entry) {
	x := item{e.Page, number(e.Rank)}
	if g, ok := f.out[e.Page]; ok {
		g.item = x
		f.count(&g, true)
		f.out[e.Page] = g
		return
	}
	s := f.site(e.Site)
	if old, ok := f.known(s, e.Page); ok {
		if old == x {
			return
		}
		s.ready--
		f.held -= s.drop(old)
	}
	s.ready++
	f.put(s, x)
}

// known returns the item of a page in its site's window, if it is there.
func (f *Frontier) known(s *site, p PageID) (item, bool) {
	if p > f.last { // true for all new pages
		return item{}, false
	}
	return s.find(p)
}

// Drop tells the frontier of pages that are not to be fetched any more, or not soon: their ready entries are
// gone from the store. Without Drop they come in a Batch all the same.
func (f *Frontier) Drop(pages []Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range pages {
		f.line.remove(e.Page)
		s := f.sites.get(e.Site)
		if g, ok := f.out[e.Page]; ok {
			f.count(&g, false)
			g.first = false
			f.out[e.Page] = g
		} else if s != nil {
			s.ready = max(0, s.ready-1)
			if old, ok := f.known(s, e.Page); ok {
				f.held -= s.drop(old)
			}
			f.cash.leave(e.Page)
			f.mark(s)
		}
	}
}

// count sets whether a page that is given out has a ready entry in the store.
func (f *Frontier) count(g *given, ready bool) {
	if g.counted == ready {
		return
	}
	g.counted = ready
	by := 1
	if !ready {
		by = -1
	}
	s := f.site(g.site)
	s.out += by
	s.ready = max(0, s.ready+by)
	f.mark(s)
}

// number makes a rank comparable: NaN becomes 0.
func number(rank float32) float32 {
	if rank != rank {
		return 0
	}
	return rank + 0 // no negative zero, which would be another key for the same rank
}

// put adds an entry of the store to memory, if the window covers its place.
func (f *Frontier) put(s *site, x item) {
	f.held += s.add(x)
	f.last = max(f.last, x.page)
	if len(s.items) > 2*f.o.PerSite {
		f.held -= s.cut(f.o.PerSite)
	}
	f.cash.enter(s, x)
	f.mark(s)
}

// First puts a page in front of all others, in the order of the calls (V01).
// It need not be in the store's queue. A page that is given out stays so.
func (f *Frontier) First(e Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.out[e.Page]; !ok {
		f.line.add(e)
	}
}

// Done reports that pages were fetched, and that the store has their new places. Call it before Add for those.
func (f *Frontier) Done(pages []PageID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range pages {
		g, ok := f.out[p]
		if !ok {
			continue
		}
		delete(f.out, p)
		if s := f.sites.get(g.site); s != nil {
			if g.counted {
				s.out--
				s.ready = max(0, s.ready-1)
			}
			f.mark(s)
		}
	}
}

// Return reports that pages were not fetched after all: they return to their places.
func (f *Frontier) Return(pages []PageID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range pages {
		f.giveBack(p)
	}
	f.spill()
}

func (f *Frontier) giveBack(p PageID) {
	g, ok := f.out[p]
	if !ok {
		return
	}
	delete(f.out, p)
	if g.first {
		f.line.add(Entry{Page: p, Site: g.site, Rank: g.rank})
	}
	s := f.sites.get(g.site)
	if s == nil || !g.counted {
		return
	}
	s.out--
	f.put(s, g.item)
}

// Len returns how many pages may be fetched now, as of the last Batch and the calls after it.
func (f *Frontier) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.line.entries)
	for _, s := range f.sites.list {
		n += s.left()
	}
	return n
}

// Wake returns when the next waiting page becomes ready, in milliseconds since 1970 and not before now; 0 if
// none waits. Until then a Batch at now returns all there is, except for pages of skipped sites and changes
// by Add and Return. If the store fails it returns now, so that the next Batch returns the error.
func (f *Frontier) Wake(now int64) int64 {
	at, err := f.store.Next()
	if err != nil {
		return now
	}
	if at == 0 {
		return 0
	}
	return max(at, now)
}

// spill drops the tails of windows if too much is in memory.
func (f *Frontier) spill() {
	if f.held <= max(f.o.Memory, 4*len(f.sites.list)) {
		return
	}
	n := max(1, f.o.Memory/2/len(f.sites.list))
	for _, s := range f.sites.list {
		f.held -= s.cut(n)
	}
}

// load extends a site's window by at least n entries, unless there are fewer.
func (f *Frontier) load(s *site, n int) error {
	for want := n; want > 0 && !s.whole; {
		after := Entry{}
		if s.end.page != 0 {
			after = Entry{Page: s.end.page, Site: s.id, Rank: s.end.rank}
		}
		list, err := f.store.Head(s.id, after, n)
		if err != nil {
			return err
		}
		for _, e := range list {
			x := item{e.Page, number(e.Rank)}
			s.end = x
			if _, ok := f.out[e.Page]; ok {
				continue
			}
			s.items = append(s.items, x)
			f.last = max(f.last, e.Page)
			f.held++
			want--
		}
		s.whole = len(list) < n
	}
	return nil
}

// fill makes sure that a site's window is not empty if the site has pages, and reads n entries if it must read.
func (f *Frontier) fill(s *site, n int) error {
	if len(s.items) > 0 {
		return nil
	}
	if err := f.load(s, n); err != nil || len(s.items) > 0 || s.ready <= s.out {
		return err
	}
	s.forget() // the store has entries that Add did not report, before the end of the window
	if err := f.load(s, n); err != nil {
		return err
	}
	if len(s.items) == 0 {
		s.ready = s.out // or pages given out are gone from the store
	}
	return nil
}

// promote makes due entries ready in the store; at most about n, so that a Batch after a long sleep does not
// take forever.
func (f *Frontier) promote(now int64, n int) error {
	const step = 10_000
	for n = max(n, step); n > 0; n -= step {
		list, err := f.store.Promote(now, step)
		if err != nil {
			return err
		}
		for i := range list {
			f.add(&list[i])
		}
		if len(list) < step {
			break
		}
	}
	return nil
}
