package harvest

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"time"
)

func (h *Harvester) tlsConfig(host string) *tls.Config {
	config := cmp.Or(h.TLS, new(tls.Config)).Clone()
	if config.ServerName == "" {
		config.ServerName = host
	}
	if config.NextProtos == nil {
		config.NextProtos = []string{"h2", "http/1.1"}
	}
	return config
}

// connect tries up to four addresses, one after the other, and fails at one that is not allowed.
func (h *Harvester) connect(ctx context.Context, ips []netip.Addr, port string) (net.Conn, netip.Addr, error) {
	dial := h.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	var first error
	for i, ip := range ips {
		if err := h.allowed(ip); err != nil {
			return nil, ip, err
		}
		limited, cancel := ctx, context.CancelFunc(func() {})
		if end, ok := ctx.Deadline(); ok && i < len(ips)-1 {
			limited, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(len(ips)-i))
		}
		nc, err := dial(limited, "tcp", net.JoinHostPort(ip.String(), port))
		cancel()
		if err == nil {
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
