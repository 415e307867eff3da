package sim

import (
	"math"
	"time"

	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/poll"
)

// A view is the crawler's knowledge of a world. Only visits, notices and manifests change it, through the
// engine; a rule plans by it, and writes into it what a plan decides about sites.
type view struct {
	policy    *Policy
	pages     []fresh.Page
	sites     []site
	manifests fresh.Manifests // of all sites together
	silence   fresh.Audits    // likewise
	together  []*site         // of which a visit has found a change that may have come with others
	look      float64         // when the pages of these are placed anew; +Inf: there are none
}

// A site is the crawler's knowledge of a site.
type site struct {
	fresh.Site
	pages  []int32
	polled bool // it has a manifest, and the crawler polls it
	polls  poll.Record
	unsure []int32 // pages that visits found changed, and that the next manifest may name

	importance float64 // relative to the mean of all sites
}

func newView(r *Run) *view {
	w, channels := r.World, r.Policy.listening()
	v := &view{policy: &r.Policy, pages: make([]fresh.Page, len(w.Pages)), sites: make([]site, len(w.Sites)), look: math.Inf(1)}
	for s, pages := range w.bySite() {
		is, x := &w.Sites[s], &v.sites[s]
		*x = site{pages: pages, polled: channels.polls(is), polls: poll.Record{Training: poll.NewTraining(s)}}
		x.Tells = channels.hears(is)
		x.Signal.Numbers.Sure = x.Tells && is.Numbered
		x.Manifest = fresh.Manifest{Read: start, Recall: 1} // as the oracle assumes
		for _, i := range pages {
			is := &w.Pages[i]
			x.importance += is.Weight * float64(len(w.Sites))
			v.pages[i] = fresh.Page{History: fresh.History{}.Visit(start, false, time.Time{}),
				Importance: is.Weight, Length: int64(is.Bytes), Site: &x.Site, Listed: x.polled, Directory: uint8(int(i) % len(w.Sites[s].Unsaid))}
		}
	}
	return v
}

// visited records a visit to a page of a site, and learns from it how well the site tells of its changes.
// The time of the last change is zero if it is unknown. It reports whether the silence of the site is no longer believed.
func (v *view) visited(i int32, s *site, now float64, changed bool, modified time.Time) (surprise bool) {
	p, at := &v.pages[i], clock(now)
	p.Listen()
	if v.policy.Known {
		p.History = fresh.History{First: at, Last: at, Visits: 1}
		return false
	}
	heeded := p.Heeded()
	v.silence.Audited(&s.Site, p, at, changed)
	switch {
	case s.polled:
		if v.manifests.Visited(&s.Site, p, at, changed) {
			s.unsure = append(s.unsure, i)
		}
	case s.Tells:
		post := p.Posterior()
		s.Signal.Visited(&post, p.Hearing(at), changed)
	}
	surprise = heeded && !p.Heeded()
	if !s.polled && !s.Tells && v.policy.compares() && fresh.LearnTempo(&s.Site, p, at, changed, len(s.pages)) {
		v.together = append(v.together, s)
	}
	p.History = p.History.Visit(at, changed, modified)
	return surprise
}

// told records a notice that a page has changed; false if the crawler knew of that change from its last visit.
func (v *view) told(x notice, now float64) bool {
	p, at := &v.pages[x.page], clock(now)
	switch {
	case x.claimed < daysAt(p.Last):
		return false
	case v.policy.Known:
		if p.Heard.Notices++; p.Heard.Notices == 1 {
			p.Heard.Noticed = at
		}
		p.Heard.Until = at
	default:
		post, recall := p.Posterior(), 0.
		if !p.Listed {
			if n := &p.Site.Signal.Numbers; n.Sure {
				n.Add(1, 0)
			}
			recall = p.Site.Signal.Recall()
		}
		p.History = p.History.Notice(at, clock(x.claimed), p.Site.Signal.PrecisionOf(&post), recall)
		p.Heard.Notified = v.policy.FetchOutsideBudget
	}
	return true
}

// read records that the manifest of a site was read, and which pages it named. It reports whether the silence of the site is no longer
// believed.
func (v *view) read(s *site, now float64, named map[int32]int) (surprise bool) {
	s.Manifest.Read = clock(now)
	if v.policy.Polls != nil {
		s.polls = s.polls.Poll(poll.Poll{At: clock(now), New: len(named)})
	}
	for _, i := range s.unsure {
		if _, ok := named[i]; !ok {
			heeded := v.pages[i].Heeded()
			v.manifests.Missed(&s.Site)
			surprise = surprise || heeded && !v.pages[i].Heeded()
		}
	}
	s.unsure = s.unsure[:0]
	return surprise
}
