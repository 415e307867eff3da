package crawl_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/fakeweb"
)

// Where each page leads to the next one, it is committed at once, however many other hosts take long.
func TestSlowHostsDoNotDelayCommits(t *testing.T) {
	inBubble(t, fakeweb.Options{Seed: 1}, func(t *testing.T, w *bubble) {
		chain := w.quiet()
		chain.Latency = 5 * time.Millisecond
		const last = 30
		chain.Put("/", page("home", "/c0.html"))
		for n := range last {
			chain.Put(fmt.Sprintf("/c%d.html", n), page("", fmt.Sprintf("/c%d.html", n+1)))
		}
		chain.Put(fmt.Sprintf("/c%d.html", last), page("the end"))
		for range 6 {
			w.quiet().Latency = 20 * time.Second
		}
		c, _ := w.open(t, -1, crawl.Settings{Once: true, NoFeeds: true})
		finish(t, c)
		var first, end time.Time
		for _, a := range w.Log() {
			switch {
			case a.Site == chain && a.Path == "/c0.html":
				first = a.Begin
			case a.Site == chain && a.Path == fmt.Sprintf("/c%d.html", last):
				end = a.End
			}
		}
		if took := end.Sub(first); first.IsZero() || end.IsZero() || took > 2*time.Second {
			t.Errorf("%d pages took %v", last, took)
		}
	})
}
