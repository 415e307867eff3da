package caller

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Address returns the address that a request counts for. A peer on the loopback,
// or on a Unix socket, counts as a proxy of this machine: the last hop of its
// X-Forwarded-For is the address; if that names none, the address is empty. A header
// from any other peer is only a claim, and ignored.
func Address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	peer, err := netip.ParseAddr(host)
	if err == nil && !peer.Unmap().IsLoopback() {
		return addressKey(peer)
	}
	hops := r.Header.Values("X-Forwarded-For")
	if len(hops) == 0 {
		return ""
	}
	last := hops[len(hops)-1]
	last = strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])
	if h, _, err := net.SplitHostPort(last); err == nil {
		last = h
	}
	hop, err := netip.ParseAddr(strings.Trim(last, "[]"))
	if err != nil {
		return ""
	}
	return addressKey(hop)
}

// addressKey returns the address itself or, for IPv6, its network of 64 bits, in which
// one client has as many addresses as it likes.
func addressKey(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Masked().String()
		}
	}
	return a.String()
}
