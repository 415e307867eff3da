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

// Public returns a transport that connects only to addresses of the public Internet, and fails with
// ErrPrivate for others: a stranger must not make this machine send anything into another network. It checks
// the address that is dialled, after name resolution, so a name that resolves differently the second time
// gains nothing. It uses no proxy, which would dial in its stead.
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
