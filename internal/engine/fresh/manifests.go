package fresh

import (
	"math"
	"time"
)

// A Manifest is what is believed of a site's manifest; zero: the site has none, or it is not used.
type Manifest struct {
	Read   time.Time // when it was last read; zero: not yet
	Recall float64   // share of the changes of its pages that it reports sooner or later: the weight of its silence

	// Planned: it is read as often as pays, so that a visit to a page on which it is silent gains only the
	// changes that it leaves out. Otherwise such a visit would be made when the copy is oldest, right before
	// the manifest shows the same.
	Planned bool

	// Every is the time between two polls, 0 if it is not known: pages that are worth it are visited in between.
	Every time.Duration
}

// Listen records that the manifest of the page's site, when last read, did not say that the page has changed.
func (p *Page) Listen() {
	if s := p.Site; s != nil && p.Listed {
		p.History = p.History.Silence(s.Manifest.Read, p.proven(polled, s.Manifest.Recall))
	}
}

// beside returns the page valued for a visit of its own, in addition to the manifest of its site: as if only
// the share of its importance that the manifest leaves out counted, and no source told of the page. It also
// returns the page's deal; that share, which is 1 where there is no such manifest; and for a page that is visited between two polls of it
// the age at which that is done.
func (pr Priced) beside(p *Page) (q Page, d deal, untold float64, between time.Duration) {
	q = *p
	if pr.Objective.Rule != "" {
		q = p.unannounced()
	}
	d, untold = pr.deal(&q), 1
	if s := q.Site; s != nil && q.Listed && s.Manifest.Planned && q.told() == 0 && q.proven(polled, 1) > obliging {
		if between = d.between(days(s.Manifest.Every)); between == 0 {
			untold -= bounded(q.proven(polled, s.Manifest.Recall), mostFew)
			q.Importance *= untold
			d.importance = finite(q.Importance)
			q.Heard.Confirmed = time.Time{}
		}
	}
	return q, d, untold, between
}

// between is the age at which a page is visited between two polls of its site's manifest, so many days apart, 0 if it waits for the polls.
// Without a manifest it would be visited at the age of x changes; a poll saves visits of x - ln(1+x) changes. Of k visits
// from one poll to the next, the last one only if the manifest names the page, the best number is that with the largest
// k (1 - R1(x) - e^-(y/k)), y being the changes in all these ages together.
func (d *deal) between(every float64) time.Duration {
	age := d.due(Hearing{})
	if !(age < every) {
		return 0
	}
	rate := d.belief.Mean()
	x := rate * age
	y := rate*every + x - math.Log1p(x)
	k, best := 1., math.Inf(-1)
	for _, n := range [...]float64{1, math.Floor(y / x), math.Floor(y/x) + 1} {
		if gain := n * (1 - freshPart(x) - math.Exp(-y/n)); n >= 1 && gain > best {
			k, best = n, gain
		}
	}
	if k == 1 {
		return 0
	}
	return duration(y / rate / k)
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
func (m *Manifests) Recall(s *Site) float64 {
	recall := min(among(s.Signal.Heard, s.Signal.Missed, m.heard, m.missed), mostFew)
	if s.Audits != nil {
		recall = min(recall, s.Audits[polled].recall())
	}
	return recall
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
	if p.Hearing(at).Notices > 0 {
		before := *signal
		signal.visited(&post, p.Hearing(at), changed, proved)
		signal.Heard, signal.Missed, signal.Due, signal.Silent = before.Heard, before.Missed, before.Due, before.Silent
		return false
	}
	if !p.Listed {
		return false
	}
	signal.Heard += float32(min(1, m.Recall(s)*post.Mean()*days(span(p.Last, p.Heard.Until))))
	m.judged(s)
	return changed
}

// Missed records that the manifest of a site has left out a change that a visit has found.
func (m *Manifests) Missed(s *Site) {
	s.Signal.found(false)
	if s.doubts != nil {
		s.Audits, s.doubts = s.doubts, nil
		s.limitRecall()
	}
	m.judged(s)
}

func (m *Manifests) judged(s *Site) {
	forget(manyFound, &s.Signal.Heard, &s.Signal.Missed)
	if s.Manifest.Recall > 0 { // else it is not used
		s.Manifest.Recall = m.Recall(s)
	}
}
