package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/front"
	"github.com/parleyweb/parley/protocol"
)

var notifierProgram string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "parley-cms-")
	if err != nil {
		panic(err)
	}
	notifierProgram = filepath.Join(dir, "notifier")
	if msg, err := exec.Command("go", "build", "-o", notifierProgram, "../../cmd/notifier").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the notifier: %v\n%s", err, msg)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

const (
	testToken    = "a-token-that-tests-have"
	testPassword = "a password for tests"
)

// A world consists of the content management system, the notifier beside it, a
// subscriber and a mirror.
type world struct {
	*testing.T
	dir      string
	base     string
	sidecar  string // address of the notifier
	web      *httptest.Server
	stopHook func()
	site     *Site

	notifier *exec.Cmd
	said     *bytes.Buffer

	mu     sync.Mutex // guards the fields below
	told   []string   // changes that the subscriber has received, as "create slug"
	asked  []request
	served http.Handler
}

type request struct {
	path        string
	conditional bool
	status      int
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, dir: t.TempDir()}
	w.web = httptest.NewServer(w)
	t.Cleanup(w.web.Close)
	w.base = w.web.URL + "/"
	w.sidecar = front.FreeAddress()
	w.must(os.WriteFile(filepath.Join(w.dir, "token"), []byte(testToken+"\n"), 0o600))
	w.startCMS()
	t.Cleanup(func() {
		w.stopHook()
		w.stopNotifier()
		if t.Failed() {
			t.Logf("the notifier said:\n%s", w.said)
		}
	})
	w.startNotifier()
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// startCMS starts the content management system with the pages of its last run.
func (w *world) startCMS() {
	store, err := OpenStore(filepath.Join(w.dir, "pages.json"))
	w.must(err)
	door, err := url.Parse("http://" + w.sidecar)
	w.must(err)
	w.site = &Site{Store: store, Base: w.base, Password: testPassword, Notifier: door}
	w.mu.Lock()
	w.served = w.site.Handler()
	w.mu.Unlock()
	hook := &Hook{Store: store, Site: w.site, Announce: door.JoinPath("parley/announce").String(), Token: testToken,
		Log: slog.New(slog.NewTextHandler(w.Output(), nil))}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- hook.Run(ctx) }()
	w.stopHook = func() {
		cancel()
		if err := <-ended; err != nil {
			w.Error(err)
		}
		w.stopHook = func() {}
	}
}

func (w *world) startNotifier() {
	w.said = new(bytes.Buffer)
	w.notifier = exec.Command(notifierProgram, "--base", w.base, "--listen", w.sidecar, "--state", filepath.Join(w.dir, "state"),
		"--announce-tokens", filepath.Join(w.dir, "token"))
	w.notifier.Stdout, w.notifier.Stderr = w.said, w.said
	w.must(w.notifier.Start())
	w.until("the notifier responds", func() bool {
		resp, err := http.Get(w.base + "robots.rdf")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// stopNotifier kills the notifier, as a power cut would.
func (w *world) stopNotifier() {
	if w.notifier != nil {
		w.notifier.Process.Kill()
		w.notifier.Wait()
		w.notifier = nil
	}
}

func (w *world) until(what string, is func() bool) {
	w.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("%s: not within 30 s", what)
		}
	}
}

// ServeHTTP serves the content management system, and logs the requests for pages.
func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	h := w.served
	w.mu.Unlock()
	if strings.HasPrefix(r.URL.Path, "/parley/") {
		h.ServeHTTP(rw, r) // a stream takes the connection over
		return
	}
	rec := &recorder{ResponseWriter: rw, status: 200}
	h.ServeHTTP(rec, r)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, request{r.URL.Path, r.Header.Get("If-None-Match") != "", rec.status})
}

type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(code int) {
	r.status = code
	r.ResponseWriter.WriteHeader(code)
}

// do sends an edit as JSON, as a script would.
func (w *world) do(what, old string, p Page) {
	w.Helper()
	body, err := json.Marshal(map[string]any{"old": old, "slug": p.Slug, "title": p.Title, "body": p.Body, "status": p.Status})
	w.must(err)
	req, err := http.NewRequest("POST", w.base+"admin/"+what, bytes.NewReader(body))
	w.must(err)
	req.Header.Set("Content-Type", "application/json")
	req.SetBasicAuth("editor", testPassword)
	resp, err := http.DefaultClient.Do(req)
	w.must(err)
	defer resp.Body.Close()
	if msg, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusNoContent {
		w.Fatalf("%s %s: %s %s", what, p.Slug, resp.Status, msg)
	}
}

func (w *world) save(old, slug, body string, status Status) {
	w.Helper()
	w.do("save", old, Page{Slug: slug, Title: "About " + slug, Body: body, Status: status})
}

// get requests a page as a visitor, or as an editor.
func (w *world) get(path, password string) (status int, body string) {
	w.Helper()
	req, err := http.NewRequest("GET", w.base+path, nil)
	w.must(err)
	if password != "" {
		req.SetBasicAuth("editor", password)
	}
	resp, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(req)
	w.must(err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	w.must(err)
	return resp.StatusCode, string(b)
}

// subscribe receives the site's changes until the test ends.
func (w *world) subscribe() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	w.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		for step := range client.Follow(ctx, &client.Source{Base: w.base, UserAgent: "test"}, protocol.Cursor{}) {
			w.mu.Lock()
			for _, c := range step.Changes {
				if slug := strings.TrimPrefix(c.Item.URL, w.base); slug != "" { // the home page changes with all others
					w.told = append(w.told, string(c.Op)+" "+slug)
				}
			}
			w.mu.Unlock()
		}
	}()
}

// hears waits until the subscriber has received exactly these changes since the last call,
// in any order, and returns how long that took.
func (w *world) hears(want ...string) time.Duration {
	w.Helper()
	began := time.Now()
	slices.Sort(want)
	var got []string
	defer func() {
		if w.Failed() {
			w.Logf("heard %q", got)
		}
	}()
	w.until(fmt.Sprintf("the subscriber hears %q", want), func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		got = slices.Sorted(slices.Values(w.told))
		return len(got) >= len(want)
	})
	took := time.Since(began)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = nil
	if !slices.Equal(got, want) {
		w.Errorf("the subscriber heard %q, want %q", got, want)
	}
	return took
}

// startMirror keeps a copy until the test ends.
func (w *world) startMirror() (dir string) {
	m := crawl.Copy{Base: w.base, Dir: filepath.Join(w.dir, "copy"), Contact: "test"}
	c, err := m.Open()
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	w.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, c.Collection.Close()); err != nil {
			w.Error(err)
		}
	})
	return m.Dir
}

// files returns the files of a directory, except for the mirror's own.
func files(t *testing.T, dir string) map[string]string {
	m := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case d != nil && d.IsDir() && d.Name() == ".parley":
			return filepath.SkipDir
		case err != nil || d.IsDir():
			return nil // a file may have gone meanwhile
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		m[filepath.ToSlash(strings.TrimPrefix(path, dir+string(filepath.Separator)))] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// public returns the expected content of the copy.
func (w *world) public() map[string]string {
	m := map[string]string{}
	list, _ := w.site.Store.Pages(Public)
	for _, p := range append(list, Page{}) {
		d, ok := w.site.Document("/" + p.Slug)
		if !ok {
			w.Fatalf("no page %q", p.Slug)
		}
		m[cmp.Or(p.Slug, "index")+".html"] = string(d.Body)
	}
	return m
}

func (w *world) wantCopy(dir string) {
	w.Helper()
	want := w.public()
	var got map[string]string
	defer func() {
		if w.Failed() {
			w.Logf("the copy is %q\nwant %q", got, want)
		}
	}()
	w.until("the copy is equal", func() bool {
		got = files(w.T, dir)
		return fmt.Sprint(got) == fmt.Sprint(want)
	})
}

func TestEditsReachSubscriberAndMirror(t *testing.T) {
	w := newWorld(t)
	w.save("", "first", "one", Public)
	w.until("the first page is announced", func() bool { return len(w.site.Store.Owed(1)) == 0 })
	w.subscribe()
	w.hears("create first")
	dir := w.startMirror()
	w.wantCopy(dir)

	var took []time.Duration
	w.save("", "second", "two", Public)
	took = append(took, w.hears("create second"))
	w.save("first", "first", "one, but better", Public)
	took = append(took, w.hears("update first"))
	w.save("second", "other", "two", Public)
	took = append(took, w.hears("create other", "delete second"))
	if code, _ := w.get("second", ""); code != http.StatusPermanentRedirect {
		t.Errorf("status %d for the old URL", code)
	}
	w.save("", "third", "three", Public)
	took = append(took, w.hears("create third"))
	w.do("delete", "other", Page{})
	took = append(took, w.hears("delete other"))
	t.Logf("from the response to the edit to the subscriber: %v", took)
	slices.Sort(took)
	if median := took[len(took)/2]; median > time.Second {
		t.Errorf("median delay from edit to subscriber %v, want 1 s at most", median)
	}
	w.wantCopy(dir)

	// A page that is not public is announced to nobody.
	w.save("", "plan", "a draft", Draft)
	w.save("plan", "plan", "a better draft", Draft)
	w.save("", "salaries", "for us alone", Private)
	w.save("salaries", "wages", "for us alone", Private)
	w.do("delete", "wages", Page{})
	w.save("", "notes", "for us alone", Private)
	w.save("third", "third", "three again", Public)
	w.hears("update third")
	for _, slug := range []string{"plan", "notes", "wages", "salaries"} {
		if code, _ := w.get(slug, ""); code != http.StatusNotFound {
			t.Errorf("%s: status %d", slug, code)
		}
	}
	if code, body := w.get("notes", testPassword); code != http.StatusOK || !strings.Contains(body, "for us alone") {
		t.Errorf("status %d for an editor", code)
	}
	if _, manifest := w.get("robots.rdf", ""); strings.Contains(manifest, "plan") || strings.Contains(manifest, "notes") {
		t.Error("the manifest lists a page that is not public")
	}
	w.save("plan", "plan", "no draft any more", Public)
	w.hears("create plan")
	w.save("third", "third", "three again", Private) // unpublish it
	w.hears("delete third")
	w.save("plan", "plan-b", "no draft any more", Draft)
	w.hears("delete plan")
	w.wantCopy(dir)

	// Neither side needs the other to be running.
	w.stopNotifier()
	w.save("", "fourth", "four", Public)
	w.save("first", "first", "one, without a notifier", Public)
	w.stopHook()
	w.startCMS() // pending notices are stored in the file
	w.do("delete", "fourth", Page{})
	w.save("", "fifth", "five", Public)
	w.startNotifier()
	w.hears("update first", "create fifth")
	w.wantCopy(dir)

	// A repeated announcement causes no change.
	w.do("announce", "", Page{})
	w.until("all pages are announced again", func() bool { return len(w.site.Store.Owed(1)) == 0 })
	w.save("", "last", "last", Public)
	w.hears("create last")
	w.wantCopy(dir)

	// A page that is announced with a date only is fetched with its ETag.
	first, _, _ := w.site.Store.Page("first")
	w.until("the script, which knows seconds only, has a later one", func() bool { return time.Now().Truncate(time.Second).After(first.Modified) })
	w.script("/first", "/does-not-exist")
	w.hears("create does-not-exist", "update first")
	w.until("a conditional request", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.Contains(w.asked, request{"/first", true, http.StatusNotModified})
	})
	w.wantCopy(dir)
}

// script announces paths with the script that README.md shows.
func (w *world) script(paths ...string) {
	w.Helper()
	readme, err := os.ReadFile("README.md")
	w.must(err)
	_, rest, _ := strings.Cut(string(readme), "```sh\n")
	script, _, ok := strings.Cut(rest, "```")
	if !ok {
		w.Fatal("README.md has no script")
	}
	if _, err := exec.LookPath("curl"); err != nil {
		w.Skip("no curl")
	}
	cmd := exec.Command("sh", append([]string{"-c", script + "\nannounce \"$@\"", "sh"}, paths...)...)
	cmd.Env = append(os.Environ(), "TOKEN_FILE="+filepath.Join(w.dir, "token"), "NOTIFIER=http://"+w.sidecar)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), `"cursor"`) {
		w.Fatalf("the script: %v: %s%s", err, out, said.String())
	}
}

func TestConditional(t *testing.T) {
	store, err := OpenStore(filepath.Join(t.TempDir(), "pages.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Save("", Page{Slug: "a", Title: "A", Body: "<script>", Status: Public}); err != nil {
		t.Fatal(err)
	}
	h := (&Site{Store: store, Base: "http://site.example/"}).Handler()
	ask := func(header ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", "/a", nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		return rec
	}
	first := ask()
	if first.Code != 200 || !strings.Contains(first.Body.String(), "&lt;script&gt;") {
		t.Fatalf("%d %s", first.Code, first.Body)
	}
	for _, header := range [][]string{{"If-None-Match", first.Header().Get("ETag")}, {"If-Modified-Since", first.Header().Get("Last-Modified")}} {
		if got := ask(header...); got.Code != http.StatusNotModified {
			t.Errorf("%q: %d", header, got.Code)
		}
	}
	if err := store.Save("a", Page{Slug: "a", Title: "A", Body: "other", Status: Public}); err != nil {
		t.Fatal(err)
	}
	if got := ask("If-None-Match", first.Header().Get("ETag")); got.Code != http.StatusOK {
		t.Errorf("a changed page: %d", got.Code)
	}
}

func TestEditors(t *testing.T) {
	store, err := OpenStore(filepath.Join(t.TempDir(), "pages.json"))
	if err != nil {
		t.Fatal(err)
	}
	s := &Site{Store: store, Base: "http://site.example/", Password: testPassword}
	post := func(password, origin, body string) int {
		r := httptest.NewRequest("POST", "http://site.example/admin/save", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", origin)
		r.SetBasicAuth("x", password)
		rec := httptest.NewRecorder()
		s.Handler().ServeHTTP(rec, r)
		return rec.Code
	}
	const form = "slug=a&title=A&body=x&status=public"
	for _, c := range []struct {
		password, origin, form string
		want                   int
	}{
		{"wrong", "http://site.example", form, 401}, {"", "http://site.example", form, 401},
		{testPassword, "http://evil.example", form, 403},
		{testPassword, "http://site.example", "slug=A/../b&status=public", 400},
		{testPassword, "http://site.example", "slug=admin&status=public", 400},
		{testPassword, "http://site.example", "slug=a&status=other", 400},
		{testPassword, "http://site.example", form, 303},
		{testPassword, "http://site.example", form, 400}, // there is one
	} {
		if got := post(c.password, c.origin, c.form); got != c.want {
			t.Errorf("%q from %s: %d, want %d", c.form, c.origin, got, c.want)
		}
	}
	s.Password = ""
	if got := post("", "http://site.example", form); got != 401 {
		t.Errorf("status %d for an edit without CMS_PASSWORD", got)
	}
}
