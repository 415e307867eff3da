package journal_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// notesOf returns the notes below a prefix as "key=value, key=value".
func notesOf(t testing.TB, j *journal.Journal, prefix string) string {
	t.Helper()
	var all []string
	must.OK(t, j.EachNote(prefix, func(key string, value []byte) error {
		all = append(all, key+"="+string(value))
		return nil
	}))
	return strings.Join(all, ", ")
}

func setNotes(t testing.TB, j *journal.Journal, notes map[string][]byte) {
	t.Helper()
	must.OK(t, j.SetNotes(notes))
}

// Notes survive a restart and a new epoch, and wake
// no follower.
func TestNotesOutliveRestartsAndEpochs(t *testing.T) {
	j, file := begin(t, nil, "a", "b")
	head, revision := j.Head(), j.Revision()
	setNotes(t, j, map[string][]byte{"sender/cursor": []byte("e:7"), "sender/empty": {}, "other/x": []byte("y")})
	check(t, "head", j.Head(), head)
	check(t, "revision", j.Revision(), revision)
	const want = "sender/cursor=e:7, sender/empty="
	check(t, "notes", notesOf(t, j, "sender/"), want)
	j.Close()

	j = open(t, file, nil)
	check(t, "notes after a restart", notesOf(t, j, "sender/"), want)
	must.OK(t, j.Renew(context.Background(), nil))
	must.OK(t, j.Renew(context.Background(), generation(1)))
	check(t, "notes of the new epoch", notesOf(t, j, "sender/"), want)
	if v, err := j.Note("sender/empty"); err != nil || v == nil || len(v) > 0 {
		t.Errorf("an empty note is %v, %v", v, err)
	}
	setNotes(t, j, map[string][]byte{"sender/cursor": nil, "sender/never": nil})
	check(t, "notes after one was removed", notesOf(t, j, ""), "other/x=y, sender/empty=")
	if v, err := j.Note("sender/cursor"); err != nil || v != nil {
		t.Errorf("a removed note is %q, %v", v, err)
	}
	stop := errors.New("enough")
	n := 0
	if err := j.EachNote("", func(string, []byte) error { n++; return stop }); err != stop || n != 1 {
		t.Errorf("%d notes, %v", n, err)
	}
}

func TestNotesAreBounded(t *testing.T) {
	j, _ := begin(t, nil)
	fits := strings.Repeat("k", journal.MaxNote/4)
	setNotes(t, j, map[string][]byte{fits: make([]byte, journal.MaxNote*3/4), "a": []byte("1")})
	many := make(map[string][]byte)
	for i := range journal.MaxNotes/journal.MaxNote + 1 {
		key := fmt.Sprintf("many/%05d", i)
		many[key] = make([]byte, journal.MaxNote-len(key))
	}
	for name, notes := range map[string]map[string][]byte{
		"without a key": {"": []byte("x")},
		"a long key":    {fits + "k": nil},
		"a long value":  {"a": make([]byte, journal.MaxNote)},
		"too many":      many,
	} {
		notes["a"+name] = []byte("2")
		if err := j.SetNotes(notes); err == nil || !strings.Contains(err.Error(), "note") {
			t.Errorf("%s: %v", name, err)
		}
	}
	check(t, "notes", notesOf(t, j, "a"), "a=1")
}

func TestNotesOfAClosedJournal(t *testing.T) {
	j, _ := begin(t, nil)
	j.Close()
	_, err := j.Note("a")
	_, _, gone := j.Gone(page("a", "").URL)
	for _, err := range []error{err, gone, j.SetNotes(map[string][]byte{"a": nil}), j.EachNote("", func(string, []byte) error { return nil })} {
		if !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%v", err)
		}
	}
}

// With concurrent notes, appends and reads every note stays complete.
func TestConcurrentNotes(t *testing.T) {
	j, file := begin(t, nil)
	const writers, each = 8, 20
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				mine, last := fmt.Sprintf("w%d/%03d", w, i), fmt.Sprintf("w%d/last", w)
				if err := j.SetNotes(map[string][]byte{mine: []byte(mine), last: []byte(mine)}); err != nil {
					t.Error(err)
				}
				if _, err := j.Append(context.Background(), []journal.Step{create(mine, "x")}); err != nil {
					t.Error(err)
				}
				pairs, newest := 0, ""
				if err := j.EachNote(fmt.Sprintf("w%d/", (w+1)%writers), func(key string, value []byte) error {
					if !strings.HasSuffix(key, "/last") {
						pairs, newest = pairs+1, string(value)
					} else if string(value) != newest || newest == "" {
						t.Errorf("the last of %d notes is %s, not %s", pairs, newest, value)
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	j.Close()
	j = open(t, file, nil)
	check(t, "notes", strings.Count(notesOf(t, j, ""), "="), writers*(each+1))
	check(t, "pages", j.Len(), writers*each)
}

// A step that changes an entry without a change for followers, such as a new importance, also increases the
// revision. A step that changes nothing does not.
func TestRevision(t *testing.T) {
	now := noon
	j, file := begin(t, &journal.Options{Now: func() time.Time { return now }, Retention: time.Hour}, "a", "b")
	last := j.Revision()
	moved := func(what string, want bool) {
		t.Helper()
		if r := j.Revision(); (r > last) != want || r < last {
			t.Errorf("after %s the revision is %d, before it was %d", what, r, last)
		}
		last = j.Revision()
	}
	take(t, j, update("a", "second a"))
	moved("an update", true)
	take(t, j, update("a", "second a"))
	moved("an update without news", false)
	take(t, j)
	moved("no step", false)
	s := update("a", "second a")
	s.Entry.Item.Importance = 50
	head := take(t, j, s)
	moved("an importance", true)
	if e, _, err := j.Get(s.Entry.Item.URL); err != nil || e.Item.Importance != 50 {
		t.Errorf("%+v, %v", e, err)
	}
	take(t, j, note("b", "another stamp", time.Time{}))
	moved("a stamp", true)
	check(t, "head", j.Head(), head)
	must.OK(t, j.SetMark("mark"))
	setNotes(t, j, map[string][]byte{"a": []byte("b")})
	moved("a mark and a note", false)
	take(t, j, remove("b"))
	moved("a delete", true)
	now = now.Add(2 * time.Hour)
	take(t, j)
	moved("the end of a tombstone", true)
	if stones := stonesOf(t, j); len(stones) > 0 {
		t.Errorf("%+v", stones)
	}
	must.OK(t, j.Renew(context.Background(), nil))
	moved("a new epoch", true)
	j.Close()
	j = open(t, file, nil)
	moved("a restart", false)
	must.OK(t, j.Renew(context.Background(), func(yield func(protocol.Item, error) bool) { yield(page("a", "second a"), nil) }))
	moved("a renewal with other items", true)
	endBaseline(t, j)
	moved("the end of the first scan", true)
	v := must.Get(j.View())
	defer v.Close()
	check(t, "revision of a view", v.Revision(), j.Revision())
}

// The journal's own note shows whether an item has changed without a change for followers.
func TestQuietNote(t *testing.T) {
	j, _ := begin(t, nil, "a", "b")
	last := notesOf(t, j, journal.QuietNote)
	moved := func(what string, want bool) {
		t.Helper()
		now := notesOf(t, j, journal.QuietNote)
		if (now != last) != want {
			t.Errorf("after %s: %q, before %q", what, now, last)
		}
		last = now
	}
	take(t, j, update("a", "second a"), remove("b"))
	moved("changes", false)
	take(t, j, note("a", "another stamp", time.Time{}))
	moved("a stamp", false)
	for _, importance := range []protocol.Importance{50, 60} {
		s := update("a", "second a")
		s.Entry.Item.Importance = importance
		take(t, j, s)
		moved("an importance", true)
		take(t, j, s)
		moved("the same importance", false)
	}
}

// version1 makes a file as version 1 of the format had it, from the records
// that a program of then wrote.
func version1(t *testing.T) string {
	t.Helper()
	f, err := os.Open("testdata/version-1.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	file := filepath.Join(t.TempDir(), "journal")
	edit(t, file, func(tx *bbolt.Tx) error {
		var b *bbolt.Bucket
		for lines := bufio.NewScanner(f); lines.Scan(); {
			name, value, ok := strings.Cut(lines.Text(), " ")
			if !ok {
				if b, err = tx.CreateBucket([]byte(name)); err != nil {
					return err
				}
				continue
			}
			k, err1 := hex.DecodeString(name)
			v, err2 := hex.DecodeString(value)
			if err := errors.Join(err1, err2, b.Put(k, v)); err != nil {
				return err
			}
		}
		return nil
	})
	return file
}

// A file of version 1 keeps its meaning, and its epoch continues.
func TestVersion1FileIsUpgraded(t *testing.T) {
	odd := page("odd", "odd")
	odd.Title, odd.Type, odd.Modified, odd.Span = "", "application/x-unheard-of", time.Date(2004, 10, 1, 0, 0, 0, 0, time.UTC), 24*time.Hour
	entry := func(path, content, stamp string) journal.Entry {
		return journal.Entry{Item: page(path, content), Stamp: []byte(stamp)}
	}
	held := entry("a/x", "x", "stamp x")
	held.Held = noon.Add(30 * time.Second)
	entries := []journal.Entry{
		entry("", "home", "stamp "), entry("b", "b2", "stamp b"), {Item: protocol.Item{URL: "https://example.org/bare", Length: -1}},
		{Item: odd}, entry("a/d", "d", "stamp a/d"), held,
	}
	at, d := noon.Add(time.Minute), page("d", "d")
	changes := []protocol.Change{
		{Seq: 1, At: at, Op: protocol.Update, Item: page("b", "b2"), Prev: page("b", "b").Digest},
		{Seq: 2, At: at, Op: protocol.Delete, Item: protocol.Item{URL: page("c", "").URL, Length: -1}, Prev: page("c", "c").Digest},
		{Seq: 3, At: at, Op: protocol.Move, Item: page("a/d", "d"), From: d.URL, Prev: d.Digest},
	}
	file := version1(t)
	before := must.Get(os.ReadFile(file))
	look := func(j *journal.Journal) {
		t.Helper()
		check(t, "head", j.Head().Seq, 3)
		check(t, "mark", j.Mark(), "mark of version 1")
		same(t, "entries", entriesOf(t, j), entries)
		same(t, "changes", read(t, j, j.Floor()), changes)
		check(t, "tombstones", len(stonesOf(t, j)), 2)
		gone, ok, err := j.Gone(d.URL)
		if err != nil || !ok || gone.To != page("a/d", "").URL {
			t.Errorf("gone: %+v %v %v", gone, ok, err)
		}
		check(t, "notes", notesOf(t, j, ""), "")
		if v, err := j.Note("a"); err != nil || v != nil {
			t.Errorf("a note: %q, %v", v, err)
		}
	}
	j := open(t, file, &journal.Options{ReadOnly: true})
	look(j)
	j.Close()
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
		t.Error("opening for reading has changed the file", err)
	}

	j = open(t, file, &journal.Options{Now: func() time.Time { return at }})
	look(j)
	epoch := j.Head().Epoch
	s := update("b", "b3")
	s.Entry.Item.Language, s.Entry.Sketch, s.Significance = "en", []byte("sketch"), protocol.SignificanceOf(0.5)
	take(t, j, s)
	setNotes(t, j, map[string][]byte{"a": []byte("b")})
	j.Close()
	j = open(t, file, nil)
	check(t, "cursor", j.Head(), protocol.Cursor{Epoch: epoch, Seq: 4})
	was := page("b", "b2")
	changes = append(changes, protocol.Change{Seq: 4, At: at, Op: protocol.Update, Item: s.Entry.Item,
		Prev: was.Digest, Before: &was, Significance: s.Significance})
	entries[1] = s.Entry
	same(t, "entries", entriesOf(t, j), entries)
	same(t, "changes", read(t, j, j.Floor()), changes)
	check(t, "notes", notesOf(t, j, ""), "a=b")
	if j.Revision() == 0 {
		t.Error("no revision")
	}
}

// A record without newer fields is encoded exactly as in version 1.
func TestPlainRecordsKeepVersion1Encoding(t *testing.T) {
	b := must.Get(os.ReadFile("testdata/version-1.txt"))
	n := 0
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "meta" {
			break // what follows is the state
		}
		k, _ := hex.DecodeString(name)
		v, _ := hex.DecodeString(value)
		if e, err := journal.ParseEntry(k, v); err == nil {
			n++
			if again := journal.AppendEntry(k, e); !bytes.Equal(again, v) {
				t.Errorf("%x became %x", v, again)
			}
		} else if c, err := journal.ParseChange(journal.SeqOf(k), v); err == nil {
			n++
			if again := journal.AppendChange(nil, c); !bytes.Equal(again, v) {
				t.Errorf("%x became %x", v, again)
			}
		}
	}
	check(t, "records", n, 9)
}

// A silent step stores metadata and the stamp of an item; its digest and length stay unchanged.
func TestSilentStepsStoreMetadataOnly(t *testing.T) {
	j, _ := begin(t, nil, "a")
	head := j.Head()
	it := page("a", "other bytes")
	it.Title, it.Text, it.Language, it.Canonical, it.Importance = "Better", protocol.Sum(nil), "en", "https://example.org/b", 7
	want := journal.Entry{Item: page("a", "first a"), Stamp: []byte("s"), Sketch: []byte("sketch"),
		Newest: noon.Add(time.Second), Other: noon}
	step := want
	step.Item, step.Newest = it, want.Newest.Add(time.Millisecond) // a part of a second says nothing here
	take(t, j, journal.Step{Entry: step})
	want.Item.Title, want.Item.Text, want.Item.Language, want.Item.Canonical, want.Item.Importance = it.Title, it.Text, it.Language, it.Canonical, it.Importance
	e, ok, err := j.Get(it.URL)
	if err != nil || !ok || !reflect.DeepEqual(e, want) {
		t.Errorf("got  %+v, %v\nwant %+v", e, err, want)
	}
	check(t, "head", j.Head(), head)
}

// Changes that are reported as an update or a move carry the significance.
func TestSignificanceOfUpdatesAndMoves(t *testing.T) {
	j, _ := begin(t, nil, "a", "b", "c")
	start := j.Head()
	sig := protocol.SignificanceOf(0.25)
	steps := []journal.Step{
		update("a", "2"),          // an update
		update("a", "2"),          // nothing new
		create("b", "2"),          // an update
		move("a", "d", "2"),       // a move
		move("missing", "e", "1"), // a create
		remove("c"),
		update("c", "1"), // a create
	}
	for i := range steps {
		steps[i].Significance = sig
	}
	take(t, j, steps...)
	var got []string
	for _, c := range read(t, j, start) {
		share, known := c.Significance.Share()
		got = append(got, fmt.Sprint(c.Op, " ", known, " ", share))
	}
	want := []string{"update true 0.25", "update true 0.25", "move true 0.25", "create false 0", "delete false 0", "create false 0"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
