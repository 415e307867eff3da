package fresh

import (
	"math"
	"time"
)

// A tempo is what visits have shown of when the pages of a site changed together. It is learned of sites that announce nothing, from visits
// to any of their pages, and used only while it predicts the results of visits better than each page's own history does. Many
// pages share one, so it is replaced and never modified. It is not stored: a crawler learns it anew when it starts.
//
// The pages share a clock, which on average advances by a day in a day, but in leaps: a gamma process. A visit that finds a change makes a
// leap since the visit before likelier, and one that finds none makes it less likely. So pages become due sooner after a common
// change was found on one of them, and later while none is.
type tempo struct {
	begin   float64 // of the first period, in days since 1970
	n       int
	periods [mostPeriods]period
	odds    [len(couplings)]float32 // natural logarithm; recent visits count most
	used    int                     // index in couplings of the likeliest, from 1 on; 0: each page on its own
	typical float64                 // rate of change of half of the pages at least
}

// A period is the time between two visits to a site, or several such times.
type period struct {
	end    float64
	leaps  [len(couplings)]float32 // changes that are put down to leaps in it
	proved [len(couplings)]float32 // rates, in the time of the clock, of the pages that were visited for it
}

// A coupling is a way in which pages change together: a share of their changes comes in leaps of so many days of the clock, of each page in proportion to its
// rate, or of all pages alike.
type coupling struct {
	share, leap float64
	alike       bool
}

var couplings = [...]coupling{{.9, 5, false}, {.9, 15, false}, {.9, 15, true}, {.9, 50, true}}

const (
	mostPeriods = 24
	earned      = 3     // odds from which a coupling is used: 20 to 1
	forgotten   = 0.998 // part of the odds that is left after a visit
	leastPages  = 16    // of a site: with fewer there is little to compare
	leastPace   = .37   // days of the clock in a day, at least: a full [Bucket] lowers the price so far that no less is spent than planned
)

// shared is the rate of the changes of a page that come with those of others, and ticks that rate in the time of the clock.
func (t *tempo) shared(c int, rate float64) (shared, ticks float64) {
	const most = 12 // e^12 is as good as certain
	is := &couplings[c]
	if is.alike {
		rate = min(rate, t.typical)
	}
	shared = is.share * rate
	return shared, math.Expm1(min(shared*is.leap, most)) / is.leap
}

// during calls f for each period that has days in common with a time, from the last one back; part is their share of the period.
func (t *tempo) during(from, to float64, f func(p *period, days, part float64)) {
	for i := t.n - 1; i >= 0 && t.periods[i].end > from; i-- {
		begin := t.begin
		if i > 0 {
			begin = t.periods[i-1].end
		}
		if days := min(t.periods[i].end, to) - max(begin, from); days > 0 {
			f(&t.periods[i], days, days/(t.periods[i].end-begin))
		}
	}
}

// expects is the number of changes that are expected of a page in a time, so that its negative exponential is the probability of none.
func (t *tempo) expects(c int, from, to, rate float64) float64 {
	leap := couplings[c].leap
	shared, ticks := t.shared(c, rate)
	n := rate * (to - from)
	t.during(from, to, func(p *period, days, part float64) {
		n += (days/leap+part*float64(p.leaps[c]))*math.Log1p(ticks/(1/leap+float64(p.proved[c]))) - shared*days
	})
	return max(n, 0)
}

// LearnTempo learns from a visit to a page of a site, which has so many; the page is in its state before the visit. It reports whether
// the site's other pages may be due sooner.
func LearnTempo(s *Site, p *Page, at time.Time, changed bool, pages int) (sooner bool) {
	from, to := dayOf(p.Last), dayOf(at)
	post := p.Posterior()
	alone := post.fresh(to - from)
	if pages < leastPages || p.Visits <= 0 || !(to > from) || !(alone < 1) || !(alone > 0) {
		return false
	}
	t := tempo{}
	if s.Tempo != nil {
		t = *s.Tempo
	}
	t.typical = s.Prior.median()
	rate := -math.Log(alone) / (to - from)
	t.used = 0
	best := float32(earned)
	for c := range couplings {
		together := post.fresh(t.expects(c, from, to, rate) / rate)
		odds := math.Log(max(together, 1e-6) / max(alone, 1e-6))
		if changed {
			odds = math.Log(max(1-together, 1e-6) / max(1-alone, 1e-6))
		}
		t.odds[c] = max(forgotten*t.odds[c]+float32(odds), -10)
		if t.odds[c] > best {
			t.used, best = c+1, t.odds[c]
		}
	}
	t.extend(to)
	for c := range couplings {
		t.learn(c, from, to, rate, changed)
	}
	s.Tempo = &t
	return t.used > 0 && changed
}

// learn divides a change among the periods in which it may have happened, by how much is expected of each.
func (t *tempo) learn(c int, from, to, rate float64, changed bool) {
	leap := couplings[c].leap
	_, ticks := t.shared(c, rate)
	each := 0.
	if n := t.expects(c, from, to, rate); changed && n > 0 {
		each = min(1/-math.Expm1(-n), 4/n) // it may be several
	}
	t.during(from, to, func(p *period, days, part float64) {
		n := (days/leap + part*float64(p.leaps[c])) * math.Log1p(ticks/(1/leap+float64(p.proved[c])))
		p.leaps[c] += float32(each * n)
		p.proved[c] += float32(part * ticks)
	})
}

// extend begins a new period, which ends now.
func (t *tempo) extend(now float64) {
	const shortest = 1e-4 // days
	if t.n == 0 {
		t.begin = now - 1
	} else if now < t.periods[t.n-1].end+shortest {
		return
	}
	if t.n == mostPeriods {
		t.merge(now)
	}
	t.periods[t.n] = period{end: now}
	t.n++
}

// merge makes one period of the two neighbours that are shortest for their age.
func (t *tempo) merge(now float64) {
	begin := func(i int) float64 {
		if i == 0 {
			return t.begin
		}
		return t.periods[i-1].end
	}
	at, least := 0, math.Inf(1)
	for i := range t.n - 1 {
		const soon = .02 // days
		if x := (t.periods[i+1].end - begin(i)) / (now - t.periods[i].end + soon); x < least {
			at, least = i, x
		}
	}
	a, b := &t.periods[at], &t.periods[at+1]
	part := float32((a.end - begin(at)) / (b.end - begin(at)))
	for c := range couplings {
		b.leaps[c] += a.leaps[c]
		b.proved[c] += part * (a.proved[c] - b.proved[c])
	}
	copy(t.periods[at:], t.periods[at+1:t.n])
	t.n--
}

// Near reports whether two priors are nearly equal.
func (p *Prior) Near(q *Prior) bool {
	for k := range p {
		if math.Abs(float64(p[k]-q[k])) > .02 {
			return false
		}
	}
	return true
}

// median is the rate of a page in the middle.
func (p *Prior) median() float64 {
	post, sum := p.Under(&Belief{}), 0.
	for k, share := range post {
		if sum += share; sum >= .5 {
			return grid.rate[k]
		}
	}
	return fastest
}

// tempo is that of the page's site, nil if it is not used.
func (p *Page) tempo() *tempo {
	if s := p.Site; s != nil && s.Tempo != nil && s.Tempo.used > 0 && !s.Tells && !p.Listed && p.Visits > 0 {
		return s.Tempo
	}
	return nil
}

// aged is Age, of a page with the posterior post.
func (p *Page) aged(post *Posterior, now time.Time) float64 {
	from := p.confirmed()
	age := days(span(from, now))
	t := p.tempo()
	if t == nil || age == 0 {
		return age
	}
	expected := -math.Log(post.fresh(age))
	if !(expected > 0) || math.IsInf(expected, 1) {
		return age
	}
	return age * max(leastPace, t.expects(t.used-1, dayOf(from), dayOf(now), expected/age)/expected)
}

func dayOf(t time.Time) float64 { return days(t.Sub(time.Unix(0, 0))) }
