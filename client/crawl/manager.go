package crawl

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/harvest"
	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/protocol"
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
			if r.bulks(batch, time.Now()); len(batch.Sites) > 0 {
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
		passed, err := r.fetchPages(now, add)
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
			if r.firsts >= maxFirsts { // each costs a goroutine and a connection
				r.sites.putOff(src, now.Add(r.hurried(time.Second)))
				continue
			}
			src.busy, src.off = true, false
			r.follow(src)
			continue
		}
		if src.elsewhere() {
			r.askAbroad(src, now)
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

// fetchPages adds tasks for the first pages of the frontier, and returns how many pages it has skipped.
func (r *run) fetchPages(now time.Time, add func(*site, harvest.Task)) (passed int, err error) {
	o := r.Batch
	o.Skip = func(id frontier.SiteID) bool {
		st := r.sites.of(id)
		if st != nil {
			r.sites.complete(st)
		}
		return st == nil || st.full || st.waits(now) || r.sites.ahead(st, r.Harvester.Open(st.Origin)) > tooFarAhead
	}
	if left := r.Stop.Pages - int(r.count.pages()) - r.work.busy; r.Stop.Pages > 0 {
		if left <= 0 {
			return 0, nil
		}
		if o.Size == 0 || left < o.Size {
			o.Size = left
		}
	}
	list, err := r.front.Batch(now.UnixMilli(), o)
	if err != nil {
		return 0, err
	}
	var aside read // pages that are not fetched after all
	var same []equalPair
	for _, s := range list {
		st := r.sites.of(s.Site)
		tells := false
		if r.Revisit == nil { // else the price accounts for a site's silence
			tells = r.judge.tells(st)
		}
		ids := make([]frontier.PageID, len(s.Entries))
		for i, e := range s.Entries {
			ids[i] = e.Page
		}
		if gap := r.sites.ahead(st, 1); gap > 0 {
			n := min(len(ids), max(1, int(2*tooFarAhead/gap)))
			r.front.Return(ids[n:])
			ids = ids[:n]
		}
		pages, err := r.Collection.PagesByID(ids)
		if err != nil {
			return 0, err
		}
		if t, ok := r.sites.probeSoft(st); ok {
			r.work.busy++
			add(st, t)
		}
		for i := range pages {
			p := &pages[i]
			if r.work.out[p.ID] {
				passed++ // it was planned anew while it was being fetched
				continue
			}
			later := p.At.After(now.Add(r.hurried(time.Second)))
			if later {
				if later, err = r.Collection.Waits(p); err != nil {
					return 0, err
				}
			}
			if p.State == collection.Excluded || later {
				passed++
				r.front.Done([]frontier.PageID{p.ID}) // the frontier's entry is out of date
				continue
			}
			// With Once, pages that are skipped stay given out, so that the frontier does not return them again.
			if r.Stop.Value > 0 && !p.Told && p.Value < r.Stop.Value || r.Once && !p.Told && (p.Last.After(r.count.began) || r.Collection.Denied(p).After(r.count.began)) {
				passed++
				continue
			}
			rule := r.Seeder.Forbids(p.URL)
			if p.By != collection.ByPerson && r.Only == "" { // the rules may have changed since it was found
				rule = r.Seeder.Excludes(p.URL)
			}
			if rule != "" {
				aside.visits = append(aside.visits, collection.Visit{Page: p.ID, Exclude: rule})
				continue
			}
			if len(aside.replanned) >= commitSize { // the next ones are as likely to be early, and the lock is held
				r.front.Return([]frontier.PageID{p.ID})
				continue
			}
			if r.revisits.early(p, now) {
				aside.replanned = append(aside.replanned, p.ID)
				continue
			}
			if tells && p.Listed && !p.Told && p.State == collection.Held && rand.IntN(spotCheck) != 0 {
				aside.confirmed = append(aside.confirmed, p.ID)
				continue
			}
			if !r.families.mayAsk(st, p) {
				passed++
				continue
			}
			shares := r.equal.shareable(st, p)
			var held *collection.Page
			if shares {
				var leader frontier.PageID
				if held, leader, err = r.equal.of(p); err != nil {
					return 0, err
				}
				if leader != 0 {
					passed++
					r.equal.wait(p.ID, leader)
					continue
				}
				if held != nil && r.equal.taking >= mostTaking { // shareAll wakes us when it has stored some
					r.front.Return([]frontier.PageID{p.ID})
					continue
				}
			}
			switch r.judge.believe(st, p) {
			case wait:
				st.full = true
				r.front.Return([]frontier.PageID{p.ID})
				continue
			case unbelieve:
				aside.unbelieved = append(aside.unbelieved, p.ID)
				continue
			}
			if held != nil && r.Only == "" && rand.Float64() < auditShare {
				held, r.equal.audited[p.ID] = nil, true
				r.count.Audits.Add(1)
			}
			if held != nil {
				r.judge.unasked([]frontier.PageID{p.ID}) // a copied page cannot judge the announcement
				passed++
				r.work.busy++
				r.work.out[p.ID] = true
				r.equal.taking++
				same = append(same, equalPair{*p, *held})
				continue
			}
			if shares {
				r.equal.fetchFor(p)
			}
			t := r.task(p)
			if (t.IfNoneMatch != "" || t.IfModifiedSince != "") && !r.stands(p) {
				t.IfNoneMatch, t.IfModifiedSince = "", ""
			}
			r.work.busy++
			r.work.out[p.ID] = true
			add(st, t)
		}
	}
	if len(same) > 0 {
		r.work.group.Go(func() { r.readings.shareAll(same) })
	}
	if len(aside.visits)+len(aside.confirmed)+len(aside.unbelieved)+len(aside.replanned) > 0 {
		r.work.busy++
		aside.busy = 1
		r.work.group.Go(func() { r.in.put(aside) })
	}
	return passed, nil
}

// spotCheck: one of so many pages that are due by their age is fetched although
// its site publishes its changes and has announced none. Signals get lost, and
// sites may withhold changes.
const spotCheck = 10

// stands reports whether a page's content is still stored, so that a 304 is of
// use. It is not for a duplicate, whose links were skipped, when its original is gone.
func (r *run) stands(p *collection.Page) bool {
	if p.Original != 0 {
		if o, ok, err := r.Collection.PageByID(p.Original); err != nil || !ok || o.State != collection.Held {
			return false
		}
	}
	return p.Stored.File == "" || r.Collection.Stands(p.Stored)
}

// tooFarAhead is the length of a site's task queue, in time, above which it gets
// no more tasks. Queued tasks were ranked, and checked against robots.txt, when
// they were queued, and a robots.txt that is due is fetched after them.
const tooFarAhead = time.Hour

// ahead returns the least time that so many tasks of a site take.
func (t *siteTable) ahead(st *site, tasks int) time.Duration {
	return time.Duration(tasks) * t.c.Harvester.Gap(st.Pages, st.Delay)
}

// task returns the request for a page, which robots.txt must allow.
func (r *run) task(p *collection.Page) harvest.Task {
	t := harvest.Task{Page: p.ID, URL: p.URL, Depth: p.Depth, Want: p.Debt, Text: p.Unstable != collection.Stable, Signal: string(p.Signal)}
	t.Claimed, _ = p.Claim()
	if p.State == collection.Held && p.FetchURL == "" && r.Collection.Stores() && p.Stored.File != "" {
		t.Held = p.Digest
		st := r.sites.of(p.Site)
		t.Dictionary = st != nil && p.Debt != p.Digest && (st.differs || st.offer != nil && client.Offers(st.offer.d, protocol.AsDelta))
	}
	if p.FetchURL != "" && r.Seeder.Forbids(p.FetchURL) == "" {
		t.URL = p.FetchURL
	}
	// The request is not conditional where the site has just announced another digest,
	// since its validators may be too coarse: two edits within one second look alike.
	// For the same reason neither is the last of several requests, nor the one for a
	// page that was last fetched within about a second of its change.
	held := fetch.Validators{ETag: p.ETag, LastModified: p.LastModified}
	if p.State == collection.Held && (p.Debt == p.Digest || p.Debt.IsZero() || p.Missed == 1) && held.Show(p.Last.Add(-time.Second)) {
		t.IfNoneMatch, t.IfModifiedSince = p.ETag, p.LastModified
	}
	return t
}
