package ping

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// errPrivate is why a callback is not called.
var errPrivate = errors.New("address is not a public one")

// notPublic are networks that the predicates of netip do not name, and into
// which a stranger must not make this machine send anything.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),       // this network
	netip.MustParsePrefix("100.64.0.0/10"),   // shared address space of providers, RFC 6598
	netip.MustParsePrefix("192.0.0.0/24"),    // protocol assignments, RFC 6890
	netip.MustParsePrefix("192.0.2.0/24"),    // documentation
	netip.MustParsePrefix("198.18.0.0/15"),   // benchmarks, RFC 2544
	netip.MustParsePrefix("198.51.100.0/24"), // documentation
	netip.MustParsePrefix("203.0.113.0/24"),  // documentation
	netip.MustParsePrefix("240.0.0.0/4"),     // reserved, and broadcast
	netip.MustParsePrefix("64:ff9b::/96"),    // an IPv4 address within, RFC 6052
	netip.MustParsePrefix("64:ff9b:1::/48"),  // the same, RFC 8215
	netip.MustParsePrefix("100::/64"),        // discard, RFC 6666
	netip.MustParsePrefix("2001::/23"),       // Teredo and other assignments
	netip.MustParsePrefix("2001:db8::/32"),   // documentation
	netip.MustParsePrefix("2002::/16"),       // 6to4: an IPv4 address within
	netip.MustParsePrefix("fec0::/10"),       // site-local, deprecated
}

// isPublic reports whether an address is one of the public Internet.
func isPublic(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() {
		return false
	}
	for _, p := range notPublic {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// guardedTransport connects to public addresses only. It looks at the address
// that is dialled, after every name has been resolved: a name that answers
// differently the second time gains nothing. It knows no proxy, which would
// dial in its stead.
func guardedTransport() *http.Transport {
	d := &net.Dialer{Timeout: 10 * time.Second, ControlContext: guard}
	return &http.Transport{DialContext: d.DialContext, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second,
		ResponseHeaderTimeout: askTime, MaxResponseHeaderBytes: 32 << 10, MaxIdleConnsPerHost: 1, MaxIdleConns: 32, IdleConnTimeout: 30 * time.Second}
}

func guard(_ context.Context, network, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if network != "tcp4" && network != "tcp6" || !isPublic(ap.Addr()) {
		return fmt.Errorf("%s: %w", ap.Addr(), errPrivate)
	}
	return nil
}
