package crawl_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/pause"
)

// Whether a feed has news is decided by its date, then its digest, then its items (A02): a page is fetched
// once when it is new in the feed, and for no other change of the feed.
func TestFeedHasNews(t *testing.T) {
	noRace(t)
	inBubble(t, fakeweb.Options{Seed: 5}, func(t *testing.T, w *bubble) {
		s := w.Add(fakeweb.Honest)
		s.Speaks, s.Sitemap = false, false
		s.Put("/", `<title>Home</title><link rel=alternate type="application/rss+xml" href="/feed.xml">`)
		var mu sync.Mutex
		var items, date string
		heeds := true // the server answers 304 according to the date
		asked := map[string]int{}
		s.Handler = func(rw http.ResponseWriter, req *http.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			path := req.URL.Path
			if path != "/feed.xml" {
				if strings.HasPrefix(path, "/item") {
					asked[path]++
				}
				return false
			}
			rw.Header().Set("Last-Modified", date)
			if heeds && req.Header.Get("If-Modified-Since") == date {
				asked["304"]++
				rw.WriteHeader(http.StatusNotModified)
				return true
			}
			asked["200"]++
			rss(rw, s, items)
			return true
		}
		item := func(n int) string {
			path := fmt.Sprintf("/item%d.html", n)
			s.Put(path, fmt.Sprintf("<title>Item %d</title>", n))
			return fmt.Sprintf("<item><title>Item %d</title><link>%s%s</link></item>", n, s.Origin, path)
		}
		day := func(n int) string { return time.Date(1999, 1, n, 0, 0, 0, 0, time.UTC).Format(http.TimeFormat) }

		c, _ := w.open(t, time.Second, crawl.Settings{Policy: fresh.Thesis{MaxPeriod: -1}, FeedEvery: time.Hour})
		first := item(1)
		runFor(t, c, 24*time.Hour, func(ctx context.Context) {
			for _, step := range []struct {
				what   string
				change func()
				want   string // of three hours, in which it is polled three times
			}{
				{"first poll", func() { items, date = first, day(1) }, "map[/item1.html:1 200:1 304:2]"},
				{"nothing changed", func() {}, "map[304:3]"},
				{"only a new date", func() { date = day(2) }, "map[200:1 304:2]"},
				{"new item and date", func() { items, date = item(2)+items, day(3) }, "map[/item2.html:1 200:1 304:2]"},
				{"new item, no conditional requests", func() { items, heeds = item(3)+items, false }, "map[/item3.html:1 200:3]"},
				{"new content without a new item", func() { items += "<!-- -->" }, "map[200:3]"},
			} {
				mu.Lock()
				clear(asked)
				step.change()
				mu.Unlock()
				pause.For(ctx, 3*time.Hour)
				mu.Lock()
				if got := fmt.Sprint(asked); got != step.want {
					t.Errorf("%s: requests %s, want %s", step.what, got, step.want)
				}
				mu.Unlock()
			}
		})
	})
}

// rss serves a feed with some items.
func rss(rw http.ResponseWriter, s *fakeweb.Site, items string) {
	rw.Header().Set("Content-Type", "application/rss+xml")
	fmt.Fprintf(rw, `<rss version="2.0"><channel><title>News</title><link>%s/</link><description>d</description>%s</channel></rss>`, s.Origin, items)
}
