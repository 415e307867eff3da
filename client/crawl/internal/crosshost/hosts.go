// Package crosshost fetches documents of a site from other hosts. A site's robots.txt may name a sitemap on another host: that
// line authorizes it (sitemaps.org, "cross submits"). The entries for the site count as if the site had listed them; entries for
// other sites are ignored. Each request obeys the other host's robots.txt, its slot and its gaps.
package crosshost

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/protocol"
)

const (
	mostOpen  = 8 // such documents that are fetched at once, each from another host
	mostHosts = 10_000
	mostHops  = 5 // redirects of a robots.txt

	patience = 15 * time.Minute // for a document, with the wait for its host's slot
)

// Hosts fetch documents from hosts that need not be sites of the crawl. They are safe for concurrent use, and hold no lock while
// they wait.
type Hosts struct {
	harvester *harvest.Harvester

	// crawled reports whether an origin is a site of the crawl. If its robots.txt is known, allow returns an error for a URL that
	// must not be fetched; else it is nil.
	crawled func(origin string) (is bool, allow func(url string) error)

	within string // the only origin to which redirects may lead; empty: any
	most   int64  // bytes of a robots.txt
	guests *seed.Seeder

	mu     sync.Mutex // guards the rest
	robots map[string]robots
	open   map[string]bool // origins with an open request
}

// robots says when to fetch the robots.txt of a host again.
type robots struct {
	again time.Time
	fails int
}

// New returns Hosts whose redirects stay within an origin, if that is not empty, and which read so many bytes of a robots.txt.
func New(h *harvest.Harvester, crawled func(origin string) (is bool, allow func(url string) error), agent, within string, most int64) *Hosts {
	return &Hosts{harvester: h, crawled: crawled, within: within, most: most, guests: &seed.Seeder{Agent: agent}, robots: map[string]robots{}, open: map[string]bool{}}
}

// Begin reserves a host for Fetch, which ends that; false means that another request to it is open, or too many are.
func (x *Hosts) Begin(origin string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.open[origin] || len(x.open) >= mostOpen {
		return false
	}
	x.open[origin] = true
	return true
}

// Fetch fetches a source of a site, of at most so many bytes, from the host that Begin has reserved.
func (x *Hosts) Fetch(ctx context.Context, s *collection.Source, most int64) *harvest.Answer {
	origin := protocol.Origin(s.URL)
	defer func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.open, origin)
	}()
	a := &harvest.Answer{Task: harvest.Task{URL: s.URL, Source: s.ID}, Site: s.Site}
	allow := func(u string) error { return x.allowed(origin, u) }
	err := x.learnRobots(ctx, origin)
	if err == nil {
		err = allow(s.URL)
	}
	if err == nil {
		err = get(ctx, x.harvester.Checked(origin, allow), s, most, a)
	}
	if err != nil {
		a.Status, a.Fault, a.Err = 0, harvest.FaultProtocol, err
	}
	return a
}

func get(ctx context.Context, via http.RoundTripper, s *collection.Source, most int64, a *harvest.Answer) error {
	c := fetch.Client{Transport: via, Timeout: patience, MaxBytes: most}
	a.Asked = time.Now()
	got, err := c.Get(ctx, s.URL, fetch.Validators{ETag: s.ETag, LastModified: s.LastModified}.Header())
	if err != nil {
		return err
	}
	defer got.Close()
	a.Status, a.Header = got.Status, got.Header
	a.Body, err = got.Bytes()
	return err
}

// learnRobots makes sure that the robots.txt of a host is known.
func (x *Hosts) learnRobots(ctx context.Context, origin string) error {
	now := time.Now()
	crawled, allow := x.crawled(origin)
	x.mu.Lock()
	r := x.robots[origin]
	x.mu.Unlock()
	if allow != nil || now.Before(r.again) {
		return nil
	}
	body, status := x.Robots(ctx, origin+"/robots.txt")
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.fails++; status != 0 && status < 500 && status != http.StatusTooManyRequests {
		r.fails = 0
	}
	r.again = now.Add(seed.RobotsAgain(status, r.fails))
	x.guests.SetRobots(origin, seed.RobotsAnswer{Status: status, Body: body}, now)
	if !crawled {
		x.harvester.Pace(origin, x.guests.Delay(origin))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.robots) >= mostHosts {
		clear(x.robots)
	}
	x.robots[origin] = r
	return nil
}

// allowed returns an error if a URL of a host must not be fetched.
func (x *Hosts) allowed(origin, u string) error {
	if _, allow := x.crawled(origin); allow != nil {
		return allow(u)
	}
	rule := x.guests.Silent(origin)
	if rule == "" {
		rule = x.guests.Forbids(u)
	}
	if rule != "" {
		return Forbidden(u, rule)
	}
	return nil
}

// Forbidden returns the error of a URL that is not fetched because of a rule.
func Forbidden(u, rule string) error { return fmt.Errorf("%.200s is not fetched: %s", u, rule) }

// Robots fetches a robots.txt, and follows its redirects, also to other origins (RFC 9309). The status is 0 if there is no
// answer.
func (x *Hosts) Robots(ctx context.Context, to string) (body []byte, status int) {
	for range mostHops {
		if x.within != "" && protocol.Origin(to) != x.within {
			return nil, http.StatusNotFound // a crawl of one site never leaves it
		}
		c := fetch.Client{Transport: x.harvester.Transport(protocol.Origin(to)), Timeout: patience, MaxBytes: x.most}
		a, err := c.Get(ctx, to, nil)
		if err != nil {
			return nil, 0
		}
		got, err := a.Bytes()
		a.Close()
		switch {
		case err != nil:
			return nil, 0
		case a.Status < 300 || a.Status > 399:
			return got, a.Status
		case a.Location == "":
			return nil, http.StatusNotFound
		}
		to = a.Location
	}
	return nil, http.StatusNotFound
}

// Related reports whether the host of one origin is that of the other or a subdomain of it, "www." left out.
func Related(a, b string) bool {
	a, b = hostOf(a), hostOf(b)
	if len(a) > len(b) {
		a, b = b, a
	}
	return a == b || strings.Contains(a, ".") && strings.HasSuffix(b, "."+a)
}

// hostOf returns the host of an origin, without "www." and its port.
func hostOf(origin string) string {
	_, host, _ := strings.Cut(origin, "://")
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	return strings.TrimPrefix(host, "www.")
}
