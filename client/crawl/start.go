package crawl

import (
	"strings"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/seed"
)

// begin takes in the start pages that are not known yet, before anything is asked (V21).
func (r *run) begin() error {
	var x read
	for _, u := range r.Start {
		v := r.Seeder.Admit(seed.Ref{URL: u, Kind: seed.Person})
		if v.URL == "" {
			r.log.Warn("start page is not admitted", "url", u, "rule", v.Rule)
			continue
		}
		if _, known := r.Collection.Known(v.URL); !known {
			x.finds = append(x.finds, find(v, 0, collection.ByPerson))
		}
	}
	if len(x.finds) > 0 {
		if err := r.commit([]read{x}, false); err != nil {
			return err
		}
	}
	if r.Again {
		return r.again()
	}
	return nil
}

// again has every page asked for that is not excluded or gone, as if somebody had asked for each.
func (r *run) again() error {
	var x read
	turn := func() error {
		err := r.commit([]read{x}, false)
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

// readmit asks the Seeder again about the pages that an earlier robots.txt
// forbade. What is forbidden now is found out before it is asked for.
func (r *run) readmit(st *site) {
	r.busy++
	r.begun.Go(func() {
		x := read{busy: 1}
		for p, err := range r.Collection.Pages(r.ctx) {
			if err != nil {
				break // it is found out elsewhere, too
			}
			if p.Site != st.ID || p.State != collection.Excluded || !strings.HasPrefix(p.Why, robotsRule) {
				continue
			}
			if r.Seeder.Forbids(p.URL) == "" {
				x.finds = append(x.finds, collection.Find{URL: p.URL, Depth: p.Depth, By: p.By, Dynamic: p.Dynamic})
			}
			if len(x.finds) == turnSize {
				r.reads <- read{finds: x.finds}
				x.finds = nil
			}
		}
		r.reads <- x
	})
}
