package crawl_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/client/crawl/harvest"
	"github.com/parleyweb/parley/client/fresh"
	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/internal/fakeweb"
)

// Told to end at any moment, with answers under way, a crawler ends; so it does
// when its own time is over. What came by then is kept.
func TestEndsWhateverIsUnderWay(t *testing.T) {
	noRace(t)
	for i := range 12 {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			w := fakeweb.New(fakeweb.Options{Seed: 1, Pages: 60})
			defer w.Close()
			s := w.Add(fakeweb.Honest)
			col, err := collection.Open(dir, &collection.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer col.Close()
			c := &crawl.Crawler{Collection: col, Start: []string{s.Origin + "/"}, Policy: fresh.Thesis{}, Strategy: frontier.BreadthFirst{}, Quality: crawl.DefaultQuality,
				Harvester: &harvest.Harvester{Agent: "ParleyTest/1", From: "test@example.net", Resolver: w, Dial: w.Dial, Wait: 100 * time.Millisecond}}
			after := time.Second + time.Duration(i)*97*time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if i%2 == 0 {
				time.AfterFunc(after, cancel)
			} else {
				c.Once, c.Stop.After = true, after
			}
			begun := time.Now()
			if err := c.Run(ctx); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took > after+time.Minute {
				t.Errorf("told to end after %v, it ended after %v", after, took)
			}
			if site, ok := col.Site(s.Origin); !ok || site.Held == 0 && i > 4 {
				t.Errorf("after %v, nothing is held: %+v", after, site)
			}
		})
	}
}
