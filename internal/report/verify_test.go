package report_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/parleyweb/parley/internal/accesslog"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/report"
)

func TestVerifyByRanges(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"creationTime":"2026-10-01T00:00:00","prefixes":[{"ipv6Prefix":"2001:4860:4801:10::/64"},{"ipv4Prefix":"66.249.64.0/27"}]}`, "[66.249.64.0/27 2001:4860:4801:10::/64]"},
		{"# of ours\n192.0.2.0/24 # a\n\n192.0.2.7\n198.51.100.3\n", "[192.0.2.0/24 198.51.100.3/32]"},
		{"10.0.0.9/8\n::ffff:192.0.2.0/120\n", "[10.0.0.0/8 192.0.2.0/24]"},
		{"", "error"}, {"{}", "error"}, {"{", "error"}, {"somewhere\n", "error"}, {`{"prefixes":[{"ipv4Prefix":"x"}]}`, "error"},
		{strings.Repeat("192.0.2.0/24\n", 100_001), "error"},
	} {
		got := "error"
		if list, err := report.ReadRanges(strings.NewReader(c.text)); err == nil {
			got = fmt.Sprint(list)
		}
		if got != c.want {
			t.Errorf("%.60q: %s, want %s", c.text, got, c.want)
		}
	}
	// For every address, the result agrees with netip.
	list := must.Get(report.ReadRanges(strings.NewReader("192.0.2.64/26\n192.0.2.8/29\n192.0.2.12/31\n2001:db8::/33\n")))
	for _, i := range []int{0, 7, 8, 12, 13, 14, 15, 16, 63, 64, 100, 127, 128, 255} {
		for _, addr := range []string{fmt.Sprintf("192.0.2.%d", i), fmt.Sprintf("::ffff:192.0.2.%d", i), fmt.Sprintf("2001:db8:%x00::1", i), "host.example"} {
			claim := report.False
			if a, err := netip.ParseAddr(addr); err == nil {
				for _, p := range list {
					if p.Contains(a.Unmap()) {
						claim = report.Verified
					}
				}
			}
			log := addr + " - - [05/Oct/2026:14:03:09 +0200] \"GET / HTTP/1.1\" 200 7 \"-\" \"Googlebot/2.1\"\n"
			r := build(t, log, report.Options{Ranges: map[string][]netip.Prefix{"googleBot": list}})
			if len(r.Crawlers) != 1 || r.Crawlers[0].Claim != claim {
				t.Errorf("%s: %+v, want %s", addr, r.Crawlers, claim)
			}
		}
	}
}

func FuzzReadRanges(f *testing.F) {
	f.Add([]byte(`{"prefixes":[{"ipv6Prefix":"2001:4860:4801:10::/64"},{"ipv4Prefix":"66.249.64.0/27"}]}`))
	f.Add([]byte("192.0.2.0/24 # a\n2001:db8::/33\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := report.ReadRanges(strings.NewReader(string(text)))
		if err == nil && len(list) == 0 {
			t.Error("no error for an empty list")
		}
		for i := range list {
			if i > 0 && (list[i-1].Overlaps(list[i]) || list[i-1].Addr().Compare(list[i].Addr()) >= 0) {
				t.Errorf("%v", list)
			}
		}
	})
}

// A names is a name server: for unknown names it answers that there is none, and for "slow" it never answers.
type names struct {
	names map[string]string // by address
	addrs map[string]string // by name
	asked atomic.Int64
}

// serve runs the name server until the test ends.
func (n *names) serve(t *testing.T) *net.Resolver {
	t.Helper()
	conn := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, 4096)
		for {
			size, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if answer := n.answer(buf[:size]); answer != nil {
				conn.WriteTo(answer, from)
			}
		}
	})
	t.Cleanup(func() { conn.Close(); wg.Wait() })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func (n *names) answer(b []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(b) != nil || len(m.Questions) != 1 {
		return nil
	}
	n.asked.Add(1)
	q := m.Questions[0]
	name := strings.ToLower(q.Name.String())
	m.Response, m.Additionals = true, nil
	h := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60}
	switch q.Type {
	case dnsmessage.TypePTR:
		for addr, to := range n.names {
			a := netip.MustParseAddr(addr).As4()
			if name == fmt.Sprintf("%d.%d.%d.%d.in-addr.arpa.", a[3], a[2], a[1], a[0]) {
				if to == "slow" {
					return nil
				}
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.PTRResource{PTR: dnsmessage.MustNewName(to)}})
			}
		}
	case dnsmessage.TypeA:
		if addr, ok := n.addrs[name]; ok {
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: netip.MustParseAddr(addr).As4()}})
		}
	}
	if len(m.Answers) == 0 && n.addrs[name] == "" {
		m.RCode = dnsmessage.RCodeNameError
	}
	out, err := m.Pack()
	if err != nil {
		return nil
	}
	return out
}

// Only an address that its operator's names confirm in both directions is verified.
func TestVerifyByDNS(t *testing.T) {
	n := &names{
		names: map[string]string{
			"66.249.66.1":  "crawl-66-249-66-1.googlebot.com.",
			"192.0.2.1":    "crawl-66-249-66-1.googlebot.com.", // resolves to another address
			"192.0.2.2":    "googlebot.com.evil.example.",
			"192.0.2.3":    "evilgooglebot.com.",
			"192.0.2.4":    "gone.googlebot.com.", // does not resolve
			"157.55.39.8":  "msnbot-157-55-39-8.search.msn.com.",
			"66.249.66.99": "slow",
		},
		addrs: map[string]string{
			"crawl-66-249-66-1.googlebot.com.":   "66.249.66.1",
			"googlebot.com.evil.example.":        "192.0.2.2",
			"evilgooglebot.com.":                 "192.0.2.3",
			"msnbot-157-55-39-8.search.msn.com.": "157.55.39.8",
		},
	}
	var log strings.Builder
	for addr, agent := range map[string]string{
		"66.249.66.1": "Googlebot", "192.0.2.1": "Googlebot", "192.0.2.2": "Googlebot", "192.0.2.3": "Googlebot", "192.0.2.4": "Googlebot",
		"192.0.2.5": "Googlebot", "host.example": "Googlebot", "66.249.66.99": "Googlebot", "157.55.39.8": "bingbot", "203.0.113.1": "GPTBot", "203.0.113.2": "Mozilla/5.0",
	} {
		for range 3 {
			fmt.Fprintf(&log, "%s - - [05/Oct/2026:14:03:09 +0200] \"GET / HTTP/1.1\" 200 7 \"-\" \"%s\"\n", addr, agent)
		}
	}
	files := must.Get(accesslog.Open([]string{"-"}, strings.NewReader(log.String())))
	defer files.Close()
	if testing.Short() {
		n.names["66.249.66.99"] = "x.googlebot.com." // no lookup waits for a timeout
	}
	resolver := n.serve(t)
	r := must.Get(report.Build(t.Context(), files, report.Options{Resolver: resolver}))
	want := report.ByDNS{Verified: 3, False: 15, Unchecked: 6} // those of the host name, and of the slow one
	if testing.Short() {
		want = report.ByDNS{Verified: 3, False: 18, Unchecked: 3}
	}
	if got := crawler(t, r, "Googlebot", report.Claimed).ByDNS; got == nil || *got != want {
		t.Errorf("Googlebot: %+v, want %+v", got, want)
	}
	if got := crawler(t, r, "bingbot", report.Claimed).ByDNS; got == nil || *got != (report.ByDNS{Verified: 3}) {
		t.Errorf("bingbot: %+v", got)
	}
	if got := crawler(t, r, "GPTBot", report.Claimed).ByDNS; got != nil {
		t.Errorf("GPTBot, which has no domain: %+v", got)
	}
	var text strings.Builder
	if err := r.WriteText(&text, 0); err != nil || !strings.Contains(text.String(), "bingbot (verified)") || !strings.Contains(text.String(), "by DNS: 3 verified, 1") {
		t.Errorf("%v: %s", err, text.String())
	}

	// No query is sent if lookups were not requested.
	asked := n.asked.Load()
	build(t, log.String(), report.Options{})
	if n.asked.Load() != asked {
		t.Error("DNS was queried without being enabled")
	}
}
