package inet_test

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/parleyweb/parley/internal/inet"
)

// The special-purpose registries of IANA, as of 2025, and whether what they name is
// reachable from everywhere: https://www.iana.org/assignments/iana-ipv4-special-registry
// and iana-ipv6-special-registry. Multicast and what was taken back have registries of their own.
var registries = []struct {
	prefix    string
	reachable bool
}{
	{"0.0.0.0/8", false}, {"0.0.0.0/32", false}, {"10.0.0.0/8", false}, {"100.64.0.0/10", false}, {"127.0.0.0/8", false},
	{"169.254.0.0/16", false}, {"172.16.0.0/12", false}, {"192.0.0.0/24", false}, {"192.0.0.0/29", false}, {"192.0.0.8/32", false},
	{"192.0.0.170/32", false}, {"192.0.0.171/32", false}, {"192.0.2.0/24", false}, {"192.31.196.0/24", true}, {"192.52.193.0/24", true},
	{"192.88.99.0/24", false}, {"192.88.99.2/32", false}, {"192.168.0.0/16", false}, {"192.175.48.0/24", true}, {"198.18.0.0/15", false},
	{"198.51.100.0/24", false}, {"203.0.113.0/24", false}, {"240.0.0.0/4", false}, {"255.255.255.255/32", false},
	// Anycast of protocols that no Web server speaks; all about them is reserved.
	{"192.0.0.9/32", false}, {"192.0.0.10/32", false},
	{"224.0.0.0/4", false}, // multicast

	{"::1/128", false}, {"::/128", false}, {"64:ff9b:1::/48", false}, {"100::/64", false}, {"100:0:0:1::/64", false},
	{"2001::/23", false}, {"2001::/32", false}, {"2001:2::/48", false}, {"2001:10::/28", false}, {"2001:db8::/32", false},
	{"2002::/16", false}, {"2620:4f:8000::/48", true}, {"3fff::/20", false}, {"5f00::/16", false}, {"fc00::/7", false}, {"fe80::/10", false},
	{"2001:1::1/128", false}, {"2001:1::2/128", false}, {"2001:1::3/128", false}, // as above
	{"2001:3::/32", false}, {"2001:4:112::/48", false}, {"2001:20::/28", false}, {"2001:30::/28", false},
	{"ff00::/8", false},  // multicast
	{"fec0::/10", false}, // site-local, deprecated
	{"::/96", false},     // version 4 in the oldest way to write it

	{"8.8.8.0/24", true}, {"1.0.0.0/24", true}, {"223.255.255.0/24", true}, {"2606:4700::/32", true}, {"2a00::/12", true}, {"2001:4860::/32", true},
}

// last returns the last address of a prefix.
func last(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// wrapped returns the addresses of version 6 by which one of version 4 may be reached, or hidden.
func wrapped(a netip.Addr) (same, never []netip.Addr) {
	v4 := a.As4()
	with := func(prefix string, at int, not byte) netip.Addr {
		b := netip.MustParseAddr(prefix).As16()
		for i := range v4 {
			b[at+i] = v4[i] ^ not
		}
		return netip.AddrFrom16(b)
	}
	same = []netip.Addr{with("::ffff:0:0", 12, 0), with("64:ff9b::", 12, 0), a.WithZone("")}
	never = []netip.Addr{
		with("::", 12, 0),                           // compatible, deprecated
		with("::ffff:0:0:0", 12, 0),                 // translated, RFC 2765
		with("64:ff9b:1::", 12, 0),                  // NAT64 of a network's own
		with("2002::", 2, 0),                        // 6to4
		with("2001:0:cb00:7100::", 12, 0xff),        // Teredo, the client
		with("2001::", 4, 0),                        // Teredo, the server
		with("fe80::5efe:0:0", 12, 0),               // ISATAP
		with("::ffff:0:0", 12, 0).WithZone("eth0"),  // with a zone it is no other
		with("fd00:64:ff9b::", 12, 0).WithZone("1"), // NAT64 by a prefix of its own
	}
	if inet.Special(a) == "" {
		same, never = append(same, never[7]), append(never[:7], never[8])
	}
	return same, never
}

// Every block that the IANA registries mark as not globally reachable is not public, at both ends and in the
// middle, in every notation.
func TestSpecialPurposeRegistries(t *testing.T) {
	for _, r := range registries {
		p := netip.MustParsePrefix(r.prefix)
		first, end := p.Masked().Addr(), last(p)
		middle := first
		if p.Bits() < p.Addr().BitLen() {
			b := first.AsSlice()
			b[p.Bits()/8] |= 0x80 >> (p.Bits() % 8)
			middle, _ = netip.AddrFromSlice(b)
		}
		for _, a := range []netip.Addr{first, middle, end} {
			if why := inet.Special(a); (why == "") != r.reachable {
				t.Errorf("%v of %s: %q, reachable: %v", a, r.prefix, why, r.reachable)
			}
			if !a.Is4() {
				continue
			}
			same, never := wrapped(a)
			for _, w := range same {
				if why := inet.Special(w); (why == "") != r.reachable {
					t.Errorf("%v, which is %v: %q, reachable: %v", w, a, why, r.reachable)
				}
			}
			for _, w := range never {
				if inet.Special(w) == "" {
					t.Errorf("%v, made of %v, is treated as public", w, a)
				}
			}
		}
	}
	for _, s := range []string{"::7f00:1", "3fff::1", "5f00::1", "192.88.99.1", "169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe"} {
		if inet.Special(netip.MustParseAddr(s)) == "" {
			t.Errorf("%s is treated as public", s)
		}
	}
	if inet.Special(netip.Addr{}) == "" {
		t.Error("the zero address is treated as public")
	}
}

func FuzzSpecial(f *testing.F) {
	f.Add([]byte{127, 0, 0, 1})
	f.Add(netip.MustParseAddr("64:ff9b::7f00:1").AsSlice())
	f.Fuzz(func(t *testing.T, b []byte) {
		a, ok := netip.AddrFromSlice(b)
		if !ok {
			return
		}
		if got, plain := inet.Special(a), inet.Special(inet.Plain(a)); got != plain {
			t.Errorf("%v: %q, and plain %q", a, got, plain)
		}
		if a.Is6() && inet.Plain(a).Is6() && inet.Special(a) == "" && binary.BigEndian.Uint16(a.AsSlice())>>13 != 1 {
			t.Errorf("%v is outside of the allocated space", a)
		}
	})
}

func TestPublicAddresses(t *testing.T) {
	for _, s := range []string{"8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450:4001::1", "::ffff:8.8.8.8", "223.255.255.1"} {
		if inet.Special(netip.MustParseAddr(s)) != "" {
			t.Errorf("%s is not treated as public", s)
		}
	}
	for _, s := range []string{"127.0.0.1", "127.8.8.8", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
		"169.254.169.254", "100.64.0.1", "192.0.0.8", "192.0.2.1", "198.18.0.1", "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.1.1.1",
		"240.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12:3456::1", "ff02::1", "fec0::1",
		"::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::", "2001:0:1::", "2001:db8::1", "100::1",
		"::7f00:1", "3fff::1", "5f00::1", "192.88.99.1"} {
		if inet.Special(netip.MustParseAddr(s)) == "" {
			t.Errorf("%s is treated as public", s)
		}
	}
	if inet.Special(netip.Addr{}) == "" {
		t.Error("the zero address is treated as public")
	}
}

// A host is this machine by its name alone, however it is written.
func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9:80": true, "::1": true, "[::1]": true, "[::1]:8640": true, "[::ffff:127.0.0.1]:80": true, "LocalHost": true, "localhost:80": true,
		"": false, ":80": false, "0.0.0.0": false, "10.0.0.1": false, "[::2]:80": false, "127.0.0.1.example.org": false, "localhost.example.org:80": false, "www.example.org": false,
	} {
		if inet.Loopback(host) != want {
			t.Errorf("%q is loopback: %v", host, !want)
		}
	}
}
