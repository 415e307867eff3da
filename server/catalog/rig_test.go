package catalog_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/catalog"
	"github.com/parleyweb/parley/server/inventory"
)

// A world is a dynamic site on the Web, lists of its pages, and a Publisher over a Catalog.
type world struct {
	*testing.T
	dir  string
	web  *httptest.Server
	base string

	mu    sync.Mutex // guards the fields below
	pages map[string]*answer
	asked []string // "GET /a 200"
	now   time.Time

	catalog   *catalog.Catalog
	journal   *server.Journal
	publisher *server.Publisher
	cursor    protocol.Cursor
	log       safeLog
}

// An answer is the site's response at a path.
type answer struct {
	body   string
	status int // zero means 200
	header http.Header
	serve  http.HandlerFunc // instead of the other fields
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, dir: t.TempDir(), pages: map[string]*answer{}, now: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}
	w.web = httptest.NewServer(w)
	t.Cleanup(w.web.Close)
	w.base = w.web.URL + "/"
	w.catalog = &catalog.Catalog{Base: w.base, Now: w.clock}
	w.catalog.Log = slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	j := must.Get(server.OpenJournal(t.Context(), w.path("state"), server.JournalOptions{Base: w.base, Now: w.clock}))
	w.journal = j
	t.Cleanup(func() { j.Close() })
	w.restart()
	return w
}

// restart makes another Publisher over another Catalog with the same settings: state that was only in memory
// is lost.
func (w *world) restart() {
	c := &catalog.Catalog{Base: w.catalog.Base, Sources: w.catalog.Sources, Exclude: w.catalog.Exclude, Robots: w.catalog.Robots,
		Fetch: w.catalog.Fetch, Journal: w.journal, Every: w.catalog.Every, Now: w.clock, Log: w.catalog.Log}
	w.catalog = c
	w.publisher = &server.Publisher{Inventory: c, Journal: w.journal, Now: w.clock, Log: c.Log}
}

func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	a := w.pages[r.URL.RequestURI()]
	w.mu.Unlock()
	code := http.StatusNotFound
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.asked = append(w.asked, fmt.Sprintf("%s %s %d", r.Method, r.URL.RequestURI(), code))
	}()
	if a == nil {
		http.NotFound(rw, r)
		return
	}
	if a.serve != nil {
		code = http.StatusOK
		a.serve(rw, r)
		return
	}
	for k, v := range a.header {
		rw.Header()[k] = v
	}
	if rw.Header().Get("Content-Type") == "" {
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
	}
	code = max(a.status, 200)
	if tag := rw.Header().Get("ETag"); tag != "" && r.Header.Get("If-None-Match") == tag && code == 200 {
		code = http.StatusNotModified
		rw.WriteHeader(code)
		return
	}
	rw.WriteHeader(code)
	fmt.Fprint(rw, a.body)
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

// write writes a file, with BASE replaced by the base URL. It is as old as the world, so that its next change
// can be noticed.
func (w *world) write(name, content string) string {
	w.Helper()
	path := w.path(name)
	must.Write(w, path, strings.ReplaceAll(content, "BASE", strings.TrimSuffix(w.base, "/")))
	return path
}

// page sets the response at a path, with an ETag of the content.
func (w *world) page(path, body string) {
	w.answer(path, answer{body: body, header: http.Header{"Etag": {fmt.Sprintf("%q", protocol.Sum([]byte(body)).String()[9:20])}}})
}

func (w *world) answer(path string, a answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pages[path] = &a
}

func (w *world) remove(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pages, path)
}

// requests returns the requests that the site got since the last call, except for robots.txt.
func (w *world) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []string
	for _, s := range w.asked {
		if !strings.Contains(s, "/robots.txt ") {
			list = append(list, s)
		}
	}
	w.asked = nil
	return list
}

func (w *world) look() inventory.Report {
	w.Helper()
	r, err := w.publisher.Scan(w.Context(), nil)
	if err != nil {
		w.Fatalf("look: %v\n%s", err, w.log.String())
	}
	return r
}

// baseline runs the first scan.
func (w *world) baseline() inventory.Report {
	w.Helper()
	r := w.look()
	w.cursor = w.journal.Head()
	return r
}

// wantTold checks the changes since the last call: "update a", without the base.
func (w *world) wantTold(want ...string) {
	w.Helper()
	changes := must.Get(w.journal.Read(w.Context(), w.cursor, 0))
	var got []string
	for _, c := range changes {
		s := string(c.Op) + " " + strings.TrimPrefix(c.Item.URL, w.base)
		if c.From != "" {
			s += " from " + strings.TrimPrefix(c.From, w.base)
		}
		got = append(got, s)
	}
	w.cursor = w.journal.Head()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.Errorf("changes %q, want %q\n%s", got, want, w.log.String())
	}
}

// wantPages checks which pages are published, in order.
func (w *world) wantPages(want ...string) {
	w.Helper()
	v := must.Get(w.journal.View())
	defer v.Close()
	var got []string
	for e, err := range v.Entries() {
		w.must(err)
		got = append(got, strings.TrimPrefix(e.Item.URL, w.base))
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		w.Errorf("published are %q, want %q\n%s", got, want, w.log.String())
	}
}

func (w *world) item(path string) protocol.Item {
	w.Helper()
	e, ok, err := w.journal.Get(w.base + path)
	w.must(err)
	if !ok {
		w.Fatalf("%s is not published\n%s", path, w.log.String())
	}
	return e.Item
}

// leftOut returns the reasons for entries left out, by place.
func (w *world) leftOut() map[string]string {
	w.Helper()
	m := map[string]string{}
	for o, err := range w.catalog.Scan(w.Context(), nil) {
		w.must(err)
		if o.LeftOut != "" {
			m[o.Place] = o.LeftOut
		}
	}
	return m
}

func date(s string) time.Time {
	d, err := protocol.ParseDate(s)
	if err != nil {
		panic(err)
	}
	return d.Time
}

// running runs the Publisher until the test ends.
func (w *world) running() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- w.publisher.Run(ctx) }()
	w.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Error(err)
		}
	})
}

// until waits up to 15 s for something to become true.
func (w *world) until(what string, is func() bool) {
	w.Helper()
	for deadline := time.Now().Add(15 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("%s: not within 15 s\n%s", what, w.log.String())
		}
	}
}

// gzipped sends a body, with a content coding if the request accepts it.
func gzipped(rw http.ResponseWriter, r *http.Request, body string) {
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		fmt.Fprint(rw, body)
		return
	}
	rw.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(rw)
	fmt.Fprint(z, body)
	z.Close()
}

// A safeLog is safe for concurrent writes.
type safeLog struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *safeLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *safeLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
