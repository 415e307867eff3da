package crawl

import (
	"cmp"
	"container/heap"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/crosshost"
	"github.com/parleyweb/parley/client/crawl/internal/family"
	"github.com/parleyweb/parley/client/crawl/internal/judgement"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/protocol"
)

// A siteTable holds all sites and their sources. The work's lock guards it.
type siteTable struct {
	seeder       *seed.Seeder
	c            *setup
	work         *work
	byID         map[frontier.SiteID]*site
	byOrigin     map[string]*site
	due          sourceHeap
	halt         halt
	resting      map[*site]bool     // whose pages may have to wait, see rests
	dirty        map[*site]bool     // whose record is to be stored
	dirtySources map[*source]bool   // followed ones whose record is to be stored
	moved        map[string]*source // by the URL of a manifest that is to be read: that at the site's former address

	faults faultLog
}

// A halt is what a person has decided to be left alone. The work's lock guards it.
type halt struct {
	sources  []*source // due ones that wait until a person resumes their sites
	confined bool      // a person has set the domains, or the crawl has partitions: sites outside get no request
}

// A site is the engine's state of one origin. The work's lock guards it.
type site struct {
	collection.Site
	standing     *judgement.Standing
	sources      sourceSet
	welcomedBy   string    // base URL of the site whose welcome applies to this host
	deaf         bool      // polling its manifest for changes is not worth its cost
	weight       float64   // mean importance of its pages; 0: not known yet
	polled       time.Time // when its manifest was last polled
	polledBefore time.Time // when it was polled the time before
	parted       bool      // its manifest is in parts, of which a poll reads only those with changes
	soft         softProbe
	silences     int       // in a row, see leave
	ailing       bool      // it gives no answer, and that was logged
	asking       int       // its sources that are being fetched and are not committed yet
	few          int       // tasks: as long as more are left, it gets no others early
	many         bool      // mostAsking of its sources are being fetched: its pages no longer wait for them
	silent       string    // why nothing but its robots.txt may be fetched at present
	offer        *offer    // what it offers; nil: not known
	differs      bool      // it supports deltas between versions of a page (RFC 9842)
	bulking      int       // open requests for many of its pages
	delivering   int       // steps that are being applied, which may bring pages
	behind       time.Time // it has more changes to send, and its pages wait for them until then; zero if not
	firsts       int       // its manifests that are being read for the first time: its pages wait for them, unless there are more than mostAsking

	visits   uint         // in this run, see families.looks
	compared int          // pages whose words were compared since the last useless visit
	families *family.Tree // the yield of its URL families; nil: as stored
}

// load reads the sites and sources of earlier runs from the collection.
func (t *siteTable) load() error {
	for s := range t.c.Collection.Sites() {
		t.know(s)
		t.c.Harvester.Left(s.Origin, s.Pages)
	}
	all, err := t.c.Collection.Sources(0)
	if err != nil {
		return err
	}
	for _, s := range all {
		if st := t.byID[s.Site]; st != nil {
			t.adopt(st, s)
		}
	}
	for _, st := range t.byID {
		if st.sources.robots != nil && !st.sources.robots.Polled.IsZero() {
			t.obey(st, time.Now())
		}
	}
	return nil
}

// know makes a site from its record.
func (t *siteTable) know(s collection.Site) *site {
	st := &site{Site: s, sources: sourceSet{byURL: map[string]*source{}, named: map[string]bool{}}, standing: judgement.Stored(s.Trust)}
	t.byID[s.ID], t.byOrigin[s.Origin] = st, st
	if s.Quiet.After(time.Now().Add(cmp.Or(max(t.c.Quiet, 0), lastQuiet))) {
		st.Quiet = time.Time{} // the clock was ahead
	}
	if !st.Quiet.IsZero() {
		t.resting[st] = true
	}
	t.seeder.SetShape(s.Origin, s.Pages, s.Shape)
	t.c.Harvester.Seen(s.Origin, s.IP)
	return st
}

// adopt adds a source to a site, and schedules it.
func (t *siteTable) adopt(st *site, s collection.Source) {
	if src := st.sources.byURL[s.URL]; src != nil {
		src.ID = max(src.ID, s.ID)
		return
	}
	if s.Polled.After(time.Now()) {
		s.At = time.Time{} // the clock was ahead
	}
	src := &source{Source: s, site: st, index: -1}
	st.sources.byURL[s.URL] = src
	delete(st.sources.named, s.URL)
	if s.Kind == collection.Robots {
		st.sources.robots = src
	}
	heap.Push(&t.due, src)
}

// disbelieve drops the estimates of sites that an earlier version stored in a copy.
func (t *siteTable) disbelieve() {
	t.work.Lock()
	defer t.work.Unlock()
	for _, st := range t.byID {
		if st.Belief != nil {
			st.Belief = nil
			t.touch(st)
		}
	}
}

// complete makes sure that a site has its robots.txt among its sources. It is called
// before the site's first request.
func (t *siteTable) complete(st *site) {
	if st.sources.robots == nil {
		t.adopt(st, collection.Source{Site: st.ID, Kind: collection.Robots, URL: st.Origin + "/robots.txt"})
	}
}

// plan schedules the next fetch of a source.
func (t *siteTable) plan(src *source, at time.Time) {
	src.At, src.busy = at, false
	if src.index >= 0 {
		heap.Fix(&t.due, src.index)
	} else {
		heap.Push(&t.due, src)
	}
}

// putOff postpones a due source: a crawl with Once still waits for it.
func (t *siteTable) putOff(src *source, at time.Time) {
	src.off = true
	t.plan(src, at)
}

// obey puts the known robots.txt of a site into force.
func (t *siteTable) obey(st *site, now time.Time) (changed bool) {
	s := st.sources.robots
	changed = t.seeder.SetRobots(st.Origin, seed.RobotsAnswer{Status: s.Status, Body: s.Body, Since: s.Since}, now)
	d := t.seeder.Delay(st.Origin)
	if st.Delay != d {
		st.Delay = d
		t.touch(st)
	}
	if d > 0 || changed {
		t.c.Harvester.Pace(st.Origin, d)
	}
	if silent := t.seeder.Silent(st.Origin); silent != st.silent {
		st.silent = silent
		if st.Fault = silent; silent != "" {
			st.FaultAt = now
		}
		t.touch(st)
	}
	return changed
}

// waits reports whether the pages of a site must wait: its robots.txt is not
// known yet, or its sources are being fetched (App. W), or it is in a pause, of its own or by a person.
func (t *siteTable) waits(st *site, now time.Time) bool {
	return t.c.Harvester.Paused(st.Origin) || t.outside(st) || st.delivering > 0 || st.bulking > 0 || !st.sources.obeys() || st.silent != "" || st.asking > 0 && !st.many || st.firsts > 0 && st.firsts <= mostAsking || now.Before(st.rests())
}

// outside reports whether a site gets no request because of the domains that a person has set.
func (t *siteTable) outside(st *site) bool { return t.halt.confined && t.seeder.Outside(st.Origin) }

// rests returns the end of a site's pause, or of the wait for changes that it still has to send.
func (st *site) rests() time.Time {
	if st.behind.After(st.Quiet) {
		return st.behind
	}
	return st.Quiet
}

// of returns the site of an ID, also if a commit has just created it.
func (t *siteTable) of(id frontier.SiteID) *site {
	if st := t.byID[id]; st != nil {
		return st
	}
	s, ok := t.c.Collection.SiteByID(id)
	if !ok {
		return nil
	}
	return t.know(s)
}

// known returns the site of an ID, nil if it is not known.
func (t *siteTable) known(id frontier.SiteID) *site {
	t.work.Lock()
	defer t.work.Unlock()
	return t.byID[id]
}

// announces reports whether a site may announce changes.
func (t *siteTable) announces(st *site) bool {
	t.work.Lock()
	defer t.work.Unlock()
	return st.sources.mayTell() || believed(st).Signal != (fresh.Signal{})
}

// touch marks a site's record as changed. The work's lock is held.
func (t *siteTable) touch(st *site) {
	t.dirty[st] = true
}

// tally reports to the Seeder what was found on each site at each depth (B11), by
// which the Seeder decides how deep to crawl the site. The work's lock is held.
func (t *siteTable) tally(did *collection.Commit, done *collection.Committed) {
	type place struct {
		origin  string
		depth   int
		dynamic bool
	}
	found := map[place]*seed.Tally{}
	at := func(url string, depth int, dynamic bool) *seed.Tally {
		p := place{protocol.Origin(url), depth, dynamic}
		n := found[p]
		if n == nil {
			n = &seed.Tally{Depth: depth, Dynamic: dynamic}
			found[p] = n
		}
		return n
	}
	for i := range did.Visits {
		if done.Visited[i].Duplicate {
			p := &done.Visited[i].Page
			at(p.URL, p.Depth, p.Dynamic).Duplicates++
			continue
		}
		for j := range did.Visits[i].Links {
			f := &did.Visits[i].Links[j]
			at(f.URL, f.Depth, f.Dynamic).Seen++
		}
	}
	for i := range done.New {
		p := &done.New[i]
		depth := p.Depth
		if p.By != collection.ByLink {
			depth = -1
		}
		n := at(p.URL, depth, p.Dynamic)
		n.New++
		n.Seen = max(0, n.Seen-1)
	}
	for p, n := range found {
		t.grew(p.origin, *n)
	}
}

// grew counts what was found of a site. The work's lock is held.
func (t *siteTable) grew(origin string, n seed.Tally) {
	t.seeder.Count(origin, n)
	if st := t.byOrigin[origin]; st != nil {
		s, _ := t.c.Collection.SiteByID(st.ID)
		st.Pages = s.Pages // a sum would count twice what was stored before the site was read
		t.touch(st)
	}
}

// crawled reports whether an origin is a site of the crawl; allow is nil until its robots.txt is known.
func (t *siteTable) crawled(origin string) (is bool, allow func(string) error) {
	t.work.Lock()
	defer t.work.Unlock()
	st := t.byOrigin[origin]
	if st == nil || !st.sources.obeys() {
		return st != nil, nil
	}
	return true, func(u string) error { return t.allowed(st, u) }
}

// allowed returns an error if a URL of a site must not be fetched now. It is for
// requests that are not tasks of the Harvester.
func (t *siteTable) allowed(st *site, u string) error {
	t.work.Lock()
	rule := st.silent
	t.work.Unlock()
	if rule == "" {
		rule = t.seeder.Forbids(u)
	}
	if rule != "" {
		return crosshost.Forbidden(u, rule)
	}
	return nil
}

// ahead returns the least time that a number of tasks of a site takes.
func (t *siteTable) ahead(st *site, tasks int) time.Duration {
	return time.Duration(tasks) * t.c.Harvester.Gap(st.Pages, st.Delay)
}

// takes returns how many requests a day a site may get, by its delay and ours; 0 means no limit.
func (t *siteTable) takes(st *site) float64 {
	wait := t.ahead(st, 1)
	if wait <= 0 {
		return 0
	}
	return float64(24*time.Hour) / float64(wait)
}
