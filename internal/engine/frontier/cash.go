package frontier

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// toLenders is the share of the bank that every page with links distributes together with its own cash.
const toLenders = 1. / 1000

// A book holds the cash of a Sharer's pages: 12 bytes a page. A nil book stores nothing.
type book struct {
	strategy Sharer
	rows     map[PageID]*rows // by the first page of each
	bank     float64          // cash of pages without links, and rounding errors
	total    float64          // the pages' cash
	dirty    []PageID         // pages whose rank no longer matches their cash; some may have been settled since
}

const perRows = 4096

// rows are the accounts of perRows consecutive pages.
type rows struct {
	cash  [perRows]float32
	rank  [perRows]float32 // of the page's ready entry in the store; NaN: it has none, or is given out
	site  [perRows]SiteID  // 0: not known yet
	dirty [perRows / 64]uint64
}

func newBook(s Sharer) *book { return &book{strategy: s, rows: map[PageID]*rows{}} }

// A row is one page's account.
type row struct {
	*rows
	i int
}

// at returns the account of a page, opening it if there is none.
func (b *book) at(p PageID) row {
	r := b.rows[p/perRows]
	if r == nil {
		r = &rows{}
		for i := range r.rank {
			r.rank[i] = float32(math.NaN())
		}
		b.rows[p/perRows] = r
	}
	return row{r, int(p % perRows)}
}

func (r row) ready() bool { return r.rank[r.i] == r.rank[r.i] }

// mark sets whether a page is in the list of dirty ones, and returns whether it was.
func (r row) mark(dirty bool) (was bool) {
	bit := uint64(1) << (r.i % 64)
	word := &r.rows.dirty[r.i/64]
	was = *word&bit != 0
	if *word &^= bit; dirty {
		*word |= bit
	}
	return was
}

// pay adds to a page's cash; the rounding error goes to the bank, so that the sum stays the same. It returns
// the amount added.
func (b *book) pay(r row, amount float64) float64 {
	old := r.cash[r.i]
	r.cash[r.i] = float32(min(float64(old)+amount, math.MaxFloat32))
	got := float64(r.cash[r.i]) - float64(old)
	b.total += got
	b.bank += amount - got
	return got
}

// enter records that a page has a ready entry and is not given out.
func (b *book) enter(s *site, x item) {
	if b == nil {
		return
	}
	r := b.at(x.page)
	if r.ready() { // it had another rank
		r.rank[r.i] = x.rank
		b.touch(r, x.page, 1)
		return
	}
	if r.site[r.i] == 0 { // not seen yet: after a restart its rank is all that is left
		r.site[r.i] = s.id
		if c := b.strategy.Cash(x.rank); c > r.cash[r.i] {
			b.pay(r, float64(c-r.cash[r.i]))
		}
	}
	r.rank[r.i] = x.rank
	s.cash += float64(r.cash[r.i])
	b.touch(r, x.page, 1)
}

// leave records that a page has no such entry any more.
func (b *book) leave(s *site, p PageID) {
	if b == nil {
		return
	}
	if r := b.at(p); r.ready() {
		r.rank[r.i] = float32(math.NaN())
		s.cash -= float64(r.cash[r.i])
	}
}

// touch marks a page as dirty if its cash exceeds the cash of its rank by more than the factor step.
func (b *book) touch(r row, p PageID, step float32) {
	if !r.ready() || !(r.cash[r.i] > step*b.strategy.Cash(r.rank[r.i])) {
		return
	}
	if !r.mark(true) {
		b.dirty = append(b.dirty, p)
	}
}

// Share records that a page was fetched, and which pages it links to. It distributes to them in equal parts
// all cash that the page got since its last Share, plus fresh, which is new cash: 1 at its first visit,
// since all pages begin with equal cash (L06), and 0 later. A page listed twice gets two parts, and the page
// itself may be among them.
//
// The cash of a page without links goes to a bank, and every page with links distributes a thousandth of the
// bank with its own cash: so dangling cash reaches the pages that the next thousand pages link to, and the
// sum of the cash of the pages and the bank is the sum of all fresh ever given.
//
// Pages move in the queue when their cash has grown by Options.Step, all together at the next Batch, or here
// if they are very many; the error is the store's. Without a Sharer nothing happens.
func (f *Frontier) Share(from PageID, fresh float32, to []PageID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.cash
	if b == nil {
		return nil
	}
	r := b.at(from)
	if r.ready() { // it is back in the queue already
		if s := f.sites.get(r.site[r.i]); s != nil {
			s.cash -= float64(r.cash[r.i])
		}
	}
	amount := float64(r.cash[r.i])
	r.cash[r.i] = 0
	b.total -= amount
	if fresh > 0 && !math.IsInf(float64(fresh), 1) {
		amount += float64(fresh)
	}
	if len(to) == 0 {
		b.bank += amount
		return nil
	}
	loan := b.bank * toLenders
	b.bank -= loan
	part := (amount + loan) / float64(len(to))
	for _, p := range to {
		r := b.at(p)
		got := b.pay(r, part)
		if s := f.sites.get(r.site[r.i]); s != nil && r.ready() {
			s.cash += got
		}
		b.touch(r, p, f.o.Step)
	}
	if len(b.dirty) < 1<<18 {
		return nil
	}
	if err := f.settle(); err != nil {
		return fmt.Errorf("share cash: %w", err)
	}
	return nil
}

// settle gives the dirty pages the ranks that match their cash.
func (f *Frontier) settle() error {
	b := f.cash
	if b == nil || len(b.dirty) == 0 {
		return nil
	}
	var old, moved []Entry
	for _, p := range b.dirty {
		r := b.at(p)
		if !r.mark(false) || !r.ready() {
			continue // enter checks it when it comes back
		}
		rank := number(b.strategy.Page(Facts{Page: p, Cash: r.cash[r.i]}))
		if rank != r.rank[r.i] {
			old = append(old, Entry{Page: p, Site: r.site[r.i], Rank: r.rank[r.i]})
			moved = append(moved, Entry{Page: p, Site: r.site[r.i], Rank: rank})
		}
	}
	b.dirty = b.dirty[:0]
	if len(old) == 0 {
		return nil
	}
	bySite := func(x, y Entry) int {
		if c := cmp.Compare(x.Site, y.Site); c != 0 {
			return c
		}
		return cmp.Compare(x.Page, y.Page)
	}
	slices.SortFunc(old, bySite)
	slices.SortFunc(moved, bySite)
	if err := f.store.Rerank(old, moved); err != nil {
		for _, e := range old { // retry at the next settle
			if !b.at(e.Page).mark(true) {
				b.dirty = append(b.dirty, e.Page)
			}
		}
		return err
	}
	for i, e := range moved {
		r := b.at(e.Page)
		r.rank[r.i] = e.Rank
		s := f.site(e.Site)
		f.held -= s.drop(item{e.Page, old[i].Rank})
		f.held += s.add(item{e.Page, e.Rank})
	}
	f.spill()
	return nil
}

// readCash opens the accounts of all pages in the queue.
func (f *Frontier) readCash() error {
	for _, s := range f.sites.list {
		after := Entry{}
		for {
			list, err := f.store.Head(s.id, after, 4096)
			if err != nil {
				return err
			}
			for _, e := range list {
				f.cash.enter(s, item{e.Page, number(e.Rank)})
				after = e
			}
			if len(list) < 4096 {
				break
			}
		}
	}
	return nil
}
