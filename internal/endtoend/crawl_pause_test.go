package endtoend

import (
	"fmt"
	"math/rand/v2"
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

// Whatever a person sets while the site changes, and the crawler is killed: in the end, with nothing set, the crawler has the site as it is.
func TestSteeringStorm(t *testing.T) {
	const pages, rounds = 30, 25
	rnd := rand.New(rand.NewPCG(7, 7))
	edition := 0
	text := func(i int) string {
		edition++
		return fmt.Sprintf("<!doctype html><title>Page %d</title><p>Edition %d. <a href=/a/%d.html>on</a>", i, edition, (i+1)%pages)
	}
	files := map[string]string{"index.html": "<title>Home</title>"}
	name := func(i int) string { return fmt.Sprintf("%c/%d.html", 'a'+i%2, i) }
	for i := range pages {
		files[name(i)] = text(i)
	}
	site := sitetest.NewSite(t, files)
	site.Watch()
	c := &crawling{t: t, dir: filepath.Join(t.TempDir(), "crawl"), args: []string{"run", site.Base, "--coding", "none", "--max-rate", "0", "--hurry", "100ms"}}
	c.start()
	origin := strings.TrimSuffix(site.Base, "/")
	commands := [][]string{{"pause"}, {"pause", origin}, {"resume"}, {"resume", origin}, {"scope", "reject=/a/"}, {"scope", "reject=default"}, {"scope", "accept=/b/", "reject=none"},
		{"scope", "accept=default"}, {"scope", "domain=elsewhere.localhost"}, {"scope", "domain=default"}, {"rate", "budget=100000"}, {"rate", "budget=default"}, {"add", site.Base + "a/2.html"}}
	for range rounds {
		set := commands[rnd.IntN(len(commands))]
		if out, code := run(t, "crawler", append(set, "--into", c.dir)...); code == 2 {
			t.Fatalf("crawler %q: %s", set, out)
		}
		for range rnd.IntN(4) {
			i := rnd.IntN(pages)
			site.Write(name(i), text(i))
		}
		if rnd.IntN(6) == 0 {
			site.Remove(name(rnd.IntN(pages)))
		}
		if rnd.IntN(5) == 0 {
			if !c.kill() {
				t.Fatalf("the crawler has ended\n%s", c.p.said())
			}
			c.start()
		}
	}
	for _, set := range [][]string{{"resume"}, {"scope", "domain=default", "accept=default", "reject=default"}, {"rate", "budget=default"}} {
		if out, code := run(t, "crawler", append(set, "--into", c.dir)...); code != 0 {
			t.Fatalf("crawler %q: %s", set, out)
		}
	}
	site.Publish()
	c.until("the copy equals the site", func() map[string]string {
		m := map[string]string{}
		for u, body := range site.Pages() {
			m[u] = "held " + protocol.Sum([]byte(body)).String()
		}
		return m
	}, onlyHeld)
	if out, code := run(t, "crawler", "status", c.dir); code != 0 || strings.Contains(out, "paused") || strings.Contains(out, "set by") {
		t.Errorf("status in the end: %s", out)
	}
	c.stop()
}
