package crawl

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/fresh"
	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/client/trust"
	"github.com/parleyweb/parley/internal/pause"
)

// A Revisit is the budget for revisits. The planner finds the price at which the
// budget is spent, and every decision uses that price.
type Revisit struct {
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
	auditShare = 0.1         // of their usual visits: the least that pages get which their site never announces
	leastTold  = 100         // visits to announced pages that the extra budget holds, however small it is
	trimEvery  = time.Minute // how often the price is corrected by the bucket's balance
	perPage    = 0.1
	burstDays  = 1  // days of the budget that can be saved up: with less, the price swings
	leastBurst = 20 // visits that the bucket holds, however small the budget

	middling = 20_000 // bytes of an average page, to size a bucket in visits where visits cost bytes
)

// revisits decides by a price which pages are worth a visit, and keeps the price by plans and by the budget's balance. The
// work's lock guards what it has.
type revisits struct {
	c     *Crawler
	col   *collection.Collection
	set   *Revisit // nil: by a policy without a price, and there are no plans
	work  *work
	in    *inbox
	sites *siteTable
	judge *judgement

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

	looks     map[frontier.SiteID]*fresh.SitePlanning // of the sites whose manifest is polled
	manifests fresh.Manifests                         // of all sites whose only door is the manifest

	fresh   float64 // estimated share of fresh copies, weighted by importance, when the plan was made
	unknown int     // copies of sites that gave no answer then, which do not count
}

// budget returns the budget of a day.
func (r *revisits) budget() float64 {
	if r.set.PerDay > 0 {
		return r.set.PerDay
	}
	each := r.set.PerPage
	if each <= 0 {
		each = perPage
	}
	return each * float64(max(r.held(), 1))
}

// held returns the number of stored pages.
func (r *revisits) held() (n int) {
	for s := range r.col.Sites() {
		n += s.Held
	}
	return n
}

// startPrice returns the price before the first plan: the last one of the previous run, if
// that had the same objective and costs, or else the price at which an unknown page
// would be visited as often as the budget allows for all.
func (r *revisits) startPrice() float64 {
	kept, _ := r.col.KeptPolicy()
	if p, ok := kept.(fresh.Priced); ok && p.Price > 0 && p.Objective == r.set.Policy.Objective && p.Costs == r.set.Policy.Costs {
		return p.Price
	}
	each := r.set.PerPage
	if each <= 0 {
		each = perPage
	}
	post := new(fresh.Prior).Under(&fresh.Belief{})
	const importance = 0.5
	return importance * r.set.Policy.At(&post, 1/each)
}

// setPrice sets the price of all decisions. The work's lock is held.
func (r *revisits) setPrice(price float64) {
	p := r.policy()
	p.Price, p.Longest = price, max(p.Longest, r.revisiting.plan.Longest)
	p.OutsideBudget = r.besidePrice()
	r.price = price
	r.col.SetPolicy(p)
}

// policy returns the policy of visits, without a price.
func (r *revisits) policy() fresh.Priced {
	p := r.set.Policy
	if p.Audit == 0 {
		p.Audit = auditShare
	}
	return p
}

// besides returns the extra budget for announced pages, as a multiple of the budget; 0 means no limit.
func (r *revisits) besides() float64 {
	switch b := r.set.OutsideBudget; {
	case b < 0:
		return 0
	case b == 0:
		return 1
	default:
		return b
	}
}

// besidePrice returns what a visit paid by the extra budget must gain: nothing while at least half of that is left. The
// work's lock is held.
func (r *revisits) besidePrice() float64 {
	switch v, b := &r.revisiting, &r.revisiting.beside; {
	case r.besides() == 0 || b.Rate == 0 || b.Balance >= b.Burst/2:
		return 0
	case b.Balance <= 0 || v.plan.OutsideBudget == 0:
		return math.MaxFloat32
	default:
		return v.plan.OutsideBudget * b.Factor()
	}
}

// revisits replans from time to time, until ctx ends.
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

// trim corrects the price by the balance of the budget. The work's lock is held.
func (r *revisits) trim(now time.Time) {
	v := &r.revisiting
	v.bucket.Earn(now.Sub(v.filled).Hours() / 24)
	v.beside.Earn(now.Sub(v.filled).Hours() / 24)
	v.filled = now
	if v.plan.Pages > 0 {
		r.setPrice(v.plan.Price * v.bucket.Factor())
	}
}

// fill sets the bucket's daily rate. When the bucket grows, half of the new room is
// filled, else the price would jump.
func (v *revisiting) fill(budget, visit float64) {
	burst := max(budget*burstDays, leastBurst*visit)
	v.bucket = fresh.Bucket{Rate: budget, Burst: burst, Balance: v.bucket.Balance + (burst-v.bucket.Burst)/2}
}

// fillBeside does the same for the extra budget. It is full at first, for sites that begin to publish their changes.
func (v *revisiting) fillBeside(budget, visit float64) {
	burst := max(budget*burstDays, leastTold*visit)
	v.beside = fresh.Bucket{Rate: budget, Burst: burst, Balance: v.beside.Balance + burst - v.beside.Burst}
}

// charge charges the budget for a visit. The work's lock is held.
func (r *revisits) charge(st *site, v *collection.Visit, d *collection.Visited) {
	if r.set == nil || d.Before.Visits == 0 || v.Status == 0 || v.Delivered {
		return
	}
	cost := r.set.Policy.Costs.Visit(max(v.Length, int64(len(v.Body))))
	if st.sources.listens() || !r.set.Policy.Owes(&fresh.Page{History: d.Before, Site: st.Belief}) { // visits that a manifest causes are in the plan
		r.spend(cost)
		return
	}
	was := d.Page
	was.History = d.Before
	r.spendTold(cost, st, was, v.Asked)
}

// spendTold charges a visit to an announced page; was is the page before the visit. It charges the extra budget, or the
// normal one if the extra one is empty, or if the visit was worth the normal price only. The work's lock is held.
func (r *revisits) spendTold(cost float64, st *site, was collection.Page, at time.Time) {
	v, price := &r.revisiting, r.besidePrice()
	if price > 0 {
		p := r.col.Believed(&was, &st.Site)
		if profit := r.policy().Profit(&p, at); v.beside.Balance <= 0 || profit < price && profit >= r.price {
			r.spend(cost)
			return
		}
	}
	if v.beside.Spend(cost); price != r.besidePrice() && v.plan.Pages > 0 {
		r.setPrice(r.price)
	}
}

// spend charges the budget. The work's lock is held.
func (r *revisits) spend(cost float64) { r.revisiting.bucket.Spend(cost) }

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
	v.looks = map[frontier.SiteID]*fresh.SitePlanning{}
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
				v.looks[id] = of.SitePlanning
			}
		}
		switch planned := of.listens && !st.deaf; {
		case st.sources.listens() && r.judge.tells(st):
			b.Manifest.Recall, b.Manifest.Planned = v.manifests.Recall(&b.Signal), planned
			if st.looked.After(b.Manifest.Read) { // else a previous run read it last
				b.Manifest.Read = st.looked
			}
		case st.sources.tells != nil: // else it may not be known yet, so soon after the start
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

// takes returns how many requests a day a site may get, by its delay and ours; 0 means no limit.
func (t *siteTable) takes(st *site) float64 {
	wait := t.ahead(st, 1)
	if wait <= 0 {
		return 0
	}
	return float64(24*time.Hour) / float64(wait)
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
	turn := func() error {
		err := r.in.submit(ctx, read{replanned: ids})
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
				if err := turn(); err != nil {
					return err
				}
			}
		}
	}
	if len(ids) > 0 {
		return turn()
	}
	return nil
}

// nextLook returns how long to wait before the next poll of a site's manifest,
// which has just been read. Where it is better to visit the pages one by one, one
// poll a day still finds the new ones.
func (r *revisits) nextLook(st *site) time.Duration {
	fixed := r.c.every(collection.ManifestRDF)
	r.work.Lock()
	defer r.work.Unlock()
	now := time.Now()
	until := now.Add(-longestLook) // even if the manifest has not changed since
	if st.before.Before(until) {
		until = st.before
	}
	r.leftOut(st, until)
	st.before, st.looked = st.looked, now
	if b := believed(st); b.Manifest.Recall > 0 {
		b.Manifest.Read = now
		r.sites.believes(st, b)
	}
	if r.set == nil || r.revisiting.at.IsZero() {
		return fixed
	}
	looks := r.revisiting.looks[st.ID]
	switch {
	case looks != nil: // unplanned polls are not charged to the budget, like those of sitemaps
		r.spend(r.set.Policy.Costs.ManifestPoll(st.Pages))
		every := time.Duration(min(looks.Every(r.price), 1) * float64(longestLook))
		return r.c.hurried(min(max(every, min(fixed, manifestEvery)), longestLook))
	case !st.deaf: // not planned yet, or a manifest that gives nothing to plan by
		return fixed
	}
	return r.c.hurried(longestLook)
}

// learn updates the estimates of a site by a visit, and by the outcome of the claim that led to it. unsure: the site's manifest
// may show later what the visit has found. The work's lock is held.
func (r *revisits) learn(st *site, v *collection.Visit, d *collection.Visited, c claim, claimed bool, outcome trust.Outcome) (unsure bool) {
	heard := believed(st)
	if v.Fault == "" && d.Before.Visits > 0 && d.Page.State == collection.Held && proved(claimed, outcome, d) {
		p := fresh.Page{History: d.Before, Site: st.Belief, Listed: d.Page.Listed}
		post, h := p.Posterior(), p.Hearing(v.Asked)
		switch right := outcome == trust.Right; {
		case claimed && st.sources.listens():
			r.revisiting.manifests.Proved(&heard, &p, v.Asked, right)
		case claimed:
			heard.Signal.Proved(&post, h, right)
		case st.sources.listens():
			unsure = r.revisiting.manifests.Visited(&heard, &p, v.Asked, d.Differs)
		case h.Notices > 0 || heard.Tells:
			heard.Signal.Visited(&post, h, d.Differs)
		}
	}
	if claimed && outcome == trust.Right && !c.Modified.IsZero() && c.Modified.Before(c.At) {
		heard.Signal.Lagged(c.At.Sub(c.Modified).Hours() / 24)
	}
	if st.Belief == nil || heard != *st.Belief {
		r.sites.believes(st, heard)
	}
	return unsure
}

// proved reports whether a visit is evidence about its site's announcements. A body that differs from the announced one,
// without proving it wrong, is none.
func proved(claimed bool, outcome trust.Outcome, d *collection.Visited) bool {
	if claimed {
		return outcome != trust.Void
	}
	return !d.Mismatched && d.Unstable != collection.UnstableText
}

// leftOut lowers the estimates of a site's manifest, now read, by the findings before a time that it still does not show.
// The work's lock is held.
func (r *revisits) leftOut(st *site, until time.Time) {
	missed := r.judge.missed(st, until)
	if missed == 0 {
		return
	}
	heard := believed(st)
	for range missed {
		r.revisiting.manifests.Missed(&heard)
	}
	r.sites.believes(st, heard)
}

const longestLook = 24 * time.Hour

// slack: a page may be fetched early by one part in 20 of its age, since to
// reschedule it for less costs more than it saves.
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
