package server_test

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/inventory"
	"github.com/parleyweb/parley/server/manifest"
)

// turn scans everything and writes the manifest.
func (w *world) turn() inventory.Report {
	w.Helper()
	rep := must.Get(w.pub.Turn(w.Context()))
	w.arrive()
	return rep
}

// manifest reads the published file back, with its parts.
func (w *world) manifest() (protocol.Manifest, map[string]protocol.Digest, []protocol.Tombstone) {
	w.Helper()
	f := must.Get(os.Open(w.out()))
	defer f.Close()
	items := map[string]protocol.Digest{}
	var gone []protocol.Tombstone
	add := func(rec protocol.Record) {
		if rec.Gone != nil {
			gone = append(gone, *rec.Gone)
		} else {
			items[rec.Item.URL] = rec.Item.Digest
		}
	}
	for r := protocol.NewManifestReader(f, protocol.ManifestOptions{URL: base + "robots.rdf"}); ; {
		rec, err := r.Next()
		if err == io.EOF {
			head := r.Head()
			if head.Whole == nil {
				return head, items, gone
			}
			clear(items)
			for rec, err := range head.Whole.Snapshot(w.part, protocol.ManifestOptions{}) {
				w.must(err)
				add(rec)
			}
			head.Cursor, head.Complete, head.Items = head.At(), true, head.Whole.Items
			return head, items, nil
		}
		w.must(err)
		add(rec)
	}
}

// part reads a part of the manifest.
func (w *world) part(p *protocol.Part) ([]byte, error) {
	return os.ReadFile(filepath.Join(w.dir, strings.TrimPrefix(p.URL, base)))
}

func TestManifestEqualsJournal(t *testing.T) {
	w := newWorld(t)
	w.write("a.html", "a")
	w.write("b.html", "b")
	w.write("c.html", "c")
	w.turn()
	w.remove("a.html")
	w.turn() // held
	m, items, _ := w.manifest()
	if want := w.present(); !maps.Equal(items, want) || len(items) != 3 {
		t.Errorf("%v", diff(items, want))
	}
	if m.Cursor != w.journal.Head() || !m.Complete || m.Items != 3 || m.Base != base ||
		m.Stream != "ws://site.example/parley/stream" || m.Changes != base+"parley/changes" {
		t.Errorf("%+v", m)
	}
	w.pass(time.Minute)
	w.rename("b.html", "d.html")
	w.turn()
	m, items, gone := w.manifest()
	if want := w.present(); !maps.Equal(items, want) || len(items) != 2 || m.Cursor != w.journal.Head() {
		t.Errorf("%v, %+v", diff(items, want), m)
	}
	if len(gone) != 2 || gone[0].URL != base+"a.html" || gone[1].URL != base+"b.html" || gone[1].To != base+"d.html" {
		t.Errorf("%+v", gone)
	}
	// A forbidden page is not named, not even as deleted.
	w.forbidden["c.html"], w.forbidden["b.html"] = true, true
	w.turn()
	b := must.Get(os.ReadFile(w.out()))
	for _, name := range []string{"b.html", "c.html"} {
		if strings.Contains(string(b), name) {
			t.Errorf("the manifest names %s", name)
		}
	}
}

// Rules apply to the manifest even before the next scan has seen them.
func TestManifestObeysCurrentRules(t *testing.T) {
	w := newWorld(t)
	w.write("a.html", "a")
	w.write("b.html", "b")
	w.look()
	w.forbidden["a.html"] = true
	must.Get(w.pub.Snapshot.Write(t.Context(), w.journal))
	if m, items, _ := w.manifest(); len(items) != 1 || m.Items != 1 {
		t.Errorf("%+v %v", m, items)
	}
}

// The rules may change while the manifest is written: it obeys those of one moment.
func TestRulesChangeWhileManifestIsWritten(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a.html", "b.html", "c.html"} {
		w.write(name, name)
	}
	w.look()
	calls := 0
	w.pub.Snapshot.Public = func(url string) bool { // each page is public every other time
		calls++
		return calls%2 == 0
	}
	must.Get(w.pub.Snapshot.Write(t.Context(), w.journal))
	if m, items, _ := w.manifest(); len(items) != 1 || m.Items != 1 {
		t.Errorf("%+v %v", m, items)
	}
}

func TestUnchangedManifestIsNotTouched(t *testing.T) {
	w := newWorld(t)
	w.fill(3)
	w.turn()
	info := must.Get(os.Stat(w.out()))
	if info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v", info.Mode())
	}
	old := time.Now().Add(-time.Hour)
	w.must(os.Chtimes(w.out(), old, old))
	same := func(what string) {
		t.Helper()
		now := must.Get(os.Stat(w.out()))
		if !os.SameFile(info, now) || !now.ModTime().Equal(old.Truncate(time.Nanosecond)) {
			t.Errorf("%s: the file was touched", what)
		}
	}
	w.turn()
	same("nothing has changed")
	for p, x := range w.pages {
		w.write(p, x.content)
	}
	w.turn()
	same("everything was touched")
	w.restart()
	w.turn()
	same("another process")
	if s := w.pub.Status(); s.Writes != 0 {
		t.Errorf("%+v", s)
	}
	w.write("a.html", "new")
	w.turn()
	if now, err := os.Stat(w.out()); err != nil || os.SameFile(info, now) {
		t.Errorf("the file was not replaced: %v", err)
	}
}

// Web servers distinguish versions by the second of their mtime.
func TestEveryManifestHasAnotherMtimeSecond(t *testing.T) {
	w := newWorld(t)
	seen := map[int64]bool{}
	for range 3 {
		w.write("a.html", w.now.String())
		w.turn()
		info := must.Get(os.Stat(w.out()))
		if s := info.ModTime().Unix(); seen[s] {
			t.Error("two manifests with an mtime in the same second")
		} else {
			seen[s] = true
		}
		w.pass(time.Millisecond)
	}
}

func TestFilesOfKilledWriterAreRemoved(t *testing.T) {
	w := newWorld(t)
	left := filepath.Join(w.dir, ".robots.rdf.123.tmp")
	other := filepath.Join(w.dir, ".other.rdf.123.tmp")
	w.must(os.WriteFile(left, []byte("<?xml"), 0o600))
	w.must(os.WriteFile(other, nil, 0o600))
	w.write("a.html", "a")
	w.turn()
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("the temporary file is still there: %v", err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
	if list, _ := filepath.Glob(filepath.Join(w.dir, ".robots.rdf.*")); len(list) > 0 {
		t.Errorf("left behind: %v", list)
	}
}

func TestWriteFailureLeavesTheOldManifest(t *testing.T) {
	w := newWorld(t)
	w.write("a.html", "a")
	w.turn()
	was := must.Get(os.ReadFile(w.out()))
	w.write("b.html", "b")
	w.pub.Snapshot.Path = filepath.Join(w.dir, "none", "robots.rdf")
	if _, err := w.pub.Turn(t.Context()); err == nil {
		t.Error("no error")
	}
	if s := w.pub.Status(); s.Error == "" {
		t.Errorf("%+v", s)
	}
	if now, err := os.ReadFile(w.out()); err != nil || string(now) != string(was) {
		t.Errorf("the old manifest is gone: %v", err)
	}
}

func TestSnapshotServes(t *testing.T) {
	w := newWorld(t)
	get := func(method string, header ...string) *http.Response {
		t.Helper()
		r := httptest.NewRequest(method, "/robots.rdf", nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		rec := httptest.NewRecorder()
		w.pub.Snapshot.ServeHTTP(rec, r)
		return rec.Result()
	}
	body := func(r *http.Response) string {
		return string(must.Get(io.ReadAll(r.Body)))
	}
	want := func(r *http.Response, status int) {
		t.Helper()
		if r.StatusCode != status {
			t.Fatalf("status %d, want %d", r.StatusCode, status)
		}
	}
	r := get("GET")
	want(r, 503)
	if r.Header.Get("Retry-After") == "" || r.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%v", r.Header)
	}
	w.write("a.html", "a")
	w.turn()
	file := must.Get(os.ReadFile(w.out()))
	r = get("GET")
	want(r, 200)
	etag, modified := r.Header.Get("Etag"), r.Header.Get("Last-Modified")
	if body(r) != string(file) || r.Header.Get("Content-Type") != "application/rdf+xml" || etag == "" || strings.HasPrefix(etag, "W/") || modified == "" {
		t.Errorf("%v", r.Header)
	}
	r = get("HEAD")
	want(r, 200)
	if body(r) != "" || r.ContentLength != int64(len(file)) || r.Header.Get("Etag") != etag {
		t.Errorf("%v", r.Header)
	}
	r = get("GET", "Range", "bytes=5-9")
	want(r, 206)
	if body(r) != string(file[5:10]) {
		t.Error("another range")
	}
	want(get("GET", "If-None-Match", etag), 304)
	want(get("GET", "If-Modified-Since", modified), 304)
	want(get("GET", "If-None-Match", `"other"`, "If-Modified-Since", modified), 200)
	want(get("GET", "Range", "bytes=5-9", "If-Range", `"other"`), 200)

	w.write("a.html", "b")
	w.turn()
	r = get("GET", "If-None-Match", etag, "If-Modified-Since", modified)
	want(r, 200)
	if r.Header.Get("Etag") == etag {
		t.Error("the same entity tag for other bytes")
	}
	want(get("GET", "If-Modified-Since", modified), 200) // within the same second, too

	// Another program puts another file there.
	must.Write(w, w.out()+".x", "<rdf/>")
	w.must(os.Rename(w.out()+".x", w.out()))
	want(get("GET"), 503)
	w.turn()
	want(get("GET"), 200)
	w.must(os.Remove(w.out()))
	want(get("GET"), 503)
	w.turn()
	want(get("GET"), 200)
}

func TestManifestOfAnEarlierRunIsServedAtOnce(t *testing.T) {
	w := newWorld(t)
	w.write("a.html", "a")
	w.turn()
	w.restart()
	w.must(w.pub.Snapshot.Load(w.journal))
	rec := httptest.NewRecorder()
	w.pub.Snapshot.ServeHTTP(rec, httptest.NewRequest("GET", "/robots.rdf", nil))
	if rec.Code != 200 || w.pub.Snapshot.Cursor() != w.journal.Head() || w.pub.Snapshot.Items() != 1 {
		t.Errorf("status %d, cursor %v", rec.Code, w.pub.Snapshot.Cursor())
	}
	// A manifest of another epoch is not served: its cursor would be rejected.
	w.must(w.journal.Renew(t.Context(), nil))
	s := &manifest.Snapshot{Path: w.out(), Manifest: doors.Describe(base)}
	w.must(s.Load(w.journal))
	if !s.Cursor().IsZero() {
		t.Errorf("cursor %v", s.Cursor())
	}
}
