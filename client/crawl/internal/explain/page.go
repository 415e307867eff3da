package explain

import (
	"fmt"
	"time"

	"github.com/parleyweb/parley/client/collection"
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

// Page returns why a page is fetched when it is, or never, and the page; nil if it is not known. It needs no running crawler.
func Page(col *collection.Collection, s *seed.Seeder, url string, now time.Time) (Why, *collection.Page, error) {
	v := s.Admit(seed.Ref{URL: url, Kind: seed.Person})
	w := Why{URL: v.URL, Rules: []string{}, Beliefs: []string{}, Signals: []string{}}
	if v.URL == "" {
		return w, nil, fmt.Errorf("%s: %s", url, v.Rule)
	}
	p, ok, err := col.Page(v.URL)
	if err != nil {
		return w, nil, err
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
		return w, nil, nil
	}
	w.Known, w.State = true, p.State.String()
	excluded := Excluded(s, &p)
	if _, is := col.Copy(); is { // it has all pages of its site that robots.txt allows
		excluded = s.Forbids(p.URL)
	}
	if p.At.Before(collection.Never) && excluded == "" {
		w.Next = p.At
		if p.At.Before(now) {
			w.Next = now.Truncate(time.Second)
		}
	}
	w.Rules = append(w.Rules, Rules(&p, col)...)
	site, _ := col.SiteByID(p.Site)
	w.Beliefs = estimates(&p, &site, col, now)
	w.Signals = Signals(col, &p, &site)
	return w, &p, nil
}

// Excluded returns the rule because of which a page of a crawl is not fetched, empty if there is none. What a person has asked for, only
// robots.txt excludes.
func Excluded(s *seed.Seeder, p *collection.Page) string {
	if p.By == collection.ByPerson || p.Told && p.Signal == collection.ByPerson {
		return s.Forbids(p.URL)
	}
	return s.Excludes(p.URL)
}

// Remember loads a site's shape and robots.txt from the collection into a Seeder, for Page while no crawler runs.
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
