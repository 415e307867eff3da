package fresh

import (
	"math"
	"slices"
)

// SiteTerms are the limits and the manifest of a site.
type SiteTerms struct {
	// Most is the limit of requests in a day, by its own policy or by ours. 0 means no limit.
	Most float64

	// Manifest says that the site has a manifest, which shows the changed pages at the cost of one request.
	// Precision is the share of its claims that are right, and Recall the share of changes that it claims; 0
	// means all. Parted says that it is in parts: a poll is two requests, for its index and for the changed pages, and
	// does not list the others.
	Manifest, Parted  bool
	Precision, Recall float64
}

// A siteDemand gathers the demand of the pages of one site, where that is not just their sum. A poll of its
// manifest gains as much as all its pages together gain by being visited if they changed, and pages below the
// price are left alone:
//
//	sum over the pages of (importance x W - price x fetch x R1)⁺ >= price x manifest
//
// For the objective Fresh, the sum is of (importance/D - price x fetch)⁺ R1. For a site of one page, with the
// header of a conditional request as the cost of its manifest, this is the rule for visits to that page. At each
// price, the manifest is polled, or the pages one by one, or the pages that change fastest and for the others the
// manifest: whichever costs least together with the outdated copies. So a site with a manifest never does worse than one
// without.
type siteDemand struct {
	planner *planner
	terms   SiteTerms
	polls   *demand // of visited pages, one by one
	others  *demand // of pages never visited, and of those that the manifest does not name
	pages   float64
	classes []*class
}

// A class has the pages of a site whose fetches begin to pay at about the same price, and which change at about the same
// rate: only sums of them are needed, since the gain of a poll is linear in the beliefs.
type class struct {
	key, rate  int
	importance Posterior // sum of importance x belief
	fetch      Posterior // of cost of a fetch x belief
	count      Posterior // of belief
}

// site begins the demand of one site. Its pages are added to it and not to the planner, and then it is
// closed. Several may be open; each takes 50 kB.
func (p *planner) site(t SiteTerms) *siteDemand {
	t.Most = finite(t.Most)
	for _, share := range []*float64{&t.Precision, &t.Recall} {
		if *share = bounded(*share, 1); *share == 0 {
			*share = 1
		}
	}
	return &siteDemand{planner: p, terms: t, polls: p.take(), others: p.take()}
}

func (p *planner) take() *demand {
	if n := len(p.spare); n > 0 {
		d := p.spare[n-1]
		p.spare = p.spare[:n-1]
		return d
	}
	return newDemand()
}

func (p *planner) give(d *demand) {
	d.clear()
	p.spare = append(p.spare, d)
}

// add adds a page, of which it keeps nothing. Pages added after Close do not count.
func (s *siteDemand) add(page *Page, post *Posterior) {
	p := s.planner
	if s.polls == nil {
		return
	}
	p.count(page)
	s.pages++
	if page.Visits <= 0 {
		p.terms.add(page, post, 1, p.floor, s.others, false)
		return
	}
	if s.terms.Manifest && (!page.Listed || page.Site != nil && page.proven(polled, 1) <= obliging) {
		p.terms.add(page, post, 1, p.floor, s.others, false)
		return
	}
	p.terms.add(page, post, 1, p.floor, s.polls, s.terms.Manifest)
	if s.terms.Manifest {
		p.terms.addAudits(page, post, 1, p.floor, s.others, true)
	}
	if s.terms.Manifest && page.Importance > 0 {
		s.list(page, post)
	}
}

// list adds a page to those that the manifest tells of.
func (s *siteDemand) list(page *Page, post *Posterior) {
	t := s.planner.terms
	importance, fetch := finite(page.Importance), t.costs.Header+t.costs.body(page)
	c := s.class(importance/fetch*t.objective.atStep(post, 0, aDay)/dot(post, lattice.changed.from(aDay)), post.Mean())
	for k, share := range post {
		c.importance[k] += importance * share
		c.fetch[k] += fetch * share
		c.count[k] += share
	}
}

// aDay is the lattice age, about a day, at which pages are classed by the price of their fetches.
const aDay = 38*fine + 6

// class returns the class of a price and a rate: there is one for each factor of two or so in the price, and of ten in
// the rate.
func (s *siteDemand) class(price, mean float64) *class {
	key, rate := int(place(price)/4), int(place(mean)/10)
	for _, c := range s.classes {
		if c.key == key && c.rate == rate {
			return c
		}
	}
	c := &class{key: key, rate: rate}
	s.classes = append(s.classes, c)
	return c
}

// Close adds the site's demand to the plan, and returns what follows from a price for the site.
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

// asGood is the loss at which polls of a manifest are still preferred, relative to polls of its pages:
// otherwise a crawler that can pay for any number of visits would never fetch a manifest that may leave
// something out.
const asGood = 1.005

// better is the loss at which the fastest pages are polled beside the manifest, relative to the lesser of polls and
// manifest alone: the estimate for pages of a class together is not exact.
const better = .97

// choose replaces polls of the pages by polls of the manifest wherever their loss is less: the spending on
// the site at a price, and the cost of outdated copies.
func (s *siteDemand) choose(c *siteCurve) {
	p := s.planner
	rates := []int{math.MaxInt} // from each of these on, pages are polled beside the manifest
	for _, k := range s.classes {
		if !slices.Contains(rates, k.rate) {
			rates = append(rates, k.rate)
		}
	}
	slices.Sort(rates)
	rates = rates[max(1, len(rates)-mostWays):] // the slowest need no more than the manifest
	polls, ways := s.polls, make([]*demand, len(rates))
	first, last := polls.first, polls.last
	for i, rate := range rates {
		ways[i] = p.take()
		c.ways = append(c.ways, s.manifest(ways[i], rate))
		first, last = min(first, ways[i].first), max(last, ways[i].last)
	}
	c.chosen = make([]uint8, prices+1)
	never := polls.base.loss
	sums := make([]amount, len(ways)) // above base, of each way of using the manifest
	var a, now amount                 // above base: by polls of pages, and as chosen
	for i := last; i >= first; i-- {
		a.add(1, polls.bins[i])
		next, price := a, priceAt(float64(i))
		least := asGood * (never + a.loss + price*a.spend)
		for w, d := range slices.Backward(ways) { // the manifest alone is the last
			sums[w].add(1, d.bins[i])
			if loss := never + sums[w].loss + price*sums[w].spend; loss < least {
				least, next, c.chosen[i] = loss, sums[w], uint8(w+1)
			}
			if w == len(ways)-1 {
				least *= better
			}
		}
		polls.bins[i] = next.less(now)
		now = next
	}
	polls.first, polls.last = first, last
	c.least = polls.lowest()
	for _, d := range ways {
		p.give(d)
	}
}

// mostWays is the number of ways in which a manifest is tried: alone, and beside polls of the fastest pages.
const mostWays = 4

// A claim is a class whose pages are fetched if the manifest says that they have changed, at one rung.
type claim struct {
	gain, fetched float64 // of a poll, and the cost of fetches that reduces it, for each unit of price
	amount
}

// manifest is the demand of polls of the manifest, above the visits made at any price, and of polls of the pages in
// classes of a rate or more. A class that is not worth a fetch after every poll waits for as long as that pays. No poll
// comes so late that it names more pages than a full purse can fetch: they would wait for the budget, and before that a
// full purse would have lost some of it.
func (s *siteDemand) manifest(d *demand, rate int) (w way) {
	t := s.planner.terms
	ages := &t.polls.ages
	floor, requests, entries := s.planner.floor, 1., s.pages
	if s.terms.Parted {
		requests, entries = 2, 0
	}
	cost := requests*t.costs.Manifest + t.costs.Entry*entries
	var classes []*class
	for _, k := range s.classes {
		if k.rate < rate {
			classes = append(classes, k)
			continue
		}
		b := k.bid(t, 1)
		price, a := t.polls.rung(0, &b)
		t.polls.down(&b, floor, d, place(price), a, nil)
	}
	claims := make([][]claim, len(classes))
	for i := range claims {
		claims[i] = make([]claim, 0, len(ages.days))
	}
	waits := make([]int, len(classes)) // rungs
	w.places = make([]float32, 0, len(ages.days))
	purse := math.Inf(1)
	if b := s.planner.own(); b > 0 {
		purse = Burst(b)
	}
	at, a := float64(prices), amount{}
	for n := 0; n < len(ages.days) && at > floor; n++ {
		age := ages.days[n]
		var gain, fetched float64
		for i, k := range classes {
			claims[i] = append(claims[i], s.claim(k, n))
			gain += claims[i][n].gain
			fetched += claims[i][n].fetched
		}
		// The price is the gain per cost of the classes that do not wait. A class that gains less than the
		// price waits, and the price grows until no more classes do.
		price := gain / (cost + fetched)
		for range classes {
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
		next := amount{spend: cost / age, requests: requests / age}
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
		if n == w.first && next.spend*age-cost > purse && n < len(ages.days)-1 {
			w.first++
			below = at
		} else if n == w.first {
			at = below
		} else if n == len(ages.days)-1 {
			below, next = ages.part(at, below, a, next)
		}
		w.places = append(w.places, float32(below))
		if n >= w.first {
			d.rise(at, below, next.less(a))
			at, a = below, next
		}
	}
	s.untold(d, classes)
	return w
}

// bid is the bid of all pages of the class together for a share of their importance.
func (k *class) bid(t *terms, share float64) bid {
	importance, fetch, pages := sum(k.importance[:], ones[:]), sum(k.fetch[:], ones[:]), sum(k.count[:], ones[:])
	belief := k.importance
	for i := range belief {
		belief[i] /= importance
	}
	b := newBid(&belief, importance*share, t.costs.Header*pages, max(0, fetch-t.costs.Header*pages))
	b.pages, b.loss = pages, true
	return b
}

// untold adds the demand caused by changes that the manifest leaves out. A copy that lacks one is outdated
// until the page changes again and that is told, which is for as large a share of the time as of the changes:
// as if that share of its importance were that of a page that no source tells of.
func (s *siteDemand) untold(d *demand, classes []*class) {
	if s.terms.Recall >= 1 {
		return
	}
	t := s.planner.terms
	for _, k := range classes {
		b := k.bid(t, 1-s.terms.Recall)
		t.polls.climb(&b, s.planner.floor, d)
	}
}

func (s *siteDemand) claim(k *class, n int) claim {
	l, told := s.planner.terms.polls, s.terms.Recall
	right := told / s.terms.Precision
	b := bid{belief: k.importance[:], last: points, importance: told, whole: sum(k.importance[:], ones[:]), header: 1, pages: 1, loss: true}
	gain, a := l.rung(n, &b)
	bodies := l.rungs[ofBodies].at(n, 0, points)
	a.spend = right * sum(k.fetch[:], bodies) / l.ages.days[n]
	a.requests = right * sum(k.count[:], bodies) / l.ages.days[n]
	return claim{gain: gain, fetched: right * sum(k.fetch[:], l.rungs[ofChanged].at(n, 0, points)), amount: a}
}

// cut removes the demand below a place.
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

// A siteCurve is what follows from a price for one site. The zero value is for a site without special terms.
type siteCurve struct {
	longest  float64
	shortest float64
	ways     []way
	chosen   []uint8 // the way in each bin of prices, from 1 on; 0: the manifest is not polled
	least    float64 // place of the price below which nothing more is bought
	capped   float64 // place of the price at which the site's limit of requests is reached; 0: there is none
}

// A way is one way of using a manifest.
type way struct {
	places []float32 // of the prices at which it is polled at each rung
	first  int       // rung of the longest time between two polls
}

// Extra is the surcharge of a request to the site above a price, which keeps requests within the site's
// limit: for [Site.Extra].
func (c *siteCurve) Extra(price float64) float64 {
	if c.capped == 0 {
		return 0
	}
	return max(0, priceAt(c.capped)-finite(price))
}

// Every is the number of days from one poll of its manifest to the next: +Inf if at this price its pages are
// better polled one by one, or if it has none. At a price below all at which anything is bought it is as at
// the lowest of these.
func (c *siteCurve) Every(price float64) float64 {
	at := max(place(price), c.capped, c.least)
	if c.chosen == nil || c.chosen[int(at)] == 0 {
		return math.Inf(1)
	}
	way := c.ways[c.chosen[int(at)]-1]
	above := 0. // place and rung before
	for n, p := range way.places {
		if p := float64(p); n >= way.first && p <= at {
			rung := float64(n)
			if n > way.first && above > p {
				rung -= (at - p) / (above - p)
			}
			return max(c.longest*math.Exp(-rungStep*rung), c.shortest)
		} else {
			above = p
		}
	}
	return max(c.longest*math.Exp(-rungStep*float64(len(way.places)-1)), c.shortest)
}
