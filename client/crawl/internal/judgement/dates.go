package judgement

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

// Census judges the dates of a manifest without digests, where dates are the only signal. It
// judges those of all steps of a snapshot together, since one step may be a directory whose
// files were created at the same time.
func (j *Judge) Census(st *Standing, step *client.Step, now time.Time) {
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
	if !LastOf(step) {
		return
	}
	if len(st.dates) > 0 {
		st.trust.Date(string(collection.ByManifest)).Census(st.dates, now, j.rules.Dates)
	}
	st.dates = nil
}

// BrokeOff forgets the dates of a manifest that was not read to its end.
func (j *Judge) BrokeOff(st *Standing) {
	j.mu.Lock()
	defer j.mu.Unlock()
	st.dates = nil
}

// Date judges the dates of a sitemap or a feed.
func (j *Judge) Date(st *Standing, by collection.Signal, dates []protocol.Date, read time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	st.trust.Date(string(by)).Census(dates, read, j.rules.Dates)
}

// LastOf reports whether a step is the last one of a manifest. In an incomplete
// manifest only its cursor shows that.
func LastOf(step *client.Step) bool { return step.Whole || !step.Cursor.IsZero() }

// Found records a change that an unannounced visit has found, and that the site's manifest may show when it is next read.
func (j *Judge) Found(st *Standing, v *collection.Visit, d *collection.Visited) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(st.unsure) < mostUnsure {
		st.unsure[d.Page.ID] = finding{at: v.Asked, before: d.Before.Last}
	}
}

// SeenDates judges by a visit, which got the page or a 304, the dates that a site states: in Last-Modified, and in the
// sitemap, feed or manifest that announced the page. The sitemaps were last read at sitemaps(), and the manifest at manifest.
func (j *Judge) SeenDates(st *Standing, v *collection.Visit, d *collection.Visited, sitemaps func() time.Time, manifest time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if t, err := http.ParseTime(v.LastModified); err == nil {
		before, _ := http.ParseTime(d.Stated)
		st.trust.Date(headerDates).Visit(trust.Sight{Stated: t, Span: time.Second, Before: before, Last: d.Before.Last, Read: v.Asked, Asked: v.Asked, Changed: d.Differs, Limits: j.rules.Dates})
	}
	by := d.Page.Signal
	told, said := d.Page.Claim()
	if by != collection.BySitemap && by != collection.ByFeed && by != collection.ByManifest || said.IsZero() || told.After(v.Asked) {
		return
	}
	s := trust.Sight{Stated: said, Span: d.Page.Coarse(), Last: d.Before.Last, Read: told, Asked: v.Asked, Changed: d.Differs, Limits: j.rules.Dates}
	if told.Before(d.Before.Last) {
		// It has announced no change since our last visit: its date is as before.
		// A feed drops its older entries, and says nothing about them.
		switch s.Before = said; by {
		case collection.BySitemap:
			s.Read = sitemaps()
		case collection.ByManifest:
			s.Read = manifest
		default:
			return
		}
	}
	st.trust.Date(string(by)).Visit(s)
}

// Confirms reports whether an unchanged date means that the stored page is current: only
// where visits have shown that the dates move when pages change. Otherwise frozen dates
// would prevent the very visits that expose them. It is not used where there is a digest,
// which decides by itself.
func (j *Judge) Confirms(st *Standing, by collection.Signal) bool {
	if by != collection.BySitemap && by != collection.ByFeed && by != collection.ByManifest {
		return true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return st.trust.Date(string(by)).Worth() == trust.Good
}

// A finding is a change that an unannounced visit has found, and that the manifest may show when it is next read.
type finding struct{ at, before time.Time } // of the visit, and of the previous one

const mostUnsure = 1000 // findings of a site

// CaughtUp removes the finding of a page if the manifest's entry shows that change.
func (j *Judge) CaughtUp(st *Standing, p *collection.Page, item *protocol.Item) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f, ok := st.unsure[p.ID]
	if !ok {
		return
	}
	modified, sane := protocol.SaneModified(item.Modified, time.Now(), j.rules.Dates)
	dated := sane && modified.After(f.before) && !modified.After(f.at) && st.trust.Date(string(collection.ByManifest)).Worth().Signal()
	if dated || !item.Digest.IsZero() && item.Digest == p.Digest {
		delete(st.unsure, p.ID)
	}
}

// Missed counts, and removes, the findings before a time that a site's manifest, which was just read, still lacks.
func (j *Judge) Missed(st *Standing, until time.Time) (missed int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for id, f := range st.unsure {
		if f.at.Before(until) {
			delete(st.unsure, id)
			st.trust.Date(string(collection.ByManifest)).LeftOut()
			missed++
		}
	}
	return missed
}
