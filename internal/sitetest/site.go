// Package sitetest is a whole site for tests: files in a temporary docroot, a real Publisher and Notifier,
// and before them a web server in place of nginx, which logs requests and has faults to switch on.
package sitetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/archive"
	"github.com/parleyweb/parley/server/cel"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/manifest"
	"github.com/parleyweb/parley/server/versions"
)

// A Site runs until Close. It publishes changes when the test calls Publish, or by itself after Watch. Its
// methods are safe for concurrent use.
type Site struct {
	Base string // its URL, ending in "/"
	Dir  string // its docroot

	state string
	all   bool // it offers every form
	fail  func(error)
	front *httptest.Server

	mu      sync.Mutex // guards the fields below
	engine  *engine    // nil while the notifier is down
	watched bool
	conns   map[net.Conn]bool
	log     []Request
	faults  map[string]Fault
}

// An engine is the part of a site that a restart replaces.
type engine struct {
	journal   *server.Journal
	publisher *server.Publisher
	notifier  *doors.Notifier
	cancel    context.CancelFunc // ends the publisher's Run
	runs      sync.WaitGroup     // of that Run

	// For a site that offers every form.
	versions *versions.Store
	archives *archive.Maker
	handler  *versions.Handler
	end      context.CancelFunc // ends the archive maker
	making   sync.WaitGroup     // of the archive maker
}

// A Request is one line of the access log.
type Request struct{ Path, Agent string }

// NewSite starts a site with the given files, by path below the docroot, and publishes it. The site ends with
// the test, which fails if the site does.
func NewSite(t testing.TB, files map[string]string) *Site { return newSite(t, files, false) }

// NewWhole is NewSite for a site that offers every form, batches and queries, responds with differences, and
// keeps an archive.
func NewWhole(t testing.TB, files map[string]string) *Site { return newSite(t, files, true) }

func newSite(t testing.TB, files map[string]string, all bool) *Site {
	t.Helper()
	s, err := start(files, all)
	if err != nil {
		t.Fatal(err)
	}
	s.fail = func(err error) { t.Helper(); t.Fatalf("site: %v", err) }
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("site: %v", err)
		}
	})
	return s
}

// Start is NewSite without a test, for an Example. Methods that fail panic.
func Start(files map[string]string) (*Site, error) { return start(files, false) }

func start(files map[string]string, all bool) (*Site, error) {
	dir, err := os.MkdirTemp("", "site")
	if err != nil {
		return nil, err
	}
	s := &Site{
		Dir: filepath.Join(dir, "docroot"), state: filepath.Join(dir, "state"),
		all:   all,
		fail:  func(err error) { panic("site: " + err.Error()) },
		conns: map[net.Conn]bool{}, faults: map[string]Fault{},
	}
	s.front = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.front.Config.ConnState = s.connState
	s.front.Start()
	s.Base = s.front.URL + "/"
	if err := s.begin(files); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// begin publishes for the first time.
func (s *Site) begin(files map[string]string) error {
	if err := errors.Join(os.Mkdir(s.Dir, 0o777), os.Mkdir(s.state, 0o777)); err != nil {
		return err
	}
	for name, text := range files {
		if err := s.write(name, text); err != nil {
			return err
		}
	}
	if err := s.start(); err != nil {
		return err
	}
	_, err := s.engine.publisher.Turn(context.Background())
	if err == nil && s.all {
		err = s.engine.versions.Fill(context.Background())
	}
	return err
}

// Close ends everything, waits for it, and removes the files.
func (s *Site) Close() error {
	err := s.stop()
	s.Cut()
	s.front.Close()
	return errors.Join(err, os.RemoveAll(filepath.Dir(s.Dir)))
}

// start opens the journal and everything that uses it.
func (s *Site) start() error {
	out := filepath.Join(s.state, "robots.rdf")
	site := &server.Site{Docroot: s.Dir, Base: s.Base}
	j, err := server.OpenJournal(context.Background(), filepath.Join(s.state, "journal"), server.JournalOptions{Base: s.Base, Published: out})
	if err != nil {
		return err
	}
	snapshot := &manifest.Snapshot{Path: out, Manifest: doors.Describe(s.Base), Public: site.Public}
	e := &engine{
		journal: j,
		publisher: &server.Publisher{Inventory: site, Journal: j, Snapshot: snapshot,
			Pace: server.Pace{Grace: 50 * time.Millisecond, WriteEvery: 50 * time.Millisecond}},
		notifier: &doors.Notifier{Log: j, Snapshot: snapshot, Base: s.Base, Public: site.Public},
	}
	if s.all {
		e.offerAll(s, site)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.engine = e
	if s.watched {
		e.watch()
	}
	return snapshot.Load(j)
}

// stop closes the streams to followers and the journal.
func (s *Site) stop() error {
	s.mu.Lock()
	e := s.engine
	s.engine = nil
	s.mu.Unlock()
	if e == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := e.notifier.Close(ctx)
	if e.cancel != nil {
		e.cancel()
		e.runs.Wait()
	}
	if e.end != nil {
		e.end()
		e.making.Wait()
	}
	return errors.Join(err, e.journal.Close())
}

// offerAll makes the engine offer every form.
func (e *engine) offerAll(s *Site, site *server.Site) {
	e.versions = &versions.Store{Dir: filepath.Join(s.state, "versions"), Journal: e.journal, Open: site.OpenPage, Public: site.Public}
	e.publisher.Inventory = e.versions.Keeping(site)
	e.archives = &archive.Maker{Dir: filepath.Join(s.state, "archives"), Base: s.Base, Journal: e.journal, Pages: e.versions, Public: site.Public, Every: time.Millisecond}
	e.handler = &versions.Handler{Store: e.versions, Journal: e.journal, Base: s.Base, Public: site.Public}
	n := e.notifier
	n.Content.Pages, n.Content.Archive, n.Content.Items, n.Clients.Where = e.versions, e.archives, server.Moments(e.journal), new(cel.Expressions).Compile
	n.Content.Item = func(url string) (protocol.Item, bool, error) {
		i, ok, err := e.journal.Get(url)
		return i.Item, ok, err
	}
	ctx, end := context.WithCancel(context.Background())
	e.end = end
	e.making.Go(func() { e.archives.Run(ctx) })
}

// Archive waits until there is an archive of the current site.
func (s *Site) Archive() {
	s.mu.Lock()
	e := s.engine
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		a, ok := e.archives.Latest()
		if ok && a.Cursor == e.journal.Head() {
			return
		}
		if err := e.archives.Wait(ctx, a); err != nil {
			s.fail(err)
			return
		}
	}
}

func (e *engine) watch() {
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	e.runs.Go(func() { e.publisher.Run(ctx) })
}

// Watch makes the site publish changes in the docroot by itself from now on.
func (s *Site) Watch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.watched {
		s.watched = true
		s.engine.watch()
	}
}

// Publish scans everything, announces every deletion at once, writes the manifest, and returns the cursor of
// the site.
func (s *Site) Publish() protocol.Cursor {
	s.mu.Lock()
	e := s.engine
	s.mu.Unlock()
	if _, err := e.publisher.AcceptDeletions(context.Background()); err != nil {
		s.fail(err)
	}
	if e.versions != nil {
		if err := e.versions.Fill(context.Background()); err != nil {
			s.fail(err)
		}
	}
	return e.journal.Head()
}

// Head returns the cursor of the site.
func (s *Site) Head() protocol.Cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine.journal.Head()
}

// Restart stops the notifier, which closes its streams, and starts it again. Between the two it calls f, if
// that is not nil.
func (s *Site) Restart(f func()) {
	if err := s.stop(); err != nil {
		s.fail(err)
	}
	if f != nil {
		f()
	}
	if err := s.start(); err != nil {
		s.fail(err)
	}
}

// LoseState restarts without the journal: a new epoch begins.
func (s *Site) LoseState() {
	s.Restart(func() {
		if err := os.Remove(filepath.Join(s.state, "journal")); err != nil {
			s.fail(err)
		}
	})
	s.Publish()
}

// Write creates or replaces a file, by its path below the docroot.
func (s *Site) Write(name, text string) {
	if err := s.write(name, text); err != nil {
		s.fail(err)
	}
}

func (s *Site) write(name, text string) error {
	p := filepath.Join(s.Dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(p), 0o777); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(s.Dir), "new") // renamed, as editors do: no reader sees half a file
	if err != nil {
		return err
	}
	_, err = temp.WriteString(text)
	return errors.Join(err, temp.Close(), os.Rename(temp.Name(), p))
}

// Remove removes a file or directory.
func (s *Site) Remove(name string) {
	if err := os.RemoveAll(filepath.Join(s.Dir, filepath.FromSlash(name))); err != nil {
		s.fail(err)
	}
}

// Rename moves a file or directory.
func (s *Site) Rename(from, to string) {
	p := filepath.Join(s.Dir, filepath.FromSlash(to))
	err := os.MkdirAll(filepath.Dir(p), 0o777)
	if err := errors.Join(err, os.Rename(filepath.Join(s.Dir, filepath.FromSlash(from)), p)); err != nil {
		s.fail(err)
	}
}

// Pages returns the content of every page in the docroot, by URL. It does not handle names that need escapes,
// or rules that leave pages out.
func (s *Site) Pages() map[string]string {
	pages := map[string]string{}
	err := filepath.WalkDir(s.Dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.HasSuffix(p, ".html") {
			return err
		}
		b, err := os.ReadFile(p)
		rel := filepath.ToSlash(strings.TrimPrefix(p, s.Dir+string(filepath.Separator)))
		if rel == "index.html" || strings.HasSuffix(rel, "/index.html") {
			rel = strings.TrimSuffix(rel, "index.html")
		}
		pages[s.Base+rel] = string(b)
		return err
	})
	if err != nil {
		s.fail(err)
	}
	return pages
}

// Hits counts the requests for a path whose User-Agent contains agent; an empty path or agent matches any.
func (s *Site) Hits(path, agent string) (n int) {
	for _, r := range s.Requests() {
		if (path == "" || r.Path == path) && strings.Contains(r.Agent, agent) {
			n++
		}
	}
	return n
}

// Requests returns the access log.
func (s *Site) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// ForgetRequests clears the access log.
func (s *Site) ForgetRequests() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = nil
}

// serve is the web server: it forwards requests for the notifier, and serves the rest from the docroot,
// without listings and redirects.
func (s *Site) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.log = append(s.log, Request{r.URL.Path, r.UserAgent()})
	fault := s.faults[r.URL.Path]
	if fault == nil {
		fault = s.faults["*"]
	}
	e := s.engine
	s.mu.Unlock()
	own := http.HandlerFunc(s.page)
	if p := r.URL.Path; p == "/robots.rdf" || strings.HasPrefix(p, "/parley/") || p == "/.well-known/parley" {
		own = func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusBadGateway) }
		if e != nil {
			own = e.notifier.ServeHTTP
		}
	}
	if e != nil && e.handler != nil && !strings.HasPrefix(r.URL.Path, "/robots.") && !strings.HasPrefix(r.URL.Path, "/parley/") && !strings.HasPrefix(r.URL.Path, "/.well-known/") {
		own = e.handler.ServeHTTP
	}
	if fault != nil {
		fault(w, r, own)
		return
	}
	own(w, r)
}

func (s *Site) page(w http.ResponseWriter, r *http.Request) {
	name := filepath.Join(s.Dir, filepath.FromSlash(r.URL.Path))
	if strings.HasSuffix(r.URL.Path, "/") {
		name = filepath.Join(name, "index.html")
	}
	f, err := os.Open(name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("ETag", fmt.Sprintf(`"%x-%x"`, st.ModTime().UnixNano(), st.Size()))
	http.ServeContent(w, r, filepath.Base(name), st.ModTime(), f)
}

func (s *Site) connState(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state == http.StateClosed {
		delete(s.conns, c)
	} else {
		s.conns[c] = true
	}
}

// Cut ends all connections, streams included, like a network failure.
func (s *Site) Cut() {
	s.mu.Lock()
	conns := slices.Collect(maps.Keys(s.conns))
	clear(s.conns)
	s.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
}
