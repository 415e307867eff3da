package rank

import (
	"context"
	"math"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// Pages ranks all pages of a collection by the links between them (K02): 1 is the average page. Jump is the probability of going
// to any page instead of along a link; 0 means 0.15. It returns the entries of the queue that have moved.
func Pages(ctx context.Context, col *collection.Collection, jump float64) (moved []frontier.Entry, err error) {
	n := col.Len()
	if n == 0 || n > math.MaxInt32 {
		return nil, nil
	}
	var failed error
	links := func(yield func(from int, to []int32) bool) {
		var to []int32
		for l, err := range col.Graph() {
			if failed = ctx.Err(); failed != nil || int(l.From) > n { // new pages wait for the next ranking
				return
			}
			if err != nil { // the other links are enough for a rank: the next read of pages reports the damage
				continue
			}
			to = to[:0]
			for _, id := range l.To {
				if int(id) <= n {
					to = append(to, int32(id-1))
				}
			}
			if !yield(int(l.From-1), to) {
				return
			}
		}
	}
	ranks := pagerank(n, links, &options{Jump: jump})
	if failed != nil {
		return nil, failed
	}
	return col.SetRanks(func(yield func(frontier.PageID, float32) bool) {
		for i, x := range ranks {
			if !yield(frontier.PageID(i+1), x*float32(n)) {
				return
			}
		}
	})
}
