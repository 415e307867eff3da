package wsconn

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

// ErrSubprotocol is wrapped by the error of Dial when the server upgraded
// without choosing the subprotocol.
var ErrSubprotocol = errors.New("server does not support the subprotocol")

// maxHandshake bounds the bytes read from a server before the upgrade, TLS included: nothing else bounds its
// headers.
const maxHandshake = 256 << 10

var errHandshakeSize = fmt.Errorf("handshake of more than %d bytes", maxHandshake)

// Accept upgrades a request. On error it has already responded: with 426 if the request is no WebSocket
// handshake, with 400 if it does not offer the subprotocol. The caller must check the Origin header.
func Accept(w http.ResponseWriter, r *http.Request, o Options) (*Conn, error) {
	o = o.withDefaults()
	if !websocket.IsWebSocketUpgrade(r) {
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Connection", "Upgrade")
		http.Error(w, "this URL accepts only WebSocket connections", http.StatusUpgradeRequired)
		return nil, errors.New("accept connection: not a WebSocket handshake")
	}
	u := websocket.Upgrader{
		HandshakeTimeout: o.Handshake,
		CheckOrigin:      func(*http.Request) bool { return true },
		ReadBufferSize:   bufferSize,
		WriteBufferSize:  bufferSize,
	}
	if len(o.Subprotocols) > 0 {
		offered := websocket.Subprotocols(r)
		chosen := slices.IndexFunc(o.Subprotocols, func(s string) bool { return slices.Contains(offered, s) })
		if chosen < 0 {
			all := strings.Join(o.Subprotocols, " or ")
			http.Error(w, "this endpoint requires the WebSocket subprotocol "+all, http.StatusBadRequest)
			return nil, fmt.Errorf("accept connection: client does not offer subprotocol %s", all)
		}
		u.Subprotocols = o.Subprotocols[chosen : chosen+1]
	}
	ws, err := u.Upgrade(hijacker{w}, r, nil)
	if err != nil {
		return nil, fmt.Errorf("accept connection: %w", err)
	}
	return newConn(ws, o), nil
}

// bufferSize is small, as a connection is idle for most of its life. Only control frames are written through such a buffer.
const bufferSize = 128

// A hijacker takes over the connection of a ResponseWriter that middleware has wrapped, too; websocket.Upgrader wants an http.Hijacker itself.
type hijacker struct{ http.ResponseWriter }

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffers, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	if c := newEagerConn(conn); c != nil {
		conn = c
	}
	return conn, buffers, nil
}

// A StatusError is a handshake that the server answered with a status other than 101. Body holds at most its
// first KiB.
type StatusError struct {
	Status int
	Header http.Header
	Body   []byte
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("server answered %d %s", e.Status, http.StatusText(e.Status))
}

// Dial opens ws:// or wss://; http:// and https:// mean the same. When the server answers with anything but
// 101 the error is a *StatusError.
//
// Dial uses the cookie jar of c and, if its Transport is an *http.Transport, that one's dial functions, proxy
// and TLS settings; c may be nil. Redirects are not followed.
func Dial(ctx context.Context, url string, h http.Header, c *http.Client, o Options) (*Conn, error) {
	ws, err := dial(ctx, url, h, c, o.withDefaults())
	if err != nil {
		if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
			<-ctx.Done() // the socket's deadline was the context's, and expired first
		}
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("dial %.200s: %w", url, err)
	}
	return newConn(ws, o.withDefaults()), nil
}

func dial(ctx context.Context, url string, h http.Header, c *http.Client, o Options) (*websocket.Conn, error) {
	if rest, ok := strings.CutPrefix(url, "http"); ok {
		url = "ws" + rest
	}
	d := websocket.Dialer{Subprotocols: o.Subprotocols}
	t, ok := http.DefaultTransport.(*http.Transport)
	if c != nil {
		d.Jar = c.Jar
		if own, is := c.Transport.(*http.Transport); is && own != nil {
			t, ok = own, true
		}
	}
	var dialPlain, dialTLS dialFunc
	if ok {
		dialPlain, dialTLS, d.Proxy = t.DialContext, t.DialTLSContext, t.Proxy
		if t.TLSClientConfig != nil {
			d.TLSClientConfig = t.TLSClientConfig.Clone()
			d.TLSClientConfig.NextProtos = []string{"http/1.1"} // the transport's may ask for HTTP/2
		}
	}
	if dialPlain == nil {
		dialPlain = (&net.Dialer{Timeout: o.Handshake}).DialContext
	}
	shy := shyConn{handshake: o.Handshake} // the connection that gorilla gets
	d.NetDialContext = shy.dialer(ctx, dialPlain)
	if dialTLS != nil {
		d.NetDialTLSContext = shy.dialer(ctx, dialTLS)
	}
	ws, resp, err := d.DialContext(ctx, url, h)
	cut := shy.trust()
	if err != nil {
		if errors.Is(err, websocket.ErrBadHandshake) && resp != nil && resp.StatusCode != http.StatusSwitchingProtocols {
			body, _ := io.ReadAll(resp.Body) // in memory already
			err = &StatusError{Status: resp.StatusCode, Header: resp.Header, Body: body}
		} else if shy.left.Load() <= 0 && shy.Conn != nil {
			err = errHandshakeSize
		}
		return nil, err
	}
	if cut {
		ws.Close()
		return nil, ctx.Err()
	}
	if got := ws.Subprotocol(); len(o.Subprotocols) > 0 && !slices.Contains(o.Subprotocols, got) || len(o.Subprotocols) == 0 && got != "" {
		ws.Close()
		return nil, fmt.Errorf("%w %s", ErrSubprotocol, strings.Join(o.Subprotocols, " or "))
	}
	return ws, nil
}

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// A shyConn is a connection to a server that has not completed the handshake: it returns a bounded number of
// bytes, for a bounded time once it is open, since a dial function may first wait for the site's turn, and ends with the
// context, which gorilla heeds only while it dials.
type shyConn struct {
	net.Conn
	handshake time.Duration
	left      atomic.Int64
	trusted   atomic.Bool
	release   func() bool
}

func (s *shyConn) dialer(ctx context.Context, dial dialFunc) dialFunc {
	return func(dialCtx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(dialCtx, network, addr)
		if err != nil {
			return nil, err
		}
		conn.SetDeadline(time.Now().Add(s.handshake)) // gorilla lifts it after the handshake
		s.Conn = conn
		s.left.Store(maxHandshake)
		s.release = context.AfterFunc(ctx, func() { conn.Close() })
		return s, nil
	}
}

// trust lifts the bounds, and reports whether the context has ended.
func (s *shyConn) trust() (ended bool) {
	s.trusted.Store(true)
	return s.release != nil && !s.release()
}

func (s *shyConn) Read(b []byte) (int, error) {
	if s.trusted.Load() {
		return s.Conn.Read(b)
	}
	left := s.left.Load()
	if left <= 0 {
		return 0, errHandshakeSize
	}
	n, err := s.Conn.Read(b[:min(int64(len(b)), left)])
	s.left.Add(-int64(n))
	return n, err
}
