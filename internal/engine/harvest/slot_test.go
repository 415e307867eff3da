package harvest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/engine/partition"
	"github.com/parleyweb/parley/internal/fakeweb"
)

// at is an address of the public Internet.
func at(n int) netip.Addr { return netip.AddrFrom4([4]byte{20, 1, byte(n >> 8), byte(n)}) }

// begun lists when each request to a Web began, and fails if two came closer than pause.
func begun(t *testing.T, w *fakeweb.Web, pause time.Duration, of func(fakeweb.Access) bool) (n int) {
	t.Helper()
	var last fakeweb.Access
	for _, a := range w.Log() {
		if !of(a) {
			continue
		}
		if n++; n > 1 && a.Begin.Sub(last.Begin) < pause-time.Millisecond {
			t.Errorf("%v after %v: %v; %v", a.Begin.Sub(last.Begin), pause, last, a)
			break
		}
		last = a
	}
	return n
}

func always(fakeweb.Access) bool { return true }

// resolver is a function that resolves host names.
type resolver func(host string) []netip.Addr

func (r resolver) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	return r(host), nil
}

// A page may link to a hundred ports of its own host, and Transport callers may request as
// many more: the host still gets one request at a time, with the pause in between.
func TestPortsOfOneHostShareSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 4})
		defer w.Close()
		w.AddAt(fakeweb.Honest, "host.example", at(1))
		for port := range 118 {
			w.AddAt(fakeweb.Honest, fmt.Sprintf("host.example:%d", 8000+port), at(1))
		}
		h := newHarvester(w)
		defer h.Close()
		h.Options.Wait = time.Second
		var visitors sync.WaitGroup
		for _, s := range w.Sites()[:10] {
			visitors.Go(func() {
				resp, err := (&http.Client{Transport: h.Transport(s.Origin)}).Get(s.Origin + "/robots.txt")
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			})
		}
		harvestAll(t, h, batchOf(w.Sites(), 1, func(int) int { return 1 }))
		visitors.Wait()
		if n := begun(t, w, time.Second, always); n != 129 {
			t.Errorf("%d requests", n)
		}
	})
}

// Names of one registrable domain share the request rate of their address; names that have only
// the address in common each get their own gap, and two requests a second in all.
func TestNamesOnOneAddressShareRate(t *testing.T) {
	for _, c := range []struct {
		name  string
		hosts func(int) string
		sites int
		set   func(*harvest.Harvester)
		pause time.Duration // between two requests to the address
		lasts time.Duration // in all, for two requests of each
	}{
		{"one registrable domain", func(i int) string { return fmt.Sprintf("name%d.host.example", i) }, 20, func(*harvest.Harvester) {}, 10 * time.Second, 390 * time.Second},
		{"three domains", func(i int) string { return fmt.Sprintf("host%d.example", i) }, 3, func(*harvest.Harvester) {}, 10 * time.Second / 3, 17 * time.Second},
		{"names below a public suffix", func(i int) string { return fmt.Sprintf("name%d.github.io", i) }, 100, func(*harvest.Harvester) {}, 500 * time.Millisecond, 100 * time.Second},
		{"address rate 5", func(i int) string { return fmt.Sprintf("host%d.example", i) }, 100, func(h *harvest.Harvester) { h.Options.AddressRate = 5 }, 200 * time.Millisecond, 40 * time.Second},
		{"address rate 0.1", func(i int) string { return fmt.Sprintf("host%d.example", i) }, 10, func(h *harvest.Harvester) { h.Options.AddressRate = 0.1 }, 10 * time.Second, 190 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := fakeweb.New(fakeweb.Options{Seed: 4})
				defer w.Close()
				for i := range c.sites {
					w.AddAt(fakeweb.Honest, c.hosts(i), at(1))
				}
				h := newHarvester(w)
				h.Options.Wait, h.Options.Slow = 10*time.Second, -1
				c.set(h)
				begin := time.Now()
				harvestAll(t, h, batchOf(w.Sites(), 1, func(int) int { return 2 }))
				if n := begun(t, w, c.pause, always); n != 2*c.sites {
					t.Errorf("%d requests", n)
				}
				if d := time.Since(begin); d < c.lasts-time.Second || d > c.lasts+c.lasts/8+time.Second {
					t.Errorf("it took %v, want %v", d, c.lasts)
				}
				if w.Open() > 2*4 {
					t.Errorf("%d connections are open", w.Open()/2)
				}
			})
		})
	}
}

// The rate of an address can be divided among so many crawlers that a host alone there waits no longer than with one, and not among more.
func TestSharesOfAnAddress(t *testing.T) {
	for _, c := range []struct {
		wait, big time.Duration
		rate      float64
		want      int
	}{
		{15 * time.Second, 15 * time.Second, 0, 30},
		{15 * time.Second, 5 * time.Second, 0, 10},
		{time.Second, time.Second, 0, 2},
		{time.Second, time.Second, 5, 5},
		{100 * time.Millisecond, 100 * time.Millisecond, 0, 1},
	} {
		took := func(of int) (d time.Duration) {
			synctest.Test(t, func(t *testing.T) {
				w := fakeweb.New(fakeweb.Options{Seed: 4})
				defer w.Close()
				s := w.AddAt(fakeweb.Honest, "host.example", at(1))
				h := newHarvester(w)
				h.Options.Wait, h.Options.WaitBig, h.Options.Slow, h.Options.AddressRate = c.wait, c.big, -1, c.rate
				if n := h.Options.Shares(); n != c.want {
					t.Errorf("wait %v and %v, rate %v: %d crawlers, want %d", c.wait, c.big, c.rate, n, c.want)
				}
				for h.Options.Partition = (partition.Partition{Number: 1, Of: of}); h.Options.Partition.Foreign(s.Origin) != 0; {
					h.Options.Partition.Number++
				}
				begin := time.Now()
				batch := batchOf(w.Sites(), 1, func(int) int { return 4 })
				if c.big < c.wait {
					batch.Sites[0].Pages = harvest.BigSite + 1
				}
				harvestAll(t, h, batch)
				d = time.Since(begin)
			})
			return d
		}
		one, few, many := took(1), took(c.want), took(c.want+1)
		if few > one+time.Millisecond || many < one+time.Millisecond {
			t.Errorf("wait %v and %v, rate %v: it takes %v, %v by one of %d, and %v by one of one more", c.wait, c.big, c.rate, one, few, c.want, many)
		}
	}
}

// Two crawlers that take turns at an address send no more requests to it than one, and each sends its requests in its turns.
func TestCrawlersTakeTurnsAtAnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 4})
		defer w.Close()
		for i := range 60 {
			w.AddAt(fakeweb.Honest, fmt.Sprintf("host%d.example", i), at(1))
		}
		begin, sent := time.Now(), [2]int{}
		turn := func(at time.Time) int { return int(at.Sub(begin)/(9800*time.Millisecond)) % 2 } // one ends between two requests
		var crawlers sync.WaitGroup
		has := func(i int, s *fakeweb.Site) bool {
			return partition.Partition{Number: i + 1, Of: 2}.Foreign(s.Origin) == 0
		}
		for i := range 2 {
			h := newHarvester(w)
			h.Options.Wait, h.Options.Slow, h.Options.Partition = 10*time.Second, -1, partition.Partition{Number: i + 1, Of: 2} // which divides no rate then
			sites := slices.DeleteFunc(slices.Clone(w.Sites()), func(s *fakeweb.Site) bool { return !has(i, s) })
			h.Options.May = func(ip netip.Addr) bool {
				if ip != at(1) {
					t.Errorf("asks for %v", ip)
				}
				return turn(time.Now()) == i
			}
			crawlers.Go(func() { harvestAll(t, h, batchOf(sites, 1, func(int) int { return 2 })) })
			crawlers.Go(func() {
				resp, err := (&http.Client{Transport: h.Transport(sites[0].Origin)}).Get(sites[0].Origin + "/robots.txt")
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close()
			})
		}
		crawlers.Wait()
		if n := begun(t, w, 500*time.Millisecond, always); n != 2*60+2 {
			t.Errorf("%d requests", n)
		}
		for _, a := range w.Log() {
			who := turn(a.Begin)
			if sent[who]++; !has(who, a.Site) {
				t.Fatalf("%s at %v: it is the turn of crawler %d", a.Site.Origin, a.Begin.Sub(begin), who)
			}
		}
		if d := time.Since(begin); d > 2*time.Minute || sent[0] == 0 || sent[1] == 0 {
			t.Errorf("it took %v for %d requests", d, sent)
		}
	})
}

// The wishes of one name do not apply to other names of its address, and a slow name takes no more
// than its share: at most four requests are under way.
func TestOneNameDoesNotSlowOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 4})
		defer w.Close()
		for i := range 40 {
			s := w.AddAt(fakeweb.Honest, fmt.Sprintf("host%d.example", i), at(1))
			if i >= 20 {
				s.Latency = 8 * time.Second
			}
		}
		h := newHarvester(w)
		h.Options.Wait, h.Options.Slow = 10*time.Second, -1
		b := batchOf(w.Sites(), 1, func(int) int { return 4 })
		b.Sites[0].Delay = 20 * time.Minute
		begin := time.Now()
		harvestAll(t, h, b)
		var others, most int
		var last time.Time
		for i, a := range w.Log() {
			if a.Site.Number > 0 {
				others++
				last = a.End
			}
			going := 0
			for _, x := range w.Log()[:i+1] {
				if x.End.After(a.Begin) {
					going++
				}
			}
			most = max(most, going)
		}
		if most != 4 {
			t.Errorf("%d concurrent requests", most)
		}
		if others != 39*4 || last.Sub(begin) > 5*time.Minute {
			t.Errorf("the others got %d requests in %v", others, last.Sub(begin))
		}
		if d := time.Since(begin); d < time.Hour {
			t.Errorf("the Crawl-delay was obeyed for only %v", d)
		}
	})
}

// When three names of an address refuse it gets requests half as often, and after a clean hour at
// the previous rate.
func TestRefusalsHalveAddressRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 4})
		defer w.Close()
		begin := time.Now()
		for i := range 60 {
			s := w.AddAt(fakeweb.Honest, fmt.Sprintf("host%d.example", i), at(1))
			if i < 3 {
				s.Handler = func(w http.ResponseWriter, r *http.Request) bool {
					w.WriteHeader(http.StatusTooManyRequests)
					return true
				}
			}
		}
		h := newHarvester(w)
		h.Options.Wait, h.Options.Slow = 10*time.Second, -1
		harvestAll(t, h, batchOf(w.Sites(), 1, func(i int) int {
			if i < 3 {
				return 1
			}
			return 120
		}))
		in := func(from, to time.Duration) func(fakeweb.Access) bool {
			return func(a fakeweb.Access) bool { d := a.Begin.Sub(begin); return d >= from && d < to }
		}
		if n := begun(t, w, time.Second, in(3*time.Second, time.Hour)); n < 3500 {
			t.Errorf("%d requests in the hour", n)
		}
		if n := begun(t, w, 500*time.Millisecond, in(61*time.Minute, 71*time.Minute)); n < 1100 {
			t.Errorf("%d requests in ten minutes after the hour", n)
		}
	})
}

// A host that moves to another address meanwhile, or answers only at its second address, still
// gets one request at a time.
func TestHostThatChangesAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 4})
		defer w.Close()
		a, b := w.AddAt(fakeweb.Honest, "host.example", at(1)), w.AddAt(fakeweb.Honest, "host.example:8080", at(1))
		w.AddAt(fakeweb.Honest, "other.example", at(2))
		w.AddAt(fakeweb.Honest, "other.example:8080", at(2)) // so that somebody listens there
		a.Latency, b.Latency = time.Second, 3*time.Second
		h := newHarvester(w)
		h.Options.Wait, h.Options.AddressAge = 2*time.Second, time.Minute
		begin := time.Now()
		h.Options.Resolver = resolver(func(host string) []netip.Addr {
			if host == "host.example" && time.Since(begin)/time.Minute%2 == 1 {
				return []netip.Addr{at(7), at(2)} // at the first nobody listens
			}
			return []netip.Addr{at(1)}
		})
		harvestAll(t, h, batchOf([]*fakeweb.Site{a, b}, 1, func(int) int { return 60 }))
		for _, f := range w.Impolite(fakeweb.Manners{Gap: 2 * time.Second}) {
			t.Error(f)
		}
		if n := len(w.Log()); n != 120 {
			t.Errorf("%d requests", n)
		}
	})
}

// No caller sends anything to a port that belongs to another protocol.
func TestPortsOfOtherProtocolsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 4})
		defer w.Close()
		for _, port := range []int{22, 25, 6667, 8080} {
			w.AddAt(fakeweb.Honest, fmt.Sprintf("host.example:%d", port), at(1))
		}
		h := newHarvester(w)
		defer h.Close()
		for url, a := range harvestAll(t, h, batchOf(w.Sites(), 1, func(int) int { return 1 })) {
			if want := strings.Contains(url, ":8080/"); want != (a.Fault == "") || !want && a.Fault != harvest.FaultAddress {
				t.Errorf("%s: %q %v", url, a.Fault, a.Err)
			}
		}
		s := w.Sites()[1]
		if resp, err := (&http.Client{Transport: h.Transport(s.Origin)}).Get(s.Origin + "/"); err == nil || !strings.Contains(err.Error(), "port 25 is for another protocol") {
			t.Errorf("%v, %v", resp, err)
		}
		if n := len(w.Log()); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}

// No caller sends anything to a host of another partition.
func TestHostsOfOtherPartitionsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := honest(20)
		defer w.Close()
		h := newHarvester(w)
		defer h.Close()
		h.Options.Partition = partition.Partition{Number: 1, Of: 3}
		own := 0
		all := harvestAll(t, h, batchOf(w.Sites(), 1, func(int) int { return 1 }))
		for _, s := range w.Sites() {
			resp, err := (&http.Client{Transport: h.Transport(s.Origin)}).Get(s.Origin + "/")
			a := all[s.Origin+"/1/0"]
			if h.Options.Partition.Foreign(s.Origin) == 0 {
				if own++; a.Status == 0 || err != nil {
					t.Errorf("%s: %q %v, %v", s.Origin, a.Fault, a.Err, err)
				} else {
					resp.Body.Close()
				}
			} else if a.Fault != harvest.FaultAddress || err == nil || !strings.Contains(err.Error(), "not in 1/3: no request sent") {
				t.Errorf("%s of another partition: %q %v, %v", s.Origin, a.Fault, a.Err, err)
			}
		}
		if n := len(w.Log()); own == 0 || own == 20 || n != 2*own {
			t.Errorf("%d requests to %d hosts", n, own)
		}
	})
}
