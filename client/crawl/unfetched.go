package crawl

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/judgement"
)

// An Unfetched counts the announced pages of a site that are still pending when a crawl has
// ended, for one reason.
type Unfetched struct {
	Site  string `json:"site"`
	Why   string `json:"why"`
	Pages int    `json:"pages"`
}

// unfetched returns the pending fetches of a crawl that has ended, most pages first.
func (t *siteTable) unfetched() ([]Unfetched, error) {
	now := time.Now()
	of := map[Unfetched]int{}
	for p, err := range t.c.Collection.Pages(context.Background()) {
		if err != nil {
			return nil, err
		}
		if p.Told && judgement.FromSource(p.Signal) && p.State != collection.Excluded && p.State != collection.Gone {
			t.work.Lock()
			if st := t.of(p.Site); st != nil {
				of[Unfetched{Site: st.Origin, Why: t.whyUnfetched(st, &p, now)}]++
			}
			t.work.Unlock()
		}
	}
	list := slices.Collect(maps.Keys(of))
	for i := range list {
		list[i].Pages = of[list[i]]
	}
	slices.SortFunc(list, func(a, b Unfetched) int {
		return cmp.Or(cmp.Compare(b.Pages, a.Pages), cmp.Compare(a.Site, b.Site), cmp.Compare(a.Why, b.Why))
	})
	return list, nil
}

// whyUnfetched returns why an announced page was not fetched. The work's lock is held.
func (t *siteTable) whyUnfetched(st *site, p *collection.Page, now time.Time) string {
	switch {
	case t.seeder.Forbids(p.URL) != "":
		return "robots.txt forbids them"
	case t.c.Harvester.Paused(st.Origin):
		return "the site is paused: \"crawler resume\" continues it"
	case st.silent != "":
		return st.silent
	case p.Fails > 0:
		return "the site does not serve them: " + p.Fault
	case p.Missed > 0:
		return "the content differs from the announced digest"
	case t.work.reason != "":
		return t.work.reason
	case now.Before(st.rests()):
		return "the site does not respond, or requested a pause"
	case p.At.After(now):
		return "they are not yet worth the price of a visit"
	}
	return "the crawl was stopped"
}

// logUnfetched logs the pending fetches of a crawl that has ended, and returns them.
func (t *siteTable) logUnfetched() ([]Unfetched, error) {
	list, err := t.unfetched()
	for i, d := range list {
		if i == maxLoggedSites {
			t.c.Log.Warn("further listed pages were not fetched", "sites and reasons", len(list)-i)
			break
		}
		t.c.Log.Warn("listed pages of a site were not fetched", "site", d.Site, "pages", d.Pages, "why", d.Why)
	}
	return list, err
}
