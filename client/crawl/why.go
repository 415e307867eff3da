package crawl

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/explain"
	"github.com/parleyweb/parley/client/crawl/internal/family"
	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/protocol"
)

// A Why explains, in words, why a page is fetched or not: by rules, beliefs and signals.
type Why = explain.Why

// Explain returns why a page is fetched when it is, or never. It needs no running
// crawler.
func Explain(col *collection.Collection, s *seed.Seeder, url string, now time.Time) (Why, error) {
	w, p, err := explain.Page(col, s, url, now)
	if err == nil && p != nil && budgeted(p) {
		site, _ := col.SiteByID(p.Site)
		if waits := family.Parse(site.Families).Why(p.URL); waits != "" {
			w.Rules = append(w.Rules, waits)
		}
	}
	return w, err
}

// Why explains a page of a running crawler.
func (c *Crawler) Why(url string) (Why, error) {
	r := c.run.Load()
	if r == nil {
		return Why{}, ErrRunning
	}
	w, err := Explain(c.Collection, c.settings.Seeder, url, time.Now())
	if err != nil || !w.Known {
		return w, err
	}
	r.work.Lock()
	defer r.work.Unlock()
	if st := r.sites.byOrigin[protocol.Origin(w.URL)]; st != nil {
		for _, u := range slices.Sorted(maps.Keys(st.sources.byURL)) {
			src := st.sources.byURL[u]
			if c := src.follow.choice; c.As != "" && src.Door != "" {
				c.Door = src.Door
				w.Signals = append(w.Signals, fmt.Sprintf("followed via %s", c))
			}
			if n := src.reception; n.Received > 0 {
				w.Signals = append(w.Signals, fmt.Sprintf("%s %s has announced %d changes since the crawler started: %d applied at once, %d to be fetched, %d ignored",
					src.Kind, u, n.Received, n.Processed, n.Enqueued, n.Ignored))
			}
		}
		w.Rules = slices.DeleteFunc(w.Rules, func(rule string) bool { return strings.HasPrefix(rule, family.Waits) }) // the stored state, replaced by the current one
		if p, ok, _ := c.Collection.Page(w.URL); ok && st.families != nil && st.families.Holds(p.ID) {
			w.Rules = append(w.Rules, st.families.Why(w.URL))
		}
		if c.Harvester.Paused(st.Origin) {
			w.Next, w.Rules = time.Time{}, append(w.Rules, "a person has paused its site: \"crawler resume\" continues it")
		}
		if now := time.Now(); now.Before(st.Quiet) {
			w.Rules = append(w.Rules, "its site is paused until "+explain.Day(st.Quiet))
		}
	}
	return w, nil
}

// Knows reports whether a host is crawled.
func (c *Crawler) Knows(host string) bool {
	r := c.run.Load()
	if r == nil {
		return false
	}
	r.work.Lock()
	defer r.work.Unlock()
	return r.sites.byOrigin["https://"+host] != nil || r.sites.byOrigin["http://"+host] != nil
}

// Remember loads a site's shape and robots.txt from the collection into a Seeder, for Explain while no crawler runs.
func Remember(col *collection.Collection, s *seed.Seeder, origin string) error {
	return explain.Remember(col, s, origin)
}
