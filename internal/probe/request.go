package probe

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/internal/robots"
	"github.com/parleyweb/parley/protocol"
)

// A fetcher sends the requests of one probe, at the pace that the Prober and the site ask for, and only those
// that robots.txt allows. It is for one goroutine.
type fetcher struct {
	p      *Prober
	client fetch.Client
	robots map[string]*robots.File // by origin

	begun     time.Time
	last      time.Time // end of the last response
	count     int
	bytes     int64
	forbidden []Forbidden // what try did not fetch
}

func newFetcher(p *Prober) *fetcher {
	f := &fetcher{p: p, begun: time.Now(), robots: make(map[string]*robots.File), client: fetch.Client{Agent: p.agent(), Timeout: timeout}}
	if p.HTTP != nil {
		f.client.Transport = p.HTTP.Transport
		if p.HTTP.Timeout > 0 {
			f.client.Timeout = p.HTTP.Timeout
		}
	}
	return f
}

// A request has the options of a request besides the URL.
type request struct {
	header http.Header
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

// ok reports whether there is a reply, and its status is 200.
func (r *reply) ok() bool { return r != nil && r.status == http.StatusOK }

var (
	errBudget = errors.New("the probe ended early: it reached its limit of requests")
	errEnough = errors.New("the probe ended early: the site asked for fewer requests (429, or 503 with Retry-After)")
	errSlow   = errors.New("the probe ended early: it would take too long with the site's Crawl-delay")
)

// A forbiddenError says that robots.txt forbids a URL.
type forbiddenError Forbidden

func (e *forbiddenError) Error() string {
	if e.Line == "" {
		return e.URL + " may not be fetched: its site's robots.txt could not be read"
	}
	return fmt.Sprintf("%s is forbidden by robots.txt: %s", e.URL, e.Line)
}

func pathOf(url string) string { return strings.TrimPrefix(url, protocol.Origin(url)) }

// fetchRobots fetches the robots.txt of an origin and applies it from then on.
func (f *fetcher) fetchRobots(ctx context.Context, origin string) (*reply, error) {
	rep := &reply{elsewhere: origin + "/robots.txt"}
	for n := 0; rep.elsewhere != "" && n <= maxRedirects; n++ { // RFC 9309, 2.3.1.2
		var err error
		if rep, err = f.follow(ctx, rep.elsewhere, request{max: robots.MaxBytes, free: true}); err != nil {
			return nil, err
		}
	}
	f.robots[origin] = robots.ForStatus(rep.status, rep.body)
	return rep, nil
}

// follow sends a request, and follows redirects within the origin.
func (f *fetcher) follow(ctx context.Context, url string, q request) (*reply, error) {
	for range maxRedirects {
		r, err := f.fetch(ctx, url, q)
		if err != nil || r.status < 300 || r.status > 399 || r.status == http.StatusNotModified || r.location == "" {
			return r, err
		}
		if protocol.Origin(r.location) != protocol.Origin(url) {
			r.elsewhere = r.location
			return r, nil
		}
		url = r.location
	}
	return f.fetch(ctx, url, q)
}

// try is follow for optional requests: for a forbidden URL it records that, and returns nil.
func (f *fetcher) try(ctx context.Context, url string, q request) (*reply, error) {
	r, err := f.follow(ctx, url, q)
	if forbidden := new(forbiddenError); errors.As(err, &forbidden) {
		f.forbidden = append(f.forbidden, Forbidden(*forbidden))
		return nil, nil
	}
	return r, err
}

// fetch waits until the next request may be sent, and sends it. An error ends the probe, except for a
// forbiddenError; if the site does not answer, the reply has a fault.
func (f *fetcher) fetch(ctx context.Context, url string, q request) (*reply, error) {
	rules := f.robots[protocol.Origin(url)]
	if !q.free {
		if rules == nil {
			return nil, &forbiddenError{URL: url}
		}
		if ok, line := rules.Decide(f.p.token(), pathOf(url)); !ok {
			return nil, &forbiddenError{url, line}
		}
	}
	if f.count >= cmp.Or(max(f.p.MaxRequests, 0), maxRequests) {
		return nil, errBudget
	}
	if err := f.wait(ctx, rules); err != nil {
		return nil, err
	}
	f.count++
	r, err := f.send(ctx, url, q)
	f.last = time.Now()
	if err != nil {
		return nil, err
	}
	if f.p.Log != nil {
		f.p.Log.Info("request sent", "url", url, "status", r.status, "bytes", r.wire, "fault", r.fault)
	}
	f.bytes += int64(r.wire + r.heads)
	if r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable && r.header.Get("Retry-After") != "" {
		return nil, errEnough
	}
	return r, nil
}

// wait waits for the time of the next request, by Prober.Wait and the site's Crawl-delay.
func (f *fetcher) wait(ctx context.Context, rules *robots.File) error {
	if f.p.Wait < 0 || f.last.IsZero() {
		return ctx.Err()
	}
	wait := cmp.Or(f.p.Wait, 2*time.Second)
	if rules != nil {
		if delay := rules.CrawlDelay(f.p.token()); delay > wait {
			if wait = delay; time.Since(f.begun)+wait > longestProbe {
				return errSlow
			}
		}
	}
	return pause.Sleep(ctx, wait-time.Since(f.last))
}

func (f *fetcher) send(ctx context.Context, url string, q request) (*reply, error) {
	header := http.Header{}
	maps.Copy(header, q.header)
	if f.p.From != "" {
		header.Set("From", f.p.From)
	}
	if !q.hand {
		header.Set("Accept-Encoding", "gzip")
	}
	begin := time.Now()
	r := &reply{url: url, at: f.p.now(), heads: len(url) + headBytes(header) + len("User-Agent: \r\n") + len(f.client.Agent)}
	c := f.client
	c.MaxBytes = cmp.Or(q.max, maxPage)
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
		r.wire = int(got.Received)
	}
	r.took = time.Since(begin)
	return r, ctx.Err()
}

// read reads the body, limited before and after decoding.
func (r *reply) read(got *fetch.Answer, most int64) {
	var body io.Reader = got
	if strings.EqualFold(got.Header.Get("Content-Encoding"), "gzip") {
		z, err := gzip.NewReader(got)
		if err != nil {
			r.cut = true
			if err != io.EOF { // a 304 may name a coding that it does not use
				r.fault = "invalid gzip content"
			}
			return
		}
		body = z
	}
	b, err := io.ReadAll(io.LimitReader(body, most+1))
	r.body, r.cut = b[:min(int64(len(b)), most)], int64(len(b)) > most || got.Cut()
	if err != nil {
		r.cut, r.fault = true, short(err)
	}
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
