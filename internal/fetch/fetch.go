// Package fetch sends single HTTP requests with limits on time, idle time, size and redirects.
// Every request that is not a crawler's page goes through it: lists, robots.txt, self-checks,
// IndexNow keys, WebSub callbacks and probes. Each caller sets its own limits.
package fetch

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"time"
)

const (
	defaultTimeout = 30 * time.Second
	defaultBytes   = 1 << 20
)

var (
	// ErrTimeout means that Timeout or Idle has expired.
	ErrTimeout = errors.New("timed out")

	// ErrPrivate means that an address does not belong to the public Internet. See [Public].
	ErrPrivate = errors.New("address is not public")
)

// A Client sends requests within limits. The zero value is ready to use. Its methods are safe
// for concurrent use; its fields must not be changed meanwhile.
type Client struct {
	// Transport carries requests. Nil means http.DefaultTransport.
	Transport http.RoundTripper

	// Agent is the User-Agent. Empty leaves it to the header, or else to Transport.
	Agent string

	// Timeout bounds one request, from the return of Pace until the last byte is read. Zero means 30 s.
	Timeout time.Duration

	// Idle bounds the time without a byte, of the header or the body. Zero means no limit but Timeout.
	Idle time.Duration

	// MaxBytes bounds the body, in bytes as [Answer.Read] returns them. Zero means 1 MiB, a negative value no limit.
	MaxBytes int64

	// Redirects is the number of redirects that Get follows. The next one is returned as the answer.
	Redirects int

	// Pace, if not nil, blocks until a request may be sent, redirects included. Its error ends the fetch.
	Pace func(context.Context) error
}

// Get fetches url. The header may be nil. A response of any status is not an error. Errors do not name the
// URL.
func (c *Client) Get(ctx context.Context, url string, header http.Header) (*Answer, error) {
	for hop := 0; ; hop++ {
		req, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			return nil, plain(err)
		}
		if header != nil {
			req.Header = header.Clone()
		}
		a, err := c.Do(ctx, req)
		if err != nil || a.Location == "" || hop >= c.Redirects {
			return a, err
		}
		a.Close()
		url = a.Location
	}
}

// Do sends a request and follows no redirects: the content of a POST is meant for one server alone.
func (c *Client) Do(ctx context.Context, req *http.Request) (*Answer, error) {
	if c.Pace != nil {
		if err := c.Pace(ctx); err != nil {
			return nil, err
		}
	}
	ctx, limit := newDeadline(ctx, c.Timeout, c.Idle)
	a := &Answer{URL: req.URL.String(), most: cmp.Or(c.MaxBytes, defaultBytes), limit: limit}
	if a.most < 0 {
		a.most = math.MaxInt64 - 1
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		if at, err := netip.ParseAddrPort(got.Conn.RemoteAddr().String()); err == nil {
			a.Remote = at.Addr()
		}
	}})
	req = req.WithContext(ctx)
	if c.Agent != "" {
		req.Header.Set("User-Agent", c.Agent)
	}
	if u := req.URL.User; u != nil && req.Header.Get("Authorization") == "" {
		password, _ := u.Password()
		req.SetBasicAuth(u.Username(), password)
	}
	// Not an http.Client: it fails if Location is not a URL, and would hide the status.
	via := c.Transport
	if via == nil {
		via = http.DefaultTransport
	}
	resp, err := via.RoundTrip(req)
	limit.timer.Stop()
	if err != nil {
		err = limit.cause(err)
		limit.end()
		return nil, err
	}
	a.Status, a.Header, a.Proto, a.Length, a.body = resp.StatusCode, resp.Header, resp.Proto, resp.ContentLength, resp.Body
	switch a.Status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		if to, err := resp.Location(); err == nil {
			a.Location = to.String()
		}
	}
	return a, nil
}

// CloseIdleConnections ends the connections that wait for another request.
func (c *Client) CloseIdleConnections() {
	(&http.Client{Transport: c.Transport}).CloseIdleConnections()
}
