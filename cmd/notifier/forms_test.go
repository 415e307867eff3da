package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/front"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/site/agent"
	"github.com/parleyweb/parley/protocol"
)

// The notifier runs crawlers' programs in processes of its own executable, which here is the test's.
func TestMain(m *testing.M) {
	agent.Main()
	os.Exit(m.Run())
}

// A sidecar is a notifier that runs in this process without a web server: its address is the site's.
type sidecar struct {
	*testing.T
	dir, root, state string
	base, admin      string
}

func startSidecar(t *testing.T, files map[string]string, args ...string) *sidecar {
	t.Helper()
	listen := front.FreeAddress()
	s := &sidecar{T: t, dir: t.TempDir(), base: "http://" + listen + "/", admin: front.FreeAddress()}
	s.root, s.state = filepath.Join(s.dir, "docroot"), filepath.Join(s.dir, "state")
	for name, text := range files {
		s.write(name, text)
	}
	ended, said := s.run(append([]string{"--docroot", s.root, "--base", s.base, "--state", s.state, "--listen", listen,
		"--admin", s.admin, "--grace", "0"}, args...)...)
	until(t, func() bool {
		select {
		case code := <-ended:
			ended <- code
			t.Fatalf("exit code %d before the doors opened: %s", code, said.String())
		default:
		}
		code, _ := get(s.base + ".well-known/parley")
		written, _ := get(s.base + "robots.rdf")
		return code == 200 && written == 200
	})
	return s
}

// run runs the notifier until the test ends. Once it has ended, its exit code can be read, and what it has logged.
func (s *sidecar) run(args ...string) (ended chan int, said *bytes.Buffer) {
	ctx, stop := context.WithCancel(s.Context())
	ended, said = make(chan int, 1), new(bytes.Buffer)
	go func() {
		ended <- command.Main(ctx, notifier, append(args, "--no-self-check", "--log-level", "warn"), nil, io.Discard, said)
	}()
	s.Cleanup(func() {
		stop()
		if code := <-ended; code != 0 || s.Failed() {
			s.Errorf("exit code %d after stop: %s", code, said.String())
		}
	})
	return ended, said
}

func (s *sidecar) write(name, text string) {
	s.Helper()
	path := filepath.Join(s.root, filepath.FromSlash(name))
	must.Write(s, path, text)
}

func (s *sidecar) found() (d protocol.Discovery) {
	s.Helper()
	_, text := get(s.base + ".well-known/parley")
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		s.Fatalf("%v: %s", err, text)
	}
	return d
}

// changes fetches the changes after a cursor.
func (s *sidecar) changes(after protocol.Cursor, more string) protocol.Message {
	s.Helper()
	code, text := get(s.base + "parley/changes?after=" + after.String() + more)
	m, err := protocol.ParseMessage([]byte(text))
	if code != 200 || err != nil {
		s.Fatalf("changes%s: %d, %v: %s", more, code, err, text)
	}
	return m
}

func (s *sidecar) status() string {
	s.Helper()
	var out, errs strings.Builder
	if code := command.Main(s.Context(), notifier, []string{"status", "--base", s.base, "--state", s.state}, nil, &out, &errs); code != 0 {
		s.Errorf("status: %d: %s", code, errs.String())
	}
	return out.String()
}

func ask(t *testing.T, method, url, body string, header ...string) (int, string) {
	t.Helper()
	resp, b := must.Fetch(t, method, url, body, header...)
	return resp.StatusCode, b
}

// text returns a page of some length that ends with the given text.
func text(end string) string {
	return "<html lang=en><title>A page</title>" + strings.Repeat("<p>What has not changed since this site was built.", 100) + "<p>" + end
}

// Listed pages that are fetched are delivered too: their content is stored.
func TestFetchedPagesAreDelivered(t *testing.T) {
	var now atomic.Value
	now.Store(text("as it began"))
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/a.html" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, now.Load().(string))
	}))
	defer web.Close()
	s := &sidecar{T: t, dir: t.TempDir()}
	s.root, s.state = s.dir, filepath.Join(s.dir, "site", "state")
	s.write("list", web.URL+"/a.html\n")
	listen := front.FreeAddress()
	s.base = "http://" + listen + "/" // the doors, beside the web server
	s.run("--urls", filepath.Join(s.dir, "list"), "--base", web.URL+"/", "--state", s.state, "--listen", listen, "--fetch",
		"--fetch-rate", "1000", "--recheck", "1s", "--look-every", "200ms", "--versions", "1MB", "--grace", "0")
	until(t, func() bool { code, _ := get(s.base + ".well-known/parley"); return code == 200 })
	until(t, func() bool { _, text := get(s.base + "robots.rdf"); return strings.Contains(text, "sha-256") })
	start := s.found().Head
	now.Store(text("as it goes on"))
	var m protocol.Message
	until(t, func() bool { m = s.changes(start, "&as=delta"); return len(m.Changes) > 0 })
	if len(m.Bodies) != 1 || m.Bodies[0].Coding != protocol.CodingDelta {
		t.Errorf("as=delta: %+v", m)
	}
	if m = s.changes(start, "&as=page"); len(m.Bodies) != 1 || string(m.Bodies[0].Bytes) != text("as it goes on") {
		t.Errorf("as=page: %+v", m)
	}
}

// The robots.txt rules for one crawler also apply where a list names the pages.
func TestCallerRulesApplyToURLLists(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }))
	defer web.Close()
	s := &sidecar{T: t, dir: t.TempDir()}
	s.root, s.state = s.dir, filepath.Join(s.dir, "site", "state")
	s.write("robots.txt", "User-agent: *\nDisallow: /hidden/\nUser-agent: EvilBot\nDisallow: /news/\n")
	s.write("list", web.URL+"/a.html\n")
	const nice, evil = "0123456789abcdefnice", "0123456789abcdefevil"
	s.write("callers", "NiceBot "+nice+"\nEvilBot "+evil+"\n")
	listen := front.FreeAddress()
	s.base = "http://" + listen + "/"
	s.run("--urls", filepath.Join(s.dir, "list"), "--base", web.URL+"/", "--state", s.state, "--listen", listen,
		"--robots", filepath.Join(s.dir, "robots.txt"), "--callers", filepath.Join(s.dir, "callers"), "--look-every", "200ms")
	until(t, func() bool { _, text := get(s.base + "robots.rdf"); return strings.Contains(text, "/a.html") })
	start := s.found().Head
	s.write("list", web.URL+"/a.html\n"+web.URL+"/news/b.html\n"+web.URL+"/c.html\n")
	until(t, func() bool { return len(s.changes(start, "").Changes) == 2 })
	for token, want := range map[string]bool{nice: true, evil: false} {
		code, answer := ask(t, "GET", s.base+"parley/changes?after="+start.String(), "", "Authorization", "Bearer "+token)
		if code != 200 || strings.Contains(answer, "/news/b.html") != want || !strings.Contains(answer, "/c.html") {
			t.Errorf("%s: %d: %s", token, code, answer)
		}
	}
}

// A token removed from its file is rejected, an added one is accepted, and a SIGHUP, which makes many daemons
// reload, is harmless.
func TestCallersFileIsReloaded(t *testing.T) {
	callers := filepath.Join(t.TempDir(), "callers")
	const nice, evil = "0123456789abcdefnice", "0123456789abcdefevil"
	write := func(text string) {
		must.Write(t, callers, text)
	}
	write("EvilBot " + evil + "\n")
	s := startSidecar(t, map[string]string{"a.html": text("a")}, "--callers", callers)
	status := func(token string) int {
		code, _ := ask(t, "GET", s.base+"parley/changes?after="+s.found().Head.String(), "", "Authorization", "Bearer "+token)
		return code
	}
	if status(nice) != 401 || status(evil) != 200 {
		t.Error("at first only the token of EvilBot must be accepted")
	}
	write("NiceBot " + nice + "\n")
	if self, err := os.FindProcess(os.Getpid()); err != nil || runtime.GOOS != "windows" && self.Signal(syscall.SIGHUP) != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return status(nice) == 200 && status(evil) == 401 })
}

// One option enables everything that a site can offer.
func TestPresetHigh(t *testing.T) {
	callers := filepath.Join(t.TempDir(), "callers")
	const nice, other = "0123456789abcdefnice", "0123456789abcdefother"
	must.Write(t, callers, "# ours\nNiceBot "+nice+" agents\nOtherBot "+other+"\n")
	pages := map[string]string{"robots.txt": "User-agent: *\nDisallow: /hidden/\nUser-agent: OtherBot\nDisallow: /news/\nDisallow: /hidden/\n",
		"hidden/x.html": text("x")}
	for i := range 20 {
		pages[fmt.Sprintf("news/%d.html", i)] = text(fmt.Sprint(i))
	}
	s := startSidecar(t, pages, "--preset", "high", "--callers", callers, "--serve-pages")
	d := s.found()
	if !slices.Equal(d.Forms, protocol.Forms()) || !slices.Equal(d.Filters, protocol.FilterNames()) {
		t.Errorf("found %+v", d)
	}
	for what, u := range map[string]string{"query": d.Query, "batch": d.Batch, "site": d.Site, "agents": d.Agents, "openapi": d.OpenAPI, "asyncapi": d.AsyncAPI} {
		if !strings.HasPrefix(u, s.base+"parley/") {
			t.Errorf("%s is at %q", what, u)
		}
	}
	start := d.Head
	until(t, func() bool { return strings.Contains(s.status(), "20 stored") })
	s.write("news/3.html", text("three, and more"))
	var m protocol.Message
	until(t, func() bool { m = s.changes(start, "&as=delta"); return len(m.Changes) > 0 })
	if len(m.Bodies) != 1 || m.Bodies[0].Coding != protocol.CodingDelta || len(m.Bodies[0].Bytes) > 500 {
		t.Errorf("as=delta: %+v", m)
	}
	if m := s.changes(start, "&as=page&where="+url.QueryEscape(`change.path == "/news/3.html" && page.language == "en"`)); len(m.Bodies) != 1 || string(m.Bodies[0].Bytes) != text("three, and more") {
		t.Errorf("as=page: %+v", m)
	}
	if m := s.changes(start, "&as=batch"); m.Kind != protocol.Bundle || m.N != 1 {
		t.Errorf("as=batch: %+v", m)
	}
	if m := s.changes(start, "&as=page&prefix=/elsewhere/"); len(m.Changes) != 0 || m.To == start {
		t.Errorf("another part of the site: %+v", m)
	}

	// Pages and the manifest are served under the site's own name alone, and the other doors under any.
	for _, c := range []struct {
		host, path string
		status     int
	}{{"", "news/5.html", 200}, {"wrong.example.net", "news/5.html", 308}, {"wrong.example.net", "robots.rdf", 308}, {"wrong.example.net", protocol.DiscoveryPath, 200}} {
		req := must.Get(http.NewRequestWithContext(t.Context(), "GET", s.base+c.path, nil))
		req.Host = c.host
		resp := must.Get(http.DefaultTransport.RoundTrip(req))
		resp.Body.Close()
		if to := resp.Header.Get("Location"); resp.StatusCode != c.status || c.status == 308 && to != s.base+c.path {
			t.Errorf("%s of %q: %s to %q, want %d", c.path, c.host, resp.Status, to, c.status)
		}
	}

	code, answer := ask(t, "POST", d.Batch, `{"pages":[{"url":"`+s.base+`news/4.html"},{"url":"`+s.base+`hidden/x.html"}]}`, "Content-Type", "application/json")
	if code != 200 || !strings.HasPrefix(answer, "\x1f\x8b") {
		t.Errorf("batch: %d, %d bytes", code, len(answer))
	}
	if code, answer = get(d.Query + "?match=" + url.QueryEscape("/news/1?.html")); code != 200 || strings.Count(answer, "<item ") != 10 || strings.Contains(answer, "hidden") {
		t.Errorf("query: %d: %s", code, answer)
	}
	until(t, func() bool { code, answer = get(d.Site); return code == 200 })
	if !strings.HasPrefix(answer, "PK") || !strings.Contains(answer, "news/19.html") || strings.Contains(answer, "hidden") {
		t.Errorf("site: %d bytes", len(answer))
	}
	first := protocol.Cursor{}
	if m := s.changes(first, "&as=site"); m.Kind != protocol.Archive || m.N != 20 {
		t.Errorf("as=site: %+v", m)
	}

	// The pages themselves.
	code, answer = ask(t, "GET", s.base+"news/4.html", "")
	if code != 200 || answer != text("4") {
		t.Errorf("page: %d: %s", code, answer)
	}
	if code, _ = ask(t, "GET", s.base+"hidden/x.html", ""); code != 404 {
		t.Errorf("hidden page: %d", code)
	}

	// The answer depends on the caller.
	if code, _ := ask(t, "GET", s.base+"parley/changes?after="+start.String(), "", "Authorization", "Bearer unheard-of-token"); code != 401 {
		t.Errorf("an unknown token: %d", code)
	}
	if _, answer := ask(t, "GET", s.base+"parley/changes?after="+start.String(), "", "Authorization", "Bearer "+other); strings.Contains(answer, "news/") {
		t.Errorf("OtherBot receives %s", answer)
	}
	for token, want := range map[string]int{other: 403, "": 401, nice: 422} { // and the body is not a program
		var header []string
		if token != "" {
			header = []string{"Authorization", "Bearer " + token}
		}
		if code, answer := ask(t, "POST", d.Agents, "no program", append(header, "Content-Type", "application/wasm")...); code != want {
			t.Errorf("agents, by %q: %d, want %d: %s", token, code, want, answer)
		}
	}

	for _, door := range []string{d.OpenAPI, d.AsyncAPI} {
		if code, answer := get(door); code != 200 || !strings.Contains(answer, s.base) || !json.Valid([]byte(answer)) {
			t.Errorf("%s: %d: %.200s", door, code, answer)
		}
	}
	status := s.status()
	for _, want := range []string{"delivers   manifest and changes, stream, pages, differences, archive, query, expressions, pages served\n",
		"as delta ", "as page ", "as batch ", "as site ", "1 differences made", "20 pages, ", "1 made, 0 failed", "agents     0 programs"} {
		if !strings.Contains(status, want) {
			t.Errorf("status lacks %q:\n%s", want, status)
		}
	}
	_, metrics := get("http://" + s.admin + "/metrics")
	for _, want := range []string{`parley_form_answers_total{as="delta"} `, `parley_form_bytes_total{as="page"} `, "parley_deltas_made_total 1\n",
		"parley_archives_made_total 1\n", "parley_versions_bytes ", "parley_agents 0\n", "parley_agent_failed_total 0\n"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %q", want)
		}
	}
}

// The other two presets, and single options beside them.
func TestPresets(t *testing.T) {
	one := map[string]string{"a.html": text("a")}
	for _, c := range []struct {
		args   []string
		forms  []protocol.Form
		stream bool
		query  bool
	}{
		{[]string{"--preset", "low"}, []protocol.Form{protocol.AsMeta}, false, false},
		{[]string{"--preset", "high", "--pages=false"}, []protocol.Form{protocol.AsMeta, protocol.AsSite}, true, true},
		{nil, []protocol.Form{protocol.AsMeta}, true, false},
		{[]string{"--preset", "moderate"}, []protocol.Form{protocol.AsMeta}, true, false},
		{[]string{"--preset", "high", "--archive=false", "--query=false"}, []protocol.Form{protocol.AsMeta, protocol.AsDelta, protocol.AsPage, protocol.AsBatch}, true, false},
		{[]string{"--preset", "high", "--pages=false", "--archive=false"}, []protocol.Form{protocol.AsMeta}, true, true},
		{[]string{"--preset", "low", "--query"}, []protocol.Form{protocol.AsMeta}, false, true},
		{[]string{"--archive"}, []protocol.Form{protocol.AsMeta, protocol.AsSite}, true, false},
		{[]string{"--versions", "1MB"}, []protocol.Form{protocol.AsMeta, protocol.AsDelta, protocol.AsPage, protocol.AsBatch}, true, false},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			s := startSidecar(t, one, c.args...)
			d := s.found()
			if !slices.Equal(d.Forms, c.forms) || (d.Stream != "") != c.stream || (d.Query != "") != c.query {
				t.Errorf("found %+v", d)
			}
			_, manifest := get(d.Manifest)
			if strings.Contains(manifest, "p:stream") != c.stream {
				t.Errorf("manifest: %s", manifest)
			}
			if code, _ := get(s.base + "parley/stream?after=" + d.Head.String()); (code == 404) == c.stream {
				t.Errorf("stream: %d", code)
			}
			code, text := get(d.OpenAPI)
			if code != 200 || strings.Contains(text, `"/parley/query"`) != c.query {
				t.Errorf("openapi: %d: %s", code, text)
			}
			if m := s.changes(d.Head, "&wait=0"); m.To != d.Head {
				t.Errorf("%+v", m)
			}
		})
	}
}

func TestInvalidFormOptions(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "docroot")
	must.OK(t, os.Mkdir(root, 0o755))
	for name, text := range map[string]string{"callers": "NiceBot short\n", "docroot/callers": "NiceBot 0123456789abcdef\n", "list": "a\n"} {
		must.Write(t, filepath.Join(dir, name), text)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--docroot ROOT --preset medium", 2, "low, moderate or high"},
		{"--docroot ROOT --versions much", 2, "versions"},
		{"--docroot ROOT --versions 1MB --pages=false", 2, "--versions needs --pages"},
		{"--docroot ROOT --archive --archive-share 0", 2, "--archive-share"},
		{"--docroot ROOT --callers DIR/callers", 1, "line 1"},
		{"--docroot ROOT --callers DIR/docroot/callers", 2, "inside the docroot"},
		{"--docroot ROOT --callers DIR/nothing", 1, "nothing"},
		{"--urls DIR/list --archive", 2, "--archive reads files"},
		{"--urls DIR/list --versions 1MB", 2, "--fetch"},
		{"--urls DIR/list --fetch --pages", 2, "--versions"},
		{"--docroot ROOT --log nats://127.0.0.1:1 --archive", 2, "--archive with --log needs --pages"},
		{"--door --log nats://127.0.0.1:1 --serve-pages", 2, "--serve-pages needs --pages"},
		{"--docroot ROOT --state DIR/docroot/state --preset high", 2, "inside the docroot"},
	} {
		args := strings.Fields(strings.NewReplacer("ROOT", root, "DIR", dir).Replace(c.args))
		args = append([]string{"--base", "https://www.example.org/", "--listen", front.FreeAddress(), "--no-self-check"}, args...)
		if !slices.Contains(args, "--state") {
			args = append(args, "--state", filepath.Join(dir, "state"))
		}
		var errs strings.Builder
		ctx, stop := context.WithCancel(t.Context())
		code := command.Main(ctx, notifier, args, nil, io.Discard, &errs)
		stop()
		if code != c.code || !strings.Contains(errs.String(), c.want) {
			t.Errorf("notifier %s: exit code %d, want %d: %s", c.args, code, c.code, errs.String())
		}
	}
}

// Every option named in the manual of the forms exists.
func TestManualOptionsExist(t *testing.T) {
	manual := must.Get(os.ReadFile("../../docs/schemes.md"))
	var help strings.Builder
	if code := command.Main(t.Context(), notifier, []string{"--help-all"}, nil, &help, io.Discard); code != 0 {
		t.Fatalf("-h: %d", code)
	}
	named := regexp.MustCompile("[ `(](--[a-z][a-z-]*)").FindAllSubmatch(manual, -1)
	others := []string{"--data-urlencode", "--data-binary", "--patch-from"} // options of curl and zstd
	for _, m := range named {
		if option := string(m[1]); !slices.Contains(others, option) && !strings.Contains(help.String(), "\n  "+option+"\n") && !strings.Contains(help.String(), "\n  "+option+" ") {
			t.Errorf("docs/schemes.md: there is no %s", option)
		}
	}
	if len(named) < 10 {
		t.Errorf("only %d options are named", len(named))
	}
}
