package seed_test

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/internal/must"
)

// TestTraps crawls endless sites, each of them by its links alone, and
// counts the names of the pages that it reaches.
func TestTraps(t *testing.T) {
	session := 0
	for _, c := range []struct {
		name  string
		start string
		links func(u *url.URL) []string
		most  int
		least int
	}{
		{"a new session id on every page", "/page.php?n=0", func(u *url.URL) (l []string) { // P18
			n, _ := strconv.Atoi(u.Query().Get("n"))
			for i := range 3 {
				session++
				l = append(l, fmt.Sprintf("/page.php?PHPSESSID=%032x&n=%d", session, (n*3+i)%20),
					fmt.Sprintf("/page.php;jsessionid=%032X?n=%d", session, (n*3+i)%20),
					fmt.Sprintf("/(S(%024d))/page.php?n=%d", session, (n*3+i)%20))
			}
			return l
		}, 20, 20},
		{"relative links that repeat themselves", "/a/", func(u *url.URL) []string { // P19
			return []string{"b/", "c/"}
		}, 251, 251}, // all paths of at most four of each
		{"a calendar", "/2026/1/", func(u *url.URL) (l []string) { // B11
			var year, month int
			fmt.Sscanf(u.Path, "/%d/%d/", &year, &month)
			if month == 0 {
				return nil
			}
			for day := range 28 {
				l = append(l, fmt.Sprintf("/%d/%d/%d.html", year, month, day+1))
			}
			n := year*12 + month
			return append(l, fmt.Sprintf("/%d/%d/", n/12, n%12+1), "/2026/1/")
		}, 16*29 + 16*29*3/2 + 200, 15 * 29},
		{"a calendar that is a program", "/cal?m=0", func(u *url.URL) (l []string) {
			n, _ := strconv.Atoi(u.Query().Get("m"))
			for day := range 28 {
				l = append(l, fmt.Sprintf("/cal?m=%d&d=%d", n, day))
			}
			return append(l, fmt.Sprintf("/cal?m=%d", n+1))
		}, 6*29 + 6*29*3/2 + 200, 5 * 29},
		{"ever longer links", "/x", func(u *url.URL) []string {
			return []string{u.Path + "x", u.Path + "/y", "/x"}
		}, 2 * 25_000, 10_000}, // MaxPerSite is the limit
	} {
		const site = "https://a.example"
		s := &seed.Seeder{}
		s.SetRobots(site, seed.RobotsAnswer{Status: 404}, noon)
		type page struct {
			url   string
			depth int
		}
		known := map[string]bool{site + c.start: true}
		queue := []page{{site + c.start, 0}}
		for len(queue) > 0 {
			p := queue[0]
			queue = queue[1:]
			u := must.Get(url.Parse(p.url))
			for _, l := range c.links(u) {
				v := s.Admit(seed.Ref{URL: l, From: p.url, Depth: p.depth + 1})
				if !v.OK || known[v.URL] {
					continue
				}
				if strings.Contains(strings.ToLower(v.URL), "sess") || strings.Contains(v.URL, "(S(") {
					t.Fatalf("%s: a session id remains in a URL: %s", c.name, v.URL)
				}
				known[v.URL] = true
				queue = append(queue, page{v.URL, p.depth + 1})
				s.Count(site, seed.Tally{Depth: p.depth + 1, New: 1, Dynamic: v.Dynamic})
			}
		}
		t.Logf("%s: %d pages", c.name, len(known))
		if n := len(known); n > c.most || n < c.least {
			t.Errorf("%s: %d pages, want %d to %d", c.name, n, c.least, c.most)
		}
	}
}
