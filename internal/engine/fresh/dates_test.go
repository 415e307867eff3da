package fresh_test

import (
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// A site that was built five minutes ago says little of how often its pages change, and pages that were written one by one say it of each.
func TestPagesOfOneMinute(t *testing.T) {
	now := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	const pages = 100
	changes := func(written func(page int) time.Time) (dated, quiet float32) {
		var d fresh.Dates
		for i := range pages {
			d.Visit(2, fresh.History{}, now, false, now.Add(-time.Duration(i)*time.Hour)) // another site
			h := d.Visit(1, fresh.History{}, now, false, written(i))
			dated, quiet = dated+h.Belief.Dated, quiet+h.Belief.Quiet
			if again := d.Visit(1, h, now.Add(time.Hour), false, written(i)); again.Belief != h.Visit(now.Add(time.Hour), false, written(i)).Belief {
				t.Fatalf("page %d at its second visit: %+v", i, again)
			}
		}
		return dated, quiet
	}
	if dated, quiet := changes(func(int) time.Time { return now.Add(-5 * time.Minute) }); dated > 6 || quiet < pages/24-.1 {
		t.Errorf("written at once: %v changes in %v days", dated, quiet)
	}
	if dated, quiet := changes(func(i int) time.Time { return now.AddDate(0, 0, -30).Add(-time.Duration(i) * time.Second) }); dated > 10 || quiet < 30*pages {
		t.Errorf("written in two minutes, a month ago: %v changes in %v days", dated, quiet)
	}
	if dated, quiet := changes(func(i int) time.Time { return now.AddDate(0, 0, -i-1) }); dated != pages || quiet != pages*(pages+1)/2 {
		t.Errorf("written on as many days: %v changes in %v days", dated, quiet)
	}
	var many fresh.Dates // the dates of a bounded number of sites are remembered
	for site := range uint32(10_000) {
		if h := many.Visit(site, fresh.History{}, now, false, now.AddDate(0, 0, -1)); h.Belief.Dated != 1 {
			t.Fatalf("site %d: %v", site, h.Belief.Dated)
		}
	}
}
