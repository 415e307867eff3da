package crawl

import (
	"net/http"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/explain"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/gather"
)

// visited evaluates a visit: it judges the announcement that led to it, charges the
// budget, and updates the estimates of the site. The work's lock is held.
func (k *committer) visited(v *collection.Visit, d *collection.Visited) {
	st := k.sites.byID[d.Page.Site]
	if st == nil {
		return
	}
	switch {
	case v.Status != 0:
		st.silences = 0
		k.sites.recovered(st)
	case v.Silent:
		k.sites.failed(st, v.Fault)
	}
	if k.c.Only != "" { // each visit of a copy is logged
		explain.LogVisit(k.c.Log, v, d)
	}
	if d.Page.Told && d.Page.At.IsZero() { // announced again while it was being fetched
		k.front.First(frontier.Entry{Page: d.Page.ID, Site: d.Page.Site})
	}
	if d.Changed {
		k.count.Changed.Add(1)
	}
	if d.Duplicate {
		k.count.Duplicates.Add(1)
	}
	switch {
	case v.Delivered || v.Status == 0 || d.Before.Visits == 0:
	case d.Asked > 0:
		k.count.Again.Add(1)
	case !d.Before.Heard.Notified && st.sources.publisher != nil:
		k.count.Audits.Add(1)
	}
	of, news := k.judge.Visited(st.standing, v, d)
	if news {
		k.sites.touch(st)
	}
	if k.plan.visited(st, v, d, &of) {
		k.judge.Found(st.standing, v, d)
	}
	if v.Fault == "" && d.Before.Visits > 0 && (gather.IsPage(v.Status) || v.Status == http.StatusNotModified) && !v.Soft404 {
		k.judge.SeenDates(st.standing, v, d, st.sources.read, st.polled)
	}
}
