package main

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// A hosting serves what was deployed, and is a search engine and a hub too.
type hosting struct {
	*testing.T
	web, others *httptest.Server
	live, dir   string

	mu         sync.Mutex
	answer     http.HandlerFunc // of robots.rdf, if it is not the deployed file
	fail       int              // requests that the engine still answers with 503
	refuse     string           // the path that it refuses
	told, ping []string         // URLs sent to the engine, and topics sent to the hub
}

const buildKey = "0123456789abcdef"

func newHosting(t *testing.T) *hosting {
	h := &hosting{T: t, dir: t.TempDir()}
	h.live = filepath.Join(h.dir, "live")
	h.web = httptest.NewServer(http.HandlerFunc(h.serve))
	h.others = httptest.NewServer(http.HandlerFunc(h.receive))
	t.Cleanup(h.web.Close)
	t.Cleanup(h.others.Close)
	return h
}

func (h *hosting) serve(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	answer := h.answer
	h.mu.Unlock()
	if r.URL.Path == "/robots.rdf" && answer != nil {
		answer(w, r)
		return
	}
	http.FileServer(http.Dir(h.live)).ServeHTTP(w, r)
}

func (h *hosting) receive(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.URL.Path == "/hub" {
		h.ping = append(h.ping, strings.TrimPrefix(r.FormValue("hub.url"), h.web.URL))
		return
	}
	var notice struct {
		Key     string
		URLList []string
	}
	key, err := os.ReadFile(filepath.Join(h.live, buildKey+".txt"))
	switch {
	case h.fail > 0:
		h.fail--
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	case json.NewDecoder(r.Body).Decode(&notice) != nil || err != nil || notice.Key != string(key):
		w.WriteHeader(http.StatusForbidden)
	case h.refuse != "" && slices.Contains(notice.URLList, h.web.URL+h.refuse):
		http.Error(w, "not a URL of this host", http.StatusUnprocessableEntity)
	default:
		for _, u := range notice.URLList {
			h.told = append(h.told, strings.TrimPrefix(u, h.web.URL))
		}
	}
}

// build writes all pages anew, as a generator does in a fresh clone, some time ago.
func (h *hosting) build(name string, age time.Duration, pages map[string]string) string {
	h.Helper()
	dir := filepath.Join(h.dir, name)
	h.must(os.RemoveAll(dir))
	at := time.Now().Add(-age)
	for page, text := range pages {
		file := filepath.Join(dir, page)
		must.Write(h, file, text)
		h.must(os.Chtimes(file, at, at))
	}
	return dir
}

// deploy replaces what is live.
func (h *hosting) deploy(dir string) {
	h.Helper()
	h.must(os.RemoveAll(h.live))
	h.must(os.CopyFS(h.live, os.DirFS(dir)))
}

func (h *hosting) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// publish runs rdfgen publish and returns what it printed for people.
func (h *hosting) publish(code int, dir string, flags ...string) string {
	h.Helper()
	var out, errs strings.Builder
	args := append([]string{"publish", dir, "--base", h.web.URL, "--hurry", "10ms"}, flags...)
	if got := command.Main(h.Context(), rdfgen, args, nil, &out, &errs); got != code {
		h.Fatalf("rdfgen %q: exit code %d, want %d\n%s%s", args, got, code, out.String(), errs.String())
	}
	return errs.String()
}

// notify runs the call after the deployment, with an engine, and returns what the engine was sent.
func (h *hosting) notify(code int, dir string, flags ...string) []string {
	h.Helper()
	h.publish(code, dir, append(h.engine(), append([]string{"--wait-live"}, flags...)...)...)
	h.mu.Lock()
	defer h.mu.Unlock()
	told := slices.Sorted(slices.Values(h.told))
	h.told = nil
	return told
}

func (h *hosting) engine() []string {
	return []string{"--indexnow", h.others.URL + "/indexnow", "--indexnow-key", buildKey}
}

var located = regexp.MustCompile(`<loc>([^<]*)</loc>\s*<lastmod>([^<]*)</lastmod>`)

// dates returns the dates in a build's sitemap.
func (h *hosting) dates(dir string) map[string]string {
	h.Helper()
	text := must.Get(os.ReadFile(filepath.Join(dir, "sitemap.xml")))
	dates := map[string]string{}
	for _, m := range located.FindAllStringSubmatch(string(text), -1) {
		dates[strings.TrimPrefix(m[1], h.web.URL)] = m[2]
	}
	return dates
}

func (h *hosting) same(what string, got, want []string) {
	h.Helper()
	if !slices.Equal(got, want) {
		h.Errorf("%s: %q, want %q", what, got, want)
	}
}

func somePages(n int) map[string]string {
	pages := map[string]string{"index.html": "<title>Home</title><p>Welcome", "404.html": "Not here"}
	for i := range n {
		pages[fmt.Sprintf("p/%02d.html", i)] = fmt.Sprintf("<title>Page %d</title><p>This is the text of page %d.", i, i)
	}
	return pages
}

// A site is built anew for every deployment, each time in another place, without cache or history. Its dates stay those of the
// last real change, and exactly the changed pages are sent to the engine, once they are live.
func TestPublishBuilds(t *testing.T) {
	h, pages := newHosting(t), somePages(5)
	first := h.build("first", 48*time.Hour, pages)
	said := h.publish(0, first, h.engine()...)
	if !strings.Contains(said, "this is the first publication") || !strings.Contains(said, "new 6 ") || !strings.Contains(said, "Next: deploy "+first) {
		t.Errorf("first call: %s", said)
	}
	for _, file := range []string{"robots.rdf", "sitemap.xml", "changes.atom", "robots.txt", buildKey + ".txt"} {
		if _, err := os.Stat(filepath.Join(first, file)); err != nil {
			t.Error(err)
		}
	}
	dates := h.dates(first)
	if len(dates) != 6 {
		t.Errorf("sitemap: %v", dates)
	}
	h.deploy(first)
	h.same("a first publication sends", h.notify(0, first), nil)

	pages["p/03.html"] = "<title>Page 3</title><p>The text of page 3 is quite another one now."
	delete(pages, "p/01.html")
	pages["p/new.html"] = "<title>New</title><p>A page that was not there."
	second := h.build("second", time.Hour, pages)
	if said := h.publish(0, second, h.engine()...); !strings.Contains(said, "new 1 changed 1 moved 0 gone 1 ") {
		t.Errorf("after an edit: %s", said)
	}
	now := h.dates(second)
	if now["/p/03.html"] <= dates["/p/03.html"] || now["/p/new.html"] == "" {
		t.Errorf("dates %v", now)
	}
	delete(dates, "/p/01.html")
	for _, d := range []map[string]string{now, dates} {
		delete(d, "/p/03.html")
		delete(d, "/p/new.html")
	}
	if !maps.Equal(now, dates) {
		t.Errorf("dates of unchanged pages: %v, want %v", now, dates)
	}
	if st, err := os.Stat(filepath.Join(second, "p/00.html")); err != nil || time.Since(st.ModTime()) < 47*time.Hour {
		t.Errorf("an unchanged file is not healed: %v", st.ModTime())
	}

	h.must(filepath.WalkDir(second, func(file string, d fs.DirEntry, err error) error {
		if err == nil && runtime.GOOS != "windows" {
			if st, err := d.Info(); err != nil || st.Mode()&0o044 != 0o044 {
				t.Errorf("%s has mode %v: another user cannot deploy it", file, st.Mode())
			}
		}
		return err
	}))
	h.same("before the deployment", h.notify(1, second, "--timeout", "100ms"), nil)
	h.deploy(second)
	h.same("once live", h.notify(0, second), []string{"/p/01.html", "/p/03.html", "/p/new.html"})
	h.same("the call repeated", h.notify(0, second), nil)

	dates = h.dates(second)
	third := h.build("third", 0, pages)
	h.publish(0, third, h.engine()...)
	if now := h.dates(third); !maps.Equal(now, dates) {
		t.Errorf("dates after a rebuild: %v, want %v", now, dates)
	}
	h.deploy(third)
	h.same("a rebuild without changes", h.notify(0, third), nil)
}

// A webhook gets the changes of a build once they are live, and none twice.
func TestPublishPurgesCDN(t *testing.T) {
	h, pages := newHosting(t), somePages(3)
	var mu sync.Mutex
	var got []string
	fail := 1
	cdn := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		m, err := protocol.ParseMessage(b)
		mu.Lock()
		defer mu.Unlock()
		if fail--; fail == 0 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		got = append(got, fmt.Sprint(m.Kind, err))
		for _, c := range m.Changes {
			got = append(got, string(c.Op)+" "+strings.TrimPrefix(c.Item.URL, h.web.URL))
		}
	}))
	defer cdn.Close()
	purge := func(code int, dir string, flags ...string) string {
		return h.publish(code, dir, append(flags, "--webhook", cdn.URL)...)
	}
	first := h.build("first", time.Hour, pages)
	purge(0, first)
	h.deploy(first)
	purge(0, first, "--wait-live")
	h.same("purged after the first publication", got, nil)

	pages["p/01.html"] += " It was edited."
	delete(pages, "p/02.html")
	second := h.build("second", time.Hour, pages)
	purge(0, second)
	if said := purge(1, second, "--wait-live", "--timeout", "50ms"); !strings.Contains(said, "is not the manifest in ") {
		t.Errorf("before the deployment: %s", said)
	}
	h.same("purged before the deployment", got, nil)
	h.deploy(second)
	for range 2 { // a repeated call does nothing more
		purge(0, second, "--wait-live")
		h.same("purged", got, []string{"batch<nil>", "update /p/01.html", "delete /p/02.html"})
	}
}

// Whatever the live manifest's URL answers but the manifest itself or 404, nothing is written: all pages would look new.
func TestPublishNeedsLiveManifest(t *testing.T) {
	h := newHosting(t)
	dir := h.build("build", time.Hour, somePages(3))
	other := strings.Replace(h.web.URL, "127.0.0.1", "example.org", 1)
	manifest := func(base, complete string) string {
		return `<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/" xmlns:p="urn:parley:1#"><channel rdf:about="` +
			base + `/robots.rdf"><title>T</title><link>` + base + `/</link><description>D</description><p:items>1</p:items>` + complete +
			`<items><rdf:Seq><rdf:li rdf:resource="` + base + `/a.html"/></rdf:Seq></items></channel><item rdf:about="` + base +
			`/a.html"><title>A</title><link>` + base + `/a.html</link></item></rdf:RDF>`
	}
	const complete = "<p:complete>true</p:complete>"
	for what, answer := range map[string]http.HandlerFunc{
		"503":        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
		"403":        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) },
		"HTML":       func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<!DOCTYPE html><title>Soon here") },
		"nothing":    func(http.ResponseWriter, *http.Request) {},
		"broken":     func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"cut":        func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, manifest(h.web.URL, complete)[:480]) },
		"incomplete": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, manifest(h.web.URL, "")) },
		"other site": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, manifest(other, complete)) },
	} {
		h.mu.Lock()
		h.answer = answer
		h.mu.Unlock()
		if said := h.publish(1, dir); !strings.Contains(said, "nothing was written") || !strings.Contains(said, "--first") {
			t.Errorf("%s: %s", what, said)
		}
		for _, file := range []string{"robots.rdf", "sitemap.xml", "robots.txt"} {
			if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
				t.Errorf("%s: %s was written", what, file)
			}
		}
	}
	h.publish(0, dir, "--first")
	h.mu.Lock()
	h.answer = nil
	h.mu.Unlock()
	h.deploy(dir)
	h.publish(0, dir) // no longer the first

	// A cache has the 404 of the time before the first publication: robots.txt is proof that there is a manifest.
	h.must(os.Remove(filepath.Join(h.live, "robots.rdf")))
	again := h.build("again", time.Minute, somePages(3))
	for range 2 {
		if said := h.publish(1, again); !strings.Contains(said, "the live robots.txt names it") || !strings.Contains(said, "nothing was written") {
			t.Errorf("a cached 404: %s", said)
		}
	}
	if _, err := os.Stat(filepath.Join(again, "robots.rdf")); err == nil {
		t.Error("a cached 404: robots.rdf was written")
	}
	h.publish(0, again, "--first")
	h.deploy(dir)
	h.publish(0, dir)
	before := h.dates(dir)
	if said := h.publish(2, dir, "--first"); !strings.Contains(said, "omit --first") || !maps.Equal(h.dates(dir), before) {
		t.Errorf("--first for ever: %s", said)
	}

	missing := []string{"--previous", filepath.Join(h.dir, "none.rdf")}
	for _, flags := range [][]string{{"--indexnow", "bing"}, missing, {"--previous", "s3://bucket/robots.rdf"}, {"--timeout", "0s"}, {"--out", "x", "--state", "y"}} {
		h.publish(2, dir, flags...)
	}
	h.publish(1, filepath.Join(h.dir, "none"))
	h.deploy(dir)
	h.publish(0, dir, append(missing, "--wait-live")...) // which needs no dates

	// A server that does not answer does not keep the second call for longer than its --timeout.
	h.mu.Lock()
	h.answer = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	h.mu.Unlock()
	begin := time.Now()
	h.publish(1, dir, "--wait-live", "--timeout", "100ms")
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("--timeout 100ms took %s", took)
	}
}

// A job is repeated or killed at any point, with what it left behind.
func TestPublishRepeated(t *testing.T) {
	h, pages := newHosting(t), somePages(4)
	dir := h.build("build", 48*time.Hour, pages)
	if said := h.publish(1, dir, "--wait-live"); !strings.Contains(said, "before the deployment") {
		t.Errorf("without a first call: %s", said)
	}
	h.publish(0, dir, h.engine()...)
	h.deploy(dir)

	// Two builds of which only the second is deployed.
	pages["p/00.html"] += "An edit that is taken back."
	h.publish(0, h.build("build", 3*time.Hour, pages), h.engine()...)
	pages["p/00.html"] = somePages(1)["p/00.html"]
	pages["p/01.html"] += "An edit that stays."
	h.publish(0, h.build("build", 2*time.Hour, pages), h.engine()...)
	h.deploy(dir)
	// The job ends here, and is repeated as a whole: the notice of the first run is sent.
	h.publish(0, h.build("build", time.Hour, pages), h.engine()...)
	h.deploy(dir)
	h.same("after a repeated job", h.notify(0, dir), []string{"/p/01.html"})

	// Another build is live than the one that is asked for.
	other := h.build("other", time.Minute, somePages(4))
	h.publish(0, other)
	h.deploy(other)
	pages["p/02.html"] += "One more edit."
	h.publish(0, h.build("build", time.Minute, pages), h.engine()...)
	h.same("while another build is live", h.notify(1, dir, "--timeout", "50ms"), nil)
	if said := h.publish(1, other, append(h.engine(), "--wait-live")...); !strings.Contains(said, "give this option before the deployment too") {
		t.Errorf("an engine of the second call only: %s", said)
	}

	// An engine that does not answer is tried again, and what it was not sent waits for the next call.
	h.deploy(dir)
	h.mu.Lock()
	h.fail = 1
	h.mu.Unlock()
	h.same("while the engine is down", h.notify(1, dir, "--timeout", "50ms"), nil)
	h.same("later", h.notify(0, dir, "--timeout", "1m"), []string{"/p/01.html", "/p/02.html"})

	// A URL that the engine refuses is reported at once; all others are sent.
	pages["p/new.html"] = "A new page that is refused."
	pages["p/beside.html"] = "A new page beside it."
	h.publish(0, h.build("build", time.Minute, pages), h.engine()...)
	h.deploy(dir)
	h.mu.Lock()
	h.refuse = "/p/new.html"
	h.mu.Unlock()
	for range 2 {
		said := h.publish(1, dir, append(h.engine(), "--wait-live", "--timeout", "1h")...)
		if !strings.Contains(said, "refuses URLs: "+h.web.URL+"/p/new.html (422: not a URL of this host") || !strings.Contains(said, "everything else was sent") {
			t.Errorf("a refused URL: %s", said)
		}
	}
	h.mu.Lock()
	h.same("beside a refused URL", h.told, []string{"/p/beside.html"})
	h.told, h.refuse = nil, ""
	h.mu.Unlock()

	// A key that is not served is waited for.
	pages["p/03.html"] += "And another one."
	h.publish(0, h.build("build", time.Minute, pages), h.engine()...)
	h.deploy(dir)
	h.must(os.Remove(filepath.Join(h.live, buildKey+".txt")))
	said := h.publish(1, dir, append(h.engine(), "--wait-live", "--timeout", "50ms")...)
	if !strings.Contains(said, "is not served") || !strings.Contains(said, "run the same command again") || strings.Contains(said, "rotate") {
		t.Errorf("without the key: %s", said)
	}

	// The state of another build is told apart, and that of another site, as when a build is deployed for a preview first.
	os.Rename(other+".parley.db", dir+".parley.db")
	if said := h.publish(1, dir, "--wait-live"); !strings.Contains(said, "is not from the build") {
		t.Errorf("with another state: %s", said)
	}
	preview := []string{"--base", strings.Replace(h.web.URL, "127.0.0.1", "localhost", 1) + "/preview/", "--robots", filepath.Join(dir, "robots.txt")}
	h.publish(0, dir, preview...)
	if said := h.publish(1, dir, "--wait-live"); !strings.Contains(said, "is not from the build") {
		t.Errorf("with the state of another site: %s", said)
	}
	if said := h.publish(0, dir, h.engine()...); !strings.Contains(said, "new 0 changed 0 moved 0 gone 0 ") {
		t.Errorf("after another site: %s", said)
	}
}

// A file with sections is for several sites, and a build is one of them.
func TestPublishSection(t *testing.T) {
	h := newHosting(t)
	dir := h.build("build", time.Hour, somePages(3))
	conf := filepath.Join(h.dir, "parley.conf")
	must.Write(h, conf, "[www]\nexclude p/01.html\n[other]\n")
	if said := h.publish(2, dir, "--config", conf); !strings.Contains(said, "--site") {
		t.Errorf("said %s", said)
	}
	if said := h.publish(0, dir, "--config", conf, "--site", "www"); !strings.Contains(said, "new 3 ") {
		t.Errorf("said %s", said)
	}
}

// When most pages are missing, a person decides.
func TestPublishMassDeletion(t *testing.T) {
	h := newHosting(t)
	all := h.build("all", 48*time.Hour, somePages(40))
	h.publish(0, all)
	h.deploy(all)
	few := h.build("few", time.Hour, somePages(5))
	if said := h.publish(1, few); !strings.Contains(said, "--accept-deletions") {
		t.Errorf("said %s", said)
	}
	if said := h.publish(0, few, "--accept-deletions"); !strings.Contains(said, "gone 35 ") {
		t.Errorf("said %s", said)
	}
	if n := len(h.dates(few)); n != 6 {
		t.Errorf("%d pages in the sitemap, want 6", n)
	}
}

// Options override the preset, and a hub is pinged once a change is live.
func TestPublishOptions(t *testing.T) {
	h, pages := newHosting(t), somePages(2)
	flags := []string{"--websub", h.others.URL + "/hub", "--sitemap", "", "--rss", filepath.Join(h.dir, "build", "feed.xml"), "--write-robots=false"}
	cycle := func() []string {
		t.Helper()
		dir := h.build("build", time.Minute, pages)
		h.publish(0, dir, flags...)
		h.deploy(dir)
		h.publish(0, dir, append(flags, "--wait-live")...)
		h.mu.Lock()
		defer h.mu.Unlock()
		pings := slices.Sorted(slices.Values(h.ping))
		h.ping = nil
		return pings
	}
	h.same("first", cycle(), nil)
	for file, want := range map[string]bool{"feed.xml": true, "robots.rdf": true, "sitemap.xml": false, "changes.atom": false, "robots.txt": false} {
		if _, err := os.Stat(filepath.Join(h.live, file)); (err == nil) != want {
			t.Errorf("%s: %v", file, err)
		}
	}
	pages["p/00.html"] += "An edit."
	h.same("after an edit", cycle(), []string{"/feed.xml", "/robots.rdf"})
	h.same("after a rebuild", cycle(), nil)
}
