package rank

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"strings"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/pause"
)

// Settings are those settings of a crawl on which the ranks of its pages depend.
type Settings struct {
	Strategy frontier.Strategy
	Quality  Quality // with the History, if there is one
	Jump     float64 // of Pagerank, see graph.Pagerank
	Every    int     // how many pages are fetched between two computations of scores by links; 0 means that an hour passes
	Log      *slog.Logger
}

// Ranks gives the pages of a running crawl their ranks, in the frontier and in the collection: Pagerank and other scores by the links of
// the pages known so far (L04, L05, K02, V14), the ranks of a History, and what fetched pages pass on along their links. Nil is for a crawl without a frontier, and does nothing.
type Ranks struct {
	Settings
	col   *collection.Collection
	front *frontier.Frontier

	passes  bool          // the Strategy orders pages by numbers that others pass on to them, or that are computed here
	orders  bool          // Pagerank is the order
	ranked  bool          // Begin has computed it
	fetched int           // pages since it was last due; for Learn
	due     chan struct{} // it is to be computed
}

// ByPagerank reports whether a strategy needs the Pagerank of the known pages again and again.
func ByPagerank(strategy string) bool {
	return strategy == "batch-pagerank" || strategy == "partial-pagerank"
}

// OfHistory reports whether a strategy needs a History.
func OfHistory(strategy string) bool { return strings.HasPrefix(strategy, "historical-") }

// New returns the Ranks of a crawl, after it has handed over the ranks that pages known from earlier runs have in the History. It is
// called before the crawl finds any page.
func New(ctx context.Context, col *collection.Collection, front *frontier.Frontier, s Settings) (*Ranks, error) {
	if s.Strategy == nil { // as for the frontier
		s.Strategy = frontier.BreadthFirst{}
	}
	r := &Ranks{Settings: s, col: col, front: front, orders: ByPagerank(s.Strategy.Name()), due: make(chan struct{}, 1)}
	_, r.passes = s.Strategy.(frontier.Sharer)
	if s.Quality.Earlier == nil || !OfHistory(s.Strategy.Name()) {
		return r, nil
	}
	err := front.SetRanks(s.Quality.Earlier.all) // of which new pages may draw one
	if err != nil {
		return nil, err
	}
	var failed error
	known := s.Strategy.Name() == "historical-pagerank-zero" // of all pages: those that the queue has may be of another History
	err = front.SetRanks(func(yield func(frontier.PageID, float32) bool) {
		for p, err := range col.Pages(ctx) {
			if failed = err; err != nil {
				return
			}
			if rank, ok := s.Quality.Earlier.of(p.URL); (ok || known) && !yield(p.ID, rank) {
				return
			}
		}
	})
	return r, cmp.Or(failed, err)
}

// byLinks reports whether the quality of pages depends on all links.
func (r *Ranks) byLinks() bool {
	return r.Quality.Pagerank > 0 || r.Quality.Links != nil && r.Quality.scored() > 0
}

// Begin computes Pagerank if it is the order, before the crawl selects any page. It reports whether Keep is to be called.
func (r *Ranks) Begin(ctx context.Context) (again bool, err error) {
	if r == nil {
		return false, nil
	}
	if r.ranked = r.orders; r.orders {
		err = r.compute(ctx)
	}
	return r.orders || r.byLinks(), err
}

// Found hands over the ranks of new pages in the History. It is called before the frontier learns of the pages.
func (r *Ranks) Found(list []collection.Page) error {
	if r == nil || r.Quality.Earlier == nil || !r.passes {
		return nil
	}
	return r.front.SetRanks(func(yield func(frontier.PageID, float32) bool) {
		for i := range list {
			if rank, ok := r.Quality.Earlier.of(list[i].URL); ok && !yield(list[i].ID, rank) {
				return
			}
		}
	})
}

// Learn hands over what a commit means for the ranks of pages: those of new pages, and what the fetched ones pass on (L03, L06). After
// every so many fetched pages it has Pagerank computed. It is called before the frontier learns of the commit, by one goroutine.
func (r *Ranks) Learn(done *collection.Committed) error {
	if r == nil {
		return nil
	}
	if err := r.Found(done.New); err != nil {
		return err
	}
	for i := range done.Visited {
		d := &done.Visited[i]
		if s := d.Page.State; s == collection.Failing || s == collection.Excluded || s == collection.Known {
			continue // it will be fetched again
		}
		r.fetched++
		if !r.passes {
			continue
		}
		to, err := r.col.Links(d.Page.ID)
		if err != nil {
			return err
		}
		fresh := float32(0)
		if d.First {
			fresh = 1
		}
		if err := r.front.Share(d.Page.ID, fresh, to); err != nil {
			return err
		}
	}
	if r.Every > 0 && r.fetched >= r.Every {
		r.fetched = 0
		pause.Wake(r.due)
	}
	return nil
}

// Keep computes Pagerank and the other scores at once, unless Begin has, and then again and again until ctx ends: after Every pages, or when the computation
// before has ended if that takes longer. The crawl goes on meanwhile (V12). It calls ranked each time.
func (r *Ranks) Keep(ctx context.Context, ranked func()) {
	for ; ctx.Err() == nil; r.wait(ctx) {
		if !r.ranked {
			if err := r.compute(ctx); err != nil && ctx.Err() == nil {
				r.Log.Error("rank pages", "err", err)
			}
		}
		r.ranked = false
		ranked()
	}
}

func (r *Ranks) wait(ctx context.Context) {
	if r.Every == 0 {
		pause.For(ctx, time.Hour)
		return
	}
	select {
	case <-r.due:
	case <-ctx.Done():
	}
}

// compute ranks all pages by their links.
func (r *Ranks) compute(ctx context.Context) (err error) {
	links := storedBy(ctx, r.col)
	if r.Quality.Links != nil && r.Quality.scored() > 0 {
		now, err := links.scores(&r.Quality, r.Jump)
		if err != nil {
			return err
		}
		r.Quality.Links.now.Store(now)
	}
	var ranks []float32
	if r.orders || r.Quality.Pagerank > 0 {
		if ranks, err = links.pagerank(r.Jump); err != nil {
			return err
		}
	}
	from := func(first, n int) iter.Seq2[frontier.PageID, float32] {
		return func(yield func(frontier.PageID, float32) bool) {
			for i := first; i < min(first+n, links.pages); i++ {
				rank := float32(-1) // it is not known, and the value is
				if i < len(ranks) {
					rank = ranks[i]
				}
				if !yield(frontier.PageID(i+1), rank) {
					return
				}
			}
		}
	}
	if r.byLinks() {
		moved, err := r.col.SetRanks(from(0, links.pages))
		r.front.Add(moved)
		if err != nil {
			return err
		}
	}
	const atOnce = 10_000 // pages: the crawl waits while they move
	for first := 0; r.orders && first < len(ranks) && err == nil; first += atOnce {
		if err = r.front.SetRanks(from(first, atOnce)); err == nil {
			err = cmp.Or(r.front.Settle(), ctx.Err())
		}
	}
	return err
}
