package crawl_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/sitetest"
)

func TestCopyPoliteness(t *testing.T) {
	run := func(name string, pages map[string]string, test func(*testing.T, *speaker)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, pipe(t, pages)) })
		})
	}
	run("delay", pages(5), func(t *testing.T, s *speaker) {
		c := s.follow(t, nil)
		c.equalAfter(time.Minute)
		checkGaps(t, s, time.Second)
	})
	run("crawl delay", pages(5), func(t *testing.T, s *speaker) {
		s.robots = "User-agent: *\nCrawl-delay: 7\n"
		c := s.follow(t, func(m *crawl.Copy) { m.Delay = -1 })
		c.equalAfter(time.Minute)
		checkGaps(t, s, 7*time.Second)
	})
	run("forbidden until robots.txt changes", map[string]string{"a": "A", "private/b": "B"}, func(t *testing.T, s *speaker) {
		s.robots = "User-agent: *\nDisallow: /private/\n"
		c := s.follow(t, nil)
		time.Sleep(time.Hour)
		s.edit("private/b", "B2")
		time.Sleep(time.Hour)
		if got := s.gets(); got != "a" {
			t.Errorf("requested %q", got)
		}
		if offered, owed, forbidden, _ := c.counts(); offered != 2 || owed != 0 || forbidden != 1 {
			t.Errorf("%d pages, %d pending, %d forbidden", offered, owed, forbidden)
		}
		s.with(func() { s.robots = "User-agent: *\nAllow: /\n" })
		c.equalAfter(25 * time.Hour)
	})
	run("robots.txt unavailable", map[string]string{"a": "A"}, func(t *testing.T, s *speaker) {
		s.odd["robots.txt"] = func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
			w.WriteHeader(http.StatusBadGateway)
		}
		c := s.follow(t, nil)
		time.Sleep(time.Hour)
		if got := s.gets(); got != "" {
			t.Errorf("requested %q", got)
		}
		s.with(func() { delete(s.odd, "robots.txt") })
		c.equalAfter(15 * time.Minute)
	})
	run("busy", pages(3), func(t *testing.T, s *speaker) {
		var busy atomic.Int64
		for p := range s.pages {
			s.odd[p] = func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
				if busy.Add(1) <= 2 {
					w.Header().Set("Retry-After", "300")
					w.WriteHeader(http.StatusTooManyRequests)
					return
				}
				own(w, r)
			}
		}
		c := s.follow(t, nil)
		c.equalAfter(11 * time.Minute)
		if n := len(strings.Fields(s.gets())); n != 5 {
			t.Errorf("%d requests", n)
		}
		var all []time.Time
		s.with(func() {
			for _, p := range []string{"d0/p0.html", "d1/p1.html", "d2/p2.html"} {
				all = append(all, s.times[p]...)
			}
		})
		slices.SortFunc(all, time.Time.Compare)
		for i := range 2 {
			if gap := all[i+1].Sub(all[i]); gap < 5*time.Minute {
				t.Errorf("next request after %v", gap)
			}
		}
	})
}

// checkGaps fails if two page requests were closer than gap, or much
// farther apart: the manifest and the doors are fetched in between.
func checkGaps(t *testing.T, s *speaker, gap time.Duration) {
	t.Helper()
	var all []time.Time
	s.with(func() {
		for _, list := range s.times {
			all = append(all, list...)
		}
	})
	slices.SortFunc(all, time.Time.Compare)
	for i := 1; i < len(all); i++ {
		if d := all[i].Sub(all[i-1]); d < gap || d > 4*gap+100*time.Millisecond {
			t.Errorf("request %d came after %v, want %v", i, d, gap)
		}
	}
	if len(all) == 0 {
		t.Error("no requests")
	}
}

// Whichever kind of request comes next (robots.txt, the manifest, a door or a page),
// it begins no sooner than the delay after the one before.
func TestEveryRequestKeepsTheDelay(t *testing.T) {
	const delay = 150 * time.Millisecond
	var mu sync.Mutex
	var begun []time.Time
	site := sitetest.NewSite(t, map[string]string{"a.html": "a", "b.html": "b"})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		begun = append(begun, time.Now())
		mu.Unlock()
		proxy(site).ServeHTTP(w, r)
	}))
	defer front.Close()
	c := newCopy(t, site.Base, func(m *crawl.Copy) {
		m.NoStream, m.Delay = false, delay
		m.Harvester = &harvest.Harvester{Options: harvest.Options{Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, front.Listener.Addr().String())
		}}}
	})
	c.start()
	c.want(map[string]string{"a.html": "a", "b.html": "b"})
	c.stop()
	mu.Lock()
	defer mu.Unlock()
	if len(begun) < 4 { // robots.txt, the manifest, two pages, and a door
		t.Errorf("%d requests", len(begun))
	}
	for i := 1; i < len(begun); i++ {
		// A request may arrive slightly late, and the one before it on time.
		if gap := begun[i].Sub(begun[i-1]); gap < delay*2/3 {
			t.Errorf("request %d came %v after the one before, want %v", i, gap, delay)
		}
	}
}
