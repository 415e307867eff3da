package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

// loseATurn puts the state back to before a change that the manifest has, and leaves it closed.
func (w *world) loseATurn() {
	w.must(w.journal.Close())
	old := must.Get(os.ReadFile(w.state()))
	w.open()
	w.write("a.html", "3")
	w.turn()
	w.must(w.journal.Close())
	w.must(os.WriteFile(w.state(), old, 0o600))
}

// Every story begins with a state and a manifest that agree, at 2 changes.
func TestEpoch(t *testing.T) {
	for name, story := range map[string]struct {
		do      func(w *world)
		renewed bool
		seeded  bool // the journal needs a scan to be complete
	}{
		"state and manifest agree": {do: func(w *world) {}},
		"the manifest is behind": {do: func(w *world) {
			w.write("a.html", "3")
			w.look()
		}},
		"there is no manifest": {do: func(w *world) { w.must(os.Remove(w.out())) }},
		"the manifest is broken": {renewed: true, do: func(w *world) {
			must.Write(w, w.out(), "<rdf:RDF")
		}},
		"the manifest has no cursor": {do: func(w *world) {
			b := must.Get(os.ReadFile(w.out()))
			must.Write(w, w.out(), strings.ReplaceAll(string(b), "p:epoch", "p:other"))
		}},
		"the state is an older copy": {renewed: true, seeded: true, do: func(w *world) {
			w.loseATurn()
			w.open() // so that Close below has something to close
		}},
		"the state is lost": {renewed: true, seeded: true, do: func(w *world) {
			w.must(w.journal.Close())
			w.must(os.Remove(w.state()))
			w.open()
		}},
		"the state is lost, the manifest cut short": {renewed: true, do: func(w *world) {
			w.must(w.journal.Close())
			w.must(os.Remove(w.state()))
			b := must.Get(os.ReadFile(w.out()))
			w.must(os.WriteFile(w.out(), b[:len(b)*2/3], 0o644))
			w.open()
		}},
		"the state is older, the manifest cut short": {renewed: true, do: func(w *world) {
			w.loseATurn()
			b := must.Get(os.ReadFile(w.out()))
			w.must(os.WriteFile(w.out(), b[:len(b)-100], 0o644))
			w.open()
		}},
	} {
		for _, parts := range []int{0, 1} {
			if parts > 0 && strings.Contains(name, "no cursor") {
				continue // it is no index without one
			}
			t.Run(fmt.Sprintf("%s, parts from %d", name, parts), func(t *testing.T) {
				testEpoch(t, parts, story.do, story.renewed, story.seeded)
			})
		}
	}
}

func testEpoch(t *testing.T, parts int, do func(*world), renewed, seeded bool) {
	w := newWorld(t)
	w.parts = parts
	w.restart()
	long := w.now.Add(-1000 * time.Hour)
	w.put("a.html", "1", long)
	w.put("b.html", "1", long)
	w.turn()
	w.pass(time.Hour)
	w.write("a.html", "2")
	w.turn()
	w.write("c.html", "2")
	w.turn()
	was := w.journal.Head()
	if was.Seq != 2 {
		t.Fatalf("head is %v", was)
	}
	w.pass(time.Hour)
	do(w)
	w.restart()
	if now := w.journal.Head(); !now.IsZero() && (now.Epoch != was.Epoch) != renewed {
		t.Errorf("head is %v, was %v", now, was)
	}
	if seeded && (!w.journal.Whole() || w.journal.Len() != 3) {
		t.Errorf("the journal is whole: %v, with %d items", w.journal.Whole(), w.journal.Len())
	}
	w.turn()
	w.wantPresent()
	now := w.journal.Head()
	if (now.Epoch != was.Epoch) != renewed {
		t.Errorf("head is %v, was %v", now, was)
	}
	e, _, err := w.journal.Get(base + "b.html")
	w.must(err)
	if !e.Item.Modified.Equal(long) {
		t.Errorf("b.html was modified %v, not %v", e.Item.Modified, long)
	}
	if m, _, _ := w.manifest(); m.Cursor != now {
		t.Errorf("the manifest is at %v, not %v", m.Cursor, now)
	}
}

// A page keeps its modified time when the state is lost, even if its file's mtime changed.
func TestModifiedSurvivesLostState(t *testing.T) {
	w := newWorld(t)
	was := w.now
	w.write("a.html", "1")
	w.turn()
	w.must(w.journal.Close())
	w.must(os.Remove(w.state()))
	w.open()
	w.pass(time.Hour)
	w.write("a.html", "1")
	w.remove("a.html")
	w.write("a.html", "1")
	w.turn()
	e, _, err := w.journal.Get(base + "a.html")
	w.must(err)
	if !e.Item.Modified.Equal(was) {
		t.Errorf("modified is %v, not %v", e.Item.Modified, was)
	}
	// A page that vanished while there was no state is held as usual.
	w.must(w.journal.Close())
	w.must(os.Remove(w.state()))
	w.open()
	w.write("b.html", "another")
	w.remove("a.html")
	if r := w.turn(); r.HeldNow != 1 || w.journal.Len() != 2 {
		t.Errorf("%+v", r)
	}
}

func TestJournalOfAnotherSite(t *testing.T) {
	w := newWorld(t)
	w.write("a.html", "1")
	w.turn()
	w.must(w.journal.Close())
	_, err := server.OpenJournal(t.Context(), w.state(), server.JournalOptions{Base: "http://other.example/"})
	if err == nil || !strings.Contains(err.Error(), "journal belongs to another site") {
		t.Errorf("%v", err)
	}
	w.open()
}

// Nothing is taken over from a manifest of another site.
func TestPublishedManifestOfAnotherSite(t *testing.T) {
	w := newWorld(t)
	w.write("a.html", "1")
	w.turn()
	j := must.Get(server.OpenJournal(t.Context(), filepath.Join(w.dir, "other"),
		server.JournalOptions{Base: "http://other.example/", Published: w.out()}))
	defer j.Close()
	if j.Len() != 0 {
		t.Errorf("%d items", j.Len())
	}
}

func TestPublishedByURL(t *testing.T)        { testPublishedByURL(t, 0) }
func TestPublishedInPartsByURL(t *testing.T) { testPublishedByURL(t, 1) }

func testPublishedByURL(t *testing.T, parts int) {
	w := newWorld(t)
	w.parts = parts
	w.restart()
	w.write("a.html", "1")
	w.turn()
	status := 200
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if status != 200 {
			rw.WriteHeader(status)
			return
		}
		http.FileServer(http.Dir(w.dir)).ServeHTTP(rw, r)
	}))
	defer srv.Close()
	open := func(path string) *server.Journal {
		t.Helper()
		return must.Get(server.OpenJournal(t.Context(), filepath.Join(w.dir, path), server.JournalOptions{Base: base, Published: srv.URL + "/robots.rdf"}))
	}
	j := open("1")
	if j.Len() != 1 {
		t.Errorf("%d items", j.Len())
	}
	w.must(j.EndBaseline())
	at := j.Head()
	w.must(j.Close())
	for _, c := range []struct {
		status  int
		renewed bool
	}{{404, false}, {500, true}} {
		status = c.status
		j := open("1")
		if now := j.Head(); (now.Epoch != at.Epoch) != c.renewed {
			t.Errorf("status %d: head is %v, was %v", status, now, at)
		}
		at = j.Head()
		w.must(j.Close())
	}
	var zero protocol.Cursor
	status = 404
	j = open("2")
	if j.Len() != 0 || j.Head() != zero {
		t.Errorf("%d items at %v", j.Len(), j.Head())
	}
	w.must(j.Close())
}

// A manifest may have a modified time in the future: a clock was wrong, or another program wrote it. That
// time is not taken over.
func TestEpochFutureModified(t *testing.T) {
	w := newWorld(t)
	w.write("a.html", "a")
	w.turn()
	b := must.Get(os.ReadFile(w.out()))
	year := w.clock().UTC().Format("2006-")
	must.Write(w, w.out(), strings.NewReplacer(">"+year, ">9999-", "p:epoch>", "p:epoch>x").Replace(string(b)))
	w.restart()
	if w.turn(); w.journal.Len() != 1 {
		t.Fatalf("%d items", w.journal.Len())
	}
	v := must.Get(w.journal.View())
	defer v.Close()
	for e, err := range v.Entries() {
		if w.must(err); e.Item.Modified.After(w.clock()) {
			t.Errorf("modified %v", e.Item.Modified)
		}
	}
}
