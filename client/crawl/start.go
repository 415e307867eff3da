package crawl

import (
	"container/heap"
	"strings"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/protocol"
)

// begin stores the start pages that are not known yet, before anything is fetched
// (V21). Pages that the rules of an earlier run excluded are included again.
func (r *sources) begin() error {
	if r.manifest != "" {
		if err := r.beginOnly(); err != nil {
			return err
		}
	}
	var x result
	for _, u := range r.c.Start {
		v := r.c.Seeder.Admit(seed.Ref{URL: u, Kind: seed.Person})
		if v.Partition > 0 && r.c.Harvester.Options.Ends != nil {
			continue // whoever has its partition has the same start pages
		}
		if v.URL == "" {
			r.c.Log.Warn("start page is not admitted", "url", u, "rule", v.Rule)
			continue
		}
		p, known, err := r.c.Collection.Page(v.URL)
		if err != nil {
			return err
		}
		if !known || p.State == collection.Excluded {
			x.finds = append(x.finds, find(v, 0, collection.ByPerson))
		}
	}
	if len(x.finds) == 0 {
		return nil
	}
	return r.in.submit(r.work.ctx, x)
}

// pollAtOnce makes manifests due at once, since a crawl with Once depends on them: those that have listed pages
// before, and for start sites without such a manifest those that may exist by now.
func (t *siteTable) pollAtOnce() {
	t.work.Lock()
	defer t.work.Unlock()
	tells, starts := map[*site]bool{}, map[string]bool{}
	for _, u := range t.c.Start {
		starts[protocol.Origin(t.seeder.Admit(seed.Ref{URL: u, Kind: seed.Person}).URL)] = true
	}
	for _, src := range t.due {
		tells[src.site] = tells[src.site] || !src.Changed.IsZero() && src.Kind == collection.ManifestRDF
	}
	for _, src := range t.due {
		if src.Kind == collection.ManifestRDF && (!src.Changed.IsZero() || !tells[src.site] && starts[src.site.Origin]) {
			src.At = time.Time{}
		}
	}
	heap.Init(&t.due)
}

// again makes every source due, and fetches every page that is not excluded or gone, as if a person had asked for each.
func (r *sources) again() error {
	r.work.Lock()
	for _, src := range r.sites.due {
		src.At = time.Time{}
	}
	heap.Init(&r.sites.due)
	r.work.Unlock()
	var x result
	submit := func() error {
		err := r.in.submit(r.work.ctx, x)
		x.finds = x.finds[:0]
		return err
	}
	for p, err := range r.c.Collection.Pages(r.work.ctx) {
		if err != nil {
			return err
		}
		if p.State == collection.Excluded || p.State == collection.Gone {
			continue
		}
		if x.finds = append(x.finds, collection.Find{URL: p.URL, Depth: p.Depth, By: collection.ByPerson, Dynamic: p.Dynamic}); len(x.finds) == commitSize {
			if err := submit(); err != nil {
				return err
			}
		}
	}
	return submit()
}

// readmit admits pages that an earlier robots.txt of a site forbade and the new one
// allows; without a site, pages of any that were not in the scope. Pages that are forbidden now are caught before
// they are fetched. The work's lock is held.
func (r *sources) readmit(st *site) {
	if r.readmits == nil {
		r.readmits = map[frontier.SiteID]bool{}
		r.work.busy++
		r.work.begun.Go(r.readmitAll)
	}
	if st == nil {
		st = &site{}
	}
	r.readmits[st.ID] = true
}

// readmitAll scans all pages, for all waiting sites together, since a scan of a large
// collection takes long.
func (r *sources) readmitAll() {
	for {
		r.work.Lock()
		sites := r.readmits
		if r.readmits = nil; len(sites) > 0 {
			r.readmits = map[frontier.SiteID]bool{}
		}
		r.work.Unlock()
		if len(sites) == 0 {
			r.in.Put(result{busy: 1})
			return
		}
		var finds []collection.Find
		for p, err := range r.c.Collection.Pages(r.work.ctx) {
			if err != nil {
				break // other code meets the error, too
			}
			allowed := sites[p.Site] && strings.HasPrefix(p.Why, robotsRule) && r.c.Seeder.Forbids(p.URL) == ""
			if p.State != collection.Excluded || !allowed && !(sites[0] && seed.OfScope(p.Why) && r.c.Seeder.Excludes(p.URL) == "") {
				continue
			}
			finds = append(finds, collection.Find{URL: p.URL, Depth: p.Depth, By: p.By, Dynamic: p.Dynamic})
			if len(finds) == commitSize {
				r.in.Put(result{finds: finds})
				finds = nil
			}
		}
		r.in.Put(result{finds: finds})
	}
}

// maxLoggedSites is how many sites that could not be crawled are logged.
const maxLoggedSites = 10

// logSilent logs the sites of which nothing may be fetched because of their robots.txt.
func (t *siteTable) logSilent() {
	t.work.Lock()
	defer t.work.Unlock()
	n := 0
	for _, st := range t.byID {
		if st.sources.robots == nil || st.sources.robots.Polled.IsZero() || st.silent == "" {
			continue
		}
		if n++; n <= maxLoggedSites {
			t.c.Log.Warn("nothing more could be fetched", "site", st.Origin, "since", st.silent, "last", st.sources.robots.Fault)
		}
	}
	if n > maxLoggedSites {
		t.c.Log.Warn("nothing more could be fetched from other sites", "sites", n-maxLoggedSites)
	}
}
