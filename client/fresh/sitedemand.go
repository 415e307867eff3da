package fresh

import "math"

// SiteTerms are what is special about asking a site.
type SiteTerms struct {
	// Most is how many requests in a day it takes, by its manners or ours. 0 means any number.
	Most float64

	// Manifest says that it has one, which tells which pages have changed at the cost of one
	// request. Precision and Recall are in what share of the cases what it says
	// is right, and what share of changes it says; 0 means all.
	Manifest          bool
	Precision, Recall float64
}

// A siteDemand gathers what the pages of one site ask for, where that is not
// just their sum. A poll of its manifest gains what all its pages together gain by being
// visited if they changed, and pages below the price are left alone:
//
//	sum over the pages of (importance x W - price x fetch x R1)⁺ >= price x manifest
//
// which for Fresh is (importance/D - price x fetch)⁺ R1. A conditional request is the same for a site
// of one page. Whether the manifest is polled or the pages one by one is decided at each price by
// what they cost together with the copies that are outdated, so that a site with a manifest
// never does worse than one without.
type siteDemand struct {
	planner *Planner
	terms   SiteTerms
	polls   *demand // of visited pages, one by one
	others  *demand // of those that never were, and of those that the manifest does not name
	pages   float64
	classes []*class
}

// A class has the pages of a site whose fetches begin to pay at about the same price: only
// sums are needed of them, since what a poll gains is linear in what is believed.
type class struct {
	key        int
	importance Posterior // sum of importance x belief
	fetch      Posterior // of cost of a fetch x belief
	count      Posterior // of belief
}

// site begins the demand of one site. Its pages are added to it and not to the Planner, and
// then it is closed. Several may be open; each takes 50 kB.
func (p *Planner) site(t SiteTerms) *siteDemand {
	p.start()
	t.Most = bounded(t.Most, math.MaxFloat32)
	for _, share := range []*float64{&t.Precision, &t.Recall} {
		if *share = bounded(*share, 1); *share == 0 {
			*share = 1
		}
	}
	return &siteDemand{planner: p, terms: t, polls: p.take(), others: p.take()}
}

func (p *Planner) take() *demand {
	if n := len(p.spare); n > 0 {
		d := p.spare[n-1]
		p.spare = p.spare[:n-1]
		return d
	}
	return newDemand()
}

func (p *Planner) give(d *demand) {
	d.clear()
	p.spare = append(p.spare, d)
}

// Add adds a page. It keeps nothing of it. What is added after Close does not count.
func (s *siteDemand) Add(page *Page) {
	post := page.Posterior()
	s.add(page, &post)
}

func (s *siteDemand) add(page *Page, post *Posterior) {
	p := s.planner
	if s.polls == nil {
		return
	}
	p.count(page)
	s.pages++
	if page.Visits <= 0 {
		p.terms.add(page, post, p.floor, s.others, false)
		return
	}
	if s.terms.Manifest && !page.Listed {
		p.terms.add(page, post, p.floor, s.others, false)
		return
	}
	p.terms.add(page, post, p.floor, s.polls, s.terms.Manifest)
	if s.terms.Manifest {
		p.terms.addAudits(page, post, p.floor, s.others)
	}
	if s.terms.Manifest && page.Importance > 0 {
		s.list(page, post)
	}
}

// list adds a page to what the manifest tells of.
func (s *siteDemand) list(page *Page, post *Posterior) {
	t := s.planner.terms
	importance, fetch := bounded(page.Importance, math.MaxFloat32), t.costs.Header+t.costs.body(page)
	c := s.class(importance / fetch * t.objective.atStep(post, 0, aDay) / dot(post, lattice.changed.from(aDay)))
	for k, share := range post {
		c.importance[k] += importance * share
		c.fetch[k] += fetch * share
		c.count[k] += share
	}
}

// aDay is the age at which pages are told apart by the price of their fetches: about a day.
const aDay = 38*fine + 6

// class returns that of a price: there is one for each factor of two.
func (s *siteDemand) class(price float64) *class {
	key := int(place(price) / 4)
	for _, c := range s.classes {
		if c.key == key {
			return c
		}
	}
	c := &class{key: key}
	s.classes = append(s.classes, c)
	return c
}

// Close adds what the site asks for to the plan, and returns what follows from a price for the site.
func (s *siteDemand) Close() siteCurve {
	p := s.planner
	if s.polls == nil {
		return siteCurve{}
	}
	c := siteCurve{longest: p.terms.longest, shortest: p.terms.shortest}
	if len(s.classes) > 0 {
		s.choose(&c)
	}
	s.polls.merge(s.others)
	if s.terms.Most > 0 {
		if c.capped = s.polls.limit(s.terms.Most, requestsOf); c.capped > 0 {
			s.polls.cut(c.capped)
		}
	}
	p.all.merge(s.polls)
	p.give(s.polls)
	p.give(s.others)
	s.polls, s.others, s.classes = nil, nil, nil
	return c
}

// asGood is what polls of a manifest may lose beside polls of its pages, and are preferred: who can pay for any number
// of visits would else never ask for a manifest that may leave something out.
const asGood = 1.005

// choose replaces polls of the pages by polls of the manifest wherever these lose less: in what the
// site costs and what its copies cost, at a price.
func (s *siteDemand) choose(c *siteCurve) {
	p := s.planner
	manifest := p.take()
	s.manifest(manifest, c)
	polls := s.polls
	first, last := min(polls.first, manifest.first), max(polls.last, manifest.last)
	never := polls.base.loss
	var a, b, now amount // above base: by polls of pages, of the manifest, and as chosen
	for i := last; i >= first; i-- {
		a.add(1, polls.bins[i])
		b.add(1, manifest.bins[i])
		next := a
		if price := priceAt(float64(i)); never+b.loss+price*b.spend < asGood*(never+a.loss+price*a.spend) {
			next = b
			c.chosen[i/64] |= 1 << (i % 64)
		}
		polls.bins[i] = next.less(now)
		now = next
	}
	polls.first, polls.last = first, last
	c.least = polls.lowest()
	p.give(manifest)
}

// A claim is a class whose pages are fetched if they are said to have changed, at one rung.
type claim struct {
	gain, fetched float64 // of a poll, and what fetches take from it for each unit of price
	amount
}

// manifest is what polls of the manifest ask for above what is visited at any price. A class that is
// not worth as many fetches as there are polls is left to wait as long as is worth it.
func (s *siteDemand) manifest(d *demand, c *siteCurve) {
	t := s.planner.terms
	floor, cost := s.planner.floor, t.costs.Manifest+t.costs.Entry*s.pages
	claims := make([][]claim, len(s.classes))
	for i := range claims {
		claims[i] = make([]claim, 0, len(t.polls.age))
	}
	waits := make([]int, len(s.classes)) // rungs
	c.places = make([]float32, 0, len(t.polls.age))
	at, a := float64(prices), amount{}
	for n := 0; n < len(t.polls.age) && at > floor; n++ {
		age := t.polls.age[n]
		var gain, fetched float64
		for i, k := range s.classes {
			claims[i] = append(claims[i], s.claim(k, n))
			gain += claims[i][n].gain
			fetched += claims[i][n].fetched
		}
		// Whoever waits, the price is what the others gain for what they cost. Those that
		// gain less than it wait, and it grows until there are no more of them.
		price := gain / (cost + fetched)
		for range s.classes {
			gain, fetched = 0, 0
			for i := range claims {
				if k := &claims[i][n]; k.gain > price*k.fetched {
					gain += k.gain
					fetched += k.fetched
				}
			}
			better := gain / (cost + fetched)
			if !(better > price) {
				break
			}
			price = better
		}
		next := amount{spend: cost / age, requests: 1 / age}
		for i, all := range claims {
			for waits[i] < n && all[waits[i]+1].gain >= price*all[waits[i]+1].fetched {
				waits[i]++
			}
			if k := &all[waits[i]]; k.gain >= price*k.fetched {
				next.add(1, k.amount)
				next.add(-1, amount{stale: all[0].stale, age: all[0].age, loss: all[0].loss})
			}
		}
		below := min(place(price), at)
		if n == 0 {
			at = below
		} else if n == len(t.polls.age)-1 { // not all of the way
			below = at - (at-below)*t.polls.lastPlace
			next = a.plus(t.polls.last, next.less(a))
		}
		d.rise(at, below, next.less(a))
		c.places = append(c.places, float32(below))
		at, a = below, next
	}
	s.untold(d)
}

// untold adds what is asked for by the changes that the manifest leaves out. A copy that lacks one is outdated until the
// page changes again and that is told, which is for as large a share of the time as of the changes: as if so much of its
// importance were that of a page that nobody tells of.
func (s *siteDemand) untold(d *demand) {
	t := s.planner.terms
	if s.terms.Recall >= 1 {
		return
	}
	for _, k := range s.classes {
		var importance, fetch, pages float64
		for i, n := range k.count {
			importance += k.importance[i]
			fetch += k.fetch[i]
			pages += n
		}
		if !(importance > 0) {
			continue
		}
		belief := k.importance
		for i := range belief {
			belief[i] /= importance
		}
		b := newBid(&belief, importance*(1-s.terms.Recall), t.costs.Header*pages, max(0, fetch-t.costs.Header*pages))
		b.pages, b.loss = pages, true
		t.polls.climb(&b, s.planner.floor, d)
	}
}

func (s *siteDemand) claim(k *class, n int) claim {
	l, told := s.planner.terms.polls, s.terms.Recall
	right := told / s.terms.Precision
	b := bid{belief: k.importance[:], last: points, importance: told, whole: sum(k.importance[:], ones[:]), header: 1, pages: 1, loss: true}
	gain, a := l.rung(n, &b)
	bodies := l.bodies.at(n, 0, points)
	a.spend = right * sum(k.fetch[:], bodies) / l.age[n]
	a.requests = right * sum(k.count[:], bodies) / l.age[n]
	return claim{gain: gain, fetched: right * sum(k.fetch[:], l.changed.at(n, 0, points)), amount: a}
}

// cut takes away what is bought below a place.
func (d *demand) cut(at float64) {
	if d.last < 0 || at <= float64(d.first) {
		return
	}
	b := min(int(at), d.last+1)
	clear(d.bins[d.first:b])
	if d.first = b; b <= d.last {
		d.bins[b] = amount{}.plus(float64(b+1)-at, d.bins[b])
	}
}

// A siteCurve is what follows from a price for one site. The zero value is that of a site
// with nothing special.
type siteCurve struct {
	longest  float64
	shortest float64
	places   []float32             // of the prices at which the manifest is polled at each rung
	chosen   [prices/64 + 1]uint64 // bins of prices in which it is polled at all
	least    float64               // place of the price below which nothing more is bought
	capped   float64               // place of the price at which the site takes no more; 0: it has no such price
}

// Extra is what a request to the site costs above a price, so that it is asked no more
// often than it takes: for [Site.Extra].
func (c *siteCurve) Extra(price float64) float64 {
	if c.capped == 0 {
		return 0
	}
	return max(0, priceAt(c.capped)-bounded(price, math.MaxFloat32))
}

// Every is how many days pass from one poll of its manifest to the next: +Inf if at
// this price its pages are better polled one by one, or if it has none. A price below all at which
// anything is bought buys what the lowest of these does.
func (c *siteCurve) Every(price float64) float64 {
	at := max(place(price), c.capped, c.least)
	if bin := int(at); c.chosen[bin/64]>>(bin%64)&1 == 0 {
		return math.Inf(1)
	}
	above := 0. // place and rung between which it is
	for n, p := range c.places {
		if p := float64(p); p <= at {
			rung := float64(n)
			if n > 0 && above > p {
				rung -= (at - p) / (above - p)
			}
			return max(c.longest*math.Exp(-rungStep*rung), c.shortest)
		} else {
			above = p
		}
	}
	return max(c.longest*math.Exp(-rungStep*float64(len(c.places)-1)), c.shortest)
}
