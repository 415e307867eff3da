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

	Sure       bool    // it numbers its notices, so that lost ones are counted
	Told, Lost float32 // numbered notices that came, and that did not

	// Right and Wrong since the moment at which the site may have changed its behaviour, if it has.
	TurnRight, TurnWrong float32

	// Notices in so many days of visited pages, and the log odds that wrong notices come to all pages alike
	// rather than to each as it changes.
	Notices, Days float32
	Flood         float32
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

	mostFlood = 10 // bound of Flood, so that evidence can still reverse it

	numbered = 20 // weight of its numbers, in changes found

	// A site changes its behaviour with a prior probability of 1 in 500 at every notice. The change is
	// accepted when its odds exceed 1000 to 1, and not before 20 notices: that many lies are forgiven to an
	// honest site, by C31 too.
	turns, turned, fewestTurned = 1. / 500, 1000., 20
)

// kinds is the probability that a site is honest, useless or between the two. The evidence for a kind of the
// prior Beta(a, b) is B(a+right, b+wrong)/B(a, b), here relative to that for Beta(1, 1).
func (s Signal) kinds() (h, u, m float64) {
	right, wrong := s.judged()
	h, u, m = honest*honestRight, useless*uselessWrong, partial
	for i := 1.; i < honestRight; i++ {
		h *= (right + i) / (right + wrong + 1 + i)
	}
	for i := 1.; i < uselessWrong && u > 1e-12; i++ {
		u *= (wrong + i) / (right + wrong + 1 + i)
	}
	sum := h + u + m
	return h / sum, u / sum, m / sum
}

func (s Signal) judged() (right, wrong float64) { return count(s.Right), count(s.Wrong) }

// count is a number of observations, limited to 0..1e6.
func count(n float32) float64 { return bounded(float64(n), 1e6) }

// Judgements is the number of notices judged right or wrong by visits, of those that still count.
func (s Signal) Judgements() int {
	right, wrong := s.judged()
	return int(math.Round(right + wrong))
}

// Precision is the expected share of notices that are right.
func (s Signal) Precision() float64 {
	p, useful := s.precision()
	right, wrong := s.judged()
	return useful*p + (1-useful)*(right+1)/(right+wrong+1+uselessWrong)
}

// precision is the precision of a site that is not useless, and the probability that it is not.
func (s Signal) precision() (p, useful float64) {
	h, _, m := s.kinds()
	right, wrong := s.judged()
	useful = h + m
	p = h*(right+honestRight)/(right+wrong+honestRight+1) + m*(right+1)/(right+wrong+2)
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
	if s.Sure {
		told, lost := count(s.Told), count(s.Lost)
		before, weight = (told+1)/(told+lost+1), numbered
	}
	told := (heard + weight*before) / (due + weight)
	untold := (missed + weight*(1-before)) / (silent + weight)
	return min(told/(told+untold), mostRecall)
}

func (s *Signal) add(right, wrong float32) {
	s.Right += right
	s.Wrong += wrong
	s.TurnRight += right
	s.TurnWrong += wrong
	switch odds := s.turnOdds(); {
	case odds < turns*1.0001: // it has not changed
		s.TurnRight, s.TurnWrong = 0, 0
	case odds > turned && s.TurnRight+s.TurnWrong >= fewestTurned:
		s.Right, s.Wrong = s.TurnRight, s.TurnWrong
		s.TurnRight, s.TurnWrong = 0, 0
	}
	forget(manyJudged, &s.Right, &s.Wrong, &s.TurnRight, &s.TurnWrong)
}

// turnOdds is the odds that the notices since the turn are from a site of which nothing was known, against
// the site before.
func (s *Signal) turnOdds() float64 {
	right, wrong := s.judged()
	r, w := min(count(s.TurnRight), right), min(count(s.TurnWrong), wrong)
	return turns * math.Exp(evidence(r, w)+evidence(right-r, wrong-w)-evidence(right, wrong))
}

// evidence is the logarithm of the probability of these notices, from any site.
func evidence(right, wrong float64) float64 {
	s := Signal{Right: float32(right), Wrong: float32(wrong)}
	_, _, m := s.kinds()
	return lgamma(right+1) + lgamma(wrong+1) - lgamma(right+wrong+2) + math.Log(partial/m)
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
	s.Notices += float32(n)
	s.Days += float32(min(h.Age, 1e4))
	forget(manyDays, &s.Days, new(float32), &s.Notices)
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
		s.Flood = between(s.Flood*0.998+float32(odds), -mostFlood, mostFlood)
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

// Numbered adds n numbered notices.
func (s *Signal) Numbered(n int) {
	s.Sure = true
	s.Told += float32(max(0, n))
	forget(manyNumbers, &s.Told, &s.Lost)
}

// Gap adds n numbers that are missing between two that came.
func (s *Signal) Gap(n int) {
	s.Sure = true
	s.Lost += float32(max(0, n))
	forget(manyNumbers, &s.Told, &s.Lost)
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
	v.precision, v.useful = s.precision()
	v.recall = s.Recall()
	if s.Days > 0 {
		v.flood = 1 / (1 + math.Exp(-float64(s.Flood)))
		v.noise = count(s.Notices) / count(s.Days) * (1 - v.precision)
	}
	return v
}
