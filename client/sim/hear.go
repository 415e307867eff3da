package sim

import (
	"math"

	"github.com/parleyweb/parley/client/fresh"
	"github.com/parleyweb/parley/client/frontier"
)

// hear lets happen what is due on sites that speak, and takes in what they push.
func (e *engine) hear() {
	for e.speech.next() <= e.now {
		x := e.speech.pop()
		i := int(x.page)
		p, s := &e.pages[i], &e.sites[e.World.Pages[i].Site]
		switch x.kind {
		case changes:
			p.truth.until(x.at)
			if !math.IsInf(p.truth.next, 1) {
				e.speech.push(saying{at: p.truth.next, page: x.page, kind: changes})
			}
			if e.speech.chance(s.recall()) {
				e.say(saying{at: x.at + max(0, s.Lag), claimed: x.at, page: x.page, kind: speaks}, s)
			}
		case lies:
			e.speech.lie(i, x.at, e.World.Pages[i].Rate, s.Site)
			e.say(saying{at: x.at, claimed: x.at, page: x.page, kind: speaks}, s)
		case speaks:
			e.spoken(x, s)
		}
	}
}

// say has a notice come when its time is there.
func (e *engine) say(x saying, s *site) {
	if x.at > e.now {
		e.speech.push(x)
		return
	}
	e.spoken(x, s)
}

// spoken takes in a notice, or writes it into the manifest.
func (e *engine) spoken(x saying, s *site) {
	if s.hasManifest { // which has the newest date alone
		if at, ok := s.named[x.page]; ok {
			s.said[at] = x
			return
		}
		s.named[x.page] = len(s.said)
		s.said = append(s.said, x)
		return
	}
	e.tell(x, s)
}

// tell takes in that a page is said to have changed. What happened before the last visit is known.
func (e *engine) tell(x saying, s *site) {
	i := int(x.page)
	p := &e.pages[i]
	if x.claimed < daysAt(p.Last) {
		return
	}
	p.told = true
	if e.now >= e.From {
		e.notices++
	}
	at := clock(e.now)
	if e.Policy.Known {
		if p.Notices++; p.Notices == 1 {
			p.Noticed = at
		}
		p.Heard = at
	} else {
		post := p.Posterior()
		precision, recall := s.known.Signal.PrecisionOf(&post), s.known.Signal.Recall()
		if s.hasManifest {
			recall = 0
		}
		p.History = p.History.Notice(at, clock(x.claimed), precision, recall)
		p.Told = e.Policy.Eager
	}
	if e.Watch != nil {
		e.Watch(Event{At: e.now, Kind: Told, Page: i, Site: e.World.Pages[i].Site})
	}
	if l, ok := e.rule.(*learning); ok && !s.hasManifest && l.priced.Owes(&p.Page) {
		e.visit(i, p, s, false)
	}
	e.place(i)
}

// listen takes in that manifests until a time have not named a page. What the site
// leaves out it does not tell, so the copy ages on, as much slower as its word is good.
func (e *engine) listen(p *page, until float64) {
	if p.told || !(until > p.listened) {
		return
	}
	since := until - p.listened
	p.listened = until
	from := p.Last
	if p.Confirmed.After(from) {
		from = p.Confirmed
	}
	recall := 1.
	if !e.Policy.Known {
		recall = e.manifests.Recall(&p.Site.Signal)
		p.Belief.Unchanged(recall * since)
	}
	p.Confirmed = from.Add(clock(recall * since).Sub(start))
}

// poll asks for a site's manifest.
func (e *engine) poll(s int) {
	x := &e.sites[s]
	cost := e.costs.Manifest
	bytes := HeaderSize
	switch entries := float64(len(x.pages)); x.Format {
	case Delta:
		cost += e.costs.Entry * float64(len(x.said))
		bytes += GzipEntry * float64(len(x.said))
	case Plain:
		cost += e.costs.Entry * entries * (PlainEntry / GzipEntry)
		bytes += PlainEntry * entries
	default:
		cost += e.costs.Entry * entries
		bytes += GzipEntry * entries
	}
	e.pay(cost, bytes, true)
	if e.now >= e.From {
		e.polls++
	}
	if e.Watch != nil {
		e.Watch(Event{At: e.now, Kind: Polled, Page: -1, Site: s, Cost: cost})
	}
	x.last, x.polled = x.polled, e.now
	for _, said := range x.said {
		e.listen(&e.pages[said.page], x.last)
		e.tell(said, x)
	}
	for _, i := range x.unsure {
		if _, ok := x.named[i]; !ok {
			x.known.Signal.Found(false)
		}
	}
	x.unsure = x.unsure[:0]
	clear(x.named)
	x.said = x.said[:0]
	e.placeManifest(s)
}

// placeManifest gives a manifest its place in the queue, ahead of the pages that it may speak of.
func (e *engine) placeManifest(s int) {
	at := e.sites[s].polled + e.rule.interval(s)
	e.put(frontier.PageID(len(e.pages)+s)+1, at, math.MaxFloat32)
}

// judge learns from a visit how well the site tells.
func (e *engine) judge(i int32, s *site, changed bool) {
	if !s.hasManifest && !s.known.Tells {
		return
	}
	p, signal := &e.pages[i], &s.known.Signal
	post, before := p.Posterior(), *signal
	if s.known.Tells || p.Notices > 0 {
		h := fresh.Hearing{Age: p.Age(clock(e.now)), Notices: p.Notices}
		if p.Notices > 0 {
			h.Since = e.now - daysAt(p.Noticed)
		}
		signal.Visited(&post, h, changed)
	}
	if !s.hasManifest {
		return
	}
	// Only visits that no claim has led to show how much is left out: such a page would have been
	// named so often by now, and its change was not, if the next manifest does not have it.
	signal.Heard, signal.Missed = before.Heard, before.Missed
	if p.Notices == 0 {
		signal.Heard += float32(min(1, e.manifests.Recall(signal)*post.Mean()*max(0, p.listened-daysAt(p.Last))))
		if changed {
			s.unsure = append(s.unsure, i)
		}
	}
}
