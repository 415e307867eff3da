package harvest_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/fakeweb"
)

// A Harvester whose right to ask comes from elsewhere sends nothing before each host's gap has passed, as if another process had just asked, and
// nothing after the right has ended: no page, nothing by a Transport, and not even if it was stopped after it got the slot.
func TestNothingIsAskedAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 10, Sites: 3, Kinds: []fakeweb.Kind{fakeweb.Honest}})
		defer w.Close()
		began := time.Now()
		var ends atomic.Pointer[time.Time]
		var stopped atomic.Bool
		ends.Store(new(began.Add(5 * time.Minute)))
		h := newHarvester(w)
		h.Options.Ends = func() time.Time { return *ends.Load() }
		h.Options.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := w.Dial(ctx, network, address)
			if time.Since(began) > 9*time.Minute {
				stopped.Store(true)
				time.Sleep(time.Until(*ends.Load()) + time.Second)
			}
			return c, err
		}
		defer h.Close()
		b := &harvest.Batch{}
		for i, s := range w.Sites() {
			b.Sites = append(b.Sites, harvest.SiteBatch{Site: frontier.SiteID(i + 1), Origin: s.Origin, Tasks: tasks(s.Origin, 500)})
		}
		slow := w.Sites()[2]
		b.Sites[2].Delay = 2 * time.Minute
		time.AfterFunc(4*time.Minute, func() { ends.Store(new(began.Add(10 * time.Minute))) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		asked := make(chan error, 1)
		go func() {
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, w.Sites()[0].Origin+"/robots.txt", nil)
			for {
				resp, err := (&http.Client{Transport: h.Transport(w.Sites()[0].Origin)}).Do(req)
				if err != nil {
					asked <- err
					return
				}
				resp.Body.Close()
			}
		}()
		var list answers
		if err := h.Run(ctx, once(b), list.take); err != nil {
			t.Error(err)
		}
		if err := <-asked; !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "has not the right") {
			t.Errorf("requests by a Transport end with %v", err)
		}
		first := map[*fakeweb.Site]time.Duration{}
		for _, a := range w.Log() {
			at := a.Begin.Sub(began)
			if at >= 10*time.Minute {
				t.Errorf("%v, after the end", a)
			}
			if _, ok := first[a.Site]; !ok {
				first[a.Site] = at
			}
		}
		if n := len(w.Log()); n < 60 || !stopped.Load() {
			t.Errorf("%d requests, stopped in one: %v", n, stopped.Load())
		}
		for s, at := range first {
			want := harvest.DefaultWait
			if s == slow {
				want = 2 * time.Minute
			}
			if at < want {
				t.Errorf("%s is asked first after %v, want %v", s.Origin, at, want)
			}
		}
		for _, a := range list.list {
			if a.Fault != "" && a.Fault != harvest.FaultStopped {
				t.Errorf("%s: %s, %v", a.URL, a.Fault, a.Err)
			}
		}
	})
}
