package server_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/inventory"
	"github.com/parleyweb/parley/server/manifest"
)

const base = "http://site.example/"

// A shelf is an Inventory in memory, with faults to switch on.
type shelf struct {
	mu        sync.Mutex
	pages     map[string]page // by path below base
	forbidden map[string]bool // by path
	unseen    []string        // directories that cannot be scanned
	unread    map[string]error
	busy      map[string]bool // being written
	mime      string          // of all pages
	fail      error           // fails a scan after failAfter offers
	failAfter int

	reads  int
	writes uint64
	dirty  func([]inventory.Scope)
	looked func() // called in the middle of every scan
}

type page struct {
	content string
	mod     time.Time
	stamp   uint64
}

func newShelf() *shelf {
	return &shelf{pages: map[string]page{}, forbidden: map[string]bool{}, unread: map[string]error{}, busy: map[string]bool{}, mime: "text/html"}
}

// put writes a page and notifies the watcher.
func (s *shelf) put(path, content string, mod time.Time) {
	s.mu.Lock()
	s.writes++
	s.pages[path] = page{content, mod, s.writes}
	s.mu.Unlock()
	s.tell(path)
}

func (s *shelf) remove(path string) {
	s.mu.Lock()
	delete(s.pages, path)
	s.mu.Unlock()
	s.tell(path)
}

func (s *shelf) rename(from, to string) {
	s.mu.Lock()
	s.pages[to] = s.pages[from]
	delete(s.pages, from)
	s.mu.Unlock()
	s.tell(from, to)
}

func (s *shelf) tell(paths ...string) {
	s.mu.Lock()
	dirty := s.dirty
	s.mu.Unlock()
	if dirty == nil {
		return
	}
	var scopes []inventory.Scope
	for _, p := range paths {
		scopes = append(scopes, dirOf(p))
	}
	dirty(scopes)
}

func dirOf(path string) inventory.Scope {
	return inventory.Scope{Prefix: base + path[:strings.LastIndexByte(path, '/')+1]}
}

func (s *shelf) Scan(ctx context.Context, scopes []inventory.Scope) iter.Seq2[inventory.Offer, error] {
	return func(yield func(inventory.Offer, error) bool) {
		s.mu.Lock()
		pages, unseen := maps.Clone(s.pages), slices.Clone(s.unseen)
		fail, failAfter, looked := s.fail, s.failAfter, s.looked
		s.mu.Unlock()
		if looked != nil {
			looked()
		}
		paths := slices.Collect(maps.Keys(pages))
		slices.SortFunc(paths, func(a, b string) int { return protocol.Compare(base+a, base+b) })
		n := 0
		for _, path := range paths {
			url := base + path
			if ctx.Err() != nil || !within(url, scopes) || slices.ContainsFunc(unseen, func(p string) bool { return strings.HasPrefix(path, p) }) {
				continue
			}
			if n++; fail != nil && n > failAfter {
				break
			}
			if !yield(s.offer(path), nil) {
				return
			}
		}
		for _, p := range unseen { // late on purpose
			if !yield(inventory.Offer{}, &inventory.UnseenError{Prefix: base + p, Err: fs.ErrPermission}) {
				return
			}
		}
		if fail != nil {
			yield(inventory.Offer{}, fail)
		}
	}
}

func within(url string, scopes []inventory.Scope) bool {
	return len(scopes) == 0 || slices.ContainsFunc(scopes, func(s inventory.Scope) bool { return s.Has(url) })
}

func (s *shelf) offer(path string) inventory.Offer {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pages[path]
	o := inventory.Offer{URL: base + path, Place: path, Modified: p.mod, Length: int64(len(p.content)), Type: s.mime,
		Stamp: binary.BigEndian.AppendUint64(nil, p.stamp), Unsettled: s.busy[path]}
	if s.forbidden[path] {
		o.LeftOut = "robots.txt"
	}
	return o
}

func (s *shelf) Read(ctx context.Context, o inventory.Offer) (inventory.Offer, error) {
	r := s.offer(o.Place)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	p, ok := s.pages[o.Place]
	if !ok {
		return o, fmt.Errorf("read %s: %w", o.Place, fs.ErrNotExist)
	}
	if err := s.unread[o.Place]; err != nil {
		return o, err
	}
	r.Digest = protocol.Sum([]byte(p.content))
	return r, nil
}

func (s *shelf) Watch(ctx context.Context, dirty func([]inventory.Scope)) error {
	s.mu.Lock()
	s.dirty = dirty
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.dirty = nil
	s.mu.Unlock()
	return ctx.Err()
}

func (s *shelf) Public(url string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	path, ok := strings.CutPrefix(url, base)
	return ok && !s.forbidden[path]
}

// A world is a shelf, its journal and its publisher, with a clock that only the test moves.
type world struct {
	*testing.T
	*shelf
	dir     string
	clockMu sync.Mutex
	now     time.Time // zero: the real time
	journal *server.Journal
	pub     *server.Publisher
	at      protocol.Cursor // what told has returned so far
	alone   bool            // of running: the Publisher ends before the story
	atEnd   func()          // of running: called when the Publisher has ended
	parts   int             // see manifest.Snapshot
	arrive  func()          // waits until the doors have what the journal has
}

func newWorld(t *testing.T) *world {
	return newWorldAt(t, time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
}

func newWorldAt(t *testing.T, now time.Time) *world {
	w := &world{T: t, shelf: newShelf(), dir: t.TempDir(), now: now, arrive: func() {}}
	w.open()
	t.Cleanup(func() { w.journal.Close() })
	return w
}

// clock may be read by any goroutine; only the test moves it.
func (w *world) clock() time.Time {
	w.clockMu.Lock()
	defer w.clockMu.Unlock()
	if w.now.IsZero() {
		return time.Now() // in a synctest bubble
	}
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.clockMu.Lock()
	defer w.clockMu.Unlock()
	w.now = w.now.Add(d)
}

// forbid forbids exactly these pages.
func (s *shelf) forbid(paths ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.forbidden)
	for _, p := range paths {
		s.forbidden[p] = true
	}
}

func (w *world) state() string { return filepath.Join(w.dir, "state") }
func (w *world) out() string   { return filepath.Join(w.dir, "robots.rdf") }

// open opens the journal and creates an idle publisher.
func (w *world) open() {
	w.Helper()
	j := must.Get(server.OpenJournal(w.Context(), w.state(), server.JournalOptions{Base: base, Published: w.out(), Now: w.clock}))
	w.journal = j
	w.pub = &server.Publisher{Inventory: w.shelf, Journal: j, Now: w.clock,
		Snapshot: &manifest.Snapshot{Path: w.out(), Manifest: doors.Describe(base), Public: w.Public, Parts: w.parts, Now: w.clock}}
}

// restart simulates a new process with the same state.
func (w *world) restart() {
	w.Helper()
	w.must(w.journal.Close())
	w.open()
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) write(path, content string) { w.put(path, content, w.clock()) }

func (w *world) look(dirs ...string) inventory.Report {
	w.Helper()
	var scopes []inventory.Scope
	for _, d := range dirs {
		deep := strings.HasSuffix(d, "**")
		scopes = append(scopes, inventory.Scope{Prefix: base + strings.TrimSuffix(d, "**"), Deep: deep})
	}
	rep := must.Get(w.pub.Scan(w.Context(), scopes))
	w.arrive()
	return rep
}

// told returns the changes since its last call.
func (w *world) told() string {
	w.Helper()
	head := w.journal.Head()
	if head.Epoch != w.at.Epoch {
		w.at = protocol.Cursor{Epoch: head.Epoch}
	}
	var s []string
	for {
		changes := must.Get(w.journal.Read(w.Context(), w.at, 7))
		if len(changes) == 0 {
			return strings.Join(s, ", ")
		}
		for _, c := range changes {
			s = append(s, tell(c))
			w.at.Seq = c.Seq
		}
	}
}

func tell(c protocol.Change) string {
	s := string(c.Op) + " " + strings.TrimPrefix(c.Item.URL, base)
	if c.From != "" {
		s = string(c.Op) + " " + strings.TrimPrefix(c.From, base) + "->" + strings.TrimPrefix(c.Item.URL, base)
	}
	return s
}

func (w *world) wantTold(want string) {
	w.Helper()
	if got := w.told(); got != want {
		w.Errorf("told\n\t%s\nwant\n\t%s", cmp.Or(got, "nothing"), cmp.Or(want, "nothing"))
	}
}

// wantPresent checks that the journal has exactly the existing pages.
func (w *world) wantPresent() {
	w.Helper()
	want := map[string]protocol.Digest{}
	for path, p := range w.pages {
		if !w.forbidden[path] {
			want[base+path] = protocol.Sum([]byte(p.content))
		}
	}
	got := w.present()
	if !maps.Equal(got, want) {
		w.Errorf("the journal has %d pages, want %d: %v", len(got), len(want), diff(got, want))
	}
}

func (w *world) present() map[string]protocol.Digest {
	w.Helper()
	v := must.Get(w.journal.View())
	defer v.Close()
	got := map[string]protocol.Digest{}
	for e, err := range v.Entries() {
		w.must(err)
		got[e.Item.URL] = e.Item.Digest
	}
	return got
}

func diff(got, want map[string]protocol.Digest) (s []string) {
	for u, d := range got {
		if want[u] != d {
			s = append(s, "has "+u)
		}
	}
	for u, d := range want {
		if got[u] != d {
			s = append(s, "lacks "+u)
		}
	}
	slices.Sort(s)
	return s
}

// apply applies changes to a follower's mirror.
func apply(mirror map[string]protocol.Digest, changes []protocol.Change) {
	for _, c := range changes {
		switch c.Op {
		case protocol.Delete:
			delete(mirror, c.Item.URL)
		case protocol.Move:
			delete(mirror, c.From)
			fallthrough
		default:
			mirror[c.Item.URL] = c.Item.Digest
		}
	}
}

// testLog returns a logger that writes to the test's log.
func testLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}
