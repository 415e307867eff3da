package fresh

import (
	"cmp"
	"math"
	"strings"
	"time"
)

// AuditShare is the share of its usual visits that a page gets at least, even if its site publishes changes and announces none of it.
const AuditShare = 0.1

// Audits are what visits to pages that a site had not announced have shown of its silence, by source (what it pushes, and its
// manifest) and there for all its pages, which come first, and by directory. Those of a [Site] are shared, and never modified.
type Audits [2 * perSource]untold

const (
	directories = 16 // of a site that are told apart: more share the evidence
	perSource   = 1 + directories

	pushed, polled = 0, perSource // sources: the index of what is known of all their pages
)

// Directory is the number of the directory of a page, for [Page].
func Directory(url string) uint8 {
	path, _, _ := strings.Cut(url, "?")
	h := uint32(2166136261) // FNV-1a
	for _, c := range []byte(path[:strings.LastIndexByte(path, '/')+1]) {
		h = (h ^ uint32(c)) * 16777619
	}
	return uint8((h ^ h>>16) % directories)
}

// An untold has the probabilities that so many of a site's changes are announced to nobody: untoldShares. The zero value is that of a
// site that no audit has tested.
type untold [5]float32

// Before an audit, a site is taken to announce nearly all, but every other share is possible; and one in surprises audits finds a
// site that is not what it was, for which a directory is taken to be like its site, and a site like any. So what a site was
// for long is soon forgotten (a Bayesian test of a change at an unknown time, Shiryaev 1963).
var (
	untoldShares = untold{1 - mostRecall, .03, .1, .3, 1} // audits do not tell the first from none
	unaudited    = untold{.9, .025, .025, .025, .025}
)

const surprises = 125

// recall is the expected share of changes that are announced.
func (u untold) recall() float64 {
	if u == (untold{}) {
		return 1
	}
	sum := 0.
	for k, share := range u[1:] {
		sum += float64(share * untoldShares[1+k])
	}
	return max(0, 1-sum)
}

// audit adds the result of a visit to a page with the posterior p: the site could have told of a change of the first quiet days, and not of the
// last ones. others is what is known of pages like it.
func (u *untold) audit(p *Posterior, quiet, last float64, changed bool, others untold) {
	*u = cmp.Or(*u, others)
	sum := 0.
	var next [len(u)]float64
	for k := range u {
		seen := 0.
		for i, share := range p {
			if share > 0 {
				seen += share * math.Exp(-grid.rate[i]*(float64(untoldShares[k])*quiet+last))
			}
		}
		if changed {
			seen = 1 - seen
		}
		next[k] = max(seen, 1e-9) * float64(u[k]+(others[k]-u[k])/surprises)
		sum += next[k]
	}
	for k := range u {
		u[k] = float32(next[k] / sum)
	}
}

// share is the share of its usual visits that a page gets whatever its site says, where these are the audits of all sites: more than
// AuditShare if those whose silence is believed may announce nothing. The best number of visits grows with the square root of that of
// the changes that they may find. Sites that leave out some of their changes are no reason: each has its own recall.
func (all *Audits) share() float64 {
	return math.Sqrt(max(AuditShare*AuditShare, float64(all[pushed][4]-unaudited[4])))
}

// Audited records a visit to a page that its site s had not announced, at the time of the request: a notice that comes later proves
// nothing. The page is in its state before the visit. Of the changes that the site's manifest may name when it is read again, the first
// counts, and the others only if [Manifests.Missed] is called then: many pages may change at once between two polls. all counts
// visits to pushing sites whose silence is still believed, too, as if they were one site: where many fall silent at once, perhaps because the
// crawler itself no longer hears them, few audits of each show it.
func (all *Audits) Audited(s *Site, p *Page, at time.Time, changed bool) {
	source, told := p.source()
	if !told || p.Hearing(at).Notices > 0 {
		return
	}
	q := p.unheard()
	post := q.Posterior()
	quiet, last := q.Age(at), 0.
	if source == polled {
		quiet = days(span(p.Last, s.Manifest.Read))
		last = days(span(p.Last, at)) - quiet
	}
	shown, doubtful := &s.Audits, false
	if source == polled && changed {
		if doubtful = s.doubted.Equal(s.Manifest.Read); !doubtful {
			s.doubts, s.doubted = nil, s.Manifest.Read
		} else if shown = &s.doubts; s.doubts == nil {
			s.doubts = s.Audits
		}
	}
	a := *cmp.Or(*shown, new(Audits))
	site := &a[source]
	likely := cmp.Or(*site, unaudited)                                    // before this visit, which would count twice
	if source == pushed && p.proven(source, likely.recall()) > obliging { // Manifests compares manifests
		all[pushed].audit(&post, quiet, last, changed, unaudited)
	}
	site.audit(&post, quiet, last, changed, unaudited)
	a[source+1+int(p.Directory%directories)].audit(&post, quiet, last, changed, likely)
	if *shown = &a; !doubtful {
		s.limitRecall()
	}
}

// limitRecall limits the recall of the site's notices by what audits of all its pages have shown. Of a site that has never sent a notice,
// silence says nothing.
func (s *Site) limitRecall() {
	if s.Audits != nil && s.Signal != (Signal{}) {
		s.Signal.audited = float32(1 - s.Audits[pushed].recall())
	}
}

// source is the source of a page's notices, if its silence says something.
func (p *Page) source() (source int, told bool) {
	switch s := p.Site; {
	case s == nil || p.Visits <= 0:
	case s.Tells:
		return pushed, true
	case p.Listed && s.Manifest.Recall > 0:
		return polled, true
	}
	return 0, false
}

// proven limits the recall of a source by what audits of the page's directory have shown.
func (p *Page) proven(source int, recall float64) float64 {
	if s := p.Site; s.Audits != nil {
		return min(recall, cmp.Or(s.Audits[source+1+int(p.Directory%directories)], s.Audits[source]).recall())
	}
	return recall
}

// Heeded reports whether the silence of a page's site about its directory says something: audits have not shown that it leaves out half of
// the changes.
func (p *Page) Heeded() bool {
	source, told := p.source()
	return told && p.proven(source, 1) > obliging
}

// signal is that of the page's site, with the recall of its directory.
func (p *Page) signal() Signal {
	s := p.Site.Signal
	if s != (Signal{}) {
		s.audited = float32(1 - p.proven(pushed, 1))
	}
	return s
}

// unheard is the page as if its site had announced nothing since the last visit: what visits alone have shown.
func (p *Page) unheard() Page {
	h := p.History.WithoutNotices()
	h.Belief.Quiet = max(0, h.Belief.Quiet-float32(days(span(h.Last, h.Heard.Confirmed))))
	h.Heard = Hearsay{}
	return Page{History: h, Importance: p.Importance, Length: p.Length, Site: &Site{Prior: p.Site.Prior, Extra: p.Site.Extra}}
}
