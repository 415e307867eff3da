package sim

import (
	"math"

	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// hear executes the due events of sites that tell of changes, and processes their pushes.
func (e *engine) hear() {
	for e.speech.next() <= e.now {
		x := e.speech.pop()
		i := int(x.page)
		p, s := &e.pages[i], &e.sites[e.World.Pages[i].Site]
		switch x.kind {
		case changes:
			p.truth.until(x.at)
			if !math.IsInf(p.truth.next, 1) {
				e.speech.push(notice{at: p.truth.next, page: x.page, kind: changes})
			}
			if e.speech.chance(s.recall()) {
				e.say(notice{at: x.at + max(0, s.Lag), claimed: x.at, page: x.page, kind: speaks}, s)
			}
		case lies:
			e.speech.lie(i, x.at, e.World.Pages[i].Rate, s.Site)
			e.say(notice{at: x.at, claimed: x.at, page: x.page, kind: speaks}, s)
		case speaks:
			e.spoken(x, s)
		}
	}
}

// say delivers a notice at its time.
func (e *engine) say(x notice, s *site) {
	if x.at > e.now {
		e.speech.push(x)
		return
	}
	e.spoken(x, s)
}

// spoken processes a notice, or puts it into the next manifest.
func (e *engine) spoken(x notice, s *site) {
	if s.hasManifest { // the manifest has the newest date alone
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

// tell processes a notice that a page has changed. A change before the last visit is known already.
func (e *engine) tell(x notice, s *site) {
	i := int(x.page)
	p := &e.pages[i]
	if x.claimed < daysAt(p.Last) {
		return
	}
	if e.now >= e.From {
		e.notices++
	}
	at := clock(e.now)
	if e.Policy.Known {
		if p.Heard.Notices++; p.Heard.Notices == 1 {
			p.Heard.Noticed = at
		}
		p.Heard.Until = at
	} else {
		post := p.Posterior()
		precision, recall := s.known.Signal.PrecisionOf(&post), s.known.Signal.Recall()
		if s.hasManifest {
			recall = 0
		}
		p.History = p.History.Notice(at, clock(x.claimed), precision, recall)
		p.Heard.Notified = e.Policy.FetchOutsideBudget
	}
	if e.Watch != nil {
		e.Watch(Event{At: e.now, Kind: Told, Page: i, Site: e.World.Pages[i].Site})
	}
	if l, ok := e.rule.(*learning); ok && !s.hasManifest && l.priced.Owes(&p.Page) {
		e.visit(i, p, s, false)
	}
	e.place(i)
}

// poll fetches a site's manifest.
func (e *engine) poll(s int) {
	x := &e.sites[s]
	cost := e.costs.Manifest
	bytes := headerSize
	switch entries := float64(len(x.pages)); x.Format {
	case Delta:
		cost += e.costs.Entry * float64(len(x.said))
		bytes += gzipEntry * float64(len(x.said))
	case Plain:
		cost += e.costs.Entry * entries * (plainEntry / gzipEntry)
		bytes += plainEntry * entries
	default:
		cost += e.costs.Entry * entries
		bytes += gzipEntry * entries
	}
	e.pay(cost, bytes, true)
	if e.now >= e.From {
		e.polls++
	}
	if e.Watch != nil {
		e.Watch(Event{At: e.now, Kind: Polled, Page: -1, Site: s, Cost: cost})
	}
	for _, said := range x.said {
		e.pages[said.page].Listen() // silence up to the previous poll
		e.tell(said, x)
	}
	x.known.Manifest.Read = clock(e.now)
	for _, i := range x.unsure {
		if _, ok := x.named[i]; !ok {
			e.manifests.Missed(&x.known)
		}
	}
	x.unsure = x.unsure[:0]
	clear(x.named)
	x.said = x.said[:0]
	e.placeManifest(s)
}

// placeManifest places a manifest in the queue, ahead of the pages that it may name.
func (e *engine) placeManifest(s int) {
	at := daysAt(e.sites[s].known.Manifest.Read) + e.rule.interval(s)
	e.put(frontier.PageID(len(e.pages)+s)+1, at, math.MaxFloat32)
}

// judge learns from a visit how well the site tells of its changes.
func (e *engine) judge(i int32, s *site, changed bool) {
	p := &e.pages[i]
	switch {
	case s.hasManifest:
		if e.manifests.Visited(&s.known, &p.Page, clock(e.now), changed) {
			s.unsure = append(s.unsure, i)
		}
	case s.known.Tells:
		post := p.Posterior()
		h := fresh.Hearing{Age: p.Age(clock(e.now)), Notices: p.Heard.Notices}
		if p.Heard.Notices > 0 {
			h.Since = e.now - daysAt(p.Heard.Noticed)
		}
		s.known.Signal.Visited(&post, h, changed)
	}
}
