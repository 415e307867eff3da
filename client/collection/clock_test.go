package collection_test

import (
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
)

// A page whose fetch failed while the clock was ahead does not wait until that future time comes.
func TestFailuresWhileTheClockWasAhead(t *testing.T) {
	const day = 24 * time.Hour
	r := newRig(t)
	r.find("/held", "/failing", "/refused", "/moved", "/before")
	for _, path := range []string{"/held", "/failing", "/moved"} {
		r.visit(path, 200, "as it was")
	}
	r.visit("/before", 403, "")
	right := r.now
	r.wait(365 * day)
	r.visit("/failing", 503, "")
	r.visit("/refused", 403, "")
	v := r.answer("/moved", 301, "")
	v.Target = &finds(2, "/there")[0]
	r.commit(collection.Commit{Visits: []collection.Visit{v}})
	r.reopen()
	for path, wait := range map[string]time.Duration{"/failing": time.Minute, "/refused": 7 * day, "/moved": 7 * day} {
		want(t, path+" while it is", r.due(path), wait)
	}
	r.now = right
	r.reopen()
	for path, wait := range map[string]time.Duration{"/failing": 0, "/refused": 0, "/moved": 0, "/before": 7 * day, "/held": day} {
		want(t, path+" once it is right", r.due(path), wait)
	}
	check(t, r.c)
	r.visit("/failing", 503, "") // the second time in a row
	r.reopen()
	want(t, "due after another failure", r.due("/failing"), 10*time.Minute)
	check(t, r.c)
}

// The same holds in a copy of one site, and for a clock that was only an hour ahead.
func TestCopyFailuresWhileTheClockWasAhead(t *testing.T) {
	r := newCopyRig(t)
	r.apply(whole(1, create("/a", "A"), create("/b", "B")))
	r.visit("/b", 503, "")
	want(t, "failed in time", r.rig.due("/b"), time.Minute)
	right := r.now
	r.wait(time.Hour)
	r.visit("/a", 503, "")
	r.now = right
	r.reopen()
	want(t, "failed an hour ahead", r.rig.due("/a"), 0)
	want(t, "failed in time", r.rig.due("/b"), time.Minute)
	r.visit("/a", 503, "")
	r.reopen()
	want(t, "failed again", r.rig.due("/a"), 10*time.Minute)
	check(t, r.c)
}
