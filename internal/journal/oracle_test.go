package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// An oracle is a journal in its simplest form, without a disk.
type oracle struct {
	entries map[string]journal.Entry
	log     []protocol.Change // of this epoch, forgotten ones too
	floor   uint64
	whole   bool
	last    time.Time

	notes    map[string]string
	quiet    bool   // an item has changed without a change since compareNotes
	noted    string // value of journal.QuietNote then
	revision uint64
	seen     string // what a View showed at that revision
}

func (o *oracle) take(s journal.Step, now time.Time) {
	url := s.Entry.Item.URL
	old, present := o.entries[url]
	from, moved := o.entries[s.From]
	moved = moved && s.Op == protocol.Move && s.From != url
	c := protocol.Change{Op: s.Op, Item: s.Entry.Item, Prev: old.Item.Digest}
	switch {
	case s.Op == "" || s.Op == protocol.Delete:
		if !present {
			return
		}
	case moved:
		c.From, c.Prev = s.From, from.Item.Digest
	case present && old.Item.Equal(s.Entry.Item):
		c.Op = ""
	case present:
		c.Op = protocol.Update
	default:
		c.Op = protocol.Create
	}
	switch c.Op {
	case "":
		e := s.Entry
		e.Item = old.Item
		e.Item.Title, e.Item.Text, e.Item.Language = s.Entry.Item.Title, s.Entry.Item.Text, s.Entry.Item.Language
		e.Item.Canonical, e.Item.Importance = s.Entry.Item.Canonical, s.Entry.Item.Importance
		o.quiet = o.quiet || e.Item != old.Item
		o.entries[url] = e
		return
	case protocol.Update, protocol.Move:
		c.Significance = s.Significance
		if c.Op == protocol.Update {
			was := old.Item
			was.Text = protocol.Digest{}
			c.Before = &was
		}
		delete(o.entries, c.From)
		o.entries[url] = s.Entry
	case protocol.Delete:
		c.Item = protocol.Item{URL: url, Length: -1}
		delete(o.entries, url)
	default:
		delete(o.entries, c.From)
		o.entries[url] = s.Entry
	}
	if !o.whole {
		return
	}
	if now.After(o.last) {
		o.last = now
	}
	c.Seq, c.At = uint64(len(o.log)+1), o.last
	o.log = append(o.log, c)
}

// trim forgets what an Append must have forgotten, if it is never more than a thousand.
func (o *oracle) trim(old time.Time, most int) {
	for o.floor < uint64(len(o.log)) && (len(o.log)-int(o.floor) > most || o.log[o.floor].At.Before(old)) {
		o.floor++
	}
}

func (o *oracle) sorted(keep func(journal.Entry) bool) []journal.Entry {
	var all []journal.Entry
	for _, e := range o.entries {
		if keep(e) {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b journal.Entry) int { return protocol.Compare(a.Item.URL, b.Item.URL) })
	return all
}

func (o *oracle) stones() []protocol.Tombstone {
	var all []protocol.Tombstone
	seen := map[string]bool{}
	for _, c := range slices.Backward(o.log[o.floor:]) {
		dead, ok := c.Tombstone()
		_, present := o.entries[dead.URL]
		if ok && !present && !seen[dead.URL] {
			all = append(all, dead)
		}
		seen[dead.URL], seen[c.Item.URL] = true, true
	}
	return all
}

func same[T any](t *testing.T, what string, got, want []T) {
	t.Helper()
	if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Fatalf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

// compare checks every query of j.
func (o *oracle) compare(t *testing.T, j *journal.Journal, rnd *rand.Rand) {
	t.Helper()
	v, err := j.View()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	all := func(journal.Entry) bool { return true }
	same(t, "entries", collect(t, v.Entries()), o.sorted(all))
	same(t, "held", collect(t, v.Held()), o.sorted(func(e journal.Entry) bool { return !e.Held.IsZero() }))
	same(t, "tombstones", collect(t, v.Tombstones()), o.stones())
	check(t, "len", j.Len(), len(o.entries))
	check(t, "whole", j.Whole(), o.whole)
	check(t, "head of the view", v.Head(), j.Head())
	for range 3 {
		prefix := site(rnd)
		prefix = prefix[:strings.LastIndexByte(prefix, '/')+1]
		same(t, "deep below "+prefix, collect(t, v.Under(prefix, true)),
			o.sorted(func(e journal.Entry) bool { return strings.HasPrefix(e.Item.URL, prefix) }))
		same(t, "in "+prefix, collect(t, v.Under(prefix, false)), o.sorted(func(e journal.Entry) bool {
			return strings.HasPrefix(e.Item.URL, prefix) && protocol.Depth(e.Item.URL) == protocol.Depth(prefix)
		}))
	}
	for range 5 {
		prefix, deep, after := site(rnd), rnd.IntN(2) == 0, site(rnd)
		if prefix = prefix[:strings.LastIndexByte(prefix, '/')+1]; rnd.IntN(4) == 0 {
			prefix = ""
		}
		var got []journal.Entry
		for r := v.Reader(prefix, deep, after); ; {
			e, more, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if !more {
				break
			}
			got = append(got, e)
		}
		same(t, fmt.Sprintf("after %s, below %q, deep %v", after, prefix, deep), got, o.sorted(func(e journal.Entry) bool {
			in := strings.HasPrefix(e.Item.URL, prefix) && (deep || prefix == "" || protocol.Depth(e.Item.URL) == protocol.Depth(prefix))
			return in && protocol.Compare(e.Item.URL, after) > 0
		}))
	}
	for range 3 {
		from, to := site(rnd), site(rnd)
		if rnd.IntN(4) == 0 {
			to = ""
		}
		same(t, "from "+from+", before "+to, collect(t, v.Between(from, to)), o.sorted(func(e journal.Entry) bool {
			return protocol.Compare(e.Item.URL, from) >= 0 && (to == "" || protocol.Compare(e.Item.URL, to) < 0)
		}))
	}
	stones := o.stones()
	for range 3 {
		u := site(rnd)
		var want protocol.Tombstone
		if i := slices.IndexFunc(stones, func(s protocol.Tombstone) bool { return s.URL == u }); i >= 0 {
			want = stones[i]
		}
		got, ok, err := j.Gone(u)
		if err != nil || got != want || ok != (want.URL != "") {
			t.Fatalf("gone %s: %+v %v %v, want %+v", u, got, ok, err, want)
		}
	}
	o.compareNotes(t, j)
	o.compareRevision(t, j)
	u := site(rnd)
	e, ok, err := j.Get(u)
	want, present := o.entries[u]
	if err != nil || ok != present || !reflect.DeepEqual(e, want) {
		t.Fatalf("get %s: %+v %v %v, want %+v", u, e, ok, err, want)
	}
	if !o.whole {
		check(t, "head", j.Head(), protocol.Cursor{})
		return
	}
	head := uint64(len(o.log))
	check(t, "head", j.Head().Seq, head)
	check(t, "floor", j.Floor().Seq, o.floor)
	for range 3 {
		after, most := rnd.Uint64N(head+3), 1+rnd.IntN(20)
		got, err := j.Read(context.Background(), protocol.Cursor{Epoch: j.Head().Epoch, Seq: after}, most)
		switch {
		case after > head:
			check(t, "read beyond the head", errors.Is(err, protocol.ErrEpoch), true)
		case after < o.floor:
			check(t, "read below the floor", errors.Is(err, protocol.ErrTooOld), true)
		case err != nil:
			t.Fatal(err)
		default:
			same(t, fmt.Sprint("read after ", after), got, o.log[after:min(head, after+uint64(most))])
		}
	}
}

// compareRevision checks that what a View shows has not changed if the revision has not.
func (o *oracle) compareRevision(t *testing.T, j *journal.Journal) {
	t.Helper()
	r := j.Revision()
	seen := fmt.Sprintf("%+v %+v", o.sorted(func(journal.Entry) bool { return true }), o.stones())
	if r < o.revision || r == o.revision && seen != o.seen {
		t.Fatalf("revision %d after %d:\n%s\n%s", r, o.revision, o.seen, seen)
	}
	o.revision, o.seen = r, seen
}

// setNotes notes something, and forgets something else. That moves no revision.
func (o *oracle) setNotes(t *testing.T, j *journal.Journal, rnd *rand.Rand) {
	t.Helper()
	if o.notes == nil {
		o.notes = make(map[string]string)
	}
	set := make(map[string][]byte)
	for range rnd.IntN(5) {
		key := []string{"a/", "a/x", "b", "b/x", "b/y/z"}[rnd.IntN(5)]
		if rnd.IntN(3) == 0 {
			set[key] = nil
			delete(o.notes, key)
		} else {
			set[key] = bytes.Repeat([]byte("v"), rnd.IntN(3))
			o.notes[key] = string(set[key])
		}
	}
	was := j.Revision()
	must.OK(t, j.SetNotes(set))
	check(t, "revision after notes", j.Revision(), was)
}

func (o *oracle) compareNotes(t *testing.T, j *journal.Journal) {
	t.Helper()
	if noted := notesOf(t, j, journal.QuietNote); (noted != o.noted) != o.quiet {
		t.Fatalf("note of quiet changes: %q after %q, and an item has changed: %v", noted, o.noted, o.quiet)
	} else {
		o.noted, o.quiet = noted, false
	}
	for _, prefix := range []string{"", "a/", "b", "b/", "c"} {
		var got, want []string
		must.OK(t, j.EachNote(prefix, func(key string, value []byte) error {
			if key != journal.QuietNote {
				got = append(got, key+"="+string(value))
			}
			return nil
		}))
		for _, key := range slices.Sorted(maps.Keys(o.notes)) {
			if strings.HasPrefix(key, prefix) {
				want = append(want, key+"="+o.notes[key])
			}
		}
		same(t, "notes below "+prefix, got, want)
	}
	for _, key := range []string{"a/x", "b/x", "c", ""} {
		got, err := j.Note(key)
		want, ok := o.notes[key]
		if err != nil || string(got) != want || (got != nil) != ok {
			t.Fatalf("note %q: %q, %v, want %q", key, got, err, want)
		}
	}
}

// site returns one of a few URLs, so that steps meet.
func site(rnd *rand.Rand) string {
	u := "https://example.org/"
	for range rnd.IntN(4) {
		u += string(rune('a'+rnd.IntN(2))) + "/"
	}
	return u + []string{"", "x", "y?q=/a/", "z%20"}[rnd.IntN(4)]
}

func TestRandomStepsAgainstAnOracle(t *testing.T) {
	seeds := uint64(8)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 1))
			now := noon
			opts := &journal.Options{Now: func() time.Time { return now }, Retention: time.Hour, MaxChanges: 300}
			file := filepath.Join(t.TempDir(), "journal")
			j := open(t, file, opts)
			o := &oracle{entries: map[string]journal.Entry{}}
			for turn := range 300 {
				switch n := rnd.IntN(100); {
				case n < 3:
					j.Close()
					j = open(t, file, opts)
				case n == 3:
					old := j.Head()
					must.OK(t, j.Renew(context.Background(), nil))
					check(t, "epoch is another", !o.whole || old.Epoch != j.Head().Epoch, true)
					o.log, o.floor = nil, 0
				case n == 4:
					o.replace(t, j, rnd, nil)
				case n == 5:
					o.replace(t, j, rnd, &protocol.Cursor{Epoch: fmt.Sprint("told", turn), Seq: rnd.Uint64N(50)})
				case n < 10 && turn > 10:
					endBaseline(t, j)
					o.whole = true
				case n < 40:
					now = now.Add(time.Duration(rnd.IntN(600)-60) * time.Second)
				}
				steps := make([]journal.Step, rnd.IntN(30))
				for i := range steps {
					steps[i] = step(rnd)
					o.take(steps[i], now)
				}
				o.trim(now.Add(-time.Hour), 300)
				take(t, j, steps...)
				if rnd.IntN(4) == 0 {
					o.setNotes(t, j, rnd)
				}
				if rnd.IntN(4) == 0 {
					o.compare(t, j, rnd)
				}
				if t.Failed() {
					t.FailNow()
				}
			}
			j.Close()
			j = open(t, file, opts)
			o.compare(t, j, rnd)
		})
	}
}

func step(rnd *rand.Rand) journal.Step {
	s := journal.Step{Op: []protocol.Op{"", protocol.Create, protocol.Update, protocol.Delete, protocol.Move}[rnd.IntN(5)]}
	s.Entry.Item = protocol.Item{URL: site(rnd), Length: int64(rnd.IntN(3)) - 1, Digest: protocol.Digest{byte(rnd.IntN(4))},
		Type: []string{"", "text/html", "text/odd"}[rnd.IntN(3)], Title: []string{"", "title"}[rnd.IntN(2)]}
	if rnd.IntN(3) > 0 {
		s.Entry.Item.Modified = noon.Add(time.Duration(rnd.IntN(3)) * time.Millisecond)
		s.Entry.Item.Span = []time.Duration{0, 24 * time.Hour}[rnd.IntN(2)]
	}
	if rnd.IntN(2) > 0 {
		s.Entry.Stamp = []byte{byte(rnd.IntN(3))}
	}
	if rnd.IntN(3) == 0 { // a page that was read for what it says
		it := &s.Entry.Item
		it.Text, it.Language = protocol.Digest{byte(rnd.IntN(3))}, []string{"", "en"}[rnd.IntN(2)]
		it.Canonical, it.Importance = []string{"", "https://example.org/x"}[rnd.IntN(2)], protocol.Importance(rnd.IntN(3))
		s.Significance = protocol.Significance(rnd.IntN(1002))
	}
	if rnd.IntN(3) == 0 {
		s.Entry.Sketch, s.Entry.Newest = []byte{byte(rnd.IntN(3))}, noon.Add(time.Duration(rnd.IntN(3))*time.Second)
	}
	if rnd.IntN(4) == 0 {
		s.Entry.Other = noon.Add(time.Duration(rnd.IntN(3)) * time.Second)
	}
	if rnd.IntN(4) == 0 {
		s.Entry.Held = noon.Add(time.Duration(rnd.IntN(3)) * time.Hour)
	}
	if s.Op == protocol.Move {
		s.From = site(rnd)
	}
	return s
}

// replace gives oracle and journal another description, which shares some of the old one: in a new epoch, or in one that
// has come to a cursor elsewhere.
func (o *oracle) replace(t *testing.T, j *journal.Journal, rnd *rand.Rand, at *protocol.Cursor) {
	next := map[string]journal.Entry{}
	for range rnd.IntN(40) {
		it := step(rnd).Entry.Item
		e := journal.Entry{Item: it, Stamp: []byte(journal.Inherited)}
		old, present := o.entries[it.URL]
		switch {
		case present && old.Item.Digest == it.Digest && (!it.Digest.IsZero() || old.Item.Modified.Equal(it.Modified)):
			e.Stamp, e.Sketch, e.Newest, e.Other = old.Stamp, old.Sketch, old.Newest, old.Other
		case old.Newest.After(old.Other):
			e.Other = old.Newest
		default:
			e.Other = old.Other
		}
		next[it.URL] = e
	}
	o.entries, o.log, o.floor, o.whole = next, nil, 0, false
	list := o.sorted(func(journal.Entry) bool { return true })
	items := func(yield func(protocol.Item, error) bool) {
		for _, e := range list {
			if !yield(e.Item, nil) {
				return
			}
		}
	}
	if at == nil {
		must.OK(t, j.Renew(context.Background(), items))
		return
	}
	must.OK(t, j.Adopt(context.Background(), *at, items))
	check(t, "head", j.Head(), *at)
	o.log, o.floor, o.whole = make([]protocol.Change, at.Seq), at.Seq, true
	if at.Seq == 0 {
		return
	}
	for _, e := range list {
		if e.Item.Modified.After(o.last) {
			o.last = e.Item.Modified
		}
	}
}
