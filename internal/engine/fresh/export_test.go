package fresh

import "math"

// This file exports internals to the tests.

func (x *Belief) ChangedAt(ago float64) { x.changedAt(ago) }

// Counted adds exactly n changes within so many days, as reported by a site that tells of every change.
func (b *Belief) Counted(n int, days float64) {
	if days >= 0 && days < math.MaxFloat32 {
		b.Unchanged(days)
		b.Dated += float32(max(0, n))
	}
}

// Rates returns the rates that beliefs distinguish, in changes a day.
func Rates() [points]float64 { return grid.rate }

var Known = known

func (x Periods) WithDefaults() Periods         { return x.withDefaults() }
func (x *planner) Site(t SiteTerms) *siteDemand { return x.site(t) }

const Points = points

type Pool = pool

func (p *pool) Add(page *Page) {
	post := page.Posterior()
	p.add(page, &post)
}

// Pages is the number of pages added.
func (p *pool) Pages() int { return int(p.pages) }

type Planner = planner

func NewPlanner(policy Priced, budget float64) *Planner { return newPlanner(policy, budget) }

func (x *planner) Add(page *Page) {
	post := page.Posterior()
	x.add(page, &post)
}

func (x *planner) Plan() Plan { return x.plan() }

// Backlog sets the number of days within which new pages get their first visit.
func (x *planner) Backlog(days float64) { x.terms.backlog = max(bounded(days, oldest), youngest) }

func (s *siteDemand) Add(page *Page) {
	post := page.Posterior()
	s.add(page, &post)
}

func (x *Posterior) Fresh(days float64) float64 { return x.fresh(days) }
func (x *Signal) Found(told bool)               { x.found(told) }

type SiteCurve = siteCurve

type Flood = flood

// AtRate is the index of a page of importance 1 whose rate is known, age days
// after its copy was last known to be right: exact, 0 or more, and finite. What is
// negative or no number is 0.
func (o Objective) AtRate(rate, age float64) float64 {
	return o.weights().atRate(bounded(rate, math.MaxFloat32), bounded(age, oldest))
}

// AgeAt is the least age at which At is need or more, +Inf if it never is.
func (o Objective) AgeAt(p *Posterior, need float64) float64 {
	return o.weights().ageAt(p, 0, need)
}

// Notified is the index of a page of importance 1 of which p is believed, age
// days after its copy was last known to be right and with so many notices since that it has
// changed, from a site of which s is believed: the mean over all of that. It grows with
// the age, and is At for a site that is silent or of no use. Where it matters when the
// notices came, they came at the beginning.
func (o Objective) Notified(p *Posterior, s Signal, age float64, notices int) float64 {
	return o.Heard(p, s, Hearing{Age: age, Notices: notices, Since: age})
}

// Heard is Notified for somebody who knows when the first notice came. That matters to the part
// Age: a copy that has been outdated for d days for sure has d²/2 + d/D.
func (o Objective) Heard(p *Posterior, s Signal, h Hearing) float64 {
	return o.weights().heard(p, s, 0, h)
}

// AgeNotified is the least age at which Notified is need or more, +Inf if it never is.
func (o Objective) AgeNotified(p *Posterior, s Signal, notices int, need float64) float64 {
	return o.weights().ageHeard(p, s, 0, need, notices, func(age float64) Hearing {
		return Hearing{Age: age, Notices: notices, Since: age}
	})
}

// Judged adds that a notice was found right by the visit after it, or wrong.
func (s *Signal) Judged(right bool) {
	if right {
		s.add(1, 0)
	} else {
		s.add(0, 1)
	}
}

// Delay is how many days after a change its notice is expected: the lag is
// exponential, and an hour before one was seen.
func (s Signal) Delay() float64 {
	lags := count(s.Lags)
	return (1./24 + lags*bounded(float64(s.Lag), oldest)) / (1 + lags)
}

// MeanFresh is the expected share of time in which the copy is as the page is,
// if it is visited every so many days. It is within 2e-4 of its exact value.
func (p *Posterior) MeanFresh(every float64) (share float64) {
	every = bounded(every, oldest)
	if step, part, ok := lattice.find(every); ok {
		stale := dot(p, lattice.stale.from(step))
		if part > 0 {
			stale += part * (dot(p, lattice.stale.from(step+1)) - stale)
		}
		return max(0, 1-stale)
	}
	for k, w := range p {
		share += w * (1 - stalePart(grid.rate[k]*every))
	}
	return share
}

// MeanAge is how many days it is expected to be outdated in the mean over all time, if it is
// visited every so many days.
func (p *Posterior) MeanAge(every float64) (age float64) {
	every = bounded(every, oldest)
	for k, w := range p {
		if w > 0 {
			age += w * ageMean(grid.rate[k]*every)
		}
	}
	return every * age
}

// Room is how many notices of the site may be acted on that nobody has judged yet: as many
// as that six lies are expected while as many right ones come, which is 20 at first, and no more
// than 20 and twice those that were right lately, since a liar may be right for a while. It is
// from 1 to 1,000.
func (s Signal) Room() int {
	p := s.Precision()
	return int(min(max(6*p/(1-p), 1), 20+2*s.judged().right, 1000))
}
