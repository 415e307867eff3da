package fresh

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Costs are the costs of a crawler's actions, in one unit of its budget. The zero value counts requests: one
// for a page, changed or not, and one for a manifest. See [Bytes] for the other unit. A negative or NaN cost
// is 0.
type Costs struct {
	Header   float64 // a request without a body in the response: not modified
	Body     float64 // added by a body if the page has changed, of a page of 20 kB
	Manifest float64 // fetching a manifest
	Entry    float64 // added by each of its entries
}

// bodyBytes is the length of a body that costs Costs.Body.
const bodyBytes = 20_000

// Bytes are the costs of a crawler whose budget is bytes, in units of 20 kB: 434 B for a response without a
// body (6.5.3 of the thesis), and 28 B for an entry of a compressed manifest.
func Bytes() Costs {
	return Costs{Header: 434. / bodyBytes, Body: 1, Manifest: 434. / bodyBytes, Entry: 28. / bodyBytes}
}

// paid returns the costs with defaults and bounds applied.
func (c Costs) paid() Costs {
	if c == (Costs{}) {
		return Costs{Header: 1, Manifest: 1}
	}
	for _, f := range []*float64{&c.Header, &c.Body, &c.Manifest, &c.Entry} {
		*f = finite(*f)
	}
	c.Header = max(c.Header, 1e-6) // nothing is free: else requests would never end
	return c
}

// body is the cost of a page's body.
func (c Costs) body(p *Page) float64 {
	if p.Length > 0 {
		return c.Body * float64(p.Length) / bodyBytes
	}
	return c.Body
}

// Priced visits a page as soon as the gain of a visit is worth its price, that is, if
//
//	importance x W - price x body x R1 >= (price + extra) x header
//
// with W the Objective's index averaged over the posterior of the page, body the cost of its body, and extra
// the surcharge of a request to a site that limits requests. A body is paid for only if the page has changed:
// R1, as in [Objective], is the index of that cost, averaged likewise. The age counts from when the copy was
// last known to be right. One price for all pages of all sites is the best use of a budget; [Planning] finds
// it.
//
// A site's notices count as far as the site has been right. A page that is told to have changed and is not
// worth the price waits. A page in a [Manifest] gets visits of its own for the changes that the manifest
// leaves out.
type Priced struct {
	Objective Objective `json:"-"` // see MarshalJSON
	Costs     Costs     `json:"-"`

	// Price is the gain required for one unit of cost, in the unit of importance x W. 0 means that every
	// visit is worth it, so that only Shortest holds.
	Price float64

	// Announced is the price of a visit to a page that a source says has changed, if it is less than Price. 0 means Price.
	Announced float64 `json:",omitempty"`

	// Shortest and Longest limit the time between two visits. 0 means a minute, or Longest if that is less,
	// and 90 days: a visit now and then corrects errors in any belief. A Shortest above Longest wins.
	Shortest, Longest time.Duration

	// Eager visits a page at once, at any price, when its site says that it has changed and has been right
	// more often than not: for a crawler whose budget is for changes that no site tells of.
	Eager bool

	// Ends makes an Eager crawler visit every page that is told to have changed, however often its site was
	// wrong: the crawl will end, and the price could not put the visit off to a later time.
	Ends bool

	// OutsideBudget is the price of an Eager crawler's visits to pages told to have changed, where those have a
	// budget of their own. 0 means any price. A page that is not worth it waits until it is, or is worth
	// Price.
	OutsideBudget float64

	// Audit is the share, from 0 to 1, of the visits that a page would get without notices and which it gets
	// whatever its site says, or stops saying. It goes by the results of visits alone.
	Audit float64
}

// MarshalJSON writes the fields of the Objective and of the Costs beside the others.
func (pr Priced) MarshalJSON() ([]byte, error) { return json.Marshal(pr.flat()) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (pr *Priced) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, pr.flat()) }

func (pr *Priced) flat() any {
	type rest Priced
	return &struct {
		*Objective
		*Costs
		*rest
	}{&pr.Objective, &pr.Costs, (*rest)(pr)}
}

// Profit is the gain of a visit per unit of cost, 0 or more and finite: it reaches Price when the visit pays,
// apart from Shortest and Longest. The gain of a page that was never visited is the number of days that its
// first copy is expected to stay right, up to Longest or 90 days, whichever is more.
func (pr Priced) Profit(p *Page, now time.Time) float64 {
	own, d, _, _ := pr.beside(p)
	p = &own
	var gain, changed float64
	if p.Visits <= 0 {
		gain, changed = d.unseen(&d.belief, days(pr.longest())), 1
	} else {
		h := p.hearing(p.aged(&d.belief, now), now)
		gain = d.index(0, h)
		if d.body > 0 {
			changed = max(0, gain-d.index(1, h))
		}
	}
	profit := d.importance * gain / (d.header + d.body*changed)
	if !(profit <= math.MaxFloat32) {
		return math.MaxFloat32
	}
	return profit
}

// Next is when a visit is worth its price, no sooner than Shortest and no later than Longest after the last
// one; at once for a page that was never visited, whose Profit ranks it. Where a manifest tells most changes,
// Shortest is divided by the untold share: even a large budget is not spent to fetch what the manifest has
// told.
func (pr Priced) Next(p *Page, now time.Time) time.Time {
	owes := pr.Owes(p)
	if p.Visits <= 0 || owes && (pr.OutsideBudget == 0 || pr.Ends || p.Listed && p.Site != nil && p.Site.Manifest.Recall > 0) { // a manifest's claims are in the plan
		return time.Time{}
	}
	next := pr.worthAt(p, now)
	if owes {
		beside := pr
		beside.Price, beside.Announced = pr.OutsideBudget, 0
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

// worthAt is when a visit to a page that was visited before is worth Price.
func (pr Priced) worthAt(p *Page, now time.Time) time.Time {
	pr.Price *= pr.discount(p)
	audit := pr.audit(p)
	own, d, untold, between := pr.beside(p)
	p = &own
	wait := pr.longest()
	least := min(duration(days(pr.shortest())/untold), wait)
	if between > 0 {
		next, poll := p.confirmed().Add(between), p.Site.Manifest.Read.Add(p.Site.Manifest.Every)
		if next.After(poll) && poll.After(p.confirmed()) { // it shows whether the visit is needed; a poll before that is late
			next = poll.Add(between)
		}
		wait = min(wait, span(p.Last, next))
	} else if h := p.hearing(p.aged(&d.belief, now), now); p.tempo() != nil { // from now on, time is expected to go as on average
		if more := max(0, d.due(h)-h.Age); more < days(wait) {
			wait = min(wait, span(p.Last, now.Add(duration(more))))
		}
	} else if age := d.due(h); age < days(wait) {
		wait = min(wait, span(p.Last, p.confirmed().Add(duration(age))))
	}
	wait = min(wait, audit)
	return p.Last.Add(max(wait, least))
}

// discount is the price of a visit to a page as a share of Price.
func (pr Priced) discount(p *Page) float64 {
	if p.told() > 0 && 0 < pr.Announced && pr.Announced < pr.Price && pr.Objective.Rule == "" {
		return pr.Announced / pr.Price
	}
	return 1
}

// audit is the time after the last visit at which a page is visited whatever its site says; farthest if
// never.
func (pr Priced) audit(p *Page) time.Duration {
	share := bounded(pr.Audit, 1)
	if _, told := p.source(); share == 0 || !told {
		return farthest
	}
	unheard := p.unheard()
	d := pr.deal(&unheard)
	return duration(d.due(Hearing{}) / share)
}

// Affords is about the highest Price, with Announced in proportion, at which Next is no later than a time, between Shortest and Longest after
// the last visit. The surcharge of the page's site counts as at Price.
func (pr Priced) Affords(p *Page, at time.Time) float64 {
	if pr.Owes(p) {
		return math.MaxFloat32
	}
	price := pr.Profit(p, at) / pr.discount(p)
	if _, told := p.source(); pr.Audit > 0 && told {
		share, unheard := bounded(pr.Audit, 1), p.unheard()
		price = max(price, pr.Profit(&unheard, p.Last.Add(time.Duration(share*float64(at.Sub(p.Last))))))
	}
	return price
}

// Audited is when a page whose site tells of it is visited whatever the site says, and when a visit would be worth Price if it had
// said nothing since the last one; false if its site does not tell, or the policy makes no audits.
func (pr Priced) Audited(p *Page) (at, unheard time.Time, ok bool) {
	if _, told := p.source(); !(pr.Audit > 0) || !told {
		return at, unheard, false
	}
	q := p.unheard()
	return p.Last.Add(max(min(pr.audit(p), pr.longest()), pr.shortest())), pr.worthAt(&q, p.Last), true
}

// Owes reports whether a page is to be visited at any price: its site says that it has changed, and has been
// right more often than not, or the crawl Ends.
func (pr Priced) Owes(p *Page) bool {
	if !pr.Eager || p.Visits <= 0 || !p.Outdated() {
		return false
	}
	if pr.Ends {
		return true
	}
	return p.Site == nil || p.Site.Signal.trustsNotices()
}

// trustsNotices reports whether an Eager crawler follows a site's notices at any price: they were right in more
// than half of the cases, or wrong in so few that this may be chance.
func (s Signal) trustsNotices() bool { return s.Precision() > obliging || s.Wrong < mistakes }

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
		return usualLongest
	}
	return max(pr.shortest(), min(pr.Longest, farthest))
}

const usualLongest = 90 * 24 * time.Hour

// yields is a default shortest time: it does not exceed the longest time, where that is set.
func yields(shortest, longest time.Duration) time.Duration {
	if longest > 0 {
		return min(shortest, longest)
	}
	return shortest
}

// A deal is the gain and the cost of a page's visits.
type deal struct {
	Objective
	belief     Posterior
	signal     Signal // zero: no notices count
	polled     bool   // its silence says nothing: a notice makes no visit later
	importance float64
	price      float64
	header     float64 // with the site's surcharge
	body       float64
}

func (pr Priced) deal(p *Page) (d deal) {
	costs := pr.Costs.paid()
	d.Objective = pr.Objective.weights()
	d.importance = finite(p.Importance)
	d.price = finite(pr.Price)
	d.header, d.body = costs.Header, costs.body(p)
	if d.Rule != "" {
		d.importance, d.header, d.body = 1, 1, 0
	}
	d.belief = p.Posterior()
	if s := p.Site; s != nil {
		if s.Tells || p.told() > 0 {
			d.signal, d.polled = p.signal(), !s.Tells
		}
		if d.price > 0 {
			d.header *= 1 + finite(s.Extra)/d.price
		}
	}
	return d
}

// told is the number of notices, at least one if a credible source says that the page has changed.
func (p *Page) told() int {
	if p.Outdated() {
		return max(1, p.Heard.Notices)
	}
	return max(0, p.Heard.Notices)
}

// Hearing is the page's notices since its copy was last known to be right.
func (p *Page) Hearing(now time.Time) Hearing { return p.hearing(p.Age(now), now) }

func (p *Page) hearing(age float64, now time.Time) Hearing {
	h := Hearing{Age: age, Notices: p.told()}
	switch first := p.Heard.Noticed; {
	case h.Notices == 0:
	case first.After(now): // too late to tell of what a request at that time shows
		h.Notices = 0
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
	gain := d.Objective.heard(&d.belief, d.signal, body, h)
	if d.polled {
		gain = max(gain, d.at(&d.belief, body, bounded(h.Age, oldest)))
	}
	return gain
}

// due is the age at which a visit is worth the price, +Inf if it never is.
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
	age := d.ageHeard(&d.belief, d.signal, body, need, h.Notices, func(age float64) Hearing {
		return Hearing{Age: age, Notices: h.Notices, Since: max(0, age+since)}
	})
	if d.polled {
		age = min(age, d.ageAt(&d.belief, body, need))
	}
	return age
}

// unseen is the gain of the first copy of a page: the days that it is expected to stay right, up to the next
// visit. For Age the page counts as one that has been outdated for as many days. A visit after d days of that
// gains d²/2 + d/D, as in Objective.told, and with d = 1/D that is 1.5/D². A longest below the usual one does not
// count: it asks for more visits than a site may grant, and these must not come before pages without any copy.
func (o Objective) unseen(p *Posterior, longest float64) (gain float64) {
	longest = max(longest, days(usualLongest))
	for k, share := range p {
		life := -math.Expm1(-grid.rate[k]*longest) / grid.rate[k]
		gain += share * life * (o.Fresh + o.Harmonic + o.Age*life*1.5)
	}
	return gain
}

// Figure returns a price or a gain for people: three significant digits, without an exponent.
func Figure(x float64) string {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return fmt.Sprint(x)
	}
	return strconv.FormatFloat(x, 'f', max(0, 2-int(math.Floor(math.Log10(math.Abs(x))))), 64)
}
