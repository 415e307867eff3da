package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// A crawl ends when a larger share of name lookups fails than MaxFailedLookups (G33).
func TestCrawlEndsAtShareOfFailedLookups(t *testing.T) {
	noRace(t)
	t.Parallel()
	for share, want := range map[float64]error{0: nil, 0.3: harvest.ErrResolver, 1: nil} { // 0: the default, 0.9
		inBubble(t, fakeweb.Options{Seed: 4, Sites: 60, Kinds: []fakeweb.Kind{fakeweb.Honest}}, func(t *testing.T, w *bubble) {
			w.Blind(60)
			c := w.opened(t, func(o *crawl.Options) {
				if share > 0 {
					o.Fetch.MaxFailedLookups = share
				}
			})
			if err := c.Run(t.Context()); !errors.Is(err, want) {
				t.Errorf("60 %% of the lookups failed, MaxFailedLookups is %g: %v, want %v", share, err, want)
			}
		})
	}
}

// A connection is kept between two requests if they are closer together than IdleTimeout (G39).
func TestIdleTimeoutOfConnections(t *testing.T) {
	for idle, kept := range map[time.Duration]bool{harvest.DefaultIdle: false, time.Minute: true, 0: false} {
		inBubble(t, fakeweb.Options{Seed: 5}, func(t *testing.T, w *bubble) {
			w.plain("/a.html", "/b.html", "/c.html")
			c := w.opened(t, func(o *crawl.Options) {
				o.Fetch.IdleTimeout = idle
				o.Sources.NoManifests, o.Sources.NoSitemaps = true, true
			})
			finish(t, c)
			want := len(w.Log())
			if kept {
				want = 1
			}
			if len(w.Log()) < 5 || w.Dialled() != want {
				t.Errorf("idle timeout %v, a request every 15 s: %d requests over %d connections, want %d", idle, len(w.Log()), w.Dialled(), want)
			}
		})
	}
}

// Dates of pages are used within the limits: an earlier one is ignored, one that is a little ahead is now, and one
// further ahead is ignored (G35, G36).
func TestLimitsOfDates(t *testing.T) {
	old := time.Date(1985, 3, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		from  string
		ahead time.Duration
		used  string // of the pages /old.html, /near.html and /far.html
	}{
		{"", 24 * time.Hour, "[false true false]"},
		{"1993", 24 * time.Hour, "[false true false]"},
		{"1985", 72 * time.Hour, "[true true true]"},
		{"1985-03-02", 0, "[false false false]"},
	} {
		inBubble(t, fakeweb.Options{Seed: 5}, func(t *testing.T, w *bubble) {
			s := w.plain("/old.html", "/near.html", "/far.html")
			begun := time.Now()
			dates := map[string]time.Time{"/old.html": old, "/near.html": begun.Add(12 * time.Hour), "/far.html": begun.Add(48 * time.Hour)}
			s.Handler = func(rw http.ResponseWriter, req *http.Request) bool {
				date, ok := dates[req.URL.Path]
				if ok {
					rw.Header().Set("Last-Modified", date.UTC().Format(http.TimeFormat))
					html(rw, page(req.URL.Path))
				}
				return ok
			}
			one := w.opened(t, func(o *crawl.Options) { o.Sources.DatesFrom, o.Sources.DatesAhead = c.from, c.ahead })
			finish(t, one)
			var used []bool
			for _, path := range []string{"/old.html", "/near.html", "/far.html"} {
				p := pageOf(t, one.Collection, s.Origin+path)
				m := p.History.Modified
				if !m.IsZero() && !m.Equal(old) && (m.Before(begun) || m.After(p.Last)) {
					t.Errorf("%s was modified at %v, which is neither its date nor the time of the visit, %v", path, m, p.Last)
				}
				used = append(used, !m.IsZero())
			}
			if fmt.Sprint(used) != c.used {
				t.Errorf("from %s, up to %v ahead: dates used %v, want %s", c.from, c.ahead, used, c.used)
			}
			for e := range every(t, one.Collection.Events(t.Context(), protocol.Cursor{}, false)) {
				if e.URL == s.Origin+"/old.html" && e.Modified.Equal(old) != used[0] {
					t.Errorf("from %s: the event says %v", c.from, e.Modified)
				}
			}
		})
	}
}

// The more often a reader jumps to any page instead of following a link, the more alike the ranks are (G38).
// Three pages lead to the hub, the hub to the front page, and that to the three (K02).
func TestPagerankJump(t *testing.T) {
	w := newWeb(t, map[string]string{
		"/": page("home", "a.html", "b.html", "c.html"), "/a.html": page("a", "hub.html"),
		"/b.html": page("b", "hub.html"), "/c.html": page("c", "hub.html"), "/hub.html": page("hub", "/"),
	})
	for jump, want := range map[float64]float64{0.15: 1.66, 0.9: 1.18} {
		o := ownSite(t, w.URL+"/")
		o.Order.Score, o.Order.PagerankJump = "pagerank=1", jump
		for run := range 2 { // the second run ranks the pages that the first found
			c := openOptions(t, o)
			finish(t, c)
			hub, leaf := pageOf(t, c.Collection, w.URL+"/hub.html").Rank, pageOf(t, c.Collection, w.URL+"/a.html").Rank
			must.OK(t, c.Collection.Close())
			if run == 1 && (math.Abs(float64(hub)-want) > 0.02 || leaf >= 1 || leaf <= 0) {
				t.Errorf("jump %g: the hub ranks %.3f, want %g; a leaf %.3f", jump, hub, want, leaf)
			}
		}
	}
}

// The rules for polling a feed obey the least time between two polls (G51), the period of a training execution (G49), and
// the weight of subscribers (G52). The feed never has news: training (A03, A13) polls it every 80 executions in the end.
func TestPollsOfAFeed(t *testing.T) {
	noRace(t)
	t.Parallel()
	const feed = "/feed.xml"
	for _, c := range []struct {
		what        string
		set         func(o *crawl.Options, origin string)
		least, most int // polls in six days, once two are over
	}{
		{"at fixed intervals", func(o *crawl.Options, _ string) { o.Sources.Polls = "fixed" }, 143, 144},
		{"round robin", func(o *crawl.Options, _ string) { o.Sources.Polls = "round-robin" }, 143, 144},
		{"at least 6 hours apart", func(o *crawl.Options, _ string) {
			o.Sources.Polls, o.Sources.MinPollPeriod = "round-robin", 6*time.Hour
		}, 23, 24},
		{"training", func(o *crawl.Options, _ string) { o.Sources.Polls = "training" }, 10, 11},
		{"training every 2 minutes", func(o *crawl.Options, _ string) {
			o.Sources.Polls, o.Sources.TrainingPeriod = "training", 2*time.Minute
		}, 52, 54},
		{"advaRSS, its training every 2 minutes", func(o *crawl.Options, _ string) {
			o.Sources.Polls, o.Sources.TrainingPeriod = "advarss", 2*time.Minute
		}, 52, 54},
		{"by expected items", func(o *crawl.Options, _ string) { o.Sources.Polls = "posting-rate" }, 0, 4},
		{"subscribers do not count", func(o *crawl.Options, origin string) {
			o.Sources.Polls, o.Sources.Subscribers = "posting-rate", []string{"1000 " + origin + feed}
		}, 0, 4},
		{"subscribers count", func(o *crawl.Options, origin string) {
			o.Sources.Polls, o.Sources.Subscribers, o.Sources.SubscriberWeight = "posting-rate", []string{"1000 " + origin + feed, "3 https://other.example/feed.xml"}, 1
		}, 100, 6 * 24 * 6},
	} {
		inBubble(t, fakeweb.Options{Seed: 5}, func(t *testing.T, w *bubble) {
			s := w.quiet()
			s.Put("/", `<title>Home</title><link rel=alternate type="application/rss+xml" href="`+feed+`">`)
			var polls atomic.Int64
			s.Handler = func(rw http.ResponseWriter, req *http.Request) bool {
				if req.URL.Path == feed {
					polls.Add(1)
					rss(rw, s, "")
				}
				return req.URL.Path == feed
			}
			one := w.opened(t, func(o *crawl.Options) {
				o.Once, o.Revisits.Budget = false, "10"
				c.set(o, s.Origin)
			})
			runFor(t, one, 9*24*time.Hour, func(ctx context.Context) {
				pause.For(ctx, 2*24*time.Hour)
				before := polls.Load()
				pause.For(ctx, 6*24*time.Hour)
				if n := int(polls.Load() - before); n < c.least || n > c.most {
					t.Errorf("%s: %d polls, want %d to %d", c.what, n, c.least, c.most)
				}
			})
		})
	}
}
