package explain

import (
	"log/slog"
	"time"

	"github.com/parleyweb/parley/client/collection"
)

// LogVisit logs the result of a visit to a page.
func LogVisit(log *slog.Logger, v *collection.Visit, d *collection.Visited) {
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
