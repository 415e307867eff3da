package main

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/cmd/crawler/internal/webreport"
	"github.com/parleyweb/parley/internal/admin"
	"github.com/parleyweb/parley/internal/command"
)

// A progress shows how a crawl goes: on a terminal by a line that is rewritten every second, elsewhere by a line of the
// log every minute in which something happened.
type progress struct {
	env    *command.Env
	status func() crawl.Status
}

const (
	redrawEvery = time.Second
	logEvery    = time.Minute
	smoothing   = 30 * time.Second // of the rate from which the remaining time is estimated
)

// Run shows the progress until ctx ends.
func (p *progress) Run(ctx context.Context) error {
	terminal, every := p.env.IsTerminal(), logEvery
	if terminal {
		every = redrawEvery
		defer fmt.Fprint(p.env.Stderr, "\r\033[K")
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	last, then, rate := p.status(), time.Now(), -1.0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		s, now := p.status(), time.Now()
		took := now.Sub(then).Seconds()
		recent := float64(endedOf(&s)-endedOf(&last)) / took
		if rate < 0 {
			rate = recent
		}
		rate += (recent - rate) * -math.Expm1(-took/smoothing.Seconds())
		left := remaining(s.Queue, rate)
		switch {
		case terminal:
			if left != "" {
				left = ", about " + left + " left"
			}
			fmt.Fprintf(p.env.Stderr, "\r\033[K%s, %.1f/s, %s in flight, %d in the queue%s, %s",
				admin.Many(pagesOf(&s), "page", "pages"), rate, admin.Many(s.InFlight, "site", "sites"), s.Queue, left, webreport.Size(float64(s.Came())))
		case s.Requests != last.Requests || pagesOf(&s) != pagesOf(&last):
			attrs := []any{slog.Int64("pages", pagesOf(&s)), slog.String("per_second", fmt.Sprintf("%.1f", recent)),
				slog.Int("sites_in_flight", s.InFlight), slog.Int("in_the_queue", s.Queue), slog.String("received", webreport.Size(float64(s.Came())))}
			if left != "" {
				attrs = append(attrs, slog.String("left", "about "+left))
			}
			p.env.Log.Info("progress", attrs...)
		}
		last, then = s, now
	}
}

// pagesOf counts the pages that a crawl has obtained, in whatever way.
func pagesOf(s *crawl.Status) int64 { return s.Fetched + s.Unchanged + s.Delivered }

// endedOf counts the pages that have left the queue since the start: those obtained, and those that were not.
func endedOf(s *crawl.Status) int64 { return pagesOf(s) + s.Missing + s.Refused + s.Faults }

// remaining estimates for how long a queue lasts; it is "" where that cannot be said.
func remaining(queue int, rate float64) string {
	left := float64(queue) / rate
	switch {
	case queue == 0 || !(left >= 0 && left < 1e6):
		return ""
	case left < 60:
		return fmt.Sprintf("%.0f s", math.Ceil(left))
	case left < 5400:
		return fmt.Sprintf("%.0f min", left/60)
	}
	return fmt.Sprintf("%.0f h", left/3600)
}
