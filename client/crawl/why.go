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

// A Why explains, in words, why a page is fetched or not: by rules, beliefs and
// signals.
type Why struct {
	URL     string    `json:"url"` // canonical
	Known   bool      `json:"known"`
	State   string    `json:"state,omitempty"`
	Next    time.Time `json:"next,omitzero"` // its earliest next fetch
	Rules   []string  `json:"rules"`         // that admit or forbid it
	Beliefs []string  `json:"beliefs"`       // estimates of its changes
	Signals []string  `json:"signals"`       // announcements by its site and other sources
}

// Explain returns why a page is fetched when it is, or never. It needs no running
// crawler.
func Explain(col *collection.Collection, s *seed.Seeder, url string, now time.Time) (Why, error) {
	v := s.Admit(seed.Ref{URL: url, Kind: seed.Person})
	w := Why{URL: v.URL, Rules: []string{}, Beliefs: []string{}, Signals: []string{}}
	if v.URL == "" {
		return w, fmt.Errorf("%s: %s", url, v.Rule)
	}
	p, ok, err := col.Page(v.URL)
	if err != nil {
		return w, err
	}
	if named := s.Admit(seed.Ref{URL: v.URL, Kind: seed.Listed}); !named.OK {
		w.Rules = append(w.Rules, "not admitted: "+named.Rule)
	}
	if silent := s.Silent(protocol.Origin(v.URL)); silent != "" {
		w.Rules = append(w.Rules, "its site is paused: "+silent)
	} else if rule := s.Forbids(v.URL); rule != "" {
		w.Rules = append(w.Rules, "forbidden: "+rule)
	} else {
		w.Rules = append(w.Rules, "robots.txt allows it")
	}
	if !ok {
		return w, nil
	}
	w.Known, w.State = true, p.State.String()
	if p.At.Before(collection.Never) {
		w.Next = p.At
		if p.At.Before(now) {
			w.Next = now.Truncate(time.Second)
		}
	}
	w.Rules = append(w.Rules, explain.Rules(&p, col)...)
	site, _ := col.SiteByID(p.Site)
	if waits := family.Parse(site.Families).Why(p.URL); waits != "" && budgeted(&p) {
		w.Rules = append(w.Rules, waits)
	}
	w.Beliefs = explain.Estimates(&p, &site, col, now)
	w.Signals = explain.Signals(col, &p, &site)
	return w, nil
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
			if c := src.follow.choice; c.As != "" {
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
	site, ok := col.Site(s.Origin(origin))
	if !ok {
		return nil
	}
	s.SetShape(site.Origin, site.Pages, site.Shape)
	sources, err := col.Sources(site.ID)
	for _, src := range sources {
		if src.Kind == collection.Robots && !src.Polled.IsZero() {
			s.SetRobots(site.Origin, seed.RobotsAnswer{Status: src.Status, Body: src.Body, Since: src.Since}, time.Now())
		}
	}
	return err
}
