// Package inet knows which addresses belong to the public Internet: the one table by which the crawler and
// the hub decide where a stranger's name may make them connect to.
package inet

import (
	"net"
	"net/netip"
	"strings"
)

// nat64 is the prefix for version 4 in networks without it (RFC 6052): the last four bytes are the address.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// global is all of version 6 that was ever assigned as unicast of the public Internet: later special ranges,
// and all ways to write version 4, are outside of it.
var global = netip.MustParsePrefix("2000::/3")

// special are the non-public ranges of version 4 and of global (RFC 6890 and its registries at IANA), and
// rare ways to wrap an address of version 4. The first match counts.
var special = []struct {
	prefix netip.Prefix
	why    string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "this network"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "shared by a carrier (CGNAT)"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "reserved"},
	{netip.MustParsePrefix("192.0.2.0/24"), "for documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), "of a 6to4 relay"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private"},
	{netip.MustParsePrefix("198.18.0.0/15"), "for benchmarks"},
	{netip.MustParsePrefix("198.51.100.0/24"), "for documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "for documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("2001::/23"), "reserved"}, // Teredo, ORCHID, measurements
	{netip.MustParsePrefix("2001:db8::/32"), "for documentation"},
	{netip.MustParsePrefix("2002::/16"), "of a 6to4 relay"},
	{netip.MustParsePrefix("3fff::/20"), "for documentation"},
	{netip.MustParsePrefix("fc00::/7"), "private"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("fec0::/10"), "private"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
}

// Plain returns an address in its simplest form: without a zone, and as version 4 if it is mapped into
// version 6 or reached by NAT64.
func Plain(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("") // no prefix contains an address with a zone
	if nat64.Contains(a) {
		b := a.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}

// Special returns the kind of an address that is not on the public Internet, such as "private", and the empty
// string for a public one.
func Special(a netip.Addr) (why string) {
	a = Plain(a)
	for _, s := range special {
		if s.prefix.Contains(a) {
			return s.why
		}
	}
	if !a.IsValid() || a.Is6() && !global.Contains(a) {
		return "reserved"
	}
	return ""
}

// Loopback reports whether a host, with or without a port, is this machine by its name: localhost or a loopback address.
func Loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || err == nil && a.Unmap().IsLoopback()
}

// Own reports whether a host, without a port, can only be on this machine or in a private network, by its name: localhost, a name
// below it (RFC 6761), a loopback address or a private one.
func Own(host string) bool {
	a, _ := netip.ParseAddr(strings.Trim(host, "[]"))
	return Loopback(host) || strings.HasSuffix(strings.ToLower(host), ".localhost") || Plain(a).IsPrivate()
}
