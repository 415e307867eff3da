package report_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/report"
)

// The first sentence names the step that saves most, and its figures are those of the log.
func TestFirstStep(t *testing.T) {
	var log strings.Builder
	n := 0
	request := func(agent, url string, status, size int) {
		n++
		fmt.Fprintf(&log, "192.0.2.1 - - [%02d/Oct/2026:14:03:09 +0200] \"GET %s HTTP/1.1\" %d %d \"-\" \"%s\"\n", 5+n/100, url, status, size, agent)
	}
	for _, c := range []struct {
		step, says string
		saves      report.Traffic
		requests   func()
	}{
		{"none", "this log has 99 requests by crawlers", report.Traffic{}, func() {
			for range 99 {
				request("GPTBot", "/", 200, 100)
			}
		}},
		{"none", "no single step would save 100 requests", report.Traffic{}, func() {
			for i := range 400 {
				request("GPTBot", fmt.Sprintf("/%d", i), 200, i)
			}
		}},
		{"validators", "such as for /a,", report.Traffic{Bytes: 399 * 5000}, func() {
			for range 400 {
				request("GPTBot", "/a", 200, 5000)
			}
		}},
		// Where the server does answer 304, validators are in place. Bing reads lastmod; a request a day for the sitemap is subtracted.
		{"sitemap", "Google and Bing", report.Traffic{Requests: 1000 - 11, Bytes: 500 * 5000}, func() {
			for i := range 1001 {
				request("bingbot", "/a", 200+i%2*104, (i+1)%2*5000)
			}
		}},
		{"errors", "(5xx)", report.Traffic{Requests: 200}, func() {
			for i := range 400 {
				request("GPTBot", fmt.Sprintf("/%d", i), 200+i%2*303, 100+i)
			}
		}},
		{"gone", "410", report.Traffic{Requests: 390, Bytes: 390 * 50}, func() {
			for i := range 400 {
				request("GPTBot", fmt.Sprintf("/%d", i%10), 404, 50)
			}
		}},
		// It came on five days; Googlebot reads robots.txt, so that requests for it are in the log.
		{"block", "GPTBot in the web server, since it came on 5 days", report.Traffic{Requests: 399, Bytes: 399 * 400 / 2}, func() {
			request("Googlebot", "/robots.txt", 200, 9)
			for i := range 399 {
				request("GPTBot", fmt.Sprintf("/%d", i), 200, i+1)
			}
		}},
		{"none", "no single step", report.Traffic{}, func() { // with no robots.txt in the log
			for i := range 399 {
				request("GPTBot", fmt.Sprintf("/%d", i), 200, i+1)
			}
		}},
		{"block", "the false Googlebot", report.Traffic{Requests: 399, Bytes: 399 * 400 / 2}, func() {
			request("GPTBot", "/robots.txt", 200, 9)
			for i := range 399 {
				request("Googlebot", fmt.Sprintf("/%d", i), 200, i+1)
			}
		}},
	} {
		log.Reset()
		n = 0
		c.requests()
		r := build(t, log.String(), report.Options{Ranges: map[string][]netip.Prefix{"googlebot": {netip.MustParsePrefix("198.51.100.0/24")}}})
		if r.First.Step != c.step || r.First.Saves != c.saves || !strings.Contains(r.First.Text, c.says) {
			t.Errorf("%+v, want %s, %+v, %q", r.First, c.step, c.saves, c.says)
		}
	}
	if r := build(t, "a - - [05/Oct/2026:14:03:09 +0200] \"GET / HTTP/1.0\" 200 7\n", report.Options{}); !strings.Contains(r.First.Text, "log the combined format") {
		t.Errorf("without user agents: %+v", r.First)
	}
}
