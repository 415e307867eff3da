package crawl

import (
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/client/trust"
	"github.com/parleyweb/parley/protocol"
)

// A claim is an announcement of a page that is being fetched because of it. The
// visit judges the claim.
type claim struct {
	trust.Claim
	site *site
	by   collection.Signal
}

// heeds reports whether a site's announcement of a known page is taken as one.
func (r *run) heeds(st *site, by collection.Signal, item *protocol.Item, now time.Time) bool {
	r.judging.Lock()
	defer r.judging.Unlock()
	if by == collection.BySitemap || by == collection.ByFeed || by == collection.ByManifest {
		if item.Digest.IsZero() && !st.trust.Date(string(by)).Worth().Signal() {
			return false // its dates are no signal
		}
	}
	return r.Trust.Notice(st.trust.Source(string(by)), now).Taken()
}

// judged updates the trust in the source that led to a visit; no other function does. It returns the claim, if the
// page was fetched because of one, its outcome, and whether the site's record has changed. The run's lock is held.
func (r *run) judged(st *site, v *collection.Visit, d *collection.Visited) (c claim, claimed bool, outcome trust.Outcome, news bool) {
	r.judging.Lock()
	defer r.judging.Unlock()
	bodies := &st.trust.Bodies
	switch {
	case v.Delivered || v.Shared: // not a response of the page's own URL
	case d.Wavered:
		bodies.Count(&bodies.Unstable)
		if d.Unstable == collection.UnstableText {
			bodies.Count(&bodies.Restless)
		}
		news = true
	case d.Matched:
		bodies.Count(&bodies.Matched)
		news = true
	}
	c, claimed = r.claims[d.Page.ID]
	if !claimed {
		return c, false, trust.Void, news
	}
	delete(r.claims, d.Page.ID)
	st.underWay[c.by]--
	st.full = false
	told, _ := d.Page.Claim()
	seen := trust.Seen{Asked: v.Asked, Status: v.Status, Digest: d.Page.Digest, Text: v.Text, Length: d.Page.Length, Cut: v.Cut, Modified: v.Modified,
		Unstable: d.Unstable != collection.Stable, Varying: d.Unstable == collection.UnstableText, TextProved: bodies.Texts > 0,
		Changed: d.Differs || d.Changed && !c.Digest.IsZero() && d.Unstable == collection.Stable, Soft404: v.Soft404, Duplicate: d.Duplicate, Again: d.Page.Told && d.Mismatched, Later: d.Page.Told && told.After(v.Asked)}
	if v.Fault != "" {
		seen.Status = 0
	}
	if seen.Unstable && !c.Text.IsZero() && c.Text == v.Text {
		bodies.Count(&bodies.Texts)
	}
	if d.Before.Visits > 0 {
		// It is not stored whether the previous visit found a change: if it may have, a notice that came soon after it is
		// no lie. Nor is a notice that came before all visits: the first visit brought the content that later ones found again.
		seen.Last = d.Before.Last
		seen.LastChanged = d.Before.Visits == 1 || !d.Before.First.Before(c.At) || d.Before.Changes > 0 && c.At.Sub(d.Before.Last) < justChanged
	}
	voice := st.trust.Source(string(c.by))
	_, mute := voice.Muted()
	outcome = trust.Judge(c.Claim, seen)
	r.Trust.Outcome(voice, outcome, v.Asked)
	if _, now := voice.Muted(); now && !mute {
		st.muted[c.by] = v.Asked
	}
	return c, true, outcome, true
}

// A claimDecision is what to do with an announced page that is next in the queue.
type claimDecision int

const (
	ask       claimDecision = iota
	wait                    // until other claims of the same source are judged
	unbelieve               // the source was found to lie since
)

// believe decides whether an announced page is fetched. A source may have only as
// many claims under way as MaxInFlight permits: else thousands of false claims would
// all cause visits before the first one is judged.
func (r *run) believe(st *site, p *collection.Page) claimDecision {
	if !p.Told || p.Visits == 0 || !isSourceSignal(p.Signal) || r.Only != "" {
		return ask
	}
	at, modified := p.Claim()
	r.judging.Lock()
	defer r.judging.Unlock()
	v := st.trust.Source(string(p.Signal))
	if _, mute := v.Muted(); mute && !at.After(st.muted[p.Signal]) {
		return unbelieve
	}
	if st.underWay[p.Signal] >= r.Trust.MaxInFlight(v) {
		return wait
	}
	if _, ok := r.claims[p.ID]; !ok {
		st.underWay[p.Signal]++
	}
	r.claims[p.ID] = claim{site: st, by: p.Signal, Claim: trust.Claim{At: at, Modified: modified, Digest: p.Debt, Text: p.DebtText, Length: p.DebtLength}}
	return ask
}

// isSourceSignal reports whether a signal comes from the site itself.
func isSourceSignal(s collection.Signal) bool {
	switch s {
	case collection.BySitemap, collection.ByFeed, collection.ByManifest, collection.ByChanges, collection.ByStream, collection.ByIndexNow:
		return true
	}
	return false
}

// unasked undoes believe for pages that were not fetched after all.
func (r *run) unasked(pages []frontier.PageID) {
	r.judging.Lock()
	defer r.judging.Unlock()
	for _, id := range pages {
		if c, ok := r.claims[id]; ok {
			delete(r.claims, id)
			c.site.underWay[c.by]--
			c.site.full = false
		}
	}
}

// justChanged: a notice that comes so soon after a visit that found a change may be about that change.
const justChanged = 10 * time.Minute

// tells reports whether a site publishes its changes now, and is believed.
func (r *run) tells(st *site) bool {
	if st.tells == nil {
		return false
	}
	r.judging.Lock()
	defer r.judging.Unlock()
	for i := range st.trust.Sources {
		if v := &st.trust.Sources[i]; v.Name != string(collection.BySitemap) && v.Name != string(collection.ByFeed) {
			if _, mute := v.Muted(); mute || v.Rationed {
				return false
			}
		}
	}
	return true
}

// unstable returns which part of a site's pages usually differs at each request.
func (r *run) unstable(st *site) collection.Unstable {
	if st == nil {
		return collection.Stable
	}
	r.judging.Lock()
	defer r.judging.Unlock()
	switch is, restless := st.trust.Bodies.ByText(); {
	case restless:
		return collection.UnstableText
	case is:
		return collection.UnstableBody
	}
	return collection.Stable
}

// dated reports whether the Last-Modified of a site's responses is useful.
func (r *run) dated(st *site) bool {
	if st == nil {
		return true
	}
	r.judging.Lock()
	defer r.judging.Unlock()
	switch st.trust.Date(headerDates).Worth() {
	case trust.Now, trust.Alike, trust.Absurd, trust.False:
		return false
	}
	return true
}

// headerDates is the name of Last-Modified in the trust record.
const headerDates = "header"

// exact reports whether the digests of a site's pages have been right so far, and all its sources are believed.
func (r *run) exact(st *site) bool {
	r.judging.Lock()
	defer r.judging.Unlock()
	if is, _ := st.trust.Bodies.ByText(); is {
		return false
	}
	for i := range st.trust.Sources {
		if _, mute := st.trust.Sources[i].Muted(); mute {
			return false
		}
	}
	return true
}

// recorded returns the trust in a site as its record stores it.
func (r *run) recorded(st *site) []byte {
	r.judging.Lock()
	defer r.judging.Unlock()
	return st.trust.Append(nil)
}
