package harvest_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/fakeweb"
)

// The tasks of a paused site come back, those that are inserted too; requests by its Transport wait until it is resumed, or
// their context ends. Other sites are fetched meanwhile.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 10, Sites: 2, Kinds: []fakeweb.Kind{fakeweb.Honest}})
		defer w.Close()
		h, paused, other := newHarvester(w), w.Sites()[0], w.Sites()[1]
		defer h.Close()
		h.Pause(func(origin string) bool { return origin == paused.Origin })
		if !h.Paused(paused.Origin) || h.Paused(other.Origin) {
			t.Error("the wrong site is paused")
		}
		got := make(chan error, 1)
		go func() {
			resp, err := (&http.Client{Transport: h.Transport(paused.Origin)}).Get(paused.Origin + "/")
			if err == nil {
				resp.Body.Close()
			}
			got <- err
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, paused.Origin+"/", nil)
		if _, err := (&http.Client{Transport: h.Transport(paused.Origin)}).Do(req); err == nil {
			t.Error("a request of a paused site was answered")
		}
		begun := time.Now()
		if _, err := (&http.Client{Transport: h.Transport(paused.Origin)}).Do(req.WithContext(harvest.UnlessPaused(t.Context(), time.Now()))); !errors.Is(err, harvest.ErrPaused) || time.Since(begun) > 0 {
			t.Errorf("a request that does not wait for a person: %v after %v", err, time.Since(begun))
		}
		if err := h.Insert(harvest.SiteBatch{Site: 1, Origin: paused.Origin, Tasks: tasks(paused.Origin, 2)}); err != nil {
			t.Error(err)
		}
		var list answers
		batch := &harvest.Batch{Sites: []harvest.SiteBatch{
			{Site: 1, Origin: paused.Origin, Tasks: tasks(paused.Origin, 5)}, {Site: 2, Origin: other.Origin, Tasks: tasks(other.Origin, 5)}}}
		if err := h.Run(t.Context(), once(batch), list.take); err != nil {
			t.Error(err)
		}
		if n := list.faults(); n[string(harvest.FaultStopped)] != 7 || n["404"] != 5 {
			t.Errorf("answers %v, want 7 stopped and 5 not found", n)
		}
		for _, a := range w.Log() {
			if a.Site == paused {
				t.Errorf("the paused site got %v", a)
			}
		}
		h.Pause(nil)
		if err := <-got; err != nil {
			t.Errorf("the request that waited: %v", err)
		}
		before := time.Now()
		moment := harvest.UnlessPaused(t.Context(), before)
		go func() {
			resp, err := (&http.Client{Transport: h.Transport(paused.Origin)}).Do(req.WithContext(moment)) // waits for the gap after that request
			if err == nil {
				resp.Body.Close()
			}
			got <- err
		}()
		time.Sleep(time.Second)
		h.Pause(func(string) bool { return true })
		h.Pause(nil)
		w.Forget()
		if err := <-got; !errors.Is(err, harvest.ErrPaused) || len(w.Log()) > 0 {
			t.Errorf("a request that was paused for a moment: %v, %v", err, w.Log())
		}
		var late answers
		for _, chosen := range []time.Time{before, time.Now()} {
			time.Sleep(time.Minute)
			batch := &harvest.Batch{Sites: []harvest.SiteBatch{{Site: 1, Origin: paused.Origin, Tasks: tasks(paused.Origin, 3), Chosen: chosen}}}
			if err := h.Run(t.Context(), once(batch), late.take); err != nil {
				t.Error(err)
			}
		}
		if n := late.faults(); n[string(harvest.FaultStopped)] != 3 || n["404"] != 3 {
			t.Errorf("answers %v, want 3 stopped, of the tasks that were chosen before the site was paused for a moment, and 3 not found", n)
		}
	})
}

// A site that is paused while its tasks wait gets no further request, and a longer gap holds from the next request on.
func TestSteerWhileHarvesting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 10, Sites: 2, Kinds: []fakeweb.Kind{fakeweb.Honest}})
		defer w.Close()
		h, paused, other := newHarvester(w), w.Sites()[0], w.Sites()[1]
		defer h.Close()
		go func() {
			time.Sleep(time.Minute)
			synctest.Wait() // for the requests of this moment: they are sent before the pause
			h.Pause(func(origin string) bool { return origin == paused.Origin })
			h.SetRate(harvest.Options{Wait: time.Minute, WaitBig: time.Minute})
			w.Forget()
		}()
		var list answers
		batch := &harvest.Batch{Sites: []harvest.SiteBatch{
			{Site: 1, Origin: paused.Origin, Tasks: tasks(paused.Origin, 50)}, {Site: 2, Origin: other.Origin, Tasks: tasks(other.Origin, 50)}}}
		if err := h.Run(t.Context(), once(batch), list.take); err != nil {
			t.Error(err)
		}
		n := list.faults()
		if stopped := n[string(harvest.FaultStopped)]; stopped < 40 || stopped == 50 || n["404"] != 100-stopped {
			t.Errorf("answers %v, want those of the paused site to stop after a minute", n)
		}
		log := w.Log()
		for i, a := range log {
			if a.Site == paused {
				t.Errorf("the paused site got %v", a)
			}
			if i > 1 && a.Begin.Sub(log[i-1].End) < time.Minute {
				t.Errorf("%v after %v", a, log[i-1])
			}
		}
		if gap := h.Gap(1, 0); len(log) < 40 || gap != time.Minute {
			t.Errorf("%d requests in the end, with a gap of %v", len(log), gap)
		}
	})
}
