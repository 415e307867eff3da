package fresh

import "math"

// A Signal is what is believed of how well a site tells of its changes: all that
// visits have shown, from which the rest follows. The zero value has never told anything.
// Old observations weigh less, so that a site may change.
type Signal struct {
	Right, Wrong  float32 // notices, by what the visits after them showed: its precision
	Heard, Missed float32 // changes that visits found: told of before, and not: its recall
	Due, Silent   float32 // changes that were due by then: before all visits, and before those without a notice
	Lag, Lags     float32 // days from a change to its notice, on average, and of how many

	Sure       bool    // it numbers what it tells, so that what is missing is counted
	Told, Lost float32 // of those numbers: that came, and that did not

	// Right and Wrong since the moment at which the site may have changed its ways, if it has.
	TurnRight, TurnWrong float32

	// Notices in so many days of pages that were visited, and how much likelier it is, as a
	// logarithm, that the wrong ones come to all pages alike than to each as it changes.
	Notices, Days float32
	Flood         float32
}

// What is believed of a site before it has told anything. Of the dates in
// sitemaps Bing found 79 in 100 right, 18 wrong, mostly the time at which the file was made,
// and 3 partly right (2023): an honest site is right in 19 of 20 cases, give
// or take; a useless one in 1 of 100; and of the third kind nothing is known.
const (
	honest, useless, partial = .79, .18, .03
	honestRight              = 19 // the density 19 p^18
	uselessWrong             = 99 // 99 (1-p)^98

	// No site tells of all: a hundredth of the changes at least are taken to be
	// untold, so that a page is visited again even if nothing is ever said of it.
	mostRecall = .99

	// What is remembered: notices judged, changes found, lags, numbers.
	manyJudged, manyFound, manyLags, manyNumbers, manyDays = 256, 256, 64, 1 << 14, 1 << 14

	mostFlood = 10 // so that it may change its mind

	numbered = 20 // changes found that it takes to outweigh its numbers

	// A site may have turned with a probability of 1 in 500 at every notice. It is believed when it
	// has become likelier than 1000 to 1, and not before 20 notices: so many
	// lies are forgiven to whoever has been honest, by C31 too.
	turns, turned, fewestTurned = 1. / 500, 1000., 20
)

// kinds is how likely a site is to be honest, useless or between the two. The
// evidence for a kind of the prior Beta(a, b) is B(a+right, b+wrong)/B(a, b), here beside
// that for Beta(1, 1).
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

// count is a number of observations, whatever it is made of.
func count(n float32) float64 { return bounded(float64(n), 1e6) }

// Judgements is how many notices visits have shown to be right or wrong, of those that still count.
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

// precision is that of a site that is not useless, and how likely it is to be none.
func (s Signal) precision() (p, useful float64) {
	h, _, m := s.kinds()
	right, wrong := s.judged()
	useful = h + m
	p = h*(right+honestRight)/(right+wrong+honestRight+1) + m*(right+1)/(right+wrong+2)
	return p / useful, useful
}

// PrecisionOf is that of the notices of one page of which p is believed: where the wrong ones
// come to all pages alike, those of a page that seldom changes are hardly ever right.
func (s Signal) PrecisionOf(p *Posterior) (precision float64) {
	v := s.voice(1)
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

// Recall is the expected share of changes that are told: 0.99 at most. Of a site that
// numbers what it tells it is the share that has come, and visits only correct it.
func (s Signal) Recall() float64 {
	heard, missed, due, silent := count(s.Heard), count(s.Missed), count(s.Due), count(s.Silent)
	if due == 0 {
		due = heard + missed
		silent = due
	}
	before, weight := .5, 1. // as good as nothing is known
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
	case odds < turns*1.0001: // it is as it always was
		s.TurnRight, s.TurnWrong = 0, 0
	case odds > turned && s.TurnRight+s.TurnWrong >= fewestTurned:
		s.Right, s.Wrong = s.TurnRight, s.TurnWrong
		s.TurnRight, s.TurnWrong = 0, 0
	}
	forget(manyJudged, &s.Right, &s.Wrong, &s.TurnRight, &s.TurnWrong)
}

// turnOdds is how much likelier it is that what came since the turn is from a site of
// which nothing was known than from the one before.
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

// found adds that a visit has found a change, that had been told or not.
func (s *Signal) found(told bool) {
	if told {
		s.Heard++
	} else {
		s.Missed++
	}
	forget(manyFound, &s.Heard, &s.Missed)
}

// Visited adds what a visit shows of the notices before it and of the silence, where nobody
// has judged the notices one by one: p is what was believed of the page, and h is
// what was heard of it since the visit before. One of several notices is
// right, and nobody knows which: all are in part. How many changes are untold shows where
// nothing was told, beside how many were due: elsewhere they cannot be told from others.
func (s *Signal) Visited(p *Posterior, h Hearing, changed bool) { s.visited(p, h, changed, false) }

// Proved adds what a visit shows of the notices before it where it is known whether the last of them was right, as
// by the digest that it named. It counts as one.
func (s *Signal) Proved(p *Posterior, h Hearing, right bool) { s.visited(p, h, right, true) }

func (s *Signal) visited(p *Posterior, h Hearing, changed, proved bool) {
	h = h.bounded()
	n := float64(min(h.Notices, 1000))
	s.Notices += float32(n)
	s.Days += float32(min(h.Age, 1e4))
	forget(manyDays, &s.Days, new(float32), &s.Notices)
	const most = 8 // changes in one interval that count: so many cannot be told from more
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
	v := s.voice(h.Notices)
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

// An expected is what is believed of the changes of a page before a visit.
type expected struct{ share, right, untold float64 }

// stale is what is expected if the wrong notices come to all pages alike, or to each
// as it changes.
func (s *Signal) stale(p *Posterior, v voice, h Hearing, flood float64) (e expected) {
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

// Lagged adds that a notice came so many days after its change.
func (s *Signal) Lagged(days float64) {
	s.Lags = min(s.Lags, manyLags-1) + 1
	s.Lag += (float32(bounded(days, oldest)) - s.Lag) / s.Lags
}

// Numbered adds notices that came with numbers.
func (s *Signal) Numbered(n int) {
	s.Sure = true
	s.Told += float32(max(0, n))
	forget(manyNumbers, &s.Told, &s.Lost)
}

// Gap adds that so many numbers are missing between two that came.
func (s *Signal) Gap(n int) {
	s.Sure = true
	s.Lost += float32(max(0, n))
	forget(manyNumbers, &s.Told, &s.Lost)
}

// forget scales the first two down to so many in all, and the others with them.
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

// voice is what it says of the notices of one page. Of a site that never said anything, silence
// says nothing.
func (s Signal) voice(notices int) (v voice) {
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
