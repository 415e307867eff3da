package harvest

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// A network connects to sites, at addresses that are allowed.
type network struct {
	names   names
	open    func(ctx context.Context, network, address string) (net.Conn, error)
	timeout time.Duration    // TLS included
	tls     *tls.Config      // may be nil
	cert    *tls.Certificate // for certHost only; may be nil

	certHost     string
	private, own bool
	blocked      []netip.Prefix
	right        right

	readers sync.Pool // of *bufio.Reader
}

func newNetwork(o *Options, count *counters, lookups chan struct{}) *network {
	n := &network{open: o.Dial, timeout: positive(o.ConnectTimeout, DefaultConnect), tls: o.TLS, cert: o.Cert, certHost: plainName(o.CertHost), private: o.Private, own: o.Own, blocked: o.Blocked, right: right{o.Ends, time.Now()}}
	if n.open == nil {
		n.open = (&net.Dialer{}).DialContext
	}
	n.names = names{
		resolver: cmp.Or[Resolver](o.Resolver, net.DefaultResolver), age: positive(o.AddressAge, time.Hour), bad: min(badName, positive(o.Hurry, badName)),
		slots: lookups, count: count, mostFailed: positive(o.MaxFailedLookups, DefaultMaxFailed),
		known: map[string]*name{}, public: map[string]bool{},
	}
	return n
}

func (n *network) tlsConfig(host string) *tls.Config {
	config := cmp.Or(n.tls, new(tls.Config)).Clone()
	if config.ServerName == "" {
		config.ServerName = host
	}
	if config.NextProtos == nil {
		config.NextProtos = []string{"h2", "http/1.1"}
	}
	if n.certifies(host) {
		config.Certificates = []tls.Certificate{*n.cert}
	}
	return config
}

// certifies reports whether our certificate is for a host.
func (n *network) certifies(host string) bool { return n.cert != nil && host == n.certHost }

// connect tries up to four addresses, one after the other, and fails at one that is not allowed.
func (n *network) connect(ctx context.Context, ips []netip.Addr, port string) (net.Conn, netip.Addr, error) {
	var first error
	for i, ip := range ips {
		if err := n.allowed(ip); err != nil {
			return nil, ip, err
		}
		if n.right.ended() {
			return nil, ip, errEnds
		}
		limited, cancel := ctx, context.CancelFunc(func() {})
		if end, ok := ctx.Deadline(); ok && i < len(ips)-1 {
			limited, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(len(ips)-i))
		}
		nc, err := n.open(limited, "tcp", net.JoinHostPort(ip.String(), port))
		cancel()
		if err == nil {
			if n.right.ends != nil {
				nc = &endingConn{nc, &n.right}
			}
			return nc, ip, nil
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil || i >= 3 {
			break
		}
	}
	return nil, netip.Addr{}, first
}

var errEnds = errors.New("no request sent: this crawler has not the right to any more")

// A right is that to send requests.
type right struct {
	ends  func() time.Time // see Options.Ends; nil: never
	began time.Time
}

func (r *right) ended() bool { return r.ends != nil && !time.Now().Before(r.ends()) }

// An endingConn writes nothing after the right has ended, not even for a process that was stopped since it got the slot. What is left is the moment
// between the check and the system call.
type endingConn struct {
	net.Conn
	right *right
}

func (c *endingConn) Write(p []byte) (int, error) {
	if c.right.ended() {
		return 0, errEnds
	}
	return c.Conn.Write(p)
}

// SyscallConn is for what looks whether something can be read.
func (c *endingConn) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}
