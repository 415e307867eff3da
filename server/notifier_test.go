package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/doors"
)

// A site is a world with doors.
type site struct {
	*world
	notifier *doors.Notifier
	web      *httptest.Server
}

// newSite opens the doors of a world with pages a.html and b.html after its first scan. It checks at the end
// of the test that all its goroutines have ended.
func newSite(t *testing.T, change ...func(*doors.Notifier)) *site {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		until(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
	})
	w := newWorld(t)
	w.write("a.html", "a")
	w.write("b.html", "b")
	w.turn()
	return w.serve(change...)
}

func (w *world) serve(change ...func(*doors.Notifier)) *site {
	log, arrive := abroad(w.T, w.journal)
	w.arrive = arrive
	w.arrive()
	s := &site{world: w, notifier: &doors.Notifier{Log: log, Snapshot: w.pub.Snapshot, Base: base, Public: w.Public, Logger: testLog(w.T), Now: w.clock}}
	for _, f := range change {
		f(s.notifier)
	}
	s.web = httptest.NewServer(s.notifier)
	w.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		if err := s.notifier.Close(ctx); err != nil {
			w.Error(err)
		}
		s.web.Close()
	})
	return s
}

// until waits for a condition, at most a minute.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("timed out waiting until %s\n%s", what, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

func (s *site) get(path string, header ...string) (*http.Response, string) {
	s.Helper()
	return must.Fetch(s, "GET", s.web.URL+path, "", header...)
}

// changes fetches the changes after a cursor.
func (s *site) changes(after protocol.Cursor, more string) protocol.Message {
	s.Helper()
	resp, body := s.get("/parley/changes?after=" + after.String() + more)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/json" || !strings.HasSuffix(body, "}\n") {
		s.Fatalf("status %d, %v: %s", resp.StatusCode, resp.Header, body)
	}
	m := must.Get(protocol.ParseMessage([]byte(body)))
	if m.Kind != protocol.Batch || m.From != after || m.Head.IsZero() {
		s.Errorf("%s", body)
	}
	return m
}

func tellAll(changes []protocol.Change) string {
	var s []string
	for _, c := range changes {
		s = append(s, tell(c))
	}
	return strings.Join(s, ", ")
}

func (s *site) cursor(seq uint64) protocol.Cursor {
	return protocol.Cursor{Epoch: s.journal.Head().Epoch, Seq: seq}
}

func TestChanges(t *testing.T) {
	s := newSite(t)
	if m := s.changes(s.cursor(0), ""); len(m.Changes) != 0 || m.To != s.cursor(0) {
		t.Errorf("%+v", m)
	}
	for i := range 5 {
		s.write("a.html", fmt.Sprint(i))
		s.look()
	}
	m := s.changes(s.cursor(2), "")
	if len(m.Changes) != 3 || m.To != s.cursor(5) || m.Head != s.cursor(5) || m.Changes[0].Seq != 3 {
		t.Errorf("%+v", m)
	}
	m = s.changes(s.cursor(1), "&limit=2")
	if len(m.Changes) != 2 || m.To != s.cursor(3) || m.Head != s.cursor(5) {
		t.Errorf("%+v", m)
	}
	c := m.Changes[1]
	e := must.Get(s.journal.Read(t.Context(), s.cursor(2), 1))
	if !c.Item.Equal(e[0].Item) || c.Prev != e[0].Prev || !c.At.Equal(e[0].At) {
		t.Errorf("told %+v, is %+v", c, e[0])
	}
}

func TestRefusals(t *testing.T) {
	s := newSite(t)
	for i := range 3 {
		s.write("a.html", fmt.Sprint(i))
		s.look()
	}
	ws := []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13",
		"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol", "parley.v1.json"}
	with := func(more ...string) []string { return append(ws[:len(ws):len(ws)], more...) }
	head := s.cursor(3)
	for _, c := range []struct {
		path   string
		header []string
		status int
		typ    string
		param  string
	}{
		{"/", nil, 404, "about:blank", ""},
		{"/parley", nil, 404, "about:blank", ""},
		{"/robots.rdf/x", nil, 404, "about:blank", ""},
		{"/parley/changes?after=x", nil, 400, "urn:parley:problem:parameter", "after"},
		{"/parley/changes?after=" + head.String() + "&want=delta", nil, 400, "urn:parley:problem:parameter", "want"},
		{"/parley/changes?after=" + head.String() + "&after=" + head.String(), nil, 400, "urn:parley:problem:parameter", "after"},
		{"/parley/changes?wait=61", nil, 400, "urn:parley:problem:parameter", "wait"},
		{"/parley/changes?wait=-1", nil, 400, "urn:parley:problem:parameter", "wait"},
		{"/parley/changes?limit=0", nil, 400, "urn:parley:problem:parameter", "limit"},
		{"/parley/changes?limit=1001", nil, 400, "urn:parley:problem:parameter", "limit"},
		{"/parley/changes?limit=x", nil, 400, "urn:parley:problem:parameter", "limit"},
		{"/parley/changes?%zz", nil, 400, "urn:parley:problem:parameter", ""},
		{"/parley/changes", nil, 410, "urn:parley:problem:too-old", ""},
		{"/parley/changes?after=0:0", nil, 410, "urn:parley:problem:too-old", ""},
		{"/parley/changes?after=other:1", nil, 409, "urn:parley:problem:epoch", ""},
		{"/parley/changes?after=" + s.cursor(4).String(), nil, 409, "urn:parley:problem:epoch", ""},
		{"/parley/changes?wait=1&after=" + s.cursor(4).String(), nil, 409, "urn:parley:problem:epoch", ""},
		{"/parley/stream?after=" + head.String(), nil, 426, "about:blank", ""},
		{"/parley/stream?after=" + head.String(), with("Sec-WebSocket-Protocol", "other"), 400, "urn:parley:problem:parameter", "Sec-WebSocket-Protocol"},
		{"/parley/stream?after=" + head.String(), with("Origin", "http://evil.example"), 403, "about:blank", ""},
		{"/parley/stream?after=" + head.String(), with("Origin", "null"), 403, "about:blank", ""},
		{"/parley/stream?after=x", ws, 400, "urn:parley:problem:parameter", "after"},
		{"/parley/stream?wait=1", ws, 400, "urn:parley:problem:parameter", "wait"},
		{"/parley/stream", ws, 410, "urn:parley:problem:too-old", ""},
		{"/parley/stream?after=other:1", ws, 409, "urn:parley:problem:epoch", ""},
		{"/parley/stream?after=" + s.cursor(4).String(), ws, 409, "urn:parley:problem:epoch", ""},
	} {
		resp, body := s.get(c.path, c.header...)
		var p struct {
			Type, Title, Detail, Parameter, Manifest string
			Status                                   int
			Head, Floor                              protocol.Cursor
		}
		if err := json.Unmarshal([]byte(body), &p); err != nil {
			t.Errorf("%s: %v: %s", c.path, err, body)
			continue
		}
		if resp.StatusCode != c.status || p.Status != c.status || p.Type != c.typ || p.Parameter != c.param || p.Title == "" ||
			resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: status %d, want %d: %v %s", c.path, resp.StatusCode, c.status, resp.Header, body)
		}
		if c.status == 409 || c.status == 410 {
			if p.Head != head || p.Floor != s.cursor(0) || p.Manifest != base+"robots.rdf" {
				t.Errorf("%s: the problem does not name where to resynchronise: %s", c.path, body)
			}
		}
	}
	r := must.Get(http.NewRequest("PUT", s.web.URL+"/parley/changes", strings.NewReader("x")))
	resp := must.Get(http.DefaultClient.Do(r))
	resp.Body.Close()
	if resp.StatusCode != 405 || resp.Header.Get("Allow") != "GET, HEAD, QUERY, POST" {
		t.Errorf("PUT: status %d, %v", resp.StatusCode, resp.Header)
	}
	if n := s.notifier.Stats().Refused[410]; n != 3 {
		t.Errorf("%d refusals with 410 counted", n)
	}
}

// Before the first scan is complete there is nothing to follow.
func TestDoorsWhileScanning(t *testing.T) {
	s := newWorld(t).serve()
	for _, path := range []string{"/robots.rdf", "/parley/changes?after=0:0", "/.well-known/parley"} {
		resp, body := s.get(path)
		if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: status %d %v %s", path, resp.StatusCode, resp.Header, body)
		}
	}
	if _, err := s.dial(protocol.Cursor{}); statusOf(err) != 503 {
		t.Errorf("stream: %v", err)
	}
}

func TestDiscovery(t *testing.T) {
	s := newSite(t)
	resp, body := s.get("/.well-known/parley")
	want := fmt.Sprintf(`{"version":1,"base":"http://site.example/","manifest":"http://site.example/robots.rdf",`+
		`"changes":"http://site.example/parley/changes","stream":"ws://site.example/parley/stream","subprotocols":["parley.v1.zstd","parley.v1.json"],`+
		`"epoch":%q,"head":"%[1]s:0","floor":"%[1]s:0","heartbeat":25,"items":2,"forms":["meta"],`+
		`"filters":["prefix","match","type","op","lang","minlen","maxlen","maxdepth","minimp","minsig","since"],`+
		`"openapi":"http://site.example/parley/openapi.json","asyncapi":"http://site.example/parley/asyncapi.json"}`+"\n", s.journal.Head().Epoch)
	want = strings.ReplaceAll(want, `:"`+`"`, `:"`)
	if resp.StatusCode != 200 || body != want {
		t.Errorf("status %d\n%s\nwant\n%s", resp.StatusCode, body, want)
	}
}

func TestManifestDoor(t *testing.T) {
	s := newSite(t)
	resp, body := s.get("/robots.rdf")
	if resp.StatusCode != 200 || !strings.Contains(body, base+"a.html") {
		t.Errorf("status %d: %s", resp.StatusCode, body)
	}
	resp, _ = s.get("/robots.rdf", "If-None-Match", resp.Header.Get("Etag"))
	if resp.StatusCode != 304 {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// The parts of a manifest are below its URL.
func TestPartsDoor(t *testing.T) {
	s := newSite(t)
	s.pub.Snapshot.Parts = 1
	s.write("b.html", "new")
	s.turn()
	head, items, _ := s.manifest()
	if head.Whole == nil || len(items) != s.journal.Len() {
		t.Fatalf("%+v, %v", head, items)
	}
	for _, p := range head.Whole.Parts {
		path := "/" + strings.TrimPrefix(p.URL, base)
		resp, body := s.get(path)
		if resp.StatusCode != 200 || p.Check([]byte(body)) != nil {
			t.Errorf("%s: status %d", path, resp.StatusCode)
		}
		if resp, _ := s.get(path + "x"); resp.StatusCode != 404 {
			t.Errorf("%sx: status %d", path, resp.StatusCode)
		}
	}
}

// A client that keeps sending requests and reads nothing, or never ends a body, is cut off.
func TestDoorsIdleClients(t *testing.T) {
	s := newSite(t, func(n *doors.Notifier) { n.Limits.WriteWait = 100 * time.Millisecond })
	for name, ask := range map[string]func(net.Conn) error{
		"reads nothing": func(c net.Conn) (err error) {
			for err == nil {
				_, err = c.Write([]byte("GET /robots.rdf HTTP/1.1\r\nHost: site.example\r\n\r\n"))
			}
			return err
		},
		"never ends a body": func(c net.Conn) error {
			fmt.Fprint(c, "GET /.well-known/parley HTTP/1.1\r\nHost: site.example\r\nContent-Length: 1000\r\n\r\nx")
			_, err := io.Copy(io.Discard, c)
			return err
		},
	} {
		c := must.Get(net.Dial("tcp", s.web.Listener.Addr().String()))
		s.must(c.SetDeadline(time.Now().Add(15 * time.Second)))
		if err := ask(c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a client that %s is not cut off", name)
		}
		c.Close()
	}
}

// If the base has a path, all doors are below it. The discovery document is also served at the root of the
// host, for crawlers that know only the host.
func TestDoorsBelowAPath(t *testing.T) {
	s := newSite(t, func(n *doors.Notifier) { n.Base = "https://site.example/docs/" })
	for path, status := range map[string]int{"/docs/robots.rdf": 200, "/robots.rdf": 404, "/docs/parley/changes": 410, "/parley/changes": 404,
		"/.well-known/parley": 200, "/docs/.well-known/parley": 200, "/docs/.well-known/x": 404} {
		resp, body := s.get(path)
		if resp.StatusCode != status {
			t.Errorf("%s: status %d", path, resp.StatusCode)
		}
		if strings.HasSuffix(path, "n/parley") && status == 200 && !strings.Contains(body, `"wss://site.example/docs/parley/stream"`) {
			t.Error(body)
		}
	}
}

func TestLongPoll(t *testing.T) {
	s := newSite(t)
	ask := func(after protocol.Cursor, more string) chan protocol.Message {
		c := make(chan protocol.Message, 1)
		waiting := s.notifier.Stats().Subscribers
		go func() { c <- s.changes(after, more) }()
		until(t, "the poll waits", func() bool { return s.notifier.Stats().Subscribers == waiting+1 })
		return c
	}
	a, b := ask(s.cursor(0), "&wait=60"), ask(s.cursor(0), "&wait=60")
	s.write("a.html", "new")
	s.look()
	for _, c := range []chan protocol.Message{a, b} {
		if m := <-c; tellAll(m.Changes) != "update a.html" || m.To != s.cursor(1) {
			t.Errorf("%+v", m)
		}
	}
	// The wait times out.
	begin := time.Now()
	if m := s.changes(s.cursor(1), "&wait=1"); len(m.Changes) != 0 || m.To != s.cursor(1) {
		t.Errorf("%+v", m)
	}
	if d := time.Since(begin); d < 900*time.Millisecond {
		t.Errorf("the poll waited %v", d)
	}
	// A change that may not be delivered moves the watermark, and does not end the wait.
	a = ask(s.cursor(1), "&wait=60")
	s.write("secret.html", "x")
	s.look()
	if m := <-a; tellAll(m.Changes) != "create secret.html" {
		t.Errorf("%+v", m)
	}
	s.forbid("secret.html")
	if m := s.changes(s.cursor(1), "&wait=1"); len(m.Changes) != 0 || m.To != s.cursor(2) {
		t.Errorf("%+v", m)
	}
	// The site stops.
	a = ask(s.cursor(2), "&wait=60")
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	s.must(s.notifier.Close(ctx))
	if m := <-a; len(m.Changes) != 0 || m.To != s.cursor(2) {
		t.Errorf("%+v", m)
	}
	if resp, _ := s.get("/parley/changes?wait=1&after=" + s.cursor(2).String()); resp.StatusCode != 503 {
		t.Errorf("status %d after Close", resp.StatusCode)
	}
}

// Changes that the current rules forbid are not delivered, in replay either.
func TestReplayObeysCurrentRules(t *testing.T) {
	s := newSite(t)
	s.write("new.html", "n")     // 1
	s.look()                     //
	s.write("a.html", "2")       // 2
	s.look()                     //
	s.rename("b.html", "c.html") // 3
	s.look()                     //
	s.remove("new.html")         // 4
	s.look()                     //
	s.pass(time.Minute)          //
	s.look()                     //
	s.write("b.html", "other")   // 5
	s.look()
	s.rename("b.html", "e.html") // 6
	s.look()
	for _, c := range []struct{ forbidden, want string }{
		{"", "create new.html, update a.html, move b.html->c.html, delete new.html, create b.html, move b.html->e.html"},
		{"a.html", "create new.html, move b.html->c.html, delete new.html, create b.html, move b.html->e.html"},
		{"new.html", "update a.html, move b.html->c.html, delete new.html, create b.html, move b.html->e.html"},
		{"c.html", "create new.html, update a.html, delete b.html, delete new.html, create b.html, move b.html->e.html"},
		{"b.html", "create new.html, update a.html, create c.html, delete new.html, create e.html"},
		{"b.html e.html", "create new.html, update a.html, create c.html, delete new.html, delete b.html"},
	} {
		s.forbid(strings.Fields(c.forbidden)...)
		m := s.changes(s.cursor(0), "")
		if got := tellAll(m.Changes); got != c.want || m.To != s.cursor(6) {
			t.Errorf("without %q: told\n%s, want\n%s", c.forbidden, got, c.want)
		}
	}
}

func TestAdmission(t *testing.T) {
	s := newSite(t, func(n *doors.Notifier) { n.Limits.MaxSubscribers, n.Limits.PerAddress = 3, 1 })
	at := s.cursor(0)
	open := func(status int, header ...string) {
		t.Helper()
		c, err := s.dial(at, header...)
		if statusOf(err) != status {
			t.Errorf("%v: %v", header, err)
		}
		if c != nil {
			t.Cleanup(func() { c.Close(1000, "") })
		}
	}
	open(0, "X-Forwarded-For", "192.0.2.1")
	open(429, "X-Forwarded-For", "192.0.2.1")
	open(429, "X-Forwarded-For", "203.0.113.9, 192.0.2.1") // the client's own claim comes first
	open(0)                                                // a proxy that adds no address
	open(0)
	open(429, "X-Forwarded-For", "192.0.2.2") // too many in total
	resp, body := s.get("/parley/changes?wait=5&after=" + at.String())
	if resp.StatusCode != 429 || resp.Header.Get("Retry-After") == "" || !strings.Contains(body, "urn:parley:problem:limit") {
		t.Errorf("status %d %v %s", resp.StatusCode, resp.Header, body)
	}
	if resp, _ := s.get("/parley/changes?after=" + at.String()); resp.StatusCode != 200 {
		t.Errorf("status %d without wait", resp.StatusCode)
	}
	until(t, "all are counted", func() bool {
		st := s.notifier.Stats()
		return st.Subscribers == 3 && st.Streams == 3 && st.Refused[429] == 4
	})
}

// Behind proxies in front of the web server, clients are told apart once the proxies are named.
func TestAdmissionBehindProxies(t *testing.T) {
	for i, proxies := range []string{"", "192.0.2.0/24"} {
		s := newSite(t, func(n *doors.Notifier) {
			n.Limits.PerAddress = 1
			must.OK(t, n.Clients.Proxies.Set(proxies))
		})
		for _, c := range []struct {
			hops string
			want [2]int // status: without the proxies, and with them
		}{
			{"198.51.100.1, 192.0.2.7", [2]int{0, 0}},
			{"198.51.100.2, 192.0.2.7", [2]int{429, 0}},
			{"203.0.113.9, 198.51.100.1, 192.0.2.8", [2]int{0, 429}}, // the first one again, with a claim of its own
		} {
			conn, err := s.dial(s.cursor(0), "X-Forwarded-For", c.hops)
			if statusOf(err) != c.want[i] {
				t.Errorf("proxies %q, %s: %v, want status %d", proxies, c.hops, err, c.want[i])
			}
			if conn != nil {
				defer conn.Close(1000, "")
			}
		}
	}
}

// A client that polls from any cursor, in batches of any size, ends with the site's pages.
func TestPollingFromAnyCursorYieldsAllPages(t *testing.T) {
	s := newSite(t)
	mirror, at := s.present(), s.journal.Head()
	for i := range 30 {
		s.write(fmt.Sprintf("p/%d.html", i%7), fmt.Sprint(i))
		if i%5 == 0 {
			s.rename("p/0.html", fmt.Sprintf("q/%d.html", i))
		}
		s.look()
	}
	for limit := 1; ; limit = limit%4 + 1 {
		m := s.changes(at, fmt.Sprint("&limit=", limit))
		if m.To == m.Head {
			apply(mirror, m.Changes)
			break
		}
		apply(mirror, m.Changes)
		at = m.To
	}
	if want := s.present(); !maps.Equal(mirror, want) {
		t.Errorf("%v", diff(mirror, want))
	}
}

// Every request is answered, and never with more than is public.
func FuzzRequest(f *testing.F) {
	f.Add("/parley/changes", "after=0:0", "192.0.2.1")
	f.Add("/parley/changes", "after=x:1&limit=3", "[2001:db8::1]:80, 10.0.0.1")
	f.Add("/parley/stream", "after=%31:1;", "")
	f.Add("/robots.rdf", "?", ",,")
	dir := f.TempDir()
	j := must.Get(server.OpenJournal(f.Context(), dir+"/state", server.JournalOptions{Base: base}))
	defer j.Close()
	shelf := newShelf()
	shelf.put("a.html", "a", time.Now())
	shelf.put("secret.html", "s", time.Now())
	shelf.forbid("secret.html")
	p := &server.Publisher{Inventory: shelf, Journal: j}
	must.Get(p.Turn(f.Context()))
	n := &doors.Notifier{Log: j, Base: base, Public: shelf.Public, Ready: p.Ready}
	f.Fuzz(func(t *testing.T, path, query, forwarded string) {
		ctx, stop := context.WithCancel(t.Context())
		stop() // long polls must not wait
		r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
		r.URL.Path, r.URL.RawQuery, r.RemoteAddr = path, query, "127.0.0.1:1"
		r.Header.Set("X-Forwarded-For", forwarded)
		rec := httptest.NewRecorder()
		n.ServeHTTP(rec, r)
		switch rec.Code {
		case 200, 400, 404, 409, 410, 426:
		default:
			t.Errorf("status %d: %s", rec.Code, rec.Body)
		}
		if strings.Contains(rec.Body.String(), base+"secret") {
			t.Errorf("told %s", rec.Body)
		}
	})
}

// Two sites on one host, each with a notifier, have a discovery document below their own base, as the channel
// of the manifest says.
func TestTwoSitesOnOneHost(t *testing.T) {
	mux := http.NewServeMux()
	web := httptest.NewServer(mux)
	defer web.Close()
	for _, path := range []string{"/", "/docs/", "/blog/"} {
		s := newSite(t, func(n *doors.Notifier) { n.Base = web.URL + path })
		s.notifier.Register(mux)
	}
	for _, path := range []string{"/", "/docs/", "/blog/"} {
		base := web.URL + path
		resp, err := http.Get(base + protocol.DiscoveryPath)
		if err != nil {
			t.Fatal(err)
		}
		var d protocol.Discovery
		err = json.NewDecoder(resp.Body).Decode(&d)
		resp.Body.Close()
		if err != nil || d.Base != base || d.Changes != base+"parley/changes" {
			t.Errorf("%s is described as %+v, %v", base, d, err)
		}
		if got := doors.Describe(base).Discovery; got != base+protocol.DiscoveryPath {
			t.Errorf("the manifest of %s names the discovery document %s", base, got)
		}
	}
}

// A site that offers nothing but its changes has no other doors, and lists none.
func TestSiteWithoutContentsHasFewDoors(t *testing.T) {
	w := newWorld(t)
	w.write("a.html", "a")
	w.turn()
	n := &doors.Notifier{Log: w.journal, Base: base}
	for _, path := range []string{"query", "batch", "site.wacz", "agents", "agents/run", "announce"} {
		if a := answers(n, "/parley/"+path); a.Code != 404 {
			t.Errorf("%s: %d", path, a.Code)
		}
	}
	var list protocol.Discovery
	must.OK(t, json.Unmarshal(answers(n, "/"+protocol.DiscoveryPath).Body.Bytes(), &list))
	if list.Query+list.Batch+list.Site+list.Agents != "" || list.Inline != 0 || list.Manifest != base+"robots.rdf" ||
		list.Changes != base+"parley/changes" || list.Stream == "" || list.OpenAPI == "" || list.AsyncAPI == "" || len(list.Forms) != 1 {
		t.Errorf("%+v", list)
	}
}
