package fresh_test

import (
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// predicted is a page that was visited once, and is to change after so long.
func predicted(lasts time.Duration) fresh.History {
	h := fresh.History{}.Visit(epoch, false, time.Time{})
	h.Heard.Expires = epoch.Add(lasts)
	return h
}

// A visit proves a prediction right if it comes about when the page was to change, and wrong at any time.
func TestPredictionsAreJudged(t *testing.T) {
	h := predicted(3 * day)
	for _, c := range []struct {
		after        time.Duration
		changed      bool
		right, wrong float32
	}{
		{2 * day, false, 1, 0}, {2 * day, true, 0, 1},
		{3 * day, true, 1, 0}, {3 * day, false, 0, 1}, {9 * day, true, 1, 0},
		{23 * time.Hour, false, 0, 0}, {10 * day, true, 0, 0}, // too early to find a change, and too late to miss one
		{23 * time.Hour, true, 0, 1}, {10 * day, false, 0, 1},
		{-day, true, 0, 0}, {-day, false, 0, 0}, // a clock that goes back
	} {
		var p fresh.Predictions
		if p.Visited(&h, epoch.Add(c.after), c.changed); p != (fresh.Predictions{Right: c.right, Wrong: c.wrong}) {
			t.Errorf("after %v, changed %v: %+v", c.after, c.changed, p)
		}
	}
	var p fresh.Predictions
	for range 1000 {
		p.Visited(&h, epoch.Add(2*day), true)
	}
	for range 1000 { // the site has learned to predict
		p.Visited(&h, epoch.Add(2*day), false)
	}
	if p.Right < 200 || p.Wrong > 20 {
		t.Errorf("old predictions count for too long: %+v", p)
	}
	unpredicted := fresh.History{}.Visit(epoch, false, time.Time{})
	p = fresh.Predictions{}
	p.Visited(&unpredicted, epoch.Add(day), true)
	p.Visited(&fresh.History{}, epoch.Add(day), true)
	if p != (fresh.Predictions{}) {
		t.Errorf("without a prediction: %+v", p)
	}
}

// A site tells caches to ask again after a minute, or never, for pages that change now and then. Some of its headers happen to be right.
func TestLifetimesForCachesAreWorthless(t *testing.T) {
	p := fresh.Predictions{Right: 30}
	minute, year := predicted(time.Minute), predicted(365*day)
	for i := range 100 {
		p.Visited(&minute, epoch.Add(2*day), i%3 == 0)
		p.Visited(&year, epoch.Add(2*day), i%3 == 0)
	}
	if p.Right > p.Wrong {
		t.Errorf("they count: %+v", p)
	}
}

// A prediction is a hint: it counts after one visit, by what the site's predictions were worth, and then no more.
func TestPredictionsAreHints(t *testing.T) {
	mean := func(h fresh.History, p fresh.Predictions) float64 {
		post := (&fresh.Page{History: h, Site: &fresh.Site{Predictions: p}}).Posterior()
		return post.Mean()
	}
	good, bad := fresh.Predictions{Right: 30}, fresh.Predictions{Right: 15, Wrong: 15}
	soon, late := predicted(day), predicted(300*day)
	base := mean(fresh.History{}.Visit(epoch, false, time.Time{}), good)
	for _, h := range []fresh.History{soon, late} {
		for _, p := range []fresh.Predictions{{}, bad, {Wrong: 30}} {
			if got := mean(h, p); got != base {
				t.Errorf("predictions %+v change the rate from %v to %v", p, base, got)
			}
		}
	}
	if s, l, half := mean(soon, good), mean(late, good), mean(late, fresh.Predictions{Right: 20, Wrong: 10}); !(l < half && half < base && base < 10 && s > l*10) {
		t.Errorf("rates: %v if the page is to change in a day, %v in 300, %v if a third of that is wrong, and %v if nothing is predicted", s, l, half, base)
	}
	if got := late.Notice(epoch.Add(time.Hour), time.Time{}, .5, .5).WithoutNotices(); !got.Heard.Expires.Equal(late.Heard.Expires) {
		t.Errorf("after notices that were worthless, the prediction is %v", got.Heard.Expires)
	}
	again := late.Visit(epoch.Add(day), true, time.Time{})
	again.Heard.Expires = epoch.Add(300 * day)
	if got, want := mean(again, good), mean(again, fresh.Predictions{}); got != want {
		t.Errorf("after a second visit the rate is %v with a prediction, and %v without", got, want)
	}
}
