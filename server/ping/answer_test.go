package ping_test

import (
	"bytes"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/parleyweb/parley/server/ping"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestRetryAfter(t *testing.T) {
	for _, c := range []struct {
		header string
		want   time.Duration // 0: it says nothing
	}{
		{"120", 2 * time.Minute},
		{" 120 ", 2 * time.Minute},
		{"0", time.Second},
		{"86401", 24 * time.Hour},
		{"99999999999999999999999999", 24 * time.Hour},
		{"Sat, 21 Nov 2026 12:10:00 GMT", 10 * time.Minute},
		{"Saturday, 21-Nov-26 12:10:00 GMT", 10 * time.Minute},
		{"Sat Nov 21 12:10:00 2026", 10 * time.Minute},
		{"Sat, 21 Nov 2026 11:00:00 GMT", time.Second},
		{"Fri, 31 Dec 9999 23:59:59 GMT", 24 * time.Hour},
		{"", 0},
		{"-1", 0},
		{"1.5", 0},
		{"soon", 0},
		{"2026-11-21T12:10:00Z", 0},
	} {
		got, ok := ping.RetryAfter(c.header, now)
		if got != c.want || ok != (c.want > 0) {
			t.Errorf("%q: %v %v, want %v", c.header, got, ok, c.want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"120", "Sat, 21 Nov 2026 12:10:00 GMT", "99999999999999999999", "-5", "", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, ok := ping.RetryAfter(s, now)
		if ok && (d < time.Second || d > 24*time.Hour) || !ok && d != 0 {
			t.Errorf("%q: %v %v", s, d, ok)
		}
		if at, err := http.ParseTime(strings.TrimSpace(s)); err == nil && !ok {
			t.Errorf("%q is %v, and was not understood", s, at)
		}
	})
}

func FuzzNotes(f *testing.F) {
	for _, s := range []string{"0 0 0 false 0", "1763726400000 0 1763726400000 true 2", "", "x", "1 2 3", "9223372036854775807 -1 0 true -1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		again, due := ping.RereadOwed(b, now)
		if !bytes.Equal(bytes.Join(bytes.Fields(b), []byte(" ")), again) && !due && len(bytes.Fields(b)) != 5 {
			t.Errorf("%q is forgotten", b)
		}
		if twice, _ := ping.RereadOwed(again, now); !bytes.Equal(twice, again) {
			t.Errorf("%q became %q and then %q", b, again, twice)
		}
	})
}

func FuzzClip(f *testing.F) {
	f.Add("<h1>502 Bad Gateway</h1>\r\n\x1b[31mnginx\x00", 10)
	f.Add("\xff\xfe", 1)
	f.Fuzz(func(t *testing.T, s string, n int) {
		if n < 0 || n > 1000 {
			return
		}
		got := ping.Clip(s, n)
		if len(got) > n+len("...") || !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("%q: %q", s, got)
		}
	})
}

func TestPublicAddresses(t *testing.T) {
	for _, s := range []string{"8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450:4001::1", "::ffff:8.8.8.8", "223.255.255.1"} {
		if !ping.IsPublic(netip.MustParseAddr(s)) {
			t.Errorf("%s is a public address", s)
		}
	}
	for _, s := range []string{"127.0.0.1", "127.8.8.8", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
		"169.254.169.254", "100.64.0.1", "192.0.0.8", "192.0.2.1", "198.18.0.1", "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.1.1.1",
		"240.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12:3456::1", "ff02::1", "fec0::1",
		"::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::", "2001:0:1::", "2001:db8::1", "100::1",
		"::7f00:1", "3fff::1", "5f00::1", "192.88.99.1"} {
		if ping.IsPublic(netip.MustParseAddr(s)) {
			t.Errorf("%s is no public address", s)
		}
	}
	if ping.IsPublic(netip.Addr{}) {
		t.Error("no address is no public address")
	}
}
