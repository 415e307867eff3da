package crawl

import (
	"cmp"
	"context"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/pause"
)

// The manager decides what is fetched next. It is called by the Harvester, in one goroutine.
type manager struct {
	c       *setup
	work    *work
	in      *inbox
	front   queue
	sites   *siteTable
	queue   *pageQueue
	sources *sources
	batch   *batchFetches
	count   *counters

	ends   bool      // the crawl is done when nothing is left to fetch
	since  time.Time // when there was first nothing to do but to wait
	came   int64     // how many pages had come by then
	upkeep *upkeep   // nil unless this is a copy
}

// next returns the next batch, or nil if there will be no more. The Harvester calls it before the previous batch is
// finished (S08). Early means that many of its tasks are left: then the next batch may be empty.
func (m *manager) next(ctx context.Context, early bool) (*harvest.Batch, error) {
	for {
		batch, wake, err := m.prepare(time.Now(), early)
		if err != nil {
			return nil, err
		}
		if len(batch.Sites) > 0 {
			if dir := m.c.Batches; dir != "" {
				if err := harvest.StoreBatch(dir, batch, m.count.began); err != nil {
					return nil, err
				}
			}
			if m.batch.take(batch, time.Now()); len(batch.Sites) > 0 {
				return batch, nil
			}
			wake = time.Now().Add(longestIdle) // the batch requests wake the Manager when they end
		}
		switch {
		case early:
			return batch, nil
		case wake.IsZero():
			return nil, nil
		}
		if m.upkeep != nil {
			if err := m.upkeep.rest(time.Now()); err != nil {
				return nil, err
			}
		}
		m.in.Idle.Store(true)
		pause.Wake(m.in.Wake) // once Idle says so: the pages that wait for a commit may contain the next URLs to fetch
		t := time.NewTimer(max(0, time.Until(wake)))
		select {
		case <-m.work.news:
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
		m.in.Idle.Store(false)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// longestIdle bounds the Manager's sleep.
const longestIdle = time.Minute

// prepare makes a batch of due tasks: first sources, then pages of sites whose
// sources are not being fetched. If nothing is due it returns when to call it
// again; the zero time means that the crawl is done.
func (m *manager) prepare(now time.Time, early bool) (*harvest.Batch, time.Time, error) {
	m.work.Lock()
	defer m.work.Unlock()
	b := &harvest.Batch{}
	at := map[frontier.SiteID]int{}
	add := func(st *site, t harvest.Task) {
		i, ok := at[st.ID]
		if !ok {
			i = len(b.Sites)
			at[st.ID] = i
			b.Sites = append(b.Sites, batchOf(st, now))
		}
		b.Sites[i].Tasks = append(b.Sites[i].Tasks, t)
	}
	if m.work.reason == "" {
		m.sources.fetch(now, add)
	}
	if m.work.reason == "" {
		passed, err := m.queue.fetchPages(now, early, add)
		if err != nil {
			return nil, now, err
		}
		if passed > 0 && len(b.Sites) == 0 {
			return b, now, nil // pages behind the skipped ones may be ready
		}
	}
	if len(b.Sites) > 0 {
		b.Number = uint64(m.count.Batches.Add(1))
		return b, now, nil
	}
	if m.work.reason != "" && m.work.busy == 0 {
		return b, time.Time{}, nil
	}
	return b, m.wake(now), nil
}

// wake returns when there may be something to fetch, the zero time if never.
func (m *manager) wake(now time.Time) time.Time {
	next := now.Add(longestIdle)
	stuck := m.work.busy > 0 && m.ends && m.work.busy <= m.c.Harvester.Tasks(m.sites.isInTrouble) // nothing else is under way
	if m.work.busy > 0 && !stuck {
		m.c.Log.Debug("waiting", "busy", m.work.busy)
		return next
	}
	if came := m.count.pages() + m.count.Unchanged.Load(); m.since.IsZero() || m.came != came { // retries that fail do not prolong the wait
		m.since, m.came = now, came
	}
	soon := m.since.Add(cmp.Or(max(m.c.Patience, 0), time.Minute))
	idle := true
	ms := m.front.Wake(now.UnixMilli())
	if ms > 0 {
		t := time.UnixMilli(ms)
		idle = t.After(soon)
		next = clock.Earlier(next, t)
	}
	if len(m.sites.due) > 0 {
		t := m.sites.due[0].At
		next = clock.Earlier(next, t)
		for i := 0; m.ends && i < len(m.sites.due); i++ { // a crawl that ends waits for robots.txt, and for sources that must wait for robots.txt
			src := m.sites.due[i]
			idle = idle && (src.Kind != collection.Robots && !src.Polled.IsZero() && !src.off || src.lasts || src.At.After(soon))
		}
	}
	for _, st := range m.sites.quiet(now) {
		idle = idle && st.After(soon)
		next = clock.Earlier(next, st)
	}
	if stuck {
		if idle && !now.Before(soon) { // their tasks come back
			m.work.reason = "the sites that are left do not answer properly"
			m.work.stop()
		}
		return clock.Later(clock.Earlier(next, soon), now.Add(time.Second))
	}
	m.c.Log.Debug("nothing to fetch", "busy", m.work.busy, "wake", ms-now.UnixMilli(), "sources", len(m.sites.due), "idle", idle)
	if m.ends && idle && !m.c.Harvester.Paused("") { // while all sites are paused, it waits
		return time.Time{}
	}
	return clock.Later(next, now) // never the zero time, which means that the crawl is done
}
