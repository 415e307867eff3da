package collection_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/protocol"
)

// Killed at any instant while it is opened, a collection whose state was restored from a backup never continues the
// epoch, and never cuts its archive off.
func TestKilledAfterRestore(t *testing.T) {
	openInChild(t)
	r := newKeeper(t, collection.WARC, "gzip")
	r.find("/a", "/b")
	r.visit("/a", 200, "one")
	backup, err := os.ReadFile(filepath.Join(r.dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	r.visit("/b", 200, "later")
	head := r.c.Log().Head()
	if err := r.c.Close(); err != nil {
		t.Fatal(err)
	}
	archive := captures(t, r.dir)
	if err := os.WriteFile(filepath.Join(r.dir, "state.db"), backup, 0o600); err != nil {
		t.Fatal(err)
	}
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
	older, err := os.ReadFile(witness)
	if err != nil {
		t.Fatal(err)
	}
	r.visit("/a", 200, "two")
	head := r.c.Log().Head()
	want(t, "witness", fmt.Sprint(string(older) != readFile(t, witness)), "true")
	r.c.Close()
	if err := os.WriteFile(witness, older, 0o600); err != nil {
		t.Fatal(err)
	}
	r.c = open(t, r.dir, &r.o)
	want(t, "head", r.c.Log().Head(), head)
	want(t, "events", lines(r.events(protocol.Cursor{})), "create /a by link, update /a by age")
	r.reopen()
	want(t, "head, reopened", r.c.Log().Head(), head)
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
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
				content, err := r.c.Content(&p)
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
	want(t, "without a mirror", lines(r.events(protocol.Cursor{})), list+", update /a.txt by age, update /b.txt by age")
}
