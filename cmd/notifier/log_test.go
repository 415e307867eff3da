package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/front"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/nats/jetlog"
	"github.com/parleyweb/parley/internal/nats/natstest"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

// run runs a notifier until stop is called, or the test ends.
func (g *guarded) run(args ...string) (stop func()) {
	g.Helper()
	ctx, cancel := context.WithCancel(g.Context())
	ended := make(chan int, 1)
	var said bytes.Buffer
	go func() {
		ended <- command.Main(ctx, notifier, append([]string{"--base", g.base, "--pages", "--hurry", "50ms", "--log-level", "warn"}, args...), nil, io.Discard, &said)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if code := <-ended; code != 0 || g.Failed() {
			g.Errorf("exit code %d after stop: %s", code, said.String())
		}
	})
	g.Cleanup(stop)
	return stop
}

// With servers that may lose what they have acknowledged a notifier does not start, and says what to set.
func TestServersThatSyncLater(t *testing.T) {
	docroot, said := t.TempDir(), new(bytes.Buffer)
	code := command.Main(t.Context(), notifier, []string{"--base", "https://www.example.org/", "--docroot", docroot, "--state", filepath.Join(t.TempDir(), "state"), "--listen", "127.0.0.1:0",
		"--log", "nats://" + natstest.User + natstest.Syncing(t, "2m").Addr().String()}, nil, io.Discard, said)
	if code != 1 || !strings.Contains(said.String(), "set sync_interval: always in the jetstream block") {
		t.Errorf("exit code %d: %s", code, said)
	}
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
	broker := natstest.Start(t, 1)[0]
	nats := broker.ClientURL()
	g.run("--log", nats, "--listen", listen, "--docroot", g.root, "--state", g.state, "--no-self-check", "--ask-rate", "2000", "--ask-via", outside.URL, "--grace", "10ms", "--write-every", "10ms", "--archive")
	door := &guarded{T: t, base: g.base, doors: "http://" + elsewhere + "/"}
	g.run("--log", nats, "--listen", elsewhere, "--door", "--state", filepath.Join(dir, "door"), "--archive")
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
	archived := func(text string) bool { // an archive may be gone at the next request, since another one is due
		code, said := get(door.doors + "parley/site.wacz")
		if code != http.StatusOK {
			return false
		}
		said = unzipped(t, said)
		seen.Store(said, true)
		return strings.Contains(said, text)
	}
	until(t, func() bool { return archived("Anybody may read this.") })

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
	until(t, func() bool { return !has("Edited just now.") && !has("One of many.") && !archived("") })
	if g.cursor() != begin {
		t.Error("a person must decide, and yet something is told")
	}
	g.closed.Store(false)
	until(t, func() bool { return has("Edited just now.") && has("One of many.") && archived("Edited just now.") })

	deleted := func() int {
		for _, s := range must.Get(broker.Jsz(&natsserver.JSzOptions{Streams: true})).AccountDetails[0].Streams {
			if s.Name == streamName(g.base) {
				return s.State.NumDeleted
			}
		}
		return -1
	}
	if n := deleted(); n != 0 {
		t.Errorf("%d messages are deleted, and nothing is withdrawn", n)
	}
	g.write("robots.txt", "User-agent: *\nDisallow: /open/a.html\n")
	must.OK(t, server.Ask(t.Context(), g.state, "POST", "/look", new(any)))
	if said := batch(door); strings.Contains(said, "Edited just now.") || !strings.Contains(said, "One of many.") {
		t.Errorf("the scan that found a new rule is over, and the door delivers\n%s", said)
	}
	if archived("Edited just now.") {
		t.Error("the scan that found a new rule is over, and the door has an archive with the page")
	}
	if n := deleted(); n != 1 {
		t.Errorf("of the page's changes %d are deleted, want the one before its deletion", n)
	}
	seen.Range(func(said, _ any) bool {
		if strings.Contains(said.(string), secret) {
			t.Error("a refused page was delivered")
		}
		return true
	})
}

// A notifier whose log another one has gone on with stands by in the same process. When it writes again, it goes on after what the other
// one has told, and tells what it had found before.
func TestWriterThatWasReplacedWritesAgain(t *testing.T) {
	dir := t.TempDir()
	g := &guarded{T: t, root: filepath.Join(dir, "docroot"), base: "https://www.example.org/", state: filepath.Join(dir, "state")}
	g.write("page.html", "<p>Welcome.")
	nats, listen := natstest.Start(t, 1).URLs(), front.FreeAddress()
	g.doors = "http://" + listen + "/"
	g.run("--log", nats, "--listen", listen, "--docroot", g.root, "--state", g.state, "--no-self-check", "--ask-rate", "0", "--trust-docroot", "--write-every", "10ms")
	until(t, func() bool {
		code, text := get(g.doors + "robots.rdf")
		return code == http.StatusOK && strings.Contains(text, "page.html")
	})
	begin := g.cursor()

	nc := must.Get(jetlog.Connect(nats, ""))
	defer nc.Close()
	stream := must.Get(jetlog.Open(t.Context(), nc, jetlog.Options{Name: streamName(g.base)}))
	other := filepath.Join(dir, "other")
	j := must.Get(server.OpenJournal(t.Context(), other, server.JournalOptions{Base: g.base}))
	defer j.Close()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	copied, end := context.WithCancel(ctx)
	log := newReplica("standby", g.base, other, j, stream, slog.New(slog.DiscardHandler)).log
	running.Go(func() { log.Follow(copied) })
	until(t, func() bool { return log.Head().String() == begin })
	end()
	running.Wait()
	at := must.Get(j.Append(ctx, []journal.Step{{Op: protocol.Create, Entry: journal.Entry{Item: protocol.Item{URL: g.base + "other.html", Length: -1}}}}))
	log = &jetlog.Log{Stream: stream, Journal: j}
	running.Go(func() { log.Tell(ctx, false) })
	must.OK(t, log.Told(ctx, at))

	g.write("page.html", "<p>Welcome back.")
	until(t, func() bool {
		_, said := get(g.doors + "parley/changes?after=" + begin)
		m, err := protocol.ParseMessage([]byte(said))
		return err == nil && len(m.Changes) > 1 && m.Changes[0].Item.URL == g.base+"other.html" && m.Changes[1].Item.Digest == protocol.Sum([]byte("<p>Welcome back."))
	})
	var health logHealth
	must.OK(t, server.Ask(t.Context(), g.state, "GET", "/log", &health))
	if health.Role != "writer" || health.Here != health.Told {
		t.Errorf("%+v", health)
	}
}

// Status asked of a notifier that writes, and of a door, says how far the log is, and whether bytes of pages are delivered; when NATS is
// away, a person is needed. A door scans nothing.
func TestStatusOfADoorElsewhere(t *testing.T) {
	dir := t.TempDir()
	g := &guarded{T: t, root: filepath.Join(dir, "docroot"), base: "https://www.example.org/"}
	g.write("index.html", "<p>Welcome.")
	nats := natstest.Start(t, 1)
	here, door := filepath.Join(dir, "state"), filepath.Join(dir, "door")
	listen := front.FreeAddress()
	g.run("--log", nats.URLs(), "--listen", front.FreeAddress(), "--docroot", g.root, "--state", here, "--no-self-check", "--ask-rate", "0", "--trust-docroot")
	g.run("--log", nats.URLs(), "--listen", listen, "--door", "--state", door)
	status := func(state string, args ...string) (code int, said, wrong string) {
		var out, errs bytes.Buffer
		code = command.Main(t.Context(), notifier, append([]string{"status", "--base", g.base, "--state", state}, args...), nil, &out, &errs)
		return code, out.String(), errs.String()
	}
	until(t, func() bool { code, _ := get("http://" + listen + "/robots.rdf"); return code == http.StatusOK })
	var head server.Status
	must.OK(t, server.Ask(t.Context(), here, "GET", "/status", &head))
	var code int
	var said, wrong string
	until(t, func() bool {
		code, said, wrong = status(door)
		return code == 0 && strings.Contains(said, "contents   all at "+head.Head.String())
	})
	for _, line := range []string{"pages      1,", "journal    at " + head.Head.String(), "door of parley-www-example-org-", ": has all that was told", "manifest   at " + head.Head.String(), "delivers   manifest and changes, stream, pages"} {
		if !strings.Contains(said, line) {
			t.Errorf("no %q in\n%s", line, said)
		}
	}
	if code, said, wrong = status(here); code != 0 || !strings.Contains(said, "writer of parley-www-example-org-") {
		t.Errorf("%d\n%s%s", code, said, wrong)
	}
	if err := server.Ask(t.Context(), door, "POST", "/look", new(any)); err == nil || !strings.Contains(err.Error(), "ask the notifier that writes its log") {
		t.Errorf("a door has scanned: %v", err)
	}

	nats.Stop()
	until(t, func() bool {
		code, said, wrong = status(door)
		return code == 1 && strings.Contains(said, "contents   none are delivered: ")
	})
	if !strings.Contains(said, "NATS does not answer: ") || !strings.Contains(wrong, "stream parley-www-example-org-") || !strings.Contains(said, "journal    at "+head.Head.String()) {
		t.Errorf("%s%s", said, wrong)
	}
	_, said, _ = status(door, "--json")
	var says struct{ Log logHealth }
	must.OK(t, json.Unmarshal([]byte(said), &says))
	if says.Log.Role != "door" || says.Log.Here != head.Head || says.Log.Away == "" || says.Log.NoContents == "" {
		t.Errorf("%+v", says.Log)
	}
}

// A door on another machine delivers differences, to readers of changes and for requests of the pages themselves, until the page is withdrawn.
func TestDifferencesOfADoorElsewhere(t *testing.T) {
	dir := t.TempDir()
	listen, elsewhere := front.FreeAddress(), front.FreeAddress()
	g := &guarded{T: t, root: filepath.Join(dir, "docroot"), base: "http://" + elsewhere + "/", doors: "http://" + listen + "/"}
	door := &guarded{T: t, base: g.base, doors: g.base}
	first, second := text("first"), text("second")
	g.write("page.html", first)
	g.write("other.html", text("other"))
	nats := natstest.Start(t, 1).URLs()
	write := func(state string) (stop func()) {
		g.state = filepath.Join(dir, state)
		return g.run("--log", nats, "--listen", listen, "--docroot", g.root, "--state", g.state, "--no-self-check", "--ask-rate", "0", "--trust-docroot", "--write-every", "10ms", "--versions", "1000000")
	}
	stop := write("state")
	door.run("--log", nats, "--listen", elsewhere, "--door", "--state", filepath.Join(dir, "door"), "--versions", "1000000", "--serve-pages")
	for _, d := range []*guarded{g, door} {
		until(t, func() bool { code, _ := get(d.doors + "robots.rdf"); return code == http.StatusOK })
	}
	begin := g.cursor()
	page := func(header ...string) (*http.Response, string) {
		return must.Fetch(t, "GET", door.doors+"page.html", "", append(header, "Accept-Encoding", "identity, dcz")...)
	}
	until(t, func() bool { resp, said := page(); return resp.StatusCode == http.StatusOK && said == first })

	g.write("page.html", second)
	until(t, func() bool { return door.cursor() != begin })
	sum := protocol.Sum([]byte(first))
	check := func(delta []byte) {
		t.Helper()
		if len(delta) > 500 || string(must.Get(coding.ApplyDelta([]byte(first), delta, 1<<20))) != second {
			t.Errorf("a difference of %d bytes does not lead to the page", len(delta))
		}
	}
	differs := func(d *guarded) { // the bytes of two doors may differ
		t.Helper()
		until(t, func() bool { // usually at once
			_, said := get(d.doors + "parley/changes?as=delta&after=" + begin) // 503 while a writer that has just begun scans the site
			m, err := protocol.ParseMessage([]byte(said))
			if err != nil || len(m.Bodies) != 1 || m.Bodies[0].Coding != protocol.CodingDelta || m.Bodies[0].Base != sum {
				return false
			}
			check(m.Bodies[0].Bytes)
			return true
		})
	}
	differs(g)
	differs(door)
	resp, said := page("Available-Dictionary", ":"+base64.StdEncoding.EncodeToString(sum[:])+":")
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Encoding") != "dcz" {
		t.Fatalf("%s of %d bytes, %v", resp.Status, len(said), resp.Header)
	}
	check([]byte(said))
	if resp, said := page("Available-Dictionary", ":"+base64.StdEncoding.EncodeToString(make([]byte, 32))+":"); resp.StatusCode != http.StatusOK || said != second {
		t.Errorf("to a client that has something else: %s of %d bytes", resp.Status, len(said))
	}

	stop() // the next writer has none of the earlier versions on its disk
	write("another state")
	until(t, func() bool {
		var health logHealth
		return server.Ask(t.Context(), g.state, "GET", "/log", &health) == nil && health.Role == "writer"
	})
	differs(g)
	g.write("robots.txt", "User-agent: *\nDisallow: /page.html\n")
	must.OK(t, server.Ask(t.Context(), g.state, "POST", "/look", new(any)))
	if resp, said := page(); resp.StatusCode == http.StatusOK {
		t.Errorf("the scan that found the rule is over, and the door delivers %d bytes", len(said))
	}
	if m := must.Get(protocol.ParseMessage([]byte(door.door("parley/changes?as=delta&after=" + begin)))); len(m.Bodies) > 0 {
		t.Errorf("%+v", m)
	}
	if code, said := get(door.doors + "other.html"); code != http.StatusOK || said != text("other") {
		t.Errorf("another page: %d, %d bytes", code, len(said))
	}
}
