package fresh

import (
	"math"
	"time"
)

// Costs are what is paid for what a crawler does, in one unit of its budget.
// The zero value counts requests: one for a page, changed or not, and one for a manifest.
// See [Bytes] for the other unit. What is negative or no number is 0.
type Costs struct {
	Header   float64 // a request that brings no body: not modified
	Body     float64 // what a body adds if the page has changed, of a page of 20 kB
	Manifest float64 // asking for a manifest
	Entry    float64 // what each of its entries adds
}

// bodyBytes is the length of the body that Costs.Body is the price of.
const bodyBytes = 20_000

// Bytes are the costs of a crawler whose budget is bytes, in units of 20 kB: 434 B for an answer
// without a body (6.5.3 of the thesis), and 28 B for an entry of a compressed manifest.
func Bytes() Costs {
	return Costs{Header: 434. / bodyBytes, Body: 1, Manifest: 434. / bodyBytes, Entry: 28. / bodyBytes}
}

// paid returns the costs as they count.
func (c Costs) paid() Costs {
	if c == (Costs{}) {
		return Costs{Header: 1, Manifest: 1}
	}
	for _, f := range []*float64{&c.Header, &c.Body, &c.Manifest, &c.Entry} {
		*f = bounded(*f, math.MaxFloat32)
	}
	c.Header = max(c.Header, 1e-6) // nothing is free: else all is asked for without end
	return c
}

// body is what the body of a page costs.
func (c Costs) body(p *Page) float64 {
	if p.Length > 0 {
		return c.Body * float64(p.Length) / bodyBytes
	}
	return c.Body
}

// Priced visits a page as soon as what that gains is worth its price: whatever has
//
//	importance x W - price x body x R1 >= (price + extra) x header
//
// with W the Objective's index averaged over what is believed of the page, body what its body costs,
// and extra what a request to a site costs that takes only so many. A body is paid for only if the
// page has changed: R1, as in [Objective], is the index of that cost, averaged likewise. The age counts from when the copy
// was last known to be right. One price for all pages of all sites is what makes the best of a
// budget; [Planner] finds it.
//
// What a site says of its pages counts as much as the site has been right. A page that is told to have changed and is not worth the price waits. One of which a
// [Manifest] tells is visited beside that for what it leaves out.
type Priced struct {
	Objective
	Costs

	// Price is what one unit of cost must gain, in the unit of importance x W. 0
	// means that everything is worth it, so that only Shortest holds.
	Price float64

	// Shortest and Longest bound the time between two visits. 0 means a minute, or Longest
	// if that is less, and 90 days: whatever is believed, looking again now and then is how errors in it end.
	// A Shortest above Longest wins.
	Shortest, Longest time.Duration

	// Eager visits at once what is told to have changed, at any price, if its site has
	// been right more often than not: for a crawler whose budget is for what nobody tells of.
	Eager bool

	// Ends makes an Eager crawler ask whatever is told, however often its site has been wrong: the
	// crawl is to end, and there is no later visit that a price could put it off to.
	Ends bool

	// Beside is the price of an Eager crawler's visits to what is told, where those together may cost no more than a
	// budget of their own. 0 means any price. A page that is not worth it waits until it is, or is worth Price.
	Beside float64

	// Audit is the share of the visits that a page would get if its site said nothing, from 0 to 1, which it
	// gets whatever its site says, or stops saying. It goes by what visits alone have shown of the page.
	Audit float64
}

// Name implements Policy.
func (Priced) Name() string { return "priced" }

// Profit is the gain of a visit for each unit that it costs, 0 or more and finite: it reaches
// Price when the visit pays, but for Shortest and Longest. A page that was never visited
// gains the days that its first copy is expected to stay right, up to Longest.
func (pr Priced) Profit(p *Page, now time.Time) float64 {
	own, _ := p.beside()
	p = &own
	d := pr.deal(p)
	var gain, changed float64
	if p.Visits <= 0 {
		gain, changed = d.unseen(&d.belief, days(pr.longest())), 1
	} else {
		gain = d.index(0, p.Hearing(now))
		if d.body > 0 {
			changed = max(0, gain-d.index(1, p.Hearing(now)))
		}
	}
	profit := d.importance * gain / (d.header + d.body*changed)
	if !(profit <= math.MaxFloat32) {
		return math.MaxFloat32
	}
	return profit
}

// Next is when a visit is worth its price, no sooner than Shortest and no later than Longest
// after the last one; at once for a page that was never visited, whose Profit ranks it. Where a manifest tells most changes,
// Shortest is as much longer: however much there is to spend, nobody is asked what he has said.
func (pr Priced) Next(p *Page, now time.Time) time.Time {
	owes := pr.Owes(p)
	if p.Visits <= 0 || owes && (pr.Beside == 0 || pr.Ends || p.Listed && p.Site != nil && p.Site.Manifest.Recall > 0) { // what a manifest claims is planned
		return time.Time{}
	}
	next := pr.worthAt(p, now)
	if owes {
		beside := pr
		beside.Price = pr.Beside
		next = sooner(next, beside.worthAt(p, now))
	}
	return next
}

func sooner(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// worthAt is when a visit to a page that was visited is worth Price.
func (pr Priced) worthAt(p *Page, now time.Time) time.Time {
	audit := pr.audit(p)
	own, untold := p.beside()
	p = &own
	wait := pr.longest()
	least := min(duration(days(pr.shortest())/untold), wait)
	d := pr.deal(p)
	if age := d.due(p.Hearing(now)); age < days(wait) {
		wait = min(wait, span(p.Last, p.confirmed().Add(duration(age))))
	}
	wait = min(wait, audit)
	return p.Last.Add(max(wait, least))
}

// audit is how long after the last visit a page is visited whatever its site says, and farthest if never.
func (pr Priced) audit(p *Page) time.Duration {
	share := bounded(pr.Audit, 1)
	if share == 0 || !p.spokenFor() {
		return farthest
	}
	quiet := Page{History: p.seenAlone(), Importance: p.Importance, Length: p.Length, Site: &Site{Prior: p.Site.Prior, Extra: p.Site.Extra}}
	d := pr.deal(&quiet)
	return duration(d.due(Hearing{}) / share)
}

// Audited is when a page of which its site tells is visited whatever that says, and false if its site does not tell, or the
// policy makes no audits.
func (pr Priced) Audited(p *Page) (at time.Time, ok bool) {
	if !(pr.Audit > 0) || !p.spokenFor() {
		return time.Time{}, false
	}
	return p.Last.Add(max(min(pr.audit(p), pr.longest()), pr.shortest())), true
}

// spokenFor reports whether the site of a page tells of it, so that its silence keeps visits off.
func (p *Page) spokenFor() bool {
	s := p.Site
	return s != nil && p.Visits > 0 && (s.Tells || p.Listed && s.Manifest.Recall > 0)
}

// seenAlone is the history as if nobody had said anything of the page: what visits have shown, taken to be as far
// apart as they were on average.
func (h History) seenAlone() History {
	q := History{First: h.First, Last: h.Last, Visits: h.Visits, Changes: h.Changes}
	n := h.Visits - 1
	if n <= 0 {
		return q
	}
	each := days(span(h.First, h.Last)) / float64(n)
	changes := min(max(0, h.Changes), n)
	q.Belief.Unchanged(each * float64(n-changes))
	if changes > 0 {
		var b Belief
		b.Changed(each)
		q.Belief.add(float32(changes), &b)
	}
	return q
}

// Owes reports whether a page is to be visited whatever it costs: its site says that it has
// changed, and has been right more often than not, unless the crawl Ends.
func (pr Priced) Owes(p *Page) bool {
	if !pr.Eager || p.Visits <= 0 || !p.Outdated() {
		return false
	}
	if pr.Ends {
		return true
	}
	var s Signal
	if p.Site != nil {
		s = p.Site.Signal
	}
	return s.obliges()
}

// obliges reports whether an Eager crawler asks at any price for what a site says: it has been right in more than
// half of the cases, or wrong in so few that this may be chance.
func (s Signal) obliges() bool { return s.Precision() > obliging || s.Wrong < mistakes }

const (
	obliging = 0.5
	mistakes = 5
)

func (pr Priced) shortest() time.Duration {
	if pr.Shortest == 0 {
		return yields(time.Minute, pr.Longest)
	}
	return min(max(0, pr.Shortest), farthest)
}

func (pr Priced) longest() time.Duration {
	if pr.Longest <= 0 {
		return 90 * 24 * time.Hour
	}
	return max(pr.shortest(), min(pr.Longest, farthest))
}

// yields is a shortest time that nobody has asked for: it does not outlast the longest time, where somebody gave one.
func yields(shortest, longest time.Duration) time.Duration {
	if longest > 0 {
		return min(shortest, longest)
	}
	return shortest
}

// A deal is what a page offers and asks.
type deal struct {
	Objective
	belief     Posterior
	signal     Signal // zero: its silence says nothing
	importance float64
	price      float64
	header     float64 // with what the site asks above the price
	body       float64
}

func (pr Priced) deal(p *Page) (d deal) {
	costs := pr.Costs.paid()
	d.Objective = pr.Objective.weights()
	d.importance = bounded(p.Importance, math.MaxFloat32)
	d.price = bounded(pr.Price, math.MaxFloat32)
	d.header, d.body = costs.Header, costs.body(p)
	d.belief = p.Posterior()
	if s := p.Site; s != nil {
		if s.Tells || p.told() > 0 {
			d.signal = s.Signal
		}
		if d.price > 0 {
			d.header *= 1 + bounded(s.Extra, math.MaxFloat32)/d.price
		}
	}
	return d
}

// told is how many notices have come, one at least if anybody credible says that it has changed.
func (p *Page) told() int {
	if p.Outdated() {
		return max(1, p.Notices)
	}
	return max(0, p.Notices)
}

// Hearing is what was heard of the page since its copy was last known to be right.
func (p *Page) Hearing(now time.Time) Hearing {
	h := Hearing{Age: p.Age(now), Notices: p.told()}
	switch first := p.Noticed; {
	case h.Notices == 0:
	case !first.IsZero():
		h.Since = days(span(first, now))
	case p.Modified.After(p.Last):
		h.Since = days(span(p.Modified, now))
	}
	return h
}

// index is the gain of a visit to a page of importance 1.
func (d *deal) index(body float64, h Hearing) float64 {
	if d.signal == (Signal{}) && h.Notices == 0 {
		return d.at(&d.belief, body, bounded(h.Age, oldest))
	}
	return d.Objective.heard(&d.belief, d.signal, body, h)
}

// due is the age at which it is worth the price, +Inf if it never is.
func (d *deal) due(h Hearing) float64 {
	if d.price == 0 {
		return 0
	}
	if d.importance == 0 {
		return math.Inf(1)
	}
	body, need := d.price*d.body/d.importance, d.price*d.header/d.importance
	if d.signal == (Signal{}) && h.Notices == 0 {
		return d.ageAt(&d.belief, body, need)
	}
	since := h.Since - h.Age
	return d.ageHeard(&d.belief, d.signal, body, need, h.Notices, func(age float64) Hearing {
		return Hearing{Age: age, Notices: h.Notices, Since: max(0, age+since)}
	})
}

// unseen is what the first copy of a page gains: the days that it is expected to stay right, up to the
// next visit. For Age the page counts as one that has been outdated for as many days. A visit after
// d days of that gains d²/2 + d/D, as in [Objective.Heard], and with d = 1/D that is 1.5/D².
func (o Objective) unseen(p *Posterior, longest float64) (gain float64) {
	for k, share := range p {
		life := -math.Expm1(-grid.rate[k]*longest) / grid.rate[k]
		gain += share * life * (o.Fresh + o.Harmonic + o.Age*life*1.5)
	}
	return gain
}
