package collection_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

func (r *rig) events(after protocol.Cursor) (list []collection.Event) {
	r.t.Helper()
	for e, err := range r.c.Events(r.t.Context(), after, false) {
		if err != nil {
			r.t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

func line(e collection.Event) string {
	changed := ""
	if !e.TextChanged {
		changed = " (same text)"
	}
	return fmt.Sprintf("%s %s by %s%s", e.Op, strings.TrimPrefix(e.URL, home), e.Signal, changed)
}

func lines(list []collection.Event) string {
	var b []string
	for _, e := range list {
		b = append(b, line(e))
	}
	return strings.Join(b, ", ")
}

// An indexer receives each change once, in order, with the data that belongs to it.
func TestEvents(t *testing.T) {
	r := newKeeper(t, collection.WARC, "gzip")
	r.find("/a", "/b")
	v := r.answer("/a", 200, "one")
	v.Title, v.Language, v.Text, v.LastModified = "A", "en", protocol.Sum([]byte("text")), "Mon, 02 Feb 2026 10:00:00 GMT"
	r.commit(collection.Commit{Visits: []collection.Visit{v, r.answer("/b", 200, "b")}})
	r.wait(time.Hour)
	r.visit("/a", 304, "")
	v = r.answer("/a", 200, "two")
	v.Text = protocol.Sum([]byte("text"))
	r.commit(collection.Commit{Visits: []collection.Visit{v}})
	r.visit("/b", 200, "b, changed")
	r.visit("/b", 410, "")
	want := "create /a by link, create /b by link, update /a by age (same text), update /b by age, delete /b by age"
	check := func(when string) []collection.Event {
		t.Helper()
		list := r.events(protocol.Cursor{})
		if got := lines(list); got != want {
			t.Fatalf("%s: %s\nwant %s", when, got, want)
		}
		return list
	}
	list := check("at once")
	bodies := []string{"one", "b", "two", "b, changed"}
	for i, e := range list {
		if e.Cursor.Seq != uint64(i+1) || e.Snapshot {
			t.Errorf("event %d: %+v", i, e)
		}
		if i < len(bodies) {
			c, err := r.c.Contents().Body(e.Stored)
			if got := read(t, c, err); got != bodies[i] || e.Length != int64(len(got)) || e.Digest != protocol.Sum([]byte(got)) {
				t.Errorf("event %d leads to %q, want %q", i, got, bodies[i])
			}
		}
	}
	if b, err := json.Marshal(list[0]); err != nil || !strings.Contains(string(b), `"op":"create","url":"https://a.example/a","title":"A","language":"en","digest":"sha-256=:`) ||
		!strings.Contains(string(b), `"text_changed":true,"signal":"link","length":3,"type":"text/html","modified":"2026-02-02T10:00:00Z","stored":{"file":"warc/`) {
		t.Errorf("%s, %v", b, err)
	}
	if b, _ := json.Marshal(list[4]); strings.Contains(string(b), "stored") || strings.Contains(string(b), "digest") {
		t.Errorf("a page that is gone: %s", b)
	}
	r.reopen()
	again := check("reopened")
	for i := range list {
		if again[i] != list[i] {
			t.Errorf("event %d is %+v, was %+v", i, again[i], list[i])
		}
	}
	// A reader that stores the cursor continues after it.
	for i, e := range list {
		if got := r.events(e.Cursor); len(got) != len(list)-i-1 {
			t.Errorf("%d events after %v", len(got), e.Cursor)
		}
	}
}

// A follower is woken by each change, can read the data that belongs to it, and stops when cancelled.
func TestEventsFollowed(t *testing.T) {
	r := newKeeper(t, collection.WARC, "")
	r.find("/a")
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan collection.Event)
	end := make(chan error, 1)
	go func() {
		for e, err := range r.c.Events(ctx, protocol.Cursor{}, true) {
			if err != nil {
				end <- err
				return
			}
			got <- e
		}
	}()
	for i := range 50 {
		body := fmt.Sprint("body ", i)
		r.visit("/a", 200, body)
		if e := <-got; e.Digest != protocol.Sum([]byte(body)) || e.Signal == "" || e.Stored != r.page("/a").Stored {
			t.Fatalf("%d: %+v", i, e)
		}
	}
	cancel()
	if err := <-end; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// The events that a killed process left behind are read in full, also through a
// read-only collection.
func TestEventsAfterKill(t *testing.T) {
	r := newKeeper(t, collection.WARC, "")
	r.find("/a", "/b")
	v := r.answer("/a", 200, "one")
	v.Text = protocol.Sum([]byte("text"))
	r.commit(collection.Commit{Visits: []collection.Visit{v}})
	v = r.answer("/a", 200, "two")
	v.Text = protocol.Sum([]byte("text"))
	r.commit(collection.Commit{Visits: []collection.Visit{v, r.answer("/b", 200, "b")}})
	want := r.events(protocol.Cursor{})
	dead := filepath.Join(t.TempDir(), "dead")
	if err := os.CopyFS(dead, os.DirFS(r.dir)); err != nil { // as after a kill
		t.Fatal(err)
	}
	c := open(t, dead, &collection.Options{ReadOnly: true})
	defer c.Close()
	i := 0
	for e, err := range c.Events(t.Context(), protocol.Cursor{}, false) {
		if err != nil {
			t.Fatal(err)
		}
		if i >= len(want) || e != want[i] {
			t.Fatalf("event %d is %+v, want %+v", i, e, want)
		}
		i++
	}
	if i != len(want) || i != 3 {
		t.Errorf("%d events of %d", i, len(want))
	}
}

// A page whose footer changes at every load causes no work for an indexer.
func TestFooterChangeCausesNoEvent(t *testing.T) {
	r := newRig(t)
	r.find("/a")
	const loads, each = 10_000, 2500
	for i := 0; i < loads; i += each {
		var turn collection.Commit
		for k := range each {
			v := r.answer("/a", 200, fmt.Sprintf("the text, and a footer with nonce %d", i+k))
			v.Text = protocol.Sum([]byte("the text"))
			r.wait(time.Second)
			turn.Visits = append(turn.Visits, v)
		}
		r.commit(turn)
	}
	n, work := 0, 0
	for e, err := range r.c.Events(t.Context(), protocol.Cursor{}, false) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if e.Cursor.Seq != uint64(n) {
			t.Fatalf("event %d has the cursor %v", n, e.Cursor)
		}
		if e.TextChanged {
			work++
		}
	}
	if n != loads || work != 1 {
		t.Errorf("%d events, of which %d are work; want %d and 1", n, work, loads)
	}
}

// A reader whose cursor is no longer valid is told so, and starts with the current contents.
func TestEventsAfterInvalidCursor(t *testing.T) {
	r := newRig(t)
	r.o.MaxEvents = 5
	r.reopen()
	r.find("/a", "/b", "/c", "/d")
	for _, path := range []string{"/a", "/b", "/c", "/d"} {
		r.visit(path, 200, "first "+path)
	}
	first := r.events(protocol.Cursor{})[0].Cursor
	for i := range 6 {
		r.visit("/c", 200, fmt.Sprint("body ", i))
	}
	r.visit("/d", 410, "")
	refused := func(after protocol.Cursor, want error) {
		t.Helper()
		for _, err := range r.c.Events(t.Context(), after, false) {
			if !errors.Is(err, want) {
				t.Errorf("after %v: %v, want %v", after, err, want)
			}
			return
		}
		t.Errorf("no events after %v", after)
	}
	refused(first, protocol.ErrTooOld)
	snapshot := func(when string) {
		t.Helper()
		list := r.events(protocol.Cursor{})
		if got := lines(list); got != "create /a by link, create /b by link, create /c by link" {
			t.Errorf("%s: %s", when, got)
		}
		for i, e := range list {
			if !e.Snapshot || e.Cursor.IsZero() != (i < len(list)-1) || e.Digest != r.page(strings.TrimPrefix(e.URL, home)).Digest {
				t.Errorf("%s: %d: %+v", when, i, e)
			}
		}
		if last := list[len(list)-1].Cursor; last != r.c.Log().Head() || len(r.events(last)) != 0 {
			t.Errorf("%s: a snapshot up to %v, head %v", when, last, r.c.Log().Head())
		}
	}
	snapshot("forgotten")

	// The journal is lost, or damaged: a new epoch begins with the current contents.
	for _, spoil := range []func(name string) error{
		os.Remove,
		func(name string) error { return os.WriteFile(name, make([]byte, 1<<16), 0o600) },
	} {
		was := r.c.Log().Head()
		r.c.Close()
		must.OK(t, spoil(filepath.Join(r.dir, "journal.db")))
		r.c = open(t, r.dir, &r.o)
		refused(was, protocol.ErrEpoch)
		snapshot("lost")
		r.visit("/c", 200, "after "+was.Epoch)
		if got := lines(r.events(protocol.Cursor{Epoch: r.c.Log().Head().Epoch})); got != "update /c by age" {
			t.Errorf("after a loss: %s", got)
		}
		r.reopen()
		if got := r.events(protocol.Cursor{}); len(got) != 3 || !got[0].Snapshot {
			t.Errorf("after a loss and a restart: %s", lines(got))
		}
	}
}
