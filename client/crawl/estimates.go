package crawl

import (
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/judgement"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/trust"
	"github.com/parleyweb/parley/protocol"
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

// estimates learn how often the pages of sites change, and how right the sites' announcements are. They plan nothing: see
// revisits. The work's lock guards them, and the belief of each site.
type estimates struct {
	unplanned
	work      *work
	sites     *siteTable
	judge     *judgement.Judge
	truths    *judgement.Calibration
	manifests fresh.Manifests // of all sites whose only door is the manifest
	silence   fresh.Audits    // of all sites together
}

func (e *estimates) report(s *Status) {
	s.Truth, s.TruthOf = e.truths.Table(), e.truths.Of
	for _, st := range e.sites.byID {
		if b, sum := st.Belief, &s.Predictions; b != nil {
			sum.Right, sum.Wrong = sum.Right+b.Predictions.Right, sum.Wrong+b.Predictions.Wrong
		}
	}
}

// publishes records whether a site publishes its changes now.
func (e *estimates) publishes(st *site) {
	b := believed(st)
	if b.Tells = st.sources.pushes(); !st.sources.listens() && e.work.ctx.Err() == nil { // at the end of a run it stays, for the next run
		b.Manifest = fresh.Manifest{}
	}
	if b != believed(st) {
		e.sites.believes(st, b)
	}
}

// reading returns when a manifest was read the time before, and a function to be called with each of its entries of stored pages.
func (e *estimates) reading(st *site, step *client.Step, now time.Time) (last time.Time, listed func(*collection.Page, *protocol.Item)) {
	e.work.Lock()
	defer e.work.Unlock()
	last, belief := st.polled, st.Belief
	if judgement.LastOf(step) { // then st.polled is the time of this poll already
		last = st.polledBefore
	}
	return last, func(p *collection.Page, item *protocol.Item) { e.truths.Listed(p, item, last, now, belief) }
}

func (e *estimates) announced(st *site, step *client.Step, by collection.Signal, pending int) {
	switch heard := believed(st); {
	case len(step.Changes) > 0 && (by == collection.ByStream || by == collection.ByChanges): // they are numbered, unlike those of a manifest
		heard.Signal.Numbers.Add(len(step.Changes), 0)
		e.sites.believes(st, heard)
	case by == collection.ByManifest && heard.Signal.Numbers.Sure && !st.sources.listens() && pending > 0: // there was a gap in the numbers: the manifest names the lost changes
		heard.Signal.Numbers.Add(0, pending)
		e.sites.believes(st, heard)
	}
	if by == collection.ByManifest && judgement.LastOf(step) {
		e.leftOut(st, st.polledBefore)
	}
}

// nextPoll records a poll of a site's manifest that is new, and returns how long after it the next one is due.
func (e *estimates) nextPoll(st *site, last time.Time) time.Duration {
	if !last.After(st.polled) { // it may be that of another manifest of the site
		return e.every
	}
	until := last.Add(-longestPoll) // even if the manifest has not changed since
	if st.polledBefore.Before(until) {
		until = st.polledBefore
	}
	e.leftOut(st, until)
	st.polledBefore, st.polled = st.polled, last
	if b := believed(st); b.Manifest.Recall > 0 {
		b.Manifest.Read = last
		e.sites.believes(st, b)
	}
	return e.every
}

func (e *estimates) visited(st *site, v *collection.Visit, d *collection.Visited, of *judgement.Verdict) (unsure bool) {
	e.truths.Seen(v, d, st.Belief)
	heard := believed(st)
	if v.Fault == "" && d.Before.Visits > 0 && d.Page.State == collection.Held && proved(of, d) {
		heard.Predictions.Visited(&d.Before, v.Asked, d.Differs)
		p := fresh.Page{History: d.Before, Site: st.Belief, Listed: d.Page.Listed, Directory: fresh.Directory(d.Page.URL)}
		post, h := p.Posterior(), p.Hearing(v.Asked)
		if !of.Claimed && !v.Delivered && !v.Shared {
			e.silence.Audited(&heard, &p, v.Asked, d.Differs)
		}
		switch {
		case of.Claimed && st.sources.listens():
			e.manifests.Proved(&heard, &p, v.Asked, of.Right() && !d.Trifling)
		case of.Claimed:
			heard.Signal.Proved(&post, h, of.Right() && !d.Trifling)
		case st.sources.listens():
			unsure = e.manifests.Visited(&heard, &p, v.Asked, d.Differs)
		case h.Notices > 0 || heard.Tells:
			heard.Signal.Visited(&post, h, d.Differs)
		case !v.Delivered && !v.Shared:
			fresh.LearnTempo(&heard, &p, v.Asked, d.Differs, st.Pages)
		}
	}
	if of.Right() && !of.Modified.IsZero() && of.Modified.Before(of.At) {
		heard.Signal.Lagged(of.At.Sub(of.Modified).Hours() / 24)
	}
	if st.Belief == nil || heard != *st.Belief {
		e.sites.believes(st, heard)
	}
	return unsure
}

// proved reports whether a visit is evidence about its site's announcements. A body that differs from the announced one,
// without proving it wrong, is no evidence.
func proved(of *judgement.Verdict, d *collection.Visited) bool {
	if of.Claimed {
		return of.Outcome != trust.Void
	}
	return !d.Mismatched && d.Unstable != collection.UnstableText
}

// leftOut lowers the estimates of a site's manifest, which was just read, for each finding before a time that it still lacks.
// The work's lock is held.
func (e *estimates) leftOut(st *site, until time.Time) {
	missed := e.judge.Missed(st.standing, until)
	if missed == 0 {
		return
	}
	heard := believed(st)
	for range missed {
		e.manifests.Missed(&heard)
	}
	e.sites.believes(st, heard)
}
