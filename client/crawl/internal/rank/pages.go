package rank

import (
	"context"
	"math"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// pages ranks all pages of a collection by the links between them (K02), the page with ID 1 first: 1 is the average page. Jump is the
// probability of going to any page instead of along a link; 0 means 0.15.
func pages(ctx context.Context, col *collection.Collection, jump float64) ([]float32, error) {
	n := col.Len()
	if n == 0 || n > math.MaxInt32 {
		return nil, nil
	}
	var failed error
	links := func(yield func(from int, to []int32) bool) {
		var to []int32
		_ = col.Graph(func(from frontier.PageID, all []frontier.PageID, _ error) bool { // without damaged links: the others are enough for a rank
			if failed = ctx.Err(); failed != nil || int(from) > n { // new pages wait for the next ranking
				return false
			}
			to = to[:0]
			for _, id := range all {
				if int(id) <= n {
					to = append(to, int32(id-1))
				}
			}
			return yield(int(from-1), to)
		})
	}
	ranks := pagerank(n, links, &options{Jump: jump})
	for i := range ranks {
		ranks[i] *= float32(n)
	}
	return ranks, failed
}
