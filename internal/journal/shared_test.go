package journal_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// owned opens a file that belongs to the test, with a bucket that the journal may use too.
func owned(t *testing.T, path string) *boltfile.File {
	t.Helper()
	db, err := boltfile.Open(path, boltfile.Options{})
	if err == nil {
		err = db.Update(func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucketIfNotExists([]byte("meta"))
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func in(t *testing.T, db *boltfile.File, o *journal.Options) *journal.Journal {
	t.Helper()
	j := must.Get(journal.In(db, o))
	t.Cleanup(func() { j.Close() })
	return j
}

// join runs f in a transaction of the owner, up to its commit.
func join(t *testing.T, db *boltfile.File, j *journal.Journal, f func(p *journal.Part) error) *journal.Part {
	t.Helper()
	tx, err := db.Begin(true)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	p, err := j.Join(tx)
	if err == nil {
		err = f(p)
	}
	if err == nil {
		err = p.Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func appending(steps ...journal.Step) func(p *journal.Part) error {
	return func(p *journal.Part) error {
		for _, s := range steps {
			if _, err := p.Append(s); err != nil {
				return err
			}
		}
		return nil
	}
}

// A journal in a file of another owner is the same as one of its own, through the same steps.
func TestSharedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	db := owned(t, path)
	now := noon
	o := &journal.Options{MaxChanges: 1500, Now: func() time.Time { return now }}
	shared, own := in(t, db, o), open(t, filepath.Join(t.TempDir(), "journal"), o)
	endBaseline(t, own)
	join(t, db, shared, func(p *journal.Part) error { return p.Renew("test/items") }).Publish()
	if n, err := shared.Note("test/items"); n != nil || err != nil {
		t.Errorf("a note %q in an empty epoch, %v", n, err)
	}
	same := func() {
		t.Helper()
		epoch := func(j *journal.Journal, seq uint64) protocol.Cursor {
			return protocol.Cursor{Epoch: j.Head().Epoch, Seq: seq}
		}
		if shared.Head() != epoch(shared, own.Head().Seq) || shared.Floor() != epoch(shared, own.Floor().Seq) {
			t.Fatalf("changes after %v up to %v, want those after %v up to %v", shared.Floor(), shared.Head(), own.Floor(), own.Head())
		}
		for seq := own.Floor().Seq; seq < own.Head().Seq; seq += protocol.MaxBatch {
			if a, b := read(t, shared, epoch(shared, seq)), read(t, own, epoch(own, seq)); !reflect.DeepEqual(a, b) {
				t.Fatalf("changes after %d: %s, want %s", seq, told(a), told(b))
			}
		}
		if a, b := entries(t, shared), entries(t, own); !reflect.DeepEqual(a, b) {
			t.Fatalf("entries %v, want %v", a, b)
		}
	}
	var many []journal.Step
	for i := range 3*protocol.MaxBatch + 5 {
		many = append(many, create(fmt.Sprintf("p%d", i%700), fmt.Sprint(i)))
	}
	for _, steps := range [][]journal.Step{
		{create("a", "1"), create("b", "1"), update("a", "2")},
		{update("a", "2"), remove("none")}, // no news
		{move("a", "c", "2"), remove("b"), create("b", "3")},
		many,
	} {
		now = now.Add(time.Minute)
		join(t, db, shared, appending(steps...)).Publish()
		for len(steps) > 0 {
			n := min(len(steps), protocol.MaxBatch)
			take(t, own, steps[:n]...)
			steps = steps[n:]
		}
		same()
	}
	must.OK(t, shared.Close())
	shared = in(t, db, o)
	same()
	head := shared.Head()
	join(t, db, shared, func(p *journal.Part) error { return p.Renew("test/items") }).Publish()
	if n, err := shared.Note("test/items"); string(n) != "1" || err != nil {
		t.Errorf("note %q of an epoch that begins with items, %v", n, err)
	}
	if h := shared.Head(); h.Epoch == head.Epoch || h.Seq != 0 || len(entries(t, shared)) == 0 {
		t.Errorf("a new epoch at %v with %d entries", h, len(entries(t, shared)))
	}
}

func entries(t *testing.T, j *journal.Journal) []journal.Entry {
	t.Helper()
	v := must.Get(j.View())
	defer v.Close()
	return collect(t, v.Entries())
}

// Readers see the changes of the owner's transaction when it publishes them, and not before; those of one that is
// rolled back never existed.
func TestSharedFilePublishes(t *testing.T) {
	db := owned(t, filepath.Join(t.TempDir(), "state"))
	j := in(t, db, nil)
	join(t, db, j, func(p *journal.Part) error { return p.Renew("test/items") }).Publish()
	head := j.Head()
	tx := must.Get(db.Begin(true))
	p := must.Get(j.Join(tx))
	if seq, err := p.Append(create("lost", "1")); seq != 1 || err != nil {
		t.Errorf("change %d, %v", seq, err)
	}
	must.OK(t, tx.Rollback())
	woken := make(chan error, 1)
	go func() { woken <- j.Wait(t.Context(), head) }()
	p = join(t, db, j, appending(create("a", "1")))
	if list := read(t, j, head); len(list) > 0 || j.Head() != head {
		t.Errorf("%s before it was published, head %v", told(list), j.Head())
	}
	select {
	case err := <-woken:
		t.Errorf("woken before the change is published: %v", err)
	default:
	}
	p.Publish()
	if err := <-woken; err != nil {
		t.Error(err)
	}
	if got := told(read(t, j, head)); got != "1 create a" {
		t.Errorf("published: %s", got)
	}
	go func() { woken <- j.Wait(context.Background(), j.Head()) }()
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	if err := <-woken; err == nil {
		t.Error("a reader waits in vain")
	}
	if err := db.View(func(tx *bbolt.Tx) error { return nil }); err != nil {
		t.Errorf("the owner's file was closed: %v", err)
	}
}

// A copy has the cursor, the changes, the entries, the tombstones and the notes, whatever was there before.
func TestCopy(t *testing.T) {
	from, _ := begin(t, &journal.Options{MaxChanges: 50}, "a", "b", "c")
	db := owned(t, filepath.Join(t.TempDir(), "state"))
	for round := range 3 {
		for i := range 40 {
			take(t, from, create(fmt.Sprint("p", i), fmt.Sprint(round)), remove(fmt.Sprint("p", i/2)))
		}
		must.OK(t, from.SetNotes(map[string][]byte{"test/round": []byte(fmt.Sprint(round))}))
		must.OK(t, journal.Copy(db, from))
		j := in(t, db, nil)
		if j.Head() != from.Head() || j.Floor() != from.Floor() || j.Revision() != from.Revision() {
			t.Errorf("%v to %v, want %v to %v", j.Floor(), j.Head(), from.Floor(), from.Head())
		}
		if a, b := read(t, j, j.Floor()), read(t, from, from.Floor()); len(a) == 0 || !reflect.DeepEqual(a, b) {
			t.Errorf("changes %s, want %s", told(a), told(b))
		}
		if a, b := entries(t, j), entries(t, from); !reflect.DeepEqual(a, b) {
			t.Errorf("entries %v, want %v", a, b)
		}
		if a, _, err := j.Gone(page("p1", "").URL); err != nil {
			t.Error(err)
		} else if b, _, _ := from.Gone(page("p1", "").URL); a != b {
			t.Errorf("tombstone %v, want %v", a, b)
		}
		if n, err := j.Note("test/round"); string(n) != fmt.Sprint(round) || err != nil {
			t.Errorf("note %q, %v", n, err)
		}
		j.Close()
	}
	must.OK(t, journal.Copy(db, nil))
	j := in(t, db, nil)
	if j.Whole() || j.Len() > 0 {
		t.Errorf("%d entries are left", j.Len())
	}
	if _, err := j.Read(t.Context(), from.Head(), 0); !errors.Is(err, protocol.ErrEpoch) {
		t.Errorf("a journal without a description answers %v", err)
	}
}
