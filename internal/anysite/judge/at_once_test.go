package judge

import (
	"fmt"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/anysite/record"
)

// With --at-once 3 a host of one's own gets three pages in a row, and any other site two if its rate is two a second; then there is a pause,
// and there is one after a refusal, after a slow response, and between all pages of a site with a Crawl-delay.
func TestPagesAtOnceAreBounded(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name, host, robots string
		status             int             // of the second page
		took               time.Duration   // of the second page
		rate               float64         // that the site states
		gaps               []time.Duration // between the end of a page and the next page
		want               int             // findings
	}{
		{"three", "127.0.0.1", "", 200, ms, 0, []time.Duration{ms, ms, 2 * secs, ms, ms}, 0},
		{"four", "127.0.0.1", "", 200, ms, 0, []time.Duration{ms, ms, ms}, 1},
		{"somebody else's", "site.test", "", 200, ms, 0, []time.Duration{ms}, 1},
		{"refused", "127.0.0.1", "", 429, ms, 0, []time.Duration{ms, ms}, 1},
		{"slow", "127.0.0.1", "", 200, 300 * ms, 0, []time.Duration{ms, ms}, 1},
		{"Crawl-delay", "127.0.0.1", "User-agent: *\nCrawl-delay: 1\n", 200, ms, 0, []time.Duration{2 * secs, ms}, 1},
		{"stated rate", "site.test", "", 200, ms, 2, []time.Duration{ms, secs, ms}, 0},
		{"more than the stated rate", "site.test", "", 200, ms, 2, []time.Duration{ms, ms}, 1},
		{"too soon after two", "site.test", "", 200, ms, 2, []time.Duration{ms, 800 * ms}, 1},
	} {
		origin, at := "http://"+c.host+":8080", dawn
		r := &record.Recording{Bodies: map[string][]byte{"robots": []byte(c.robots), "welcome": fmt.Appendf(nil, `{"welcome": {"rate": %g}}`, c.rate)},
			Settings: []record.Program{{Name: "crawler-1", Kind: "crawl", Sites: []string{origin + "/"}, Started: dawn,
				Options: map[string]string{"wait": "2s", "wait-big": "2s", "at-once": "3", "max-rate": "10"}}}}
		ask := func(path, door, sum string, status int, took time.Duration) {
			r.Requests = append(r.Requests, record.Request{From: "crawler-1", Method: "GET", Host: c.host + ":8080", Address: "127.0.0.1:8080", URL: origin + path,
				Door: door, Sum: sum, Status: status, Began: at, Ended: at.Add(took), Conn: 1})
			at = at.Add(took)
		}
		ask("/robots.txt", "robots", "robots", 200, ms)
		at = at.Add(2 * secs)
		ask("/.well-known/parley", "well-known", "welcome", 200, ms)
		at = at.Add(2 * secs)
		for i, gap := range append([]time.Duration{0}, c.gaps...) {
			at = at.Add(gap)
			if i == 1 {
				ask("/1.html", "", "", c.status, c.took)
			} else {
				ask(fmt.Sprintf("/%d.html", i), "", "", 200, ms)
			}
		}
		if found := manners(r, newWorld(r)); len(found) != c.want {
			t.Errorf("%s: %v", c.name, found)
		}
	}
}
