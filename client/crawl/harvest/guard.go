package harvest

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
)

// An addressError is an address that is not to be asked.
type addressError struct {
	ip  netip.Addr
	why string
}

func (e *addressError) Error() string { return fmt.Sprintf("%v is %s: not asked", e.ip, e.why) }

// special is what is not the public Internet (RFC 6890 and its registries), or
// wraps an address of version 4 in a way that only few can use.
var special = []struct {
	prefix netip.Prefix
	why    string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "this network"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "shared by a carrier"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "reserved"},
	{netip.MustParsePrefix("192.0.2.0/24"), "for documents"},
	{netip.MustParsePrefix("192.88.99.0/24"), "a relay's"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private"},
	{netip.MustParsePrefix("198.18.0.0/15"), "for measurements"},
	{netip.MustParsePrefix("198.51.100.0/24"), "for documents"},
	{netip.MustParsePrefix("203.0.113.0/24"), "for documents"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},
	{netip.MustParsePrefix("::/96"), "reserved"}, // ::, ::1 and the old way to write version 4
	{netip.MustParsePrefix("64:ff9b:1::/48"), "private"},
	{netip.MustParsePrefix("100::/64"), "reserved"},
	{netip.MustParsePrefix("2001::/23"), "reserved"}, // Teredo, ORCHID, benchmarks
	{netip.MustParsePrefix("2001:db8::/32"), "for documents"},
	{netip.MustParsePrefix("2002::/16"), "a relay's"},
	{netip.MustParsePrefix("3fff::/20"), "for documents"},
	{netip.MustParsePrefix("5f00::/16"), "reserved"},
	{netip.MustParsePrefix("fc00::/7"), "private"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("fec0::/10"), "private"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
}

// nat64 is where networks without version 4 keep it (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// allowed returns an *addressError if an address is not to be asked. It is
// asked of the address that is then connected to, so that a name cannot lead
// elsewhere between the two.
func (h *Harvester) allowed(ip netip.Addr) error {
	ip = ip.Unmap().WithZone("") // no prefix contains an address with a zone
	inner := ip
	if nat64.Contains(ip) {
		b := ip.As16()
		inner = netip.AddrFrom4([4]byte(b[12:]))
	}
	for _, p := range h.Blocked {
		if p.Contains(ip) || p.Contains(inner) {
			return &addressError{ip, "blocked"}
		}
	}
	if h.Private {
		return nil
	}
	for _, s := range special {
		if s.prefix.Contains(inner) {
			return &addressError{ip, s.why}
		}
	}
	return nil
}

// locate returns the addresses at which a site may be asked, of which there is
// at least one.
func (h *Harvester) locate(ctx context.Context, host string) ([]netip.Addr, error) {
	ips, err := h.names.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	if bad := slices.IndexFunc(ips, func(ip netip.Addr) bool { return h.allowed(ip) != nil }); bad >= 0 {
		err = h.allowed(ips[bad])
		ips = slices.DeleteFunc(slices.Clone(ips), func(ip netip.Addr) bool { return h.allowed(ip) != nil })
		if len(ips) == 0 {
			return nil, err
		}
	}
	return ips, nil
}
