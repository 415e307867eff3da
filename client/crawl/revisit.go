package crawl

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/budget"
	"github.com/parleyweb/parley/client/crawl/internal/judgement"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/pause"
)

const (
	planEvery = time.Hour
	firstPlan = time.Minute // after the first plan; twice as long each time, up to planEvery
	planShare = 20          // plans take at most one part in 20 of the time
	trimEvery = time.Minute // how often the price is corrected by what is left of the budget
)

// revisits decides which pages are worth a visit at the current price, and finds the price by plans.
type revisits struct {
	*estimates
	c      *setup
	in     *inbox
	budget *budget.Budget

	polls map[frontier.SiteID]*fresh.SitePlanning // of the sites whose manifest is polled; guarded by the work's lock, as is took
	took  time.Duration                           // the last plan
}

// ready reports whether there is a plan: before, no page is visited, since the price would be a guess.
func (r *revisits) ready() bool {
	_, ok := r.budget.Figures()
	return ok
}

func (r *revisits) prices() bool { return true }

func (r *revisits) price() float64 {
	f, _ := r.budget.Figures()
	return f.Price
}

func (r *revisits) report(s *Status) {
	r.estimates.report(s)
	if f, ok := r.budget.Figures(); ok {
		f.Took = r.took.Seconds()
		s.Revisits = &f
	}
}

// keep replans from time to time, until ctx ends.
func (r *revisits) keep(ctx context.Context) {
	every := cmp.Or(max(r.c.Revisit.Every, 0), planEvery)
	wait, next := r.c.hurried(firstPlan), time.Time{}
	for first := true; ctx.Err() == nil; first = false {
		if now := time.Now(); !now.Before(next) || r.budget.Stale() {
			if err := r.replan(ctx); err != nil && ctx.Err() == nil {
				r.c.Log.Error("plan revisits", "err", err)
			}
			took := time.Since(now)
			next = time.Now().Add(max(min(wait, every), planShare*took))
			wait = min(2*wait, every)
		}
		if first {
			r.work.add(-1)
			r.work.rouse()
		}
		pause.For(ctx, min(r.c.hurried(trimEvery), max(time.Millisecond, time.Until(next))))
		r.budget.Correct(time.Now())
	}
	if err := r.budget.Keep(); err != nil {
		r.c.Log.Error("store what is left of the budget", "err", err)
	}
}

// mostDemands is how many sites the planner treats one by one: the largest of those that have a manifest and do not
// push, or that have more pages than their request rate allows for. Of the other sites it sums up the pages.
const mostDemands = 500

// replan makes a plan from one scan of all pages, and reschedules those worth a visit sooner. The others are rescheduled when they come up.
func (r *revisits) replan(ctx context.Context) error {
	began := time.Now()
	col, stored := r.c.Collection, 0
	for s := range col.Sites() {
		stored += s.Held
	}
	pass := r.budget.Planning(stored)
	sites := r.demands(pass)
	policy, _ := col.Revisits().Policy().(fresh.Priced)
	waiting := make([]candidate, 0, stored)
	var right, sum float64
	unknown := 0
	for p, err := range col.Revisits().Pages(ctx) {
		if err != nil {
			return err
		}
		if p.State != collection.Held {
			continue
		}
		of := sites.of(col, pass, p.Site)
		b := col.Revisits().Believed(p, &of.site)
		isFresh := of.Add(&b, began)
		of.importance += b.Importance
		of.pages++
		if p.At.After(began) && col.Revisits().Aging(p) {
			waiting = append(waiting, candidate{p.ID, p.Site, float32(policy.Affords(&b, p.At.Add(-p.At.Sub(p.Last)/slack)))})
		}
		if of.site.Fault != "" { // it gives no answer, so its copies may or may not be fresh
			unknown++
			continue
		}
		right += b.Importance * isFresh
		sum += b.Importance
	}
	plan := pass.Plan()

	r.work.Lock()
	r.polls = map[frontier.SiteID]*fresh.SitePlanning{}
	for id, of := range sites {
		st := r.sites.of(id)
		if st == nil || of.pages == 0 {
			continue
		}
		b := believed(st)
		b.Extra = of.Extra()
		if prior := of.Prior(); !prior.Near(&b.Prior) {
			b.Prior = prior
		}
		if of.listens {
			if st.deaf = math.IsInf(of.Every(plan.Price), 1); !st.deaf {
				r.polls[id] = of.SitePlanning
			}
		}
		switch planned := of.listens && !st.deaf; {
		case st.sources.listens() && r.judge.BelievesAll(st.standing):
			b.Manifest.Recall, b.Manifest.Planned = r.manifests.Recall(&b), planned
			// In whole hours, so that it need not be written after every plan.
			b.Manifest.Every = of.Wait(plan.Price).Truncate(time.Hour)
			if st.polled.After(b.Manifest.Read) { // else a previous run read it last
				b.Manifest.Read = st.polled
			}
		case st.sources.publisher != nil: // else it may not be known yet, so soon after the start
			b.Manifest = fresh.Manifest{}
		}
		if st.Belief == nil || b != *st.Belief { // else its record need not be written
			was := believed(st)
			was.Manifest.Read = b.Manifest.Read // silence alone makes no visit earlier
			was.Prior = b.Prior                 // which comes nearer with each plan: the next goes by this one
			of.changed = b != was
			r.sites.believes(st, b)
		}
		st.weight = of.importance / float64(of.pages)
	}
	r.work.Unlock()
	share := 1.
	switch {
	case sum > 0:
		share = right / sum
	case unknown > 0:
		share = 0
	}
	r.budget.Planned(plan, began, stored, share, unknown)
	price := float32(r.price() * (1 - 0.5/slack))
	err := r.sooner(ctx, slices.DeleteFunc(waiting, func(c candidate) bool { return c.price < price && !sites[c.site].changed }))
	r.work.Lock()
	r.took = time.Since(began)
	r.work.Unlock()
	err = errors.Join(err, r.budget.Keep())
	r.c.Log.Debug("revisits planned", "pages", plan.Pages, "price", plan.Price, "spend", plan.Spend, "freshness", plan.Freshness, "took", time.Since(began))
	return err
}

// A sitePlan is a plan's data of one site.
type sitePlan struct {
	*fresh.SitePlanning
	site       collection.Site
	listens    bool
	importance float64
	pages      int
	changed    bool // its estimates, by this plan
}

// A candidate is a page that waits for its time, and the highest price at which it would be worth a visit well before.
type candidate struct {
	page  frontier.PageID
	site  frontier.SiteID
	price float32
}

type demanders map[frontier.SiteID]*sitePlan

// demands returns the sites that are planned one by one.
func (r *revisits) demands(pass *fresh.Planning) demanders {
	type special struct {
		site  collection.Site
		terms fresh.SiteTerms
	}
	var list []special
	r.work.Lock()
	pass.Silence = new(r.silence)
	r.manifests = fresh.Manifests{}
	for _, st := range r.sites.byID {
		if st.sources.listens() && st.Belief != nil {
			r.manifests.Add(&st.Belief.Signal)
		}
	}
	for id, st := range r.sites.byID {
		x := special{collection.Site{ID: id}, fresh.SiteTerms{Most: r.sites.takes(st), Manifest: st.sources.listens(), Parted: st.parted}}
		if x.terms.Manifest {
			heard := believed(st)
			x.terms.Precision, x.terms.Recall = r.manifests.Precision(&heard.Signal), r.manifests.Recall(&heard)
		}
		if x.terms.Manifest || x.terms.Most > 0 {
			list = append(list, x)
		}
	}
	r.work.Unlock()
	large := list[:0]
	for _, x := range list {
		x.site, _ = r.c.Collection.SiteByID(x.site.ID)
		if x.terms.Manifest || float64(x.site.Held) > x.terms.Most/2 {
			large = append(large, x)
		}
	}
	list = large
	slices.SortFunc(list, func(a, b special) int { return cmp.Compare(b.site.Held, a.site.Held) })
	all := demanders{}
	for _, s := range list[:min(len(list), mostDemands)] {
		all[s.site.ID] = &sitePlan{SitePlanning: pass.Site(s.terms), site: s.site, listens: s.terms.Manifest}
	}
	return all
}

// of returns the data of a site.
func (d demanders) of(col *collection.Collection, pass *fresh.Planning, id frontier.SiteID) *sitePlan {
	of := d[id]
	if of == nil {
		site, _ := col.SiteByID(id)
		of = &sitePlan{SitePlanning: pass.Site(fresh.SiteTerms{}), site: site}
		d[id] = of
	}
	return of
}

// sooner reschedules those candidates that are worth a visit well before their scheduled time.
func (r *revisits) sooner(ctx context.Context, list []candidate) error {
	col := r.c.Collection
	policy, now := col.Revisits().Policy(), time.Now()
	for part := range slices.Chunk(list, commitSize) {
		var ids []frontier.PageID
		for _, c := range part {
			ids = append(ids, c.page)
		}
		pages, err := col.PagesByID(ids)
		if err != nil {
			return err
		}
		ids = ids[:0]
		for _, p := range pages {
			if !col.Revisits().Aging(&p) || !p.At.After(now) {
				continue
			}
			site, _ := col.SiteByID(p.Site)
			b := col.Revisits().Believed(&p, &site)
			if next := policy.Next(&b, now); p.At.Sub(next) > p.At.Sub(p.Last)/slack {
				ids = append(ids, p.ID)
			}
		}
		if len(ids) > 0 {
			if err := r.in.submit(ctx, result{replanned: ids}); err != nil {
				return err
			}
		}
	}
	return nil
}

// nextPoll returns the time from the last poll of a site's manifest to the next one. Where the pages are better visited one by one, or
// a poll pays more seldom, one a day still finds the new pages: what is not planned is not charged to the budget, like the polls of sitemaps.
func (r *revisits) nextPoll(st *site, last time.Time) time.Duration {
	before := st.polled // which the estimates change
	fixed, plan := r.estimates.nextPoll(st, last), r.polls[st.ID]
	switch price := r.price(); {
	case plan != nil:
		if last.After(before) {
			pages := st.Pages
			if st.parted {
				pages = 0 // announced charges what was read
			}
			r.budget.Spend(r.c.Revisit.Policy.Costs.ManifestPoll(pages) * min(1, last.Sub(before).Hours()/(24*plan.Every(price))))
		}
		return r.c.hurried(max(plan.Wait(price), min(fixed, manifestEvery)))
	case !st.deaf: // not planned yet, or a manifest that gives nothing to plan by
		return fixed
	}
	return r.c.hurried(longestPoll)
}

// announced also charges the budget for the parts of a manifest that were read, if its polls are charged.
func (r *revisits) announced(st *site, step *client.Step, by collection.Signal, pending int) {
	if by == collection.ByManifest && (step.Reset || step.Parts > 0) {
		st.parted = step.Parts > 0
	}
	if step.Parts > 0 && r.polls[st.ID] != nil {
		entries, costs := len(step.Changes), r.c.Revisit.Policy.Costs
		if step.Reset {
			entries = st.Pages
		}
		r.budget.Spend(costs.ManifestPoll(entries) + float64(step.Parts-1)*costs.ManifestPoll(0))
	}
	r.estimates.announced(st, step, by, pending)
}

func (r *revisits) begins(st *site, p *collection.Page) {
	if p.Visits > 0 && r.inside(st, &p.History) {
		r.budget.Begin(p.ID, r.c.Revisit.Policy.Costs.Visit(p.Length))
	}
}

func (r *revisits) returned(page frontier.PageID) { r.budget.Return(page) }

// inside reports whether a visit to a page of a site is charged to the budget itself: that of a page which a manifest has announced is in
// the plan.
func (r *revisits) inside(st *site, h *fresh.History) bool {
	return st.sources.listens() || !r.c.Revisit.Policy.Owes(&fresh.Page{History: *h, Site: st.Belief})
}

// visited also charges the budget for the visit.
func (r *revisits) visited(st *site, v *collection.Visit, d *collection.Visited, of *judgement.Verdict) (unsure bool) {
	if d.Before.Visits > 0 && v.Status != 0 && !v.Delivered {
		cost := r.c.Revisit.Policy.Costs.Visit(max(v.Length, int64(len(v.Body))))
		if r.inside(st, &d.Before) {
			r.budget.Spend(cost)
		} else {
			r.budget.SpendOutside(cost, func(policy fresh.Priced) float64 {
				was := d.Page
				was.History = d.Before
				p := r.c.Collection.Revisits().Believed(&was, &st.Site)
				return policy.Profit(&p, v.Asked)
			})
		}
	}
	return r.estimates.visited(st, v, d, of)
}

const (
	longestPoll = 24 * time.Hour
	slack       = 20 // a page may be fetched early by one part in slack of its age: rescheduling it for less would cost more than it saves
)

// early reports whether a page that is due by its age is not worth a visit yet, because
// the price has risen since it was scheduled, or the estimates of its site have changed.
func (r *revisits) early(p *collection.Page, now time.Time) bool {
	col := r.c.Collection
	if !col.Revisits().Aging(p) {
		return false
	}
	site, _ := col.SiteByID(p.Site) // as the collection will plan it
	q := col.Revisits().Believed(p, &site)
	next := col.Revisits().Policy().Next(&q, now)
	return next.After(now.Add(now.Sub(p.Last) / slack))
}
