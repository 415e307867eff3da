package main

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/front"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

// A guarded site is a docroot that a web server serves only in part, with a notifier beside it that can read
// all of it.
type guarded struct {
	*testing.T
	root, state, base string
	doors             string // of the notifier itself, if no server is in front of it
	stop              func()
	closed            atomic.Bool // the web server asks for a password for most pages
}

// secret occurs in every page that must not be handed out.
const secret = "the words that only we may read"

// guardedPages returns the pages of such a site: open pages, and a refused one for each.
func guardedPages() map[string]string {
	pages := map[string]string{"index.html": "<title>Home</title><p>Hello.", "open/a.html": "<title>A</title><p>Anybody may read this.",
		"open/b.html": "<title>B</title><p>And this.", "staff/index.html": "<p>" + secret, "staff/rota.html": "<title>" + secret + "</title><p>" + secret,
		"open/key.html": "<p>" + secret, "robots.txt": "User-agent: *\nDisallow:\n"}
	for i := range 30 {
		pages[fmt.Sprintf("open/n%d.html", i)] = fmt.Sprintf("<title>Page %d</title><p>One of many.", i)
	}
	return pages
}

// webServer starts nginx or a stand-in: it asks for a password below /staff/ and cannot read open/key.html.
func webServer(t *testing.T, root, kind, doors string, closed *atomic.Bool) (base string) {
	t.Helper()
	if kind == "nginx" {
		return "http://" + guardedNginx(t, root, doors) + "/"
	}
	sidecar := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: doors})
	sidecar.ErrorLog = nil
	files := http.FileServer(http.Dir(root))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case path == "/robots.rdf", strings.HasPrefix(path, "/parley/"), path == wellKnown:
			sidecar.ServeHTTP(w, r)
		case strings.HasPrefix(path, "/staff/"), closed.Load() && strings.HasPrefix(path, "/open/n"):
			w.Header().Set("WWW-Authenticate", "Basic")
			http.Error(w, "who are you?", http.StatusUnauthorized)
		case path == "/open/key.html":
			http.Error(w, "no", http.StatusForbidden)
		default:
			files.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL + "/"
}

const wellKnown = "/.well-known/parley"

func guardedNginx(t *testing.T, root, doors string) (address string) {
	t.Helper()
	machine.Tool(t, "nginx")
	address = front.FreeAddress()
	users := filepath.Join(root, "..", "users")
	must.Write(t, users, "anna:{PLAIN}secret\n")
	key := "location = /open/key.html { return 403; }"
	user := ""
	if os.Getuid() == 0 { // its workers run as nobody and cannot read files that only root can read
		user, key = "user nobody nogroup;\n", ""
		must.OK(t, os.Chmod(filepath.Join(root, "open/key.html"), 0o600))
		for _, d := range []string{root, filepath.Join(root, ".."), filepath.Join(root, "../..")} { // no further: what follows is not the test's
			must.OK(t, os.Chmod(d, 0o755))
		}
	}
	machine.Nginx(t, address, user, fmt.Sprintf(`include /etc/nginx/mime.types;
server { listen %[1]s; root %[2]s; index index.html;
location /staff/ { auth_basic staff; auth_basic_user_file %[3]s; }
%[4]s
location ~ ^/(robots\.rdf$|parley/|\.well-known/parley$) { proxy_pass http://%[5]s; proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }
}`, address, root, users, key, doors))
	return address
}

// startGuarded starts the notifier beside a web server.
func startGuarded(t *testing.T, kind string, args ...string) *guarded {
	t.Helper()
	dir := t.TempDir()
	g := &guarded{T: t, root: filepath.Join(dir, "docroot"), state: filepath.Join(dir, "state")}
	for name, text := range guardedPages() {
		g.write(name, text)
	}
	listen := front.FreeAddress()
	g.base, g.doors = webServer(t, g.root, kind, listen, &g.closed), "http://"+listen+"/"
	g.start(append([]string{"--listen", listen}, args...)...)
	return g
}

// start starts the notifier; stop ends it.
func (g *guarded) start(args ...string) {
	g.Helper()
	ctx, stop := context.WithCancel(g.Context())
	ended := make(chan int, 1)
	var said bytes.Buffer
	go func() {
		ended <- command.Main(ctx, notifier, append([]string{"--docroot", g.root, "--base", g.base, "--state", g.state, "--preset", "high",
			"--no-self-check", "--ask-rate", "2000", "--hurry", "50ms", "--grace", "10ms", "--write-every", "10ms", "--log-level", "warn"}, args...), nil, io.Discard, &said)
	}()
	g.stop = sync.OnceFunc(func() {
		stop()
		if code := <-ended; code != 0 || g.Failed() {
			g.Errorf("exit code %d after stop: %s", code, said.String())
		}
	})
	g.Cleanup(g.stop)
	until(g.T, func() bool {
		code, _ := get(g.doors + wellKnown[1:])
		written, _ := get(g.doors + "robots.rdf")
		return code == 200 && written == 200
	})
}

func (g *guarded) write(name, text string) {
	g.Helper()
	path := filepath.Join(g.root, filepath.FromSlash(name))
	must.OK(g.T, os.MkdirAll(filepath.Dir(path), 0o755))
	mode := os.FileMode(0o644)
	if st, err := os.Stat(path); err == nil {
		mode = st.Mode().Perm()
	}
	must.OK(g.T, os.WriteFile(path, []byte(text), mode))
}

// door fetches a door of the notifier.
func (g *guarded) door(path string) string {
	g.Helper()
	code, text := get(g.doors + path)
	if code != 200 {
		g.Fatalf("%s: %d: %s", path, code, text)
	}
	return text
}

// cursor returns the head of the journal, as the discovery document gives it.
func (g *guarded) cursor() string {
	g.Helper()
	_, rest, _ := strings.Cut(g.door(wellKnown[1:]), `"head":"`)
	cursor, _, _ := strings.Cut(rest, `"`)
	return cursor
}

// everything returns all that the doors hand out, decoded so that its text can be searched.
func (g *guarded) everything(after string) string {
	g.Helper()
	var all strings.Builder
	for _, path := range []string{"robots.rdf", "parley/query"} {
		all.WriteString(g.door(path))
	}
	for _, as := range []string{"meta", "page", "delta"} {
		text := g.door("parley/changes?as=" + as + "&after=" + after)
		all.WriteString(text)
		m := must.Get(protocol.ParseMessage([]byte(text)))
		for _, b := range m.Bodies {
			all.Write(b.Bytes)
			if b.Coding == protocol.CodingDelta {
				all.WriteString("DELTA")
			}
		}
	}
	all.WriteString(g.plainBatch("GET", "parley/batch?after="+after, ""))
	all.WriteString(g.plainBatch("POST", "parley/batch", `{"pages":[{"url":"`+g.base+`staff/rota.html"},{"url":"`+g.base+`open/key.html"},{"url":"`+g.base+`staff/"},{"url":"`+g.base+`open/a.html"}]}`))
	archive := ""
	until(g.T, func() (made bool) { // an archive may be gone at the next request, since another one is due
		code, body := get(g.doors + "parley/site.wacz")
		archive = body
		return code == 200
	})
	all.WriteString(unzipped(g.T, archive))
	return all.String()
}

func (g *guarded) plainBatch(method, path, body string) string {
	g.Helper()
	r := must.Get(http.NewRequest(method, g.doors+path, strings.NewReader(body)))
	r.Header.Set("Accept-Encoding", "identity, gzip;q=0")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp := must.Get(http.DefaultClient.Do(r))
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))
	if resp.StatusCode != 200 {
		g.Fatalf("%s: %d: %s", path, resp.StatusCode, b)
	}
	return string(b)
}

// A page that the web server refuses leaves through no door, neither its bytes nor its title: not at the
// start, not after an edit, and not after a restart.
func TestRefusedPagesAreNeverDelivered(t *testing.T) {
	for _, kind := range []string{"in process", "nginx"} {
		t.Run(kind, func(t *testing.T) {
			g := startGuarded(t, kind, "--trust-docroot")
			refusedStay := func(after string) {
				t.Helper()
				until(t, func() bool { return !strings.Contains(g.door("robots.rdf"), "key.html") })
				all := g.everything(after)
				for _, never := range []string{secret, "staff/new.html", "staff/deep"} {
					if strings.Contains(all, never) {
						t.Errorf("%q was delivered", never)
					}
				}
				for _, want := range []string{"Anybody may read this.", "open/b.html"} {
					if !strings.Contains(all, want) {
						t.Errorf("%q was not delivered", want)
					}
				}
			}
			until(t, func() bool { return !strings.Contains(g.door("robots.rdf"), "key.html") })
			begin := g.cursor()
			g.write("open/a.html", guardedPages()["open/a.html"]+" And more.")
			g.write("staff/rota.html", "<p>Now: "+secret)
			g.write("open/key.html", "<p>Now: "+secret)
			g.write("staff/new.html", "<p>New: "+secret)
			g.write("staff/deep/new.html", "<p>New: "+secret)
			until(t, func() bool { return strings.Contains(g.door("parley/changes?as=page&after="+begin), "And more.") })
			refusedStay(begin)
			g.stop()
			g.start("--listen", strings.Trim(strings.TrimPrefix(g.doors, "http://"), "/"), "--trust-docroot")
			refusedStay(begin)
		})
	}
}

// A web server on the loopback address proves nothing about the responses that strangers get: page bytes are
// withheld unless a proxy elsewhere has seen them, and changes are announced all the same.
func TestContentNeedsEvidence(t *testing.T) {
	g := startGuarded(t, "in process")
	begin := g.cursor()
	g.write("open/a.html", "<p>Anybody may read this too.")
	until(t, func() bool { return g.cursor() != begin })
	if all := g.everything(begin); strings.Contains(all, "Anybody may") || !strings.Contains(all, "open/a.html") {
		t.Errorf("unchecked content was delivered, or the change was not announced")
	}
	if s := g.forms(); s.Evidence == nil || s.Evidence.Inside == "" || s.Evidence.Public != 0 {
		t.Errorf("evidence: %+v", s.Evidence)
	}
	g.stop()

	var mu sync.Mutex
	asked := 0
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked++
		mu.Unlock()
		if r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "" {
			t.Error("a check carried credentials")
		}
		(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.Out.URL = p.In.URL }}).ServeHTTP(w, r)
	}))
	defer proxy.Close()
	g.start("--listen", strings.Trim(strings.TrimPrefix(g.doors, "http://"), "/"), "--ask-via", proxy.URL)
	until(t, func() bool { return g.forms().Evidence.Round.Done && g.forms().Evidence.Public >= 33 })
	all := g.everything(begin)
	if !strings.Contains(all, "Anybody may read this too.") || strings.Contains(all, secret) {
		t.Errorf("public content was not delivered, or refused content was: %v %s", strings.Contains(all, secret), all)
	}
	if asked == 0 {
		t.Error("the proxy got no request")
	}
	// An edit: its body comes with it as soon as an anonymous fetch has returned it.
	begin = g.cursor()
	g.write("open/b.html", "<p>Edited just now.")
	until(t, func() bool { return g.cursor() != begin })
	until(t, func() bool {
		return strings.Contains(g.door("parley/changes?as=page&after="+begin), "Edited just now.")
	})
}

// forms returns the notifier's own status of its forms.
func (g *guarded) forms() (s deliveryStatus) {
	g.Helper()
	must.OK(g.T, server.Ask(g.Context(), g.state, "GET", "/forms", &s))
	return s
}

// unzipped returns the contents of all files in an archive, decompressed.
func unzipped(t *testing.T, archive string) string {
	t.Helper()
	z := must.Get(zip.NewReader(strings.NewReader(archive), int64(len(archive))))
	var all strings.Builder
	for _, f := range z.File {
		var in io.Reader
		in = must.Get(f.Open())
		if strings.HasSuffix(f.Name, ".gz") {
			in = must.Get(gzip.NewReader(in))
		}
		must.Get(io.Copy(&all, in))
	}
	return all.String()
}

// If many pages that were public are refused at once, no bytes leave, no page is reported as deleted, and a
// person is asked.
func TestMassRefusalStopsDelivery(t *testing.T) {
	g := startGuarded(t, "in process", "--trust-docroot", "--hurry", "20ms")
	until(t, func() bool { return g.forms().Evidence.Round.Done && g.forms().Evidence.Public == 33 })
	begin := g.cursor()
	g.write("open/a.html", "<p>Edited, and given to anybody.")
	body := func() bool { return strings.Contains(g.door("parley/changes?as=page&after="+begin), "Edited, and") }
	archive := func() int { code, _ := get(g.doors + "parley/site.wacz"); return code }
	until(t, func() bool { return body() && archive() == 200 })
	run := func(args ...string) (int, string) {
		var out bytes.Buffer
		code := command.Main(t.Context(), notifier, append(args, "--base", g.base, "--state", g.state), nil, &out, &out)
		return code, out.String()
	}
	g.closed.Store(true)
	if code, said := run("recheck"); code != 0 {
		t.Fatal(said)
	}
	until(t, func() bool { return g.forms().Evidence.Mass })
	until(t, func() bool { return !body() && archive() != 200 }) // evidence found a moment ago still counts briefly
	if strings.Contains(g.plainBatch("GET", "parley/batch?after="+begin, ""), "Edited, and") {
		t.Error("refused content is delivered")
	}
	if !strings.Contains(g.door("robots.rdf"), "open/n7.html") {
		t.Error("a refused page was announced as deleted")
	}
	if code, said := run("status"); code != 1 || !strings.Contains(said, "--accept-refusals") || !strings.Contains(said, "MANY ARE REFUSED") {
		t.Errorf("status: %d: %s", code, said)
	}
	if code, said := run("recheck", "--accept-refusals"); code != 0 {
		t.Fatal(said)
	}
	until(t, func() bool { return !strings.Contains(g.door("robots.rdf"), "open/n7.html<") && body() })
	until(t, func() bool { return archive() == 200 })
	if all := unzipped(t, g.door("parley/site.wacz")); strings.Contains(all, "One of many.") || !strings.Contains(all, "And this.") {
		t.Error("the archive contains refused pages, or lacks public ones")
	}
	if code, said := run("status"); code != 0 {
		t.Errorf("status: %d: %s", code, said)
	}
}

// A purged page leaves no more: not in an archive, an old version or a delta.
func TestPurgeDiscardsStoredContent(t *testing.T) {
	g := startGuarded(t, "in process", "--trust-docroot", "--hurry", "0") // an archive stays for an hour
	const words = "the password is 12345"
	g.write("open/a.html", "<p>Here "+words+strings.Repeat(" and more of it", 100))
	begin := g.cursor()
	until(t, func() bool { return strings.Contains(g.everything(begin), words) || g.cursor() != begin })
	until(t, func() bool { return strings.Contains(unzipped(t, g.door("parley/site.wacz")), "open/a.html") })
	g.write("open/a.html", "<p>Here "+strings.Repeat(" and more of it", 100))
	until(t, func() bool { return !strings.Contains(g.door("parley/changes?as=page&after="+begin), words) })
	var out, errs bytes.Buffer
	code := command.Main(t.Context(), notifier, []string{"purge", "--base", g.base, "--state", g.state, g.base + "open/a.html"}, nil, &out, &errs)
	if code != 0 || !strings.Contains(out.String(), "1 archives and its old versions") {
		t.Errorf("purge: %d: %s%s", code, out.String(), errs.String())
	}
	if all := g.everything(begin); strings.Contains(all, words) {
		t.Error("purged content is still delivered")
	}
	for _, wrong := range []string{"https://other.example/", ":"} {
		if code := command.Main(t.Context(), notifier, []string{"purge", "--base", g.base, "--state", g.state, wrong}, nil, io.Discard, io.Discard); code != 1 {
			t.Errorf("purge %s: %d", wrong, code)
		}
	}
}

// A recheck finds at once that the web server's responses changed, and reports it.
func TestRecheck(t *testing.T) {
	g := startGuarded(t, "in process", "--trust-docroot")
	until(t, func() bool { return g.forms().Evidence.Round.Done && g.forms().Evidence.Public == 33 })
	for _, args := range [][]string{{"recheck"}, {"recheck", "--accept-refusals"}} {
		var out bytes.Buffer
		if code := command.Main(t.Context(), notifier, append(args, "--base", g.base, "--state", g.state), nil, &out, io.Discard); code != 0 || !strings.Contains(out.String(), "33 were public") {
			t.Errorf("%q: %d: %s", args, code, out.String())
		}
	}
	until(t, func() bool { // the page announced before its check is being withdrawn
		var out bytes.Buffer
		code := command.Main(t.Context(), notifier, []string{"status", "--base", g.base, "--state", g.state}, nil, &out, io.Discard)
		return code == 0 && strings.Contains(out.String(), "33 of 33 pages are served to anonymous clients, 3 more are refused")
	})
	g.stop()
	if code := command.Main(t.Context(), notifier, []string{"recheck", "--base", g.base, "--state", g.state}, nil, io.Discard, io.Discard); code != 1 {
		t.Errorf("recheck without a notifier: exit code %d", code)
	}
}

// A lost robots.txt needs a person, and status says so until it is back or accepted.
func TestStatusReportsLostRobots(t *testing.T) {
	g := startGuarded(t, "in process", "--hurry", "20ms", "--robots-wait", "10ms")
	status := func() (int, string) {
		var out bytes.Buffer
		code := command.Main(t.Context(), notifier, []string{"status", "--base", g.base, "--state", g.state}, nil, &out, &out)
		return code, out.String()
	}
	const rules = "User-agent: *\nDisallow: /open/n1\n"
	g.write("robots.txt", rules)
	until(t, func() bool { // it has been read and accepted
		code, said := status()
		return !strings.Contains(g.door("robots.rdf"), "open/n1.html") && code == 0 && !strings.Contains(said, "robots.txt")
	})
	must.OK(t, os.Remove(filepath.Join(g.root, "robots.txt")))
	until(t, func() bool { code, said := status(); return code == 1 && strings.Contains(said, "restore it") })
	g.write("robots.txt", rules)
	until(t, func() bool { code, _ := status(); return code == 0 })
}
