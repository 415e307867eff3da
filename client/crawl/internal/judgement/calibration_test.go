package judgement_test

import (
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/judgement"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// Visits to two sites show how right the estimates were: of each site, and in the table of all pages.
func TestCalibrationOfSites(t *testing.T) {
	var c judgement.Calibration
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	before := fresh.History{}.Visit(now.Add(-48*time.Hour), true, time.Time{}).Visit(now.Add(-24*time.Hour), true, time.Time{})
	visit := func(site frontier.SiteID, differs bool) {
		d := &collection.Visited{Page: collection.Page{Site: site, State: collection.Held}, Before: before, Differs: differs}
		c.Seen(&collection.Visit{Asked: now, Status: 200}, d, nil)
	}
	for _, differs := range []bool{true, false, false, false} {
		visit(1, differs)
	}
	visit(2, true)
	one, two, none := c.Of(1), c.Of(2), c.Of(3)
	if one.Pages != 4 || one.Found != 0.75 || !(one.Expected > 0 && one.Expected < 1) || two != (judgement.Decile{Pages: 1, Expected: one.Expected}) || none != (judgement.Decile{}) {
		t.Errorf("of the sites: %+v, %+v, %+v", one, two, none)
	}
	for _, d := range c.Table() {
		if d.Pages != 0 && (d.Pages != 5 || d.Found != 0.6) {
			t.Errorf("of all pages: %+v", d)
		}
	}
}
