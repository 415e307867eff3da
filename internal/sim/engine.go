package sim

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// An engine is a run in progress. It goes from event to event, of the world and of the agenda, and alone
// passes anything between the two: what happens in the world changes the view, and the rule places pages by it.
type engine struct {
	run     *Run
	world   *living
	view    *view
	agenda  *agenda
	budget  *budget
	ledger  *ledger
	rule    rule
	learner *learning // the rule, if it learns
	keyed   []float64 // of each page: price for which its place in the agenda was computed
	replan  float64   // time of the next plan
	scored  float64   // importance of the pages that are scored
	now     float64
}

func newEngine(r *Run) (e *engine, err error) {
	e = &engine{run: r, world: newLiving(r.World, r.Seed, r.Policy.listening()), view: newView(r), budget: newBudget(r),
		ledger: newLedger(r.Days, r.From), keyed: make([]float64, len(r.World.Pages))}
	if e.rule = newRule(r, e.view, e.budget); e.rule == nil {
		return nil, fmt.Errorf("unknown rule %q", r.Policy.Rule)
	}
	e.learner, _ = e.rule.(*learning)
	for i := range r.World.Pages {
		if r.Of == nil || r.Of(i) {
			e.scored += r.World.Pages[i].Weight
		}
	}
	e.agenda, err = newAgenda()
	return e, err
}

func (e *engine) simulate(ctx context.Context) error {
	e.plan()
	for i := 0; e.now < e.run.Days; i++ {
		if i%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		for x, ok := e.world.hear(e.now); ok; x, ok = e.world.hear(e.now) {
			e.tell(x)
		}
		if e.now >= e.replan {
			e.plan()
		}
		if e.now >= e.view.look {
			e.hurry()
		}
		if err := e.serve(); err != nil {
			return err
		}
		next := max(e.agenda.next(e.now), e.budget.enough(e.now))
		e.now = max(e.now, min(next, e.world.next(), e.replan, e.view.look, e.run.Days))
	}
	for i := range e.world.copies {
		wrong, _ := e.world.copies[i].fetched(e.run.Days)
		e.wrong(i, wrong, e.run.Days)
	}
	return nil
}

// serve executes due visits and polls, as far as the budget allows.
func (e *engine) serve() error {
	const most = 64 // per batch, so that the results of one batch count for the next
	for {
		n := min(e.budget.allows(e.now), most)
		if n == 0 {
			return nil
		}
		found, err := e.agenda.due(e.now, n, func(i int) {
			if i < len(e.view.pages) {
				e.turn(i)
			} else {
				e.poll(i - len(e.view.pages))
			}
		})
		if err != nil || found == 0 {
			return err
		}
	}
}

// place puts a page on the agenda, at the time at which a visit pays.
func (e *engine) place(i int) {
	at, rank := e.due(i)
	e.put(i, at, rank, false)
}

// put puts a page on the agenda; again says that it was due, and too soon.
func (e *engine) put(i int, at, rank float64, again bool) {
	if e.learner != nil {
		at = e.learner.look(&e.view.pages[i], e.now, at, again)
	}
	e.agenda.put(i, e.now, at, rank)
}

// placeManifest puts a manifest on the agenda, ahead of the pages that it may name.
func (e *engine) placeManifest(s int) {
	interval := e.rule.interval(s)
	if longest := e.run.Policy.LongestPoll; longest > 0 {
		interval = min(interval, longest)
	}
	e.agenda.put(len(e.view.pages)+s, e.now, daysAt(e.view.sites[s].Manifest.Read)+interval, math.MaxFloat32)
}

// due is when a visit to a page pays, and its rank then.
func (e *engine) due(i int) (at, rank float64) {
	p := &e.view.pages[i]
	p.Listen()
	price := e.rule.price()
	e.keyed[i] = price
	if at = daysAt(e.rule.next(i, p, clock(e.now))); at <= e.now {
		return e.now, e.rule.profit(i, p, clock(e.now))
	}
	// Then it gains the price, as all do: first are those that lose most by waiting for an hour.
	return at, e.rule.profit(i, p, clock(at+1./24))
}

// turn visits a page, unless by what was learned since it was placed it is too soon.
func (e *engine) turn(i int) {
	if e.learner != nil || e.view.pages[i].Listed || e.rule.price() > 1.02*e.keyed[i] {
		if at, rank := e.due(i); at > e.now+1e-3 {
			e.put(i, at, rank, true)
			return
		}
	}
	e.visit(i, true)
	e.place(i)
}

// visit fetches a page. An unplanned visit is not deducted from the budget, but counts as spent.
func (e *engine) visit(i int, planned bool) {
	is, copied := &e.world.Pages[i], &e.world.copies[i]
	wrong, trifling := copied.fetched(e.now)
	e.wrong(i, wrong, e.now)
	x := Event{Kind: Visited, Page: i, Site: is.Site, Changed: wrong <= e.now, Trifling: trifling, Cost: e.budget.costs.Header}
	bytes := headerSize
	if x.Changed || trifling {
		x.Cost += e.budget.costs.Body * is.units()
		bytes += is.units() * pageSize
	}
	if planned {
		e.budget.Spend(x.Cost)
	}
	var modified time.Time
	if e.world.Sites[is.Site].Dated {
		modified = clock(copied.newest)
	}
	site := &e.view.sites[is.Site]
	if e.view.visited(int32(i), site, e.now, x.Changed, modified) && e.learner != nil {
		e.doubted(site)
	}
	if len(e.view.together) > 0 {
		e.view.look = min(e.view.look, e.now+1./24) // as the crawler, once in an hour
	}
	e.happened(x, bytes)
}

// doubted makes a plan, as the crawler does every hour, and places the pages of a site anew, whose silence is no longer believed.
func (e *engine) doubted(s *site) {
	e.plan()
	for _, i := range s.pages {
		e.place(int(i))
	}
}

// hurry places those pages anew that are due since others of their sites have changed. That the price is lower than when they were placed is
// no reason: it may rise again.
func (e *engine) hurry() {
	e.view.look = math.Inf(1)
	for i, s := range e.view.together {
		if slices.Contains(e.view.together[:i], s) {
			continue
		}
		for _, i := range s.pages {
			if !e.learner.at(e.keyed[i]).Next(&e.view.pages[i], clock(e.now)).After(clock(e.now)) {
				e.place(int(i))
			}
		}
	}
	e.view.together = e.view.together[:0]
}

// wrong scores a period in which the copy of a page was wrong.
func (e *engine) wrong(i int, from, to float64) {
	if e.run.Of == nil || e.run.Of(i) {
		e.ledger.wrong(e.world.Pages[i].Weight/e.scored, from, to)
	}
}

// tell processes a notice that a page has changed.
func (e *engine) tell(x notice) {
	i := int(x.page)
	if !e.view.told(x, e.now) {
		return
	}
	e.happened(Event{Kind: Told, Page: i, Site: e.world.Pages[i].Site}, 0)
	if p := &e.view.pages[i]; e.learner != nil && !p.Listed && e.learner.priced.Owes(p) {
		e.visit(i, false)
	}
	e.place(i)
}

// poll fetches a site's manifest.
func (e *engine) poll(s int) {
	site, draft, format := &e.view.sites[s], &e.world.drafts[s], e.world.Sites[s].Format
	entries, size := float64(len(site.pages)), format.entrySize()
	if format == Delta {
		entries = float64(len(draft.said))
	}
	x := Event{Kind: Polled, Page: -1, Site: s, Cost: e.budget.costs.Manifest + e.budget.costs.Entry*entries*(size/gzipEntry)}
	if e.run.Policy.LongestPoll > 0 {
		x.Cost *= min(1, (e.now-daysAt(site.Manifest.Read))/e.rule.interval(s))
	}
	e.budget.Spend(x.Cost)
	e.happened(x, headerSize+size*entries)
	for _, said := range draft.said {
		e.view.pages[said.page].Listen() // silence up to the previous poll
		e.tell(said)
	}
	surprise := e.view.read(site, e.now, draft.named)
	draft.clear()
	e.placeManifest(s)
	if surprise {
		e.doubted(site)
	}
}

// plan makes a plan, and places all pages anew, unless look brings them up in time.
func (e *engine) plan() {
	e.replan = e.now + e.rule.plan(e.now)
	if e.now < 3 || e.learner == nil {
		for i := range e.view.pages {
			e.place(i)
		}
	}
	for s := range e.view.sites {
		if e.view.sites[s].polled {
			e.placeManifest(s)
		}
	}
	e.happened(Event{Kind: Planned, Page: -1, Site: -1}, 0)
}

// happened counts an event of now, and reports it.
func (e *engine) happened(x Event, bytes float64) {
	x.At = e.now
	e.ledger.count(x, bytes)
	if e.run.Watch != nil {
		e.run.Watch(x)
	}
}

func (e *engine) result() *Result {
	r := &Result{World: e.world.Name, Policy: e.run.Policy.Name, Pages: len(e.view.pages),
		Budget: e.run.Budget, Days: e.run.Days, From: e.run.From, Seed: e.run.Seed}
	e.ledger.score(r)
	if e.run.Bound {
		r.Bound = WebBound(e.world.World, e.run.Policy.Objective, e.run.Costs, e.run.Budget, e.run.Policy.listening())
	}
	return r
}
