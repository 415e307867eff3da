package report_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/report"
)

// A world is a log together with the truth that logs lack: which fetches found no change.
type world struct {
	log       string
	unchanged map[string]int64 // fetches of unchanged pages, by crawler
}

// simulate lets people and crawlers fetch from a site whose pages change. Some cache pages and send
// conditional requests; the server honors their validators, or loses them with every build. Edits keep the
// size now and then.
func simulate(t *testing.T, seed uint64, rebuilt bool) world {
	t.Helper()
	type page struct {
		version int
		size    int64
	}
	type client struct {
		name, agent, addr string
		validates         bool
		holds             map[int][2]int // version and build, by page
	}
	r := rand.New(rand.NewPCG(seed, 11))
	pages := make([]page, 60)
	for i := range pages {
		pages[i].size = 1000 + int64(r.IntN(50))
	}
	var clients []*client
	for i, name := range []string{"Googlebot", "bingbot", "GPTBot", "CCBot"} {
		clients = append(clients, &client{name: name, agent: "Mozilla/5.0 (compatible; " + name + "/2.0)", validates: i%2 == 0})
	}
	for i := range 12 {
		clients = append(clients, &client{agent: "Mozilla/5.0 (X11) Firefox/130.0", addr: fmt.Sprintf("192.0.2.%d", i), validates: true})
	}
	for _, c := range clients {
		c.holds = map[int][2]int{}
	}
	w := world{unchanged: map[string]int64{}}
	var log strings.Builder
	at, build := time.Date(2026, 10, 5, 0, 0, 0, 0, time.UTC), 0
	for range 6000 {
		at = at.Add(time.Duration(r.IntN(4)) * time.Second) // many within a second
		if r.IntN(50) == 0 {
			p := &pages[r.IntN(len(pages))]
			p.version++
			if r.IntN(3) > 0 {
				p.size = 1000 + int64(r.IntN(50))
			}
		}
		if rebuilt && r.IntN(400) == 0 {
			build++
		}
		c := clients[r.IntN(len(clients))]
		n := int(float64(len(pages)) * r.Float64() * r.Float64())
		p := pages[n]
		addr := c.addr
		if c.name != "" {
			addr = fmt.Sprintf("198.51.100.%d", r.IntN(200)) // many machines, one crawler
		}
		held, has := c.holds[n]
		status, size := 200, p.size
		if has && c.validates && held == [2]int{p.version, build} && r.IntN(8) > 0 { // some omit the condition
			status, size = 304, 0
		} else if has && c.name != "" && held[0] == p.version {
			w.unchanged[c.name]++
		}
		c.holds[n] = [2]int{p.version, build}
		fmt.Fprintf(&log, "%s - - [%s] \"GET /%d.html HTTP/1.1\" %d %d \"-\" \"%s\"\n", addr, at.Format("02/Jan/2006:15:04:05 -0700"), n, status, size, c.agent)
	}
	w.log = log.String()
	return w
}

// The report's lower and upper bounds on unchanged pages hold against the truth.
func TestUnchangedBoundsHold(t *testing.T) {
	shown := int64(0)
	for seed := range uint64(20) {
		w := simulate(t, seed, seed%2 == 1)
		r := build(t, w.log, report.Options{})
		check(t, r)
		for _, c := range r.Crawlers {
			truth := w.unchanged[c.Name]
			if c.Unchanged.Requests > truth || truth > c.Same.Requests {
				t.Errorf("seed %d, %s: at least %d, at most %d, and in truth %d", seed, c.Name, c.Unchanged.Requests, c.Same.Requests, truth)
			}
			if c.Contrary > 0 {
				t.Errorf("seed %d, %s: %d of another size are said to be unchanged", seed, c.Name, c.Contrary)
			}
			shown += c.Unchanged.Requests
		}
	}
	if shown < 1000 {
		t.Errorf("only %d re-reads were proved unchanged: too few for a useful bound", shown)
	}
	t.Logf("%d re-reads shown to be unchanged", shown)
}
