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

	"github.com/parleyweb/parley/internal/inet"
)

// errPrivate is why a callback is not called.
var errPrivate = errors.New("address is not a public one")

// isPublic reports whether an address is one of the public Internet: into no other
// network must a stranger make this machine send anything.
func isPublic(a netip.Addr) bool { return inet.Special(a) == "" }

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
