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
		new(fresh.Audits).Audited(&site, honest, epoch, false)
		if n >= 40 {
			new(fresh.Audits).Audited(&site, silent, epoch, n%3 > 0)
		}
	}
	if !honest.Heeded() || silent.Heeded() || !unknown.Heeded() {
		t.Errorf("heeded: %v where all changes are announced, %v where none is, %v in a directory without audits", honest.Heeded(), silent.Heeded(), unknown.Heeded())
	}
	if said, hidden := honest.Fresh(epoch), silent.Fresh(epoch); said < .9 || hidden > .6 {
		t.Errorf("a day after a visit, copies are right with probability %.2f and %.2f", said, hidden)
	}
}

// Sites that fall silent together are found out by the audits of all, before those of any one of them show it; what visits to sites that
// are known to be silent find is no reason to audit the others. A Rule makes no audits.
func TestSitesFallSilentTogether(t *testing.T) {
	var all fresh.Audits
	sites := make([]fresh.Site, 12)
	audit := func(rounds int, found func(round, site int) bool) {
		for n := range rounds {
			for s := range sites {
				all.Audited(&sites[s], daily(&sites[s], 0, epoch), epoch, found(n, s))
			}
		}
	}
	share := func() float64 {
		p := fresh.Planning{Silence: &all}
		return p.Plan().Audit
	}
	quiet := func(int, int) bool { return false }
	for s := range sites {
		sites[s] = fresh.Site{Tells: true, Signal: fresh.Signal{Heard: 200, Due: 200, Silent: 200, Right: 200}}
	}
	if audit(5, quiet); share() != fresh.AuditShare {
		t.Errorf("a share of %.2f for audits of honest sites", share())
	}
	audit(1, func(_, s int) bool { return s%3 > 0 })
	for s := range sites {
		if p := daily(&sites[s], 0, epoch); !p.Heeded() {
			t.Errorf("site %d is found out by itself", s)
		}
	}
	if share() < .8 {
		t.Errorf("a share of %.2f for audits once most sites have fallen silent", share())
	}
	audit(15, func(n, s int) bool { return s < 4 && n%3 > 0 })
	if p := daily(&sites[0], 0, epoch); p.Heeded() || share() != fresh.AuditShare {
		t.Errorf("a share of %.2f for audits once those of four sites have shown their silence, and those of eight that they are honest", share())
	}
	if audit(20, func(n, s int) bool { return s < 4 && n%3 > 0 || (n+s)%20 == 0 }); share() != fresh.AuditShare {
		t.Errorf("a share of %.2f for audits of sites that leave out a tenth of their changes", share())
	}
	if p := (fresh.Planning{Silence: &all, Priced: fresh.Priced{Objective: fresh.Objective{Rule: "uniform"}}}); p.Plan().Audit != 0 {
		t.Error("a rule makes audits")
	}
}

// A notice that comes after an audit was sent does not tell of the change that the audit finds.
func TestNoticeAfterAuditIsLate(t *testing.T) {
	site := fresh.Site{Tells: true, Signal: fresh.Signal{Heard: 200, Due: 200, Silent: 200, Right: 200}}
	for range 10 {
		p := daily(&site, 0, epoch)
		p.History = p.Notice(epoch.Add(time.Second), epoch, .9, .9)
		new(fresh.Audits).Audited(&site, p, epoch, true)
	}
	p := daily(&site, 0, epoch)
	if p.Heeded() {
		t.Error("a site that announces what audits have just found is heeded")
	}
	site.Audits = nil
	for range 10 {
		p := daily(&site, 0, epoch)
		p.History = p.Notice(epoch.Add(-time.Second), epoch, .9, .9)
		new(fresh.Audits).Audited(&site, p, epoch, true)
	}
	if site.Audits != nil {
		t.Error("visits because of notices count as audits")
	}
}
