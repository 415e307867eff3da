package harvest

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/parleyweb/parley/internal/inet"
)

// An addressError is an address to which no request may be sent.
type addressError struct {
	ip  netip.Addr
	why string
}

func (e *addressError) Error() string { return fmt.Sprintf("%v is %s: no request sent", e.ip, e.why) }

// allowed returns an *addressError if no request may be sent to an address. It is
// called with the very address that is then dialed, so that DNS cannot change
// between the check and the connection.
func (n *network) allowed(ip netip.Addr) error {
	ip = ip.Unmap().WithZone("") // no prefix contains an address with a zone
	inner := inet.Plain(ip)
	for _, p := range n.blocked {
		if p.Contains(ip) || p.Contains(inner) {
			return &addressError{ip, "blocked"}
		}
	}
	if n.private || n.own {
		return nil
	}
	if why := inet.Special(ip); why != "" {
		return &addressError{ip, why}
	}
	return nil
}

// locate returns the allowed addresses of a host, at least one.
func (n *network) locate(ctx context.Context, host string) ([]netip.Addr, error) {
	ips, err := n.names.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	if ips, err = n.stays(host, ips); err != nil {
		return nil, err
	}
	refused := func(ip netip.Addr) bool { return n.allowed(ip) != nil }
	if i := slices.IndexFunc(ips, refused); i >= 0 {
		err = n.allowed(ips[i])
		if ips = slices.DeleteFunc(slices.Clone(ips), refused); len(ips) == 0 {
			return nil, err
		}
	}
	return ips, nil
}

// Seen sets the address that a site had before: a host with a public one stays public, see Own.
func (h *Harvester) Seen(origin string, ip netip.Addr) {
	if !h.Options.Own || h.Options.Private || inet.Special(ip) != "" {
		return
	}
	h.start()
	if s, err := newSite(origin); err == nil {
		n := &h.network.names
		n.mu.Lock()
		defer n.mu.Unlock()
		n.public[s.host.name] = true
	}
}

// stays removes the addresses that are not public, if the host has or had a public one: a name
// on the Internet must not lead into a private network.
func (n *network) stays(host string, ips []netip.Addr) ([]netip.Addr, error) {
	if !n.own || n.private {
		return ips, nil
	}
	host = plainName(host)
	special := func(ip netip.Addr) bool { return inet.Special(ip) != "" }
	n.names.mu.Lock()
	defer n.names.mu.Unlock()
	switch {
	case !slices.ContainsFunc(ips, special):
		n.names.public[host] = true
		return ips, nil
	case slices.ContainsFunc(ips, func(ip netip.Addr) bool { return !special(ip) }):
		n.names.public[host] = true
	case n.names.public[host]:
		return nil, &addressError{ips[0], inet.Special(ips[0]) + ", and " + host + " was at a public address before (--allow-private permits the request)"}
	default:
		return ips, nil
	}
	return slices.DeleteFunc(slices.Clone(ips), special), nil
}
