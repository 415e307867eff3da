package crawl

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/pause"
)

// A revisitBudget is the budget for revisits. The planner finds the price at which the
// budget is spent, and every decision uses that price.
type revisitBudget struct {
	Policy fresh.Priced // whose Price the planner sets

	// The budget, in the unit of the policy's costs: requests, or 20 kB.
	PerDay  float64 // of all pages; 0 means PerPage
	PerPage float64 // a day for each stored page; 0 means 0.1

	// OutsideBudget is the extra budget for visits to pages that sites announce, as a multiple of the budget, where
	// the Policy is Eager. 0 means 1; negative means no limit. Beyond it, the most valuable pages go first.
	OutsideBudget float64

	// Every is the time between two plans, which compute the price. Zero means an
	// hour. It is shorter while a crawl is young, and longer where plans would take
	// more than a twentieth of the time.
	Every time.Duration
}

const (
	planEvery  = time.Hour
	firstPlan  = time.Minute // after the first plan; twice as long each time, up to planEvery
	planShare  = 20          // plans take at most one part in 20 of the time
	auditShare = 0.1         // share of its usual visits that a page gets at least, even if its site publishes changes and announces none of it
	leastTold  = 100         // visits to announced pages that can be saved up in the extra budget, however small it is
	trimEvery  = time.Minute // how often the price is corrected by the bucket's balance
	perPage    = 0.1
	burstDays  = 1  // days of the budget that can be saved up: with less, the price swings
	leastBurst = 20 // visits that can be saved up, however small the budget

	middling = 20_000 // bytes of an average page, to size a bucket in visits where visits cost bytes
)

// revisits decides which pages are worth a visit at the current price, and sets the price by plans and by the budget's balance. The
// work's lock guards its fields.
type revisits struct {
	c     *setup
	col   *collection.Collection
	set   *revisitBudget // nil: the policy has no price, and there are no plans
	work  *work
	in    *inbox
	sites *siteTable
	judge *judgement

	truths     *calibration
	revisiting revisiting
	price      float64 // of a request, in gain; 0 if unknown
}

// A revisiting is the plan and the budget of a run.
type revisiting struct {
	plan   fresh.Plan
	at     time.Time // when it was made
	took   time.Duration
	bucket fresh.Bucket
	beside fresh.Bucket
	filled time.Time // when the buckets were last filled

	polls     map[frontier.SiteID]*fresh.SitePlanning // of the sites whose manifest is polled
	manifests fresh.Manifests                         // of all sites whose only door is the manifest

	fresh   float64 // estimated share of fresh copies, weighted by importance, when the plan was made
	unknown int     // copies of sites that gave no answer then, which do not count
}

// keep replans from time to time, until ctx ends.
func (r *revisits) keep(ctx context.Context) {
	every := cmp.Or(max(r.set.Every, 0), planEvery)
	wait, next := r.c.hurried(firstPlan), time.Time{}
	for first := true; ctx.Err() == nil; first = false {
		if now := time.Now(); !now.Before(next) {
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
		r.work.Lock()
		r.trim(time.Now())
		r.work.Unlock()
	}
}

// planned reports whether there is a plan: before, no page is visited, since the
// price would be a guess. The work's lock is held.
func (r *revisits) planned() bool { return r.set == nil || !r.revisiting.at.IsZero() }

// mostDemands is how many sites the planner treats one by one: the largest of
// those that have a manifest and do not push, or that have more pages than their
// request rate allows for. Of the other sites it sums up the pages.
const mostDemands = 500

// replan makes a plan from one scan of all pages, and then reschedules the pages that
// are worth a visit sooner. The others are rescheduled when they come up.
func (r *revisits) replan(ctx context.Context) error {
	began := time.Now()
	budget := r.budget()
	pass := &fresh.Planning{Priced: r.policy(), Budget: budget, Pages: r.held(), OutsideBudget: r.besides()}
	sites := r.demands(pass)
	var right, sum float64
	unknown := 0
	for p, err := range r.col.Pages(ctx) {
		if err != nil {
			return err
		}
		if p.State != collection.Held {
			continue
		}
		of := sites.of(r.col, pass, p.Site)
		b := r.col.Believed(&p, &of.site)
		of.Add(&b)
		of.importance += b.Importance
		of.pages++
		if of.site.Fault != "" { // it gives no answer, so its copies may or may not be fresh
			unknown++
			continue
		}
		right += b.Importance * b.Fresh(began)
		sum += b.Importance
	}
	plan := pass.Plan()

	r.work.Lock()
	v := &r.revisiting
	v.polls = map[frontier.SiteID]*fresh.SitePlanning{}
	for id, of := range sites {
		st := r.sites.of(id)
		if st == nil || of.pages == 0 {
			continue
		}
		b := believed(st)
		b.Extra = of.Extra()
		if prior := of.Prior(); !alike(&prior, &b.Prior) {
			b.Prior = prior
		}
		if of.listens {
			if st.deaf = math.IsInf(of.Every(plan.Price), 1); !st.deaf {
				v.polls[id] = of.SitePlanning
			}
		}
		switch planned := of.listens && !st.deaf; {
		case st.sources.listens() && r.judge.believesPublisher(st):
			b.Manifest.Recall, b.Manifest.Planned = v.manifests.Recall(&b.Signal), planned
			if st.polled.After(b.Manifest.Read) { // else a previous run read it last
				b.Manifest.Read = st.polled
			}
		case st.sources.publisher != nil: // else it may not be known yet, so soon after the start
			b.Manifest = fresh.Manifest{}
		}
		if st.Belief == nil || b != *st.Belief { // else its record need not be written
			r.sites.believes(st, b)
		}
		st.weight = of.importance / float64(of.pages)
	}
	if v.filled.IsZero() {
		v.filled = began
	}
	visit := r.set.Policy.Costs.Visit(middling)
	v.fill(budget, visit)
	v.fillBeside(r.besides()*budget, visit)
	v.plan, v.at, v.fresh, v.unknown = plan, began, 1, unknown
	switch {
	case sum > 0:
		v.fresh = right / sum
	case unknown > 0:
		v.fresh = 0
	}
	r.trim(time.Now())
	r.work.Unlock()
	err := r.sooner(ctx)
	r.work.Lock()
	v.took = time.Since(began)
	r.work.Unlock()
	err = errors.Join(err, r.col.KeepPolicy())
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
	manifests := &r.revisiting.manifests
	*manifests = fresh.Manifests{}
	for _, st := range r.sites.byID {
		if st.sources.listens() && st.Belief != nil {
			manifests.Add(&st.Belief.Signal)
		}
	}
	for id, st := range r.sites.byID {
		site, _ := r.col.SiteByID(id)
		terms := fresh.SiteTerms{Most: r.sites.takes(st), Manifest: st.sources.listens()}
		if terms.Manifest {
			heard := believed(st)
			terms.Precision, terms.Recall = manifests.Precision(&heard.Signal), manifests.Recall(&heard.Signal)
		}
		if terms.Manifest || terms.Most > 0 && float64(site.Held) > terms.Most/2 {
			list = append(list, special{site, terms})
		}
	}
	r.work.Unlock()
	slices.SortFunc(list, func(a, b special) int { return cmp.Compare(b.site.Held, a.site.Held) })
	all := demanders{}
	for _, s := range list[:min(len(list), mostDemands)] {
		all[s.site.ID] = &sitePlan{SitePlanning: pass.Site(s.terms), site: s.site, listens: s.terms.Manifest}
	}
	return all
}

// alike reports whether two priors are nearly equal.
func alike(p, q *fresh.Prior) bool {
	const much = 0.02
	for k := range p {
		if d := p[k] - q[k]; d > much || d < -much {
			return false
		}
	}
	return true
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

// sooner reschedules the pages that are worth a visit well before their scheduled
// time.
func (r *revisits) sooner(ctx context.Context) error {
	var ids []frontier.PageID
	policy, now := r.col.Policy(), time.Now()
	flush := func() error {
		err := r.in.submit(ctx, result{replanned: ids})
		ids = nil
		return err
	}
	for p, err := range r.col.Pages(ctx) {
		if err != nil {
			return err
		}
		if !r.col.Aging(&p) || !p.At.After(now) {
			continue
		}
		site, _ := r.col.SiteByID(p.Site)
		b := r.col.Believed(&p, &site)
		if next := policy.Next(&b, now); p.At.Sub(next) > p.At.Sub(p.Last)/slack {
			if ids = append(ids, p.ID); len(ids) == commitSize {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	if len(ids) > 0 {
		return flush()
	}
	return nil
}

// nextPoll returns how long to wait before the next poll of a site's manifest,
// which has just been read. Where it is better to visit the pages one by one, one
// poll a day still finds the new ones.
func (r *revisits) nextPoll(st *site) time.Duration {
	fixed := r.c.every(collection.ManifestRDF)
	r.work.Lock()
	defer r.work.Unlock()
	now := time.Now()
	until := now.Add(-longestPoll) // even if the manifest has not changed since
	if st.polledBefore.Before(until) {
		until = st.polledBefore
	}
	r.leftOut(st, until)
	st.polledBefore, st.polled = st.polled, now
	if b := believed(st); b.Manifest.Recall > 0 {
		b.Manifest.Read = now
		r.sites.believes(st, b)
	}
	if r.set == nil || r.revisiting.at.IsZero() {
		return fixed
	}
	looks := r.revisiting.polls[st.ID]
	switch {
	case looks != nil: // unplanned polls are not charged to the budget, like those of sitemaps
		r.spend(r.set.Policy.Costs.ManifestPoll(st.Pages))
		every := time.Duration(min(looks.Every(r.price), 1) * float64(longestPoll))
		return r.c.hurried(min(max(every, min(fixed, manifestEvery)), longestPoll))
	case !st.deaf: // not planned yet, or a manifest that gives nothing to plan by
		return fixed
	}
	return r.c.hurried(longestPoll)
}

const longestPoll = 24 * time.Hour

// slack: a page may be fetched early by one part in slack of its age, since
// rescheduling it for less would cost more than it saves.
const slack = 20

// early reports whether a page that is due by its age is not worth a visit yet, because
// the price has risen since it was scheduled, or the estimates of its site have changed.
func (r *revisits) early(p *collection.Page, now time.Time) bool {
	if r.set == nil || !r.col.Aging(p) {
		return false
	}
	site, _ := r.col.SiteByID(p.Site) // as the collection will plan it
	q := r.col.Believed(p, &site)
	next := r.col.Policy().Next(&q, now)
	return next.After(now.Add(now.Sub(p.Last) / slack))
}
