package crawl

import (
	"container/heap"
	"context"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/harvest"
	"github.com/parleyweb/parley/client/frontier"
)

// next is the Manager: it returns the next batch, and nil when there will be
// none. The Harvester calls it before the previous batch is finished (S08).
func (r *run) next(ctx context.Context) (*harvest.Batch, error) {
	for {
		batch, wake, err := r.prepare(time.Now())
		if err != nil {
			return nil, err
		}
		if len(batch.Sites) > 0 {
			if err := r.writeBatch(batch, r.count.began); err != nil {
				return nil, err
			}
			if r.batch.take(batch, time.Now()); len(batch.Sites) > 0 {
				return batch, nil
			}
			wake = time.Now().Add(longestIdle) // the bulk fetches wake us
		}
		if wake.IsZero() {
			return nil, nil
		}
		if err := r.tidy(time.Now()); err != nil {
			return nil, err
		}
		select { // have parsed pages committed: they may hold the URLs that we wait for
		case r.in.hurry <- struct{}{}:
		default:
		}
		r.in.idle.Store(true)
		t := time.NewTimer(max(0, time.Until(wake)))
		select {
		case <-r.work.news:
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
		r.in.idle.Store(false)
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
func (r *run) prepare(now time.Time) (*harvest.Batch, time.Time, error) {
	r.work.Lock()
	defer r.work.Unlock()
	b := &harvest.Batch{}
	at := map[frontier.SiteID]int{}
	add := func(st *site, t harvest.Task) {
		i, ok := at[st.ID]
		if !ok {
			i = len(b.Sites)
			at[st.ID] = i
			b.Sites = append(b.Sites, harvest.SiteBatch{Site: st.ID, Origin: st.Origin, Pages: st.Pages, Delay: st.Delay})
		}
		b.Sites[i].Tasks = append(b.Sites[i].Tasks, t)
	}
	if r.work.reason == "" {
		r.fetchSources(now, add)
	}
	if r.work.reason == "" && r.revisits.planned() {
		passed, err := r.queue.fetchPages(now, add)
		if err != nil {
			return nil, now, err
		}
		if passed > 0 && len(b.Sites) == 0 {
			return b, now, nil // there may be more behind the skipped pages
		}
	}
	if len(b.Sites) > 0 {
		b.Number = uint64(r.count.Batches.Add(1))
		return b, now, nil
	}
	if r.work.reason != "" && r.work.busy == 0 {
		return b, time.Time{}, nil
	}
	return b, r.wake(now), nil
}

// wake returns when there may be something to fetch, the zero time if never.
func (r *run) wake(now time.Time) time.Time {
	next := now.Add(longestIdle)
	if r.work.busy > 0 {
		r.Log.Debug("waiting", "busy", r.work.busy)
		return next
	}
	soon := now.Add(orElse(r.Patience, time.Minute))
	idle := true
	if ms := r.front.Wake(now.UnixMilli()); ms > 0 {
		t := time.UnixMilli(ms)
		idle = t.After(soon)
		next = earliest(next, t)
	}
	if len(r.sites.due) > 0 {
		t := r.sites.due[0].At
		next = earliest(next, t)
		for i := 0; r.Once && i < len(r.sites.due); i++ { // a crawl with Once waits for robots.txt, and for the sources that wait for that
			src := r.sites.due[i]
			idle = idle && (src.Kind != collection.Robots && !src.Polled.IsZero() && !src.off || src.lasts || src.At.After(soon))
		}
	}
	for _, st := range r.sites.quiet(now) {
		idle = idle && st.After(soon)
		next = earliest(next, st)
	}
	r.Log.Debug("nothing to fetch", "busy", r.work.busy, "wake", r.front.Wake(now.UnixMilli())-now.UnixMilli(), "sources", len(r.sites.due), "idle", idle)
	if r.Once && idle {
		return time.Time{}
	}
	if next.Before(now) { // the zero time has a meaning of its own
		return now
	}
	return next
}

// quiet returns the ends of the pauses of sites that may have pages ready.
func (t *siteTable) quiet(now time.Time) (until []time.Time) {
	for st := range t.resting {
		rests := st.rests()
		if !now.Before(rests) {
			delete(t.resting, st)
			continue
		}
		until = append(until, rests)
	}
	return until
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// mostAsking is how many sources of a site are fetched before its pages. A site
// that names more is asked for so many sources, then for pages, and so on.
const mostAsking = 10

// robotsRests is how long a fetched robots.txt is fresh enough for other sources, even if RobotsEvery is shorter.
const robotsRests = time.Second

// fetchSources adds a task for each source that is due.
func (r *run) fetchSources(now time.Time, add func(*site, harvest.Task)) {
	var later []*source // sources that wait for robots.txt, or whose site has mostAsking under way; pages go on meanwhile
	defer func() {
		for _, src := range later {
			heap.Push(&r.sites.due, src)
		}
	}()
	for len(r.sites.due) > 0 && !r.sites.due[0].At.After(now) {
		src := heap.Pop(&r.sites.due).(*source)
		st := src.site
		if src.busy || r.unwanted(src) {
			continue
		}
		if st.many = st.asking >= mostAsking; st.many && src.Kind != collection.Robots && src.Kind != collection.ManifestRDF {
			later = append(later, src)
			continue
		}
		if src.Kind != collection.Robots {
			r.sites.complete(st)
			if rb := st.robots; (rb.busy || !rb.At.After(now)) && (st.silent != "" || now.Sub(rb.Polled) > robotsRests) { // it comes first, in this batch or already under way
				src.off, later = true, append(later, src)
				continue
			} else if st.silent != "" {
				r.sites.putOff(src, rb.At)
				continue
			}
			if r.Seeder.Forbids(src.URL) != "" {
				r.sites.plan(src, now.Add(r.every(collection.Robots)))
				continue
			}
		}
		if src.Kind == collection.ManifestRDF {
			if r.followers.firsts >= maxFirsts { // each costs a goroutine and a connection
				r.sites.putOff(src, now.Add(r.hurried(time.Second)))
				continue
			}
			src.busy, src.off = true, false
			r.followers.follow(src)
			continue
		}
		if src.elsewhere() {
			r.sources.askAbroad(src, now)
			continue
		}
		src.busy, src.off = true, false
		st.asking++
		r.work.busy++
		add(st, harvest.Task{URL: src.URL, Source: src.ID, MaxBytes: SourceBytes(src.Kind),
			IfNoneMatch: src.ETag, IfModifiedSince: src.LastModified})
	}
}

// unwanted reports whether the options turn off a source.
func (r *run) unwanted(src *source) bool {
	switch src.Kind {
	case collection.ManifestRDF:
		return r.NoManifests || r.Only != "" && src.URL != r.Only
	case collection.SitemapXML:
		return r.NoSitemaps
	case collection.NewsFeed:
		return r.NoFeeds
	}
	return false
}
