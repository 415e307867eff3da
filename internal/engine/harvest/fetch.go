package harvest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// An outcome is an error with its Fault.
type outcome struct {
	fault Fault
	err   error
}

func (o *outcome) Error() string { return o.err.Error() }
func (o *outcome) Unwrap() error { return o.err }

func fail(f Fault, err error) error { return &outcome{f, err} }

// faultOf returns the Fault of any error.
func faultOf(err error) Fault {
	var o *outcome
	switch {
	case errors.As(err, new(*addressError)):
		return FaultAddress
	case errors.As(err, &o):
		return o.fault
	case errors.Is(err, errSlow):
		return FaultSlow
	case errors.Is(err, errSilent), errors.Is(err, errLong), errors.Is(err, context.DeadlineExceeded):
		return FaultTimeout
	}
	return FaultProtocol
}

// A fetcher sends the requests of tasks, and reads the responses.
type fetcher struct {
	opts   *Options
	times  *timetable
	bodies bodies
	count  *counters
}

// fetch does the task of an answer, and fills the answer in. The caller holds the site's
// slot. It returns true if the task is to be repeated, because a kept connection turned out
// to be closed, a delta could not be applied, or the site refuses ranges.
func (h *fetcher) fetch(ctx context.Context, s *site, a *Answer, ips []netip.Addr) (again bool) {
	t := a.Task
	a.base = h.base(t)
	request, err := h.request(s, t, a.base)
	if err != nil {
		a.Fault, a.Err = FaultProtocol, fmt.Errorf("fetch %.200q: %w", t.URL, err)
		return false
	}
	a.Asked, a.Request = time.Now(), request
	cookie := ""
	if t.Page != 0 {
		cookie = cookiesFor(h.opts.Cookies, t.URL, a.Asked)
	}
	a.Authorized = cookie != "" || s.tls && h.times.network.certifies(s.host.name)
	if len(ips) > 0 {
		a.IP = ips[0]
	}
	c, kept, err := h.times.connection(ctx, s, ips)
	if err == errEnded {
		a.Asked = time.Time{} // no request was sent
		return true
	}
	h.count.requests.Add(1)
	reusable := false
	if err == nil {
		a.IP, a.connect = c.ip, time.Since(a.Asked)
		if kept == 0 {
			a.Connect = a.connect
		}
		reusable, err = h.exchange(ctx, c, s, t, cookie, a)
	}
	a.Authorized = a.Authorized && a.Status != 0 // without an answer there is nothing to withhold
	now := time.Now()
	a.Took = now.Sub(a.Asked)
	if err != nil {
		a.Fault, a.Err = faultOf(err), fmt.Errorf("fetch %.200q: %w", t.URL, err)
		if ctx.Err() != nil || errors.Is(err, errEnds) {
			a.Fault, a.Err = FaultStopped, errStopped
		}
		if a.Fault == FaultDNS || a.Fault == FaultAddress {
			a.Asked = time.Time{}
		}
	}
	// Another program of the site may answer requests for deltas: an error from it
	// says nothing about the page.
	if errors.Is(err, errDelta) || a.base != nil && a.Status >= http.StatusBadRequest && !troubled(a.Status) {
		a.Task.Dictionary, again = false, ctx.Err() == nil
	}
	if a.Status == http.StatusRequestedRangeNotSatisfiable && h.ranges(s, t) {
		s.noRange, again = true, true
	}
	if c != nil {
		c.used = now
		h.times.keep(s, c, a, reusable && ctx.Err() == nil)
		if kept > 0 && a.Status == 0 && c.left == maxHeader && a.Fault == FaultProtocol {
			s.closes, again = kept, true
		}
	}
	h.outcome(a)
	return again
}

// outcome updates the counters, and the moving share of faults.
func (h *fetcher) outcome(a *Answer) {
	const weight = 50 // the average spans about so many requests
	failed := int64(0)
	if a.Fault != "" && a.Fault != FaultSize && a.Fault != FaultStopped {
		failed = 1_000_000
		h.count.faults.Add(1)
	}
	old := h.count.failing.Load()
	h.count.failing.Store(old + (failed-old)/weight) // a lost update does not matter
	h.count.bytes.Add(a.Wire)
}

// exchange sends a request and reads the response into a. It reports whether the
// connection can be reused.
func (h *fetcher) exchange(ctx context.Context, c *conn, s *site, t Task, cookie string, a *Answer) (reusable bool, err error) {
	c.pages++
	c.left = maxHeader
	c.pace.start(c.cut, positive(h.opts.HeaderTimeout, defaultHeader), longest, 0)
	defer c.pace.stop()
	var resp *http.Response
	if c.h2 == nil {
		resp, err = c.ask(withCookie(a.Request, cookie))
	} else if resp, err = h.ask2(ctx, c, s, t, cookie, a.base); err == nil {
		defer resp.Body.Close() // HTTP/1 would read the rest
	}
	if err != nil {
		return false, c.pace.cause(err)
	}
	c.pace.stop()
	a.Latency = time.Since(a.Asked)
	a.Status, a.Proto, a.Header = resp.StatusCode, resp.Proto, resp.Header
	limit := h.limit(t)
	resp.Body = paced{resp.Body, &c.pace}
	whole, err := h.bodies.read(ctx, a, resp, limit, h.opts.Spill, func() {
		window, least := h.speed()
		c.pace.start(c.cut, window, h.patience(limit), least)
	})
	sound := err == nil || faultOf(err) == FaultSize || faultOf(err) == FaultCoding
	return sound && (c.h2 != nil || whole && !resp.Close && c.buf.Buffered() == 0), c.pace.cause(err)
}

// ask2 is conn.ask for HTTP/2.
func (h *fetcher) ask2(ctx context.Context, c *conn, s *site, t Task, cookie string, base []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, t.URL, nil)
	if err != nil {
		return nil, err
	}
	h.headers(s, t, base, r.Header.Set)
	if cookie != "" {
		r.Header.Set("Cookie", cookie)
	}
	return c.h2.RoundTrip(r)
}

func (h *fetcher) limit(t Task) int64 {
	if t.MaxBytes > 0 {
		return t.MaxBytes
	}
	return positive(h.opts.MaxBytes, DefaultMaxBytes)
}

// patience returns how long a body with such a limit may take.
func (h *fetcher) patience(limit int64) time.Duration {
	d := positive(h.opts.Timeout, defaultWhole)
	return d * time.Duration(max(1, min(limit/DefaultMaxBytes, 24)))
}

// speed returns the window in which so many bytes of a body must come.
func (h *fetcher) speed() (window time.Duration, least int64) {
	window = positive(h.opts.Window, defaultWindow)
	if h.opts.MinSpeed >= 0 {
		least = int64(float64(positive(h.opts.MinSpeed, DefaultMinSpeed)) * window.Seconds())
	}
	return window, least
}

// location resolves the target of a redirect.
func location(from, to string) (string, error) {
	if to == "" {
		return "", errors.New("redirect without a target")
	}
	base, err := url.Parse(from)
	if err != nil {
		return "", err
	}
	u, err := base.Parse(to)
	if err != nil {
		return "", fmt.Errorf("redirect to an invalid URL: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("redirect to %.100q, which is not an HTTP URL", to)
	}
	return u.String(), nil
}

// ranges reports whether a task requests a byte range of the page (P10).
func (h *fetcher) ranges(s *site, t Task) bool { return h.opts.Range && !s.noRange && t.Source == 0 }

// headers calls f for each header of a request.
func (h *fetcher) headers(s *site, t Task, base []byte, f func(name, value string)) {
	f("User-Agent", headerValue(cmp.Or(h.opts.Agent, defaultAgent)))
	if from := headerValue(h.opts.From); from != "" {
		f("From", from)
	}
	if t.Source != 0 {
		f("Accept", "*/*")
	} else {
		f("Accept", "text/html, application/xhtml+xml, text/plain;q=0.9, */*;q=0.1") // P09
	}
	if h.ranges(s, t) {
		f("Range", "bytes=0-"+strconv.FormatInt(h.limit(t)-1, 10)) // E29; no Accept-Encoding, since a range of a coded body is of no use
	} else if plain := h.opts.Spill != nil && t.Page != 0; base != nil {
		f("Available-Dictionary", dictionary(t.Held)) // RFC 9842
		if plain {
			f("Accept-Encoding", "dcz, identity;q=0.5")
		} else {
			f("Accept-Encoding", "dcz, gzip, zstd")
		}
	} else if plain {
		f("Accept-Encoding", "identity")
	} else {
		f("Accept-Encoding", "gzip, zstd")
	}
	if t.IfNoneMatch != "" {
		f("If-None-Match", headerValue(t.IfNoneMatch))
	}
	if t.IfModifiedSince != "" {
		f("If-Modified-Since", headerValue(t.IfModifiedSince))
	}
}

// request returns the bytes of a request by HTTP/1.
func (h *fetcher) request(s *site, t Task, base []byte) ([]byte, error) {
	path, err := pathOf(s.origin, t.URL)
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, 512)
	b = append(b, "GET "...)
	b = append(b, path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, s.header...)
	b = append(b, "\r\n"...)
	h.headers(s, t, base, func(name, value string) {
		b = append(append(append(append(b, name...), ": "...), value...), "\r\n"...)
	})
	return append(b, "\r\n"...), nil
}

// pathOf returns the path and query of a URL of an origin, for the request line.
func pathOf(origin, u string) (string, error) {
	path, ok := strings.CutPrefix(u, origin)
	path, _, _ = strings.Cut(path, "#")
	if path == "" || path[0] == '?' {
		path = "/" + path
	}
	if !ok || path[0] != '/' {
		return "", fmt.Errorf("not a URL of %s", origin)
	}
	for i := range len(path) {
		if c := path[i]; c <= ' ' || c >= 0x7f {
			return "", errors.New("a character must be percent-encoded")
		}
	}
	return path, nil
}
