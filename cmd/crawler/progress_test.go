package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/must"
)

// Without a terminal, the log has a line a minute, with an estimate, and none while nothing happens.
func TestProgressInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		begun := time.Now()
		p := &progress{env: &command.Env{Stderr: io.Discard, Log: slog.New(slog.NewTextHandler(&log, nil))}, status: func() crawl.Status {
			n := min(int64(time.Since(begun)/time.Second), 200) // a URL a second, and a quarter of them has no page
			return crawl.Status{Requests: n, Fetched: n - n/2, Delivered: n / 4, Missing: n/2 - n/4, Queue: int(200 - n), Wire: n * 1e5}
		}}
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		must.OK(t, p.Run(ctx))
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 4 {
			t.Fatalf("%d lines in an hour of which 200 s had work:\n%s", len(lines), &log)
		}
		if want := `msg=progress pages=45 per_second=1.0 sites_in_flight=0 in_the_queue=140 received="6.0 MB" left="about 2 min"`; !strings.HasSuffix(lines[0], want) {
			t.Errorf("%s, want %s", lines[0], want)
		}
		if !strings.Contains(lines[3], "pages=150 ") || strings.Contains(lines[3], "left=") {
			t.Errorf("at the end: %s", lines[3])
		}
	})
}

func TestRemainingTime(t *testing.T) {
	for _, c := range []struct {
		queue int
		rate  float64
		want  string
	}{{0, 5, ""}, {10, 0, ""}, {10, -1, ""}, {1, 3, "1 s"}, {100, 2, "50 s"}, {150, 1, "2 min"}, {7200, 1, "2 h"}, {1 << 40, .001, ""}} {
		if got := remaining(c.queue, c.rate); got != c.want {
			t.Errorf("%d pages at %g/s: %q, want %q", c.queue, c.rate, got, c.want)
		}
	}
}
