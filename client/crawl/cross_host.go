package crawl

import (
	"net/http"
	"strings"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/protocol"
)

// A site's robots.txt may name a sitemap on another host: that line authorizes it
// (sitemaps.org, "cross submits"). The entries for this site count as if the site had
// listed them; entries for other sites are ignored. The request obeys the other host's
// robots.txt, its slot and its gaps.

const maxCrossHost = 8 // such sources that are fetched at once, each from another host

// crossHost is the state of hosts from which sitemaps of other sites are fetched. The work's lock guards it.
type crossHost struct {
	c      *setup
	work   *work
	sites  *siteTable
	within string       // the only origin to which redirects may lead; empty: any
	guests *seed.Seeder // for hosts that are not sites of the crawl
	robots map[string]crossHostRobots
	asked  map[string]bool // origins with an open request
}

// A crossHostRobots says when to fetch the robots.txt of such a host again.
type crossHostRobots struct {
	again time.Time
	fails int
}

const maxGuests = 10_000

// crosses reports whether a declared source of another origin is fetched: it must be
// a sitemap on a crawled or admitted host, or on one with a related name, see kin.
func (x *crossHost) crosses(st *site, sp seed.Special) bool {
	origin := protocol.Origin(sp.URL)
	if sp.Kind != seed.Sitemap || !sp.Declared || origin == "" {
		return false
	}
	return x.sites.byOrigin[origin] != nil || kin(hostOf(st.Origin), hostOf(origin)) || x.c.Seeder.Admit(seed.Ref{URL: origin + "/", Kind: seed.Listed}).OK
}

// kin reports whether one host is the other or a subdomain of it, "www." left out.
func kin(a, b string) bool {
	a, b = strings.TrimPrefix(a, "www."), strings.TrimPrefix(b, "www.")
	if len(a) > len(b) {
		a, b = b, a
	}
	return a == b || strings.Contains(a, ".") && strings.HasSuffix(b, "."+a)
}

// hostOf returns the host of an origin, without its port.
func hostOf(origin string) string {
	_, host, _ := strings.Cut(origin, "://")
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	return host
}

// startCrossHost fetches a source from its host. While another such request to that host
// is open, the source waits. The work's lock is held.
func (r *sources) startCrossHost(src *source, now time.Time) {
	b := r.crossHost
	origin := protocol.Origin(src.URL)
	if b.asked[origin] || len(b.asked) >= maxCrossHost {
		r.sites.putOff(src, now.Add(r.c.hurried(time.Second)))
		return
	}
	b.asked[origin] = true
	src.busy, src.off = true, false
	src.site.asking++
	r.work.busy++
	s := src.Source
	r.work.begun.Go(func() {
		a := r.crossHost.fetch(origin, &s)
		if r.work.ctx.Err() != nil {
			a.Fault = harvest.FaultStopped
		}
		r.work.Lock()
		delete(b.asked, origin)
		r.work.Unlock()
		r.answered(src.site, src, a, a.Body, a.Status)
	})
}

// fetch fetches a source of another site from a host.
func (x *crossHost) fetch(origin string, s *collection.Source) *harvest.Answer {
	a := &harvest.Answer{Task: harvest.Task{URL: s.URL, Source: s.ID}, Site: s.Site}
	allow := func(u string) error { return x.allowed(origin, u) }
	err := x.learnRobots(origin)
	if err == nil {
		err = allow(s.URL)
	}
	if err == nil {
		err = x.get(x.c.Harvester.Checked(origin, allow), s, a)
	}
	if err != nil {
		a.Status, a.Fault, a.Err = 0, harvest.FaultProtocol, err
	}
	return a
}

func (x *crossHost) get(via http.RoundTripper, s *collection.Source, a *harvest.Answer) error {
	c := fetch.Client{Transport: via, Timeout: smallPatience, MaxBytes: SourceBytes(s.Kind)}
	a.Asked = time.Now()
	got, err := c.Get(x.work.ctx, s.URL, fetch.Validators{ETag: s.ETag, LastModified: s.LastModified}.Header())
	if err != nil {
		return err
	}
	defer got.Close()
	a.Status, a.Header = got.Status, got.Header
	a.Body, err = got.Bytes()
	return err
}

// learnRobots makes sure that the robots.txt of a host is known, which may not be a site of the crawl.
func (x *crossHost) learnRobots(origin string) error {
	now := time.Now()
	x.work.Lock()
	st, g := x.sites.byOrigin[origin], x.robots[origin]
	known := st != nil && st.sources.obeys() || now.Before(g.again)
	x.work.Unlock()
	if known {
		return nil
	}
	body, status := x.chase(&harvest.Answer{Location: origin + "/robots.txt"})
	if err := x.work.ctx.Err(); err != nil {
		return err
	}
	if g.fails++; status != 0 && status < 500 && status != http.StatusTooManyRequests {
		g.fails = 0
	}
	g.again = now.Add(seed.RobotsAgain(status, g.fails))
	seeder := x.guests
	seeder.SetRobots(origin, seed.RobotsAnswer{Status: status, Body: body}, now)
	if st == nil {
		x.c.Harvester.Pace(origin, seeder.Delay(origin))
	}
	x.work.Lock()
	defer x.work.Unlock()
	if len(x.robots) >= maxGuests {
		clear(x.robots)
	}
	x.robots[origin] = g
	return nil
}

// allowed returns an error if a URL of a host must not be fetched.
func (x *crossHost) allowed(origin, u string) error {
	x.work.Lock()
	st := x.sites.byOrigin[origin]
	known := st != nil && st.sources.obeys()
	x.work.Unlock()
	if known {
		return x.sites.allowed(st, u)
	}
	rule := x.guests.Silent(origin)
	if rule == "" {
		rule = x.guests.Forbids(u)
	}
	if rule != "" {
		return &forbiddenError{u, rule}
	}
	return nil
}
