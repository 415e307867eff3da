package crawl

import (
	"math/rand/v2"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/explain"
	"github.com/parleyweb/parley/client/crawl/internal/judgement"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/protocol"
)

// A trustRule says which pages may be fetched, and what the announcements of sites are worth. run chooses one of two:
// earnedTrust, and fullTrust for a copy of one site.
type trustRule interface {
	// options returns how a step of a site's source is stored. It may spell the URLs of the step in another way.
	options(st *site, step *client.Step, by collection.Signal, now time.Time) collection.ApplyOptions

	// dates judges the dates of a sitemap or a feed.
	dates(st *site, by collection.Signal, dates []protocol.Date, read time.Time)

	// believe decides whether an announced page is fetched.
	believe(st *site, p *collection.Page) judgement.Decision

	// audits reports whether a page is fetched although the same content is stored of another page.
	audits() bool

	// admits reports whether a person may request a URL: a page that a person requests must not add a foreign site to the crawl.
	admits(url string) bool

	// excludes returns the rule by which a page is not fetched, or "". The rules may have changed since it was found.
	excludes(p *collection.Page) string
}

// earnedTrust believes announcements as far as earlier ones were right.
type earnedTrust struct {
	c     *setup
	work  *work
	sites *siteTable
	judge *judgement.Judge
	plan  *estimates
}

func (e *earnedTrust) options(st *site, step *client.Step, by collection.Signal, now time.Time) collection.ApplyOptions {
	o := collection.ApplyOptions{
		Admit: func(url string) collection.Find {
			return stored(e.c.Seeder.Admit(seed.Ref{URL: url, Depth: protocol.Depth(url), Kind: seed.Listed}), protocol.Depth(url), by)
		},
		Take: func(p *collection.Page, item *protocol.Item) bool {
			if p.Told && p.Signal == by {
				return true // announced again before a visit could judge it
			}
			return e.judge.Heeds(st.standing, by, item, now)
		},
	}
	o.Unsure = !e.judge.Confirms(st.standing, by)
	if by == collection.ByManifest {
		e.judge.Census(st.standing, step, now)
		last, listed := e.plan.reading(st, step, now)
		o.Read = last
		o.Listed = func(p *collection.Page, item *protocol.Item) {
			e.judge.CaughtUp(st.standing, p, item)
			listed(p, item)
		}
	}
	step.Changes = seed.SpelledAll(step.Changes)
	return o
}

func (e *earnedTrust) dates(st *site, by collection.Signal, dates []protocol.Date, read time.Time) {
	e.judge.Date(st.standing, by, dates, read)
}

func (e *earnedTrust) believe(st *site, p *collection.Page) judgement.Decision {
	return e.judge.Believe(st.standing, p)
}

func (e *earnedTrust) audits() bool { return rand.Float64() < fresh.AuditShare }

func (e *earnedTrust) admits(url string) bool {
	e.work.Lock()
	st := e.sites.byOrigin[protocol.Origin(url)]
	crawled := st != nil && st.sources.obeys() && !e.sites.outside(st)
	e.work.Unlock()
	return crawled || e.c.Seeder.Admit(seed.Ref{URL: protocol.Origin(url) + "/", Kind: seed.Listed}).OK
}

func (e *earnedTrust) excludes(p *collection.Page) string {
	return explain.Excluded(e.c.Seeder, p)
}

// fullTrust believes all announcements of the one site; robots.txt outranks them.
type fullTrust struct{ c *setup }

func (f fullTrust) options(_ *site, _ *client.Step, by collection.Signal, _ time.Time) collection.ApplyOptions {
	return collection.ApplyOptions{Admit: func(u string) collection.Find {
		return collection.Find{URL: u, Depth: protocol.Depth(u), By: by, Exclude: f.c.Seeder.Forbids(u)}
	}}
}

func (fullTrust) dates(*site, collection.Signal, []protocol.Date, time.Time) {}

func (fullTrust) believe(*site, *collection.Page) judgement.Decision { return judgement.Fetch }

func (fullTrust) audits() bool { return false }

func (f fullTrust) admits(u string) bool {
	p, ok, err := f.c.Collection.Page(u)
	return err == nil && ok && p.State != collection.Gone
}

func (f fullTrust) excludes(p *collection.Page) string { return f.c.Seeder.Forbids(p.URL) }
