package fresh

import "time"

// A Manifest is what is believed of a site's manifest; zero: the site has none, or it is not used.
type Manifest struct {
	Read   time.Time // when it was last read; zero: not yet
	Recall float64   // share of the changes of its pages that it reports sooner or later: the weight of its silence

	// Planned: it is read as often as pays, so that a visit to a page on which it is silent gains only the
	// changes that it leaves out. Otherwise such a visit would be made when the copy is oldest, right before
	// the manifest shows the same.
	Planned bool
}

// Listen records that the manifest of the page's site, when last read, did not say that the page has changed.
func (p *Page) Listen() {
	if s := p.Site; s != nil && p.Listed {
		p.History = p.History.Silence(s.Manifest.Read, s.Manifest.Recall)
	}
}

// beside returns the page valued for a visit of its own, in addition to the manifest of its site: as if only
// the share of its importance that the manifest leaves out counted, and no source told of the page. It also
// returns that share, which is 1 where there is no such manifest.
func (p *Page) beside() (q Page, untold float64) {
	q, untold = *p, 1
	if s := p.Site; s != nil && p.Listed && s.Manifest.Planned && p.told() == 0 {
		untold -= bounded(s.Manifest.Recall, mostFew)
		q.Importance *= untold
		q.Heard.Confirmed = time.Time{}
	}
	return q, untold
}

// Manifests is the quality of the manifests of all sites together. A site's own manifest is polled only if it
// is trusted, and its quality shows only if it is polled: so one with little evidence is taken to be like the
// others. The zero value has seen none, and believes 19 of 20 dates and changes.
type Manifests struct{ right, wrong, heard, missed float64 }

// Add adds the evidence of one site's manifest.
func (m *Manifests) Add(s *Signal) {
	m.right += count(s.Right)
	m.wrong += count(s.Wrong)
	m.heard += count(s.Heard)
	m.missed += count(s.Missed)
}

const (
	soMany  = 20   // weight of the other manifests, in judgements; in the total, of the initial belief
	mostFew = .999 // upper bound of the recall
)

// Precision is the expected share of right claims of a site's manifest.
func (m *Manifests) Precision(s *Signal) float64 { return among(s.Right, s.Wrong, m.right, m.wrong) }

// Recall is the expected share of the site's changes that its manifest reports sooner or later.
func (m *Manifests) Recall(s *Signal) float64 {
	return min(among(s.Heard, s.Missed, m.heard, m.missed), mostFew)
}

// among is the share of yes, with all manifests as the prior.
func among(yes, no float32, allYes, allNo float64) float64 {
	all := (allYes + soMany - 1) / (allYes + allNo + soMany)
	return (count(yes) + soMany*all) / (count(yes) + count(no) + soMany)
}

// Visited learns from a visit to a page how good the manifest of its site is. The page is in its state before
// the visit, after [Page.Listen]. A visit caused by a claim shows whether claims are right. Only other visits
// show omissions: of the changes expected there, the manifest's share counts as told, of other pages like it,
// since a claim would have caused the visit otherwise. It reports whether this visit has found a change that
// the manifest may still name when it is read again; if it does not, call [Manifests.Missed].
func (m *Manifests) Visited(s *Site, p *Page, at time.Time, changed bool) (unsure bool) {
	return m.visited(s, p, at, changed, false)
}

// Proved is Visited where it is known whether the last claim was right, as in [Signal.Proved].
func (m *Manifests) Proved(s *Site, p *Page, at time.Time, right bool) {
	m.visited(s, p, at, right, true)
}

func (m *Manifests) visited(s *Site, p *Page, at time.Time, changed, proved bool) (unsure bool) {
	post, signal := p.Posterior(), &s.Signal
	if p.told() > 0 {
		before := *signal
		signal.visited(&post, p.Hearing(at), changed, proved)
		signal.Heard, signal.Missed, signal.Due, signal.Silent = before.Heard, before.Missed, before.Due, before.Silent
		return false
	}
	if !p.Listed {
		return false
	}
	signal.Heard += float32(min(1, m.Recall(signal)*post.Mean()*days(span(p.Last, p.Heard.Until))))
	m.judged(s)
	return changed
}

// Missed records that the manifest of a site has left out a change that a visit has found.
func (m *Manifests) Missed(s *Site) {
	s.Signal.found(false)
	m.judged(s)
}

func (m *Manifests) judged(s *Site) {
	forget(manyFound, &s.Signal.Heard, &s.Signal.Missed)
	if s.Manifest.Recall > 0 { // else it is not used
		s.Manifest.Recall = m.Recall(&s.Signal)
	}
}
