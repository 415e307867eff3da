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
	keeps    bool             // the strategy's pages keep their cash: they give once, and there is no bank
	kind     computed         // the strategy, if it is of that kind: pages with a rank of their own get no cash
	ranks    []float32        // sorted: those that are drawn
	rows     map[PageID]*rows // by the first page of each, divided by perRows
	bank     float64          // cash of pages without links, and rounding errors, by which it may be below 0
	dirty    []PageID         // pages whose rank no longer matches their cash; some may have been settled since
}

const perRows = 4096

// perRerank is how many pages move in one transaction of the store, which may need a kilobyte of memory for each.
const perRerank = 10_000

// rows are the accounts of perRows consecutive pages.
type rows struct {
	cash [perRows]float32
	rank [perRows]float32 // of the page's ready entry in the store; NaN: it has none, or is given out
	site [perRows]SiteID  // 0: not known yet

	dirty  flags // the page is in the book's list
	ranked flags // it has a rank of its own: from SetRanks, drawn from those, or from its first parent
}

// flags has a bit for each of perRows pages.
type flags [perRows / 64]uint64

func (f *flags) get(i int) bool { return f[i/64]&(1<<(i%64)) != 0 }

// set sets a bit, and returns what it was.
func (f *flags) set(i int, on bool) (was bool) {
	was = f.get(i)
	if f[i/64] &^= 1 << (i % 64); on {
		f[i/64] |= 1 << (i % 64)
	}
	return was
}

func newBook(s Sharer) *book {
	b := &book{strategy: s, rows: map[PageID]*rows{}}
	_, kept := s.Pass(1, 1)
	b.keeps = kept > 0
	b.kind, _ = s.(computed)
	return b
}

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

// pay adds to a page's cash; the rounding error goes to the bank, so that the sum stays the same.
func (b *book) pay(r row, amount float64) {
	old := r.cash[r.i]
	r.cash[r.i] = float32(min(float64(old)+amount, math.MaxFloat32))
	b.bank += amount - (float64(r.cash[r.i]) - float64(old))
}

// enter records that a page has a ready entry and is not given out.
func (b *book) enter(s *site, x item) {
	if b == nil {
		return
	}
	r := b.at(x.page)
	r.rank[r.i] = x.rank
	if r.site[r.i] == 0 { // not seen yet: after a restart its rank is all that is left
		r.site[r.i] = s.id
		if c := b.strategy.Cash(x.rank); c > r.cash[r.i] && !r.ranked.get(r.i) {
			r.cash[r.i] = c
			r.ranked.set(r.i, b.kind.unknown == fromFirst)
		}
		b.draw(r, x.page)
	}
	b.touch(r, x.page, 1)
}

// leave records that a page has no such entry any more.
func (b *book) leave(p PageID) {
	if b != nil {
		r := b.at(p)
		r.rank[r.i] = float32(math.NaN())
	}
}

// touch marks a page as dirty if its cash exceeds the cash of its rank by more than the factor step, or falls
// short of it.
func (b *book) touch(r row, p PageID, step float32) {
	if !r.ready() {
		return
	}
	cash, queued := r.cash[r.i], b.strategy.Cash(r.rank[r.i])
	if (cash > step*queued || cash < queued) && !r.dirty.set(r.i, true) {
		b.dirty = append(b.dirty, p)
	}
}

// Share records that a page was fetched, and which pages it links to. With OPIC it distributes to them in equal
// parts all cash that the page got since its last Share (L06); a page with links that got none, since no page
// that was fetched leads to it, distributes fresh instead, which is new cash. A page listed twice gets two parts,
// and the page itself may be among them. A Sharer whose pages keep their cash passes on what its Pass returns, if
// fresh is above 0. So fresh is 1 at a page's first visit, and 0 later.
//
// The cash of a page without links goes to a bank, and every page with links distributes a thousandth of the
// bank with its own cash: so dangling cash reaches the pages that the next thousand pages link to, and the
// sum of the cash of the pages and the bank is what the start pages had, and all fresh distributed.
//
// Pages move in the queue when their cash has grown by Options.Step, all together at the next Batch, or here
// if they are very many; the error is the store's. Without a Sharer nothing happens.
func (f *Frontier) Share(from PageID, fresh float32, to []PageID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.cash
	if b == nil || b.keeps && !(fresh > 0) {
		return nil
	}
	r := b.at(from)
	amount := float64(r.cash[r.i])
	switch {
	case b.keeps:
	case len(to) == 0:
		b.bank += amount
		amount = 0
	default:
		if amount == 0 {
			amount = granted(fresh)
		}
		loan := max(0, b.bank) * toLenders
		b.bank -= loan
		amount += loan
	}
	each, kept := b.strategy.Pass(amount, len(to))
	r.cash[r.i] = float32(kept)
	b.touch(r, from, 1) // it may be back in the queue already
	for _, p := range to {
		r := b.at(p)
		if b.kind.name != "" && r.ranked.get(r.i) {
			continue
		}
		b.pay(r, each)
		b.touch(r, p, f.o.Step)
		if b.kind.unknown == fromFirst {
			r.ranked.set(r.i, true)
		}
	}
	if err := f.settle(veryMany); err != nil {
		return fmt.Errorf("share cash: %w", err)
	}
	return nil
}

// granted returns fresh cash, if it is an amount.
func granted(fresh float32) float64 {
	if fresh > 0 && !math.IsInf(float64(fresh), 1) {
		return float64(fresh)
	}
	return 0
}

// Settle moves the pages whose cash has grown, as the next Batch would. A Frontier that is not used any more
// must be settled, or the cash of the last pages is lost.
func (f *Frontier) Settle() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.settle(1); err != nil {
		return fmt.Errorf("move pages: %w", err)
	}
	return nil
}

const veryMany = 1 << 18

// settle gives the dirty pages the ranks that match their cash, if they are many enough.
func (f *Frontier) settle(many int) error {
	b := f.cash
	if b == nil || len(b.dirty) < many {
		return nil
	}
	var old, moved []Entry
	for _, p := range b.dirty {
		r := b.at(p)
		if !r.dirty.set(r.i, false) || !r.ready() {
			continue // enter checks it when it comes back
		}
		rank := number(b.strategy.Page(Facts{Page: p, Cash: r.cash[r.i]}))
		if rank != r.rank[r.i] {
			old = append(old, Entry{Page: p, Site: r.site[r.i], Rank: r.rank[r.i]})
			moved = append(moved, Entry{Page: p, Site: r.site[r.i], Rank: rank})
		}
	}
	b.dirty = b.dirty[:0]
	bySite := func(x, y Entry) int {
		if c := cmp.Compare(x.Site, y.Site); c != 0 {
			return c
		}
		return cmp.Compare(x.Page, y.Page)
	}
	slices.SortFunc(old, bySite)
	slices.SortFunc(moved, bySite)
	for len(old) > 0 {
		n := min(len(old), perRerank)
		if err := f.store.Rerank(old[:n], moved[:n]); err != nil {
			for _, e := range old { // retry at the next settle
				if r := b.at(e.Page); !r.dirty.set(r.i, true) {
					b.dirty = append(b.dirty, e.Page)
				}
			}
			return err
		}
		for i, e := range moved[:n] {
			s := f.site(e.Site)
			f.held -= s.drop(item{e.Page, old[i].Rank})
			f.put(s, item{e.Page, e.Rank})
		}
		old, moved = old[n:], moved[n:]
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
