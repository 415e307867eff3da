package journal_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

const oldSite, newSite = "https://example.org/", "http://127.0.0.2:8080/"

func TestMoveKeepsWhatIsKnown(t *testing.T) {
	j, file := begin(t, nil, "b", "a/c", "gone")
	own, other, long := page("d", "d"), page("e", "e"), page(strings.Repeat("x", protocol.MaxURL-len(oldSite)), "x")
	own.Canonical, other.Canonical = oldSite+"b", "https://elsewhere.example/e"
	whole := journal.Entry{Item: own, Stamp: []byte("stamp d"), Sketch: []byte("sketch"), Newest: noon, Other: noon.Add(-time.Hour)}
	take(t, j, journal.Step{Op: protocol.Create, Entry: whole}, journal.Step{Op: protocol.Create, Entry: journal.Entry{Item: other}},
		journal.Step{Op: protocol.Create, Entry: journal.Entry{Item: long}}, remove("gone"), note("b", "stamp b", noon))
	setNotes(t, j, map[string][]byte{"sender/cursor": []byte("1")})
	must.OK(t, j.SetMark("mark"))
	was, before, revision := j.Head(), entriesOf(t, j), j.Revision()

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for what, err := range map[string]error{"of another site": j.Move(t.Context(), "http://example.org/", newSite), "ended": j.Move(ended, oldSite, newSite)} {
		if err == nil {
			t.Errorf("a move %s did not fail", what)
		}
	}
	check(t, "head after failures", j.Head(), was)
	if now := entriesOf(t, j); len(now) != len(before) || now[0].Item != before[0].Item {
		t.Errorf("%d entries after failures, were %d", len(now), len(before))
	}

	must.OK(t, j.Move(t.Context(), oldSite, newSite))
	j.Close()
	j = open(t, file, nil)
	now := j.Head()
	if now.Epoch == was.Epoch || now.Seq != 0 || !j.Whole() || j.Revision() <= revision || j.Mark() != "mark" {
		t.Errorf("head %v, was %v; whole: %v; revision %d, was %d; mark %q", now, was, j.Whole(), j.Revision(), revision, j.Mark())
	}
	if _, err := j.Read(t.Context(), was, 0); !errors.Is(err, protocol.ErrEpoch) {
		t.Errorf("read after a cursor of the old epoch: %v", err)
	}
	check(t, "held", len(heldOf(t, j)), 0)
	check(t, "tombstones", len(stonesOf(t, j)), 0)
	check(t, "notes", notesOf(t, j, ""), "sender/cursor=1")
	after := entriesOf(t, j)
	before = slices.DeleteFunc(before, func(e journal.Entry) bool { return e.Item.URL == long.URL })
	check(t, "items", j.Len(), len(before))
	for i, e := range before {
		e.Item.URL, e.Held = newSite+short(e.Item.URL), time.Time{}
		if e.Item.Canonical == oldSite+"b" {
			e.Item.Canonical = newSite + "b"
		}
		if got := fmt.Sprintf("%+v", after[i]); got != fmt.Sprintf("%+v", e) {
			t.Errorf("entry %s\nwant  %+v", got, e)
		}
	}
	if err := j.Move(t.Context(), newSite, oldSite); err != nil { // and back, into the first bucket
		t.Fatal(err)
	}
	take(t, j, update("b", "2"))
	check(t, "changes", told(read(t, j, protocol.Cursor{Epoch: j.Head().Epoch})), "1 update b")
}

// moveForEver prints the site that every finished move led to.
func moveForEver(file string) error {
	j, err := journal.Open(file, nil)
	if err != nil {
		return err
	}
	for from, to := oldSite, newSite; ; from, to = to, from {
		if err := j.Move(context.Background(), from, to); err != nil {
			return err
		}
		fmt.Println(to)
	}
}

func TestKilledWhileMoving(t *testing.T) {
	const pages = 2500 // three batches
	for round := range 5 {
		j, file := begin(t, nil)
		for i := 0; i < pages; i += 500 {
			var steps []journal.Step
			for k := range 500 {
				steps = append(steps, create(fmt.Sprintf("p%04d", i+k), "x"))
			}
			take(t, j, steps...)
		}
		j.Close()
		kill(t, "move", file, 1+round)
		j = open(t, file, nil)
		check(t, "items", j.Len(), pages)
		entries := entriesOf(t, j)
		check(t, "entries", len(entries), pages)
		site := protocol.Origin(entries[0].Item.URL) + "/"
		for i, e := range entries {
			if e.Item.URL != fmt.Sprintf("%sp%04d", site, i) || string(e.Stamp) != fmt.Sprintf("stamp p%04d", i) {
				t.Fatalf("round %d: entry %d of %s is %s with stamp %q", round, i, site, e.Item.URL, e.Stamp)
			}
		}
		take(t, j, create("after", "x"))
		j.Close()
	}
}
