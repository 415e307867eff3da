package journal_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

func TestRenewDropsChangesAndKeepsItems(t *testing.T) {
	j, file := begin(t, nil, "a", "b", "c")
	old := take(t, j, update("a", "2"), remove("b"), note("c", "kept", noon))
	must.OK(t, j.Renew(context.Background(), nil))
	check(t, "whole", j.Whole(), true)
	check(t, "seq", j.Head().Seq, 0)
	if j.Head().Epoch == old.Epoch {
		t.Error("the epoch is the old one")
	}
	if _, err := j.Read(context.Background(), old, 0); !errors.Is(err, protocol.ErrEpoch) {
		t.Errorf("read after a cursor of the old epoch: %v", err)
	}
	j.Close()
	j = open(t, file, nil)
	v := view(t, j)
	check(t, "entries", urls(collect(t, v.Entries())), "a c")
	check(t, "held", urls(collect(t, v.Held())), "c")
	check(t, "tombstones", len(collect(t, v.Tombstones())), 0)
	take(t, j, create("d", "d"))
	check(t, "changes", told(read(t, j, protocol.Cursor{Epoch: j.Head().Epoch})), "1 create d")
}

func TestRenewWithOtherItems(t *testing.T) {
	j, _ := begin(t, nil, "a", "b", "sub/c", "d")
	take(t, j, note("d", "stamp d", noon))
	items := []protocol.Item{page("a", "first a"), page("b", "other"), page("d", "first d"), page("new/e", "e")}
	items[0].Modified = noon.Add(-48 * time.Hour)
	bad := errors.New("cannot be read")
	seq := func(items []protocol.Item, err error) iter.Seq2[protocol.Item, error] {
		return func(yield func(protocol.Item, error) bool) {
			for _, it := range items {
				if !yield(it, nil) {
					return
				}
			}
			if err != nil {
				yield(protocol.Item{}, err)
			}
		}
	}
	before := j.Head()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, err := range []error{
		j.Renew(context.Background(), seq(items, bad)),
		j.Renew(context.Background(), seq([]protocol.Item{items[1], items[0]}, nil)),
		j.Renew(context.Background(), seq([]protocol.Item{items[1], items[1]}, nil)),
		j.Renew(context.Background(), seq([]protocol.Item{{}}, nil)),
		j.Renew(ended, seq(items, nil)),
		j.Renew(ended, nil),
	} {
		if err == nil {
			t.Error("renew did not fail")
		}
	}
	check(t, "head after failures", j.Head(), before)
	check(t, "entries after failures", urls(entriesOf(t, j)), "a b d sub/c")

	must.OK(t, j.Renew(context.Background(), seq(items, nil)))
	check(t, "whole", j.Whole(), false)
	check(t, "head", j.Head(), protocol.Cursor{})
	v := view(t, j)
	entries := collect(t, v.Entries())
	check(t, "entries", urls(entries), "a b d new/e")
	check(t, "held", len(collect(t, v.Held())), 0)
	check(t, "len", v.Len(), 4)
	for i, stamp := range []string{"stamp a", journal.Inherited, "stamp d", journal.Inherited} {
		if entries[i].Item != items[i] || string(entries[i].Stamp) != stamp || !entries[i].Held.IsZero() {
			t.Errorf("entry %+v, want %+v with stamp %q", entries[i], items[i], stamp)
		}
	}
	endBaseline(t, j)
	take(t, j, update("a", "2"))
	check(t, "changes", told(read(t, j, protocol.Cursor{Epoch: j.Head().Epoch})), "1 update a")
	// Without digests the date tells whether it is what it was.
	undated, dated, later := protocol.Item{URL: "https://site.example/1", Length: -1}, protocol.Item{URL: "https://site.example/2", Length: -1, Modified: noon},
		protocol.Item{URL: "https://site.example/3", Length: -1, Modified: noon}
	items = []protocol.Item{undated, dated, later}
	for _, it := range items {
		take(t, j, journal.Step{Op: protocol.Create, Entry: journal.Entry{Item: it, Stamp: []byte("stamp"), Newest: noon}})
	}
	items[2].Modified = noon.Add(time.Second)
	must.OK(t, j.Renew(context.Background(), seq(items, nil)))
	for i, e := range entriesOf(t, j) {
		if want := []string{"stamp", "stamp", journal.Inherited}[i]; string(e.Stamp) != want {
			t.Errorf("%s has the stamp %q, want %q", e.Item.URL, e.Stamp, want)
		}
	}
	endBaseline(t, j)
	// And back into the first of the two buckets.
	must.OK(t, j.Renew(context.Background(), seq(nil, nil)))
	check(t, "items", j.Len(), 0)
}

// A second journal takes over in the epoch of the first: a reader goes on without noticing.
func TestAdoptGoesOnInTheEpoch(t *testing.T) {
	first, _ := begin(t, nil, "a", "b", "sub/c")
	at := take(t, first, update("a", "2"), remove("b"))
	yesterday := &journal.Options{Now: func() time.Time { return noon.Add(-24 * time.Hour) }}
	second, file := begin(t, yesterday, "a", "old")
	items := func(yield func(protocol.Item, error) bool) {
		for _, e := range entriesOf(t, first) {
			if !yield(e.Item, nil) {
				return
			}
		}
	}
	before := second.Head()
	bad := errors.New("cannot be read")
	if err := second.Adopt(t.Context(), at, func(yield func(protocol.Item, error) bool) { yield(page("a", ""), nil); yield(page("x", ""), bad) }); !errors.Is(err, bad) {
		t.Errorf("items that cannot be read: %v", err)
	}
	check(t, "head after a failure", second.Head(), before)
	must.OK(t, second.Adopt(t.Context(), at, items))
	for range 2 {
		check(t, "head", second.Head(), at)
		check(t, "floor", second.Floor(), at)
		check(t, "whole", second.Whole(), true)
		check(t, "entries", urls(entriesOf(t, second)), "a sub/c")
		second.Close()
		second = open(t, file, yesterday)
	}
	waiting := make(chan error, 1)
	go func() { waiting <- second.Wait(t.Context(), at) }()
	take(t, second, create("d", "d"))
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
	check(t, "changes", told(read(t, second, at)), "3 create d")
	check(t, "time of a journal whose clock is a day behind", read(t, second, at)[0].At, page("a", "").Modified)
	if _, err := second.Read(t.Context(), protocol.Cursor{Epoch: at.Epoch, Seq: at.Seq - 1}, 0); !errors.Is(err, protocol.ErrTooOld) {
		t.Errorf("changes that only the first journal has: %v", err)
	}
	if _, err := second.Read(t.Context(), before, 0); !errors.Is(err, protocol.ErrEpoch) {
		t.Errorf("its own former epoch: %v", err)
	}
}
