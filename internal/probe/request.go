package probe

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/internal/robots"
	"github.com/parleyweb/parley/protocol"
)

// A run is one probe in progress.
type run struct {
	p      *Prober
	report *Report
	client fetch.Client
	robots map[string]*robots.File // by origin

	begun time.Time
	count int
	bytes int64
	last  time.Time // end of the last response

	home *reply

	// URLs that the page names.
	feedURLs, maps, manifests []string

	listed  []listed // pages that the manifest names, else those of the sitemaps
	mapped  []listed // pages that the sitemaps name
	linked  []listed // same-site links of the page
	sitemap *reply   // the first that names pages

	pages   int             // number of pages of the site, as far as known
	whole   bool            // pages counts all of them
	headers []protocol.Date // credible dates of the fetched pages
	bodies  []int           // sizes of pages on the wire, in bytes
	cond    []int           // sizes of conditional requests answered by 304, in bytes

	ages  []time.Duration // times since the last changes of pages
	ageOf string          // source of ages
}

// listed is a page that a sitemap or manifest names.
type listed struct {
	url      string
	modified protocol.Date
}

const maxListed = 50_000 // stored pages of each list

func newAsker(p *Prober, r *Report) *run {
	a := &run{p: p, report: r, begun: time.Now(), robots: make(map[string]*robots.File)}
	a.client = fetch.Client{Agent: p.agent(), Timeout: timeout}
	if p.HTTP != nil {
		a.client.Transport = p.HTTP.Transport
		if p.HTTP.Timeout > 0 {
			a.client.Timeout = p.HTTP.Timeout
		}
	}
	return a
}

// A request has the options of a request besides the URL.
type request struct {
	header map[string]string
	max    int64
	free   bool // not subject to robots.txt: robots.txt itself
	hand   bool // a WebSocket handshake
}

// A reply is the result of a request.
type reply struct {
	url       string
	status    int // 0: no response, see fault
	fault     string
	header    http.Header
	body      []byte
	cut       bool
	wire      int // size of the body on the wire, in bytes
	heads     int // size of both headers in bytes, about
	took      time.Duration
	proto     string
	elsewhere string // target of a redirect to another origin
	location  string
	at        time.Time
}

func (r *reply) ok() bool { return r.status == http.StatusOK }

// silent reports whether this response to a request for robots.txt forbids everything.
func (r *reply) silent() bool { return r.status == 0 || r.status == 429 || r.status >= 500 }

// html reports whether the response is declared as HTML.
func (r *reply) html() bool {
	t := strings.ToLower(r.header.Get("Content-Type"))
	return strings.HasPrefix(t, "text/html") || strings.HasPrefix(t, "application/xhtml+xml")
}

var (
	errBudget = errors.New("the probe ended early: it reached its limit of requests")
	errEnough = errors.New("the probe ended early: the site asked for fewer requests (429, or 503 with Retry-After)")
	errSlow   = errors.New("the probe ended early: it would take too long with the site's Crawl-delay")
)

// A forbiddenError says that robots.txt forbids a URL.
type forbiddenError struct{ url, line string }

func (e *forbiddenError) Error() string {
	if e.line == "" {
		return e.url + " may not be fetched: its site's robots.txt could not be read"
	}
	return fmt.Sprintf("%s is forbidden by robots.txt: %s", e.url, e.line)
}

func pathOf(url string) string { return strings.TrimPrefix(url, protocol.Origin(url)) }

// follow sends a request, and follows redirects within the origin.
func (a *run) follow(ctx context.Context, url string, q request) (*reply, error) {
	for range maxRedirects {
		r, err := a.fetch(ctx, url, q)
		if err != nil || r.status < 300 || r.status > 399 || r.status == http.StatusNotModified || r.location == "" {
			return r, err
		}
		if protocol.Origin(r.location) != protocol.Origin(url) {
			r.elsewhere = r.location
			return r, nil
		}
		url = r.location
	}
	return a.fetch(ctx, url, q)
}

// try is follow for optional requests: for a forbidden URL it records that, and returns nil.
func (a *run) try(ctx context.Context, url string, q request) (*reply, error) {
	r, err := a.follow(ctx, url, q)
	if forbidden := new(forbiddenError); errors.As(err, &forbidden) {
		a.report.Forbidden = append(a.report.Forbidden, Forbidden{forbidden.url, forbidden.line})
		return nil, nil
	}
	return r, err
}

// fetch waits until the next request may be sent, and sends it. An error ends the probe, except for a
// forbiddenError; if the site does not answer, the reply has a fault.
func (a *run) fetch(ctx context.Context, url string, q request) (*reply, error) {
	f := a.robots[protocol.Origin(url)]
	if !q.free {
		if f == nil {
			return nil, &forbiddenError{url: url}
		}
		if ok, line := f.Decide(a.p.token(), pathOf(url)); !ok {
			return nil, &forbiddenError{url, line}
		}
	}
	most := a.p.MaxRequests
	if most <= 0 {
		most = maxRequests
	}
	if a.count >= most {
		return nil, errBudget
	}
	if err := a.wait(ctx, f); err != nil {
		return nil, err
	}
	a.count++
	r, err := a.send(ctx, url, q)
	a.last = time.Now()
	if err != nil {
		return nil, err
	}
	if a.p.Log != nil {
		a.p.Log.Info("request sent", "url", url, "status", r.status, "bytes", r.wire, "fault", r.fault)
	}
	a.bytes += int64(r.wire + r.heads)
	if r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable && r.header.Get("Retry-After") != "" {
		return nil, errEnough
	}
	return r, nil
}

// wait waits for the time of the next request, by Prober.Wait and the site's Crawl-delay.
func (a *run) wait(ctx context.Context, f *robots.File) error {
	if a.p.Wait < 0 || a.last.IsZero() {
		return ctx.Err()
	}
	wait := a.p.Wait
	if wait == 0 {
		wait = 2 * time.Second
	}
	if f != nil {
		if delay := f.CrawlDelay(a.p.token()); delay > wait {
			if wait = delay; time.Since(a.begun)+wait > longestProbe {
				return errSlow
			}
		}
	}
	return pause.Sleep(ctx, wait-time.Since(a.last))
}

func (a *run) send(ctx context.Context, url string, q request) (*reply, error) {
	header := http.Header{}
	if a.p.From != "" {
		header.Set("From", a.p.From)
	}
	if !q.hand {
		header.Set("Accept-Encoding", "gzip")
	}
	for k, v := range q.header {
		header.Set(k, v)
	}
	begin := time.Now()
	r := &reply{url: url, at: a.p.now(), heads: len(url) + headBytes(header) + len("User-Agent: \r\n") + len(a.client.Agent)}
	c := a.client
	if c.MaxBytes = q.max; q.max <= 0 {
		c.MaxBytes = maxPage
	}
	got, err := c.Get(ctx, url, header)
	if err != nil {
		r.fault, r.took = short(err), time.Since(begin)
		return r, ctx.Err()
	}
	defer got.Close()
	r.status, r.header, r.proto = got.Status, got.Header, got.Proto
	r.heads += len(got.Proto) + len(got.Says()) + headBytes(got.Header)
	if l := got.Header.Get("Location"); l != "" {
		if r.location, err = protocol.CanonicalURL(url, l); err != nil {
			r.location = ""
		}
	}
	if r.status != http.StatusSwitchingProtocols {
		r.read(got, c.MaxBytes)
	}
	r.took = time.Since(begin)
	return r, ctx.Err()
}

// read reads the body, limited before and after decoding.
func (r *reply) read(got *fetch.Answer, most int64) {
	wire := &counter{r: got}
	var body io.Reader = wire
	if strings.EqualFold(got.Header.Get("Content-Encoding"), "gzip") {
		z, err := gzip.NewReader(wire)
		if err != nil {
			r.wire, r.cut = wire.n, true
			if err != io.EOF { // a 304 may name a coding that it does not use
				r.fault = "invalid gzip content"
			}
			return
		}
		body = z
	}
	b, err := io.ReadAll(io.LimitReader(body, most+1))
	if int64(len(b)) > most {
		b = b[:most]
		r.cut = true
	}
	r.body, r.wire, r.cut = b, wire.n, r.cut || got.Cut()
	if err != nil {
		r.cut, r.fault = true, short(err)
	}
}

type counter struct {
	r io.Reader
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

// headBytes is the approximate size of a header.
func headBytes(h http.Header) int {
	n := 4
	for k, list := range h {
		for _, v := range list {
			n += len(k) + len(v) + 4
		}
	}
	return n
}

func short(err error) string { return fmt.Sprintf("%.300s", err.Error()) }

// sameBody reports whether two pages are the same, byte by byte.
func sameBody(a, b *reply) bool { return a.ok() && b.ok() && bytes.Equal(a.body, b.body) }
