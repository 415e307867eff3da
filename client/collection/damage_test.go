package collection_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

func TestOneProcessAtATime(t *testing.T) {
	r := newRig(t)
	if _, err := collection.Open(r.dir, &r.o); !errors.Is(err, collection.ErrHeld) {
		t.Errorf("opened twice: %v", err)
	}
	ro := r.o
	ro.ReadOnly = true
	if _, err := collection.Open(r.dir, &ro); !errors.Is(err, collection.ErrHeld) {
		t.Errorf("opened for reading: %v", err)
	}
	r.find("/a")
	r.c.Close()
	one, two := open(t, r.dir, &ro), open(t, r.dir, &ro)
	for _, c := range []*collection.Collection{one, two} {
		if _, ok := c.Known(home + "/a"); !ok {
			t.Error("the page is missing when opened read-only")
		}
		if _, err := c.Commit(&collection.Commit{Finds: finds(1, "/b")}); err == nil {
			t.Error("opening read-only changed the file")
		}
	}
}

func TestOpenRejectsOtherFiles(t *testing.T) {
	for _, b := range []string{"x", "\x00", string(make([]byte, 1<<16))} {
		dir := t.TempDir()
		must.Write(t, filepath.Join(dir, "state.db"), b)
		if c, err := collection.Open(dir, nil); err == nil {
			c.Close()
			t.Errorf("opened %.20q", b)
		}
	}
}

// An existing, empty file is a collection that is about to begin.
func TestEmptyFile(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "state.db"), nil, 0o600))
	for range 2 {
		if _, err := collection.Open(dir, &collection.Options{ReadOnly: true}); err == nil || !strings.Contains(err.Error(), "no crawl has written") {
			t.Errorf("opened for reading: %v", err)
		}
	}
	c := open(t, dir, nil)
	if out, err := c.Commit(&collection.Commit{Finds: finds(0, "/")}); err != nil || len(out.New) != 1 {
		t.Errorf("committed %+v, %v", out, err)
	}
}

// A state whose records have fewer parts is read as it is, and gets the present format before anything is written into it: an earlier
// program must not take the new parts for damage.
func TestFormatIsRaised(t *testing.T) {
	r := newRig(t)
	r.find("/a")
	must.OK(t, r.c.SetVersion(3))
	r.c.Close()
	for _, c := range []struct {
		readOnly bool
		want     uint64
	}{{true, 3}, {false, 6}, {false, 6}} {
		o := r.o
		o.ReadOnly = c.readOnly
		r.c = open(t, r.dir, &o)
		if n := r.c.Len(); n != 1 {
			t.Errorf("%d pages", n)
		}
		r.c.Close()
		if f, err := collection.Format(r.dir); f != c.want || err != nil {
			t.Errorf("read only %v: format %d, %v", c.readOnly, f, err)
		}
	}
}

// A state of another version is not treated as damaged, and is left as it is; for a
// damaged one the error says what to do.
func TestOtherVersion(t *testing.T) {
	for _, version := range []uint64{0, 1, 1 << 40} {
		r := newRig(t)
		r.find("/a")
		must.OK(t, r.c.SetVersion(version))
		r.c.Close()
		before := must.Get(os.ReadFile(filepath.Join(r.dir, "state.db")))
		for _, ro := range []bool{true, false} {
			o := r.o
			o.ReadOnly = ro
			_, err := collection.Open(r.dir, &o)
			if !errors.Is(err, collection.ErrVersion) || errors.Is(err, collection.ErrDamaged) || !strings.Contains(err.Error(), fmt.Sprintf("has format %d, and this program knows 6", version)) {
				t.Errorf("version %d: %v", version, err)
			}
		}
		if after, err := os.ReadFile(filepath.Join(r.dir, "state.db")); err != nil || !bytes.Equal(before, after) {
			t.Errorf("version %d: the file was changed, %v", version, err)
		}
	}
}

// Whichever bytes of the file are damaged, the collection does not panic or
// run for ever, and for each page it returns either a state that was once
// stored or an error that says that the page is damaged.
func TestDamagedState(t *testing.T) {
	r := newRig(t)
	m := r.source(collection.ManifestRDF)
	for i := range 300 {
		r.find(fmt.Sprintf("/p%d", i))
	}
	was := map[frontier.PageID][]protocol.Digest{}
	for i := range 250 {
		p := r.visit(fmt.Sprintf("/p%d", i), 200, fmt.Sprint("body", i), fmt.Sprintf("/p%d", i*7%300), fmt.Sprintf("/q%d", i)).Page
		was[p.ID] = append(was[p.ID], p.Digest)
	}
	r.apply(m, whole(1, create("/p1", "other"), create("/p2", "body2")), collection.ByManifest)
	refers := referred(t, r.c)
	urls := map[frontier.PageID]string{}
	for p, err := range r.c.Pages(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		urls[p.ID] = p.URL
	}
	r.c.Close()
	whole := must.Get(os.ReadFile(filepath.Join(r.dir, "state.db")))
	used := len(whole)
	for used > 0 && whole[used-1] == 0 {
		used--
	}
	noticed, rounds := 0, 40
	if testing.Short() {
		rounds = 10
	}
	for round := range rounds {
		rnd := rand.New(rand.NewPCG(1, uint64(round))) // so that one round can be repeated
		b := slices.Clone(whole[:min(used+4096, len(whole))])
		if round%10 == 9 {
			b = b[:rnd.IntN(len(b))]
		} else {
			for range 1 + rnd.IntN(8) {
				at, n := rnd.IntN(used), 1+rnd.IntN(1+rnd.IntN(200))
				for i := at; i < min(at+n, used); i++ {
					b[i] = byte(rnd.Uint32())
				}
			}
		}
		dir := t.TempDir()
		must.OK(t, os.WriteFile(filepath.Join(dir, "state.db"), b, 0o600))
		look := func(err error) bool {
			if err != nil {
				noticed++
				if strings.Contains(err.Error(), "runtime error") || strings.HasPrefix(err.Error(), "open") && errors.Is(err, collection.ErrDamaged) && !strings.Contains(err.Error(), "move state.db away") {
					t.Errorf("unhelpful error: %v", err)
				}
			}
			return err == nil
		}
		c, err := collection.Open(dir, &r.o)
		if !look(err) {
			continue
		}
		for p, err := range c.Pages(t.Context()) {
			if look(err) && (p.URL != urls[p.ID] || !p.Digest.IsZero() && !slices.Contains(was[p.ID], p.Digest)) {
				t.Errorf("round %d: page %d is %s %s", round, p.ID, p.URL, p.Digest)
			}
			if err == nil {
				_, err = c.Links(p.ID)
				look(err)
			}
		}
		look(c.References(func(page frontier.PageID, counts *collection.References, damaged error) bool {
			if look(damaged) && fmt.Sprint(*counts) != refers[page] {
				t.Errorf("round %d: page %d refers to %v", round, page, *counts)
			}
			return true
		}))
		_, err = c.Sources(0)
		look(err)
		list, err := c.Queue().Head(1, frontier.Entry{}, 50)
		look(err)
		_, err = c.Queue().Promote(r.now.AddDate(1, 0, 0).UnixMilli(), 50)
		look(err)
		turn := &collection.Commit{Finds: finds(0, "/new", "/p5", "/q9")}
		for _, e := range list {
			turn.Visits = append(turn.Visits, collection.Visit{Page: e.Page, Asked: r.now, Status: 200, Digest: protocol.Sum([]byte("x")), Links: finds(2, "/p3")})
		}
		_, err = c.Commit(turn)
		look(err)
		_, err = c.Apply(m.ID, told(9, create("/p3", "Q"), remove("/p4")), collection.ByStream, collection.ApplyOptions{})
		look(err)
		c.Close()
	}
	if noticed == 0 {
		t.Error("no damage was detected")
	}
	t.Logf("detected %d times", noticed)
}

// If the events in the state are damaged, the next process that writes begins a new epoch with the stored contents, even if
// it is killed while it does so. Nothing else is lost.
func TestDamagedEvents(t *testing.T) {
	r := newKeeper(t, collection.WARC, "gzip")
	var log bytes.Buffer
	r.o.Log = slog.New(slog.NewTextHandler(&log, nil))
	r.find("/a", "/b")
	r.visit("/a", 200, "one")
	r.visit("/b", 200, "b")
	for round, spoil := range []func() error{
		func() error { return r.c.SpoilEvents(0) },
		func() error { return errors.Join(r.c.SpoilEvents(0), r.c.DropEvents()) },
	} {
		head := r.c.Log().Head()
		must.OK(t, spoil())
		if round == 0 {
			_, err := r.c.Commit(&collection.Commit{Visits: []collection.Visit{r.answer("/b", 200, "never")}})
			if !errors.Is(err, collection.ErrDamaged) || strings.Contains(err.Error(), "move the file") {
				t.Errorf("committed to a damaged journal: %v", err)
			}
		}
		r.c.Close()
		archive := captures(t, r.dir)
		log.Reset()
		r.c = open(t, r.dir, &r.o)
		if got := r.c.Log().Head(); got.Epoch == head.Epoch || !strings.Contains(log.String(), "new epoch") {
			t.Errorf("head %v, logged %q", got, log.String())
		}
		want(t, "events", lines(r.events(protocol.Cursor{})), "create /a by link, create /b by link")
		want(t, "a", r.content("/a"), "one")
		r.c.Close()
		if got := captures(t, r.dir); fmt.Sprint(got) != fmt.Sprint(archive) {
			t.Errorf("archived %v, want %v", got, archive)
		}
		r.c = open(t, r.dir, &r.o)
		head = r.c.Log().Head()
		r.visit("/b", 200, fmt.Sprint("later ", round))
		want(t, "a later change", lines(r.events(head)), "update /b by age")
	}
}

// A damaged change is forgotten when its turn comes, and stops no commit.
func TestDamagedEventIsForgotten(t *testing.T) {
	r := newRig(t)
	r.o.MaxEvents = 3
	r.reopen()
	r.find("/a")
	r.visit("/a", 200, "1")
	r.visit("/a", 410, "")
	r.visit("/a", 200, "3")
	must.OK(t, r.c.SpoilEvents(2))
	for i := range 3 {
		r.visit("/a", 200, fmt.Sprint(4+i))
	}
	want(t, "events", lines(r.events(protocol.Cursor{Epoch: r.c.Log().Head().Epoch, Seq: 3})), "update /a by age, update /a by age, update /a by age")
}

// A transaction that fails before its commit is an error like any other: the next one is stored, and the archive is whole.
func TestFailureBeforeTheCommit(t *testing.T) {
	r := newKeeper(t, collection.WARC, "")
	r.o.MaxEvents = 1
	r.reopen()
	r.find("/a")
	r.visit("/a", 200, "1")
	unblock := must.Get(r.c.BlockEvents(1))
	head := r.c.Log().Head()
	for range 2 {
		_, err := r.c.Commit(&collection.Commit{Visits: []collection.Visit{r.answer("/a", 200, "2")}})
		if err == nil || strings.Contains(err.Error(), "reopen") {
			t.Errorf("committed: %v", err)
		}
	}
	want(t, "head", r.c.Log().Head(), head)
	must.OK(t, unblock())
	r.find("/b") // no record moves the end of the archive
	r.reopen()
	want(t, "head", r.c.Log().Head(), head)
	want(t, "a", r.content("/a"), "1")
	r.visit("/a", 200, "3")
	want(t, "events", lines(r.events(head)), "update /a by age")
	r.reopen()
	want(t, "a", r.content("/a"), "3")
	want(t, "epoch", r.c.Log().Head().Epoch, head.Epoch)
	captures(t, r.dir)
}
