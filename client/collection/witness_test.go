package collection_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// Killed at any instant while it is opened, a collection whose state was restored from a backup never continues the
// epoch, and never cuts its archive off.
func TestKilledAfterRestore(t *testing.T) {
	openInChild(t)
	r := newKeeper(t, collection.WARC, "gzip")
	r.find("/a", "/b")
	r.visit("/a", 200, "one")
	backup := must.Get(os.ReadFile(filepath.Join(r.dir, "state.db")))
	r.visit("/b", 200, "later")
	head := r.c.Log().Head()
	must.OK(t, r.c.Close())
	archive := captures(t, r.dir)
	must.OK(t, os.WriteFile(filepath.Join(r.dir, "state.db"), backup, 0o600))
	restored := r.dir
	fresh := func() {
		r.dir = t.TempDir()
		copyDir(t, restored, r.dir)
	}
	fresh()
	full, _ := killedAt(t, "TestKilledAfterRestore", r.dir, time.Minute)
	rounds, killed := 20, 0
	if testing.Short() {
		rounds = 6
	}
	for i := range rounds {
		fresh()
		for range 2 {
			if _, done := killedAt(t, "TestKilledAfterRestore", r.dir, full*time.Duration(i)/time.Duration(rounds)); !done {
				killed++
			}
		}
		r.c = open(t, r.dir, &r.o)
		if r.c.Log().Head().Epoch == head.Epoch {
			t.Errorf("round %d: the epoch continues", i)
		}
		if got := r.events(protocol.Cursor{}); len(got) != 1 || !got[0].Snapshot || r.content("/a") != "one" {
			t.Errorf("round %d: events %s", i, lines(got))
		}
		r.c.Close()
		if got := captures(t, r.dir); fmt.Sprint(got) != fmt.Sprint(archive) {
			t.Fatalf("round %d: archived %v, want %v", i, got, archive)
		}
	}
	if killed == 0 {
		t.Error("none was killed before it was done")
	}
	t.Logf("%v: killed %d times", full, killed)
}

// A state that is restored together with its witness, or is younger than it, as after a power failure, continues.
func TestWitnessBehindTheState(t *testing.T) {
	r := newRig(t)
	r.find("/a")
	r.visit("/a", 200, "one")
	witness := filepath.Join(r.dir, "journal.db")
	older := must.Get(os.ReadFile(witness))
	r.visit("/a", 200, "two")
	head := r.c.Log().Head()
	want(t, "witness", fmt.Sprint(string(older) != readFile(t, witness)), "true")
	r.c.Close()
	must.OK(t, os.WriteFile(witness, older, 0o600))
	r.c = open(t, r.dir, &r.o)
	want(t, "head", r.c.Log().Head(), head)
	want(t, "events", lines(r.events(protocol.Cursor{})), "create /a by link, update /a by age")
	r.reopen()
	want(t, "head, reopened", r.c.Log().Head(), head)
}

// A state that was restored from a backup without its archive cuts nothing off, whatever else was restored with it,
// and even if only the archive has grown since. One that was restored with its archive continues.
func TestRestoredState(t *testing.T) {
	const state, witness, archives = "state.db", "journal.db", "warc"
	for _, c := range []struct {
		name      string
		restored  []string
		news      bool // pages have changed since the backup
		continues bool
	}{
		{"state", []string{state}, true, false},
		{"state, and no page has changed", []string{state}, false, false},
		{"state with its witness", []string{state, witness}, true, false},
		{"state with its witness, and no page has changed", []string{state, witness}, false, false},
		{"all", []string{state, witness, archives}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.o.Contents, r.o.Coding, r.o.MaxWARC = collection.WARC, "gzip", 2000
			r.reopen()
			r.find("/a", "/b", "/gone")
			r.visit("/a", 200, "one")
			r.c.Close()
			backup := t.TempDir()
			copyDir(t, r.dir, backup)
			old := captures(t, r.dir)
			r.c = open(t, r.dir, &r.o)
			for range 10 { // several files of the archive
				r.wait(time.Hour)
				r.visit("/a", 304, "")
				r.visit("/gone", 404, "")
			}
			if c.news {
				r.visit("/b", 200, "later")
			}
			head := r.c.Log().Head()
			r.c.Close()
			archive := captures(t, r.dir)
			for _, name := range c.restored {
				must.OK(t, os.RemoveAll(filepath.Join(r.dir, name)))
				if name == archives {
					copyDir(t, filepath.Join(backup, name), filepath.Join(r.dir, name))
					archive = old
				} else if err := os.WriteFile(filepath.Join(r.dir, name), []byte(readFile(t, filepath.Join(backup, name))), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			r.c = open(t, r.dir, &r.o)
			epoch := r.c.Log().Head().Epoch
			want(t, "continues", epoch == head.Epoch, c.continues)
			r.reopen()
			want(t, "epoch, reopened", r.c.Log().Head().Epoch, epoch)
			r.c.Close()
			if got := captures(t, r.dir); fmt.Sprint(got) != fmt.Sprint(archive) {
				t.Errorf("archived %v, want %v", got, archive)
			}
		})
	}
}

// If a process was killed, or power failed, before the end of the archive was written beside it, the state continues.
func TestArchiveWitnessBehindTheState(t *testing.T) {
	r := newRig(t)
	r.o.Contents, r.o.MaxWARC = collection.WARC, 2000
	r.reopen()
	r.find("/a")
	r.visit("/a", 200, "one")
	witness := filepath.Join(r.dir, "warc", "mark.txt")
	older := readFile(t, witness)
	for range 5 {
		r.wait(time.Hour)
		r.visit("/a", 304, "")
	}
	head := r.c.Log().Head()
	r.c.Close()
	newest, archive := readFile(t, witness), captures(t, r.dir)
	for _, text := range []string{older, "", older[:20], newest[:50] + older[50:], "9" + newest[1:]} {
		must.Write(t, witness, text)
		r.c = open(t, r.dir, &r.o)
		want(t, fmt.Sprintf("head after %q", text), r.c.Log().Head(), head)
		r.c.Close()
		want(t, "witness", readFile(t, witness), newest)
	}
	must.OK(t, os.Remove(witness))
	r.c = open(t, r.dir, &r.o)
	want(t, "head without the file", r.c.Log().Head(), head)
	r.c.Close()
	if got := captures(t, r.dir); fmt.Sprint(got) != fmt.Sprint(archive) {
		t.Errorf("archived %v, want %v", got, archive)
	}
}

// A witness that is lost begins a new epoch, which is logged; one that cannot be read at the moment is an error, and the
// epoch continues afterwards.
func TestUnreadableWitness(t *testing.T) {
	var log strings.Builder
	r := newRig(t)
	r.c.Close()
	r.dir, r.o.Log = t.TempDir(), slog.New(slog.NewTextHandler(&log, nil))
	r.c = open(t, r.dir, &r.o)
	r.find("/a")
	r.visit("/a", 200, "one")
	r.reopen()
	head, witness := r.c.Log().Head(), filepath.Join(r.dir, "journal.db")
	r.c.Close()
	want(t, "log", log.String(), "")
	must.OK(t, errors.Join(os.Rename(witness, witness+".away"), os.Mkdir(witness, 0o755)))
	if _, err := collection.Open(r.dir, &r.o); err == nil || !strings.Contains(err.Error(), "journal.db") {
		t.Errorf("opened with a witness that cannot be read: %v", err)
	}
	must.OK(t, errors.Join(os.Remove(witness), os.Rename(witness+".away", witness)))
	r.c = open(t, r.dir, &r.o)
	want(t, "head", r.c.Log().Head(), head)
	want(t, "log", log.String(), "")
	for _, spoil := range []func() error{
		func() error { return os.Remove(witness) },
		func() error { return os.Truncate(witness, 0) },
		func() error { return os.WriteFile(witness, []byte("neither a cursor nor a journal"), 0o600) },
	} {
		r.c.Close()
		log.Reset()
		must.OK(t, spoil())
		r.c = open(t, r.dir, &r.o)
		if now := r.c.Log().Head(); now.Epoch == head.Epoch || strings.Count(log.String(), "a new epoch of events begins") != 1 {
			t.Errorf("head %v after %v, logged %q", now, head, log.String())
		}
		head = r.c.Log().Head()
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	return string(must.Get(os.ReadFile(name)))
}

// Whoever reads a change finds at least that state of its page, and of its file, and the witness knows of the change.
func TestReadersSeeNoChangeBeforeItsPage(t *testing.T) {
	r := newRig(t)
	r.o.Contents = collection.Mirror
	r.reopen()
	r.find("/a.txt")
	const most = 150
	end := make(chan error, 1)
	go func() {
		end <- func() error {
			for e, err := range r.c.Events(context.Background(), protocol.Cursor{}, true) {
				if err != nil {
					return err
				}
				head, err := os.ReadFile(filepath.Join(r.dir, "journal.db"))
				if err != nil {
					return err
				}
				var epoch string
				var seen uint64
				if n, _ := fmt.Sscanf(string(head), "%16s:%d", &epoch, &seen); n != 2 || seen < e.Cursor.Seq {
					return fmt.Errorf("change %v is not in the witness, %q", e.Cursor, head)
				}
				p, _, err := r.c.Page(e.URL)
				if err != nil {
					return err
				}
				content, err := r.c.Contents().Content(p.URL, p.Stored)
				if err != nil {
					return err
				}
				body, err := io.ReadAll(content)
				content.Close()
				if err != nil {
					return err
				}
				if n, err := strconv.Atoi(string(body)); err != nil || uint64(n) < e.Cursor.Seq || p.Length != 8 {
					return fmt.Errorf("after change %v the page has the body %q, of %d bytes", e.Cursor, body, p.Length)
				}
				if e.Cursor.Seq == most {
					return nil
				}
			}
			return nil
		}()
	}()
	for i := range most {
		r.visit("/a.txt", 200, fmt.Sprintf("%08d", i+1))
	}
	if err := <-end; err != nil {
		t.Error(err)
	}
}

// A change whose file is not in its place yet, since the process was killed before it was moved there, is not given to
// readers until a process has moved it.
func TestEventsOfUnfinishedFiles(t *testing.T) {
	r := newRig(t)
	r.o.Contents = collection.Mirror
	r.reopen()
	r.find("/a.txt", "/b.txt")
	r.visit("/a.txt", 200, "one")
	r.c.CrashAfter(0)
	if _, err := r.c.Commit(&collection.Commit{Visits: []collection.Visit{r.answer("/a.txt", 200, "two"), r.answer("/b.txt", 200, "b")}}); err == nil {
		t.Fatal("committed after a crash")
	}
	want(t, "in the process that failed", lines(r.events(protocol.Cursor{})), "create /a.txt by link")
	r.c.Close()
	list := "create /a.txt by link"
	for _, ro := range []bool{true, false, true} {
		if r.o.ReadOnly = ro; !ro {
			list += ", update /a.txt by age, create /b.txt by link"
		}
		r.c = open(t, r.dir, &r.o)
		want(t, fmt.Sprint("read-only ", ro), lines(r.events(protocol.Cursor{})), list)
		r.c.Close()
	}
	// The same holds if a file was only to be removed.
	r.o.ReadOnly = false
	r.c = open(t, r.dir, &r.o)
	r.c.CrashAfter(0)
	if _, err := r.c.Commit(&collection.Commit{Visits: []collection.Visit{r.answer("/b.txt", 410, "")}}); err == nil {
		t.Fatal("committed after a crash")
	}
	r.c.Close()
	for _, ro := range []bool{true, false, true} {
		if r.o.ReadOnly = ro; !ro {
			list += ", delete /b.txt by age"
		}
		r.c = open(t, r.dir, &r.o)
		want(t, fmt.Sprint("removed, read-only ", ro), lines(r.events(protocol.Cursor{})), list)
		r.c.Close()
	}
	// A process without a mirror leaves the files alone, and hides nothing.
	r.o.ReadOnly = false
	r.c = open(t, r.dir, &r.o)
	r.c.CrashAfter(0)
	if _, err := r.c.Commit(&collection.Commit{Visits: []collection.Visit{r.answer("/a.txt", 200, "three")}}); err == nil {
		t.Fatal("committed after a crash")
	}
	r.c.Close()
	r.o.Contents = 0
	r.c = open(t, r.dir, &r.o)
	r.visit("/b.txt", 200, "c")
	r.c.Close()
	r.o.ReadOnly = true
	r.c = open(t, r.dir, &r.o)
	want(t, "without a mirror", lines(r.events(protocol.Cursor{})), list+", update /a.txt by age, create /b.txt by age")
}
