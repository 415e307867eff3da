package caller

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Proxies are the addresses of proxies whose X-Forwarded-For header is believed, besides those of this machine. It
// implements flag.Value.
type Proxies []netip.Prefix

// String returns the addresses with commas.
func (p *Proxies) String() string {
	var list []string
	for _, of := range *p {
		list = append(list, of.String())
	}
	return strings.Join(list, ",")
}

// Set adds addresses and prefixes, separated by commas or spaces. A prefix that covers all addresses is an error.
func (p *Proxies) Set(s string) error {
	for _, word := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' }) {
		of, err := netip.ParsePrefix(word)
		if err != nil {
			a, err := netip.ParseAddr(word)
			if err != nil {
				return fmt.Errorf("%.80q: want addresses or prefixes, such as 10.0.0.7,2001:db8::/32", word)
			}
			of = netip.PrefixFrom(a.Unmap().WithZone(""), a.Unmap().BitLen())
		}
		if a := of.Addr(); a.Is4In6() && of.Bits() >= 96 {
			of = netip.PrefixFrom(a.Unmap(), of.Bits()-96)
		}
		if of.Bits() == 0 {
			return errors.New("a prefix of all addresses would let every client choose its address")
		}
		*p = append(*p, of.Masked())
	}
	return nil
}

func (p Proxies) has(a netip.Addr) bool {
	for _, of := range p {
		if of.Contains(a) {
			return true
		}
	}
	return false
}

// Address returns the address that a request counts for. A peer on the loopback, on a Unix socket, or in p
// counts as a proxy: the last hop of its X-Forwarded-For is the address or, if that is in p, the hop before, and so
// on; if the last hop names none, the address is empty. A header from any other peer, and hops before the first one
// that is no proxy, are only claims, and ignored.
func (p Proxies) Address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	peer, err := netip.ParseAddr(host)
	if peer = peer.Unmap().WithZone(""); err == nil && !peer.IsLoopback() && !p.has(peer) {
		return addressKey(peer)
	}
	key, hops := "", strings.Join(r.Header.Values("X-Forwarded-For"), ",")
	for hops != "" {
		i := strings.LastIndexByte(hops, ',')
		last := strings.TrimSpace(hops[i+1:])
		hops = hops[:max(i, 0)]
		if h, _, err := net.SplitHostPort(last); err == nil {
			last = h
		}
		hop, err := netip.ParseAddr(strings.Trim(last, "[]"))
		if err != nil {
			break
		}
		hop = hop.Unmap().WithZone("")
		if key = addressKey(hop); !p.has(hop) {
			break
		}
	}
	return key
}

// addressKey returns the address itself or, for IPv6, its network of 64 bits, in which
// one client has as many addresses as it likes.
func addressKey(a netip.Addr) string {
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Masked().String()
		}
	}
	return a.String()
}
