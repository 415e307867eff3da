package endtoend

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/sitetest"
	"github.com/parleyweb/parley/protocol"
)

// A pause survives kill -9, and so do the changes of the paused site: after the restart it gets no request, and once it is resumed its
// changes are fetched, though it announces nothing more. A site that is not paused is the clock.
func TestPauseSurvivesKill(t *testing.T) {
	site := sitetest.NewSite(t, map[string]string{"index.html": "<title>Home</title>home", "a.html": "first"})
	clock := sitetest.NewSite(t, map[string]string{"index.html": "<title>Clock</title>0"})
	c := &crawling{t: t, dir: filepath.Join(t.TempDir(), "crawl"), args: []string{"run", site.Base, clock.Base, "--coding", "none"}}
	held := func(page, text string) {
		t.Helper()
		c.until(page+" is stored", func() map[string]string {
			return map[string]string{page: "held " + protocol.Sum([]byte(text)).String()}
		},
			func(all map[string]string) map[string]string { return map[string]string{page: all[page]} })
	}
	tick := func(text string) {
		t.Helper()
		clock.Write("index.html", text)
		clock.Publish()
		held(clock.Base, text)
	}
	says := func(args ...string) string {
		t.Helper()
		out, code := run(t, "crawler", args...)
		if code != 0 {
			t.Fatalf("crawler %q: exit code %d: %s", args, code, out)
		}
		return out
	}
	c.start()
	held(site.Base+"a.html", "first")
	tick("1")
	for _, set := range [][]string{{"pause", site.Base}, {"rate", "budget=4321"}, {"scope", "reject=/none/"}} {
		says(append(set, "--into", c.dir)...)
	}
	c.kill()
	site.ForgetRequests()
	site.Write("a.html", "second")
	site.Publish()
	c.start()
	tick("2")
	for end := time.Now().Add(20 * time.Second); !strings.Contains(says("status", c.dir), "running since"); {
		if time.Now().After(end) {
			t.Fatalf("the crawler does not answer\n%s", c.p.said())
		}
	}
	if out := says("status", c.dir); !strings.Contains(out, " is paused") || !strings.Contains(out, "budget=4321") || !strings.Contains(out, "reject=/none/") {
		t.Errorf("status after kill -9: %s", out)
	}
	if n := site.Hits("", "Parley"); n > 0 {
		t.Errorf("the paused site got %d requests: %v", n, site.Requests())
	}
	says("resume", "--into", c.dir)
	held(site.Base+"a.html", "second")
	c.stop()
}
