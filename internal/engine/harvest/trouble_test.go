package harvest_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/pause"
)

// harvestAll runs a batch and returns the answers by URL.
func harvestAll(t *testing.T, h *harvest.Harvester, b *harvest.Batch) map[string]*harvest.Answer {
	t.Helper()
	var got answers
	must.OK(t, h.Run(t.Context(), once(b), got.take))
	byURL := map[string]*harvest.Answer{}
	for _, a := range got.list {
		if byURL[a.URL] != nil {
			t.Errorf("%s has two answers", a.URL)
		}
		byURL[a.URL] = a
	}
	return byURL
}

// one is a batch of these paths of a site.
func one(s *fakeweb.Site, paths ...string) *harvest.Batch {
	sb := harvest.SiteBatch{Site: frontier.SiteID(s.Number + 1), Origin: s.Origin}
	for i, p := range paths {
		sb.Tasks = append(sb.Tasks, harvest.Task{Page: frontier.PageID(i + 1), URL: s.Origin + p})
	}
	return &harvest.Batch{Sites: []harvest.SiteBatch{sb}}
}

// Every kind of failure has its fault.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		kind   fakeweb.Kind
		path   string
		fault  harvest.Fault
		status int
		took   time.Duration // at most
	}{
		{fakeweb.Honest, "/", "", 200, 0},
		{fakeweb.Honest, "/none", "", 404, 0},
		{fakeweb.Slow, "/", "", 200, 8 * time.Second},
		{fakeweb.Redirecting, "/chain/3", "", 0, 0},
		{fakeweb.Redirecting, "/nowhere", harvest.FaultProtocol, 302, 0}, // P11
		{fakeweb.Redirecting, "/file", harvest.FaultProtocol, 0, 0},
		{fakeweb.Tarpit, "/", harvest.FaultTimeout, 0, time.Minute},
		{fakeweb.Drip, "/", harvest.FaultSlow, 200, time.Minute}, // P20
		{fakeweb.Bomb, "/bomb/1", harvest.FaultSize, 200, 0},
		{fakeweb.Huge, "/huge/1", harvest.FaultSize, 200, 0},
		{fakeweb.Headers, "/", harvest.FaultProtocol, 0, 0},
		{fakeweb.Garbage, "/", harvest.FaultProtocol, 0, 0}, // P11
		{fakeweb.Refusing, "/", harvest.FaultConnect, 0, 0},
		{fakeweb.Silent, "/", harvest.FaultConnect, 0, 30 * time.Second}, // P03, G20
		{fakeweb.Unresolved, "/", harvest.FaultDNS, 0, 0},
		{fakeweb.Inside, "/", harvest.FaultAddress, 0, 0},
	} {
		t.Run(string(c.kind)+c.path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := fakeweb.New(fakeweb.Options{Seed: 3, Sites: 2, Kinds: []fakeweb.Kind{c.kind}})
				defer w.Close()
				s := w.Sites()[0]
				a := harvestAll(t, newHarvester(w), one(s, c.path))[s.Origin+c.path]
				if a.Fault != c.fault || (a.Err == nil) != (c.fault == "") {
					t.Errorf("fault %q (%v), not %q", a.Fault, a.Err, c.fault)
				}
				if c.status > 0 && a.Status != c.status || a.Status == 0 && c.fault == "" {
					t.Errorf("status %d", a.Status)
				}
				if a.Took > c.took {
					t.Errorf("took %v", a.Took)
				}
				if want, ok := s.Body(c.path); ok && c.fault == "" && string(a.Body) != want {
					t.Errorf("body %q", a.Body)
				}
				if c.fault == harvest.FaultSize && len(a.Body) != harvest.DefaultMaxBytes {
					t.Errorf("%d bytes of the body", len(a.Body))
				}
				if a.Status/100 == 3 && c.fault == "" && a.Location != s.Origin+"/chain/2" {
					t.Errorf("leads to %q", a.Location)
				}
			})
		})
	}
}

// A site that is down does not get hundreds of requests one after the other.
func TestDeadSiteGetsFewRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 3, Sites: 1, Kinds: []fakeweb.Kind{fakeweb.Tarpit}})
		defer w.Close()
		s := w.Sites()[0]
		var paths []string
		for i := range 100 {
			paths = append(paths, fmt.Sprintf("/%d", i))
		}
		got := harvestAll(t, newHarvester(w), one(s, paths...))
		for url, a := range got {
			if a.Fault != harvest.FaultTimeout {
				t.Errorf("%s: %q", url, a.Fault)
			}
		}
		if n := len(w.Log()); len(got) != 100 || n != 3 {
			t.Errorf("%d answers for %d requests", len(got), n)
		}
	})
}

// handlers returns a Web of sites, each served by a function.
func handlers(f ...func(http.ResponseWriter, *http.Request)) *fakeweb.Web {
	w := fakeweb.New(fakeweb.Options{Seed: 5, Sites: len(f), Kinds: []fakeweb.Kind{fakeweb.Honest}})
	for i, s := range w.Sites() {
		s.Handler = func(w http.ResponseWriter, r *http.Request) bool {
			f[i](w, r)
			return true
		}
	}
	return w
}

// Three servers and a range request: one that obeys it, one that ignores it, and
// one that rejects it (P10).
func TestRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := bytes.Repeat([]byte("0123456789"), 50)
		var refused atomic.Int32
		w := handlers(func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "a.html", time.Time{}, bytes.NewReader(page))
		}, func(w http.ResponseWriter, r *http.Request) {
			w.Write(page)
		}, func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Range"); got != "" {
				if got != "bytes=0-299" && got != "bytes=0-999" { // E29
					t.Errorf("requested %q", got)
				}
				refused.Add(1)
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
				return
			}
			w.Write(page)
		})
		defer w.Close()
		for _, limit := range []int64{300, 1000} {
			h := newHarvester(w)
			h.Options.Range, h.Options.MaxBytes = true, limit
			refused.Store(0)
			for _, s := range w.Sites() {
				for url, a := range harvestAll(t, h, one(s, "/a.html", "/b.html")) {
					fault := harvest.Fault("")
					if limit < int64(len(page)) {
						fault = harvest.FaultSize
					}
					if a.Status != 200 || a.Fault != fault || !bytes.Equal(a.Body, page[:min(limit, int64(len(page)))]) {
						t.Errorf("%s, %d: %d %q (%v) with %d bytes", url, limit, a.Status, a.Fault, a.Err, len(a.Body))
					}
				}
			}
			if refused.Load() != 1 {
				t.Errorf("%d range requests though ranges are refused", refused.Load())
			}
			time.Sleep(time.Minute)
		}
	})
}

func zipped(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(text))
	z.Close()
	return b.Bytes()
}

// deflated returns a text in the coding "deflate": a zlib stream, or one without its header and checksum.
func deflated(text string, bare bool) []byte {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	z.Write([]byte(text))
	z.Close()
	if bare {
		return b.Bytes()[2 : b.Len()-4]
	}
	return b.Bytes()
}

func TestContentCodings(t *testing.T) {
	text := strings.Repeat("a page that says little. ", 400)
	var zstd bytes.Buffer
	z := coding.NewZstd(&zstd)
	z.Write([]byte(text))
	z.Close()
	cases := []struct {
		coding string
		body   []byte
		fault  harvest.Fault
		undone string
	}{
		{"", []byte(text), "", ""},
		{"identity", []byte(text), "", ""},
		{"gzip", zipped(text), "", "gzip"},
		{"x-gzip", zipped(text), "", "gzip"},
		{"GZIP", zipped(text), "", "gzip"},
		{"zstd", zstd.Bytes(), "", "zstd"},
		{"deflate", deflated(text, false), "", "deflate"}, // was not offered, but some servers send it
		{"deflate", deflated(text, true), "", "deflate"},
		{"deflate", deflated(text, false)[:50], harvest.FaultCoding, ""},
		{"deflate", deflated(text, true)[:50], harvest.FaultCoding, ""},
		{"deflate", deflated(strings.Repeat("0", 32<<20), false), harvest.FaultSize, ""}, // 32 KB that would be 32 MB
		{"deflate", deflated(strings.Repeat("0", 32<<20), true), harvest.FaultSize, ""},
		{"gzip", []byte(text), "", "gzip"}, // declared as gzip, but is not
		{"gzip", zipped(text)[:50], harvest.FaultCoding, ""},
		{"zstd", zstd.Bytes()[:50], harvest.FaultCoding, ""},
		{"br", []byte(text), harvest.FaultCoding, ""}, // was not offered in the request
		{"gzip, gzip", zipped(text), harvest.FaultCoding, ""},
		{"gzip", nil, "", ""},
	}
	synctest.Test(t, func(t *testing.T) {
		w := handlers(func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Accept-Encoding"); got != "gzip, zstd" {
				t.Errorf("accepts %q", got)
			}
			var i int
			fmt.Sscanf(r.URL.Path, "/%d", &i)
			if cases[i].coding != "" {
				w.Header().Set("Content-Encoding", cases[i].coding)
			}
			w.Write(cases[i].body)
		})
		defer w.Close()
		s := w.Sites()[0]
		for i, c := range cases {
			path := fmt.Sprintf("/%d", i)
			a := harvestAll(t, newHarvester(w), one(s, path))[s.Origin+path]
			if a.Fault != c.fault || a.Status != 200 || a.Wire != int64(len(c.body)) {
				t.Errorf("%q: %d %q (%v), %d bytes", c.coding, a.Status, a.Fault, a.Err, a.Wire)
			}
			if c.fault == "" && len(c.body) > 0 && (string(a.Body) != text || a.Coding != c.undone) {
				t.Errorf("%q: coding %q, %d bytes", c.coding, a.Coding, len(a.Body))
			}
		}
	})
}

// More sites are fetched at once while many requests fail (S09).
func TestOverbook(t *testing.T) {
	for overbook, want := range map[bool]int{false: 30, true: 40} {
		synctest.Test(t, func(t *testing.T) {
			w := fakeweb.New(fakeweb.Options{Seed: 13, Sites: 300, Kinds: []fakeweb.Kind{fakeweb.Tarpit}})
			defer w.Close()
			h := newHarvester(w)
			h.Options.Sites, h.Options.Overbook = 30, overbook
			time.AfterFunc(150*time.Second, func() {
				if n := h.Stats().InFlight; n != want {
					t.Errorf("overbook %v: %d concurrent requests", overbook, n)
				}
			})
			harvestAll(t, h, batchOf(w.Sites(), 1, func(int) int { return 1 }))
		})
	}
}

// More than a thousand sites are fetched at once, if configured so (V16).
func TestAThousandSitesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 13, Sites: 1100, Kinds: []fakeweb.Kind{fakeweb.Tarpit}})
		defer w.Close()
		h := newHarvester(w)
		h.Options.Sites = 1100
		time.AfterFunc(10*time.Second, func() {
			if n := h.Stats().InFlight; n != 1100 {
				t.Errorf("%d at once", n)
			}
		})
		harvestAll(t, h, batchOf(w.Sites(), 1, func(int) int { return 1 }))
	})
}

// The total size of bodies that are not yet released is bounded, of Harvesters that share Limits too.
func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 6, Sites: 40, Kinds: []fakeweb.Kind{fakeweb.Huge, fakeweb.Bomb, fakeweb.Honest}})
		defer w.Close()
		const memory = 2 << 20
		var mu sync.Mutex
		var held, most int64
		var released, runs sync.WaitGroup
		n := 0
		take := func(a *harvest.Answer) {
			if a.Fault == harvest.FaultSlow || a.Fault == harvest.FaultTimeout {
				t.Errorf("%s has a fault for the crawler's own delay: %v", a.URL, a.Err)
			}
			mu.Lock()
			n++
			held += int64(len(a.Body))
			most = max(most, held)
			mu.Unlock()
			released.Go(func() {
				time.Sleep(time.Minute)
				mu.Lock()
				held -= int64(len(a.Body))
				mu.Unlock()
				a.Release()
			})
		}
		var limits harvest.Limits
		all := everything(w, 4).Sites
		for _, sites := range [][]harvest.SiteBatch{all[:len(all)/2], all[len(all)/2:]} {
			h := newHarvester(w)
			h.Options.Memory, h.Options.Limits = memory, &limits
			runs.Go(func() { must.OK(t, h.Run(t.Context(), once(&harvest.Batch{Sites: sites}), take)) })
		}
		runs.Wait()
		released.Wait()
		if most > memory || most < memory/2 {
			t.Errorf("at most %d bytes of %d answers", most, n)
		}
	})
}

// A server that announces a large body and sends little does not reserve memory that others need.
func TestAnnouncedLengthReservesNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := make([]byte, 300_000)
		promising := func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "50000000")
			for {
				if _, err := w.Write(page[:4000]); err != nil || http.NewResponseController(w).Flush() != nil {
					return
				}
				if !pause.For(r.Context(), 20*time.Second) {
					return
				}
			}
		}
		w := handlers(promising, promising, promising, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(30 * time.Second)
			w.Write(page)
		})
		defer w.Close()
		h := newHarvester(w)
		h.Options.Memory = 64 << 20
		b := &harvest.Batch{}
		for i, s := range w.Sites() {
			b.Sites = append(b.Sites, harvest.SiteBatch{Site: frontier.SiteID(i + 1), Origin: s.Origin, Tasks: []harvest.Task{{URL: s.Origin + "/", Source: 1, MaxBytes: 50_000_000}}})
		}
		var honest time.Duration
		begin := time.Now()
		err := h.Run(t.Context(), once(b), func(a *harvest.Answer) {
			if a.Fault == "" && len(a.Body) == len(page) {
				honest = time.Since(begin)
			}
			a.Release()
		})
		if err != nil || honest == 0 || honest > 2*time.Minute {
			t.Errorf("the normal page arrived after %v: %v", honest, err)
		}
	})
}

// Retry-After and Crawl-delay are obeyed, and a slow site gets longer
// pauses.
func TestGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := map[string][]time.Time{}
		var mu sync.Mutex
		note := func(r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			asked[r.Host] = append(asked[r.Host], time.Now())
		}
		w := handlers(func(w http.ResponseWriter, r *http.Request) {
			note(r)
			w.Header().Set("Retry-After", "1000")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, func(w http.ResponseWriter, r *http.Request) {
			note(r)
			time.Sleep(4 * time.Second)
		}, func(w http.ResponseWriter, r *http.Request) {
			note(r)
		}, func(w http.ResponseWriter, r *http.Request) {
			note(r)
		}, func(w http.ResponseWriter, r *http.Request) {
			note(r)
			w.WriteHeader(http.StatusTooManyRequests)
		}, func(w http.ResponseWriter, r *http.Request) {
			note(r)
			time.Sleep(50 * time.Second)
		})
		defer w.Close()
		b := &harvest.Batch{}
		for _, s := range w.Sites() {
			sb := one(s, "/1", "/2", "/3").Sites[0]
			b.Sites = append(b.Sites, sb)
		}
		b.Sites[2].Pages = 101 // G30
		b.Sites[3].Delay = 25 * time.Second
		harvestAll(t, newHarvester(w), b)
		for i, want := range [][]time.Duration{
			{1000 * time.Second, 1000 * time.Second},
			{44 * time.Second, 44 * time.Second},
			{5 * time.Second, 5 * time.Second},
			{25 * time.Second, 25 * time.Second},
			{30 * time.Second, 60 * time.Second},
			{350 * time.Second, 350 * time.Second}, // ten times 50 s is capped
		} {
			at := asked[w.Sites()[i].Host]
			var got []time.Duration
			for j := 1; j < len(at); j++ {
				got = append(got, at[j].Sub(at[j-1]).Truncate(time.Millisecond)) // checking a kept connection takes a moment
			}
			if !slices.Equal(got, want) {
				t.Errorf("site %d got the next request after %v, not %v", i, got, want)
			}
		}
	})
}

// A connection serves as many pages as it may, and a connection that the site has
// closed loses no page.
func TestConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			kind    fakeweb.Kind
			perConn int
			wait    time.Duration
			idle    time.Duration
			dialled int
		}{
			{fakeweb.Honest, 3, time.Second, 0, 4},
			{fakeweb.Honest, 0, time.Second, 0, 1},
			{fakeweb.Honest, 1, time.Second, 0, 10},
			{fakeweb.Honest, 0, time.Minute, 0, 10}, // longer than a server keeps it
			{fakeweb.Honest, 0, time.Minute, 2 * time.Minute, 1},
			{fakeweb.Honest, 0, 3 * time.Second, 2 * time.Second, 10},
			{fakeweb.Honest, 0, -1, 0, 1},
			{fakeweb.Honest, 0, -1, -1, 10},
			{fakeweb.Closing, 0, 5 * time.Second, 0, 10}, // once found out, none is kept
		} {
			w := fakeweb.New(fakeweb.Options{Seed: 7, Sites: 1, Kinds: []fakeweb.Kind{c.kind}})
			s := w.Sites()[0]
			h := newHarvester(w)
			h.Options.PerConn, h.Options.Wait, h.Options.IdleTimeout = c.perConn, c.wait, c.idle
			var paths []string
			for i := range 10 {
				paths = append(paths, fmt.Sprintf("/%d", i))
			}
			for url, a := range harvestAll(t, h, one(s, paths...)) {
				if a.Status != 404 {
					t.Errorf("%s: %d %v", url, a.Status, a.Err)
				}
			}
			if w.Dialled() != c.dialled {
				t.Errorf("%v: %d connections", c, w.Dialled())
			}
			for _, f := range w.Impolite(fakeweb.Manners{Gap: max(0, c.wait)}) {
				t.Error(f)
			}
			w.Close()
		}
	})
}

// A run that is stopped gives all tasks back, at once.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 8, Sites: 110, Share: 2})
		defer w.Close()
		h := newHarvester(w)
		b := everything(w, 5)
		tasks := 0
		for _, s := range b.Sites {
			tasks += len(s.Tasks)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second+time.Millisecond)
		defer cancel()
		var got answers
		begin := time.Now()
		err := h.Run(ctx, once(b), got.take)
		if n := got.faults()["stopped"]; err != nil || len(got.list) != tasks || n < tasks/4 || n == tasks {
			t.Errorf("%d of %d tasks were answered, %v: %v", len(got.list), tasks, got.faults(), err)
		}
		if d := time.Since(begin); d > 20*time.Second+time.Millisecond {
			t.Errorf("it took until %v", d)
		}
		synctest.Wait()
		if n := w.Open(); n > 2 { // of the site that closes late
			t.Errorf("%d connection ends are open", n)
		}
		if s := h.Stats(); s.InFlight != 0 || s.Tasks != 0 || s.Sites != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A crawler configured without a gap for its own site still obeys the site's Crawl-delay, and its
// signals of overload.
func TestNoGapStillObeysCrawlDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		asked := map[string][]time.Time{}
		note := func(r *http.Request) int {
			mu.Lock()
			defer mu.Unlock()
			asked[r.Host] = append(asked[r.Host], time.Now())
			return len(asked[r.Host])
		}
		w := handlers(func(w http.ResponseWriter, r *http.Request) {
			note(r)
		}, func(w http.ResponseWriter, r *http.Request) {
			if note(r) == 2 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		defer w.Close()
		b := batchOf(w.Sites(), 1, func(int) int { return 4 })
		b.Sites[0].Delay = 7 * time.Second
		h := newHarvester(w)
		h.Options.Wait, h.Options.Slow = -1, -1
		harvestAll(t, h, b)
		for i, want := range [][]time.Duration{{7 * time.Second, 7 * time.Second, 7 * time.Second}, {0, 30 * time.Second, 0}} {
			at := asked[w.Sites()[i].Host]
			var got []time.Duration
			for j := 1; j < len(at); j++ {
				got = append(got, at[j].Sub(at[j-1]).Truncate(time.Millisecond))
			}
			if !slices.Equal(got, want) {
				t.Errorf("site %d got the next request after %v, not %v", i, got, want)
			}
		}
		if gap := h.Gap(1, 7*time.Second); gap != 7*time.Second {
			t.Errorf("the stated gap is %v", gap)
		}
	})
}
