package check

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	neturl "net/url"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/internal/robots"
	"github.com/parleyweb/parley/protocol"
)

const (
	maxRedirects = 5 // RFC 9309, 2.3.1.2: for robots.txt at least five
	askWait      = 30 * time.Second
	readWait     = 5 * time.Minute // timeout for a whole document
	maxAnswer    = 1 << 30         // bytes, decoded
)

// accepted is our Accept-Encoding: crawlers accept gzip, and many accept more.
const accepted = "gzip, zstd"

// A fetcher sends the requests of one check, one at a time, at its pace, and knows the robots.txt of each site. It is
// for one goroutine.
type fetcher struct {
	violations // of the check, for those of robots.txt
	client     fetch.Client
	every      time.Duration
	last       time.Time
	rules      map[string]*originRobots // by origin

	done, planned int
	progress      func(done, of int) // may be nil
	log           *slog.Logger
}

func newFetcher(c *Checker, v violations) *fetcher {
	a := &fetcher{violations: v, every: cmp.Or(c.Every, everyDefault), rules: make(map[string]*originRobots),
		progress: c.Progress, log: cmp.Or(c.Log, slog.New(slog.DiscardHandler))}
	a.client = fetch.Client{Agent: cmp.Or(c.Agent, agentDefault), Pace: a.pause, MaxBytes: -1}
	if c.Client != nil {
		a.client.Transport = c.Client.Transport
	}
	return a
}

// A decoder is the body of a response without its content coding. Close ends the request too.
type decoder struct {
	io.ReadCloser
	answer *fetch.Answer
}

func (d decoder) Close() error { return errors.Join(d.ReadCloser.Close(), d.answer.Close()) }

// coded reports whether a response has a content coding that get removes.
func coded(h http.Header) bool {
	switch h.Get("Content-Encoding") {
	case "gzip", "x-gzip", "zstd":
		return true
	}
	return false
}

// get fetches a URL as soon as the pace allows, and for at most wait; the header may be nil, and get adds to it. No
// HTTP status is an error. The caller must close the body, which has no content coding.
func (a *fetcher) get(ctx context.Context, wait time.Duration, url string, header http.Header) (*fetch.Answer, io.ReadCloser, error) {
	if a.progress != nil {
		a.progress(a.done, max(a.planned, a.done+1))
	}
	a.done++
	client := a.client
	client.Timeout = wait
	if header == nil {
		header = http.Header{}
	}
	header.Set("Accept-Encoding", accepted) // set here, so that net/http does not decode the body
	ans, err := client.Get(ctx, url, header)
	if err != nil {
		return nil, nil, err
	}
	a.log.Debug("fetched", "url", url, "status", ans.Status)
	if !coded(ans.Header) {
		return ans, ans, nil
	}
	z, err := coding.NewReader(ans)
	if err != nil {
		ans.Close()
		return nil, nil, err
	}
	return ans, decoder{z, ans}, nil
}

// pause waits until a request may be sent.
func (a *fetcher) pause(ctx context.Context) error {
	if !a.last.IsZero() {
		pause.For(ctx, time.Until(a.last.Add(a.every)))
	}
	a.last = time.Now()
	return ctx.Err()
}

// An originRobots is the robots.txt of an origin.
type originRobots struct {
	file *robots.File
	got  bool // the response was 2xx
	lost bool // it could not be fetched: everything counts as forbidden
}

// allowed reports whether robots.txt lets this program fetch a URL.
func (a *fetcher) allowed(r *originRobots, url string) bool {
	return r.file.Allowed(a.client.Agent, url[len(protocol.Origin(url)):])
}

// robots fetches the robots.txt of an origin, once, and records problems with that.
func (a *fetcher) robots(ctx context.Context, origin string) *originRobots {
	if r := a.rules[origin]; r != nil {
		return r
	}
	url := origin + "/robots.txt"
	r := &originRobots{}
	unreachable := func(why string) {
		a.violate("robots-unreachable", url, why)
		r.lost = true
	}
	var code int
	var rules []byte
	for hop := 0; ; hop++ {
		ans, body, err := a.get(ctx, askWait, url, nil)
		if err != nil {
			unreachable(short(err.Error()))
			break
		}
		code = ans.Status
		to := location(ans)
		if to != "" && hop < maxRedirects {
			body.Close()
			url = to
			continue
		}
		text, err := io.ReadAll(io.LimitReader(body, robots.MaxBytes+1))
		body.Close()
		switch {
		case err != nil:
			code = 0
			unreachable(short(err.Error()))
		case 200 <= code && code < 300:
			if name := challenge(ans.Header, text); name != "" {
				a.violate("challenge", url, name)
			} else if looksLikeHTML(text) {
				a.violate("robots-html", url, "")
			}
			r.got, rules = true, text
		case code >= 500 || code == 429:
			unreachable(ans.Says())
		}
		break
	}
	r.file = robots.ForStatus(code, rules)
	a.rules[origin] = r
	a.every = max(a.every, r.file.CrawlDelay(a.client.Agent))
	return r
}

// location returns the canonical URL that a response redirects to; empty if none.
func location(a *fetch.Answer) string {
	u, err := protocol.CanonicalURL(a.URL, a.Location)
	if a.Location == "" || err != nil {
		return ""
	}
	return u
}

// fetch fetches the document at url, following redirects on the same site, and returns it with its body,
// which the caller must close. On failure it returns nil, and records the rule that was broken, or
// "part-missing".
func (x *run) fetch(ctx context.Context, url string, part bool) (*fetch.Answer, io.ReadCloser) {
	fail := func(rule, eg string) (*fetch.Answer, io.ReadCloser) {
		if part {
			rule, eg = "part-missing", url+" ("+eg+")"
		}
		x.violate(rule, url, eg)
		return nil, nil
	}
	at := url
	for hop := 0; ; hop++ {
		if !isRobots(at) {
			if r := x.fetcher.robots(ctx, protocol.Origin(at)); !x.fetcher.allowed(r, at) && !part && r.lost {
				return nil, nil // which is recorded
			} else if !x.fetcher.allowed(r, at) {
				return fail("forbidden", at)
			}
		}
		ans, body, err := x.fetcher.get(ctx, readWait, at, nil)
		if err != nil {
			return fail("unreachable", short(err.Error()))
		}
		to := location(ans)
		switch {
		case to != "" && (hop == maxRedirects || !sameSite(at, to)):
			body.Close()
			return fail("unreachable", "it redirects to "+short(to)+", which is not followed")
		case to != "":
			body.Close()
			x.violate("redirected", url, short(at)+" redirects to "+short(to))
			at = to
			continue
		}
		if ans.Status < 200 || ans.Status >= 300 {
			head, _ := io.ReadAll(io.LimitReader(body, 64<<10))
			body.Close()
			if name := challenge(ans.Header, head); name != "" {
				return fail("challenge", name)
			}
			if !part && isRobots(url) && (ans.Status == http.StatusNotFound || ans.Status == http.StatusGone) {
				x.report.Kind = kindRobots
				return fail("robots-none", ans.Says())
			}
			return fail("status", ans.Says())
		}
		return ans, body
	}
}

// isRobots reports whether a canonical URL is that of an origin's robots.txt.
func isRobots(url string) bool { return url == protocol.Origin(url)+"/robots.txt" }

// sameSite reports whether two URLs have the same host, apart from "www." and the scheme.
func sameSite(a, b string) bool {
	host := func(s string) string {
		u, err := neturl.Parse(s)
		if err != nil {
			return s
		}
		return strings.TrimPrefix(u.Hostname(), "www.")
	}
	return host(a) == host(b)
}

// challenges are strings that identify the bot challenges of some products.
var challenges = []struct{ name, word string }{
	{"Anubis", "/.within.website/x/cmd/anubis"},
	{"Cloudflare", "_cf_chl_opt"},
	{"Incapsula", "_Incapsula_Resource"},
	{"DataDome", "captcha-delivery.com"},
	{"AWS WAF", "awsWafCookieDomainList"},
	{"PerimeterX", "px-captcha"},
}

// challenge returns the product whose bot challenge a page is; empty if none.
func challenge(h http.Header, page []byte) string {
	if h.Get("Cf-Mitigated") == "challenge" {
		return "Cloudflare"
	}
	if !looksLikeHTML(page) {
		return ""
	}
	for _, c := range challenges {
		if strings.Contains(string(page[:min(len(page), 64<<10)]), c.word) {
			return c.name
		}
	}
	return ""
}
