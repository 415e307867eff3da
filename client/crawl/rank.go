package crawl

import (
	"context"
	"time"

	"github.com/parleyweb/parley/client/crawl/internal/rank"
	"github.com/parleyweb/parley/internal/pause"
)

// rankEvery is how often all pages are ranked, where Quality uses Pagerank. It
// happens during the crawl (V12).
const rankEvery = time.Hour

// rankPages ranks all pages every rankEvery, until ctx ends.
func rankPages(ctx context.Context, c *setup, work *work, front queue) {
	for first := true; ctx.Err() == nil; first = false {
		moved, err := rank.Pages(ctx, c.Collection, c.PagerankJump)
		if err != nil && ctx.Err() == nil {
			c.Log.Error("rank pages", "err", err)
		}
		front.Add(moved)
		if first {
			work.add(-1)
		}
		work.rouse()
		pause.For(ctx, rankEvery)
	}
}
