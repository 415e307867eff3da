package journal_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// itemsOf yields the items of a journal.
func itemsOf(t *testing.T, j *journal.Journal) func(func(protocol.Item, error) bool) {
	list := entriesOf(t, j)
	return func(yield func(protocol.Item, error) bool) {
		for _, e := range list {
			if !yield(e.Item, nil) {
				return
			}
		}
	}
}

// bytesOf describes what a journal offers: its pages and their bytes.
func bytesOf(t *testing.T, j *journal.Journal) (all []string) {
	for _, e := range entriesOf(t, j) {
		all = append(all, fmt.Sprint(e.Item.URL, e.Item.Digest))
	}
	return all
}

// A copy follows a journal through all its changes, is closed and opened now and then, and takes over at last.
func TestCopyOfAJournal(t *testing.T) {
	seeds := uint64(8)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 5))
			now := noon
			opts := &journal.Options{Now: func() time.Time { return now }}
			first := open(t, filepath.Join(t.TempDir(), "first"), opts)
			endBaseline(t, first)
			file := filepath.Join(t.TempDir(), "copy")
			second := open(t, file, opts)
			must.OK(t, second.Adopt(t.Context(), first.Head(), itemsOf(t, first)))
			for range 60 {
				now = now.Add(time.Duration(rnd.IntN(60)) * time.Second)
				steps := make([]journal.Step, rnd.IntN(30))
				for i := range steps {
					for steps[i] = step(rnd); steps[i].Op == ""; steps[i] = step(rnd) {
					}
					steps[i].Entry.Held = time.Time{}
				}
				take(t, first, steps...)
				if rnd.IntN(5) == 0 {
					second.Close()
					second = open(t, file, opts)
				}
				for second.Head() != first.Head() {
					at := second.Head()
					some, err := first.Read(t.Context(), at, 1+rnd.IntN(20))
					if err == nil {
						err = second.Replay(t.Context(), at, some)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				start := protocol.Cursor{Epoch: first.Head().Epoch, Seq: rnd.Uint64N(first.Head().Seq + 1)}
				same(t, "changes", read(t, second, start), read(t, first, start))
				same(t, "pages", bytesOf(t, second), bytesOf(t, first))
				same(t, "tombstones", stonesOf(t, second), stonesOf(t, first))
			}
			at := second.Head()
			take(t, second, create("the first one after", "it took over"))
			check(t, "number of its own change", read(t, second, at)[0].Seq, at.Seq+1)
		})
	}
}

// Changes that do not follow are refused as a whole.
func TestReplayRefusesGaps(t *testing.T) {
	first, _ := begin(t, nil, "a")
	start := first.Head()
	take(t, first, update("a", "1"), update("a", "2"), create("b", "b"))
	changes := read(t, first, start)
	second, _ := begin(t, nil, "a")
	must.OK(t, second.Adopt(t.Context(), start, itemsOf(t, first)))
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		ctx     context.Context
		after   protocol.Cursor
		changes []protocol.Change
		want    error
	}{
		{t.Context(), start, changes[1:], protocol.ErrEpoch},
		{t.Context(), start, []protocol.Change{changes[0], changes[2]}, protocol.ErrEpoch},
		{t.Context(), protocol.Cursor{Epoch: "other"}, changes, protocol.ErrEpoch},
		{t.Context(), protocol.Cursor{Epoch: start.Epoch, Seq: 1}, changes[1:], protocol.ErrEpoch},
		{ended, start, changes, context.Canceled},
	} {
		if err := second.Replay(c.ctx, c.after, c.changes); !errors.Is(err, c.want) {
			t.Errorf("%d changes after %v: %v", len(c.changes), c.after, err)
		}
		check(t, "head", second.Head(), start)
	}
	if err := second.Replay(t.Context(), start, slices.Repeat(changes, protocol.MaxBatch)); err == nil {
		t.Error("too many changes were stored")
	}
}

// A copy that is told twice that pages are gone has one tombstone of each, that of the last change.
func TestCopyIsToldTwiceThatPagesAreGone(t *testing.T) {
	first, _ := begin(t, nil, "a", "b")
	second, _ := begin(t, &journal.Options{Now: func() time.Time { return noon }})
	start := first.Head()
	must.OK(t, second.Adopt(t.Context(), start, itemsOf(t, first)))
	var changes []protocol.Change
	for range 2 {
		for _, c := range []protocol.Change{{Op: protocol.Delete, Item: protocol.Item{URL: "a", Length: -1}}, {Op: protocol.Move, From: "b", Item: protocol.Item{URL: "c", Length: 1}}} {
			c.Seq, c.At = start.Seq+1+uint64(len(changes)), noon
			changes = append(changes, c)
		}
	}
	must.OK(t, second.Replay(t.Context(), start, changes))
	want := []protocol.Tombstone{{URL: "b", To: "c", At: noon, Seq: changes[3].Seq}, {URL: "a", At: noon, Seq: changes[2].Seq}}
	if got := stonesOf(t, second); !slices.Equal(got, want) {
		t.Errorf("tombstones %v, want %v", got, want)
	}
}

// What is said beside the bytes of a page is copied without a change, if the bytes are the same.
func TestCopyOfWhatStandsBesideTheBytes(t *testing.T) {
	first, _ := begin(t, nil, "a.html", "b.html")
	second := open(t, filepath.Join(t.TempDir(), "copy"), nil)
	must.OK(t, second.Adopt(t.Context(), first.Head(), itemsOf(t, first)))
	head := second.Head()
	entries := entriesOf(t, second)
	same, other := entries[0].Item, entries[1].Item
	same.Title, same.Language, same.Importance = "A title", "en", 50
	other.Title, other.Digest = "That of other bytes", protocol.Sum([]byte("other bytes"))
	absent := page("absent.html", "absent")
	revision := second.Revision()
	for range 2 {
		must.OK(t, second.Replay(t.Context(), protocol.Cursor{}, []protocol.Change{{Item: same}, {Item: other}, {Item: absent}}))
		got := entriesOf(t, second)
		if got[0].Item != same || got[1].Item != entries[1].Item || len(got) != 2 || second.Head() != head || second.Revision() != revision+1 {
			t.Errorf("%+v", got)
		}
		got[0].Item = entries[0].Item
		if !reflect.DeepEqual(got, entries) {
			t.Errorf("%+v", got)
		}
	}
	if err := second.Replay(t.Context(), protocol.Cursor{}, []protocol.Change{{Item: same}, {Seq: head.Seq + 1, Op: protocol.Update, Item: other}}); !errors.Is(err, protocol.ErrEpoch) {
		t.Errorf("a change after no cursor: %v", err)
	}
}
