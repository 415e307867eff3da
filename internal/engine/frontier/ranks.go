package frontier

import (
	"fmt"
	"iter"
	"math"
	"slices"
)

// A computed Strategy fetches first the page whose rank, as computed outside, is highest: Pagerank of the pages
// known so far, every now and then (L04, L05), or of an earlier crawl (L09-L11). They differ in the rank of a
// page for which SetRanks has none.
type computed struct {
	name    string
	unknown unknown
	seed    uint64
}

// An unknown is the rank of a page that SetRanks has not named.
type unknown int

const (
	isZero       unknown = iota
	fromParents          // the sum of what fetched pages that link to it pass on: an equal part of their rank to each link
	fromFirst            // what the first fetched page that links to it passes on
	drawnFromAll         // one of the ranks of the first SetRanks, at random
)

func (c computed) Name() string            { return c.name }
func (computed) Page(f Facts) float32      { return f.Cash }
func (computed) Site(s SiteFacts) float32  { return s.Best }
func (computed) Cash(rank float32) float32 { return max(0, rank) }
func (c computed) Pass(cash float64, links int) (each, kept float64) {
	if c.unknown == fromParents || c.unknown == fromFirst {
		each = cash / float64(max(1, links))
	}
	return each, cash
}

// SetRanks replaces the ranks of pages, or the cash of a [Sharer], by numbers computed outside: Pagerank of the
// pages known so far, ranks of an earlier crawl, scores of another program (V01). They are at least 0. Pages that
// are not in the queue may be among them: a page found later begins with its number, and one fetched before passes
// it on. Pages that are not among them keep what they have. PageID 0 stands for pages that have no number yet,
// whose ranks are there to be drawn: historical-pagerank-random draws from those of the first call.
//
// Ranks are not stored: after a restart only those of pages in the queue are left, until SetRanks is called again.
// Pages move in the queue at the next Batch, or here if they are very many; the error is the store's. With a
// Strategy that is no Sharer nothing happens. The sequence must not call the Frontier.
func (f *Frontier) SetRanks(ranks iter.Seq2[PageID, float32]) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.cash
	if b == nil {
		return nil
	}
	draws := b.kind.unknown == drawnFromAll && len(b.ranks) == 0
	for p, rank := range ranks {
		r := b.at(p)
		rank = min(max(0, number(rank)), math.MaxFloat32)
		r.cash[r.i] = rank
		r.ranked.set(r.i, true)
		b.touch(r, p, 1)
		if draws {
			b.ranks = append(b.ranks, rank)
		}
		if err := f.settle(veryMany); err != nil {
			return fmt.Errorf("set ranks: %w", err)
		}
	}
	if draws {
		slices.Sort(b.ranks)
		for n, rows := range b.rows {
			for i := range perRows {
				if rows.site[i] != 0 {
					b.draw(row{rows, i}, n*perRows+PageID(i))
				}
			}
		}
	}
	if err := f.settle(veryMany); err != nil {
		return fmt.Errorf("set ranks: %w", err)
	}
	return nil
}

// draw gives a page one of the known ranks, if its own is unknown: the same one after a restart.
func (b *book) draw(r row, p PageID) {
	if len(b.ranks) == 0 || r.ranked.set(r.i, true) {
		return
	}
	at := float64(Random(b.kind.seed).Page(Facts{Page: p})) * float64(len(b.ranks))
	r.cash[r.i] = b.ranks[int(at)]
	b.touch(r, p, 1)
}
