package fresh_test

import (
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// daily is a page of a site, last visited a day ago, that has changed about once a day so far.
func daily(site *fresh.Site, directory uint8, now time.Time) *fresh.Page {
	h := fresh.History{}.Visit(now.Add(-41*day), false, time.Time{})
	for n := range 40 {
		h = h.Visit(now.Add(time.Duration(n-40)*day), n%3 > 0, time.Time{})
	}
	h.Last = now.Add(-day)
	return &fresh.Page{History: h, Importance: 1, Site: site, Directory: directory}
}

// Changes announced in one directory do not hide the silence in another.
func TestDirectoriesAreAuditedApart(t *testing.T) {
	site := fresh.Site{Tells: true, Signal: fresh.Signal{Heard: 200, Due: 200, Silent: 200, Right: 200}}
	honest, silent, unknown := daily(&site, 1, epoch), daily(&site, 2, epoch), daily(&site, 3, epoch)
	for n := range 60 {
		site.Audited(honest, epoch, false)
		if n >= 40 {
			site.Audited(silent, epoch, n%3 > 0)
		}
	}
	if !honest.Heeded() || silent.Heeded() || !unknown.Heeded() {
		t.Errorf("heeded: %v where all changes are announced, %v where none is, %v in a directory without audits", honest.Heeded(), silent.Heeded(), unknown.Heeded())
	}
	if said, hidden := honest.Fresh(epoch), silent.Fresh(epoch); said < .9 || hidden > .6 {
		t.Errorf("a day after a visit, copies are right with probability %.2f and %.2f", said, hidden)
	}
}

// A notice that comes after an audit was sent does not tell of the change that the audit finds.
func TestNoticeAfterAuditIsLate(t *testing.T) {
	site := fresh.Site{Tells: true, Signal: fresh.Signal{Heard: 200, Due: 200, Silent: 200, Right: 200}}
	for range 10 {
		p := daily(&site, 0, epoch)
		p.History = p.Notice(epoch.Add(time.Second), epoch, .9, .9)
		site.Audited(p, epoch, true)
	}
	p := daily(&site, 0, epoch)
	if p.Heeded() {
		t.Error("a site that announces what audits have just found is heeded")
	}
	site.Audits = nil
	for range 10 {
		p := daily(&site, 0, epoch)
		p.History = p.Notice(epoch.Add(-time.Second), epoch, .9, .9)
		site.Audited(p, epoch, true)
	}
	if site.Audits != nil {
		t.Error("visits because of notices count as audits")
	}
}
