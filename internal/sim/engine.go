package sim

import (
	"context"
	"math"
	"time"

	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// start is the beginning of every run: the crawler's packages use times, the simulator counts days.
var start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	day      = 24 * time.Hour
	msPerDay = 24 * 3600 * 1000.
	never    = 36_500. // days
)

// clock converts a number of days to a time.
func clock(days float64) time.Time { return start.Add(time.Duration(min(days, never) * float64(day))) }

// daysAt converts a time to a number of days.
func daysAt(t time.Time) float64 { return float64(t.Sub(start)) / float64(day) }

// millis converts a number of days to the frontier's time, rounded up to a millisecond.
func millis(days float64) int64 {
	return start.UnixMilli() + int64(math.Ceil(min(days, never)*msPerDay-1e-4))
}

func daysOf(ms int64) float64 { return float64(ms-start.UnixMilli()) / msPerDay }

// A page is the crawler's knowledge of a page, and the truth about it.
type page struct {
	fresh.Page
	truth copied
	keyed float64 // price for which its place in the queue was computed
}

// A site is the crawler's knowledge of a site.
type site struct {
	*Site
	known       fresh.Site
	pages       []int32
	hasManifest bool          // and the crawler polls it
	said        []notice      // changes in the next manifest
	named       map[int32]int // a page's index in said
	unsure      []int32       // pages that visits found changed, and that the next manifest may name
}

// A store is the frontier's, in memory. It promotes few entries at a time: the frontier asks for thousands,
// while two or three are ready.
type store struct{ frontier.MemoryStore }

// Promote implements frontier.Store.
func (s *store) Promote(now int64, n int) (ready []frontier.Entry, err error) {
	const bite = 8
	for len(ready) < n {
		if next, _ := s.Next(); next == 0 || next > now {
			break
		}
		list, err := s.MemoryStore.Promote(now, bite)
		ready = append(ready, list...)
		if err != nil || len(list) < bite {
			return ready, err
		}
	}
	return ready, nil
}

// An engine is a run in progress. It goes from event to event; pages and manifests wait in one queue, the
// frontier's, ordered by the time at which they pay.
type engine struct {
	*Run
	costs     Costs
	pages     []page
	sites     []site
	speech    noticeQueue
	rule      rule
	store     store
	queue     *frontier.Frontier
	ledger    *ledger
	purse     fresh.Bucket
	paid      float64 // time until which the budget is in the purse
	unit      float64 // cost of one visit of a changed page
	manifests fresh.Manifests
	replan    float64 // time of the next plan
	now       float64
	done      []frontier.PageID

	r                              Result
	visits, wasted, polls, notices int // from day From on
	bytes                          float64
}

func newEngine(r *Run) (*engine, error) {
	w := r.World
	e := &engine{Run: r, costs: priced(r.Costs), ledger: newLedger(r.Days), replan: math.Inf(1)}
	e.pages, e.sites = make([]page, len(w.Pages)), make([]site, len(w.Sites))
	e.speech.rng.Seed(r.Seed, 0)
	e.purse.Rate, e.unit = r.Budget*float64(len(w.Pages)), e.costs.Header+e.costs.Body
	e.purse.Burst = max(3*e.purse.Rate, 32*e.unit)
	e.purse.Balance = e.purse.Burst / 2 // at which the price is the planned one
	for s, pages := range w.bySite() {
		is := &w.Sites[s]
		e.sites[s] = site{Site: is, pages: pages, hasManifest: is.Manifest && !is.Push && !r.Policy.IgnoresNotices, named: map[int32]int{}}
		e.sites[s].known.Tells = is.Push && !r.Policy.IgnoresNotices
		e.sites[s].known.Manifest = fresh.Manifest{Read: start, Recall: 1} // as the oracle assumes
	}
	for i := range e.pages {
		p, is := &e.pages[i], &w.Pages[i]
		p.truth = copied{changer: newChanger(r.Seed, i, is), wrong: math.Inf(1)}
		p.History = fresh.History{}.Visit(start, false, time.Time{})
		p.Importance, p.Length = is.Weight, int64(is.Bytes)
		s := &e.sites[is.Site]
		p.Site, p.Listed = &s.known, s.hasManifest
		if s.hasManifest || s.known.Tells {
			e.speech.begin(i, &p.truth, s.Site)
		}
	}
	var err error
	if e.queue, err = frontier.New(frontier.Profit{}, &e.store, nil); err != nil {
		return nil, err
	}
	e.rule, err = newRule(e)
	return e, err
}

func (e *engine) run(ctx context.Context) error {
	e.plan()
	for i := 0; e.now < e.Days; i++ {
		if i%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		e.hear()
		if e.now >= e.replan {
			e.plan()
		}
		if err := e.serve(); err != nil {
			return err
		}
		next := min(e.speech.next(), e.replan)
		if e.queue.Len() > 0 { // it waits for budget
			next = min(next, e.enough())
		} else if ms := e.queue.Wake(millis(e.now)); ms > 0 {
			next = min(next, max(daysOf(ms), e.enough()))
		}
		e.now = max(e.now, min(next, e.Days))
	}
	for i := range e.pages {
		p := &e.pages[i]
		p.truth.until(e.Days)
		e.ledger.wrong(e.World.Pages[i].Weight, p.truth.wrong, e.Days)
	}
	return nil
}

// serve executes due visits and polls, as far as the purse allows.
func (e *engine) serve() error {
	const most = 64 // per batch, so that the results of one batch count for the next
	for {
		n := min(e.allows(), most)
		if n == 0 {
			return nil
		}
		list, err := e.queue.Batch(millis(e.now), frontier.BatchOptions{Size: n, SameSite: n, Round: n})
		if err != nil || len(list) == 0 {
			return err
		}
		for _, s := range list {
			for _, x := range s.Entries {
				e.done = append(e.done[:0], x.Page)
				e.queue.Done(e.done)
				if i := int(x.Page) - 1; i < len(e.pages) {
					e.turn(i)
				} else {
					e.poll(i - len(e.pages))
				}
			}
		}
	}
}

// allows is the number of visits or polls that the purse allows now.
func (e *engine) allows() int {
	e.purse.Earn(e.now - e.paid)
	e.paid = e.now
	return int(max(0, min(e.purse.Balance/e.unit+1e-9, 1e6)))
}

// enough is the time at which the purse allows one more.
func (e *engine) enough() float64 { return e.now + e.purse.Wait(e.unit) }

// put places a page or a manifest in the queue.
func (e *engine) put(id frontier.PageID, at float64, rank float64) {
	x := frontier.Entry{Page: id, Site: 1, Rank: float32(rank)} // no host has a limit: there is one queue
	if at > e.now {
		x.At = millis(at)
	}
	old, ok := e.store.Entry(id)
	if ok && old.At == 0 && x.At != 0 {
		e.queue.Drop([]frontier.Entry{old})
	}
	e.store.Put(x)
	if x.At == 0 {
		e.queue.Add([]frontier.Entry{x})
	}
}

// place computes a page's place in the queue: the time at which a visit pays.
func (e *engine) place(i int) {
	at, rank := e.due(i)
	e.put(frontier.PageID(i)+1, e.look(i, at, false), rank)
}

// due is when a visit to a page pays, and its rank then.
func (e *engine) due(i int) (at, rank float64) {
	p := &e.pages[i]
	p.Listen()
	policy := e.rule.policy(i)
	p.keyed = e.rule.price()
	next := policy.Next(&p.Page, clock(e.now))
	if next.IsZero() {
		return e.now, policy.Profit(&p.Page, clock(e.now))
	}
	if at = daysAt(next); at <= e.now {
		return e.now, policy.Profit(&p.Page, clock(e.now))
	}
	// Then it gains the price, as all do: the earliest is first.
	return at, p.keyed * (1 - .01*at/never)
}

// turn visits a page, unless by what was learned since it was placed it is too soon.
func (e *engine) turn(i int) {
	p := &e.pages[i]
	s := &e.sites[e.World.Pages[i].Site]
	if e.looks() || s.hasManifest || e.rule.price() > 1.02*p.keyed {
		if at, rank := e.due(i); at > e.now+1e-3 {
			e.put(frontier.PageID(i)+1, e.look(i, at, true), rank)
			return
		}
	}
	e.visit(i, p, s, true)
	e.place(i)
}

// visit fetches a page. An unplanned visit is not deducted from the purse, but counts as spent.
func (e *engine) visit(i int, p *page, s *site, planned bool) {
	is := &e.World.Pages[i]
	p.truth.until(e.now)
	changed := p.truth.wrong <= e.now
	cost, bytes := e.costs.Header, headerSize
	if changed {
		cost += e.costs.Body * is.units()
		bytes += is.units() * pageSize
		e.ledger.wrong(is.Weight, p.truth.wrong, e.now)
		p.truth.wrong = math.Inf(1)
	}
	e.pay(cost, bytes, planned)
	if e.now >= e.From {
		e.visits++
		if !changed {
			e.wasted++
		}
	}
	var modified time.Time
	if s.Dated {
		modified = clock(p.truth.newest)
	}
	at := clock(e.now)
	p.Listen()
	if e.Policy.Known {
		p.History = fresh.History{First: at, Last: at, Visits: 1}
	} else {
		e.judge(int32(i), s, changed)
		p.History = p.History.Visit(at, changed, modified)
	}
	if e.Watch != nil {
		e.Watch(Event{At: e.now, Kind: Visited, Page: i, Site: is.Site, Changed: changed, Cost: cost})
	}
}

func (e *engine) pay(cost, bytes float64, planned bool) {
	if planned {
		e.purse.Spend(cost)
	}
	e.ledger.spent(e.now, cost)
	if e.now >= e.From {
		e.bytes += bytes
	}
}

// plan makes a plan, and places all pages anew, unless look brings them up in time.
func (e *engine) plan() {
	e.r.Replans++
	next := e.rule.plan()
	e.replan = e.now + next
	for i := range e.pages {
		if e.now < 3 || !e.looks() {
			e.place(i)
		}
	}
	for s := range e.sites {
		if e.sites[s].hasManifest {
			e.placeManifest(s)
		}
	}
	if e.Watch != nil {
		e.Watch(Event{At: e.now, Kind: Planned, Page: -1, Site: -1})
	}
}

func (e *engine) result() *Result {
	r, n := &e.r, float64(len(e.pages))
	r.World, r.Policy, r.Pages = e.World.Name, e.Policy.Name, len(e.pages)
	r.Budget, r.Days, r.From, r.Seed = e.Budget, e.Days, e.From, e.Seed
	e.ledger.score(r)
	part := n * (e.Days - e.From)
	r.Visits, r.Wasted, r.Polls = float64(e.visits)/part, float64(e.wasted)/part, float64(e.polls)/part
	r.Requests, r.Notices, r.Bytes = r.Visits+r.Polls, float64(e.notices)/part, e.bytes/part
	r.Price = e.rule.price()
	r.Expected.Fresh, r.Expected.Age = e.rule.expected()
	if e.Run.Bound {
		l := Listening{Manifest: !e.Policy.IgnoresNotices, Push: !e.Policy.IgnoresNotices}
		r.Bound = WebBound(e.World, e.Policy.Objective, e.Costs, e.Budget, l)
	}
	return r
}
