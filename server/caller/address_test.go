package caller_test

import (
	"net/http/httptest"
	"testing"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/server/caller"
)

// A client has the address that the nearest trusted proxy saw, whatever it claims itself.
func TestAddress(t *testing.T) {
	var named caller.Proxies
	for _, s := range []string{"10.0.0.0/8, ::ffff:192.0.2.6/127", "2001:db8:1::/48"} {
		must.OK(t, named.Set(s))
	}
	if got := named.String(); got != "10.0.0.0/8,192.0.2.6/31,2001:db8:1::/48" {
		t.Errorf("proxies are %s", got)
	}
	for _, c := range []struct {
		peer string
		hops []string // values of X-Forwarded-For

		plain, named string // address without, and with proxies
	}{
		{"127.0.0.1:5", nil, "", ""},
		{"[::1]:5", []string{"198.51.100.1"}, "198.51.100.1", "198.51.100.1"},
		{"@", []string{"198.51.100.1"}, "198.51.100.1", "198.51.100.1"}, // a Unix socket
		{"127.0.0.1:5", []string{"203.0.113.9, 198.51.100.1"}, "198.51.100.1", "198.51.100.1"},
		{"127.0.0.1:5", []string{"203.0.113.9, 127.0.0.1"}, "127.0.0.1", "127.0.0.1"},
		{"198.51.100.1:5", []string{"203.0.113.9"}, "198.51.100.1", "198.51.100.1"}, // a client's claim
		{"192.0.2.8:5", []string{"203.0.113.9"}, "192.0.2.8", "192.0.2.8"},          // beside a proxy
		{"192.0.2.7:5", []string{"203.0.113.9, 198.51.100.1"}, "192.0.2.7", "198.51.100.1"},
		{"[::ffff:192.0.2.7]:5", []string{"[2001:db8:2::1]:80"}, "192.0.2.7", "2001:db8:2::/64"},
		{"[2001:db8:1::9]:5", []string{"203.0.113.9", "198.51.100.1:1234"}, "2001:db8:1::/64", "198.51.100.1"},
		// A CDN in front of a balancer in front of a web server on this machine.
		{"127.0.0.1:5", []string{"203.0.113.9, 198.51.100.1, 192.0.2.7", "10.1.2.3"}, "10.1.2.3", "198.51.100.1"},
		{"127.0.0.1:5", []string{"10.1.2.4, 10.1.2.3"}, "10.1.2.3", "10.1.2.4"}, // the client is a proxy itself
		{"127.0.0.1:5", []string{"198.51.100.1, unknown, 10.1.2.3"}, "10.1.2.3", "10.1.2.3"},
		{"127.0.0.1:5", []string{"198.51.100.1, unknown"}, "", ""},
		{"192.0.2.7:5", nil, "192.0.2.7", ""},
		{"192.0.2.7:5", []string{"198.51.100.1", ""}, "192.0.2.7", ""},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.peer
		for _, h := range c.hops {
			r.Header.Add("X-Forwarded-For", h)
		}
		if got := (caller.Proxies{}).Address(r); got != c.plain {
			t.Errorf("%s with %q: %q, want %q", c.peer, c.hops, got, c.plain)
		}
		if got := named.Address(r); got != c.named {
			t.Errorf("%s with %q and proxies: %q, want %q", c.peer, c.hops, got, c.named)
		}
	}
	for _, wrong := range []string{"nginx", "10.0.0.0/33", "10.0.0.1-10.0.0.9", "0.0.0.0/0", "10.0.0.1,::/0", "::ffff:0.0.0.0/96"} {
		if err := new(caller.Proxies).Set(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}
