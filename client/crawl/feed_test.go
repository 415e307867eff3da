package crawl_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/engine/poll"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/pause"
)

// Whether a feed has news is decided by its date, then its digest, then its items (A02): a page is fetched
// once when it is new in the feed, and for no other change of the feed.
func TestFeedHasNews(t *testing.T) {
	noRace(t)
	dir := scratch(t)
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 5, Pages: 1})
		defer w.Close()
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
			rw.Header().Set("Content-Type", "application/rss+xml")
			fmt.Fprintf(rw, `<rss version="2.0"><channel><title>News</title><link>%s/</link><description>d</description>%s</channel></rss>`, s.Origin, items)
			return true
		}
		item := func(n int) string {
			path := fmt.Sprintf("/item%d.html", n)
			s.Put(path, fmt.Sprintf("<title>Item %d</title>", n))
			return fmt.Sprintf("<item><title>Item %d</title><link>%s%s</link></item>", n, s.Origin, path)
		}
		day := func(n int) string { return time.Date(1999, 1, n, 0, 0, 0, 0, time.UTC).Format(http.TimeFormat) }

		policy := fresh.Thesis{MaxPeriod: -1}
		col, err := collection.Open(dir, &collection.Options{Strategy: frontier.BreadthFirst{}, Policy: policy, Quality: crawl.DefaultQuality.Of})
		if err != nil {
			t.Fatal(err)
		}
		defer col.Close()
		c := crawler(col, s.Origin+"/")
		c.Policy, c.Once, c.FeedEvery = policy, false, time.Hour
		c.Harvester = &harvest.Harvester{Options: harvest.Options{Agent: "ParleyTest/1", From: "test@example.net", Resolver: w, Dial: w.Dial, Wait: time.Second}}
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

// A feed is polled at fixed intervals, or, if visits have a price, by the poll policy (A03, A13): a
// feed without news ever more rarely, by the timer of advaRSS, until it is polled every 800 minutes.
func TestFeedIsPolledByPolicy(t *testing.T) {
	noRace(t)
	for _, c := range []struct {
		policy poll.Policy
		least  int // polls in six days, once two are over
		most   int
	}{
		{nil, 143, 144},
		{poll.RoundRobin{Every: 6 * time.Hour}, 23, 24},
		{poll.Trained{}, 10, 11},
	} {
		dir := scratch(t)
		synctest.Test(t, func(t *testing.T) {
			w := fakeweb.New(fakeweb.Options{Seed: 5, Pages: 1})
			defer w.Close()
			s := w.Add(fakeweb.Honest)
			s.Speaks, s.Sitemap, s.Latency = false, false, 0
			s.Put("/", `<title>Home</title><link rel=alternate type="application/rss+xml" href="/feed.xml">`)
			var polls atomic.Int64
			s.Handler = func(rw http.ResponseWriter, req *http.Request) bool {
				if req.URL.Path != "/feed.xml" {
					return false
				}
				polls.Add(1)
				rw.Header().Set("Content-Type", "application/rss+xml")
				fmt.Fprintf(rw, `<rss version="2.0"><channel><title>News</title><link>%s/</link><description>d</description></channel></rss>`, s.Origin)
				return true
			}
			one, col := paid(t, dir, w, crawl.Revisit{Policy: fresh.Priced{}, PerDay: 10})
			defer col.Close()
			one.NoFeeds, one.Polls.Policy, one.FeedEvery = false, c.policy, time.Hour
			runFor(t, one, 9*24*time.Hour, func(ctx context.Context) {
				pause.For(ctx, 2*24*time.Hour)
				before := polls.Load()
				pause.For(ctx, 6*24*time.Hour)
				if n := int(polls.Load() - before); n < c.least || n > c.most {
					t.Errorf("%+v: %d polls, want %d to %d", c.policy, n, c.least, c.most)
				}
			})
		})
	}
}
