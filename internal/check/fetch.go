package check

import (
	"cmp"
	"context"
	"errors"
	"io"
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

// A fetcher sends requests, one at a time, at the pace of the check.
type fetcher struct {
	*Checker
	client fetch.Client
	agent  string
	every  time.Duration
	last   time.Time
	rules  map[string]*originRobots // by origin

	done, planned int
}

func newAsker(c *Checker) *fetcher {
	a := &fetcher{Checker: c, agent: cmp.Or(c.Agent, agentDefault), every: cmp.Or(c.Every, everyDefault), rules: make(map[string]*originRobots)}
	a.client = fetch.Client{Agent: a.agent, Pace: a.pause, MaxBytes: -1}
	if c.Client != nil {
		a.client.Transport = c.Client.Transport
	}
	return a
}

// An answer is the response of a web server. The caller must close it.
type answer struct {
	*fetch.Answer
	body  io.ReadCloser // without its content coding
	wire  *counter      // bytes on the wire
	coded bool          // the body had a content coding
}

func (a *answer) Close() error { return errors.Join(a.body.Close(), a.Answer.Close()) }

// A counter is a Reader that counts bytes.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// get fetches a URL as soon as the pace allows. No HTTP status is an error.
func (a *fetcher) get(ctx context.Context, url string, header http.Header) (*answer, error) {
	return a.within(ctx, askWait, url, header)
}

func (a *fetcher) within(ctx context.Context, wait time.Duration, url string, header http.Header) (*answer, error) {
	if a.Progress != nil {
		a.Progress(a.done, max(a.planned, a.done+1))
	}
	a.done++
	client := a.client
	client.Timeout = wait
	header = header.Clone()
	if header == nil {
		header = http.Header{}
	}
	header.Set("Accept-Encoding", accepted) // set here, so that net/http does not decode the body
	resp, err := client.Get(ctx, url, header)
	if err != nil {
		return nil, err
	}
	a.log().Debug("fetched", "url", url, "status", resp.Status)
	ans := &answer{Answer: resp, wire: &counter{r: resp}}
	ans.body = io.NopCloser(ans.wire)
	switch resp.Header.Get("Content-Encoding") {
	case "gzip", "x-gzip", "zstd":
		z, err := coding.NewReader(ans.wire)
		if err != nil {
			resp.Close()
			return nil, err
		}
		ans.coded, ans.body = true, z
	}
	return ans, nil
}

// pause waits until a request may be sent.
func (a *fetcher) pause(ctx context.Context) error {
	if wait := time.Until(a.last.Add(a.every)); !a.last.IsZero() && wait > 0 {
		pause.For(ctx, wait)
	}
	a.last = time.Now()
	return ctx.Err()
}

// An originRobots is the robots.txt of an origin.
type originRobots struct {
	file *robots.File
	text []byte // its beginning; nil if there is none
	got  bool   // the response was 2xx
}

// allowed reports whether robots.txt lets this program fetch a URL.
func (a *fetcher) allowed(r *originRobots, url string) bool {
	return r.file.Allowed(a.agent, url[len(protocol.Origin(url)):])
}

// robots fetches the robots.txt of an origin, once, and records problems with that.
func (x *run) robots(ctx context.Context, origin string) *originRobots {
	a := x.asking
	if r := a.rules[origin]; r != nil {
		return r
	}
	url := origin + "/robots.txt"
	r := &originRobots{}
	var code int
	for hop := 0; ; hop++ {
		ans, err := a.get(ctx, url, nil)
		if err != nil {
			x.violate("robots-unreachable", origin+"/robots.txt", short(err.Error()))
			break
		}
		code = ans.Status
		to := ans.location()
		if to != "" && hop < maxRedirects {
			ans.Close()
			url = to
			continue
		}
		text, err := io.ReadAll(io.LimitReader(ans.body, robots.MaxBytes+1))
		ans.Close()
		switch {
		case err != nil:
			code = 0
			x.violate("robots-unreachable", url, short(err.Error()))
		case 200 <= code && code < 300:
			if name := challenge(ans, text); name != "" {
				x.violate("challenge", url, name)
			} else if looksLikeHTML(text) {
				x.violate("robots-html", url, "")
			}
			r.got, r.text = true, text
		case code >= 500 || code == 429:
			x.violate("robots-unreachable", url, ans.Says())
		}
		break
	}
	r.file = robots.ForStatus(code, r.text)
	a.rules[origin] = r
	a.every = max(a.every, r.file.CrawlDelay(a.agent))
	return r
}

// location returns the canonical URL that a response redirects to; empty if none.
func (a *answer) location() string {
	if a.Location == "" {
		return ""
	}
	u, err := protocol.CanonicalURL(a.URL, a.Location)
	if err != nil {
		return ""
	}
	return u
}

// fetch fetches the document at url, following redirects on the same site. On failure
// it returns nil, and records the rule that was broken, or "part-missing".
func (x *run) fetch(ctx context.Context, url string, part bool) *answer {
	fail := func(rule, eg string) *answer {
		if part {
			rule, eg = "part-missing", url+" ("+eg+")"
		}
		x.violate(rule, url, eg)
		return nil
	}
	at := url
	for hop := 0; ; hop++ {
		if !isRobots(at) {
			if r := x.robots(ctx, protocol.Origin(at)); !x.asking.allowed(r, at) {
				return fail("forbidden", at)
			}
		}
		ans, err := x.asking.within(ctx, readWait, at, nil)
		if err != nil {
			return fail("unreachable", short(err.Error()))
		}
		to := ans.location()
		switch {
		case to != "" && (hop == maxRedirects || !sameSite(at, to)):
			ans.Close()
			return fail("unreachable", "it redirects to "+short(to)+", which is not followed")
		case to != "":
			ans.Close()
			x.violate("redirected", url, short(at)+" redirects to "+short(to))
			at = to
			continue
		}
		if ans.Status < 200 || ans.Status >= 300 {
			head, _ := io.ReadAll(io.LimitReader(ans.body, 64<<10))
			ans.Close()
			if name := challenge(ans, head); name != "" {
				return fail("challenge", name)
			}
			if !part && isRobots(url) && (ans.Status == http.StatusNotFound || ans.Status == http.StatusGone) {
				x.report.Kind = kindRobots
				return fail("robots-none", ans.Says())
			}
			return fail("status", ans.Says())
		}
		return ans
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
func challenge(a *answer, page []byte) string {
	if a.Header.Get("Cf-Mitigated") == "challenge" {
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
