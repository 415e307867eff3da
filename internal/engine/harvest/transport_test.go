package harvest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/internal/wsconn"
	"github.com/parleyweb/parley/protocol"
)

// A site is followed and harvested at once: changes arrive while a
// poll waits, pages are fetched meanwhile, and no two requests come too close.
func TestFollowWhileHarvesting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 10, Sites: 1, Kinds: []fakeweb.Kind{fakeweb.Honest}, Speak: 100})
		defer w.Close()
		h := newHarvester(w)
		h.Options.Wait = 5 * time.Second
		s := w.Sites()[0]

		ctx, cancel := context.WithCancel(t.Context())
		told := map[string]time.Time{}
		following := make(chan struct{})
		go func() {
			defer close(following)
			src := &client.Source{Base: s.Origin + "/", HTTP: &http.Client{Transport: h.Transport(s.Origin)}, NoStream: true}
			for step, err := range client.Follow(ctx, src, protocol.Cursor{}) {
				if err != nil {
					t.Error(err)
				}
				for _, c := range step.Changes {
					told[c.Item.URL] = time.Now()
				}
			}
		}()
		edited := map[string]time.Time{}
		go func() {
			for range 3 {
				time.Sleep(100 * time.Second)
				edited[s.Origin+"/"] = time.Now()
				s.Edit("/")
			}
		}()
		var got answers
		err := h.Run(ctx, once(batchOf(w.Sites(), 1, func(int) int { return 100 })), got.take)
		cancel()
		<-following
		if n := got.faults(); err != nil || n["404"] != 100 {
			t.Errorf("%v: %v", n, err)
		}
		// At once, unless the poll was just about to start anew: then it waits for its slot.
		if late := told[s.Origin+"/"].Sub(edited[s.Origin+"/"]); len(edited) == 0 || late < 0 || late > 2*h.Options.Wait {
			t.Errorf("changes received at %v, edited at %v", told, edited)
		}
		for _, f := range w.Impolite(fakeweb.Manners{Gap: 5 * time.Second, Agent: "Test/1"}) {
			t.Error(f)
		}
		polls := 0
		for _, a := range w.Log() {
			if a.Waits {
				polls++
			}
			if a.From != "test@example.net" {
				t.Errorf("from %q: %v", a.From, a)
			}
		}
		if polls == 0 {
			t.Error("there was no long poll")
		}
	})
}

// A caller that keeps a body open has the site's slot until it closes the body, or has
// not read for too long.
func TestOpenBodyHoldsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := honest(1)
		defer w.Close()
		h := newHarvester(w)
		h.Options.Wait = time.Second
		defer h.Close()
		s := w.Sites()[0]
		c := &http.Client{Transport: h.Transport(s.Origin)}
		begin := time.Now()
		first := must.Get(c.Get(s.Origin + "/"))
		time.AfterFunc(10*time.Second, func() { first.Body.Close() })
		if second, err := c.Get(s.Origin + "/"); err != nil || time.Since(begin) != 11*time.Second { // and is not closed
			t.Fatalf("after %v: %v, %v", time.Since(begin), second, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		r := must.Get(http.NewRequestWithContext(ctx, "GET", s.Origin+"/", nil))
		if _, err := c.Do(r); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waiting for the slot: %v", err)
		}
		third := must.Get(c.Get(s.Origin + "/"))
		third.Body.Close()
		if d := time.Since(begin); d > 10*time.Minute {
			t.Errorf("an unread body held the slot until %v", d)
		}
	})
}

// Sites that share an address wait for each other, whoever sends the requests.
func TestTransportByAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 12, Sites: 3, Kinds: []fakeweb.Kind{fakeweb.Honest}, Share: 3})
		defer w.Close()
		h := newHarvester(w)
		h.Options.Wait = 2 * time.Second
		for _, s := range w.Sites() {
			s.Latency = time.Second / 10
		}
		var visitors sync.WaitGroup
		for _, s := range w.Sites()[:2] {
			visitors.Go(func() {
				for range 5 {
					resp, err := (&http.Client{Transport: h.Transport(s.Origin)}).Get(s.Origin + "/")
					if err != nil {
						t.Error(err)
						return
					}
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
		}
		harvestAll(t, h, batchOf(w.Sites()[1:], 1, func(int) int { return 5 }))
		visitors.Wait()
		h.Close()
		for _, f := range w.Impolite(fakeweb.Manners{Gap: 2 * time.Second, Address: 2}) {
			t.Error(f)
		}
		if n := len(w.Log()); n != 20 {
			t.Errorf("%d requests", n)
		}
	})
}

// A Transport caller that sends requests again and again, more often than the host allows, takes at most every
// second slot from the waiting pages; and its requests are sent even if those pages have gone elsewhere
// meanwhile.
func TestTransportCallersShareSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 4})
		defer w.Close()
		s, neighbour := w.AddAt(fakeweb.Honest, "a.host.example", at(1)), w.AddAt(fakeweb.Honest, "b.host.example", at(1))
		h := newHarvester(w)
		h.Options.Wait, h.Options.Slow = 15*time.Second, -1
		ctx, stop := context.WithCancel(t.Context())
		var visitor sync.WaitGroup
		var visits atomic.Int32
		for _, of := range []*fakeweb.Site{s, neighbour} { // which share a slot
			visitor.Go(func() {
				client := &http.Client{Transport: h.Transport(of.Origin)}
				for ctx.Err() == nil {
					if resp, err := client.Get(of.Origin + "/robots.txt"); err == nil {
						resp.Body.Close()
						visits.Add(1)
					}
					time.Sleep(5 * time.Second)
				}
			})
		}
		synctest.Wait()
		begin := time.Now()
		harvestAll(t, h, batchOf([]*fakeweb.Site{s}, 1, func(int) int { return 10 }))
		if d := time.Since(begin); d > 11*30*time.Second {
			t.Errorf("ten pages took %v", d)
		}
		if visits.Load() < 8 {
			t.Errorf("%d visits meanwhile", visits.Load())
		}
		time.Sleep(time.Minute)
		stop()
		visitor.Wait()
		h.Close()
		begun(t, w, 15*time.Second, always)
	})
}

// A request that leaves the origin is refused, however it comes about.
func TestTransportRefusesOtherOrigins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 11, Sites: 2, Kinds: []fakeweb.Kind{fakeweb.Redirecting, fakeweb.Inside}})
		defer w.Close()
		h := newHarvester(w)
		defer h.Close()
		a, inside := w.Sites()[0], w.Sites()[1]
		for _, c := range []struct{ origin, url, why string }{
			{a.Origin, inside.Origin + "/", "not a URL of"},
			{a.Origin, a.Origin + "/inside", "not a URL of"},
			{inside.Origin, inside.Origin + "/", "loopback"},
			{"http://127.0.0.1", "http://127.0.0.1/", "loopback"},
			{"http://[::ffff:10.0.0.1]", "http://[::ffff:10.0.0.1]/", "private"},
			{"gopher://x", "gopher://x/", "unsupported protocol scheme"},
		} {
			resp, err := (&http.Client{Transport: h.Transport(c.origin)}).Get(c.url)
			if err == nil {
				resp.Body.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%s: %v", c.url, err)
			}
		}
	})
}

// A WebSocket is dialled by the same rules.
func TestWebSocket(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := wsconn.Accept(w, r, wsconn.Options{})
		if err != nil {
			t.Error(err)
			return
		}
		c.Write(r.Context(), []byte("hello"))
		c.Read(r.Context())
		c.Close(1000, "")
	}))
	defer s.Close()
	for _, private := range []bool{false, true} {
		h := &harvest.Harvester{Options: harvest.Options{Private: private, Wait: -1}}
		defer h.Close()
		c, err := wsconn.Dial(t.Context(), s.URL+"/", nil, &http.Client{Transport: h.Transport(s.URL)}, wsconn.Options{})
		if !private {
			if err == nil || !strings.Contains(err.Error(), "loopback") {
				t.Errorf("dialled inside: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if text, err := c.Read(t.Context()); err != nil || string(text) != "hello" {
			t.Errorf("%q, %v", text, err)
		}
		c.Close(1000, "")
	}
}

// If TLS offers HTTP/2, one HTTP/2 connection serves all pages.
func TestHTTP2(t *testing.T) {
	var conns atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.UserAgent() + r.Header.Get("From"); got != "Test/1test@example.net" {
			t.Errorf("asked by %q", got)
		}
		switch r.URL.Path {
		case "/never":
			<-r.Context().Done()
		case "/much":
			for {
				if _, err := w.Write(make([]byte, 1000)); err != nil {
					return
				}
			}
		case "/away":
			http.Redirect(w, r, "/there", http.StatusFound)
		default:
			io.WriteString(w, r.Proto)
		}
	}))
	s.EnableHTTP2 = true
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.StartTLS()
	defer s.Close()
	tls := s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	tls.NextProtos = nil
	h := &harvest.Harvester{Options: harvest.Options{Agent: "Test/1", From: "test@example.net", Private: true, Wait: -1, TLS: tls, HeaderTimeout: 300 * time.Millisecond}}
	site := harvest.SiteBatch{Origin: s.URL}
	for _, path := range []string{"/1", "/2", "/much", "/away", "/3", "/never"} {
		site.Tasks = append(site.Tasks, harvest.Task{URL: s.URL + path})
	}
	got := harvestAll(t, h, &harvest.Batch{Sites: []harvest.SiteBatch{site}})
	for path, want := range map[string]harvest.Fault{"/1": "", "/2": "", "/3": "", "/much": harvest.FaultSize, "/away": "", "/never": harvest.FaultTimeout} {
		a := got[s.URL+path]
		if a.Fault != want || want == "" && path != "/away" && string(a.Body) != "HTTP/2.0" {
			t.Errorf("%s: %d %q %v: %.20q", path, a.Status, a.Fault, a.Err, a.Body)
		}
	}
	if a := got[s.URL+"/away"]; a.Status != 302 || a.Location != s.URL+"/there" {
		t.Errorf("%d to %q", a.Status, a.Location)
	}
	if conns.Load() != 1 {
		t.Errorf("%d connections", conns.Load())
	}

	// And without roots that know the certificate, there is no connection.
	h = &harvest.Harvester{Options: harvest.Options{Private: true, Wait: -1}}
	if a := harvestAll(t, h, &harvest.Batch{Sites: []harvest.SiteBatch{{Origin: s.URL, Tasks: site.Tasks[:1]}}})[s.URL+"/1"]; a.Fault != harvest.FaultConnect {
		t.Errorf("%d %q %v", a.Status, a.Fault, a.Err)
	}
}

// A fixed resolver returns the same answer for all names.
type fixed struct {
	ips   []netip.Addr
	asked atomic.Int32
	now   atomic.Int32
	most  atomic.Int32
}

func (f *fixed) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	f.asked.Add(1)
	f.most.Store(max(f.most.Load(), f.now.Add(1)))
	defer f.now.Add(-1)
	time.Sleep(time.Second)
	return f.ips, nil
}

// Only public addresses are contacted, unless private ones are allowed, and never a
// blocked one: the address itself is checked, whatever its name.
func TestPrivateAddressesAreRefused(t *testing.T) {
	for _, c := range []struct {
		ip      string
		public  bool
		blocked bool
	}{
		{"8.8.8.8", true, false}, {"2606:4700::1111", true, false}, {"192.0.1.1", true, false}, {"172.32.0.1", true, false},
		{"127.0.0.1", false, false}, {"127.255.255.254", false, false}, {"::1", false, false}, {"::ffff:127.0.0.1", false, false},
		{"0.0.0.0", false, false}, {"::", false, false}, {"10.1.2.3", false, false}, {"172.16.0.1", false, false}, {"172.31.255.255", false, false},
		{"192.168.1.1", false, false}, {"169.254.169.254", false, false}, {"100.64.0.1", false, false}, {"100.127.255.255", false, false},
		{"100.128.0.1", true, false}, {"224.0.0.1", false, false}, {"255.255.255.255", false, false}, {"198.18.0.1", false, false},
		{"fe80::1", false, false}, {"fc00::1", false, false}, {"fd12::1", false, false}, {"ff02::1", false, false},
		{"64:ff9b::7f00:1", false, false}, {"64:ff9b::a00:1", false, false}, {"64:ff9b::808:808", true, false}, {"64:ff9b:1::1", false, false},
		{"2002:7f00:1::", false, false}, {"2001:0:1::1", false, false}, {"::7f00:1", false, false}, {"2001:db8::1", false, false},
		{"5.6.7.8", true, true}, {"::ffff:5.6.7.8", true, true}, {"64:ff9b::506:708", true, true},
	} {
		for _, private := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				dialled := ""
				h := &harvest.Harvester{
					Options: harvest.Options{Private: private, Blocked: []netip.Prefix{netip.MustParsePrefix("5.6.0.0/16")}, Resolver: &fixed{ips: []netip.Addr{netip.MustParseAddr(c.ip)}},
						Dial: func(_ context.Context, _, address string) (net.Conn, error) {
							dialled = address
							return nil, errors.New("this is only a test")
						}},
				}
				a := harvestAll(t, h, &harvest.Batch{Sites: []harvest.SiteBatch{{Origin: "http://name.example", Tasks: []harvest.Task{{URL: "http://name.example/"}}}}})["http://name.example/"]
				if ask := (c.public || private) && !c.blocked; ask != (dialled != "") || ask != (a.Fault == harvest.FaultConnect) || ask == (a.Fault == harvest.FaultAddress) {
					t.Errorf("%s, private %v: dialled %q, %q %v", c.ip, private, dialled, a.Fault, a.Err)
				}
			})
		}
	}
}

// An address with a zone is checked like the same address without one.
func TestPrivateAddressesWithZonesAreRefused(t *testing.T) {
	for _, origin := range []string{"http://[::1%25lo]", "http://[fe80::1%25eth0]"} {
		synctest.Test(t, func(t *testing.T) {
			h := &harvest.Harvester{Options: harvest.Options{Dial: func(_ context.Context, _, address string) (net.Conn, error) {
				t.Errorf("dialled %s", address)
				return nil, errors.New("this is only a test")
			}}}
			a := harvestAll(t, h, &harvest.Batch{Sites: []harvest.SiteBatch{{Origin: origin, Tasks: []harvest.Task{{URL: origin + "/"}}}}})[origin+"/"]
			if a == nil || a.Fault != harvest.FaultAddress {
				t.Errorf("%s: %+v", origin, a)
			}
		})
	}
}

// A body that only drips is abandoned, so that it does not occupy the site's slot;
// a site that says that it is busy gets a pause, also if the response is to a long poll.
func TestSlowBodyIsAborted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := handlers(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/drip" {
				w.Header().Set("Retry-After", "1000")
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			for range 1000 {
				if _, err := io.WriteString(w, "x"); err != nil || http.NewResponseController(w).Flush() != nil {
					return
				}
				if !pause.For(r.Context(), 10*time.Second) {
					return
				}
			}
		})
		defer w.Close()
		h := newHarvester(w)
		h.Options.Wait, h.Options.Slow = time.Second, -1
		defer h.Close()
		s := w.Sites()[0]
		c := &http.Client{Transport: h.Transport(s.Origin)}
		begin := time.Now()
		resp := must.Get(c.Get(s.Origin + "/drip"))
		if b, err := io.ReadAll(resp.Body); err == nil || len(b) > 10 {
			t.Errorf("%d bytes: %v", len(b), err)
		}
		if _, err := c.Get(s.Origin + "/?wait=60"); err != nil || time.Since(begin) > 2*time.Minute {
			t.Errorf("next request after %v: %v", time.Since(begin), err)
		}
		begin = time.Now()
		if _, err := c.Get(s.Origin + "/"); err != nil || time.Since(begin) < 1000*time.Second {
			t.Errorf("request %v after Retry-After: 1000: %v", time.Since(begin), err)
		}
	})
}

// A name is looked up once, however many sites have it, and concurrent lookups are limited.
func TestLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &fixed{ips: []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("8.8.8.8")}}
		h := &harvest.Harvester{
			Options: harvest.Options{Resolver: r, Lookups: 3,
				Dial: func(_ context.Context, _, address string) (net.Conn, error) {
					if !strings.HasPrefix(address, "8.8.8.8:") {
						t.Errorf("dialled %s", address)
					}
					return nil, errors.New("this is only a test")
				}},
		}
		b := &harvest.Batch{}
		for _, origin := range []string{"http://a.example", "https://a.example", "http://a.example:81", "http://b.example", "http://c.example", "http://d.example", "http://e.example"} {
			b.Sites = append(b.Sites, harvest.SiteBatch{Origin: origin, Tasks: []harvest.Task{{URL: origin + "/1"}, {URL: origin + "/2"}}})
		}
		for url, a := range harvestAll(t, h, b) {
			if a.Fault != harvest.FaultConnect {
				t.Errorf("%s: %q %v", url, a.Fault, a.Err)
			}
		}
		if r.asked.Load() != 5 || r.most.Load() != 3 {
			t.Errorf("%d look-ups, %d at once", r.asked.Load(), r.most.Load())
		}
	})
}

// Without idle connections, each request of a Transport has its own, also by HTTP/2.
func TestTransportWithoutIdleConnections(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) }))
	var conns atomic.Int32
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	local := resolver(func(string) []netip.Addr { return []netip.Addr{netip.MustParseAddr("127.0.0.1")} })
	h := &harvest.Harvester{Options: harvest.Options{Private: true, Wait: -1, IdleTimeout: -1, Resolver: local, TLS: s.Client().Transport.(*http.Transport).TLSClientConfig}}
	defer h.Close()
	origin := "https://example.com:" + s.URL[strings.LastIndexByte(s.URL, ':')+1:]
	c := &http.Client{Transport: h.Transport(origin)}
	for range 5 {
		resp, err := c.Get(origin + "/")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(body) != "HTTP/2.0" {
			t.Errorf("%q, %v", body, err)
		}
	}
	if n := conns.Load(); n != 5 {
		t.Errorf("%d connections for 5 requests", n)
	}
}
