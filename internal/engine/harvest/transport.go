package harvest

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyweb/parley/protocol"
)

const (
	lease    = 5 * time.Minute // the longest that a caller may leave a body unread while it holds the site's slot
	maxAwait = 5 * time.Minute // the longest wait= of a long poll that is honored
	longest  = 6 * time.Hour   // that a body may take, however large

	// briefIdle is the shortest idle time of a connection. If none is to be kept that long, each is closed by its request: a
	// timeout would end a connection of HTTP/2 before its first request.
	briefIdle = time.Second
)

// Transport returns a net/http transport for one origin that obeys the same rules
// as tasks: it holds the site's slot from before the request until the body is
// closed or at its end, and keeps the gaps; it connects to allowed addresses only;
// it sends our User-Agent and From. A long poll, which is a request with wait= in
// its query, and a WebSocket wait for the slot but do not keep it: while they wait
// for news, pages are fetched. Other origins are refused. There are no cookies and
// no proxy but that of Options.Dial; redirects are left to the http.Client. A body may not be slower than
// MinSpeed; its reader must bound its size.
//
// It is an *http.Transport so that code which takes the dialer from one, such as
// for WebSockets, follows these rules too. Harvester.Close closes its idle
// connections, and so does the end of Run.
func (h *Harvester) Transport(origin string) *http.Transport { return h.Checked(origin, nil) }

// Checked is Transport with a check of every request once it holds the slot; an
// error from allow cancels it. By then robots.txt may forbid a URL that was allowed
// when the wait began. WebSockets are not checked.
func (h *Harvester) Checked(origin string, allow func(url string) error) *http.Transport {
	h.start()
	v := &visitor{h, origin, allow}
	t := &http.Transport{DialContext: v.dial}
	if h.Options.TLS != nil {
		t.TLSClientConfig = h.Options.TLS.Clone()
	}
	t.RegisterProtocol("http", v)
	t.RegisterProtocol("https", v)
	return t
}

// Close closes the connections of all Transports that are not in use.
func (h *Harvester) Close() {
	h.start()
	h.inner.CloseIdleConnections()
}

// newInner returns the transport that sends the requests once they hold the slot.
func (h *Harvester) newInner() *http.Transport {
	t := &http.Transport{
		DialContext:            h.dialHost,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    positive(h.Options.ConnectTimeout, DefaultConnect),
		MaxResponseHeaderBytes: maxHeader,
		MaxIdleConnsPerHost:    1,
		IdleConnTimeout:        max(h.times.manners.idle, briefIdle),
	}
	if h.Options.TLS != nil {
		t.TLSClientConfig = h.Options.TLS.Clone()
	}
	return t
}

// dialHost connects to a host, if that is allowed.
func (h *Harvester) dialHost(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, positive(h.Options.ConnectTimeout, DefaultConnect))
	defer cancel()
	ips, err := h.network.locate(ctx, host)
	if err != nil {
		return nil, err
	}
	nc, ip, err := h.network.connect(ctx, h.times.first(plainName(host), ips), port)
	if err != nil {
		return nil, err
	}
	h.times.found(plainName(host), ip)
	return &countedConn{Conn: nc, came: &h.count.transported}, nil
}

// A countedConn counts the bytes received, and reports when a request was sent.
type countedConn struct {
	net.Conn
	came *atomic.Int64
	sent atomic.Pointer[func()] // called once after the next Write; nil: none is set
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.came.Add(int64(n))
	return n, err
}

func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if sent := c.sent.Swap(nil); sent != nil {
		(*sent)()
	}
	return n, err
}

// onSent returns a trace that calls f when the request was handed to the kernel. For HTTP/1 net/http calls
// WroteRequest before it flushes its buffer, and on a busy machine the flush may come much later; for HTTP/2 after it.
func onSent(f func()) *httptrace.ClientTrace {
	var conn atomic.Pointer[countedConn] // whose buffer is to be flushed
	return &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			nc := info.Conn
			if t, ok := nc.(*tls.Conn); ok {
				if nc = t.NetConn(); t.ConnectionState().NegotiatedProtocol == "h2" {
					nc = nil
				}
			}
			c, _ := nc.(*countedConn)
			conn.Store(c)
		},
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			switch c := conn.Load(); {
			case info.Err != nil:
			case c != nil:
				c.sent.Store(&f)
			default:
				f()
			}
		},
	}
}

// A visitor is the RoundTripper of a Transport, for one origin.
type visitor struct {
	h      *Harvester
	origin string
	allow  func(url string) error
}

// dial is for WebSockets only: all other requests use RoundTrip.
func (v *visitor) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, _ := net.SplitHostPort(address)
	if s, err := newSite(v.origin); err != nil || plainName(host) != s.host.name || port != s.port {
		return nil, fmt.Errorf("dial %.100q: not an address of %s", address, v.origin)
	}
	s, err := v.h.times.acquire(ctx, v.origin)
	if err != nil {
		return nil, err
	}
	nc, err := v.h.dialHost(ctx, network, address)
	if err != nil {
		v.h.times.finish(s, Answer{Asked: time.Now()})
		return nil, err
	}
	c := &upgradeConn{Conn: nc}
	c.answers.Store(1)
	if strings.HasPrefix(v.origin, "https:") {
		c.answers.Store(2) // the first is to the TLS handshake
	}
	free := sync.OnceFunc(func() { v.h.times.finish(s, Answer{Asked: time.Now()}) })
	timer := time.AfterFunc(positive(v.h.Options.ConnectTimeout, DefaultConnect), free)
	c.free = func() { timer.Stop(); free() }
	return c, nil
}

// An upgradeConn holds the slot of its host until the WebSocket handshake is
// answered, so that the gap to the next request begins then.
type upgradeConn struct {
	net.Conn
	free    func() // gives the slot back, once
	wrote   atomic.Bool
	answers atomic.Int32 // that are still to come
}

func (c *upgradeConn) Write(p []byte) (int, error) {
	c.wrote.Store(true)
	return c.Conn.Write(p)
}

func (c *upgradeConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil || c.wrote.Swap(false) && c.answers.Add(-1) == 0 {
		c.free()
	}
	return n, err
}

func (c *upgradeConn) Close() error {
	err := c.Conn.Close()
	c.free()
	return err
}

// alone reports whether an error concerns this request only: the work that a POST causes
// may be too much for a site whose pages are not. A response with Retry-After, or about
// our request rate (429), concerns the whole site.
func alone(resp *http.Response) bool {
	return resp.Request != nil && resp.Request.Method == http.MethodPost && resp.StatusCode == http.StatusServiceUnavailable &&
		resp.Header.Get("Retry-After") == ""
}

// RoundTrip is for net/http.
func (v *visitor) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := v.ask(r)
	if err != nil && r.Body != nil {
		r.Body.Close()
	}
	return resp, err
}

func (v *visitor) ask(r *http.Request) (*http.Response, error) {
	h := v.h
	if protocol.Origin(r.URL.String()) != v.origin {
		return nil, fmt.Errorf("%.200s is not a URL of %s", r.URL, v.origin)
	}
	s, err := h.times.acquire(r.Context(), v.origin)
	if err != nil {
		return nil, err
	}
	if v.allow != nil {
		if err := v.allow(r.URL.String()); err != nil {
			h.times.finish(s, Answer{})
			return nil, err
		}
	}
	h.times.mu.Lock()
	shared := s.held.at != nil && (s.held.at.slots > 1 || s.welcome != nil && s.welcome.conns == 1)
	h.times.mu.Unlock()
	begun := time.Now()
	await, polls := longPoll(r.URL)
	ctx, cancel := context.WithCancelCause(r.Context())
	w := h.newWatch(s, await, polls, cancel)
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { w.connect.Store(int64(time.Since(begun))) }}
	if polls { // once sent, it waits for news without the slot
		free := sync.OnceFunc(func() { h.times.finish(s, Answer{Asked: time.Now()}) })
		defer free()
		trace = onSent(free)
	}
	r2 := r.Clone(httptrace.WithClientTrace(ctx, trace))
	// Only sites with an address of their own keep idle connections.
	r2.Close = r2.Close || shared || h.times.manners.idle < briefIdle
	if r2.Header.Get("User-Agent") == "" || h.Options.Agent != "" {
		r2.Header.Set("User-Agent", headerValue(cmp.Or(h.Options.Agent, defaultAgent)))
	}
	if from := headerValue(h.Options.From); from != "" {
		r2.Header.Set("From", from)
	}
	resp, err := h.inner.RoundTrip(r2)
	h.count.requests.Add(1)
	w.took.Store(int64(time.Since(begun)))
	if err != nil {
		h.count.faults.Add(1)
		err = w.explain(ctx, err)
		w.end()
		return nil, err
	}
	if polls { // else finish does this
		h.Refused(v.origin, resp.StatusCode, resp.Header)
	}
	w.resp.Store(resp)
	w.timer.Reset(lease)
	resp.Body = &watchedBody{ReadCloser: resp.Body, watch: w, ctx: ctx}
	return resp, nil
}

// longPoll reports whether a URL is a long poll, and how long it waits.
func longPoll(u *url.URL) (time.Duration, bool) {
	if !strings.Contains(u.RawQuery, "wait=") {
		return 0, false
	}
	n, err := strconv.ParseUint(u.Query().Get("wait"), 10, 16)
	if err != nil || n == 0 {
		return 0, false
	}
	return min(time.Duration(n)*time.Second, maxAwait), true
}

// A watch ends a request that is silent for too long, or too slow.
type watch struct {
	end     func() // gives the slot back, once
	took    atomic.Int64
	connect atomic.Int64 // the part of took before the request was sent
	resp    atomic.Pointer[http.Response]

	// For the reader of the body: the time spent in Read, and the bytes received, in a window.
	window, waited time.Duration
	least, got     int64

	mu    sync.Mutex // until timer is set
	timer *time.Timer
}

// newWatch starts a watch of a request that begins now.
func (h *Harvester) newWatch(s *site, await time.Duration, polls bool, cancel context.CancelCauseFunc) *watch {
	w := &watch{window: lease}
	if !polls {
		w.window, w.least = h.tasks.speed()
	}
	w.end = sync.OnceFunc(func() {
		w.timer.Stop()
		cancel(nil)
		if !polls {
			a := Answer{Asked: time.Now(), Took: time.Duration(w.took.Load()), connect: time.Duration(w.connect.Load())}
			if resp := w.resp.Load(); resp != nil && !alone(resp) {
				a.Status, a.Header = resp.StatusCode, resp.Header
			}
			h.times.finish(s, a)
		}
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(positive(h.Options.HeaderTimeout, defaultHeader)+await, func() {
		cancel(errSilent)
		w.mu.Lock() // it is set by now
		defer w.mu.Unlock()
		if w.resp.Load() != nil {
			w.end() // the body may never be closed
		}
	})
	return w
}

func (w *watch) explain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		return cause
	}
	return err
}

// pace records a read of n bytes that took d, and returns an error if the body is too slow.
func (w *watch) pace(n int, d time.Duration) error {
	w.waited, w.got = w.waited+d, w.got+int64(n)
	switch {
	case time.Duration(w.took.Add(int64(d))) > longest:
		return errLong
	case w.waited < w.window:
		return nil
	case w.got < w.least:
		return errSlow
	}
	w.waited, w.got = 0, 0
	return nil
}

type watchedBody struct {
	io.ReadCloser
	*watch
	ctx context.Context // of the request, for its cause
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.window)
	begun := time.Now()
	n, err := b.ReadCloser.Read(p)
	if slow := b.pace(n, time.Since(begun)); err == nil {
		err = slow
	}
	b.timer.Reset(lease)
	if err != nil {
		if err != io.EOF {
			err = b.explain(b.ctx, err)
		}
		b.timer.Stop() // end has done so before, if this is not the first error
		b.end()
	}
	return n, err
}

func (b *watchedBody) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}
