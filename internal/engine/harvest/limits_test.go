package harvest_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/fakeweb"
)

// Harvesters that share Limits fetch from no more sites at once than one alone, but for one more each, and all get to their end.
func TestHarvestersShareLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 12, Sites: 30, Kinds: []fakeweb.Kind{fakeweb.Honest}})
		defer w.Close()
		const most, count = 6, 3
		var limits harvest.Limits
		var runs sync.WaitGroup
		var lists [count]answers
		for i := range count {
			h := newHarvester(w)
			h.Options.Limits, h.Options.Sites = &limits, most
			b := &harvest.Batch{}
			for n, s := range w.Sites() {
				if n%count == i {
					s.Latency = time.Second
					b.Sites = append(b.Sites, harvest.SiteBatch{Site: frontier.SiteID(n + 1), Origin: s.Origin, Tasks: tasks(s.Origin, 20)})
				}
			}
			runs.Go(func() {
				defer h.Close()
				if err := h.Run(t.Context(), once(b), lists[i].take); err != nil {
					t.Error(err)
				}
			})
		}
		runs.Wait()
		if n := mostAtOnce(w); n < most || n > most+count-1 {
			t.Errorf("%d sites are fetched from at once, want %d", n, most)
		}
		for i := range lists {
			if n := len(lists[i].list); n != 20*len(w.Sites())/count {
				t.Errorf("harvester %d has %d answers", i, n)
			}
		}
	})
}

// Of one Harvester the sink blocks, as while a disk is slow. The others go on, and it has its own bound.
func TestHarvesterWhoseSinkBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 12, Sites: 12, Kinds: []fakeweb.Kind{fakeweb.Honest}})
		defer w.Close()
		var limits harvest.Limits
		began := time.Now()
		run := func(sites []*fakeweb.Site, sink func(*harvest.Answer)) {
			h := newHarvester(w)
			defer h.Close()
			h.Options.Limits, h.Options.Sites = &limits, 2
			if err := h.Run(t.Context(), once(batchOf(sites, 1, func(int) int { return 3 })), sink); err != nil {
				t.Error(err)
			}
		}
		var runs sync.WaitGroup
		var blocked atomic.Int32
		runs.Go(func() {
			run(w.Sites()[:6], func(a *harvest.Answer) {
				if n := blocked.Add(1); n > 2 {
					t.Errorf("%d answers are handed over at once", n)
				}
				time.Sleep(time.Hour)
				blocked.Add(-1)
				a.Release()
			})
		})
		time.Sleep(time.Minute)
		run(w.Sites()[6:], (*harvest.Answer).Release)
		if took := time.Since(began); took > 10*time.Minute {
			t.Errorf("the other Harvester takes %v", took)
		}
		runs.Wait()
	})
}

// mostAtOnce returns how many requests were open at the same time.
func mostAtOnce(w *fakeweb.Web) (most int) {
	log := w.Log()
	for _, a := range log {
		n := 0
		for _, o := range log {
			if !o.Begin.After(a.Begin) && o.End.After(a.Begin) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
