package crawl_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/pause"
)

// replaced makes a site replace all its pages, from a moment on, without announcing it, as if its
// notifier watched another directory.
func replaced(s *fakeweb.Site) (from *atomic.Bool) {
	from = new(atomic.Bool)
	s.Handler = func(rw http.ResponseWriter, req *http.Request) bool {
		body, ok := s.Body(req.URL.Path)
		if !ok || !from.Load() {
			return false
		}
		html(rw, fmt.Sprintf("<title>another site</title><p>All of it is new.</p>%s", body))
		return true
	}
	return from
}

// A site that pushes 60 true changes, and then announces none of the many that follow, is detected: its
// pages get at least a tenth of the visits that they would get had it never announced anything, and the
// estimated share of correct copies falls.
func TestSilentSiteIsAudited(t *testing.T) {
	noRace(t)
	t.Parallel()
	const pages, before, after = 150, 6 * aDay, 10 * aDay
	type outcome struct {
		visits, found int
		right         float64
	}
	crawled := func(t *testing.T, speaks bool) (o outcome) {
		inBubble(t, fakeweb.Options{Seed: 6}, func(t *testing.T, w *bubble) {
			s := numbered(w, pages)
			s.Speaks = speaks
			others := replaced(s)
			c, col := w.paid(t, eager(0))
			var since time.Time
			runFor(t, c, before+after, func(ctx context.Context) {
				for i := range 60 {
					pause.For(ctx, before/60)
					s.Edit(nth(i * 7 % pages))
				}
				since = time.Now()
				others.Store(true)
				pause.For(ctx, after-time.Minute)
				o.right = c.Status().Revisits.Fresh
			})
			_, o.visits = visits(w, s, since)
			for i := range pages {
				if pageOf(t, col, s.Origin+nth(i)).Title == "another site" {
					o.found++
				}
			}
		})
		return o
	}
	silent, told := crawled(t, false), crawled(t, true)
	t.Logf("after the change: silent %+v, telling %+v", silent, told)
	if told.visits < silent.visits/10 || told.visits < pages/10 {
		t.Errorf("%d visits to a site that fell silent, %d to one that never said anything", told.visits, silent.visits)
	}
	if told.right > .75 {
		t.Errorf("%.3f of the copies are estimated to be fresh, and %d of %d are", told.right, told.found, pages)
	}
}

// A site that pushes a one-byte change of every page every hour cannot buy visits with it: fetches caused by
// notices cost at most the budget once more, and go first to the sites where a visit is worth most.
func TestTrivialChangesDoNotBuyVisits(t *testing.T) {
	noRace(t)
	t.Parallel()
	const days, pages, perPage = 6, 60, .5
	inBubble(t, fakeweb.Options{Seed: 6}, func(t *testing.T, w *bubble) {
		pusher, honest := numbered(w, pages), numbered(w, pages)
		pusher.Speaks, honest.Speaks = true, true
		c, col := w.paid(t, crawl.Revisit{Policy: fresh.Priced{Eager: true}, PerPage: perPage})
		began := time.Now()
		var list []push
		runFor(t, c, days*aDay, func(ctx context.Context) {
			rng := rand.New(rand.NewPCG(1, 2))
			for hour := 0; pause.For(ctx, time.Hour); hour++ {
				for i := range pages {
					pusher.Edit(nth(i))
				}
				if hour%8 == 0 {
					path := nth(rng.IntN(pages))
					honest.Edit(path)
					list = append(list, push{path, time.Now()})
				}
			}
		})
		since := began.Add(days / 2 * aDay)
		_, trifles := visits(w, pusher, since)
		_, rest := visits(w, honest, since)
		budget := perPage * float64(col.Len()) * (days - days/2)
		right := 0
		for i := range pages {
			if current(t, col, honest, nth(i)) {
				right++
			}
		}
		t.Logf("%d visits to the site with trivial changes, %d to the other, for a budget of %.0f; of %d edits of the other %d at once, and %d of %d copies fresh at the end: %+v",
			trifles, rest, budget, len(list), prompt(w, honest, list), right, pages, c.Status().Revisits)
		if all := float64(trifles + rest); all > 2.2*budget+.5*fresh.Burst(budget/(days-days/2)) {
			t.Errorf("%.0f visits for a budget of %.0f, want at most about twice as many, and what was saved at first", all, budget)
		}
		if n := prompt(w, honest, list); n < len(list)*3/4 || right < pages*9/10 {
			t.Errorf("of %d edits of the site that does not flood %d were fetched at once, %d of %d copies are right", len(list), n, right, pages)
		}
	})
}

// Of a site that announces a change of one word in 500 on each page every hour, the crawler makes few more visits than if it
// announced nothing. Why states when a page would be visited without the announcements.
func TestTriflesBuyNoVisits(t *testing.T) {
	noRace(t)
	t.Parallel()
	const days, pages, perPage = 5, 60, .5
	text := strings.Repeat("The page says much the same as before. ", 500/8)
	crawled := func(t *testing.T, speaks bool) (all int, why []string) {
		inBubble(t, fakeweb.Options{Seed: 6}, func(t *testing.T, w *bubble) {
			s := numbered(w, pages)
			s.Speaks = speaks
			c, _ := w.paid(t, crawl.Revisit{Policy: fresh.Priced{Eager: true}, PerPage: perPage})
			c.Significant = true
			runFor(t, c, days*aDay, func(ctx context.Context) {
				for hour := 0; ctx.Err() == nil; hour++ {
					for i := range pages {
						s.Put(nth(i), fmt.Sprintf("<title>%d</title><p>%s It is hour %d.", i, text, hour))
					}
					pause.For(ctx, time.Hour)
					if x, err := c.Why(s.Origin + nth(7)); err == nil && ctx.Err() == nil { // a crawl that ends listens no more
						why = x.Beliefs
					}
				}
			})
			_, all = visits(w, s, time.Time{})
		})
		return all, why
	}
	silent, _ := crawled(t, false)
	told, why := crawled(t, true)
	t.Logf("%d visits to the silent site, %d to the one that announces trifles: %s", silent, told, strings.Join(why, "; "))
	if float64(told) > 1.2*float64(silent)+20 {
		t.Errorf("%d visits to a site that announces trifles, %d to the same site if it is silent", told, silent)
	}
	if !strings.Contains(strings.Join(why, "; "), "; if it had announced nothing, worth a visit from ") {
		t.Errorf("why does not state the plan without announcements: %q", why)
	}
}
