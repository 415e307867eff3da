package crawl

import (
	"math/rand/v2"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/judgement"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/protocol"
)

// A pageQueue passes pages from the frontier to the Harvester, in batches, or a single page at once. It holds the work's lock
// meanwhile, so that no page is passed twice.
type pageQueue struct {
	c        *setup
	work     *work
	in       *inbox
	front    queue
	sites    *siteTable
	judge    *judgement.Judge
	trust    trustRule
	copies   *equalCopies
	families *families
	plan     visitPlan
	count    *counters

	once bool // no page is fetched twice in a run, unless it is announced
}

// A queue gives out the pages to fetch. A frontier.Frontier is one, and for a copy of one site a sitequeue.Queue.
type queue interface {
	Batch(now int64, o frontier.BatchOptions) ([]frontier.SiteEntries, error)
	Take(frontier.Entry) bool
	First(frontier.Entry)
	Add([]frontier.Entry)
	Drop([]frontier.Entry)
	Done([]frontier.PageID)
	Return([]frontier.PageID)
	Moved(frontier.SiteID)
	Settle() error
	Wake(now int64) int64
	Len() int
}

// A visitPlan says which pages are worth a visit.
type visitPlan interface {
	ready() bool  // before, no page is visited
	prices() bool // a visit must be worth its price, which takes into account that the site announced nothing
	early(p *collection.Page, now time.Time) bool

	// begins sets aside what a visit will cost before it is made, so that the next page is chosen at the price after it; returned ends
	// that, before the visit is charged what it cost, or if it is not made. The work's lock is held.
	begins(st *site, p *collection.Page)
	returned(page frontier.PageID)
}

// fetchPages adds tasks for the first pages of the frontier, and returns how many pages it has skipped. Early ones are fetched
// beside those of the open batches: at most what Batch.Size leaves, of sites that have few tasks left, and those requested on demand.
func (q *pageQueue) fetchPages(now time.Time, early bool, add func(*site, harvest.Task)) (passed int, err error) {
	c, work, sites, equal := q.c, q.work, q.sites, q.copies.pages
	if !q.plan.ready() {
		return 0, nil
	}
	o := c.Batch
	o.Skip = func(id frontier.SiteID) bool {
		st := sites.of(id)
		if st != nil {
			sites.complete(st)
		}
		return st == nil || q.judge.Full(st.standing) || sites.waits(st, now) || sites.ahead(st, c.Harvester.Open(st.Origin)) > tooFarAhead
	}
	if early {
		o.Enough = func(id frontier.SiteID) bool { return c.Harvester.Open(sites.of(id).Origin) > sites.of(id).few }
		if o.Size > 0 && o.Size <= work.busy || o.Round != 0 && o.Round != 1 { // the order is by site, and by the batch
			return 0, nil
		}
		o.Size = max(0, o.Size-work.busy)
	}
	if left := c.Stop.Pages - int(q.count.pages()) - work.busy; c.Stop.Pages > 0 {
		if left <= 0 {
			return 0, nil
		}
		if o.Size == 0 || left < o.Size {
			o.Size = left
		}
	}
	list, err := q.front.Batch(now.UnixMilli(), o)
	if err != nil {
		return 0, err
	}
	var aside result // pages that are not fetched after all
	var same []equalPair
	for _, s := range list {
		st := sites.of(s.Site)
		publishes := !q.plan.prices() && st.sources.publisher != nil && q.judge.BelievesAll(st.standing)
		ids := make([]frontier.PageID, len(s.Entries))
		for i, e := range s.Entries {
			ids[i] = e.Page
		}
		if gap := sites.ahead(st, 1); gap > 0 {
			n := min(len(ids), max(1, int(2*tooFarAhead/gap)))
			q.front.Return(ids[n:])
			ids = ids[:n]
		}
		if few := max(1, len(ids)/4); !early || few > st.few { // a page on demand does not make the next batch small
			st.few = few
		}
		pages, err := c.Collection.PagesByID(ids)
		if err != nil {
			return 0, err
		}
		if t, ok := sites.probeSoft(st); ok {
			work.busy++
			add(st, t)
		}
		for i := range pages {
			p := &pages[i]
			if work.out[p.ID] {
				passed++ // it was rescheduled while it was being fetched
				continue
			}
			later := p.At.After(now.Add(c.hurried(time.Second)))
			if later {
				if later, err = c.Collection.Queue().Waits(p); err != nil {
					return 0, err
				}
			}
			if p.State == collection.Excluded || later {
				passed++
				q.front.Done([]frontier.PageID{p.ID}) // the frontier's entry is out of date
				continue
			}
			// Pages that are skipped stay given out, so that the frontier does not return them again.
			if c.Stop.Value > 0 && !p.Told && p.Value < c.Stop.Value || q.once && !p.Told && (p.Last.After(q.count.began) || c.Collection.Queue().Denied(p).After(q.count.began)) {
				passed++
				continue
			}
			if rule := q.trust.excludes(p); rule != "" {
				aside.visits = append(aside.visits, collection.Visit{Page: p.ID, Exclude: rule})
				continue
			}
			if len(aside.replanned) >= commitSize { // the rest are probably early too, and checking them would hold the lock for long
				q.front.Return([]frontier.PageID{p.ID})
				continue
			}
			if q.plan.early(p, now) {
				aside.replanned = append(aside.replanned, p.ID)
				continue
			}
			if publishes && p.Listed && !p.Told && p.State == collection.Held && rand.IntN(spotCheck) != 0 {
				aside.confirmed = append(aside.confirmed, p.ID)
				continue
			}
			if !q.families.mayAsk(st, p) {
				passed++
				continue
			}
			shares := equal.Shares(p) && q.judge.Exact(st.standing)
			var held *collection.Page
			if shares {
				var leader frontier.PageID
				if held, leader, err = equal.Find(p); err != nil {
					return 0, err
				}
				if leader != 0 {
					passed++
					equal.Wait(p.ID, leader)
					continue
				}
				if held != nil && equal.Busy() { // copyAll wakes the Manager when it has stored some
					q.front.Return([]frontier.PageID{p.ID})
					continue
				}
			}
			switch q.trust.believe(st, p) {
			case judgement.Wait:
				q.judge.Fill(st.standing)
				q.front.Return([]frontier.PageID{p.ID})
				continue
			case judgement.Unbelieve:
				aside.unbelieved = append(aside.unbelieved, p.ID)
				continue
			}
			if held != nil && q.trust.audits() {
				held = nil
				equal.Audit(p.ID)
				q.count.Audits.Add(1)
			}
			if held != nil {
				q.judge.NotFetched([]frontier.PageID{p.ID}) // copying a page proves nothing about the announcement
				passed++
				work.busy++
				work.out[p.ID] = true
				equal.Copy(1)
				same = append(same, equalPair{*p, *held})
				continue
			}
			if shares {
				equal.Fetch(p)
			}
			t := q.task(p)
			if t.Lost = p.State == collection.Held && p.Stored.File != "" && !q.c.Collection.Contents().Stands(p.Stored); t.Lost || q.lacksOriginal(p) {
				t.IfNoneMatch, t.IfModifiedSince = "", ""
			}
			work.busy++
			work.out[p.ID] = true
			q.plan.begins(st, p)
			add(st, t)
		}
	}
	if len(same) > 0 {
		work.group.Go(func() { q.copies.copyAll(same) })
	}
	if len(aside.visits)+len(aside.confirmed)+len(aside.unbelieved)+len(aside.replanned) > 0 {
		work.busy++
		aside.busy = 1
		work.group.Go(func() { q.in.Put(aside) })
	}
	return passed, nil
}

// spotCheck: of the pages that are due by their age although their site publishes its
// changes and has announced none, one in spotCheck is fetched. Signals get lost, and
// sites may withhold changes.
const spotCheck = 10

// lacksOriginal reports whether a page is a duplicate, whose links were skipped, of a page that is gone: a 304 would be useless.
func (q *pageQueue) lacksOriginal(p *collection.Page) bool {
	if p.Original == 0 {
		return false
	}
	o, ok, err := q.c.Collection.PageByID(p.Original)
	return err != nil || !ok || o.State != collection.Held
}

// tooFarAhead is the length of a site's task queue, in time, above which it gets
// no more tasks. Queued tasks were ranked, and checked against robots.txt, when
// they were queued, and a robots.txt that is due is fetched after them.
const tooFarAhead = time.Hour

// batchOf returns tasks of a site for the Harvester, and when they were chosen: a change of the scope since then takes effect on them.
func batchOf(st *site, chosen time.Time, tasks ...harvest.Task) harvest.SiteBatch {
	return harvest.SiteBatch{Site: st.ID, Origin: st.Origin, Pages: st.Pages, Delay: st.Delay, Tasks: tasks, Chosen: chosen}
}

// task returns the request for a page, which robots.txt must allow.
func (q *pageQueue) task(p *collection.Page) harvest.Task {
	t := harvest.Task{Page: p.ID, URL: p.URL, Depth: p.Depth, Want: p.Debt, Text: p.Unstable != collection.Stable, Signal: string(p.Signal)}
	t.Claimed, _ = p.Claim()
	if p.State == collection.Held && p.FetchURL == "" && !q.c.Collection.Contents().None && p.Stored.File != "" {
		t.Held = p.Digest
		st := q.sites.of(p.Site)
		t.Dictionary = st != nil && p.Debt != p.Digest && (st.differs || st.offer != nil && client.Offers(st.offer.d, protocol.AsDelta))
	}
	if p.FetchURL != "" && q.c.Seeder.Forbids(p.FetchURL) == "" {
		t.URL = p.FetchURL
	}
	// The request is not conditional where the site has just announced another digest,
	// since its validators may be too coarse: two edits within one second look alike.
	// For the same reason, later retries after a mismatch are not conditional either, nor is the
	// request for a page that was last fetched within about a second of its change.
	held := fetch.Validators{ETag: p.ETag, LastModified: p.LastModified}
	if p.State == collection.Held && (p.Debt == p.Digest || p.Debt.IsZero() || p.Missed == 1) && held.Show(p.Last.Add(-time.Second)) {
		t.IfNoneMatch, t.IfModifiedSince = p.ETag, p.LastModified
	}
	return t
}

// mostHasty is how many pages of one step are put into the running cycle at once. The rest
// wait in their site's queue.
const mostHasty = 100

func (q *pageQueue) hastenAll(queue []frontier.Entry) error {
	var ids []frontier.PageID
	for _, e := range queue[:min(len(queue), mostHasty)] {
		ids = append(ids, e.Page)
	}
	pages, err := q.c.Collection.PagesByID(ids)
	for i := range pages {
		if pages[i].Told {
			q.hasten(&pages[i])
		}
	}
	return err
}

// hasten puts a page first in its site's queue, in the running cycle.
func (q *pageQueue) hasten(p *collection.Page) {
	work, front := q.work, q.front
	work.Lock()
	defer work.Unlock()
	st := q.sites.of(p.Site)
	if st == nil {
		return
	}
	entry := frontier.Entry{Page: p.ID, Site: p.Site}
	waits := q.trust.excludes(p) != "" || q.sites.waits(st, time.Now())
	if work.out[p.ID] && !waits { // it is in the Harvester's queue, behind others
		q.c.Harvester.First(st.Origin, p.ID)
		return
	}
	shares := !waits && q.copies.pages.Shares(p) && q.judge.Exact(st.standing)
	if shares {
		held, leader, err := q.copies.pages.Find(p)
		waits = err != nil || held != nil || leader != 0
	}
	if waits { // the Manager decides
		front.First(entry)
		work.rouse()
		return
	}
	if q.judge.Full(st.standing) || !front.Take(entry) {
		return // it stays in its site's queue
	}
	if q.trust.believe(st, p) != judgement.Fetch { // it stays in its site's queue
		front.Return([]frontier.PageID{p.ID})
		return
	}
	if q.c.Harvester.Insert(batchOf(st, time.Now(), q.task(p))) != nil {
		q.judge.NotFetched([]frontier.PageID{p.ID})
		front.Return([]frontier.PageID{p.ID})
		return
	}
	work.busy++
	work.out[p.ID] = true
	q.plan.begins(st, p)
	if shares {
		q.copies.pages.Fetch(p)
	}
}

// takeOut marks delivered pages as given out, so that they are not fetched. It returns
// them without those that are being fetched already. The work's lock is held.
func (q *pageQueue) takeOut(list []delivery) []delivery {
	kept := list[:0]
	for _, d := range list {
		if q.work.out[d.page.ID] || !q.front.Take(frontier.Entry{Page: d.page.ID, Site: d.page.Site}) {
			continue
		}
		q.work.out[d.page.ID] = true
		q.work.busy++
		kept = append(kept, d)
	}
	return kept
}
