// Package judgement decides which announcements of sites are believed, by how right earlier ones have been: their digests,
// their dates, and the changes that sources left out.
package judgement

import (
	"sync"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/trust"
	"github.com/parleyweb/parley/protocol"
)

// A Judge decides which announcements are believed. It is safe for concurrent use, and takes no other lock under its own.
type Judge struct {
	rules *trust.Rules

	mu     sync.Mutex                // guards the rest, and all standings
	claims map[frontier.PageID]claim // announcements of pages that are being fetched
}

// New returns a Judge with the parameters of the trust rule.
func New(rules *trust.Rules) *Judge {
	return &Judge{rules: rules, claims: map[frontier.PageID]claim{}}
}

// A Standing says how far a site's announcements are believed. Only the methods of the Judge use it.
type Standing struct {
	trust    trust.Record
	underWay map[collection.Signal]int       // announced pages that are being fetched and are not judged yet
	full     bool                            // a source waits for its claims to be judged, see Fill
	muted    map[collection.Signal]time.Time // when sources were muted in this run
	unsure   map[frontier.PageID]finding     // changes found by visits, which the site's manifest may still show
	dates    []protocol.Date                 // of the manifest that is being read, see Census
}

// Stored returns the standing of a site by its record; a damaged record counts as none.
func Stored(record []byte) *Standing {
	st := &Standing{underWay: map[collection.Signal]int{}, muted: map[collection.Signal]time.Time{}, unsure: map[frontier.PageID]finding{}}
	if rec, err := trust.Parse(record); err == nil {
		st.trust = rec
	}
	return st
}

// A claim is an announcement of a page that is being fetched because of it. The
// visit judges the claim.
type claim struct {
	trust.Claim
	site *Standing
	by   collection.Signal
}

// Heeds reports whether a site's announcement of a page that was visited before is believed enough to cause a visit.
func (j *Judge) Heeds(st *Standing, by collection.Signal, item *protocol.Item, now time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if by == collection.BySitemap || by == collection.ByFeed || by == collection.ByManifest {
		if item.Digest.IsZero() && !st.trust.Date(string(by)).Worth().Signal() {
			return false // its dates prove nothing
		}
	}
	return j.rules.Notice(st.trust.Source(string(by)), now).Taken()
}

// A Verdict is the outcome of the claim that led to a visit.
type Verdict struct {
	trust.Claim
	Claimed bool // the page was fetched because of a claim
	Outcome trust.Outcome
}

// Right reports whether a claim was right.
func (v *Verdict) Right() bool { return v.Claimed && v.Outcome == trust.Right }

// Visited updates the trust in the source that led to a visit; no other function does. It also returns whether the site's
// record has changed.
func (j *Judge) Visited(st *Standing, v *collection.Visit, d *collection.Visited) (of Verdict, news bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
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
	c, claimed := j.claims[d.Page.ID]
	if !claimed {
		return of, news
	}
	delete(j.claims, d.Page.ID)
	st.underWay[c.by]--
	st.full = false
	told, _ := d.Page.Claim()
	seen := trust.Seen{Asked: v.Asked, Status: v.Status, Digest: d.Page.Digest, Text: v.Text, Length: d.Page.Length, Cut: v.Cut, Modified: v.Modified,
		Unstable: d.Unstable != collection.Stable, Varying: d.Unstable == collection.UnstableText, TextProved: bodies.Texts > 0,
		Changed: d.Differs || d.Trifling || d.Changed && !c.Digest.IsZero() && d.Unstable == collection.Stable, Soft404: v.Soft404, Duplicate: d.Duplicate, Again: d.Page.Told && d.Mismatched, Later: d.Page.Told && told.After(v.Asked)}
	if v.Fault != "" {
		seen.Status = 0
	}
	if seen.Unstable && !c.Text.IsZero() && c.Text == v.Text {
		bodies.Count(&bodies.Texts)
	}
	if d.Before.Visits > 0 {
		// It is not stored whether the previous visit found a change. If it may have, a notice soon after that visit does not
		// count as false; nor does a notice from before the first visit, which may have brought the announced content.
		seen.Last = d.Before.Last
		seen.LastChanged = d.Before.Visits == 1 || !d.Before.First.Before(c.At) || d.Before.Changes > 0 && c.At.Sub(d.Before.Last) < justChanged
	}
	source := st.trust.Source(string(c.by))
	_, mute := source.Muted()
	outcome := trust.Judge(c.Claim, seen)
	j.rules.Outcome(source, outcome, v.Asked)
	if _, now := source.Muted(); now && !mute {
		st.muted[c.by] = v.Asked
	}
	return Verdict{c.Claim, true, outcome}, true
}

// A Decision is what to do with an announced page that is next in the queue.
type Decision int

const (
	Fetch     Decision = iota
	Wait               // until other claims of the same source are judged
	Unbelieve          // since the claim was made, its source was found to lie
)

// Believe decides whether an announced page is fetched. A source may have only as
// many claims under way as MaxInFlight permits: else thousands of false claims would
// all cause visits before the first one is judged.
func (j *Judge) Believe(st *Standing, p *collection.Page) Decision {
	if !p.Told || p.Visits == 0 || !FromSource(p.Signal) {
		return Fetch
	}
	at, modified := p.Claim()
	j.mu.Lock()
	defer j.mu.Unlock()
	v := st.trust.Source(string(p.Signal))
	if _, mute := v.Muted(); mute && !at.After(st.muted[p.Signal]) {
		return Unbelieve
	}
	if st.underWay[p.Signal] >= j.rules.MaxInFlight(v) {
		return Wait
	}
	if _, ok := j.claims[p.ID]; !ok {
		st.underWay[p.Signal]++
	}
	j.claims[p.ID] = claim{site: st, by: p.Signal, Claim: trust.Claim{At: at, Modified: modified, Digest: p.Debt, Text: p.DebtText, Length: p.DebtLength}}
	return Fetch
}

// FromSource reports whether a signal comes from the site itself.
func FromSource(s collection.Signal) bool {
	switch s {
	case collection.BySitemap, collection.ByFeed, collection.ByManifest, collection.ByChanges, collection.ByStream, collection.ByIndexNow:
		return true
	}
	return false
}

// NotFetched undoes Believe for pages that were not fetched after all.
func (j *Judge) NotFetched(pages []frontier.PageID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, id := range pages {
		if c, ok := j.claims[id]; ok {
			delete(j.claims, id)
			c.site.underWay[c.by]--
			c.site.full = false
		}
	}
}

// justChanged: a notice that comes so soon after a visit that found a change may be about that change.
const justChanged = 10 * time.Minute

// Fill records that a source of a site waits for its claims to be judged, and Full reports whether one does.
func (j *Judge) Fill(st *Standing) {
	j.mu.Lock()
	defer j.mu.Unlock()
	st.full = true
}

func (j *Judge) Full(st *Standing) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return st.full
}

// BelievesAll reports whether all sources of a site that announce changes are believed.
func (j *Judge) BelievesAll(st *Standing) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range st.trust.Sources {
		if v := &st.trust.Sources[i]; v.Name != string(collection.BySitemap) && v.Name != string(collection.ByFeed) {
			if _, mute := v.Muted(); mute || v.Rationed {
				return false
			}
		}
	}
	return true
}

// Pages returns which part of a site's pages usually differs at each request, and whether the Last-Modified of its responses is
// useful.
func (j *Judge) Pages(st *Standing) (part collection.Unstable, dated bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch is, restless := st.trust.Bodies.ByText(); {
	case restless:
		part = collection.UnstableText
	case is:
		part = collection.UnstableBody
	}
	switch st.trust.Date(headerDates).Worth() {
	case trust.Now, trust.Alike, trust.Absurd, trust.False:
		return part, false
	}
	return part, true
}

// headerDates is the name of Last-Modified in the trust record.
const headerDates = "header"

// Exact reports whether the digests of a site's pages have been right so far, and all its sources are believed.
func (j *Judge) Exact(st *Standing) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
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

// Recorded returns the trust in a site as its record stores it.
func (j *Judge) Recorded(st *Standing) []byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	return st.trust.Append(nil)
}
