package harvest_test

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/must"
)

// A site that states a request rate gets that rate, at its address and for a day, until it
// refuses, is slow, or moves; its neighbours keep their rate.
func TestWelcome(t *testing.T) {
	const wait = 10 * time.Second
	for _, c := range []struct {
		name string
		rate float64
		set  func(*harvest.Harvester)
		then func(s *fakeweb.Site, n int, w http.ResponseWriter) bool // at the n-th request, from 0
		want []time.Duration                                          // between requests 1 to 6 after the rate was stated
	}{
		{"rate 10", 10, nil, nil, []time.Duration{100, 100, 100, 100, 100}},
		{"rate above the default maximum", 1000, nil, nil, []time.Duration{100, 100, 100, 100, 100}},
		{"rate above the configured maximum", 1000, func(h *harvest.Harvester) { h.Options.MaxRate = 50 }, nil, []time.Duration{20, 20, 20, 20, 20}},
		{"welcomes disabled", 10, func(h *harvest.Harvester) { h.Options.MaxRate = -1 }, nil, []time.Duration{10e3, 10e3, 10e3, 10e3, 10e3}},
		{"rate 0.05", 0.05, nil, nil, []time.Duration{20e3, 20e3, 20e3, 20e3, 20e3}},
		{"smallest rate", math.SmallestNonzeroFloat64, nil, nil, []time.Duration{3600e3, 3600e3, 3600e3, 3600e3, 3600e3}},
		{"rate 0", 0, nil, nil, []time.Duration{10e3, 10e3, 10e3, 10e3, 10e3}},
		{"until it refuses", 10, nil, func(_ *fakeweb.Site, n int, w http.ResponseWriter) bool {
			if n == 3 {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusTooManyRequests)
			}
			return n == 3
		}, []time.Duration{100, 100, 10e3, 10e3, 10e3}},
		{"until it is slow", 10, nil, func(_ *fakeweb.Site, n int, _ http.ResponseWriter) bool {
			if n == 3 {
				time.Sleep(2 * time.Second)
			}
			return false
		}, []time.Duration{100, 100, 12e3, 10e3, 10e3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := fakeweb.New(fakeweb.Options{Seed: 4})
				defer w.Close()
				s := w.AddAt(fakeweb.Honest, "host.example", at(1))
				neighbour := w.AddAt(fakeweb.Honest, "other.example", at(1))
				h := newHarvester(w)
				h.Options.Wait, h.Options.Slow = wait, -1
				if c.set != nil {
					c.set(h)
				}
				var asked []time.Time
				s.Handler = func(rw http.ResponseWriter, r *http.Request) bool {
					asked = append(asked, time.Now())
					if len(asked) == 1 {
						defer h.Welcome(s.Origin, c.rate, 2)
					}
					return c.then != nil && c.then(s, len(asked)-1, rw)
				}
				sites := []*fakeweb.Site{s, neighbour}
				if c.rate < 1 || c.then != nil { // else the two wait for each other
					sites = sites[:1]
				}
				harvestAll(t, h, batchOf(sites, 1, func(int) int { return 7 }))
				var got []time.Duration
				for i := 2; i < len(asked); i++ {
					got = append(got, asked[i].Sub(asked[i-1]).Truncate(time.Millisecond)/time.Millisecond)
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("requests after %d ms, want %d", got, c.want)
				}
				begun(t, w, wait, func(a fakeweb.Access) bool { return a.Site == neighbour })
			})
		})
	}
}

// The rate that a site states is its own: the other sites at its address get no more than before, and do not delay it.
func TestWelcomeIsNotForNeighbours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 4})
		defer w.Close()
		guest := w.AddAt(fakeweb.Honest, "guest.example", at(1))
		sites := []*fakeweb.Site{guest}
		for i := range 6 {
			sites = append(sites, w.AddAt(fakeweb.Honest, fmt.Sprintf("other-%d.example", i), at(1)))
		}
		h := newHarvester(w)
		h.Options.Wait, h.Options.Slow = time.Second, -1                    // six names in a second, of which an address gets two
		harvestAll(t, h, batchOf(sites[:1], 1, func(int) int { return 1 })) // from now on its address is known
		h.Welcome(guest.Origin, 10, 1)
		w.Forget()
		begin := time.Now()
		harvestAll(t, h, batchOf(sites, 1, func(int) int { return 40 }))
		begun(t, w, 500*time.Millisecond, func(a fakeweb.Access) bool { return a.Site != guest })
		begun(t, w, 100*time.Millisecond, func(a fakeweb.Access) bool { return a.Site == guest })
		last := map[bool]time.Duration{}
		for _, a := range w.Log() {
			last[a.Site == guest] = a.Begin.Sub(begin)
		}
		// The last pages of the neighbours come slower: when a single site has pages left, it gets one a second. With those of
		// the guest among them they would take 140 s.
		if last[true] > 5*time.Second || last[false] > 126*time.Second {
			t.Errorf("40 pages at 10 a second took %v, 240 at 2 a second %v", last[true], last[false])
		}
	})
}

// A Crawl-delay that became known while a batch was being assembled is not undone by that batch.
func TestCrawlDelaySurvivesBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 4})
		defer w.Close()
		s := w.AddAt(fakeweb.Honest, "host.example", at(1))
		h := newHarvester(w)
		h.Options.Wait, h.Options.Slow = time.Second, -1
		b := batchOf([]*fakeweb.Site{s}, 1, func(int) int { return 4 })
		h.Pace(s.Origin, 5*time.Second)
		harvestAll(t, h, b)
		begun(t, w, 5*time.Second, always)
		if n := len(w.Log()); n != 4 {
			t.Errorf("%d requests", n)
		}
	})
}

// A welcome holds for the address that sent it, for a day, and a Crawl-delay still applies.
func TestWelcomeExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 4})
		defer w.Close()
		s := w.AddAt(fakeweb.Honest, "host.example", at(1))
		w.AddAt(fakeweb.Honest, "other.example", at(2))
		h := newHarvester(w)
		h.Options.Wait, h.Options.Slow, h.Options.AddressAge = 10*time.Second, -1, time.Minute
		to := at(1)
		h.Options.Resolver = resolver(func(string) []netip.Addr { return []netip.Addr{to} })
		ask := func(delay, pause time.Duration) {
			t.Helper()
			w.Forget()
			b := batchOf([]*fakeweb.Site{s}, 1, func(int) int { return 4 })
			b.Sites[0].Delay = delay
			harvestAll(t, h, b)
			begun(t, w, pause, always)
			if n := len(w.Log()); n != 4 || w.Log()[3].Begin.Sub(w.Log()[0].Begin) > 4*pause {
				t.Errorf("%d requests within %v, want every %v", n, w.Log()[n-1].Begin.Sub(w.Log()[0].Begin), pause)
			}
			time.Sleep(time.Minute)
		}
		ask(0, 10*time.Second)
		h.Welcome(s.Origin, 2, 0)
		ask(0, 500*time.Millisecond)
		ask(3*time.Second, 3*time.Second)
		h.Pace(s.Origin, 0) // robots.txt no longer has it
		to = at(2)
		ask(0, 10*time.Second)
		h.Welcome(s.Origin, 2, 0)
		ask(0, 500*time.Millisecond)
		time.Sleep(24 * time.Hour)
		harvestAll(t, h, batchOf([]*fakeweb.Site{s}, 1, func(int) int { return 1 })) // which makes the harvester notice
		time.Sleep(time.Minute)
		ask(0, 10*time.Second)
	})
}

// The stated rate counts from when a request was sent, however long it took to connect.
func TestWelcomeAfterASlowConnection(t *testing.T) {
	const connect = 80 * time.Millisecond
	for name, ask := range map[string]func(*testing.T, *harvest.Harvester, *fakeweb.Site){
		"tasks": func(t *testing.T, h *harvest.Harvester, s *fakeweb.Site) {
			harvestAll(t, h, batchOf([]*fakeweb.Site{s}, 1, func(int) int { return 2 }))
		},
		"a transport": func(t *testing.T, h *harvest.Harvester, s *fakeweb.Site) {
			c := &http.Client{Transport: h.Transport(s.Origin)}
			for range 2 {
				resp := must.Get(c.Get(s.Origin + "/"))
				resp.Body.Close()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := fakeweb.New(fakeweb.Options{Seed: 4})
				defer w.Close()
				s := w.AddAt(fakeweb.Honest, "host.example", at(1))
				h := newHarvester(w)
				defer h.Close()
				h.Options.Wait, h.Options.Slow, h.Options.PerConn = 10*time.Second, -1, 1
				slow := false
				h.Options.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
					if slow {
						slow = false
						time.Sleep(connect)
					}
					return w.Dial(ctx, network, address)
				}
				harvestAll(t, h, batchOf([]*fakeweb.Site{s}, 1, func(int) int { return 1 }))
				h.Welcome(s.Origin, 10, 0)
				time.Sleep(time.Minute)
				w.Forget()
				slow = true
				ask(t, h, s)
				log := w.Log()
				if len(log) != 2 || slow || log[1].Begin.Sub(log[0].Begin) != 100*time.Millisecond {
					t.Errorf("requests at %v, want 0.1 s between them", log)
				}
			})
		})
	}
}

// A request without the slot, a stream or a long poll, may be refused, too; and a site
// may withdraw its welcome.
func TestWelcomeIsWithdrawn(t *testing.T) {
	for name, take := range map[string]func(h *harvest.Harvester, origin string){
		"a stream is refused": func(h *harvest.Harvester, origin string) { h.Refused(origin, http.StatusServiceUnavailable, nil) },
		"a poll is refused for a while": func(h *harvest.Harvester, origin string) {
			h.Refused(origin, http.StatusTooManyRequests, http.Header{"Retry-After": {"10"}})
		},
		"the welcome is withdrawn": func(h *harvest.Harvester, origin string) { h.Unwelcome(origin) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := fakeweb.New(fakeweb.Options{Seed: 4})
				defer w.Close()
				s := w.AddAt(fakeweb.Honest, "host.example", at(1))
				h := newHarvester(w)
				h.Options.Wait, h.Options.Slow = 10*time.Second, -1
				ask := func(pause time.Duration) {
					t.Helper()
					w.Forget()
					harvestAll(t, h, batchOf([]*fakeweb.Site{s}, 1, func(int) int { return 3 }))
					begun(t, w, pause, always)
					time.Sleep(time.Minute)
				}
				ask(10 * time.Second)
				h.Welcome(s.Origin, 2, 0)
				ask(500 * time.Millisecond)
				h.Refused(s.Origin, http.StatusBadGateway, nil) // an error of a site that is down is not a refusal
				ask(500 * time.Millisecond)
				take(h, s.Origin)
				ask(10 * time.Second)
			})
		})
	}
}
