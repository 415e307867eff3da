package crawl

import (
	"context"
	"math"
	"time"

	"github.com/parleyweb/parley/client/crawl/internal/rank"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/pause"
)

// rankEvery is how often all pages are ranked, where Quality uses Pagerank. It
// happens during the crawl (V12).
const rankEvery = time.Hour

// rankPages ranks all pages every rankEvery, until ctx ends.
func rankPages(ctx context.Context, c *setup, work *work, front queue) {
	for first := true; ; first = false {
		if err := rankNow(ctx, c, work, front); err != nil && ctx.Err() == nil {
			c.Log.Error("rank pages", "err", err)
		}
		if first {
			work.add(-1)
			work.rouse()
		}
		pause.For(ctx, rankEvery)
		if ctx.Err() != nil {
			return
		}
	}
}

// rankNow ranks all pages by the links between them (K02): 1 is the average page.
func rankNow(ctx context.Context, c *setup, work *work, front queue) error {
	n := c.Collection.Len()
	if n == 0 || n > math.MaxInt32 {
		return nil
	}
	var failed error
	links := func(yield func(from int, to []int32) bool) {
		var to []int32
		for from, ids := range c.Collection.Graph() {
			if failed = ctx.Err(); failed != nil || int(from) > n { // new pages wait for the next ranking
				return
			}
			to = to[:0]
			for _, id := range ids {
				if int(id) <= n {
					to = append(to, int32(id-1))
				}
			}
			if !yield(int(from-1), to) {
				return
			}
		}
	}
	ranks := rank.Pagerank(n, links, nil)
	if failed != nil {
		return failed
	}
	moved, err := c.Collection.SetRanks(func(yield func(frontier.PageID, float32) bool) {
		for i, x := range ranks {
			if !yield(frontier.PageID(i+1), x*float32(n)) {
				return
			}
		}
	})
	front.Add(moved)
	work.rouse()
	return err
}
