package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

var noon = time.Date(2024, 5, 17, 12, 0, 0, 0, time.UTC)

// page is the item of a URL below the test's site with the given content.
func page(path, content string) protocol.Item {
	return protocol.Item{URL: "https://example.org/" + path, Title: "Page " + path, Modified: noon.Add(-time.Hour),
		Length: int64(len(content)), Type: "text/html", Digest: protocol.Sum([]byte(content))}
}

func create(path, content string) journal.Step {
	return journal.Step{Op: protocol.Create, Entry: journal.Entry{Item: page(path, content), Stamp: []byte("stamp " + path)}}
}

func update(path, content string) journal.Step {
	s := create(path, content)
	s.Op = protocol.Update
	return s
}

func remove(path string) journal.Step {
	return journal.Step{Op: protocol.Delete, Entry: journal.Entry{Item: protocol.Item{URL: page(path, "").URL, Length: -1}}}
}

func move(from, to, content string) journal.Step {
	s := create(to, content)
	s.Op, s.From = protocol.Move, page(from, "").URL
	return s
}

// note is a step that notifies no follower.
func note(path, stamp string, held time.Time) journal.Step {
	return journal.Step{Entry: journal.Entry{Item: page(path, "ignored"), Stamp: []byte(stamp), Held: held}}
}

func open(t testing.TB, path string, opts *journal.Options) *journal.Journal {
	t.Helper()
	j := must.Get(journal.Open(path, opts))
	t.Cleanup(func() { j.Close() })
	return j
}

// begin opens a journal that is whole and holds the pages named.
func begin(t testing.TB, opts *journal.Options, paths ...string) (*journal.Journal, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "state", "journal")
	j := open(t, file, opts)
	for _, p := range paths {
		take(t, j, create(p, "first "+p))
	}
	endBaseline(t, j)
	return j, file
}

func endBaseline(t testing.TB, j *journal.Journal) {
	t.Helper()
	must.OK(t, j.EndBaseline())
}

func take(t testing.TB, j *journal.Journal, steps ...journal.Step) protocol.Cursor {
	t.Helper()
	head := must.Get(j.Append(context.Background(), steps))
	if head != j.Head() {
		t.Fatalf("Append returned %v, head is %v", head, j.Head())
	}
	return head
}

func read(t testing.TB, j *journal.Journal, after protocol.Cursor) []protocol.Change {
	t.Helper()
	return must.Get(j.Read(context.Background(), after, 0))
}

// told writes changes for comparison: "3 move b<a".
func told(changes []protocol.Change) string {
	var s []string
	for _, c := range changes {
		w := fmt.Sprintf("%d %s %s", c.Seq, c.Op, short(c.Item.URL))
		if c.From != "" {
			w += "<" + short(c.From)
		}
		s = append(s, w)
	}
	return strings.Join(s, ", ")
}

func short(url string) string { return strings.TrimPrefix(url, "https://example.org/") }

func collect[T any](t testing.TB, seq iter.Seq2[T, error]) []T {
	t.Helper()
	var all []T
	for x, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, x)
	}
	return all
}

func view(t testing.TB, j *journal.Journal) *journal.View {
	t.Helper()
	v := must.Get(j.View())
	t.Cleanup(v.Close)
	return v
}

// The three functions below open a View only briefly: while a View is open, the journal cannot be closed.

func entriesOf(t testing.TB, j *journal.Journal) []journal.Entry {
	t.Helper()
	v := view(t, j)
	defer v.Close()
	return collect(t, v.Entries())
}

func heldOf(t testing.TB, j *journal.Journal) []journal.Entry {
	t.Helper()
	v := view(t, j)
	defer v.Close()
	return collect(t, v.Held())
}

func stonesOf(t testing.TB, j *journal.Journal) []protocol.Tombstone {
	t.Helper()
	v := view(t, j)
	defer v.Close()
	return collect(t, v.Tombstones())
}

func urls(entries []journal.Entry) string {
	var s []string
	for _, e := range entries {
		s = append(s, short(e.Item.URL))
	}
	return strings.Join(s, " ")
}

func check[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestFirstScanIsABaseline(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "journal")
	j := open(t, file, nil)
	check(t, "whole", j.Whole(), false)
	check(t, "head", take(t, j, create("a", "1"), create("b/c", "2"), update("a", "3"), remove("b/c"), create("d", "4")), protocol.Cursor{})
	check(t, "floor", j.Floor(), protocol.Cursor{})
	if _, err := j.Read(context.Background(), protocol.Cursor{}, 0); !errors.Is(err, protocol.ErrTooOld) {
		t.Errorf("read of the zero cursor: %v", err)
	}
	if _, err := j.Read(context.Background(), protocol.Cursor{Epoch: "x", Seq: 1}, 0); !errors.Is(err, protocol.ErrEpoch) {
		t.Errorf("read of another cursor: %v", err)
	}

	// A process that is stopped now continues where it was.
	j.Close()
	j = open(t, file, nil)
	check(t, "whole", j.Whole(), false)
	check(t, "items", j.Len(), 2)
	endBaseline(t, j)
	head := j.Head()
	check(t, "whole", j.Whole(), true)
	check(t, "head seq", head.Seq, 0)
	check(t, "epoch", len(head.Epoch), 16)
	check(t, "floor", j.Floor(), head)
	check(t, "changes", told(read(t, j, head)), "")
	endBaseline(t, j)
	check(t, "head after a second end", j.Head(), head)

	e, ok, err := j.Get(page("a", "").URL)
	if err != nil || !ok || e.Item != page("a", "3") || string(e.Stamp) != "stamp a" || !e.Held.IsZero() {
		t.Errorf("get: %+v %v %v", e, ok, err)
	}
	if _, ok, err := j.Get("https://example.org/none"); ok || err != nil {
		t.Errorf("get of a missing item: %v %v", ok, err)
	}
	st, err := os.Stat(file)
	if err != nil || st.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
		t.Errorf("mode %v %v", st.Mode(), err)
	}
}

func TestChangesAreNumberedInOrder(t *testing.T) {
	now := noon
	j, file := begin(t, &journal.Options{Now: func() time.Time { return now }}, "a", "b", "c")
	start := j.Head()
	take(t, j, update("a", "second"), create("d", "new"))
	now = noon.Add(-time.Hour) // a clock that is set back
	take(t, j, remove("b"), move("c", "sub/e", "first c"), create("b", "again"))
	want := "1 update a, 2 create d, 3 delete b, 4 move sub/e<c, 5 create b"
	changes := read(t, j, start)
	check(t, "changes", told(changes), want)
	for i, c := range changes {
		if !c.At.Equal(noon) {
			t.Errorf("change %d was stored at %v, want %v", i, c.At, noon)
		}
	}
	check(t, "previous digest of an update", changes[0].Prev, page("a", "first a").Digest)
	check(t, "previous digest of a create", changes[1].Prev, protocol.Digest{})
	check(t, "item of a delete", changes[2].Item, protocol.Item{URL: page("b", "").URL, Length: -1})
	check(t, "previous digest of a delete", changes[2].Prev, page("b", "first b").Digest)
	check(t, "previous digest of a move", changes[3].Prev, page("c", "first c").Digest)
	check(t, "item of a move", changes[3].Item, page("sub/e", "first c"))

	some := must.Get(j.Read(context.Background(), protocol.Cursor{Epoch: start.Epoch, Seq: 2}, 2))
	check(t, "two changes", told(some), "3 delete b, 4 move sub/e<c")
	j.Close()
	j = open(t, file, nil)
	check(t, "changes after reopening", told(read(t, j, start)), want)
	check(t, "head after reopening", j.Head(), protocol.Cursor{Epoch: start.Epoch, Seq: 5})
	check(t, "entries", urls(entriesOf(t, j)), "a b d sub/e")
}

func TestImpossibleStepsAreCorrected(t *testing.T) {
	j, _ := begin(t, nil, "a", "b", "c")
	at := j.Head()
	for _, c := range []struct {
		name  string
		steps []journal.Step
		want  string
	}{
		{"create of an existing item, same bytes", []journal.Step{create("a", "first a")}, ""},
		{"update without news", []journal.Step{update("a", "first a")}, ""},
		{"create of an existing item, other bytes", []journal.Step{create("a", "x")}, "1 update a"},
		{"update of a missing item", []journal.Step{update("n", "x")}, "2 create n"},
		{"delete of a missing item", []journal.Step{remove("none")}, ""},
		{"note of a missing item", []journal.Step{note("none", "s", time.Time{})}, ""},
		{"move of a missing item", []journal.Step{move("none", "m", "x")}, "3 create m"},
		{"move of a missing item onto an existing one", []journal.Step{move("none", "m", "y")}, "4 update m"},
		{"move onto itself", []journal.Step{move("m", "m", "z")}, "5 update m"},
		{"move onto an existing item", []journal.Step{move("b", "c", "first b")}, "6 move c<b"},
		{"one URL many times", []journal.Step{remove("a"), create("a", "1"), update("a", "2"), move("a", "b", "2"), remove("b"), remove("b")},
			"7 delete a, 8 create a, 9 update a, 10 move b<a, 11 delete b"},
	} {
		head := take(t, j, c.steps...)
		check(t, c.name, told(read(t, j, at)), c.want)
		at = head
	}
	check(t, "items", j.Len(), 3)
	check(t, "entries", urls(entriesOf(t, j)), "c m n")
	for _, s := range []journal.Step{
		{Op: "burn", Entry: journal.Entry{Item: page("a", "")}},
		{Op: protocol.Create},
		{Op: protocol.Move, Entry: journal.Entry{Item: page("a", "")}},
		{Op: protocol.Create, Entry: journal.Entry{Item: protocol.Item{URL: "https://example.org/" + strings.Repeat("x", protocol.MaxURL)}}},
	} {
		if _, err := j.Append(context.Background(), []journal.Step{create("q", "q"), s}); err == nil {
			t.Errorf("step %+v was accepted", s)
		}
	}
	if _, err := j.Append(context.Background(), make([]journal.Step, protocol.MaxBatch+1)); err == nil {
		t.Error("too many steps were accepted")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := j.Append(ctx, []journal.Step{create("q", "q")}); !errors.Is(err, context.Canceled) {
		t.Errorf("append with an ended context: %v", err)
	}
	check(t, "head", j.Head(), at)
	check(t, "items", j.Len(), 3)
}

func TestHeldItemsAndStampsAreNotChanges(t *testing.T) {
	j, file := begin(t, nil, "a", "b", "sub/c")
	head := j.Head()
	since := noon.Add(time.Minute)
	take(t, j, note("sub/c", "one", since), note("b", "two", since), note("b", "three", since))
	check(t, "head", j.Head(), head)
	held := heldOf(t, j)
	check(t, "held", urls(held), "b sub/c")
	if !held[0].Held.Equal(since) || string(held[0].Stamp) != "three" || held[0].Item != page("b", "first b") {
		t.Errorf("held entry %+v", held[0])
	}
	check(t, "items", j.Len(), 3)
	take(t, j, note("b", "four", time.Time{}), remove("sub/c"))
	j.Close()
	j = open(t, file, nil)
	check(t, "held", urls(heldOf(t, j)), "")
	e, _, _ := j.Get(page("b", "").URL)
	check(t, "stamp", string(e.Stamp), "four")
}

func TestTombstonesNameDeletedItems(t *testing.T) {
	now := noon
	opts := &journal.Options{Now: func() time.Time { return now }, Retention: time.Hour}
	j, _ := begin(t, opts, "a", "b", "c", "d")
	stones := func() string {
		var s []string
		for _, d := range stonesOf(t, j) {
			s = append(s, fmt.Sprintf("%d %s>%s", d.Seq, short(d.URL), short(d.To)))
		}
		return strings.Join(s, ", ")
	}
	take(t, j, remove("a"), move("b", "e", "first b"), remove("c"), create("c", "again"), remove("c"))
	check(t, "tombstones", stones(), "5 c>, 2 b>e, 1 a>")
	take(t, j, create("a", "again"))
	check(t, "tombstones", stones(), "5 c>, 2 b>e")
	now = now.Add(time.Hour + time.Second)
	take(t, j, update("d", "x"))
	check(t, "tombstones", stones(), "")
	check(t, "floor", j.Floor().Seq, 6)
	check(t, "head", j.Head().Seq, 7)
}

func TestOldChangesArePruned(t *testing.T) {
	j, file := begin(t, &journal.Options{MaxChanges: 10})
	start := j.Head()
	for i := range 5 {
		var steps []journal.Step
		for k := range 5 {
			steps = append(steps, create(fmt.Sprintf("p%d-%d", i, k), "x"))
		}
		take(t, j, steps...)
	}
	check(t, "floor", j.Floor(), protocol.Cursor{Epoch: start.Epoch, Seq: 15})
	check(t, "kept", len(read(t, j, j.Floor())), 10)
	for seq := range uint64(15) {
		if _, err := j.Read(context.Background(), protocol.Cursor{Epoch: start.Epoch, Seq: seq}, 0); !errors.Is(err, protocol.ErrTooOld) {
			t.Fatalf("read after %d: %v", seq, err)
		}
	}
	for _, c := range []protocol.Cursor{{Epoch: start.Epoch, Seq: 26}, {Epoch: "other", Seq: 20}, {Epoch: "other"}} {
		if _, err := j.Read(context.Background(), c, 0); !errors.Is(err, protocol.ErrEpoch) {
			t.Errorf("read after %v: %v", c, err)
		}
	}
	j.Close()
	j = open(t, file, nil)
	check(t, "floor after reopening", j.Floor().Seq, 15)
}

func TestModifiedOfAView(t *testing.T) {
	now := noon
	j := open(t, filepath.Join(t.TempDir(), "journal"), &journal.Options{Now: func() time.Time { return now }})
	check(t, "nothing", view(t, j).Modified(), time.Time{})
	young := create("a", "a")
	young.Entry.Item.Modified = noon.Add(-time.Minute)
	take(t, j, create("b", "b"), young, create("c", "c"))
	endBaseline(t, j)
	check(t, "description", view(t, j).Modified(), noon.Add(-time.Minute))
	now = noon.Add(time.Second + 1)
	take(t, j, update("b", "2"))
	check(t, "change", view(t, j).Modified(), noon.Add(time.Second))
}

func TestEntriesUnderAPrefix(t *testing.T) {
	j, _ := begin(t, nil, "", "x", "a/", "a/1", "a/2", "a/b/3", "a/b/c/4", "a/b/c/d/5", "aa/6", "b/7", "b/b/8", "a%20/9", "z/y/x/w/v/10")
	base := "https://example.org/"
	v := view(t, j)
	for _, c := range []struct{ prefix, shallow, deep string }{
		{"", " x", " x a%20/9 a/ a/1 a/2 aa/6 b/7 a/b/3 b/b/8 a/b/c/4 a/b/c/d/5 z/y/x/w/v/10"},
		{"a/", "a/ a/1 a/2", "a/ a/1 a/2 a/b/3 a/b/c/4 a/b/c/d/5"},
		{"a/b/", "a/b/3", "a/b/3 a/b/c/4 a/b/c/d/5"},
		{"z/", "", "z/y/x/w/v/10"},
		{"zz/", "", ""},
		{"z/y/x/w/v/u/", "", ""},
	} {
		check(t, "shallow "+c.prefix, urls(collect(t, v.Under(base+c.prefix, false))), c.shallow)
		check(t, "deep "+c.prefix, urls(collect(t, v.Under(base+c.prefix, true))), c.deep)
	}
	for range v.Entries() {
		break // it may be left, and ranged over again
	}
	check(t, "all", len(collect(t, v.Entries())), v.Len())
}

func TestViewIsASnapshot(t *testing.T) {
	j, _ := begin(t, nil, "a", "b")
	v := view(t, j)
	take(t, j, remove("a"), create("c", "c"))
	check(t, "entries", urls(collect(t, v.Entries())), "a b")
	check(t, "len", v.Len(), 2)
	check(t, "head", v.Head().Seq, 0)
	check(t, "tombstones", len(collect(t, v.Tombstones())), 0)
	v.Close()
	v.Close()
	for _, err := range v.Entries() {
		if !errors.Is(err, fs.ErrClosed) {
			t.Errorf("entries of a closed view: %v", err)
		}
	}
}

func TestOneProcessAtATime(t *testing.T) {
	j, file := begin(t, nil, "a")
	for _, o := range []*journal.Options{nil, {ReadOnly: true}, {Wait: 60 * time.Millisecond}} {
		if _, err := journal.Open(file, o); !errors.Is(err, journal.ErrHeld) {
			t.Errorf("open with %+v: %v", o, err)
		}
	}
	opened := make(chan error)
	go func() {
		j2, err := journal.Open(file, &journal.Options{Wait: time.Minute})
		if err == nil {
			err = j2.Close()
		}
		opened <- err
	}()
	j.Close()
	if err := <-opened; err != nil {
		t.Error(err)
	}
	r1, r2 := open(t, file, &journal.Options{ReadOnly: true}), open(t, file, &journal.Options{ReadOnly: true})
	check(t, "entries", urls(entriesOf(t, r1)), "a")
	check(t, "whole", r2.Whole(), true)
	if _, err := r1.Append(context.Background(), []journal.Step{create("b", "b")}); err == nil {
		t.Error("append to a journal opened for reading")
	}
	if _, err := journal.Open(filepath.Join(t.TempDir(), "none"), &journal.Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open of a missing file: %v", err)
	}
}

func TestClosedJournalReturnsErrors(t *testing.T) {
	j, _ := begin(t, nil, "a")
	check(t, "close", j.Close(), nil)
	check(t, "close", j.Close(), nil)
	_, _, err1 := j.Get(page("a", "").URL)
	_, err2 := j.View()
	_, err3 := j.Append(context.Background(), []journal.Step{create("b", "b")})
	_, err4 := j.Read(context.Background(), protocol.Cursor{}, 0)
	for i, err := range []error{err1, err2, err3, err4, j.EndBaseline(), j.Renew(context.Background(), nil), j.Wait(context.Background(), j.Head())} {
		if !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

func TestOpenRejectsOtherFiles(t *testing.T) {
	good, file := begin(t, nil, "a", "b")
	for i := range 300 {
		take(t, good, create(fmt.Sprintf("%d", i), "x"))
	}
	good.Close()
	whole := must.Get(os.ReadFile(file))
	for name, content := range map[string][]byte{
		"text":       []byte("hello, world\n"),
		"long text":  bytes.Repeat([]byte("hello, world\n"), 10_000),
		"zeros":      make([]byte, 64<<10),
		"cut":        whole[:60<<10],
		"cut short":  whole[:20<<10],
		"headless":   whole[16<<10:],
		"overwrites": append(slices.Clone(whole[:8<<10]), bytes.Repeat([]byte{0xff}, len(whole)-8<<10)...),
		"wiped":      append(slices.Clone(whole[:8<<10]), make([]byte, len(whole)-8<<10)...),
	} {
		t.Run(name, func(t *testing.T) {
			f := filepath.Join(t.TempDir(), "f")
			must.OK(t, os.WriteFile(f, content, 0o600))
			for range 2 { // and the lock does not stay
				j, err := journal.Open(f, nil)
				if err == nil {
					j.Close()
					t.Fatal("opened")
				}
				if !strings.Contains(err.Error(), f) || errors.Is(err, journal.ErrHeld) {
					t.Error(err)
				}
			}
			if now, _ := os.ReadFile(f); !bytes.Equal(now, content) {
				t.Error("the file was written to")
			}
		})
	}
}
