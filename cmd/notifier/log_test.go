package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/front"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

// natsURL starts a NATS server, and returns its URL.
func natsURL(t *testing.T) string {
	t.Helper()
	s := must.Get(natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoLog: true, NoSigs: true, JetStream: true, StoreDir: t.TempDir(), SyncAlways: true}))
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the NATS server does not start")
	}
	return s.ClientURL()
}

// run runs a notifier until the test ends.
func (g *guarded) run(args ...string) {
	g.Helper()
	ctx, stop := context.WithCancel(g.Context())
	ended := make(chan int, 1)
	var said bytes.Buffer
	go func() {
		ended <- command.Main(ctx, notifier, append([]string{"--base", g.base, "--pages", "--hurry", "50ms", "--log-level", "warn"}, args...), nil, io.Discard, &said)
	}()
	g.Cleanup(func() {
		stop()
		if code := <-ended; code != 0 || g.Failed() {
			g.Errorf("exit code %d after stop: %s", code, said.String())
		}
	})
}

// A door on another machine delivers the bytes that the web server shows to anybody, as the notifier of the site does, and no others: not
// of pages that it refuses, nor of any page while it refuses many at once.
func TestDoorElsewhereObeysTheWebServer(t *testing.T) {
	dir := t.TempDir()
	g := &guarded{T: t, root: filepath.Join(dir, "docroot"), state: filepath.Join(dir, "state")}
	for name, text := range guardedPages() {
		g.write(name, text)
	}
	listen, elsewhere := front.FreeAddress(), front.FreeAddress()
	g.base, g.doors = webServer(t, g.root, "in process", listen, &g.closed), "http://"+listen+"/"
	outside := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.Out.URL = p.In.URL }})
	t.Cleanup(outside.Close)
	nats := natsURL(t)
	g.run("--log", nats, "--listen", listen, "--docroot", g.root, "--state", g.state, "--no-self-check", "--ask-rate", "2000", "--ask-via", outside.URL, "--grace", "10ms", "--write-every", "10ms")
	door := &guarded{T: t, base: g.base, doors: "http://" + elsewhere + "/"}
	g.run("--log", nats, "--listen", elsewhere, "--door", "--state", filepath.Join(dir, "door"))
	for _, d := range []*guarded{g, door} {
		until(t, func() bool { code, _ := get(d.doors + "robots.rdf"); return code == http.StatusOK })
	}

	ask := `{"pages":[{"url":"` + strings.Join([]string{g.base + "staff/rota.html", g.base + "open/key.html", g.base + "open/a.html", g.base + "open/n7.html"}, `"},{"url":"`) + `"}]}`
	batch := func(d *guarded) string { return d.plainBatch("POST", "parley/batch", ask) }
	var seen sync.Map // whatever the door has delivered
	has := func(text string) bool {
		said := batch(door)
		seen.Store(said, true)
		return strings.Contains(said, text)
	}
	until(t, func() bool { return has("Anybody may read this.") && has("One of many.") })
	until(t, func() bool { return batch(door) == batch(g) })

	begin := g.cursor()
	g.write("open/a.html", "<p>Edited just now.")
	until(t, func() bool { return door.cursor() != begin })
	until(t, func() bool { // usually at once
		m, err := protocol.ParseMessage([]byte(door.door("parley/changes?as=page&after=" + begin)))
		return err == nil && len(m.Bodies) == 1 && string(m.Bodies[0].Bytes) == "<p>Edited just now."
	})
	begin = g.cursor()
	g.closed.Store(true)
	must.OK(t, server.Ask(t.Context(), g.state, "POST", "/recheck", new(any)))
	until(t, func() bool { return !has("Edited just now.") && !has("One of many.") })
	if g.cursor() != begin {
		t.Error("a person must decide, and yet something is told")
	}
	g.closed.Store(false)
	until(t, func() bool { return has("Edited just now.") && has("One of many.") })
	seen.Range(func(said, _ any) bool {
		if strings.Contains(said.(string), secret) {
			t.Error("a refused page was delivered")
		}
		return true
	})
}
