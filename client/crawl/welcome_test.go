package crawl_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/protocol"
)

// A site that welcomes ten requests a second has ten edits of one moment fetched in one
// second; a site without a welcome in ten.
func TestWelcomeSpeedsUpFetches(t *testing.T) {
	noTotals(t)
	for _, c := range []struct {
		name    string
		welcome *protocol.Welcome
		most    float64 // --max-rate
		lasts   time.Duration
	}{
		{"no welcome", nil, 0, 9 * time.Second},
		{"welcome", &protocol.Welcome{Rate: 10, Connections: 2, Batch: 50}, 0, 900 * time.Millisecond},
		{"welcomes disabled", &protocol.Welcome{Rate: 10}, -1, 9 * time.Second},
		{"higher rate than allowed", &protocol.Welcome{Rate: 1000}, 100, 90 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := pipe(t, pages(10))
				s.welcome = c.welcome
				k := s.follow(t, func(m *crawl.Copy) { m.MaxRate = c.most })
				k.equalAfter(10 * time.Minute)
				begin := time.Now()
				for p := range s.live() {
					s.edit(p, "edited "+p) // equal pages cost one request
				}
				k.equal()
				var first, last time.Time // when they were fetched
				s.with(func() {
					for _, list := range s.times {
						for _, at := range list {
							if at.Before(begin) {
								continue
							}
							if first.IsZero() || at.Before(first) {
								first = at
							}
							if at.After(last) {
								last = at
							}
						}
					}
				})
				if d := last.Sub(first); d < c.lasts*8/10 || d > c.lasts*13/10+100*time.Millisecond {
					t.Errorf("it took %v, want about %v", d, c.lasts)
				}
			})
		})
	}
}
