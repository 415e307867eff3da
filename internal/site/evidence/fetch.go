package evidence

import (
	"context"
	"crypto/sha256"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/internal/inet"
	"github.com/parleyweb/parley/protocol"
)

// askWait is the timeout of one request.
const askWait = 20 * time.Second

// mostBytes bounds the bytes read of a page of unknown length: no door sends the
// bytes of a longer page.
const mostBytes = 100 << 20

// verdict is the meaning of a response.
type verdict byte

const (
	nothing   verdict = iota // no response, 429, 5xx: it proves nothing about the page
	away                     // 404 and other refusals that do not depend on who asks
	shown                    // 200
	refused                  // 401, 403, 451
	elsewhere                // a redirect
)

// An answer is the result of one anonymous GET.
type answer struct {
	says      verdict
	digest    protocol.Digest // of the response body
	inside    bool            // it came from an address that may treat us as an insider
	noArchive bool
	detail    string // for people
}

// A stranger fetches pages anonymously: without credentials, cookies, and the proxy
// that the environment names, which might know us.
type stranger struct {
	http fetch.Client

	// inside reports whether a server at an address may treat us as an insider, by our
	// own address: its 200 proves nothing about strangers.
	inside func(netip.Addr) bool
}

// open makes the client, through a proxy outside if via is not nil.
func (s *stranger) open(via *url.URL) {
	t := &http.Transport{MaxIdleConnsPerHost: atOnce, MaxConnsPerHost: atOnce, IdleConnTimeout: 30 * time.Second,
		TLSHandshakeTimeout: askWait, ResponseHeaderTimeout: askWait, DisableCompression: true, ForceAttemptHTTP2: true,
		DialContext: (&net.Dialer{Timeout: askWait / 2}).DialContext}
	if via != nil {
		t.Proxy = http.ProxyURL(via)
		s.inside = func(netip.Addr) bool { return false }
	}
	if s.inside == nil {
		s.inside = func(at netip.Addr) bool { return inet.Special(at) != "" }
	}
	s.http = fetch.Client{Transport: t, Agent: "Parley notifier, asking as anybody", Timeout: askWait}
}

// ask fetches a page of length bytes; a negative length is unknown.
func (s *stranger) ask(ctx context.Context, page string, length int64) (a answer) {
	c := s.http
	if c.MaxBytes = length; length < 0 {
		c.MaxBytes = mostBytes
	}
	resp, err := c.Get(ctx, page, http.Header{"Accept-Encoding": {"identity"}})
	if err != nil {
		a.detail = err.Error()
		return a
	}
	defer resp.Close()
	a.inside, a.detail = s.inside(resp.Remote), resp.Says()
	switch code := resp.Status; {
	case code == http.StatusOK:
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusUnavailableForLegalReasons:
		a.says = refused
		return a
	case code >= 300 && code < 400:
		a.says, a.detail = elsewhere, resp.Says()+" to "+resp.Header.Get("Location")
		return a
	case code == http.StatusTooManyRequests, code >= 500, code < 200:
		return a
	default:
		a.says = away
		return a
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, resp); err != nil {
		a.detail = err.Error()
		return a
	}
	a.says, a.noArchive = shown, html.RobotsTag(resp.Header["X-Robots-Tag"], "").NoArchive
	if !resp.Cut() { // a longer body has other bytes than the file
		a.digest = protocol.Digest(sum.Sum(nil))
	}
	return a
}
