package crawl

import (
	"cmp"
	"container/heap"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/family"
	"github.com/parleyweb/parley/client/crawl/seed"
	"github.com/parleyweb/parley/client/fresh"
	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/client/trust"
	"github.com/parleyweb/parley/protocol"
)

// A site is what the engine keeps at hand of one origin. The run's lock guards it.
type site struct {
	collection.Site
	sources    map[string]*source // by URL
	named      map[string]bool    // sources that were named and are not stored yet
	robots     *source
	welcomedBy string                          // base of the site that has said how this host wishes to be asked
	trust      trust.Record                    // guarded by run.judging, as is underWay
	underWay   map[collection.Signal]int       // pages that are asked for because of what was told, and not judged
	full       bool                            // a voice waits for its claims to be judged, see believe
	muted      map[collection.Signal]time.Time // when voices fell mute in this run
	deaf       bool                            // its manifest is not worth looking at for what has changed
	weight     float64                         // mean importance of its pages; 0: not known yet
	looked     time.Time                       // when its manifest was last looked at, and
	before     time.Time                       // the time before
	unsure     map[frontier.PageID]finding     // that it may show yet; guarded by run.judging
	dates      []protocol.Date                 // of the manifest that is being read, see census; guarded by run.judging
	tells      *source                         // by which it tells of its changes by itself now; nil: by none
	soft       softProbe
	dirty      bool      // Trust, Shape, Delay or Quiet are other than stored
	silences   int       // in a row, see leave
	ailing     bool      // it gives no answer, and that was said
	asking     int       // sources of it that are asked and not taken in
	many       bool      // there are more of them, and pages have their turn between
	silent     string    // why nothing of it may be asked for at present, robots.txt apart
	offer      *offer    // what it offers, nil: not known
	differs    bool      // it makes differences of its pages for whoever has them (RFC 9842)
	bulking    int       // requests for many of its pages at once that are open
	delivering int       // steps that are being taken in, with pages perhaps
	behind     time.Time // it has more to tell: until then its pages wait for that; zero if it has not
	first      bool      // its manifest is being read for the first time: pages wait for that

	visits   uint         // in this run, see families.looks
	compared int          // pages whose words were compared since the last that led to nothing
	families *family.Tree // which kinds of its URLs lead to something new; nil: as stored
}

// A source is one that the engine asks when it is due.
type source struct {
	collection.Source
	site  *site
	index int    // in the heap, -1 if not there
	busy  bool   // asked, or followed
	off   bool   // put off, though it was due
	lasts bool   // it failed by what a minute does not mend
	heard bool   // followed, and not to be waited for
	offer *offer // what its site offers there, nil: not known

	described string    // URL of the site's description, where the manifest names it
	bulking   bool      // it is being asked for many pages at once
	bulkFrom  time.Time // it is not to be asked so before

	told   collection.Reception // since the run began
	choice Choice               // in which form it is asked to tell, empty until it is
}

// A sourceHeap orders sources by when they are due.
type sourceHeap []*source

func (h sourceHeap) Len() int           { return len(h) }
func (h sourceHeap) Less(i, j int) bool { return h[i].At.Before(h[j].At) }
func (h sourceHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *sourceHeap) Push(x any) {
	s := x.(*source)
	s.index = len(*h)
	*h = append(*h, s)
}
func (h *sourceHeap) Pop() any {
	old := *h
	s := old[len(old)-1]
	*h = old[:len(old)-1]
	s.index = -1
	return s
}

// load takes over what earlier runs knew of sites and their sources.
func (r *run) load() error {
	for s := range r.Collection.Sites() {
		r.know(s)
	}
	all, err := r.Collection.Sources(0)
	if err != nil {
		return err
	}
	for _, s := range all {
		if st := r.sites[s.Site]; st != nil {
			r.adopt(st, s)
		}
	}
	for _, st := range r.sites {
		if st.robots != nil && !st.robots.Polled.IsZero() {
			r.obey(st, time.Now())
		}
	}
	return nil
}

// know makes a site of a record. A site that is new begins with its robots.txt.
func (r *run) know(s collection.Site) *site {
	st := &site{Site: s, sources: map[string]*source{}, named: map[string]bool{}, underWay: map[collection.Signal]int{}, muted: map[collection.Signal]time.Time{}, unsure: map[frontier.PageID]finding{}}
	r.sites[s.ID], r.origins[s.Origin] = st, st
	if s.Quiet.After(time.Now().Add(cmp.Or(max(r.Quiet, 0), lastQuiet))) {
		st.Quiet = time.Time{} // the clock was ahead
	}
	if !st.Quiet.IsZero() {
		r.resting[st] = struct{}{}
	}
	r.Seeder.SetShape(s.Origin, s.Pages, s.Shape)
	r.Harvester.Seen(s.Origin, s.IP)
	if rec, err := trust.Parse(s.Trust); err == nil { // else it begins anew
		st.trust = rec
	}
	return st
}

// adopt gives a site a source, and plans when to ask it.
func (r *run) adopt(st *site, s collection.Source) *source {
	if src := st.sources[s.URL]; src != nil {
		src.ID = max(src.ID, s.ID)
		return src
	}
	if s.Polled.After(time.Now()) {
		s.At = time.Time{} // the clock was ahead
	}
	src := &source{Source: s, site: st, index: -1}
	st.sources[s.URL] = src
	delete(st.named, s.URL)
	if s.Kind == collection.Robots {
		st.robots = src
	}
	heap.Push(&r.due, src)
	return src
}

// names takes note of a source that a site, or a page of it, names. It reports
// whether that is a new one, and not one too many.
func (st *site) names(url string) bool {
	if st.sources[url] != nil || st.named[url] || len(st.sources)+len(st.named) >= maxSources {
		return false
	}
	st.named[url] = true
	return true
}

// complete makes sure that a site has its robots.txt among its sources. A site
// of which nothing is to be asked for needs none.
func (r *run) complete(st *site) {
	if st.robots == nil {
		r.adopt(st, collection.Source{Site: st.ID, Kind: collection.Robots, URL: st.Origin + "/robots.txt"})
	}
}

// plan says when a source is asked next.
func (r *run) plan(src *source, at time.Time) {
	src.At, src.busy = at, false
	if src.index >= 0 {
		heap.Fix(&r.due, src.index)
	} else {
		heap.Push(&r.due, src)
	}
}

// putOff plans a source for later that is due: a crawl that is to end does not end without it.
func (r *run) putOff(src *source, at time.Time) {
	src.off = true
	r.plan(src, at)
}

// obey puts what is known of a site's robots.txt into force.
func (r *run) obey(st *site, now time.Time) (changed bool) {
	s := st.robots
	changed = r.Seeder.SetRobots(st.Origin, seed.RobotsAnswer{Status: s.Status, Body: s.Body, Since: s.Since}, now)
	d := r.Seeder.Delay(st.Origin)
	if st.Delay != d {
		st.Delay = d
		r.touch(st)
	}
	if d > 0 || changed {
		r.Harvester.Pace(st.Origin, d)
	}
	if silent := r.Seeder.Silent(st.Origin); silent != st.silent {
		st.silent = silent
		if st.Fault = silent; silent != "" {
			st.FaultAt = now
		}
		r.touch(st)
	}
	return changed
}

// spoke takes note of whether a source tells now of its site's changes by
// itself. The run's lock is held.
func (r *run) spoke(src *source) {
	st, tells := src.site, src.busy && src.Kind == collection.ManifestRDF && !src.Cursor.IsZero() && src.Fault == ""
	switch {
	case tells:
		st.tells = src
	case st.tells == src:
		st.tells = nil
	default:
		return
	}
	if st.tells != nil {
		r.telling[st.ID] = true
	} else {
		delete(r.telling, st.ID)
	}
	b := st.believed()
	if b.Tells = st.pushes(); !st.listens() && r.ctx.Err() == nil { // the next run begins with what this one ends with
		b.Manifest = fresh.Manifest{}
	}
	if b != st.believed() {
		r.believes(st, b)
	}
}

// pushes reports whether a site tells of each change by itself, so that its
// silence means something at any time.
func (st *site) pushes() bool { return st.tells != nil && !st.listens() }

// believed is what is believed of a site's pages and of what it tells.
func (st *site) believed() fresh.Site {
	if st.Belief == nil {
		return fresh.Site{}
	}
	return *st.Belief
}

// believes has another belief of a site. The run's lock is held.
func (r *run) believes(st *site, b fresh.Site) {
	st.Belief = &b
	r.touch(st)
}

// obeys reports whether the robots.txt of a site is known and in force now.
func (st *site) obeys() bool { return st.robots != nil && !st.robots.Polled.IsZero() }

// waits reports whether the pages of a site are to wait: its robots.txt is not
// known yet, or its sources are being asked (App. W), or it wants to be left alone.
func (st *site) waits(now time.Time) bool {
	return st.delivering > 0 || st.bulking > 0 || !st.obeys() || st.silent != "" || st.asking > 0 && !st.many || st.first || now.Before(st.rests())
}

// rests returns until when the pages of a site are to wait, whatever else is known.
func (st *site) rests() time.Time {
	if st.behind.After(st.Quiet) {
		return st.behind
	}
	return st.Quiet
}

// siteOf returns the site of an ID, which a commit may just have made.
func (r *run) siteOf(id frontier.SiteID) *site {
	if st := r.sites[id]; st != nil {
		return st
	}
	s, ok := r.Collection.SiteByID(id)
	if !ok {
		return nil
	}
	return r.know(s)
}

// flushEvery is how often what changes with every page is stored.
const flushEvery = 10 * time.Second

// changedSites returns the records of sites that are to be stored. The run's lock is held.
func (r *run) changedSites(now time.Time, all bool) (list []collection.Site) {
	if !all && now.Sub(r.flushed) < r.hurried(flushEvery) {
		return nil
	}
	r.flushed = now
	for st := range r.dirty {
		st.dirty = false
		r.judging.Lock()
		st.Trust = st.trust.Append(nil)
		r.judging.Unlock()
		st.Shape = r.Seeder.Shape(st.Origin)
		if st.families != nil {
			st.Families = st.families.Append(nil)
		}
		list = append(list, st.Site)
	}
	clear(r.dirty)
	return list
}

// touch says that a site's record is other than stored. The run's lock is held.
func (r *run) touch(st *site) {
	if !st.dirty {
		st.dirty = true
		r.dirty[st] = struct{}{}
	}
}
