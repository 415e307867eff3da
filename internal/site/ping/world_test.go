package ping_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

const base = "https://www.example.org/"

type roundTripper = http.RoundTripper

// A world is a site's journal, and a web whose hosts answer in process.
type world struct {
	t       testing.TB
	file    string
	journal *journal.Journal
	opts    journal.Options
	log     *slog.Logger

	mu     sync.Mutex
	hosts  map[string]roundTripper
	secret map[string]bool // URLs that are not public
	told   int             // changes appended

	// The state of the topics, which the site writes after its journal.
	writes    bool
	shown     int             // changes that the topics contain
	written   protocol.Cursor // and their position in the journal
	published protocol.Cursor // the position that the site reports
}

// write writes the topics, and publish reports it: a separate step, as in a process with several files to
// write.
func (w *world) write() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shown, w.written = w.told, w.journal.Head()
}

func (w *world) publish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.published = w.written
}

// lagging returns the field Published of a sender of this world.
func (w *world) lagging() func() protocol.Cursor {
	if !w.writes {
		return nil
	}
	return func() protocol.Cursor {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.published
	}
}

// scratch returns a directory for many small journals: in memory if possible, since these tests kill
// processes, not machines.
func scratch(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "ping")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// newWorld returns a world after its first scan, without any page.
func newWorld(t testing.TB) *world {
	w := &world{t: t, file: filepath.Join(scratch(t), "journal"), hosts: make(map[string]roundTripper), secret: make(map[string]bool),
		log: slog.New(slog.NewTextHandler(testWriter{t}, nil))}
	w.open()
	t.Cleanup(func() { w.journal.Close() })
	w.must(w.journal.EndBaseline())
	return w
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s %s", time.Now().UTC().Format("02 15:04:05"), strings.TrimSpace(string(b)))
	return len(b), nil
}

func (w *world) open() {
	w.t.Helper()
	w.journal = must.Get(journal.Open(w.file, &w.opts))
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// page returns a new version of a page, modified now, with new bytes.
func page(name string) protocol.Item {
	return protocol.Item{URL: base + name, Modified: time.Now().UTC().Truncate(time.Millisecond), Length: 1, Type: "text/html", Digest: protocol.Sum([]byte(rand.Text()))}
}

func create(name string) journal.Step {
	return journal.Step{Op: protocol.Create, Entry: journal.Entry{Item: page(name)}}
}

// update changes a share of a page; a negative share means unknown.
func update(name string, share float64) journal.Step {
	s := journal.Step{Op: protocol.Update, Entry: journal.Entry{Item: page(name)}}
	if share >= 0 {
		s.Significance = protocol.SignificanceOf(share)
	}
	return s
}

func remove(name string) journal.Step {
	return journal.Step{Op: protocol.Delete, Entry: journal.Entry{Item: protocol.Item{URL: base + name, Length: -1}}}
}

func move(from, to string) journal.Step {
	return journal.Step{Op: protocol.Move, From: base + from, Entry: journal.Entry{Item: page(to)}}
}

// change appends steps to the journal.
func (w *world) change(steps ...journal.Step) {
	w.t.Helper()
	must.Get(w.journal.Append(context.Background(), steps))
	w.mu.Lock()
	w.told += len(steps)
	w.mu.Unlock()
}

func (w *world) public(url string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.secret[url]
}

func (w *world) setPublic(name string, is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.secret[base+name] = !is
}

func (w *world) host(name string, rt http.RoundTripper) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts[name] = rt
}

// client returns an HTTP client for this world.
func (w *world) client() *http.Client { return &http.Client{Transport: w} }

func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	h := w.hosts[r.URL.Host]
	w.mu.Unlock()
	if r.Body != nil {
		defer r.Body.Close()
	}
	if h == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("no route to host")}
	}
	return h.RoundTrip(r)
}

// serving answers with a handler.
type serving struct{ http.Handler }

func (s serving) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	in := r.Clone(r.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	in.RequestURI = r.URL.RequestURI()
	in.RemoteAddr = "192.0.2.1:1234"
	s.ServeHTTP(rec, in)
	return rec.Result(), nil
}

// response builds a response.
func response(r *http.Request, status int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Status: fmt.Sprint(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r}
}

// hanging is a body that never comes.
type hanging struct{ ctx context.Context }

func (h hanging) Read([]byte) (int, error) { <-h.ctx.Done(); return 0, h.ctx.Err() }
func (h hanging) Close() error             { return nil }

// endless is a body that never ends.
type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	e.read += len(b)
	return copy(b, strings.Repeat("<p>lies</p>", 1+len(b)/11)), nil
}
func (e *endless) Close() error { return nil }

// short returns URLs of the site without its base, in order.
func short(urls []string) string {
	var names []string
	for _, u := range urls {
		names = append(names, strings.TrimPrefix(u, base))
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func check[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// hostOf returns the host of a URL.
func hostOf(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return ""
	}
	return u.Host
}
