package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/parleyweb/parley/bench/internal/cost"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/protocol"
)

// replan measures how long the crawler takes to plan the revisits of a million pages that it reads from its collection. The
// collection is made first, which takes minutes, unless -store names the directory of an earlier run.
func (b *bench) replan(ctx context.Context) error {
	n := b.stored
	if b.quick {
		n = 5_000
	}
	dir := b.store
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "replan"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	if err := fill(ctx, dir, n); err != nil {
		return err
	}
	var took, used []float64
	for i := range 4 {
		seconds, processor, err := replanOnce(ctx, dir)
		if err != nil {
			return err
		}
		if i > 0 { // the first changes the price, and reschedules most pages
			took = append(took, seconds*1e6/float64(n))
			used = append(used, processor.Seconds()*1e6/float64(n))
		}
	}
	b.goals.AtMost(4, median(took), "s to plan the revisits of a million stored pages, and to reschedule those that became worth an earlier visit; %.1f s of processor time", median(used))
	return nil
}

// fill stores pages of 1,000 sites, each visited twice, unless the directory has a collection.
func fill(ctx context.Context, dir string, n int) error {
	now := time.Now().Add(-20 * 24 * time.Hour)
	o := collection.Options{NoLinks: true, Now: func() time.Time { return now }, MaxPages: 2 * n,
		Policy: fresh.Priced{Objective: fresh.Objective{Harmonic: 1}, Price: 0.1}}
	c, err := collection.Open(dir, &o)
	if err != nil {
		return err
	}
	defer c.Close()
	if c.Len() > 0 {
		return nil
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	each := min(n, 10_000)
	for first := 0; first < n; first += each {
		var finds collection.Commit
		for i := first; i < first+each; i++ {
			finds.Finds = append(finds.Finds, collection.Find{Depth: rnd.IntN(6), By: collection.ByLink,
				URL: fmt.Sprintf("https://www.site-%d.example/docs/reference/section-%d/page-number-%d.html", i%1000, i%50, i)})
		}
		if _, err := c.Commit(&finds); err != nil {
			return err
		}
	}
	for range 2 {
		for id := frontier.PageID(1); int(id) <= n; {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			var visits collection.Commit
			for range each {
				var d protocol.Digest
				binary.LittleEndian.PutUint64(d[:], uint64(id))
				d[9] = byte(rnd.IntN(2))
				visits.Visits = append(visits.Visits, collection.Visit{Page: id, Asked: now, Status: 200, Type: "text/html", ETag: `"5e-63a1b2c3d4"`,
					LastModified: "Tue, 01 Jul 2025 10:00:00 GMT", Modified: now.Add(-time.Duration(rnd.IntN(1000)) * time.Hour), Title: "A page of the documentation about something",
					Language: "en", Digest: d, Parsed: d, Text: d, Length: 20_000, Latency: 3 * time.Millisecond, Took: 5 * time.Millisecond})
				id++
			}
			if _, err := c.Commit(&visits); err != nil {
				return err
			}
		}
		now = now.Add(19 * 24 * time.Hour)
	}
	return nil
}

// replanOnce opens a crawl of a collection, and returns the seconds that its first plan takes, and the processor time until then.
func replanOnce(ctx context.Context, dir string) (took float64, used time.Duration, err error) {
	o := crawl.DefaultOptions()
	o.Collection.Into, o.Collection.Store, o.Collection.NoLinks = dir, "none", true
	o.Fetch.Contact, o.Fetch.Resolver, o.Fetch.MaxFailedLookups = "bench@example.org", "127.0.0.1:9", 1
	o.Sources.NoManifests, o.Sources.NoSitemaps, o.Sources.NoFeeds, o.Sources.NoStreams = true, true, true, true
	c, err := o.Open(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer c.Collection.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	before := cost.Processor()
	go func() { ended <- c.Run(ctx) }()
	for {
		select {
		case err := <-ended:
			return 0, 0, errors.Join(errors.New("the crawl ended before its first plan"), err)
		case <-time.After(20 * time.Millisecond):
		}
		if r := c.Status().Revisits; r != nil && r.Took > 0 {
			used = cost.Processor() - before
			stop()
			return r.Took, used, <-ended
		}
	}
}
