package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/protocol"
)

// A Prober probes sites. The zero value is useful on loopback; elsewhere Agent should name the operator, and
// how to reach them. It may be used by many goroutines at once.
type Prober struct {
	// HTTP sends the requests; only its Transport and Timeout are used. Nil means http.DefaultTransport. The
	// Transport must guard against private addresses itself.
	HTTP *http.Client

	// Agent is the User-Agent, such as "ExampleBot/1.0 (+https://example.net/bot)": its first word, up to a
	// slash, is the name to match in robots.txt. From is an e-mail address (P02).
	Agent, From string

	// Wait is the time between a response and the next request, unless the site asks for a longer one. Zero
	// means 2 seconds, negative none: for your own sites only.
	Wait time.Duration

	// MaxRequests limits the requests of one probe. Zero means 40.
	MaxRequests int

	// Freshness is the freshness whose cost is reported, between 0 and 1. Zero means 0.9.
	Freshness float64

	// Delay is how long a crawl would wait between two requests; the report shows which doors fit into that.
	// Zero means 15 seconds (G21).
	Delay time.Duration

	Log *slog.Logger // logs each request; nil is silent
	Now func() time.Time
}

const (
	defaultAgent    = "parley (+https://github.com/parleyweb/parley)"
	maxRequests     = 40
	longestProbe    = 30 * time.Minute // where the site asks for a Crawl-delay
	timeout         = 30 * time.Second
	maxMoves        = 3 // to other origins, of the page itself
	maxRedirects    = 5
	maxPage         = 4 << 20
	maxDocument     = 64 << 20 // of sitemaps and manifests, bytes decoded
	maxFeeds        = 3
	maxSitemaps     = 4
	samples         = 5
	defaultFresh    = 0.9
	defaultDelay    = 15 * time.Second
	month           = 30 * 24 * time.Hour
	assumedInterval = 30 * 24 * time.Hour // between changes of a page without credible dates
)

func (p *Prober) agent() string { return cmp.Or(p.Agent, defaultAgent) }

// token is the name to match in robots.txt.
func (p *Prober) token() string {
	name, _, _ := strings.Cut(p.agent(), "/")
	name, _, _ = strings.Cut(name, " ")
	return name
}

func (p *Prober) now() time.Time { return clock.Now(p.Now) }

// Probe probes a site, beginning with the page at url; without a scheme that is https. It returns an error if
// url is malformed, or if ctx ends. The site's behaviour is in the Report: if it does not answer, the Report
// has a Fault.
func (p *Prober) Probe(ctx context.Context, url string) (*Report, error) {
	if !strings.Contains(url, "://") {
		url = "https://" + url
	}
	u, err := protocol.CanonicalURL("", url)
	if err != nil {
		return nil, fmt.Errorf("probe: %w", err)
	}
	begin := p.now()
	r := &Report{Asked: u, At: begin.UTC().Truncate(time.Second)}
	f := newFetcher(p)
	a := &run{p: p, report: r, fetcher: f}
	err = a.probe(ctx, u)
	r.Requests, r.Bytes, r.Forbidden = f.count, f.bytes, f.forbidden
	r.Took = max(p.now().Sub(begin).Round(time.Millisecond), 0)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("probe %s: %w", u, context.Cause(ctx))
	case err != nil:
		r.Fault = err.Error()
	}
	if a.home.ok() {
		r.Cost = a.measured.cost(r, p.Freshness, p.Delay)
	}
	return r, nil
}

// A run is one probe in progress, which writes the report. It is for one goroutine.
type run struct {
	p        *Prober
	report   *Report
	fetcher  *fetcher
	measured measured

	home    *reply
	named   named
	listed  []listed // pages that the manifest names
	mapped  []listed // pages that the sitemaps name
	sitemap *reply   // the first that names pages
}

// named are the URLs that the page names.
type named struct {
	feeds, sitemaps, manifests []string
	links                      []listed // to pages of the same site
}

// listed is a URL that the page, a sitemap or the manifest names, and the date that it states.
type listed struct {
	url      string
	modified protocol.Date
}

const maxListed = 50_000 // stored pages of each list

// probe sends all requests in order. Its error is why it ended early.
func (a *run) probe(ctx context.Context, u string) (err error) {
	if a.home, err = a.begin(ctx, u); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		a.again, a.soft404, a.manifest, a.feeds, a.sitemaps, a.sample, a.sitemapAgain, a.twin,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// begin fetches robots.txt and the page, at the origin to which the page redirects.
func (a *run) begin(ctx context.Context, u string) (*reply, error) {
	r := a.report
	for range maxMoves + 1 {
		r.URL, r.Origin = u, protocol.Origin(u)
		rep, err := a.fetcher.fetchRobots(ctx, r.Origin)
		if err != nil {
			return nil, err
		}
		r.Robots = a.robotsReport(rep, u)
		if !r.Robots.Allowed && (rep.status == 0 || rep.status == 429 || rep.status >= 500) {
			return nil, fmt.Errorf("robots.txt cannot be fetched, so nothing else may be: %s", cmp.Or(rep.fault, fmt.Sprint("status ", rep.status)))
		}
		home, err := a.fetcher.follow(ctx, u, request{max: maxPage})
		if forbidden := new(forbiddenError); errors.As(err, &forbidden) {
			// Other pages may be allowed.
			return &reply{url: u}, nil
		} else if err != nil {
			return nil, err
		}
		if home.elsewhere == "" {
			r.URL = home.url
			r.Page = pageReport(home)
			return home, nil
		}
		r.Moved = append(r.Moved, home.elsewhere)
		u = home.elsewhere
	}
	return nil, fmt.Errorf("more than %d redirects to other sites", maxMoves)
}

func (a *run) robotsReport(rep *reply, u string) Robots {
	f, token := a.fetcher.robots[a.report.Origin], a.p.token()
	r := Robots{Status: rep.status, Bytes: len(rep.body), Fault: rep.fault}
	r.Allowed, r.Line = f.Decide(token, pathOf(u))
	r.Delay = f.CrawlDelay(token)
	if rep.status < 200 || rep.status > 299 {
		return r
	}
	r.Sitemaps, r.Manifests = f.Lines("sitemap"), f.Lines("manifest")
	named := make(map[string]bool)
	for line := range strings.Lines(string(rep.body)) {
		name, agent, _ := strings.Cut(line, ":")
		agent, _, _ = strings.Cut(agent, "#")
		agent = strings.ToLower(strings.TrimSpace(agent))
		if strings.EqualFold(strings.TrimSpace(name), "user-agent") && agent != "" && !named[agent] && len(r.Agents) < 100 {
			named[agent] = true
			r.Agents = append(r.Agents, agent)
		}
	}
	r.Named = named[strings.ToLower(token)]
	return r
}
