package server_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
)

// A later process recognizes an unchanged manifest without writing it again, and notices anything that would
// change it.
func TestUnchangedManifestIsNotRewrittenAfterRestart(t *testing.T) {
	asked := map[string]int{} // how often Public was called for a page, by path
	began := func(t *testing.T) *world {
		w := newWorld(t)
		w.fill(50)
		w.write("old.html", "old")
		w.write("older.html", "older")
		w.turn()
		w.remove("old.html")
		w.rename("older.html", "z.html")
		w.turn()
		w.pass(time.Minute)
		w.turn()
		return w
	}
	next := func(w *world) (wrote, made bool) {
		w.Helper()
		w.restart()
		clear(asked)
		public := w.pub.Snapshot.Public
		w.pub.Snapshot.Public = func(url string) bool {
			asked[strings.TrimPrefix(url, base)]++
			return public(url)
		}
		w.turn()
		return w.pub.Status().Writes > 0, asked["p/007.html"] > 0
	}
	for name, c := range map[string]struct {
		change      func(w *world)
		wrote, made bool
	}{
		"nothing": {change: func(w *world) {}},
		"another mtime of the file": {change: func(w *world) {
			w.must(os.Chtimes(w.out(), w.now.Add(-time.Hour), w.now.Add(-time.Hour)))
		}},
		"replaced by a copy": {change: func(w *world) {
			b := must.Get(os.ReadFile(w.out()))
			w.must(os.WriteFile(w.out()+".new", b, 0o600))
			w.must(os.Rename(w.out()+".new", w.out()))
		}},
		"a changed page": {change: func(w *world) { w.write("p/001.html", "new") }, wrote: true, made: true},
		"a changed stamp": {change: func(w *world) {
			w.write("p/001.html", w.pages["p/001.html"].content)
		}, made: true},
		"a changed byte with the old mtime": {change: func(w *world) {
			b := must.Get(os.ReadFile(w.out()))
			info := must.Get(os.Stat(w.out()))
			i := bytes.Index(b, []byte("<p:items>"))
			b[i+len("<p:items>")] ^= 1
			w.must(os.WriteFile(w.out(), b, 0o644))
			w.must(os.Chtimes(w.out(), info.ModTime(), info.ModTime()))
		}, wrote: true, made: true},
		"file removed":                    {change: func(w *world) { w.must(os.Remove(w.out())) }, wrote: true, made: true},
		"a rule for a deleted page":       {change: func(w *world) { w.forbidden["old.html"] = true }, wrote: true, made: true},
		"a rule for the target of a move": {change: func(w *world) { w.forbidden["z.html"] = true }, wrote: true, made: true},
		"the stored account is lost": {change: func(w *world) {
			w.must(w.journal.SetNotes(map[string][]byte{"output/manifest": nil}))
		}, made: true},
		"the stored account is of another program": {change: func(w *world) {
			w.must(w.journal.SetNotes(map[string][]byte{"output/manifest": []byte("{}")}))
		}, made: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := began(t)
			if wrote, made := next(w); wrote || made {
				t.Fatalf("without a change, written: %v, made: %v", wrote, made)
			}
			head := w.journal.Head()
			c.change(w)
			if wrote, made := next(w); wrote != c.wrote || made != c.made {
				t.Errorf("written: %v, made: %v", wrote, made)
			}
			m, items, gone := w.manifest()
			if want := w.present(); len(items) != len(want) || m.Cursor != w.journal.Head() || m.Cursor.Epoch != head.Epoch {
				t.Errorf("%d items at %v, the journal has %d at %v", len(items), m.Cursor, len(want), w.journal.Head())
			}
			for _, g := range gone {
				if path := strings.TrimPrefix(g.URL, base); w.forbidden[path] {
					t.Errorf("%s is in the manifest, though a rule forbids it", path)
				}
			}
			if wrote, made := next(w); wrote || made {
				t.Errorf("the next write wrote the file: %v, or made it: %v", wrote, made)
			}
		})
	}
}

// The manifest's description of the site is part of it.
func TestNewTitleRewritesManifest(t *testing.T) {
	w := newWorld(t)
	w.fill(3)
	w.turn()
	w.restart()
	w.pub.Snapshot.Manifest.Title = "Another"
	w.turn()
	if m, _, _ := w.manifest(); m.Title != "Another" || w.pub.Status().Writes != 1 {
		t.Errorf("%+v", m)
	}
}

// A manifest that had to withhold a page is not recorded as unchanged: the rule may be gone before any scan
// has withdrawn the page.
func TestManifestWithWithheldPageIsNotRecordedAsUnchanged(t *testing.T) {
	w := newWorld(t)
	w.fill(3)
	w.turn()
	w.write("new.html", "new")
	w.look()
	w.forbidden["p/001.html"] = true
	must.Get(w.pub.Snapshot.Write(t.Context(), w.journal))
	if _, items, _ := w.manifest(); len(items) != 3 {
		t.Fatal(items)
	}
	delete(w.forbidden, "p/001.html")
	w.restart()
	w.turn()
	if _, items, _ := w.manifest(); len(items) != 4 {
		t.Errorf("the page is still missing: %v", items)
	}
	if list, _ := filepath.Glob(filepath.Join(w.dir, ".robots.rdf.*.tmp")); len(list) > 0 {
		t.Error(list)
	}
}
