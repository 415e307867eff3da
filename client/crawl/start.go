package crawl

import (
	"container/heap"
	"strings"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/seed"
	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/protocol"
)

// begin takes in the start pages that are not known yet, before anything is
// asked (V21). What an earlier run has excluded, for its rules, somebody wants now.
func (r *run) begin() error {
	if r.Only != "" {
		if err := r.beginOnly(); err != nil {
			return err
		}
	}
	var x read
	for _, u := range r.Start {
		v := r.Seeder.Admit(seed.Ref{URL: u, Kind: seed.Person})
		if v.URL == "" {
			r.log.Warn("start page is not admitted", "url", u, "rule", v.Rule)
			continue
		}
		p, known, err := r.Collection.Page(v.URL)
		if err != nil {
			return err
		}
		if !known || p.State == collection.Excluded {
			x.finds = append(x.finds, find(v, 0, collection.ByPerson))
		}
	}
	if len(x.finds) > 0 {
		if err := r.submit(r.ctx, x); err != nil {
			return err
		}
	}
	if r.Once {
		r.look()
	}
	if r.Again {
		return r.again()
	}
	return nil
}

// look has manifests asked for, whenever they were asked last, as a crawl that ends goes by them: those that have told something
// before, and where a site that somebody names has shown none, those that it may show by now.
func (r *run) look() {
	r.mu.Lock()
	defer r.mu.Unlock()
	tells, starts := map[*site]bool{}, map[string]bool{}
	for _, u := range r.Start {
		starts[protocol.Origin(r.Seeder.Admit(seed.Ref{URL: u, Kind: seed.Person}).URL)] = true
	}
	for _, src := range r.due {
		tells[src.site] = tells[src.site] || !src.Changed.IsZero() && src.Kind == collection.ManifestRDF
	}
	for _, src := range r.due {
		if src.Kind == collection.ManifestRDF && (!src.Changed.IsZero() || !tells[src.site] && starts[src.site.Origin]) {
			src.At = time.Time{}
		}
	}
	heap.Init(&r.due)
}

// again has every source and every page asked for that is not excluded or gone, as if somebody had asked for each.
func (r *run) again() error {
	r.mu.Lock()
	for _, src := range r.due {
		src.At = time.Time{}
	}
	heap.Init(&r.due)
	r.mu.Unlock()
	var x read
	turn := func() error {
		err := r.submit(r.ctx, x)
		x.finds = x.finds[:0]
		return err
	}
	for p, err := range r.Collection.Pages(r.ctx) {
		if err != nil {
			return err
		}
		if p.State == collection.Excluded || p.State == collection.Gone {
			continue
		}
		if x.finds = append(x.finds, collection.Find{URL: p.URL, Depth: p.Depth, By: collection.ByPerson, Dynamic: p.Dynamic}); len(x.finds) == turnSize {
			if err := turn(); err != nil {
				return err
			}
		}
	}
	return turn()
}

// readmit asks the Seeder again about the pages that an earlier robots.txt of a
// site forbade. What is forbidden now is found out before it is asked for. The
// run's lock is held.
func (r *run) readmit(st *site) {
	r.readmits[st.ID] = true
	if !r.readmitting {
		r.readmitting = true
		r.busy++
		r.begun.Go(r.readmitAll)
	}
}

// readmitAll goes through all pages, for as many sites at a time as wait for
// it: that takes long in a large collection.
func (r *run) readmitAll() {
	for {
		r.mu.Lock()
		sites := r.readmits
		r.readmits = map[frontier.SiteID]bool{}
		r.readmitting = len(sites) > 0
		r.mu.Unlock()
		if len(sites) == 0 {
			r.in.put(read{busy: 1})
			return
		}
		var finds []collection.Find
		for p, err := range r.Collection.Pages(r.ctx) {
			if err != nil {
				break // it is found out elsewhere, too
			}
			if p.State != collection.Excluded || !sites[p.Site] || !strings.HasPrefix(p.Why, robotsRule) || r.Seeder.Forbids(p.URL) != "" {
				continue
			}
			finds = append(finds, collection.Find{URL: p.URL, Depth: p.Depth, By: p.By, Dynamic: p.Dynamic})
			if len(finds) == turnSize {
				r.in.put(read{finds: finds})
				finds = nil
			}
		}
		r.in.put(read{finds: finds})
	}
}

// mostRegret is how many sites are named that could not be crawled.
const mostRegret = 10

// regret says of which sites nothing could be asked for.
func (r *run) regret() {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, st := range r.sites {
		if st.robots == nil || st.robots.Polled.IsZero() || st.silent == "" {
			continue
		}
		if n++; n <= mostRegret {
			r.log.Warn("nothing more could be asked for", "site", st.Origin, "since", st.silent, "last", st.robots.Fault)
		}
	}
	if n > mostRegret {
		r.log.Warn("the same for other sites", "sites", n-mostRegret)
	}
}
