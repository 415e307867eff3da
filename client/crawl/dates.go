package crawl

import (
	"net/http"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/trust"
	"github.com/parleyweb/parley/protocol"
)

// mostDates is how many dates of a manifest are collected to judge them together.
const mostDates = 20_000

// census judges the dates of a manifest without digests, where dates are the only signal. It
// judges those of all steps of a snapshot together, since one step may be a directory whose
// files were created at the same time.
func (j *judgement) census(st *site, step *client.Step, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if step.Reset {
		st.dates = nil
	}
	for i := range step.Changes {
		if item := &step.Changes[i].Item; item.Digest.IsZero() && len(st.dates) < mostDates {
			st.dates = append(st.dates, protocol.Date{Time: item.Modified, Span: item.Span})
		}
	}
	if !lastOf(step) {
		return
	}
	if len(st.dates) > 0 {
		st.trust.Date(string(collection.ByManifest)).Census(st.dates, now)
	}
	st.dates = nil
}

// brokeOff forgets the dates of a manifest that was not read to its end.
func (j *judgement) brokeOff(st *site) {
	j.mu.Lock()
	defer j.mu.Unlock()
	st.dates = nil
}

// date judges the dates of a sitemap or a feed.
func (j *judgement) date(st *site, by collection.Signal, dates []protocol.Date, read time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	st.trust.Date(string(by)).Census(dates, read)
}

// lastOf reports whether a step is the last one of a manifest. In an incomplete
// manifest only its cursor shows that.
func lastOf(step *client.Step) bool { return step.Whole || !step.Cursor.IsZero() }

// seenDates judges by a visit the dates that a site states: in Last-Modified, and in the
// sitemap, feed or manifest that announced the page. unsure: the manifest may show the visit's finding later. The work's lock
// is held.
func (j *judgement) seenDates(st *site, v *collection.Visit, d *collection.Visited, unsure bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if unsure && len(st.unsure) < mostUnsure {
		st.unsure[d.Page.ID] = finding{at: v.Asked, before: d.Before.Last}
	}
	if v.Fault != "" || d.Before.Visits == 0 || !isPage(v.Status) && v.Status != http.StatusNotModified || v.Soft404 {
		return
	}
	if t, err := http.ParseTime(v.LastModified); err == nil {
		before, _ := http.ParseTime(d.Stated)
		st.trust.Date(headerDates).Visit(trust.Sight{Stated: t, Span: time.Second, Before: before, Last: d.Before.Last, Read: v.Asked, Asked: v.Asked, Changed: d.Differs})
	}
	by := d.Page.Signal
	told, said := d.Page.Claim()
	if by != collection.BySitemap && by != collection.ByFeed && by != collection.ByManifest || said.IsZero() || told.After(v.Asked) {
		return
	}
	s := trust.Sight{Stated: said, Span: d.Page.Coarse(), Last: d.Before.Last, Read: told, Asked: v.Asked, Changed: d.Differs}
	if told.Before(d.Before.Last) {
		// It has announced no change since our last visit: its date is as before.
		// A feed drops its older entries, and says nothing about them.
		switch s.Before = said; by {
		case collection.BySitemap:
			s.Read = st.sources.read()
		case collection.ByManifest:
			s.Read = st.polled
		default:
			return
		}
	}
	st.trust.Date(string(by)).Visit(s)
}

// confirms reports whether an unchanged date means that the stored page is current: only
// where visits have shown that the dates move when pages change. Otherwise frozen dates
// would prevent the very visits that expose them. It is not used where there is a digest,
// which decides by itself.
func (j *judgement) confirms(st *site, by collection.Signal) bool {
	if by != collection.BySitemap && by != collection.ByFeed && by != collection.ByManifest {
		return true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return st.trust.Date(string(by)).Worth() == trust.Good
}
