package crawl

import (
	"bytes"
	"cmp"
	"net/http"
	"strings"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/crosshost"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/gather"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/engine/poll"
	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/protocol"
)

// SourceBytes returns how much of a source is read, in bytes: the maximum size of a sitemap or a feed, and
// 500 KiB of a robots.txt (RFC 9309). Manifests and changes are read by package client.
func SourceBytes(kind collection.SourceKind) int64 {
	switch kind {
	case collection.Robots:
		return 500 << 10
	case collection.SitemapXML:
		return seed.MaxSitemap
	case collection.NewsFeed:
		return seed.MaxFeed
	}
	return 4 << 20
}

const (
	robotsEvery   = 24 * time.Hour
	sitemapEvery  = 24 * time.Hour
	feedEvery     = time.Hour
	manifestEvery = 10 * time.Minute // where a site has no other door
	sourceAgain   = 7 * 24 * time.Hour
	firstRetry    = time.Minute // after a source gave no answer; doubled each time, up to lastRetry
	lastRetry     = 12 * time.Hour
)

// sources adds the start pages of a run, reads robots.txt, sitemaps and feeds, and decides when each of them is fetched again.
type sources struct {
	c             *setup
	work          *work
	in            *inbox
	sites         *siteTable
	plan          planner
	announcements *announcements
	followers     *followers
	hosts         *crosshost.Hosts // for sitemaps on other hosts, and robots.txt that is redirected
	count         *counters

	ends     bool   // the crawl ends when nothing is left to fetch
	manifest string // if not empty: the URL of the one manifest to read; no other source is read

	readmits map[frontier.SiteID]bool // sites whose forbidden pages are to be checked again, 0 for all pages outside of the scope; nil: no goroutine does so. Guarded by the work's lock
}

// handle handles the response of a source. It returns false if there is no such source.
func (r *sources) handle(a *harvest.Answer) bool {
	r.work.Lock()
	st := r.sites.of(a.Site)
	var src *source
	if st != nil {
		src = st.sources.byURL[a.Task.URL]
	}
	robots := src != nil && src.Kind == collection.Robots
	r.work.Unlock()
	if src == nil {
		return false
	}
	if a.Fault == "" && robots && a.Location != "" {
		r.work.begun.Go(func() { // redirects may take minutes, and readers are few
			body, status := r.hosts.Robots(r.work.ctx, a.Location)
			if r.work.ctx.Err() != nil {
				a.Fault = harvest.FaultStopped
			}
			r.answered(st, src, a, body, status)
		})
		return true
	}
	status := a.Status
	if a.Fault != "" && a.Fault != harvest.FaultSize {
		status = 0 // half a robots.txt counts as none
	}
	r.answered(st, src, a, a.Body, status)
	return true
}

// answered handles the response of a source, after redirects.
func (r *sources) answered(st *site, src *source, a *harvest.Answer, body []byte, status int) {
	c := r.c
	defer a.Release()
	remains := harvest.Lasting(a.Err)
	r.work.Lock()
	s := src.Source
	src.lasts = remains
	r.work.Unlock()
	was, now := s, time.Now()
	out := result{source: src, busy: 1}
	s.Polled, s.Status, s.Fault, s.Authorized = now, status, "", a.Authorized
	switch {
	case a.Fault == harvest.FaultStopped:
		s = was // still due: a crawl with Once waits for it
	case status == 0 || status >= 500 || status == http.StatusTooManyRequests:
		s.Fails++
		s.Fault = a.Trouble(status)
		s.At = now.Add(c.hurried(min(firstRetry<<min(s.Fails-1, 16), lastRetry)))
		if again := retryAfter(a.Header, now); again.After(s.At) {
			s.At = again
		}
		if s.Since.IsZero() {
			s.Since = now
		}
		if s.Kind == collection.Robots {
			again := seed.RobotsAgain(status, s.Fails)
			if !r.ends || !remains { // in a crawl that ends, no quick retries of a fault that will last
				again = c.hurried(again)
			}
			if c.Quiet > 0 {
				again = min(again, c.Quiet)
			}
			s.At = now.Add(again)
		}
	case status == http.StatusNotModified:
		s.Status, s.Fails, s.Since, s.At = http.StatusOK, 0, time.Time{}, now.Add(c.every(s.Kind))
		if s.Kind != collection.Robots {
			r.polled(st, &s, poll.Poll{}, now)
		}
	case s.Kind == collection.Robots:
		s.Body, s.Fails, s.At = nil, 0, now.Add(c.every(s.Kind))
		if status < 300 {
			s.Body = bytes.Clone(body)
		}
		s.Since = time.Time{}
		v := fetch.ValidatorsOf(a.Header)
		s.ETag, s.LastModified = v.ETag, v.LastModified
	case a.Location != "" && r.leadsOn(st, &s, a.Location, &out.sources):
		s.Fails, s.Fault, s.At = 0, "", now.Add(c.every(s.Kind))
	case status != http.StatusOK:
		s.Fails, s.Fault, s.At = s.Fails+1, a.Trouble(status), now.Add(c.SourceAgain)
	default:
		var news poll.Poll
		if d := protocol.Sum(body); d != s.Digest {
			s.Digest, s.Changed = d, now
			out.sources, news = r.readList(st, &s, body)
		}
		s.Fails = 0
		r.polled(st, &s, news, now)
		v := fetch.ValidatorsOf(a.Header)
		s.ETag, s.LastModified = v.ETag, v.LastModified
	}
	if s.Kind == collection.Robots && a.Fault != harvest.FaultStopped {
		out.sources = r.inForce(st, src, s, a, now)
	}
	r.work.Lock()
	switch {
	case a.Fault == harvest.FaultStopped:
	case s.Kind == collection.Robots && s.Fault != "":
		r.sites.failed(st, "robots.txt: "+s.Fault)
	case status != 0:
		r.sites.recovered(st)
	}
	r.work.Unlock()
	if s.Fault == "" && s.Kind != collection.Robots && a.Fault != harvest.FaultStopped {
		r.count.Heard.Add(1)
	}
	out.state = s
	r.in.Put(out)
}

// inForce applies a robots.txt, and returns the sources that it names and the
// other URLs where a site may publish a manifest or a sitemap.
func (r *sources) inForce(st *site, src *source, s collection.Source, a *harvest.Answer, now time.Time) (list []collection.Source) {
	r.work.Lock()
	defer r.work.Unlock()
	first := src.Polled.IsZero()
	src.Source = s
	if a.IP.IsValid() && a.Status > 0 && st.IP != a.IP {
		st.IP, st.Resolved = a.IP, now
		r.sites.touch(st)
	}
	if r.sites.obey(st, now) && !first {
		r.readmit(st)
	}
	if r.manifest != "" {
		return r.only(st)
	}
	for _, sp := range r.c.Seeder.Specials(st.Origin) {
		kind := collection.SitemapXML
		if sp.Kind == seed.Manifest {
			kind = collection.ManifestRDF
		}
		if protocol.Origin(sp.URL) != st.Origin && !r.crosses(st, sp) {
			r.c.Log.Debug("source of another origin is ignored", "site", st.Origin, "url", sp.URL)
			continue
		}
		if !sp.Declared && kind == collection.SitemapXML && (len(list) > 0 || st.sources.mayTell()) && !r.c.NoManifests {
			continue // its pages are in its manifest, unless there turns out to be none: see guessed
		}
		list = withSource(list, st, kind, sp.URL, 0)
	}
	for _, u := range r.above(st) {
		if r.c.Seeder.Forbids(u) == "" {
			list = withSource(list, st, collection.ManifestRDF, u, 0)
		}
	}
	return list
}

// crosses reports whether a declared source of another origin is fetched: it must be
// a sitemap on a crawled or admitted host, or on one with a related name.
func (r *sources) crosses(st *site, sp seed.Special) bool {
	origin := protocol.Origin(sp.URL)
	if sp.Kind != seed.Sitemap || !sp.Declared || origin == "" {
		return false
	}
	return r.sites.byOrigin[origin] != nil || crosshost.Related(st.Origin, origin) || r.c.Seeder.Admit(seed.Ref{URL: origin + "/", Kind: seed.Listed}).OK
}

// fetchCrossHost fetches a source from its host. While another such request to that host
// is open, the source waits. The work's lock is held.
func (r *sources) fetchCrossHost(src *source, now time.Time) {
	if !r.hosts.Begin(protocol.Origin(src.URL)) {
		r.sites.putOff(src, now.Add(r.c.hurried(time.Second)))
		return
	}
	src.busy, src.off = true, false
	src.site.asking++
	r.work.busy++
	s := src.Source
	r.work.begun.Go(func() {
		a := r.hosts.Fetch(r.work.ctx, &s, SourceBytes(s.Kind))
		if r.work.ctx.Err() != nil {
			a.Fault = harvest.FaultStopped
		}
		r.answered(src.site, src, a, a.Body, a.Status)
	})
}

// guessed returns the usual sitemap URL of a site that has no manifest and declares no sitemap. The work's lock is held.
func (t *siteTable) guessed(st *site) (list []collection.Source) {
	for _, sp := range t.seeder.Specials(st.Origin) {
		if sp.Kind == seed.Sitemap && !sp.Declared {
			list = withSource(list, st, collection.SitemapXML, sp.URL, 0)
		}
	}
	return list
}

// mostAbove is the number of directories above a start page in which a manifest is looked for.
const mostAbove = 3

// above returns where the manifest of a site below a path may be: in the directories above
// the start pages of this origin, deepest first. The root is always tried.
func (r *sources) above(st *site) (list []string) {
	for _, start := range r.c.Start {
		u, _, _ := strings.Cut(r.c.Seeder.Admit(seed.Ref{URL: start, Kind: seed.Person}).URL, "?")
		path, ok := strings.CutPrefix(u, st.Origin+"/")
		for n := 0; ok && n < mostAbove; n++ {
			i := strings.LastIndexByte(path, '/')
			if i < 0 {
				break
			}
			list = append(list, st.Origin+"/"+path[:i+1]+"robots.rdf")
			path = path[:i]
		}
	}
	return list
}

// named adds a source that a page names, if it is of the page's own origin.
func (r *pageReader) named(id frontier.SiteID, l gather.Link) {
	u, err := protocol.CanonicalURL("", l.URL)
	if err != nil {
		return
	}
	kind := collection.SitemapXML
	switch l.Kind {
	case gather.Feed:
		kind = collection.NewsFeed
	case gather.Manifest:
		kind = collection.ManifestRDF
	}
	r.work.Lock()
	st := r.sites.of(id)
	news := st != nil && protocol.Origin(u) == st.Origin && st.sources.names(u)
	if news {
		r.work.busy++
	}
	r.work.Unlock()
	if news {
		r.in.Put(result{sources: []collection.Source{{Site: id, Kind: kind, URL: u}}, busy: 1})
	}
}

// maxSources is how many sources a site may name.
const maxSources = 1000

// readList parses a sitemap or a feed. It applies its entries, like those of a
// manifest, and returns the sitemaps that it names, and what the poll showed to be new.
func (r *sources) readList(st *site, s *collection.Source, body []byte) (more []collection.Source, news poll.Poll) {
	var list seed.List
	var err error
	by := collection.BySitemap
	if s.Kind == collection.NewsFeed {
		by = collection.ByFeed
		list, err = seed.ReadFeed(s.URL, body)
	} else {
		list, err = seed.ReadSitemap(s.URL, body)
	}
	if err != nil {
		s.Fault = err.Error()
	}
	r.work.Lock()
	for _, n := range list.Sitemaps {
		if !n.Foreign {
			more = withSource(more, st, collection.SitemapXML, n.URL, s.ID)
		}
	}
	r.work.Unlock()
	s.Pages = len(list.Pages)
	dates := make([]protocol.Date, len(list.Pages))
	for i, p := range list.Pages {
		dates[i] = protocol.Date{Time: p.Modified, Span: p.Span}
	}
	if s.Kind == collection.NewsFeed { // its dates are those at which items appeared
		news.Window = len(list.Pages)
		for _, d := range dates {
			if t, ok := protocol.SaneModified(d.Time, s.Polled, r.c.Trust.Dates); ok && d.Span < time.Hour {
				news.Dates = append(news.Dates, t)
			}
		}
	}
	r.announcements.trust.dates(st, by, dates, s.Polled)
	step := client.Step{}
	for i := range list.Pages {
		p := &list.Pages[i]
		step.Changes = append(step.Changes, protocol.Change{Op: protocol.Create,
			Item: protocol.Item{URL: p.URL, Modified: p.Modified, Span: p.Span, Length: -1}})
		if len(step.Changes) == protocol.MaxBatch || i == len(list.Pages)-1 {
			owed, err := r.announcements.apply(st, s.ID, step, by)
			news.New += owed
			if err != nil {
				s.Fault = err.Error()
				return more, news
			}
			step.Changes = step.Changes[:0]
		}
	}
	return more, news
}

// mostHops is how many redirects of a source are followed.
const mostHops = 5

// leadsOn adds the target of a source's redirect as another source of its site. It returns
// false if the redirect leads to another origin, or is one of too many in a row.
func (r *sources) leadsOn(st *site, s *collection.Source, to string, more *[]collection.Source) bool {
	to, err := protocol.CanonicalURL("", to)
	if err != nil || protocol.Origin(to) != st.Origin {
		return false
	}
	r.work.Lock()
	defer r.work.Unlock()
	if st.sources.byURL[to] != nil || st.sources.named[to] {
		return to != s.URL
	}
	if st.sources.hops(s) >= mostHops || !st.sources.names(to) {
		return false
	}
	*more = append(*more, collection.Source{Site: st.ID, Kind: s.Kind, URL: to, Parent: s.ID})
	return true
}

// polled records a poll of a sitemap or a feed, and schedules the next one: by the
// results of its polls (Source.Rhythm) where a price is known, else after the fixed
// interval of its kind (A13).
func (r *sources) polled(st *site, s *collection.Source, news poll.Poll, now time.Time) {
	rec, _ := poll.ParseRecord(s.Rhythm) // a damaged record starts anew
	if news.At = now; news.Window == 0 {
		news.Window = rec.Window // it was not read, and lists as many items as before
	}
	rec = rec.Poll(news)
	s.Rhythm, s.At = rec.Append(nil), now.Add(r.c.every(s.Kind))
	if r.c.Polls.Policy == nil {
		return
	}
	r.work.Lock()
	weight := st.weight
	r.work.Unlock()
	if price := r.plan.price(); price > 0 && rec.Polls > 1 {
		src := poll.Source{Record: &rec, Weight: cmp.Or(weight, 1) * cmp.Or(r.c.Subscribers[s.URL], 1)}
		s.At = r.c.Polls.Next(&src, price, now)
	}
}

// longestRhythm is the longest time between two polls of a source.
const longestRhythm = 7 * 24 * time.Hour
