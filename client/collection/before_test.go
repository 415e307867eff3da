package collection_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// beforeNow is the time when a beforeRig is ready.
var beforeNow = time.Date(2026, 3, 1, 15, 0, 0, 0, time.UTC)

// A beforeRig is a collection whose last transaction has some changes, and a copy of it from before that.
type beforeRig struct {
	*rig
	earlier string
	events  []collection.Event
	head    protocol.Cursor
}

// newBeforeRig makes some changes in several transactions, and then last ones in one.
func newBeforeRig(t *testing.T, last int) *beforeRig {
	r := &beforeRig{rig: newKeeper(t, collection.WARC, "gzip"), earlier: t.TempDir()}
	r.find("/a", "/b", "/c", "/d")
	r.wait(time.Hour)
	v := r.answer("/a", 200, "one")
	v.Title, v.Language, v.Text, v.LastModified, v.NoIndex = "A", "en", protocol.Sum([]byte("text")), "Mon, 02 Feb 2026 10:00:00 GMT", true
	r.commit(collection.Commit{Visits: []collection.Visit{v, r.answer("/b", 200, "b")}})
	r.visit("/c", 200, "c")
	r.wait(time.Hour)
	r.visit("/c", 410, "")
	copyDir(t, r.dir, r.earlier)
	r.wait(time.Hour)
	list := []collection.Visit{r.answer("/b", 410, "")}
	for i := range last - 1 {
		v := r.answer("/a", 200, fmt.Sprint("body ", i))
		v.Text = protocol.Sum([]byte("text"))
		list = append(list, v)
	}
	if last > 0 {
		r.commit(collection.Commit{Visits: list})
	}
	r.events, r.head = r.rig.events(protocol.Cursor{}), r.c.Log().Head()
	must.OK(t, r.c.Close())
	if len(r.events) != 4+last {
		t.Fatalf("%d events, want %d", len(r.events), 4+last)
	}
	return r
}

// before makes the collection one of the version before.
func (r *beforeRig) before(appended int) {
	r.t.Helper()
	must.OK(r.t, collection.MakeBefore(r.dir, r.earlier, appended, &journal.Options{Now: r.o.Now}))
	if f, err := collection.Format(r.dir); f != 2 || err != nil {
		r.t.Fatalf("format %d, %v", f, err)
	}
}

func (r *beforeRig) want(list []collection.Event) {
	r.t.Helper()
	got := r.rig.events(protocol.Cursor{})
	for i := range got {
		if i < len(list) && got[i] != list[i] {
			r.t.Fatalf("event %d is %+v, want %+v", i, got[i], list[i])
		}
	}
	if len(got) != len(list) || r.c.Log().Head().Epoch != r.head.Epoch {
		r.t.Errorf("%d events up to %v, want %d up to %v", len(got), r.c.Log().Head(), len(list), r.head)
	}
}

// A state of the version before has the same epoch, numbers and events afterwards, wherever its last process was killed:
// its changes are in the outbox, in the journal or in both.
func TestStateOfTheVersionBefore(t *testing.T) {
	for _, c := range []struct{ last, appended int }{
		{0, 0},         // closed
		{1, 0}, {1, 1}, //
		{50, 0}, {50, 50}, // killed before and after it appended them to the journal
		{1500, 0}, {1500, 1000},
	} {
		r := newBeforeRig(t, c.last)
		r.before(c.appended)
		archive := captures(t, r.dir)
		ro := r.o
		ro.ReadOnly = true
		r.c = open(t, r.dir, &ro)
		r.want(r.events[:4+c.appended])
		r.c.Close()
		if f, err := collection.Format(r.dir); f != 2 || err != nil {
			t.Errorf("reading has made the format %d, %v", f, err)
		}
		for range 2 {
			r.c = open(t, r.dir, &r.o)
			r.want(r.events)
			if f, _ := collection.Format(r.dir); f != 0 { // held by this process
				t.Errorf("format %d is readable", f)
			}
			r.c.Close()
			if f, err := collection.Format(r.dir); f != 6 || err != nil {
				t.Errorf("format %d, %v", f, err)
			}
		}
		if got := captures(t, r.dir); fmt.Sprint(got) != fmt.Sprint(archive) {
			t.Errorf("%+v: the archive has changed", c)
		}
		r.c = open(t, r.dir, &r.o)
		r.visit("/d", 200, "d")
		if got := r.rig.events(r.head); len(got) != 1 || got[0].Cursor.Seq != r.head.Seq+1 || got[0].Signal != collection.ByLink || r.content("/d") != "d" {
			t.Errorf("%+v: after it %+v", c, got)
		}
	}
}

// If the journal of the version before is lost, or is further than the state, a new epoch begins with the stored contents, and
// the archive is not cut off.
func TestStateOfTheVersionBeforeWithoutItsJournal(t *testing.T) {
	for name, spoil := range map[string]func(r *beforeRig){
		"removed": func(r *beforeRig) { os.Remove(filepath.Join(r.dir, "journal.db")) },
		"damaged": func(r *beforeRig) { os.WriteFile(filepath.Join(r.dir, "journal.db"), make([]byte, 1<<16), 0o600) },
		"the state was restored, and the journal not": func(r *beforeRig) {
			j, err := journal.Open(filepath.Join(r.dir, "journal.db"), nil)
			if err == nil {
				_, err = j.Append(context.Background(), []journal.Step{{Op: protocol.Create, Entry: journal.Entry{Item: protocol.Item{URL: home + "/later"}}}})
				err = errors.Join(err, j.Close())
			}
			if err != nil {
				r.t.Fatal(err)
			}
		},
		"the state was restored to before it was brought over": func(r *beforeRig) {
			b := must.Get(os.ReadFile(filepath.Join(r.dir, "state.db")))
			r.c = open(r.t, r.dir, &r.o)
			r.visit("/d", 200, "later")
			r.c.Close()
			must.OK(r.t, os.WriteFile(filepath.Join(r.dir, "state.db"), b, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newBeforeRig(t, 5)
			r.before(5)
			r.t = t
			spoil(r)
			archive := captures(t, r.dir)
			for range 2 {
				r.c = open(t, r.dir, &r.o)
				if r.c.Log().Head().Epoch == r.head.Epoch {
					t.Error("the epoch continues")
				}
				if got := r.rig.events(protocol.Cursor{}); lines(got) != "create /a by link (same text)" && lines(got) != "create /a by link" || !got[0].Snapshot {
					t.Errorf("events: %s", lines(got))
				}
				r.c.Close()
			}
			if got := captures(t, r.dir); fmt.Sprint(got) != fmt.Sprint(archive) {
				t.Errorf("archived %v, want %v", got, archive)
			}
		})
	}
}

// However a page of the journal of the version before is damaged, the state is brought over: with its events, or in a new
// epoch.
func TestStateOfTheVersionBeforeWithADamagedJournal(t *testing.T) {
	r := newBeforeRig(t, 300)
	r.before(300)
	whole := r.dir
	pages := must.Get(os.ReadFile(filepath.Join(whole, "journal.db")))
	archive, size, began := captures(t, whole), os.Getpagesize(), 0
	for at := 2 * size; at < len(pages); at += size {
		if bytes.Equal(pages[at:at+size], make([]byte, size)) {
			continue
		}
		r.dir = t.TempDir()
		copyDir(t, whole, r.dir)
		b := bytes.Clone(pages)
		copy(b[at:], make([]byte, size))
		must.OK(t, os.WriteFile(filepath.Join(r.dir, "journal.db"), b, 0o600))
		r.c = open(t, r.dir, &r.o)
		if r.c.Log().Head().Epoch == r.head.Epoch {
			r.want(r.events)
		} else if began++; lines(r.rig.events(protocol.Cursor{})) != "create /a by link" {
			t.Errorf("page %d: events: %s", at/size, lines(r.rig.events(protocol.Cursor{})))
		}
		r.c.Close()
		if got := captures(t, r.dir); fmt.Sprint(got) != fmt.Sprint(archive) {
			t.Errorf("page %d: archived %v, want %v", at/size, got, archive)
		}
	}
	if began < 3 {
		t.Errorf("a new epoch began %d times: too few to prove anything", began)
	}
}

// beforeEnv makes the test binary open the collection that it names, and wait.
const beforeEnv = "PARLEY_TEST_BEFORE"

// killedAt runs a child that opens a collection, and kills it so long after it has begun. It reports whether the child was done.
func killedAt(t *testing.T, test, dir string, delay time.Duration) (took time.Duration, done bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), beforeEnv+"="+dir)
	var out bytes.Buffer
	cmd.Stderr = &out
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if n, err := pipe.Read(make([]byte, 1)); n != 1 { // it is about to open the collection
		t.Fatalf("child: %v %s", err, out.String())
	}
	begin := time.Now()
	kill := time.AfterFunc(delay, func() { cmd.Process.Kill() })
	defer kill.Stop()
	n, _ := io.ReadFull(pipe, make([]byte, 1))
	took = time.Since(begin)
	cmd.Process.Kill()
	rest, _ := io.ReadAll(pipe)
	cmd.Wait()
	if len(rest) > 0 || out.Len() > 0 {
		t.Fatalf("child: %s%s", rest, out.String())
	}
	return took, n == 1
}

// openInChild opens a collection, says so, and waits to be killed.
func openInChild(t *testing.T) {
	dir := os.Getenv(beforeEnv)
	if dir == "" {
		return
	}
	os.Stdout.WriteString(".")
	c, err := collection.Open(dir, &collection.Options{Contents: collection.WARC, Coding: "gzip", Now: func() time.Time { return beforeNow }})
	if err != nil {
		os.Stdout.WriteString("error: " + err.Error())
		os.Exit(1)
	}
	os.Stdout.WriteString(".")
	time.Sleep(time.Minute)
	c.Close()
	os.Exit(1)
}

// Killed at any instant while its state is brought over, a collection has the same epoch, numbers and events in the
// end; and until then the files are as the version before left them.
func TestKilledWhileBroughtOver(t *testing.T) {
	openInChild(t)
	r := newBeforeRig(t, 0)
	r.c = open(t, r.dir, &r.o)
	title := strings.Repeat("title ", 45)
	for i := range 9 { // so many that copying them takes some transactions
		var turn collection.Commit
		for k := range 1000 {
			v := r.answer("/a", 200, fmt.Sprint("body ", i, k))
			v.Title = fmt.Sprint(title, i, k)
			turn.Visits = append(turn.Visits, v)
		}
		r.commit(turn)
		if i == 7 {
			r.earlier = t.TempDir()
			copyDir(t, r.dir, r.earlier)
		}
	}
	r.events, r.head = r.rig.events(protocol.Cursor{}), r.c.Log().Head()
	r.c.Close()
	whole := r.dir
	for _, appended := range []int{1000, 0} {
		fresh := func(from string) {
			r.dir = t.TempDir()
			copyDir(t, from, r.dir)
		}
		fresh(whole)
		r.before(appended)
		before := r.dir
		old := must.Get(os.ReadFile(filepath.Join(before, "journal.db")))
		fresh(before)
		full, _ := killedAt(t, "TestKilledWhileBroughtOver", r.dir, time.Minute)
		rounds, early, late := 18, 0, 0
		if testing.Short() {
			rounds = 8
		}
		fresh(before)
		for i := 0; i < rounds || i < 10*rounds && (early < rounds/4 || late == 0); i++ {
			took, done := killedAt(t, "TestKilledWhileBroughtOver", r.dir, full*time.Duration(i%rounds)/time.Duration(rounds-2))
			if done { // a busy machine is slower at one time than at another
				full = took
			} else if i%rounds > rounds-3 {
				full *= 2
			}
			f := must.Get(collection.Format(r.dir))
			if f == 2 {
				early++
				if b, err := os.ReadFile(filepath.Join(r.dir, "journal.db")); err != nil || !bytes.Equal(b, old) {
					t.Fatalf("round %d: the journal has changed: %v", i, err)
				}
				if i%3 > 0 { // the next one begins with what this one left behind
					continue
				}
			} else {
				late++
			}
			r.c = open(t, r.dir, &r.o)
			r.want(r.events)
			if err := r.c.Close(); err != nil || t.Failed() {
				t.Fatalf("round %d: format %d, done %v: %v", i, f, done, err)
			}
			fresh(before)
		}
		if early < rounds/4 || late == 0 {
			t.Errorf("killed %d times before the last transaction, and %d times after it: too few to prove anything", early, late)
		}
		t.Logf("%v: killed %d times before the last transaction, and %d times after it", full, early, late)
	}
}
