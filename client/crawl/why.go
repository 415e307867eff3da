package crawl

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/family"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/internal/engine/trust"
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
	if p.Why != "" {
		w.Rules = append(w.Rules, "excluded: "+p.Why)
	}
	if p.NoIndex {
		w.Rules = append(w.Rules, "the page asks not to be indexed")
	}
	if p.NoFollow {
		w.Rules = append(w.Rules, "the page asks that its links are not followed")
	}
	if p.Original != 0 {
		if o, ok, _ := col.PageByID(p.Original); ok {
			w.Rules = append(w.Rules, "its content equals that of "+o.URL+" on the same site: its links are not followed")
		}
	}
	if p.Cut {
		w.Rules = append(w.Rules, fmt.Sprintf("truncated: only its first %d bytes are stored", p.Length))
	}
	if p.Fails > 0 {
		w.Rules = append(w.Rules, fmt.Sprintf("%d failures in a row, the last: %s", p.Fails, p.Fault))
	}
	site, _ := col.SiteByID(p.Site)
	if waits := family.Parse(site.Families).Why(p.URL); waits != "" && budgeted(&p) {
		w.Rules = append(w.Rules, waits)
	}
	w.Beliefs = beliefs(&p, &site, col, now)
	w.Signals = signals(col, &p, &site)
	return w, nil
}

func beliefs(p *collection.Page, site *collection.Site, col *collection.Collection, now time.Time) (list []string) {
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	b, policy := col.Believed(p, site), col.Policy()
	say("%d links from a start page; importance %.2f", p.Depth, b.Importance)
	profit := policy.Profit(&b, now)
	if p.Visits == 0 {
		say("never visited: a visit gains %.3g", profit)
		return list
	}
	say("visited %d times since %s, changed %d times", p.Visits, day(p.First), p.Changes)
	if p.Told {
		say("announced as changed %d times since the last visit", max(1, p.Notices))
	}
	priced, ok := policy.(fresh.Priced)
	if !ok {
		if rate := fresh.Rate(p.History); rate > 0 {
			say("estimated to change every %s", period(rate))
		}
		say("unchanged since its last visit with a probability of %.2f", fresh.Fresh(p.History, now))
		say("a visit now gains %.3f", profit)
		return list
	}
	post := b.Posterior()
	low, high := post.Between(0.8)
	say("estimated to change every %s; with a probability of 0.8, every %s to %s", period(post.Mean()), period(high), period(low))
	say("unchanged since its last visit with a probability of %.2f", b.Fresh(now))
	if priced.Price == 0 {
		say("a visit now gains %.3g per unit of cost; no crawler has computed the price yet", profit)
		return list
	}
	say("a visit now gains %.3g per unit of cost, at a price of %.3g", profit, priced.Price)
	if b.Site != nil && b.Site.Extra > 0 {
		say("a request to its site costs %.3g extra, since the site permits only so many requests", b.Site.Extra)
	}
	if b.Listed && !p.Told && b.Site != nil && b.Site.Manifest.Planned {
		say("a visit is only for changes that its site's manifest omits; the manifest was last read %s", day(b.Site.Manifest.Read))
	}
	if at, ok := priced.Audited(&b); ok {
		say("next visit at %s at the latest, whatever its site announces", day(at))
	}
	if next := priced.Next(&b, now); next.After(now) {
		say("worth a visit from %s on", day(next))
	} else {
		say("worth a visit now")
	}
	return list
}

// period returns the mean time between two changes of a page.
func period(rate float64) string {
	d := time.Duration(min(float64(24*time.Hour)/rate, float64(1<<62)))
	switch {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return d.Round(time.Minute).String()
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}

func day(t time.Time) string { return t.UTC().Format(time.DateTime) }

func signals(col *collection.Collection, p *collection.Page, site *collection.Site) (list []string) {
	list = append(list, fmt.Sprintf("found %s, by %s", day(p.Found), p.By))
	if p.Told {
		list = append(list, "announced by "+string(p.Signal))
	}
	if !p.Modified.IsZero() {
		list = append(list, "changed "+day(p.Modified)+", according to its site")
	}
	if b := site.Belief; b != nil && b.Signal != (fresh.Signal{}) {
		right := 100 * b.Signal.Precision()
		switch {
		case b.Manifest.Recall > 0:
			list = append(list, fmt.Sprintf("its manifest announces %.1f in 10 of the changes that visits find; its announcements are right in %.0f of 100 cases", 10*b.Manifest.Recall, right))
		default:
			tells := "does not publish its changes now"
			if b.Tells {
				tells = "publishes its changes"
			}
			list = append(list, fmt.Sprintf("its site %s; its announcements are right in %.0f of 100 cases, and cover %.0f of 100 changes", tells, right, 100*b.Signal.Recall()))
		}
	}
	if p.Unstable != collection.Stable {
		list = append(list, "its bytes differ at each request, so its digest proves nothing: "+judgedBy(p.Unstable == collection.UnstableText))
	}
	if rec, err := trust.Parse(site.Trust); err == nil {
		if is, restless := rec.Bodies.ByText(); is {
			list = append(list, "the pages of its site differ from their digests at each request: "+judgedBy(restless))
		}
		for i := range rec.Sources {
			list = append(list, rec.Sources[i].String())
		}
		for i := range rec.Dates {
			list = append(list, rec.Dates[i].String())
		}
	}
	sources, err := col.Sources(site.ID)
	if err != nil {
		return append(list, err.Error())
	}
	for _, s := range sources {
		what := fmt.Sprintf("%s %s", s.Kind, s.URL)
		switch {
		case s.Polled.IsZero():
			what += ": not fetched yet"
		case s.Fault != "":
			what += ": " + s.Fault
		case s.Door != "":
			what += ", last read via " + s.Door
		}
		if s.As != "" {
			what += fmt.Sprintf("; last subscribed as %s: %s", s.As, s.Why)
		}
		if !s.Held.IsZero() {
			what += fmt.Sprintf("; %d deletions are held back since %s", s.Doomed, day(s.Held))
		}
		list = append(list, what)
	}
	return list
}

// judgedBy returns how announced changes of unstable pages are judged.
func judgedBy(restless bool) string {
	if restless {
		return "announced changes cannot be verified, since the main text differs too"
	}
	return "announced changes are verified by the main text"
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
			w.Rules = append(w.Rules, "its site is paused until "+day(st.Quiet))
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
