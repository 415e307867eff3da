package crawl

import (
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/trust"
)

// believed returns the estimates of a site's pages and announcements.
func believed(st *site) fresh.Site {
	if st.Belief == nil {
		return fresh.Site{}
	}
	return *st.Belief
}

// believes sets the estimates of a site. The work's lock is held.
func (t *siteTable) believes(st *site, b fresh.Site) {
	st.Belief = &b
	t.touch(st)
}

// learn updates the estimates of a site by a visit, and by the outcome of the claim that led to it. unsure: the site's manifest
// may still show the change that the visit found. The work's lock is held.
func (r *revisits) learn(st *site, v *collection.Visit, d *collection.Visited, c claim, claimed bool, outcome trust.Outcome) (unsure bool) {
	r.truths.seen(v, d, st.Belief)
	heard := believed(st)
	if v.Fault == "" && d.Before.Visits > 0 && d.Page.State == collection.Held && proved(claimed, outcome, d) {
		p := fresh.Page{History: d.Before, Site: st.Belief, Listed: d.Page.Listed}
		post, h := p.Posterior(), p.Hearing(v.Asked)
		switch right := outcome == trust.Right; {
		case claimed && st.sources.listens():
			r.revisiting.manifests.Proved(&heard, &p, v.Asked, right)
		case claimed:
			heard.Signal.Proved(&post, h, right)
		case st.sources.listens():
			unsure = r.revisiting.manifests.Visited(&heard, &p, v.Asked, d.Differs)
		case h.Notices > 0 || heard.Tells:
			heard.Signal.Visited(&post, h, d.Differs)
		}
	}
	if claimed && outcome == trust.Right && !c.Modified.IsZero() && c.Modified.Before(c.At) {
		heard.Signal.Lagged(c.At.Sub(c.Modified).Hours() / 24)
	}
	if st.Belief == nil || heard != *st.Belief {
		r.sites.believes(st, heard)
	}
	return unsure
}

// proved reports whether a visit is evidence about its site's announcements. A body that differs from the announced one,
// without proving it wrong, is no evidence.
func proved(claimed bool, outcome trust.Outcome, d *collection.Visited) bool {
	if claimed {
		return outcome != trust.Void
	}
	return !d.Mismatched && d.Unstable != collection.UnstableText
}

// leftOut lowers the estimates of a site's manifest, which was just read, for each finding before a time that it still lacks.
// The work's lock is held.
func (r *revisits) leftOut(st *site, until time.Time) {
	missed := r.judge.missed(st, until)
	if missed == 0 {
		return
	}
	heard := believed(st)
	for range missed {
		r.revisiting.manifests.Missed(&heard)
	}
	r.sites.believes(st, heard)
}
