package fresh

import "math"

// A Signal is how well a site tells of its changes: the results of visits, from which all estimates follow.
// The zero value is a site that has never told anything. Old observations weigh less, so that a site may
// change.
type Signal struct {
	Right, Wrong  float32 // notices, as judged by the visits after them: its precision
	Heard, Missed float32 // changes found by visits, with a notice before and without: its recall
	Due, Silent   float32 // changes expected by then: before all visits, and before visits without a notice
	Lag, Lags     float32 // days from a change to its notice, on average, and number of lags

	audited float32 // share of changes that is untold at least, by audits of the site, or of a page's directory

	Turn    turn
	Numbers Numbers
	Flood   flood
}

// A turn has the Right and Wrong of a Signal since the moment at which the site may have changed its behaviour, if it
// has.
type turn struct{ Right, Wrong float32 }

// Numbers are what a site's numbers on its notices show.
type Numbers struct {
	Sure       bool    // it numbers its notices, so that lost ones are counted
	Told, Lost float32 // numbered notices that came, and that did not
}

// A flood is the evidence that wrong notices come to all pages alike rather than to each as it changes.
type flood struct {
	Notices, Days float32 // notices in so many days of visited pages
	Odds          float32 // their logarithm
}

// The belief about a site before its first notice. Of the dates in sitemaps Bing found 79 in 100 right, 18
// wrong, mostly the time at which the file was made, and 3 partly right (2023): an honest site is right in 19
// of 20 cases, give or take; a useless one in 1 of 100; and of the third kind nothing is known.
const (
	honest, useless, partial = .79, .18, .03
	honestRight              = 19 // the density 19 p^18
	uselessWrong             = 99 // 99 (1-p)^98

	// No site tells of every change: at least a hundredth of the changes are taken to be untold, so that a
	// page is visited again even without a notice.
	mostRecall = .99

	// Limits of the memory: notices judged, changes found, lags, numbers, days.
	manyJudged, manyFound, manyLags, manyNumbers, manyDays = 256, 256, 64, 1 << 14, 1 << 14

	mostFlood = 10 // bound of flood.Odds, so that evidence can still reverse it

	numbered = 20 // weight of its numbers, in changes found

	// A site changes its behaviour with a prior probability of 1 in 500 at every notice. The change is
	// accepted when its odds exceed 1000 to 1, and not before 20 notices: that many lies are forgiven to an
	// honest site, by C31 too.
	turns, turned, fewestTurned = 1. / 500, 1000., 20
)

// judged are notices judged right and wrong by visits.
type judged struct{ right, wrong float64 }

func (s Signal) judged() judged { return judged{count(s.Right), count(s.Wrong)} }

// kinds is the probability that their site is honest, or between that and useless. The evidence for a kind of the
// prior Beta(a, b) is B(a+right, b+wrong)/B(a, b), here relative to that for Beta(1, 1).
func (j judged) kinds() (h, m float64) {
	h, u, m := honest*honestRight, useless*uselessWrong, partial
	for i := 1.; i < honestRight; i++ {
		h *= (j.right + i) / (j.right + j.wrong + 1 + i)
	}
	for i := 1.; i < uselessWrong && u > 1e-12; i++ {
		u *= (j.wrong + i) / (j.right + j.wrong + 1 + i)
	}
	sum := h + u + m
	return h / sum, m / sum
}

// count is a number of observations, limited to 0..1e6.
func count(n float32) float64 { return bounded(float64(n), 1e6) }

// Judgements is the number of notices judged right or wrong by visits, of those that still count.
func (s Signal) Judgements() int {
	j := s.judged()
	return int(math.Round(j.right + j.wrong))
}

// Precision is the expected share of notices that are right.
func (s Signal) Precision() float64 {
	j := s.judged()
	p, useful := j.precision()
	return useful*p + (1-useful)*(j.right+1)/(j.right+j.wrong+1+uselessWrong)
}

// precision is the precision of a site that is not useless, and the probability that it is not.
func (j judged) precision() (p, useful float64) {
	h, m := j.kinds()
	useful = h + m
	p = h*(j.right+honestRight)/(j.right+j.wrong+honestRight+1) + m*(j.right+1)/(j.right+j.wrong+2)
	return p / useful, useful
}

// PrecisionOf is the precision of the notices of one page with the posterior p: where wrong notices come to
// all pages alike, those of a page that seldom changes are hardly ever right.
func (s Signal) PrecisionOf(p *Posterior) (precision float64) {
	v := s.noticeStats(1)
	if !v.flooded() {
		return s.Precision()
	}
	for k, share := range p {
		if share > 0 {
			precision += share * v.teller(grid.rate[k]).precision
		}
	}
	return v.useful * precision
}

// Recall is the expected share of changes that are told: 0.99 at most. Of a site that numbers its notices it
// is the share that arrived, and visits only correct it.
func (s Signal) Recall() float64 {
	heard, missed, due, silent := count(s.Heard), count(s.Missed), count(s.Due), count(s.Silent)
	if due == 0 {
		due = heard + missed
		silent = due
	}
	before, weight := .5, 1. // as good as no evidence
	if n := s.Numbers; n.Sure {
		told, lost := count(n.Told), count(n.Lost)
		before, weight = (told+1)/(told+lost+1), numbered
	}
	told := (heard + weight*before) / (due + weight)
	untold := (missed + weight*(1-before)) / (silent + weight)
	return min(told/(told+untold), mostRecall, 1-float64(s.audited))
}

func (s *Signal) add(right, wrong float32) {
	t := &s.Turn
	s.Right += right
	s.Wrong += wrong
	t.Right += right
	t.Wrong += wrong
	switch odds := s.turnOdds(); {
	case odds < turns*1.0001: // it has not changed
		*t = turn{}
	case odds > turned && t.Right+t.Wrong >= fewestTurned:
		s.Right, s.Wrong = t.Right, t.Wrong
		*t = turn{}
	}
	forget(manyJudged, &s.Right, &s.Wrong, &t.Right, &t.Wrong)
}

// turnOdds is the odds that the notices since the turn are from a site of which nothing was known, against
// the site before.
func (s *Signal) turnOdds() float64 {
	all := s.judged()
	since := judged{min(count(s.Turn.Right), all.right), min(count(s.Turn.Wrong), all.wrong)}
	before := judged{all.right - since.right, all.wrong - since.wrong}
	return turns * math.Exp(since.evidence()+before.evidence()-all.evidence())
}

// evidence is the logarithm of the probability of these notices, from any site.
func (j judged) evidence() float64 {
	_, m := judged{float64(float32(j.right)), float64(float32(j.wrong))}.kinds() // as they are stored
	return lgamma(j.right+1) + lgamma(j.wrong+1) - lgamma(j.right+j.wrong+2) + math.Log(partial/m)
}

func lgamma(x float64) float64 {
	y, _ := math.Lgamma(x)
	return y
}

// found adds a change found by a visit, with or without a notice before.
func (s *Signal) found(told bool) {
	if told {
		s.Heard++
	} else {
		s.Missed++
	}
	forget(manyFound, &s.Heard, &s.Missed)
}

// Visited adds the evidence of a visit on the notices before it and on the silence, where the notices were
// not judged one by one: p is the posterior of the page before, and h is its notices since the visit before.
// Which of several notices is right is unknown: each counts in part. Untold changes are measured at visits
// without notices, relative to the changes that were due: at other visits they cannot be distinguished.
func (s *Signal) Visited(p *Posterior, h Hearing, changed bool) { s.visited(p, h, changed, false) }

// Proved does what Visited does, for a visit that shows whether the last notice was right, for example by the
// digest that the notice named. All notices since the visit before count as one right or wrong notice.
func (s *Signal) Proved(p *Posterior, h Hearing, right bool) { s.visited(p, h, right, true) }

func (s *Signal) visited(p *Posterior, h Hearing, changed, proved bool) {
	h = h.bounded()
	n := float64(min(h.Notices, 1000))
	f := &s.Flood
	f.Notices += float32(n)
	f.Days += float32(min(h.Age, 1e4))
	forget(manyDays, &f.Days, new(float32), &f.Notices)
	const most = 8 // changes in one interval that count: more cannot be distinguished
	due := 0.
	for k, share := range p {
		due += share * min(grid.rate[k]*h.Age, most)
	}
	s.Due += float32(due)
	forget(manyFound, &s.Due, new(float32), &s.Heard)
	if n == 0 {
		s.Silent += float32(due)
		forget(manyFound, &s.Silent, new(float32), &s.Missed)
	}
	v := s.noticeStats(h.Notices)
	alike, own := s.stale(p, v, h, 1), s.stale(p, v, h, 0)
	if n > 0 && v.noise > 0 {
		odds := math.Log(alike.share / own.share)
		if !changed {
			odds = math.Log((1 - alike.share) / (1 - own.share))
		}
		f.Odds = between(f.Odds*0.998+float32(odds), -mostFlood, mostFlood)
	}
	switch {
	case proved && changed:
		s.add(1, 0)
		s.Heard++
		return
	case proved:
		s.add(0, 1)
		return
	case !changed:
		s.add(0, float32(n))
		return
	}
	o := own
	if v.flood > 0.5 {
		o = alike
	}
	if n == 0 {
		s.Missed += float32(min(o.untold/o.share, most))
		return
	}
	right := min(n, o.right/o.share)
	s.add(float32(right), float32(n-right))
	s.Heard += float32(right)
}

// An expected is what was expected of the changes of a page before a visit.
type expected struct{ share, right, untold float64 }

// stale is the expectation if the wrong notices come to all pages alike (flood 1), or to each as it changes
// (flood 0).
func (s *Signal) stale(p *Posterior, v noticeStats, h Hearing, flood float64) (e expected) {
	n := float64(min(h.Notices, 1000))
	v.flood = flood
	t, each := v.teller(1), v.flooded()
	for k, share := range p {
		if !(share > 0) {
			continue
		}
		if each {
			t = v.teller(grid.rate[k])
		}
		silent := t.alpha * grid.rate[k] * h.Age
		e.share -= share * math.Expm1(-silent-n*t.jump)
		e.right += share * n * t.precision
		e.untold += share * silent
	}
	e.share = min(max(e.share, 1e-9), 1-1e-9)
	return e
}

// Lagged adds a notice that came so many days after its change.
func (s *Signal) Lagged(days float64) {
	s.Lags = min(s.Lags, manyLags-1) + 1
	s.Lag += (float32(bounded(days, oldest)) - s.Lag) / s.Lags
}

// Add adds numbered notices, and numbers that are missing between two that came.
func (n *Numbers) Add(told, lost int) {
	n.Sure = true
	n.Told += float32(max(0, told))
	n.Lost += float32(max(0, lost))
	forget(manyNumbers, &n.Told, &n.Lost)
}

// forget divides all values by the same number, so that the first two add up to most at most. NaN and negative
// values become 0.
func forget(most float32, n ...*float32) {
	sum := *n[0] + *n[1]
	for _, f := range n {
		if sum > most {
			*f *= most / sum
		}
		if !(*f >= 0) {
			*f = 0
		}
	}
}

// noticeStats returns the values for the notices of one page. Of a site that has never sent a notice, silence says
// nothing.
func (s Signal) noticeStats(notices int) (v noticeStats) {
	if s == (Signal{}) && notices <= 0 {
		return v
	}
	v.precision, v.useful = s.judged().precision()
	v.recall = s.Recall()
	if f := s.Flood; f.Days > 0 {
		v.flood = 1 / (1 + math.Exp(-float64(f.Odds)))
		v.noise = count(f.Notices) / count(f.Days) * (1 - v.precision)
	}
	return v
}
