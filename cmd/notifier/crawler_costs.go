package main

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/accesslog"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/internal/report"
)

const (
	costsSpan   = 7 * 24 * time.Hour
	costsEvery  = 6 * time.Hour    // a large log takes minutes to read
	costsRetry  = 10 * time.Minute // of logs that could not be read, or are empty
	costsURLs   = 100_000          // that are told apart; further ones count as first fetches
	maxCostRows = 20
)

// crawlerCosts reads from the site's access logs what crawlers cost, now and then.
type crawlerCosts struct {
	logs    []string // patterns
	sitemap bool     // the site has one
	log     *slog.Logger

	mu   sync.Mutex
	week *weekOfCrawlers // nil: not read yet
}

// weekOfCrawlers is what crawlers cost in the last week.
type weekOfCrawlers struct {
	At          time.Time // of the reading
	Error       string    // why there are no figures
	Days        int       // with requests
	Total       report.Traffic
	Crawlers    report.Traffic // of Total
	NotModified int64          // requests of crawlers that were answered 304
	Unchanged   report.Traffic // of crawlers: fetched again, and certainly unchanged
	First       string         // what to do first; empty: it has been done
	Rows        []report.Crawler
	Unlisted    int // further crawlers
}

// now returns the last reading; nil if there are no logs.
func (c *crawlerCosts) now() *weekOfCrawlers {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.week == nil {
		return &weekOfCrawlers{}
	}
	return c.week
}

// run reads the logs until ctx ends.
func (c *crawlerCosts) run(ctx context.Context) error {
	for ctx.Err() == nil {
		w, wait := &weekOfCrawlers{At: time.Now()}, costsEvery
		if err := c.read(ctx, w); err != nil && ctx.Err() == nil {
			w.Error, wait = err.Error(), costsRetry
			if c.now().Error != w.Error {
				c.log.Warn("the page does not show what crawlers cost: --access-log could not be read", "err", err)
			}
		}
		c.mu.Lock()
		c.week = w
		c.mu.Unlock()
		pause.For(ctx, wait)
	}
	return nil
}

func (c *crawlerCosts) read(ctx context.Context, w *weekOfCrawlers) error {
	files, err := accesslog.Open(c.logs, nil)
	if err != nil {
		return err
	}
	defer files.Close()
	r, err := report.Build(ctx, files, report.Options{Since: w.At.Add(-costsSpan), MaxURLs: costsURLs})
	if err != nil {
		return err
	}
	w.Days, w.Total, w.First, w.NotModified, w.Unchanged = len(r.Days), r.Total, r.First.Text, r.All.NotModified, r.All.Unchanged
	switch {
	case r.First.Step == "family": // neither the lines are on the page, nor is it known which of them would forbid pages
		w.First = "Crawlers find almost nothing new in some URLs: rdfgen report --manifest MANIFEST --log LOG proposes lines for robots.txt that keep them out."
	case r.First.Step == "sitemap" && c.sitemap:
		w.First = ""
	}
	for _, x := range r.Crawlers {
		w.Crawlers.Requests += x.Requests
		w.Crawlers.Bytes += x.Bytes
	}
	w.Rows = slices.Clone(r.Crawlers[:min(len(r.Crawlers), maxCostRows)])
	w.Unlisted = len(r.Crawlers) - len(w.Rows)
	return nil
}
