package harvest_test

import (
	"cmp"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/fakeweb"
)

// From a host of one's own, and from a site that states a rate, several pages are fetched over one connection before the pause. A
// Crawl-delay, a refusal and a slow response end that, and other sites never get it.
func TestPagesAtOnce(t *testing.T) {
	const wait, own = 10 * time.Second, "host.localhost"
	for _, c := range []struct {
		name, host string
		atOnce     int
		rate       float64       // of a welcome, stated in the first response
		delay      time.Duration // Crawl-delay
		then       func(n int, w http.ResponseWriter)
		want       []time.Duration // between requests, in milliseconds
		dialled    int
	}{
		{"own host", own, 3, 0, 0, nil, []time.Duration{0, 0, 10e3, 0, 0, 10e3}, 3},
		{"own address", "10.1.2.3", 3, 0, 0, nil, []time.Duration{0, 0, 10e3, 0, 0, 10e3}, 3},
		{"one at once", own, 1, 0, 0, nil, []time.Duration{10e3, 10e3, 10e3, 10e3, 10e3, 10e3}, 1},
		{"all at once", own, 100, 0, 0, nil, []time.Duration{0, 0, 0, 0, 0, 0}, 1},
		{"somebody else's host", "host.example", 3, 0, 0, nil, []time.Duration{10e3, 10e3, 10e3, 10e3, 10e3, 10e3}, 1},
		{"localhost elsewhere", "elsewhere.localhost", 3, 0, 0, nil, []time.Duration{10e3, 10e3, 10e3, 10e3, 10e3, 10e3}, 1},
		{"Crawl-delay", own, 3, 0, 4 * time.Second, nil, []time.Duration{10e3, 10e3, 10e3, 10e3, 10e3, 10e3}, 1},
		{"refused", own, 3, 0, 0, func(n int, w http.ResponseWriter) {
			if n == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}, []time.Duration{0, 30e3, 10e3, 10e3, 10e3, 10e3}, 1},
		{"slow", own, 3, 0, 0, func(n int, _ http.ResponseWriter) {
			if n == 1 {
				time.Sleep(1500 * time.Millisecond)
			}
		}, []time.Duration{0, 16.5e3, 0, 0, 10e3, 0}, 3},
		{"closed", own, 3, 0, 0, func(n int, w http.ResponseWriter) {
			if n == 1 {
				w.Header().Set("Connection", "close")
			}
		}, []time.Duration{0, 10e3, 0, 0, 10e3, 0}, 3},
		{"stated rate", "host.example", 3, 5, 0, nil, []time.Duration{0, 0, 600, 0, 0, 600}, 2},
		{"more than the stated rate", "host.example", 3, 2, 0, nil, []time.Duration{0, 1e3, 0, 1e3, 0, 1e3}, 2},
		{"less than one a second", own, 3, .5, 0, nil, []time.Duration{2e3, 2e3, 2e3, 2e3, 2e3, 2e3}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := fakeweb.New(fakeweb.Options{Seed: 4})
				defer w.Close()
				ip, _ := netip.ParseAddr(c.host)
				if ip = cmp.Or(ip, at(1)); c.host == own {
					ip = netip.MustParseAddr("10.0.0.1")
				}
				s := w.AddAt(fakeweb.Honest, c.host, ip)
				h := newHarvester(w)
				h.Options.Wait, h.Options.AtOnce, h.Options.Private = wait, c.atOnce, true
				h.Options.IdleTimeout = time.Minute
				if c.dialled > 1 { // a connection that waits would be kept
					h.Options.IdleTimeout = wait
				}
				n := 0
				s.Handler = func(rw http.ResponseWriter, r *http.Request) bool {
					if c.then != nil {
						c.then(n, rw)
					}
					n++
					return false
				}
				b := batchOf([]*fakeweb.Site{s}, 1, func(int) int { return 7 })
				b.Sites[0].Delay = c.delay
				if c.rate > 0 { // which is known for an address, and so after the first request
					harvestAll(t, h, batchOf([]*fakeweb.Site{s}, 1, func(int) int { return 1 }))
					h.Welcome(s.Origin, c.rate, 1)
					w.Forget()
				}
				limits := 0
				for _, a := range harvestAll(t, h, b) {
					limits += a.PerConnection
				}
				var got []time.Duration
				log := w.Log()
				for i := range log[1:] {
					got = append(got, log[i+1].Begin.Sub(log[i].Begin).Truncate(10*time.Millisecond)/time.Millisecond) // checking a kept connection takes a moment
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("requests after %d ms, want %d", got, c.want)
				}
				if w.Dialled() != c.dialled {
					t.Errorf("%d connections, want %d", w.Dialled(), c.dialled)
				}
				last := 1 // requests over the last connection, which ended for lack of pages
				for i := len(c.want) - 1; c.want[i] == 0 && i > 0; i-- {
					last++
				}
				if c.rate == 0 && c.dialled > 1 && limits != len(log)-last {
					t.Errorf("the connections that took no more had %d requests, want %d", limits, len(log)-last)
				}
			})
		})
	}
}
