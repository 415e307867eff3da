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
	"github.com/parleyweb/parley/client/fresh"
	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/internal/pause"
)

// A Revisit is what visiting pages again may cost: the planner finds the price
// at which that is spent, and every decision goes by the price.
type Revisit struct {
	Policy fresh.Priced // whose Price the planner sets

	// The budget, in the unit of the policy's costs: requests, or 20 kB.
	PerDay  float64 // of all pages; 0 means PerPage
	PerPage float64 // a day for each page that is held; 0 means 0.1

	// Beside is what visits to pages that sites tell of may cost beside the budget, as a multiple of it, where the Policy is
	// Eager. 0 means 1; less means any amount. Of what is more, the pages go first that are worth most.
	Beside float64

	// Every is how often the price is found anew at most. Zero means an hour.
	// It is found sooner while a crawl is young, and more seldom where that would take
	// more than a twentieth of the time.
	Every time.Duration
}

const (
	planEvery  = time.Hour
	firstPlan  = time.Minute // after the first plan; twice as long each time, up to planEvery
	planShare  = 20          // of the time that may go into plans
	auditShare = 0.1         // of the visits that pages would get of which their sites say nothing: the least that they get
	leastTold  = 100         // visits that may be made at once beside the budget, however small it is
	trimEvery  = time.Minute // how often the price is trimmed by what is in the bucket
	perPage    = 0.1
	burstDays  = 1  // of the budget that are saved up: with less, the price swings
	leastBurst = 20 // visits that the bucket holds, however small the budget

	middling = 20_000 // bytes of a page, where bytes are what a visit costs and a bucket holds visits
)

// A revisiting is the plan that a run goes by, and its budget. The run's lock guards it.
type revisiting struct {
	plan   fresh.Plan
	at     time.Time // when it was made
	took   time.Duration
	bucket fresh.Bucket
	beside fresh.Bucket
	filled time.Time // the buckets, last

	looks     map[frontier.SiteID]*fresh.SitePlanning // of the sites whose manifest is asked for
	manifests fresh.Manifests                         // of all sites that are listened to by theirs

	fresh   float64 // share of the copies that are thought to be right, by importance, when it was made
	unknown int     // copies of sites that gave no answer then, which do not count
}

// budget is what may be spent in a day.
func (r *run) budget() float64 {
	if r.Revisit.PerDay > 0 {
		return r.Revisit.PerDay
	}
	each := r.Revisit.PerPage
	if each <= 0 {
		each = perPage
	}
	return each * float64(max(r.held(), 1))
}

// held is how many pages are.
func (r *run) held() (n int) {
	for s := range r.Collection.Sites() {
		n += s.Held
	}
	return n
}

// startPrice is the price of a crawler that has made no plan yet: the last one of the crawler before it, if
// that reckoned in the same way, or else that at which a page of which nothing is known
// would be visited as often as the budget has it for all.
func (r *run) startPrice() float64 {
	kept, _ := r.Collection.KeptPolicy()
	if p, ok := kept.(fresh.Priced); ok && p.Price > 0 && p.Objective == r.Revisit.Policy.Objective && p.Costs == r.Revisit.Policy.Costs {
		return p.Price
	}
	each := r.Revisit.PerPage
	if each <= 0 {
		each = perPage
	}
	post := new(fresh.Prior).Under(&fresh.Belief{})
	const importance = 0.5
	return importance * r.Revisit.Policy.At(&post, 1/each)
}

// setPrice has all decisions go by a price from now on. The run's lock is held.
func (r *run) setPrice(price float64) {
	p := r.policy()
	p.Price, p.Longest = price, max(p.Longest, r.revisiting.plan.Longest)
	p.Beside = r.besidePrice()
	r.price = price
	r.Collection.SetPolicy(p)
}

// policy is that of visits, without a price.
func (r *run) policy() fresh.Priced {
	p := r.Revisit.Policy
	if p.Audit == 0 {
		p.Audit = auditShare
	}
	return p
}

// besides is what may be spent beside the budget, as a multiple of it; 0: any amount.
func (r *run) besides() float64 {
	switch b := r.Revisit.Beside; {
	case b < 0:
		return 0
	case b == 0:
		return 1
	default:
		return b
	}
}

// besidePrice is what a visit beside the budget must gain: nothing as long as there is plenty for such visits. The run's
// lock is held.
func (r *run) besidePrice() float64 {
	switch v, b := &r.revisiting, &r.revisiting.beside; {
	case r.besides() == 0 || b.Rate == 0 || b.Balance >= b.Burst/2:
		return 0
	case b.Balance <= 0 || v.plan.Beside == 0:
		return math.MaxFloat32
	default:
		return v.plan.Beside * b.Factor()
	}
}

// revisits finds the price of a visit now and then, until ctx ends.
func (r *run) revisits(ctx context.Context) {
	every := cmp.Or(max(r.Revisit.Every, 0), planEvery)
	wait, next := r.hurried(firstPlan), time.Time{}
	for first := true; ctx.Err() == nil; first = false {
		if now := time.Now(); !now.Before(next) {
			if err := r.replan(ctx); err != nil && ctx.Err() == nil {
				r.log.Error("plan revisits", "err", err)
			}
			took := time.Since(now)
			next = time.Now().Add(max(min(wait, every), planShare*took))
			wait = min(2*wait, every)
		}
		if first {
			r.add(-1)
			r.rouse()
		}
		pause.For(ctx, min(r.hurried(trimEvery), max(time.Millisecond, time.Until(next))))
		r.mu.Lock()
		r.trim(time.Now())
		r.mu.Unlock()
	}
}

// planned reports whether it is known what a visit may cost: held pages are not
// visited again by a guess. The run's lock is held.
func (r *run) planned() bool { return r.Revisit == nil || !r.revisiting.at.IsZero() }

// trim corrects the price by what is left of the budget. The run's lock is held.
func (r *run) trim(now time.Time) {
	v := &r.revisiting
	v.bucket.Earn(now.Sub(v.filled).Hours() / 24)
	v.beside.Earn(now.Sub(v.filled).Hours() / 24)
	v.filled = now
	if v.plan.Pages > 0 {
		r.setPrice(v.plan.Price * v.bucket.Factor())
	}
}

// fill changes what comes into the bucket in a day. When it grows, half of the new
// room is filled, else the price would jump.
func (v *revisiting) fill(budget, visit float64) {
	burst := max(budget*burstDays, leastBurst*visit)
	v.bucket = fresh.Bucket{Rate: budget, Burst: burst, Balance: v.bucket.Balance + (burst-v.bucket.Burst)/2}
}

// fillBeside does the same for visits beside the budget. It is full at first, so that a site that begins to tell is asked.
func (v *revisiting) fillBeside(budget, visit float64) {
	burst := max(budget*burstDays, leastTold*visit)
	v.beside = fresh.Bucket{Rate: budget, Burst: burst, Balance: v.beside.Balance + burst - v.beside.Burst}
}

// spendTold takes out what a visit has cost to a page that was as was, and that its site asked for by telling of it: beside
// the budget, or out of it where it was worth the price of that one alone, or nothing is left beside it. The run's lock is held.
func (r *run) spendTold(cost float64, st *site, was collection.Page, at time.Time) {
	v, price := &r.revisiting, r.besidePrice()
	if price > 0 {
		p := r.Collection.Believed(&was, &st.Site)
		if profit := r.policy().Profit(&p, at); v.beside.Balance <= 0 || profit < price && profit >= r.price {
			r.spend(cost)
			return
		}
	}
	if v.beside.Spend(cost); price != r.besidePrice() && v.plan.Pages > 0 {
		r.setPrice(r.price)
	}
}

// spend takes out of the budget what something has cost. The run's lock is held.
func (r *run) spend(cost float64) { r.revisiting.bucket.Spend(cost) }

// mostDemands is how many sites the planner looks at one by one: the largest of
// those that have a manifest and tell of nothing by themselves, or more pages than may be asked
// for. The others are taken for the sum of their pages.
const mostDemands = 500

// replan makes a plan, with one look at each page, and then plans those anew that
// have become worth a visit sooner. Those that have not are planned when their turn comes.
func (r *run) replan(ctx context.Context) error {
	began := time.Now()
	budget := r.budget()
	pass := &fresh.Planning{Priced: r.policy(), Budget: budget, Pages: r.held(), Beside: r.besides()}
	sites := r.demands(pass)
	var right, sum float64
	unknown := 0
	for p, err := range r.Collection.Pages(ctx) {
		if err != nil {
			return err
		}
		if p.State != collection.Held {
			continue
		}
		of := sites.of(r, pass, p.Site)
		b := r.Collection.Believed(&p, &of.site)
		of.Add(&b)
		of.importance += b.Importance
		of.pages++
		if of.site.Fault != "" { // of a site that gives no answer nothing is known
			unknown++
			continue
		}
		right += b.Importance * b.Fresh(began)
		sum += b.Importance
	}
	plan := pass.Plan()

	r.mu.Lock()
	v := &r.revisiting
	v.looks = map[frontier.SiteID]*fresh.SitePlanning{}
	for id, of := range sites {
		st := r.siteOf(id)
		if st == nil || of.pages == 0 {
			continue
		}
		b := st.believed()
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
		case st.listens() && r.tells(st):
			b.Manifest.Recall, b.Manifest.Planned = v.manifests.Recall(&b.Signal), planned
			if st.looked.After(b.Manifest.Read) { // else the run before has read it
				b.Manifest.Read = st.looked
			}
		case st.tells != nil: // else it may not be known yet whether it does, so soon after the start
			b.Manifest = fresh.Manifest{}
		}
		if st.Belief == nil || b != *st.Belief { // else its record need not be written
			r.believes(st, b)
		}
		st.weight = of.importance / float64(of.pages)
	}
	if v.filled.IsZero() {
		v.filled = began
	}
	visit := r.Revisit.Policy.Costs.Visit(middling)
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
	r.mu.Unlock()
	err := r.sooner(ctx)
	r.mu.Lock()
	v.took = time.Since(began)
	r.mu.Unlock()
	err = errors.Join(err, r.Collection.KeepPolicy())
	r.log.Debug("revisits planned", "pages", plan.Pages, "price", plan.Price, "spend", plan.Spend, "freshness", plan.Freshness, "took", time.Since(began))
	return err
}

// A demander is what a plan gathers of one site.
type demander struct {
	*fresh.SitePlanning
	site       collection.Site
	listens    bool
	importance float64
	pages      int
}

type demanders map[frontier.SiteID]*demander

// demands begins with the sites that are looked at one by one.
func (r *run) demands(pass *fresh.Planning) demanders {
	type special struct {
		site  collection.Site
		terms fresh.SiteTerms
	}
	var list []special
	r.mu.Lock()
	manifests := &r.revisiting.manifests
	*manifests = fresh.Manifests{}
	for _, st := range r.sites {
		if st.listens() && st.Belief != nil {
			manifests.Add(&st.Belief.Signal)
		}
	}
	for id, st := range r.sites {
		site, _ := r.Collection.SiteByID(id)
		terms := fresh.SiteTerms{Most: r.takes(st), Manifest: st.listens()}
		if terms.Manifest {
			heard := st.believed()
			terms.Precision, terms.Recall = manifests.Precision(&heard.Signal), manifests.Recall(&heard.Signal)
		}
		if terms.Manifest || terms.Most > 0 && float64(site.Held) > terms.Most/2 {
			list = append(list, special{site, terms})
		}
	}
	r.mu.Unlock()
	slices.SortFunc(list, func(a, b special) int { return cmp.Compare(b.site.Held, a.site.Held) })
	all := demanders{}
	for _, s := range list[:min(len(list), mostDemands)] {
		all[s.site.ID] = &demander{SitePlanning: pass.Site(s.terms), site: s.site, listens: s.terms.Manifest}
	}
	return all
}

// alike reports whether it makes no difference which of two priors a page has.
func alike(p, q *fresh.Prior) bool {
	const much = 0.02
	for k := range p {
		if d := p[k] - q[k]; d > much || d < -much {
			return false
		}
	}
	return true
}

// takes is how many requests in a day a site takes, by its manners and ours; 0: any number.
func (r *run) takes(st *site) float64 {
	wait := r.ahead(st, 1)
	if wait <= 0 {
		return 0
	}
	return float64(24*time.Hour) / float64(wait)
}

// listens reports whether a site has a manifest that is to be looked at, since it
// tells of nothing by itself.
func (st *site) listens() bool {
	src := st.tells
	return src != nil && src.Door == string(client.Manifest)
}

// of returns what is gathered of a site.
func (d demanders) of(r *run, pass *fresh.Planning, id frontier.SiteID) *demander {
	of := d[id]
	if of == nil {
		site, _ := r.Collection.SiteByID(id)
		of = &demander{SitePlanning: pass.Site(fresh.SiteTerms{}), site: site}
		d[id] = of
	}
	return of
}

// sooner has those pages planned anew that are worth a visit well before the time
// for which they are planned.
func (r *run) sooner(ctx context.Context) error {
	var ids []frontier.PageID
	policy, now := r.Collection.Policy(), time.Now()
	turn := func() error {
		err := r.submit(ctx, read{replanned: ids})
		ids = nil
		return err
	}
	for p, err := range r.Collection.Pages(ctx) {
		if err != nil {
			return err
		}
		if !r.Collection.Aging(&p) || !p.At.After(now) {
			continue
		}
		site, _ := r.Collection.SiteByID(p.Site)
		b := r.Collection.Believed(&p, &site)
		if next := policy.Next(&b, now); p.At.Sub(next) > p.At.Sub(p.Last)/slack {
			if ids = append(ids, p.ID); len(ids) == turnSize {
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

// nextLook is how long to wait for the next look at the manifest of a site, which
// has just been looked at. Where its pages are better asked one by one, a look
// a day still finds those that are new.
func (r *run) nextLook(st *site) time.Duration {
	fixed := cmp.Or(max(r.ManifestEvery, 0), manifestEvery)
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	until := now.Add(-longestLook) // though it may have said nothing new since
	if st.before.Before(until) {
		until = st.before
	}
	r.leftOut(st, until)
	st.before, st.looked = st.looked, now
	if b := st.believed(); b.Manifest.Recall > 0 {
		b.Manifest.Read = now
		r.believes(st, b)
	}
	if r.Revisit == nil || r.revisiting.at.IsZero() {
		return fixed
	}
	looks := r.revisiting.looks[st.ID]
	switch {
	case looks != nil: // what is not planned is beside the budget, as sitemaps are
		r.spend(r.Revisit.Policy.Costs.Look(st.Pages))
		every := time.Duration(min(looks.Every(r.price), 1) * float64(longestLook))
		return r.hurried(min(max(every, min(fixed, manifestEvery)), longestLook))
	case !st.deaf: // not planned yet, or a manifest that nothing can be planned by
		return fixed
	}
	return r.hurried(longestLook)
}

const longestLook = 24 * time.Hour

// slack is for what share of its age a page may be asked for too early: to plan
// it anew for less costs more than it saves.
const slack = 20

// early reports whether a page that was due by its age is not worth a visit yet: the
// price has risen since it was planned, or something was learned of its site.
func (r *run) early(p *collection.Page, now time.Time) bool {
	if r.Revisit == nil || !r.Collection.Aging(p) {
		return false
	}
	site, _ := r.Collection.SiteByID(p.Site) // as the collection will plan it
	q := r.Collection.Believed(p, &site)
	next := r.Collection.Policy().Next(&q, now)
	return next.After(now.Add(now.Sub(p.Last) / slack))
}
