package frontier

import (
	"fmt"
	"sync"
)

// Options says how much a Frontier keeps in memory. The zero value is a useful one.
type Options struct {
	// Memory is about how many ready entries are held in all, of 16 bytes each;
	// the others stand in the store alone. Zero means 1,000,000. Of every site
	// a few are held, however many sites there are.
	Memory int

	// PerSite is how many of one site are held at most. Zero means 1,000.
	PerSite int

	// Step is by which factor the cash of a page must grow until the page gets
	// another place in the queue, at least 1. Zero means 2: a page is not
	// moved for every link to it.
	Step float32
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

// A Frontier gives out what to ask for next, from a Store. It knows nothing
// that the store does not, but what it has given out and, for a [Sharer],
// cash: a new one over the same store goes on. It is safe for use by many
// goroutines, one at a time.
type Frontier struct {
	mu       sync.Mutex
	strategy Strategy
	store    Store
	o        Options
	now      int64  // the greatest that was said
	last     PageID // the greatest in a window, ever: what is beyond it need not be looked for
	held     int    // items in all windows
	sites    table
	out      map[PageID]given
	line     line   // on demand
	cash     *book  // nil unless the strategy is a Sharer
	round    uint32 // of looking at the store's sites
}

// A site is what the frontier knows of one.
type site struct {
	id    SiteID
	ready int // entries in the store, also those that are given out
	out   int // of those
	cash  float64
	round uint32
	at    int // in the table's list
	window
}

func (s *site) left() int { return max(s.ready-s.out, len(s.items)) }

// given is what is known of a page that was given out.
type given struct {
	item
	site    SiteID
	counted bool // among its site's ready entries, which it need not be if First asked for it
	first   bool
}

// New returns a Frontier over a store. The strategy must be the one by which
// the store's entries are ranked; nil means BreadthFirst. For a Sharer all
// ready entries are read once; a page begins with the cash of its rank.
func New(strategy Strategy, store Store, o *Options) (*Frontier, error) {
	f := &Frontier{strategy: strategy, store: store, o: o.withDefaults(),
		sites: newTable(), out: map[PageID]given{}, line: line{pages: map[PageID]bool{}}}
	if f.strategy == nil {
		f.strategy = BreadthFirst{}
	}
	if err := f.look(); err != nil {
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

// look learns from the store how many entries each site has.
func (f *Frontier) look() error {
	f.round++
	err := f.store.Sites(func(id SiteID, ready int) error {
		s := f.site(id)
		s.ready, s.round = ready, f.round
		return nil
	})
	if err != nil {
		return err
	}
	for i := 0; i < len(f.sites.list); i++ {
		s := f.sites.list[i]
		if s.round == f.round {
			continue
		}
		s.ready = 0
		if s.out == 0 { // nothing is left to say of it
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
		s = &site{id: id, round: f.round}
		f.sites.add(s)
	}
	return s
}

// Add tells the frontier of entries that the store has made ready, or given
// another rank, after the commit. Their At does not matter. Of a page that is
// given out it changes nothing but where Return brings it: say Done first.
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

// known returns the place of a page in its site's window, if it is there.
func (f *Frontier) known(s *site, p PageID) (item, bool) {
	if p > f.last { // as all new pages are
		return item{}, false
	}
	return s.find(p)
}

// Drop tells the frontier of pages that are not to be asked for any more, or
// not soon: their ready entries are gone from the store. Whoever does not call it
// finds them in a Batch.
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
			f.cash.leave(s, e.Page)
		}
	}
}

// count says whether a page that is given out has a ready entry in the store.
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
}

// number makes a rank comparable.
func number(rank float32) float32 {
	if rank != rank {
		return 0
	}
	return rank + 0 // no negative zero, which is the same place by another name
}

// put brings an entry of the store into memory, if its place is there.
func (f *Frontier) put(s *site, x item) {
	f.held += s.add(x)
	f.last = max(f.last, x.page)
	if len(s.items) > 2*f.o.PerSite {
		f.held -= s.cut(f.o.PerSite)
	}
	f.cash.enter(s, x)
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

// Done says that pages were asked for and that the store has their new
// places. Call it before Add tells those.
func (f *Frontier) Done(pages []PageID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range pages {
		g, ok := f.out[p]
		if !ok {
			continue
		}
		delete(f.out, p)
		if s := f.sites.get(g.site); s != nil && g.counted {
			s.out--
			s.ready = max(0, s.ready-1)
		}
	}
}

// Return says that pages were not asked for after all: they are in their
// places again.
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

// Len returns how many pages may be asked for now, as far as the last Batch
// and what came after it show.
func (f *Frontier) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.line.entries)
	for _, s := range f.sites.list {
		n += s.left()
	}
	return n
}

// Wake returns when the next waiting page becomes ready, in milliseconds
// since 1970 and not before now; 0 if none waits. Before that a Batch at now
// has all there is, but for pages of sites that it skipped and changes that
// Add and Return tell. If the store cannot say it is now, so that the next Batch
// gives the error.
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

// spill lets go of the tails of windows if there is too much in memory.
func (f *Frontier) spill() {
	if f.held <= max(f.o.Memory, 4*len(f.sites.list)) {
		return
	}
	n := max(1, f.o.Memory/2/len(f.sites.list))
	for _, s := range f.sites.list {
		f.held -= s.cut(n)
	}
}

// load reads on at the end of a site's window, n entries at least unless there
// are less.
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

// fill makes sure that a site's window has something if the site has, and
// reads n entries if it must read.
func (f *Frontier) fill(s *site, n int) error {
	if len(s.items) > 0 {
		return nil
	}
	if err := f.load(s, n); err != nil || len(s.items) > 0 || s.ready <= s.out {
		return err
	}
	s.forget() // the store has what nobody told us of, in a place that was passed
	if err := f.load(s, n); err != nil {
		return err
	}
	if len(s.items) == 0 {
		s.ready = s.out // or what is given out is not there any more
	}
	return nil
}

// promote lets the store make ready what has waited long enough; at most
// about n, so that a Batch does not take for ever after a long sleep.
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
