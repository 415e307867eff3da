package crawl

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/rank"
	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/protocol"
)

// announcements handles the announcements of sites: each is stored, and the pages that it names are stored from it, fetched or scheduled.
type announcements struct {
	c      *setup
	work   *work
	front  queue
	ranks  *rank.Ranks
	sites  *siteTable
	trust  trustRule
	plan   planner
	reader *pageReader
	queue  *pageQueue
	count  *counters

	hastens    bool                                        // pages that are announced at once are fetched before others
	receptions map[collection.Signal]*collection.Reception // guarded by the work's lock
}

// apply stores what a source has announced of a site: all sources go through it.
// It returns how many pages are to be fetched because of it.
func (n *announcements) apply(st *site, source uint64, step client.Step, by collection.Signal) (owed int, err error) {
	c, work := n.c, n.work
	o := n.trust.options(st, &step, by, time.Now())
	if by == collection.ByManifest || step.Whole || step.Reset { // all pages of a selection, by a manifest or an archive
		o.Under, o.Former = c.under(st.Origin), n.sites.former(st, source)
	}
	done, did, err := n.applyWithPages(source, &step, by, o)
	known := n.reader.awaits(st, &step)
	if err == nil && !did {
		done, err = c.Collection.Apply(source, step, by, o)
	}
	if err == nil {
		err = n.ranks.Found(done.New)
	}
	var brought []delivery
	if err == nil && !did {
		brought, err = n.reader.deliveries(&step, "")
	} else if len(done.Dropped) > 0 {
		work.Lock()
		n.front.Drop(done.Dropped)
		work.Unlock()
	}
	if err != nil {
		known()
		return 0, err
	}
	n.count.Told.Add(int64(len(step.Changes)))
	n.count.Ignored.Add(int64(done.Ignored))
	if done.Held > 0 {
		c.Log.Warn("a manifest has dropped most of its pages: they are kept unless it still lacks them a day later", "site", st.Origin, "pages", done.Held)
	}
	work.Lock()
	n.sites.touch(st)
	n.plan.announced(st, &step, by, done.Pending)
	n.sites.counted(done.New)
	n.count.New.Add(int64(len(done.New)))
	n.front.Drop(done.Dropped)
	brought = n.queue.takeOut(brought)
	n.front.Add(done.Queue)
	done.Reception.Paid(len(brought))
	n.countReceived(st, source, by, &done.Reception)
	work.Unlock()
	known()
	work.rouse()
	if err := n.reader.deliver(brought); err != nil && work.ctx.Err() == nil {
		return 0, err
	}
	if at := by == collection.ByStream || by == collection.ByChanges || by == collection.ByIndexNow; at && n.hastens {
		err = n.queue.hastenAll(done.Queue)
	}
	return done.Pending, err
}

// applyWithPages stores a step of a copy together with its pages, in one transaction, if they came with it, or are fetched in no time.
// It reports whether the step is stored.
func (n *announcements) applyWithPages(source uint64, step *client.Step, by collection.Signal, o collection.ApplyOptions) (done collection.Applied, did bool, err error) {
	in := n.reader.in
	if n.c.Only == "" || source == 0 || step.Whole || step.Reset || len(step.Bodies) == 0 && (step.Behind || !in.Idle.Load()) {
		return done, false, nil
	}
	list, err := n.reader.deliveries(step, by)
	fetch := len(step.Bodies) == 0
	if !fetch {
		n.work.Lock()
		list = n.queue.takeOut(list)
		n.work.Unlock()
	}
	if err != nil || len(list) == 0 {
		return done, false, err
	}
	s := &collection.Step{Source: source, Step: *step, By: by, Options: o}
	x, begun := result{step: s}, false
	if fetch {
		n.work.add(1) // until they are being fetched: else there would be nothing to wait for
		x.fetch = func() {
			begun = true
			for i := range list[:min(len(list), mostHasty)] {
				n.queue.hasten(&list[i].page)
			}
			n.work.add(-1)
		}
	} else {
		s.Visits, x.busy = n.reader.delivered(list), len(list)
	}
	err = in.submit(n.work.ctx, x)
	if fetch && !begun { // nothing can be stored any more
		n.work.add(-1)
	}
	switch {
	case n.work.ctx.Err() != nil: // it may be stored or not
		return done, true, nil
	case err != nil:
		return done, true, err
	}
	s.Applied.Reception.Paid(len(s.Visits) - len(s.Unwanted))
	return s.Applied, true, nil
}

// counted reports to the Seeder how many new pages of each site were listed, since the
// Seeder bounds the pages of a site. The work's lock is held.
func (t *siteTable) counted(pages []collection.Page) {
	of := map[string]int{}
	for i := range pages {
		of[protocol.Origin(pages[i].URL)]++
	}
	for origin, n := range of {
		t.grew(origin, seed.Tally{Depth: -1, New: n})
	}
}

// Notice stores the announcement that pages have changed, by a sender that speaks for
// their sites. It returns once that is stored; pages of unknown sites are ignored.
func (c *Crawler) Notice(ctx context.Context, urls []string, by collection.Signal) error {
	r := c.run.Load()
	if r == nil {
		return ErrRunning
	}
	of := map[string][]protocol.Change{}
	for _, u := range urls {
		if v := c.settings.Seeder.Admit(seed.Ref{URL: u, Kind: seed.Listed}); v.OK {
			o := protocol.Origin(v.URL)
			of[o] = append(of[o], protocol.Change{Op: protocol.Update, Item: protocol.Item{URL: v.URL, Length: -1}})
		}
	}
	for origin, changes := range of {
		r.work.Lock()
		st := r.sites.byOrigin[origin]
		r.work.Unlock()
		if st == nil {
			continue // IndexNow cannot add sites to the crawl
		}
		for some := range slices.Chunk(changes, protocol.MaxBatch) {
			if _, err := r.announcements.apply(st, 0, client.Step{Changes: some}, by); err != nil {
				return err
			}
		}
	}
	return nil
}

// Add fetches pages before all others, in the open cycle (V01), since a person wants
// them. It returns when they are stored as pending, with a verdict on each URL.
func (c *Crawler) Add(ctx context.Context, urls []string) ([]seed.Verdict, error) {
	r := c.run.Load()
	if r == nil {
		return nil, ErrRunning
	}
	var x result
	verdicts := make([]seed.Verdict, len(urls))
	for i, u := range urls {
		verdicts[i] = c.settings.Seeder.Admit(seed.Ref{URL: u, Kind: seed.Person})
		if v := &verdicts[i]; v.OK && !r.announcements.trust.admits(v.URL) {
			v.OK, v.Rule = false, "its host is not crawled"
		}
		if verdicts[i].OK {
			x.finds = append(x.finds, find(verdicts[i], 0, collection.ByPerson))
		}
	}
	if err := r.in.submit(ctx, x); err != nil {
		return nil, err
	}
	for _, f := range x.finds {
		p, ok, err := c.Collection.Page(f.URL)
		if err != nil {
			return nil, err
		}
		if ok {
			r.queue.hasten(&p)
		}
	}
	return verdicts, nil
}

// Accept confirms the deletions that are held back because the site's manifest
// dropped most of its pages at once. It returns the number of dropped pages.
func (c *Crawler) Accept(origin string) (gone int, err error) {
	site, ok := c.Collection.Site(c.settings.Seeder.Origin(origin))
	if !ok {
		return 0, fmt.Errorf("unknown site %s", origin)
	}
	sources, err := c.Collection.Sources(site.ID)
	if err != nil {
		return 0, err
	}
	for _, s := range sources {
		if s.Held.IsZero() {
			continue
		}
		done, err := c.Collection.Release(s.ID)
		if err != nil {
			return gone, err
		}
		gone += done.Gone
		if r := c.run.Load(); r != nil {
			r.front.Drop(done.Dropped)
		}
	}
	return gone, nil
}

// countReceived counts a source's changes by outcome (C30). The work's lock is held.
func (n *announcements) countReceived(st *site, id uint64, by collection.Signal, took *collection.Reception) {
	t := n.receptions[by]
	if t == nil {
		t = &collection.Reception{}
		n.receptions[by] = t
	}
	t.Add(took)
	if src := st.sources.of(id); src != nil {
		src.reception.Add(took)
	}
}
