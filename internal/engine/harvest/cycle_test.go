package harvest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/must"
)

// batchOf asks each of some sites for n missing pages.
func batchOf(sites []*fakeweb.Site, number uint64, n func(i int) int) *harvest.Batch {
	b := &harvest.Batch{Number: number}
	for i, s := range sites {
		sb := harvest.SiteBatch{Site: frontier.SiteID(s.Number + 1), Origin: s.Origin}
		for j := range n(i) {
			sb.Tasks = append(sb.Tasks, harvest.Task{URL: fmt.Sprintf("%s/%d/%d", s.Origin, number, j), Page: 1})
		}
		b.Sites = append(b.Sites, sb)
	}
	return b
}

func honest(n int) *fakeweb.Web {
	return fakeweb.New(fakeweb.Options{Seed: 9, Sites: n, Kinds: []fakeweb.Kind{fakeweb.Honest}})
}

// A batch that arrives after the end is given back, as every task is.
func TestLateBatchIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := honest(2)
		defer w.Close()
		var got answers
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := newHarvester(w).Run(ctx, func(ctx context.Context, early bool) (*harvest.Batch, error) {
			<-ctx.Done()
			return batchOf(w.Sites(), 1, func(int) int { return 3 }), nil
		}, got.take)
		if n := got.faults(); err != nil || len(got.list) != 6 || n["stopped"] != 6 {
			t.Errorf("%v: %v", n, err)
		}
	})
}

// The next batch is requested before the last has ended, and runs beside
// it; when few sites of the last one have tasks left, these are given back (S08).
func TestOldBatchEndsEarly(t *testing.T) {
	for _, minSites := range []int{0, -1} {
		synctest.Test(t, func(t *testing.T) {
			w := honest(40)
			defer w.Close()
			h := newHarvester(w)
			h.Options.MinSites = minSites
			var got answers
			calls := 0
			must.OK(t, h.Run(t.Context(), func(_ context.Context, early bool) (*harvest.Batch, error) {
				if early {
					return new(harvest.Batch), nil
				}
				switch calls++; calls {
				case 1: // one site has much more than the others
					return batchOf(w.Sites()[:20], 1, func(i int) int { return 3 + i/19*37 }), nil
				case 2:
					return batchOf(w.Sites()[20:], 2, func(int) int { return 3 }), nil
				}
				return nil, nil
			}, got.take))
			back := map[frontier.SiteID]int{}
			for _, a := range got.list {
				if a.Fault == harvest.FaultStopped {
					back[a.Site]++
				}
			}
			n := got.faults()
			if len(got.list) != 157 || n["404"]+n["stopped"] != 157 {
				t.Errorf("%d answers: %v", len(got.list), n)
			}
			if minSites < 0 && n["stopped"] > 0 || minSites == 0 && (back[20] < 30 || len(back) >= harvest.DefaultMinSites) {
				t.Errorf("at least %d sites: given back %v", minSites, back)
			}
		})
	}
}

// A batch that is requested early ends no other.
func TestEarlyBatchEndsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := honest(40)
		defer w.Close()
		var got answers
		begun, batches := time.Now(), uint64(0)
		next := func(sites []*fakeweb.Site) (*harvest.Batch, error) {
			batches++
			return batchOf(sites, batches, func(i int) int { return 3 + i }), nil
		}
		h := newHarvester(w)
		h.Options.MinSites = 20
		must.OK(t, h.Run(t.Context(), func(_ context.Context, early bool) (*harvest.Batch, error) {
			switch {
			case batches == 0:
				return next(w.Sites()[:20])
			case early && batches == 1 && time.Since(begun) > time.Minute: // one or two sites have ended
				return next(w.Sites()[20:])
			case early:
				return new(harvest.Batch), nil
			}
			return nil, nil
		}, got.take))
		if n := got.faults(); batches != 2 || len(n) != 1 || n["404"] != 2*250 {
			t.Errorf("%d batches: %v", batches, n)
		}
	})
}

// A site whose batches arrive one by one loses no time between them, and a
// batch of few sites is never given back. While many tasks are left, another
// batch is wanted for new sites only.
func TestOneSiteInManyBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := honest(1)
		defer w.Close()
		h := newHarvester(w)
		h.Options.Wait = time.Second
		var got answers
		calls := uint64(0)
		begin := time.Now()
		err := h.Run(t.Context(), func(ctx context.Context, early bool) (*harvest.Batch, error) {
			if early {
				return new(harvest.Batch), nil
			}
			if calls++; calls > 10 {
				return nil, nil
			}
			if open := h.Open(w.Sites()[0].Origin); open > 10 {
				t.Errorf("requested another batch with %d tasks left", open)
			}
			return batchOf(w.Sites(), calls, func(int) int { return 20 }), nil
		}, got.take)
		if n := got.faults(); err != nil || n["404"] != 200 || len(n) != 1 {
			t.Errorf("%v: %v", n, err)
		}
		if d := time.Since(begin).Truncate(time.Second); d != 199*time.Second {
			t.Errorf("200 pages took %v", d)
		}
	})
}

// A task that is inserted on demand is its site's next request.
func TestInsert(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := honest(2)
		defer w.Close()
		h := newHarvester(w)
		sites := w.Sites()
		demand := func(s *fakeweb.Site, path string) {
			err := h.Insert(harvest.SiteBatch{Site: frontier.SiteID(s.Number + 1), Origin: s.Origin, Tasks: []harvest.Task{{URL: s.Origin + path}}})
			if err != nil {
				t.Error(err)
			}
		}
		demand(sites[0], "/before")
		var got answers
		var wg sync.WaitGroup
		wg.Go(func() {
			time.Sleep(100 * time.Second)
			demand(sites[0], "/demand")
			demand(sites[1], "/new")
		})
		err := h.Run(t.Context(), once(batchOf(sites[:1], 1, func(int) int { return 20 })), got.take)
		wg.Wait()
		log := w.Log()
		if err != nil || len(log) != 23 || log[0].Path != "/before" {
			t.Fatalf("%d requests, first %v: %v", len(log), log[0], err)
		}
		// The first site may get a request 15 s after 90 s, the second at once.
		for path, at := range map[string]time.Duration{"/demand": 105 * time.Second, "/new": 100 * time.Second} {
			for _, a := range log {
				if a.Path == path && a.Begin.Sub(log[0].Begin) != at {
					t.Errorf("%s after %v", path, a.Begin.Sub(log[0].Begin))
				}
			}
		}
		for _, f := range w.Impolite(fakeweb.Manners{Gap: 15 * time.Second}) {
			t.Error(f)
		}
		if err := h.Insert(harvest.SiteBatch{Origin: "ftp://example.org"}); err == nil {
			t.Error("an ftp origin was accepted")
		}
	})
}

// A refused stream blocks all requests to the host for as long as the site asks.
func TestStreamRetryAfterBlocksHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := honest(1)
		defer w.Close()
		h := newHarvester(w)
		s := w.Sites()[0]
		begin := time.Now()
		h.Refused(s.Origin, http.StatusServiceUnavailable, http.Header{"Retry-After": {"3600"}})
		harvestAll(t, h, one(s, "/"))
		if at := w.Log()[0].Begin.Sub(begin); at != time.Hour {
			t.Errorf("asked after %v", at)
		}
	})
}

func TestNextErrorEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := honest(1)
		defer w.Close()
		broken := errors.New("no batch today")
		calls := 0
		var got answers
		err := newHarvester(w).Run(t.Context(), func(context.Context, bool) (*harvest.Batch, error) {
			if calls++; calls > 1 {
				return nil, broken
			}
			return batchOf(w.Sites(), 1, func(int) int { return 8 }), nil
		}, got.take)
		if !errors.Is(err, broken) || len(got.list) != 8 || got.faults()["stopped"] == 0 {
			t.Errorf("%v, %v", err, got.faults())
		}
	})
}

// Tasks that must not be fetched at all are given back, and do not stop the rest.
func TestBadTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := honest(1)
		defer w.Close()
		s := w.Sites()[0]
		b := one(s, "/")
		b.Sites[0].Tasks = append(b.Sites[0].Tasks,
			harvest.Task{URL: "http://elsewhere.example/"}, harvest.Task{URL: s.Origin + "/ HTTP/1.1\r\nHost: x\r\n\r\n"},
			harvest.Task{URL: s.Origin + ".evil.example/"}, harvest.Task{URL: s.Origin + "?q#frag"}, harvest.Task{URL: s.Origin + "/ä"})
		b.Sites = append(b.Sites, harvest.SiteBatch{Origin: "http://user@" + s.Host, Tasks: []harvest.Task{{URL: "http://user@" + s.Host + "/"}}})
		got := harvestAll(t, newHarvester(w), b)
		if len(got) != 7 {
			t.Errorf("%d answers", len(got))
		}
		for url, a := range got {
			if good := url == s.Origin+"/" || url == s.Origin+"?q#frag"; good != (a.Status == 200) || !good && a.Fault != harvest.FaultProtocol {
				t.Errorf("%q: %d %q %v", url, a.Status, a.Fault, a.Err)
			}
		}
		if n := len(w.Log()); n != 2 {
			t.Errorf("%d requests", n)
		}
	})
}

// If more sites are ready than may be fetched at once, the batch's order decides.
func TestOrderOfSites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := honest(30)
		defer w.Close()
		sites := w.Sites()
		for _, s := range sites {
			s.Latency = time.Second
		}
		rand.Shuffle(len(sites), func(i, j int) { sites[i], sites[j] = sites[j], sites[i] })
		h := newHarvester(w)
		h.Options.Sites = 1
		h.Options.Wait = time.Second
		harvestAll(t, h, batchOf(sites, 1, func(int) int { return 1 }))
		for i, a := range w.Log() {
			if a.Site != sites[i] {
				t.Fatalf("fetched from %s instead of %s", a.Site.Origin, sites[i].Origin)
			}
		}
	})
}
