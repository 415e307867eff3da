package fresh

import "time"

// A Manifest is what is believed of a site's manifest; zero: there is none that is heeded.
type Manifest struct {
	Read   time.Time // last; zero: not yet
	Recall float64   // of the changes of the pages that it names, the share that it tells by and by: what its silence is worth

	// Planned: it is read as often as is worth it, so that a visit to a page of which it says nothing
	// gains only what it leaves out. Else such a visit would be made when the copy is
	// oldest, right before the manifest shows the same.
	Planned bool
}

// Listen takes in that the manifest of the page's site, until it was read last, has not said that the page has changed.
func (p *Page) Listen() {
	if s := p.Site; s != nil && p.Listed {
		p.History = p.History.Silence(s.Manifest.Read, s.Manifest.Recall)
	}
}

// beside returns the page as a visit of its own is worth it, beside the manifest of its site: as
// if the share of its importance that the manifest leaves out were that of a page that nobody tells of. It returns
// that share too, which is 1 where there is no such manifest.
func (p *Page) beside() (q Page, untold float64) {
	q, untold = *p, 1
	if s := p.Site; s != nil && p.Listed && s.Manifest.Planned && p.told() == 0 {
		untold -= bounded(s.Manifest.Recall, mostFew)
		q.Importance *= untold
		q.Confirmed = time.Time{}
	}
	return q, untold
}

// Manifests is what the manifests of all sites have been worth together. A site's own is asked for
// only if it is believed, and shows what it is worth only if it is asked for: so one of which
// little is known is taken for one like the others. The zero value has seen none, and believes 19 of 20
// dates and changes.
type Manifests struct{ right, wrong, heard, missed float64 }

// Add adds what is known of one site's.
func (m *Manifests) Add(s *Signal) {
	m.right += count(s.Right)
	m.wrong += count(s.Wrong)
	m.heard += count(s.Heard)
	m.missed += count(s.Missed)
}

const (
	soMany  = 20   // judgements for which what others were worth counts; of all together those that are believed before
	mostFew = .999 // that is told of at most
)

// Precision is the expected share of what a site's manifest says that is right.
func (m *Manifests) Precision(s *Signal) float64 { return among(s.Right, s.Wrong, m.right, m.wrong) }

// Recall is the expected share of the site's changes that its manifest has by and by.
func (m *Manifests) Recall(s *Signal) float64 {
	return min(among(s.Heard, s.Missed, m.heard, m.missed), mostFew)
}

// among is the share of yes among what was seen of one, beside all.
func among(yes, no float32, allYes, allNo float64) float64 {
	all := (allYes + soMany - 1) / (allYes + allNo + soMany)
	return (count(yes) + soMany*all) / (count(yes) + count(no) + soMany)
}

// Visited learns from a visit to a page how good the manifest of its site is. The page is as it was believed to be
// before the visit, and has been told to Listen. What a claim has led to shows whether claims are right. What is left out only
// other visits show: of the changes that were expected, the manifest's share was told of other pages like it, or
// the visit would be a claim's. It reports whether this one has found a change that the
// manifest may still have when it is read again; else that is [Manifests.Missed].
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
	signal.Heard += float32(min(1, m.Recall(signal)*post.Mean()*days(span(p.Last, p.Heard))))
	m.judged(s)
	return changed
}

// Missed takes in that the manifest of a site has left out a change that a visit has found.
func (m *Manifests) Missed(s *Site) {
	s.Signal.found(false)
	m.judged(s)
}

func (m *Manifests) judged(s *Site) {
	forget(manyFound, &s.Signal.Heard, &s.Signal.Missed)
	if s.Manifest.Recall > 0 { // else it is not heeded
		s.Manifest.Recall = m.Recall(&s.Signal)
	}
}
