package harvest

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

var (
	errLongHeader = errors.New("response header is too long")
	errSilent     = errors.New("timed out: no data received")
	errLong       = errors.New("timed out: the response took too long")
	errSlow       = errors.New("slower than the minimum speed")
	errStopped    = errors.New("canceled: the batch has ended")
)

// A conn is a connection to a site. One goroutine uses it at a time; cut may
// be called by any.
//
// It speaks HTTP/1.1 itself, on one goroutine. Measured in its place, net/http's transport, with three goroutines a response, took 1.08 to
// 1.16 times the CPU a page (medians of 20 pairs), and it prints bytes that a server sends unasked through package log. HTTP/2 is net/http's.
type conn struct {
	nc    net.Conn
	raw   net.Conn // nc, or the connection below TLS
	ip    netip.Addr
	buf   *bufio.Reader   // nil where h2 is not
	pool  *sync.Pool      // of buf
	h2    *http.Transport // that has this connection only, if the site speaks HTTP/2
	pages int             // requests so far
	used  time.Time       // when the last response ended

	ended atomic.Bool // cut was called

	left int64 // bytes of a header that may still come
	pace pace  // of the response that is being read
}

// dial connects to a site at the first of its addresses that answers.
func (n *network) dial(ctx context.Context, s *site, ips []netip.Addr) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	nc, ip, err := n.connect(ctx, ips, s.port)
	if err != nil {
		return nil, err
	}
	c := &conn{nc: nc, raw: nc, ip: ip, pool: &n.readers}
	if s.tls {
		t := tls.Client(nc, n.tlsConfig(s.host.name))
		if err := t.HandshakeContext(ctx); err != nil {
			nc.Close()
			return nil, fmt.Errorf("TLS: %w", err)
		}
		c.nc = t
		if t.ConnectionState().NegotiatedProtocol == "h2" {
			c.h2 = newH2(t)
			return c, nil
		}
	}
	// Most pages fit in, with their headers, and are read by one system call.
	var ok bool
	if c.buf, ok = n.readers.Get().(*bufio.Reader); !ok {
		c.buf = bufio.NewReaderSize(nil, 16<<10)
	}
	c.buf.Reset(c)
	return c, nil
}

// newH2 returns a transport over one connection, which speaks HTTP/2.
func newH2(t *tls.Conn) *http.Transport {
	var taken atomic.Bool
	return &http.Transport{
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
		DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
			if taken.Swap(true) {
				return nil, errors.New("the connection has ended")
			}
			return t, nil
		},
	}
}

// cut ends the request under way.
func (c *conn) cut() {
	c.ended.Store(true)
	c.nc.Close()
}

func (c *conn) close() {
	if c.h2 != nil {
		c.h2.CloseIdleConnections()
	}
	c.nc.Close()
	if c.buf != nil {
		c.buf.Reset(nil)
		c.pool.Put(c.buf)
		c.buf = nil
	}
}

// ask sends a request of HTTP/1 and reads the header of the answer.
func (c *conn) ask(request []byte) (*http.Response, error) {
	if _, err := c.nc.Write(request); err != nil {
		// It may have answered before it closed, and a response says more than the error.
		if errors.Is(err, errEnds) {
			return nil, err
		}
		if c.buf.Buffered() == 0 && !errors.Is(err, net.ErrClosed) {
			if _, peek := c.buf.Peek(1); peek != nil {
				return nil, err
			}
		}
	}
	for range 6 {
		resp, err := http.ReadResponse(c.buf, nil)
		if err != nil {
			if c.left <= 0 {
				err = errLongHeader
			}
			return nil, err
		}
		if resp.StatusCode >= 200 {
			c.left = math.MaxInt64 // the reader of the body has its own limit
			return resp, nil
		}
		if resp.StatusCode == http.StatusSwitchingProtocols {
			break
		}
	}
	return nil, errors.New("no final response, only informational ones (1xx)")
}

// Read is for buf.
func (c *conn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errLongHeader
	}
	n, err := c.nc.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}
