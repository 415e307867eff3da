package crawl

import (
	"net/http"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/trust"
	"github.com/parleyweb/parley/protocol"
)

// mostDates is how many dates of a manifest are kept to judge it as a whole.
const mostDates = 20_000

// census judges the dates of a manifest that states no digests, by which alone it tells then:
// all of a snapshot together, which comes in steps. A part may be one directory, that was made at once.
func (r *run) census(st *site, step *client.Step, now time.Time) {
	r.judging.Lock()
	defer r.judging.Unlock()
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

// lastOf reports whether a step is the last one of a look at a manifest. Of one that is not
// complete it has the cursor alone.
func lastOf(step *client.Step) bool { return step.Whole || !step.Cursor.IsZero() }

// seenDates takes in what a visit shows of the dates that a site states of its
// pages: in the answers, and in the sitemap, feed or manifest that told of the page. The run's
// lock and judging are held.
func (r *run) seenDates(st *site, v *collection.Visit, d *collection.Visited) {
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
		// It has not told of a change since our last visit: it says what it said.
		// A feed forgets its older entries, and says nothing about them.
		switch s.Before = said; by {
		case collection.BySitemap:
			s.Read = st.sitemapsRead()
		case collection.ByManifest:
			s.Read = st.looked
		default:
			return
		}
	}
	st.trust.Date(string(by)).Visit(s)
}

// sitemapsRead returns since when all sitemaps of a site are known as they are, the
// zero time if one could not be had.
func (st *site) sitemapsRead() (since time.Time) {
	for _, src := range st.sources {
		if src.Kind != collection.SitemapXML || src.Pages == 0 {
			continue
		}
		if src.Fails > 0 {
			return time.Time{}
		}
		if since.IsZero() || src.Polled.Before(since) {
			since = src.Polled
		}
	}
	return since
}

// confirms reports whether a date that has not moved means that a page is what we hold of
// it: only where visits have shown that the dates move when pages do. Frozen ones would
// else keep all visits off that could find that out. Where there is a digest, it says so
// itself, and nobody asks this.
func (r *run) confirms(st *site, by collection.Signal) bool {
	if by != collection.BySitemap && by != collection.ByFeed && by != collection.ByManifest {
		return true
	}
	r.judging.Lock()
	defer r.judging.Unlock()
	return st.trust.Date(string(by)).Worth() == trust.Good
}
