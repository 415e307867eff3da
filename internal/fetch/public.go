package fetch

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"github.com/parleyweb/parley/internal/inet"
)

// Public returns a transport that connects to addresses of the public Internet only, and
// else fails with ErrPrivate: into no other network must a stranger make this machine send
// anything. It looks at the address that is dialled, after every name has been resolved: a
// name that answers differently the second time gains nothing. It knows no proxy, which
// would dial in its stead.
func Public() *http.Transport {
	d := &net.Dialer{Timeout: 10 * time.Second, ControlContext: public}
	return &http.Transport{DialContext: d.DialContext, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second,
		ResponseHeaderTimeout: defaultTimeout, MaxResponseHeaderBytes: 32 << 10, MaxIdleConnsPerHost: 1, MaxIdleConns: 32, IdleConnTimeout: 30 * time.Second}
}

func public(_ context.Context, network, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if network != "tcp4" && network != "tcp6" || inet.Special(at.Addr()) != "" {
		return fmt.Errorf("%s: %w", at.Addr(), ErrPrivate)
	}
	return nil
}
