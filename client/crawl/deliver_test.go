package crawl_test

import (
	"fmt"
	"maps"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/protocol"
)

// A subscriber that was away while pages changed several times first gets the changes without
// contents; a later message has the contents, so no page is fetched before it.
func TestContentsAfterCatchingUp(t *testing.T) {
	noTotals(t)
	const pages = 60
	for _, c := range []struct {
		as     protocol.Form
		pulled bool
		most   int // requests for pages
	}{
		{protocol.AsMeta, true, pages},
		{protocol.AsPage, true, 0},
		{protocol.AsPage, false, 0},
	} {
		t.Run(fmt.Sprintf("%s, pulled %v", c.as, c.pulled), func(t *testing.T) {
			x := newTeller(t, pages, func(m *crawl.Copy) { m.As, m.NoStream = c.as, c.pulled })
			x.catchUp()
			x.stop()
			words := 1
			if !c.pulled {
				words = 6000 // so that the changes take more than one message
			}
			for range 3 {
				for i := range pages {
					x.Write(fmt.Sprintf("d%d/p%d.html", i%3, i), x.long(words))
				}
				x.Publish()
			}
			var messages atomic.Int64
			x.Break("/parley/changes", func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
				q := r.URL.Query()
				q.Set("limit", "18")
				r.URL.RawQuery = q.Encode()
				own(w, r)
				messages.Add(1)
			})
			x.gets()
			x.m.Bulk = -1
			x.catchUp()
			if got := len(x.gets()); got > c.most || c.pulled && messages.Load() < 10 {
				t.Errorf("%d requests for %d pages, where %d are needed; %d messages", got, pages, c.most, messages.Load())
			}
		})
	}
}

// That a site has more changes pending that do not concern us is no reason to wait: on a
// busy site that is always so.
func TestUnrelatedPendingChangesDoNotDelayFetches(t *testing.T) {
	noRace(t)
	synctest.Test(t, func(t *testing.T) {
		s := pipe(t, pages(3))
		c := s.follow(t, nil)
		c.equalAfter(time.Minute)
		const late = "d0/p0.html" // which is fetched again after 10 seconds
		s.with(func() {
			s.odd[late] = func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) { http.NotFound(w, r) }
		})
		s.edit(late, "again")
		time.Sleep(5 * time.Second)
		s.with(func() {
			delete(s.odd, late)
			s.ahead = 1
		})
		for range 6 {
			s.with(func() {
				s.tell(protocol.Change{Op: protocol.Update, Item: protocol.Item{URL: "http://elsewhere.test/", Length: -1}})
			})
			time.Sleep(5 * time.Second)
		}
		if got := list(c.files()); got != list(s.live()) {
			t.Errorf("the copy is\n%s", got)
		}
		if n := len(s.times[late]); n != 3 {
			t.Errorf("%d requests, want an empty one between two with changes", n)
		}
	})
}

// A change is stored together with its page if the site sends the page at once, and otherwise before it.
func TestChangeStoredWithItsPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pipe(t, pages(3))
		c := s.follow(t, nil)
		time.Sleep(time.Minute)

		const name = "d0/p0.html"
		for i, takes := range []time.Duration{5 * time.Millisecond, time.Second} {
			c.equal()
			s.with(func() {
				s.odd[name] = func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
					time.Sleep(takes)
					own(w, r)
				}
			})
			s.edit(name, fmt.Sprint("again ", i))
			time.Sleep(takes - time.Millisecond)
			if got, want := c.manifest().Cursor.Seq, uint64(2*i); got != want {
				t.Errorf("before the page, which takes %v, the cursor is at %d, want %d", takes, got, want)
			}
			time.Sleep(2 * time.Millisecond)
			if got, want := c.manifest().Cursor.Seq, uint64(i+1); got != want {
				t.Errorf("after the page, which takes %v, the cursor is at %d, want %d", takes, got, want)
			}
			c.equal()
			time.Sleep(time.Minute)
		}
	})
}

// So is a step of several changes with all its pages, if they come soon after each other.
func TestChangesStoredWithTheirPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const changed, takes = 8, 5 * time.Millisecond
		s := pipe(t, pages(20))
		c := s.follow(t, func(m *crawl.Copy) { m.Delay = -1 })
		time.Sleep(time.Minute)
		c.equal()
		had := c.files()
		s.with(func() {
			for i := range changed {
				name := fmt.Sprintf("d%d/p%d.html", i%7, i)
				s.odd[name] = func(w http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
					time.Sleep(takes)
					own(w, r)
				}
				s.pages[name] = fmt.Sprint("again ", i)
				s.tell(protocol.Change{Op: protocol.Update, Item: s.item(name)})
			}
		})
		time.Sleep(changed*takes - time.Millisecond)
		if got := c.manifest().Cursor.Seq; got != 0 || !maps.Equal(c.files(), had) {
			t.Errorf("before the last page, the cursor is at %d, and the copy has changed: %v", got, !maps.Equal(c.files(), had))
		}
		time.Sleep(40 * time.Millisecond)
		if got := c.manifest().Cursor.Seq; got != changed || list(c.files()) != list(s.live()) {
			t.Errorf("after the last page, the cursor is at %d, and the copy is %s", got, list(c.files()))
		}
	})
}

// A crawler does not wait for ever for a site that always says that it has more changes.
func TestEndlessPendingChangesDoNotBlockFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pipe(t, pages(3))
		c := s.follow(t, nil)
		c.equalAfter(time.Minute)
		s.gets()
		s.with(func() { s.ahead = 1 })
		s.edit("d0/p0.html", "again")
		time.Sleep(50 * time.Second)
		if got := s.gets(); got != "" {
			t.Errorf("fetched %q, though the site has more changes to send", got)
		}
		c.equalAfter(15 * time.Second)
		s.edit("d1/p1.html", "again")
		c.equalAfter(10 * time.Second)
		s.with(func() { s.ahead = 0 })
		s.edit("d2/p2.html", "again")
		c.equalAfter(10 * time.Second)
	})
}
