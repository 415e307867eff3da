package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/inventory"
	"github.com/parleyweb/parley/server/manifest"
)

// A mover is a docroot that is published at one base URL after the other, with one state.
type mover struct {
	*testing.T
	dir     string
	base    string
	journal *server.Journal
	pub     *server.Publisher
}

const oldBase, newBase, thirdBase = "http://old.example/", "https://new.example/", "https://third.example/"

func (m *mover) path(name string) string { return filepath.Join(m.dir, name) }

func (m *mover) write(name, text string) {
	m.Helper()
	must.Write(m, m.path("root/"+name), text)
	m.must(os.Chtimes(m.path("root/"+name), time.Time{}, time.Now().Add(-time.Hour)))
}

func (m *mover) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// options are those of the journal for a base, and former ones.
func (m *mover) options(base string, former []string) server.JournalOptions {
	return server.JournalOptions{Base: base, Former: former, Published: m.path("robots.rdf"), Manifest: m.path("robots.rdf")}
}

// open opens the state for a base.
func (m *mover) open(base string, former ...string) {
	m.Helper()
	if m.journal != nil {
		m.must(m.journal.Close())
	}
	m.base = base
	m.journal = must.Get(server.OpenJournal(m.Context(), m.path("state"), m.options(base, former)))
	m.Cleanup(func() { m.journal.Close() })
	site := &server.Site{Docroot: m.path("root"), Base: base, Journal: m.journal}
	about := doors.Describe(base)
	about.Replaces = former
	m.pub = &server.Publisher{Inventory: site, Journal: m.journal, Pages: server.Pages{Announces: true}, Pace: server.Pace{Once: true},
		Snapshot: &manifest.Snapshot{Path: m.path("robots.rdf"), Manifest: about, Public: site.Public}}
}

func (m *mover) turn() inventory.Report {
	m.Helper()
	return must.Get(m.pub.Turn(m.Context()))
}

// pages returns the pages of the journal with what should never change, without the base.
func (m *mover) pages() (list []string) {
	m.Helper()
	v := must.Get(m.journal.View())
	defer v.Close()
	for e, err := range v.Entries() {
		m.must(err)
		rest, ok := strings.CutPrefix(e.Item.URL, m.base)
		if !ok {
			m.Errorf("%s is not below %s", e.Item.URL, m.base)
		}
		list = append(list, fmt.Sprint(rest, " ", e.Item.Modified, " ", e.Item.Digest, " ", e.Item.Canonical))
	}
	return list
}

func (m *mover) manifest() (head protocol.Manifest) {
	m.Helper()
	f := must.Get(os.Open(m.path("robots.rdf")))
	defer f.Close()
	return must.Get(protocol.ReadManifestHead(f, protocol.ManifestOptions{}))
}

// copyOf returns a function that puts the present content of a file back.
func (m *mover) copyOf(name string) (restore func()) {
	m.Helper()
	b := must.Get(os.ReadFile(m.path(name)))
	return func() { m.Helper(); m.must(os.WriteFile(m.path(name), b, 0o600)) }
}

// newMover publishes a site at oldBase.
func newMover(t *testing.T) *mover {
	m := &mover{T: t, dir: t.TempDir()}
	m.write("a.html", "A")
	m.write("d/b.html", "B")
	m.write("c.html", "C")
	m.open(oldBase)
	m.turn()
	m.write("c.html", "C2")
	m.turn()
	return m
}

// A site moves: its pages keep their dates and digests, nothing looks new, and a new epoch begins, once. A process may be killed
// in between.
func TestSiteMoves(t *testing.T) {
	for _, killed := range []bool{false, true} {
		m := newMover(t)
		was, before := m.journal.Head(), m.pages()
		m.must(m.journal.Close())
		if _, err := server.OpenJournal(t.Context(), m.path("state"), m.options(newBase, nil)); err == nil ||
			!strings.Contains(err.Error(), "journal belongs to another site") || !strings.Contains(err.Error(), "add --moved-from "+oldBase) {
			t.Errorf("opened for another base: %v", err)
		}
		m.journal = nil

		m.open(newBase, oldBase)
		now := m.journal.Head()
		if now.Epoch == was.Epoch || now.Seq != 0 || !m.journal.Whole() {
			t.Errorf("head is %v, was %v", now, was)
		}
		if killed { // before the manifest is written
			m.open(newBase, oldBase)
		}
		if r := m.turn(); r.New+r.Changed+r.Gone+r.Held+r.Moved > 0 || r.Unchanged != 3 {
			t.Errorf("the scan after the move finds %+v", r)
		}
		if after := m.pages(); !slices.Equal(after, before) {
			t.Errorf("the pages are %q, were %q", after, before)
		}
		head := m.manifest()
		if head.Cursor != now || m.journal.Head() != now || head.Base != newBase || !slices.Equal(head.Replaces, []string{oldBase}) || head.Items != 3 {
			t.Errorf("the manifest is %+v, the journal at %v", head, m.journal.Head())
		}
		for _, former := range [][]string{{oldBase}, nil, {oldBase, thirdBase}} { // again, with and without the option
			m.open(newBase, former...)
			if r := m.turn(); r.Unchanged != 3 || m.journal.Head() != now {
				t.Errorf("former %q: head is %v, was %v; %+v", former, m.journal.Head(), now, r)
			}
		}
		m.open(thirdBase, newBase, oldBase) // and on
		m.turn()
		if after := m.pages(); !slices.Equal(after, before) || m.journal.Head().Epoch == now.Epoch {
			t.Errorf("the pages are %q at %v", after, m.journal.Head())
		}
	}
}

// Losing or restoring the state or the manifest around a move costs no dates.
func TestSiteMovesWithLostFiles(t *testing.T) {
	for name, lose := range map[string]func(m *mover, state, published func()){
		"the state is lost, and the manifest is of the old base": func(m *mover, _, published func()) {
			m.must(os.Remove(m.path("state")))
			published()
		},
		"the state is lost, and the manifest is of the new base":          func(m *mover, _, _ func()) { m.must(os.Remove(m.path("state"))) },
		"the state is from before the move":                               func(_ *mover, state, _ func()) { state() },
		"both are from before the move":                                   func(_ *mover, state, published func()) { state(); published() },
		"the manifest is from before the move":                            func(_ *mover, _, published func()) { published() },
		"the manifest is lost":                                            func(m *mover, _, _ func()) { m.must(os.Remove(m.path("robots.rdf"))) },
		"the manifest is lost, and the state is from before the move":     func(m *mover, state, _ func()) { state(); m.must(os.Remove(m.path("robots.rdf"))) },
		"the manifest is of the old base, and there is no mark beside it": func(m *mover, _, published func()) { published(); m.must(os.Remove(m.path(".robots.rdf.mark"))) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMover(t)
			before := m.pages()
			m.must(m.journal.Close())
			state, published := m.copyOf("state"), m.copyOf("robots.rdf")
			m.journal = nil
			m.open(newBase, oldBase)
			m.turn()
			m.must(m.journal.Close())
			m.journal = nil
			lose(m, state, published)
			m.open(newBase, oldBase)
			if r := m.turn(); r.Changed+r.Gone+r.Held+r.Moved > 0 {
				t.Errorf("the scan finds %+v", r)
			}
			if after := m.pages(); !slices.Equal(after, before) {
				t.Errorf("the pages are %q, were %q", after, before)
			}
			if head := m.manifest(); head.Cursor != m.journal.Head() || head.Base != newBase {
				t.Errorf("the manifest is %+v, the journal at %v", head, m.journal.Head())
			}
		})
	}
}

// A new state takes its dates from the manifest at the old address, if there is none at the new one yet.
func TestSiteMovesWithPublishedURL(t *testing.T) {
	m := newMover(t)
	before := m.pages()
	old := httptest.NewServer(http.FileServer(http.Dir(m.dir)))
	defer old.Close()
	next := httptest.NewServer(http.NotFoundHandler())
	defer next.Close()
	b := must.Get(os.ReadFile(m.path("robots.rdf")))
	must.Write(m, m.path("robots.rdf"), strings.ReplaceAll(string(b), "http://old.example", old.URL))
	m.base = next.URL + "/"
	m.must(m.journal.Close())
	m.journal = must.Get(server.OpenJournal(t.Context(), m.path("state of a build"), server.JournalOptions{Base: m.base, Former: []string{old.URL + "/"},
		Published: m.base + "robots.rdf", Strict: true}))
	defer m.journal.Close()
	if after := m.pages(); !slices.Equal(after, before) || !m.journal.Whole() {
		t.Errorf("the pages are %q, were %q", after, before)
	}
}

// What was announced moves too: a page that is no file, and the deletion of another.
func TestAnnouncedPagesMove(t *testing.T) {
	m := newMover(t)
	day := func(n int) time.Time { return time.Date(2026, 3, n, 0, 0, 0, 0, time.UTC) }
	announce := func(list ...protocol.Announcement) string {
		t.Helper()
		for i := range list {
			list[i].URL = m.base + list[i].URL
		}
		done := must.Get(m.pub.Announce(t.Context(), list))
		return fmt.Sprintf("created %d, deleted %d, unchanged %d", done.Created, done.Deleted, done.Unchanged)
	}
	announce(protocol.Announcement{URL: "x.html", Modified: day(1)}, protocol.Announcement{URL: "y.html", Modified: day(1)})
	announce(protocol.Announcement{URL: "y.html", Gone: true, Modified: day(3)})
	m.open(newBase, oldBase)
	if r := m.turn(); r.Gone+r.Held > 0 || m.journal.Len() != 4 {
		t.Errorf("%d pages after the move; %+v", m.journal.Len(), r)
	}
	if said := announce(protocol.Announcement{URL: "x.html", Modified: day(1)}, protocol.Announcement{URL: "y.html", Modified: day(2)}); said != "created 0, deleted 0, unchanged 2" {
		t.Errorf("old news after the move: %s", said)
	}
	if said := announce(protocol.Announcement{URL: "x.html", Gone: true, Modified: day(4)}, protocol.Announcement{URL: "y.html", Modified: day(4)}); said != "created 1, deleted 1, unchanged 0" {
		t.Errorf("news after the move: %s", said)
	}
}
