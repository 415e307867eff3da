package crawl

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/parleyweb/parley/client/collection"
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
	if k.logsVisits {
		logVisit(k.c.Log, v, d)
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

// logVisit logs the result of a visit to a page of the one site.
func logVisit(log *slog.Logger, v *collection.Visit, d *collection.Visited) {
	p := &d.Page
	switch {
	case v.Exclude != "":
		log.Info("page is forbidden", "url", p.URL, "rule", v.Exclude)
	case d.Gone:
		log.Debug("page is gone", "url", p.URL)
	case p.Fails > 0:
		log.Warn("page could not be fetched", "url", p.URL, "fault", p.Fault, "again", whenAgain(p.At))
	case d.Mismatched:
		log.Warn("page differs from its published digest", "url", p.URL, "got", p.Digest, "again", whenAgain(p.At))
		if d.Demoted {
			log.Warn("digests of this site have never matched: pages are stored without waiting for a match")
		}
	default:
		log.Debug("fresh", "url", p.URL, "status", v.Status, "bytes", p.Length, "changed", d.Changed)
	}
}

// whenAgain says when a page is fetched again.
func whenAgain(at time.Time) string {
	if !at.Before(collection.Never) {
		return "when the site announces it again"
	}
	return at.UTC().Format(time.RFC3339)
}
