package endtoend

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parleyweb/parley/internal/must"
)

// forbidsSecret is a robots.txt that forbids /secret/.
const forbidsSecret = "User-agent: *\nDisallow: /drafts/\nDisallow: /secret/\n"

// robotsRig is a site with a page that robots.txt forbids, described by rdfgen as if from cron.
func robotsRig(t *testing.T) *rig {
	r := newRig(t)
	r.write("index.html", "<p>Welcome")
	r.write("secret/plan.html", "<p>The plan")
	r.write("robots.txt", forbidsSecret)
	r.wantManifest("index", false)
	return r
}

// cron runs rdfgen as cron does.
func (r *rig) cron(flags ...string) (said string, code int) {
	r.t.Helper()
	args := append([]string{"--docroot", r.root, "--base", r.base, "--state", r.state, "--out", r.path("robots.rdf")}, flags...)
	return run(r.t, "rdfgen", args...)
}

// wantManifest runs rdfgen, and checks whether the manifest names the secret page.
func (r *rig) wantManifest(when string, secret bool, flags ...string) {
	r.t.Helper()
	if said, code := r.cron(flags...); code != 0 {
		r.t.Fatalf("%s: rdfgen exits %d: %s", when, code, said)
	}
	if got := r.told("robots.rdf", "plan.html"); got != secret {
		r.t.Fatalf("%s: the secret page is announced: %v", when, got)
	}
	if !r.told("robots.rdf", r.base+`"`) {
		r.t.Fatalf("%s: the home page is not announced", when)
	}
}

// told reports whether a file of the docroot contains a text.
func (r *rig) told(file, what string) bool {
	r.t.Helper()
	b := must.Get(os.ReadFile(r.path(file)))
	return strings.Contains(string(b), what)
}

// A deployment deletes robots.txt, empties it, or leaves half of it. The old rules stay in force, the admin
// is warned once, and the next deployment, or two lines that say so, decide.
func TestRobotsLostUnderCron(t *testing.T) {
	r := robotsRig(t)
	r.must(os.Remove(r.path("robots.txt")))
	said, code := r.cron()
	if r.told("robots.rdf", "plan.html") {
		t.Fatal("the secret page is announced at once")
	}
	if code != 1 || !strings.Contains(said, "robots.txt is missing") || !strings.Contains(said, "Disallow:") {
		t.Errorf("rdfgen exits %d and prints %q", code, said)
	}
	r.wantManifest("missing", false)
	if said, _ = r.cron(); said != "" {
		t.Errorf("rdfgen prints again %q", said)
	}
	for _, text := range []string{"", "# soon\n", forbidsSecret[:len("User-agent: *\nDisallow: /drafts/")]} {
		r.write("robots.txt", text)
		r.wantManifest(fmt.Sprintf("as %q", text), false)
		r.wantManifest(fmt.Sprintf("as %q, again", text), false)
	}
	r.write("robots.txt", forbidsSecret+"Disallow: /more/\n")
	r.wantManifest("whole again", false)
	r.write("robots.txt", "User-agent: *\nDisallow: /drafts/\n")
	r.wantManifest("allowed", false)
	r.wantManifest("allowed for a while", true, "--robots-wait", "1ms")
	r.write("robots.txt", forbidsSecret)
	r.wantManifest("forbidden again", false)
	r.write("robots.txt", "User-agent: *\nDisallow:\n")
	r.wantManifest("allowed by a person who is sure", true, "--robots-now")
}

// The same holds under a notifier: when it starts without robots.txt, even after a kill, and when it sees
// half of one, for however long.
func TestRobotsLostUnderNotifier(t *testing.T) {
	r := robotsRig(t)
	r.must(os.Remove(r.path("robots.txt")))
	r.flags = []string{"--out", r.path("robots.rdf"), "--robots-wait", "2s", "--robots-remind", "10ms", "--write-every", "50ms"}
	for _, ended := range []func(){func() {}, func() { r.notifier.kill9() }, func() { r.notifier.stop() }} {
		ended()
		r.startNotifier()
		r.look()
		if r.told("robots.rdf", "plan.html") {
			t.Fatal("a notifier that starts without robots.txt announces the secret page")
		}
	}
	r.write("robots.txt", forbidsSecret)
	r.look()
	r.must(os.Truncate(r.path("robots.txt"), 0))
	r.until("the notifier reports the empty robots.txt", func() bool { return strings.Contains(r.notifier.said(), "has no rules") })
	r.look()
	r.write("robots.txt", forbidsSecret[:len("User-agent: *\nDisallow: /drafts/")])
	r.until("the notifier reports the changed robots.txt", func() bool { return strings.Contains(r.notifier.said(), "robots.txt has changed") })
	if r.told("robots.rdf", "plan.html") {
		t.Fatal("half of a robots.txt makes the secret page public")
	}
	status, code := run(t, "notifier", "status", "--base", r.base, "--state", r.state)
	if code != 0 || !strings.Contains(status, "robots.txt") {
		t.Errorf("notifier status exits %d, or does not mention robots.txt:\n%s", code, status)
	}
	r.write("robots.txt", forbidsSecret)
	r.look()
	r.write("robots.txt", "User-agent: *\nDisallow:\n")
	r.until("a permitted page is announced after the delay, without an event", func() bool { return r.told("robots.rdf", "plan.html") })
	r.write("robots.txt", forbidsSecret)
	r.until("a forbidden page is no longer announced", func() bool { return !r.told("robots.rdf", "plan.html") })
	r.write("robots.txt", "User-agent: *\nDisallow: /drafts/\n")
	if said, code := r.rdfgen("--robots-now", "--out", r.path("robots.rdf")); code != 0 || !r.told("robots.rdf", "plan.html") {
		t.Errorf("--robots-now exits %d: %s", code, said)
	}
}

// A site below a path obeys the robots.txt of its host, and does not start if that cannot be fetched.
func TestRobotsOfASiteBelowAPath(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"index.html": "<p>Welcome", "secret/plan.html": "<p>The plan"} {
		must.Write(t, filepath.Join(root, name), text)
	}
	mux := http.NewServeMux()
	mux.Handle("/docs/", http.StripPrefix("/docs/", http.FileServer(http.Dir(root))))
	mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "User-agent: *\nDisallow: /docs/secret\n")
	})
	web := httptest.NewServer(mux)
	defer web.Close()
	describe := func(state string, flags ...string) (said string, code int) {
		args := []string{"--docroot", root, "--base", web.URL + "/docs/", "--state", filepath.Join(dir, state), "--out", filepath.Join(dir, "robots.rdf")}
		return run(t, "rdfgen", append(args, flags...)...)
	}
	wantManifest := func(when string) {
		t.Helper()
		b := must.Get(os.ReadFile(filepath.Join(dir, "robots.rdf")))
		if text := string(b); strings.Contains(text, "plan.html") || !strings.Contains(text, `"`+web.URL+`/docs/"`) {
			t.Errorf("%s the manifest is:\n%s", when, text)
		}
	}
	if said, code := describe("state"); code != 0 {
		t.Fatalf("rdfgen exits %d: %s", code, said)
	}
	wantManifest("first")
	web.Close()
	if said, code := describe("state"); code != 1 || !strings.Contains(said, "cannot be read") {
		t.Errorf("rdfgen exits %d: %s", code, said)
	}
	wantManifest("while the host cannot be reached")
	if said, code := describe("new state"); code != 1 || !strings.Contains(said, "--robots") {
		t.Errorf("rdfgen exits %d: %s", code, said)
	}
	rules := filepath.Join(dir, "rules")
	must.Write(t, rules, "User-agent: *\nDisallow: /docs/secret\n")
	if said, code := describe("new state", "--robots", rules); code != 0 {
		t.Errorf("rdfgen exits %d: %s", code, said)
	}
	wantManifest("with a copy of its host's robots.txt")
}

// With --ask-via the self-check goes through the proxy, like all requests for pages, and its address does not
// count as one that may know this machine.
func TestSelfCheckThroughAProxy(t *testing.T) {
	dir := t.TempDir()
	root, asked := filepath.Join(dir, "public"), atomic.Int32{}
	must.Write(t, filepath.Join(root, "a.html"), "<p>A page")
	files := http.FileServer(http.Dir(root))
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Host == "site.invalid" && r.URL.Path == "/a.html" {
			asked.Add(1)
		}
		files.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	said, code := run(t, "rdfgen", "--docroot", root, "--base", "http://site.invalid/", "--state", filepath.Join(dir, "state"), "--out", filepath.Join(dir, "robots.rdf"),
		"--self-check", "--ask-via", proxy.URL, "--verbose")
	if code != 0 || asked.Load() == 0 || !strings.Contains(said, "1 of 1 pages were checked, and the web server serves them as published") || strings.Contains(said, "loopback") {
		t.Errorf("fetched %d times, rdfgen exits %d: %s", asked.Load(), code, said)
	}
}
