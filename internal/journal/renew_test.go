package journal_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
)

func TestRenewDropsChangesAndKeepsItems(t *testing.T) {
	j, file := begin(t, nil, "a", "b", "c")
	old := take(t, j, update("a", "2"), remove("b"), note("c", "kept", noon))
	if err := j.Renew(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
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

	if err := j.Renew(context.Background(), seq(items, nil)); err != nil {
		t.Fatal(err)
	}
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
	if err := j.Renew(context.Background(), seq(items, nil)); err != nil {
		t.Fatal(err)
	}
	for i, e := range entriesOf(t, j) {
		if want := []string{"stamp", "stamp", journal.Inherited}[i]; string(e.Stamp) != want {
			t.Errorf("%s has the stamp %q, want %q", e.Item.URL, e.Stamp, want)
		}
	}
	endBaseline(t, j)
	// And back into the first of the two buckets.
	if err := j.Renew(context.Background(), seq(nil, nil)); err != nil {
		t.Fatal(err)
	}
	check(t, "items", j.Len(), 0)
}
