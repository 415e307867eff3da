// Package explain says in words why a page is fetched when it is.
package explain

import (
	"fmt"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/trust"
)

// Rules says which properties of a page and of its last answer decide about it.
func Rules(p *collection.Page, col *collection.Collection) (list []string) {
	if p.Why != "" {
		list = append(list, "excluded: "+p.Why)
	}
	if s, ok := col.SiteByID(p.Site); ok && s.Withheld {
		list = append(list, "pages of its site were fetched with cookies or a client certificate: nothing of it is given to others")
	}
	if p.NoIndex {
		list = append(list, "the page asks not to be indexed")
	}
	if p.NoFollow {
		list = append(list, "the page asks that its links are not followed")
	}
	if p.Original != 0 {
		if o, ok, _ := col.PageByID(p.Original); ok {
			list = append(list, "its content equals that of "+o.URL+" on the same site: its links are not followed")
		}
	}
	if p.Cut {
		list = append(list, fmt.Sprintf("truncated: only its first %d bytes are stored", p.Length))
	}
	if p.Fails > 0 {
		list = append(list, fmt.Sprintf("%d failures in a row, the last: %s", p.Fails, p.Fault))
	}
	return list
}

// estimates says what is believed of a page's changes, and what a visit gains.
func estimates(p *collection.Page, site *collection.Site, col *collection.Collection, now time.Time) (list []string) {
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if _, is := col.Copy(); is {
		return []string{"none: in a copy, a page is fetched when its site says that it has changed"}
	}
	b, policy := col.Revisits().Believed(p, site), col.Revisits().Policy()
	say("%d links from a start page; importance %.2f", p.Depth, b.Importance)
	profit := policy.Profit(&b, now)
	if p.Visits == 0 {
		say("never visited: a visit gains %s", fresh.Figure(profit))
		return list
	}
	counted := ""
	if p.Sketch != "" {
		counted = ", without changes of less than 1 % of the main text"
	}
	say("visited %d times since %s, changed %d times%s", p.Visits, Day(p.First), p.Changes, counted)
	if p.Told {
		say("announced as changed %d times since the last visit", max(1, p.Heard.Notices))
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
		say("a visit now gains %s per unit of cost; no crawler has computed the price yet", fresh.Figure(profit))
		return list
	}
	say("a visit now gains %s per unit of cost, at a price of %s", fresh.Figure(profit), fresh.Figure(priced.Price))
	if b.Site != nil && b.Site.Extra > 0 {
		say("a request to its site costs %s extra, since the site permits only so many requests", fresh.Figure(b.Site.Extra))
	}
	if b.Listed && !p.Told && b.Site != nil && b.Site.Manifest.Planned {
		say("a visit is only for changes that its site's manifest omits, or that cannot wait for it; the manifest was last read %s", Day(b.Site.Manifest.Read))
	}
	if at, unheard, ok := priced.Audited(&b); ok {
		say("next visit at %s at the latest, whatever its site announces; if it had announced nothing, worth a visit from %s on", Day(at), Day(unheard))
	}
	if next := priced.Next(&b, now); next.After(now) {
		say("worth a visit from %s on", Day(next))
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
		return fmt.Sprintf("%.0fs", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0fm", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0fh", d.Hours())
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}

// Day formats a time.
func Day(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format(time.RFC3339)
}

// Signals says what announced a page, and how far its site's announcements and dates are believed.
func Signals(col *collection.Collection, p *collection.Page, site *collection.Site) (list []string) {
	list = append(list, fmt.Sprintf("found %s, by %s", Day(p.Found), p.By))
	if p.Told {
		list = append(list, "announced by "+string(p.Signal))
	}
	if !p.Modified.IsZero() {
		list = append(list, "changed "+Day(p.Modified)+", according to its site")
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
		if s.As != "" && s.Door != "" {
			what += fmt.Sprintf("; last subscribed as %s: %s", s.As, s.Why)
		}
		if !s.Held.IsZero() {
			what += fmt.Sprintf("; %d deletions are held back since %s", s.Doomed, Day(s.Held))
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
