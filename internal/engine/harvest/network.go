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
	ends         func() time.Time // see Options.Ends

	readers sync.Pool // of *bufio.Reader
}

func newNetwork(o *Options, count *counters) *network {
	n := &network{open: o.Dial, timeout: positive(o.ConnectTimeout, DefaultConnect), tls: o.TLS, cert: o.Cert, certHost: plainName(o.CertHost), private: o.Private, own: o.Own, blocked: o.Blocked, ends: o.Ends}
	if n.open == nil {
		n.open = (&net.Dialer{}).DialContext
	}
	n.names = names{
		resolver: cmp.Or[Resolver](o.Resolver, net.DefaultResolver), age: positive(o.AddressAge, time.Hour), bad: min(badName, positive(o.Hurry, badName)),
		slots: make(chan struct{}, positive(o.Lookups, defaultLookups)), count: count, mostFailed: positive(o.MaxFailedLookups, DefaultMaxFailed),
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
		if ended(n.ends) {
			return nil, ip, errEnds
		}
		limited, cancel := ctx, context.CancelFunc(func() {})
		if end, ok := ctx.Deadline(); ok && i < len(ips)-1 {
			limited, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(len(ips)-i))
		}
		nc, err := n.open(limited, "tcp", net.JoinHostPort(ip.String(), port))
		cancel()
		if err == nil {
			if n.ends != nil {
				nc = &endingConn{nc, n.ends}
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

// ended reports whether the time of Options.Ends has come.
func ended(ends func() time.Time) bool { return ends != nil && !time.Now().Before(ends()) }

// An endingConn writes nothing after the time of Options.Ends, not even for a process that was stopped since it got the slot. What is left is the moment between the
// check and the system call.
type endingConn struct {
	net.Conn
	ends func() time.Time
}

func (c *endingConn) Write(p []byte) (int, error) {
	if ended(c.ends) {
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
