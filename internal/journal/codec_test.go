package journal_test

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// oddItems are items whose records differ in every field.
func oddItems() []protocol.Item {
	plain := page("a", "a")
	all := []protocol.Item{plain, {URL: "x", Length: -1}, {URL: "x"}}
	for _, change := range []func(*protocol.Item){
		func(i *protocol.Item) { i.Modified = time.UnixMilli(-1).UTC() },
		func(i *protocol.Item) { i.Modified = time.UnixMilli(0).UTC() },
		func(i *protocol.Item) { i.Modified = time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC) },
		func(i *protocol.Item) { i.Modified, i.Span = time.Time{}, 24*time.Hour },
		func(i *protocol.Item) { i.Span = -1 },
		func(i *protocol.Item) { i.Length = math.MaxInt64 },
		func(i *protocol.Item) { i.Length = 0 },
		func(i *protocol.Item) { i.Type = "" },
		func(i *protocol.Item) { i.Type = "application/x-unheard-of" },
		func(i *protocol.Item) { i.Digest = protocol.Digest{} },
		func(i *protocol.Item) { i.Title = strings.Repeat("Überschrift ", 1000) },
		func(i *protocol.Item) { i.URL = "https://example.org/" + strings.Repeat("a/", 4000) },
		func(i *protocol.Item) { i.Text = protocol.Sum([]byte("text")) },
		func(i *protocol.Item) { i.Language = "pt-BR" },
		func(i *protocol.Item) { i.Canonical = "https://elsewhere.example/" },
		func(i *protocol.Item) { i.Importance = 100 },
		func(i *protocol.Item) {
			i.Text, i.Language, i.Canonical, i.Importance = protocol.Sum(nil), "x", "x", 1
		},
	} {
		it := plain
		change(&it)
		all = append(all, it)
	}
	return all
}

// oddEntries are entries of an item whose records differ in every other field.
func oddEntries(it protocol.Item) []journal.Entry {
	return []journal.Entry{
		{Item: it}, {Item: it, Stamp: []byte{0}}, {Item: it, Held: noon}, {Item: it, Stamp: []byte("stamp"), Held: noon},
		{Item: it, Sketch: []byte{0}}, {Item: it, Newest: noon}, {Item: it, Other: time.Unix(-1, 0).UTC()},
		{Item: it, Stamp: []byte("stamp"), Held: noon, Sketch: []byte(strings.Repeat("sketch", 100)), Newest: noon, Other: noon.Add(-time.Hour)},
	}
}

func TestRecordsRoundTrip(t *testing.T) {
	stored := journal.StoredParser() // all entries share its memory
	for _, it := range oddItems() {
		was := it
		was.Digest, was.Text = protocol.Sum(nil), protocol.Digest{}
		for _, e := range oddEntries(it) {
			key := journal.ItemKey(it.URL)
			got, err := journal.ParseEntry(key, journal.AppendEntry(key, e))
			if err != nil || !reflect.DeepEqual(got, e) {
				t.Errorf("entry %+v became %+v, %v", e, got, err)
			}
			s := must.Get(stored(key, journal.AppendEntry(key, e)))
			whole, err := s.Entry()
			if err != nil || !reflect.DeepEqual(whole, e) || string(s.URL) != it.URL || s.Type != it.Type || !bytes.Equal(s.Stamp, e.Stamp) ||
				s.Held == e.Held.IsZero() || s.Other == e.Other.IsZero() {
				t.Errorf("entry %+v is stored as %+v, %v", e, s, err)
			}
		}
		for _, c := range []protocol.Change{
			{Seq: 1, At: noon, Op: protocol.Create, Item: it},
			{Seq: math.MaxUint64, At: noon, Op: protocol.Update, Item: it, Prev: protocol.Sum(nil)},
			{Seq: 300, At: time.UnixMilli(0).UTC(), Op: protocol.Move, Item: it, From: "y", Prev: protocol.Sum(nil)},
			{Seq: 300, At: noon, Op: protocol.Update, Item: it, Significance: protocol.SignificanceOf(0)},
			{Seq: 300, At: noon, Op: protocol.Move, Item: it, From: "y", Prev: protocol.Sum(nil), Significance: protocol.SignificanceOf(1)},
			{Seq: 300, At: noon, Op: protocol.Update, Item: it, Prev: protocol.Sum(nil), Before: &was},
			{Seq: 300, At: noon, Op: protocol.Update, Item: it, Prev: protocol.Sum(nil), Before: &was, Significance: protocol.SignificanceOf(1)},
			{Seq: 300, At: noon, Op: protocol.Delete, Item: protocol.Item{URL: it.URL, Length: -1}},
		} {
			got, err := journal.ParseChange(c.Seq, journal.AppendChange(nil, c))
			if err != nil || !reflect.DeepEqual(got, c) {
				t.Errorf("change %+v became %+v, %v", c, got, err)
			}
		}
	}
}

// A record with one bit changed, cut, grown or under another key is damaged.
func TestDamagedRecordsAreErrors(t *testing.T) {
	for _, wide := range []bool{false, true} {
		it := page("a", "a")
		e, c := journal.Entry{Item: it, Stamp: []byte("stamp"), Held: noon}, protocol.Change{Seq: 7, At: noon, Op: protocol.Move, Item: it, From: "y"}
		if wide {
			e.Item.Language, e.Item.Text, e.Sketch, e.Newest = "en", it.Digest, []byte("sketch"), noon
			c = protocol.Change{Seq: 7, At: noon, Op: protocol.Update, Item: e.Item, Significance: 7, Before: &it}
		}
		damageRecords(t, e, c)
	}
}

func damageRecords(t *testing.T, e journal.Entry, c protocol.Change) {
	key, seq := journal.ItemKey(e.Item.URL), journal.SeqKey(c.Seq)
	entry, change := journal.AppendEntry(key, e), journal.AppendChange(nil, c)
	try := func(name string, key, entry, seq, change []byte) {
		t.Helper()
		if _, err := journal.ParseEntry(key, entry); !errors.Is(err, journal.ErrDamaged) {
			t.Errorf("entry, %s: %v", name, err)
		}
		if _, err := journal.StoredParser()(key, entry); !errors.Is(err, journal.ErrDamaged) {
			t.Errorf("stored entry, %s: %v", name, err)
		}
		if _, err := journal.ParseChange(journal.SeqOf(seq), change); !errors.Is(err, journal.ErrDamaged) {
			t.Errorf("change, %s: %v", name, err)
		}
	}
	flip := func(b []byte, bit int) []byte {
		b = slices.Clone(b)
		b[bit/8%len(b)] ^= 1 << (bit % 8)
		return b
	}
	for bit := range 8 * max(len(entry), len(change)) {
		try("one bit", key, flip(entry, bit), seq, flip(change, bit))
		try("one bit of the key", flip(key, bit), entry, flip(seq, bit), change)
	}
	for n := range min(len(entry), len(change)) {
		try("cut", key, entry[:n], seq, change[:n])
	}
	try("grown", key, append(slices.Clone(entry), 0), seq, append(slices.Clone(change), 0))
	try("nothing", key, nil, seq, nil)
	try("no key", nil, entry, nil, change)
	try("exchanged", key, change, seq, entry)
}

// A record that is longer than any should be is verified like any other.
func TestLongRecords(t *testing.T) {
	it := page("a", "a")
	key := journal.ItemKey(it.URL)
	b := journal.AppendEntry(key, journal.Entry{Item: it, Stamp: []byte("stamp"), Sketch: bytes.Repeat([]byte("x"), 1<<16)})
	s, err := journal.StoredParser()(key, b)
	if err != nil || string(s.Stamp) != "stamp" || string(s.URL) != it.URL {
		t.Errorf("stamp %q, %v", s.Stamp, err)
	}
	b[1<<15]++
	if _, err := journal.StoredParser()(key, b); !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("damaged: %v", err)
	}
}

// The fuzz targets seal what they try, since hardly anything else would get
// past the checksum. What is read without an error has one spelling.

func FuzzEntry(f *testing.F) {
	for _, it := range oddItems() {
		key := journal.ItemKey(it.URL)
		for _, e := range oddEntries(it) {
			b := journal.AppendEntry(key, e)
			f.Add(key, b[:len(b)-4])
		}
	}
	f.Fuzz(func(t *testing.T, key, b []byte) {
		b = journal.SealRecord(key, slices.Clone(b))
		e, err := journal.ParseEntry(key, b)
		if err != nil {
			return
		}
		if s, err := journal.StoredParser()(key, b); err != nil || !bytes.Equal(s.Stamp, e.Stamp) {
			t.Fatalf("%x has stamp %x, %v", b, s.Stamp, err)
		}
		if again := journal.AppendEntry(key, e); !bytes.Equal(again, b) {
			t.Fatalf("%x became %x", b, again)
		}
	})
}

func FuzzChange(f *testing.F) {
	for _, it := range oddItems() {
		b := journal.AppendChange(nil, protocol.Change{Seq: 7, At: noon, Op: protocol.Move, Item: it, From: "y", Prev: protocol.Sum(nil)})
		f.Add(uint64(7), b[:len(b)-4])
		b = journal.AppendChange(nil, protocol.Change{Seq: 7, At: noon, Op: protocol.Update, Item: it, Significance: 1001})
		f.Add(uint64(7), b[:len(b)-4])
		b = journal.AppendChange(nil, protocol.Change{Seq: 7, At: noon, Op: protocol.Update, Item: it, Before: &it})
		f.Add(uint64(7), b[:len(b)-4])
	}
	f.Fuzz(func(t *testing.T, seq uint64, b []byte) {
		key := journal.SeqKey(seq)
		b = journal.SealRecord(key, slices.Clone(b))
		c, err := journal.ParseChange(seq, b)
		if err != nil {
			return
		}
		if again := journal.AppendChange(nil, c); !bytes.Equal(again, b) {
			t.Fatalf("%x became %x", b, again)
		}
	})
}

func FuzzState(f *testing.F) {
	f.Add([]byte("\x01\x0f\x0aabcdefghij\x04mark\x05\x02\x07\x01\x80\x10\x80\x10"))
	f.Add([]byte("\x01\x00\x10abcdefghijklmnop\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x02\x0f\x0aabcdefghij\x04mark\x05\x02\x07\x01\x81\x01\x80\x10\x80\x10"))
	f.Add([]byte("\x02\x00\x10abcdefghijklmnop\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x03\x00\x10abcdefghijklmnop\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = journal.SealRecord(journal.MetaKey(), slices.Clone(b))
		again, err := journal.ReparseMeta(b)
		if err != nil {
			return
		}
		if b[0] < 3 { // it is written as version 3, which has one number more than 1
			if b, err = journal.ReparseMeta(again); err != nil {
				t.Fatalf("%x is written %x: %v", b, again, err)
			}
		}
		if !bytes.Equal(again, b) {
			t.Fatalf("%x became %x", b, again)
		}
	})
}

// edit changes a closed journal's file behind its back.
func edit(t *testing.T, file string, f func(tx *bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(file, 0o600, nil)
	if err == nil {
		err = errors.Join(db.Update(f), db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestFilesOfAnotherFormat(t *testing.T) {
	for _, c := range []struct {
		name, want string
		damaged    bool
		edit       func(tx *bbolt.Tx) error
	}{
		{"of another program", "not a journal", false, func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("meta")) }},
		{"with other keys", "not a journal", false, func(tx *bbolt.Tx) error { return tx.Bucket([]byte("meta")).Delete(journal.MetaKey()) }},
		{"of a later version", "format 4, this program knows 3", false, func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte("meta")).Put(journal.MetaKey(), []byte{4, 1, 2, 3, 4, 5, 6, 7, 8})
		}},
		{"with a damaged state", "state is damaged", true, func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte("meta")).Put(journal.MetaKey(), []byte{1, 1, 2, 3, 4, 5, 6, 7, 8})
		}},
		{"without a bucket", "damaged: no gone", true, func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("gone")) }},
		{"without notes", "damaged: no notes", true, func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("notes")) }},
		{"without its newest change", "damaged: changes", true, func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte("changes")).Delete(journal.SeqKey(3))
		}},
		{"with a change too many", "damaged: changes", true, func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte("changes")).Put(journal.SeqKey(4), []byte("x"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j, file := begin(t, nil)
			take(t, j, create("a", "a"), create("b", "b"), create("c", "c"))
			j.Close()
			edit(t, file, c.edit)
			before, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = journal.Open(file, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), file) {
				t.Fatalf("open: %v, want %q", err, c.want)
			}
			if errors.Is(err, journal.ErrDamaged) != c.damaged || strings.Contains(err.Error(), "move the file away") != c.damaged {
				t.Errorf("open: %v", err)
			}
			if after, _ := os.ReadFile(file); !bytes.Equal(before, after) {
				t.Error("the file was written to")
			}
		})
	}
}

// Open removes the leftovers of a Renew that was killed.
func TestOpenDropsLeftoversOfRenew(t *testing.T) {
	j, file := begin(t, nil, "a")
	j.Close()
	edit(t, file, func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("items1"))
		if err != nil {
			return err
		}
		return b.Put([]byte("half"), []byte("written"))
	})
	j = open(t, file, nil)
	check(t, "items", urls(entriesOf(t, j)), "a")
	j.Close()
	edit(t, file, func(tx *bbolt.Tx) error {
		if tx.Bucket([]byte("items1")) != nil {
			t.Error("the leftover is still there")
		}
		return nil
	})
}

func TestOpenCreatesDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "some", "where", "journal")
	open(t, file, nil).Close()
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	// A process killed in Open leaves an empty file, or one without buckets.
	empty, bare := filepath.Join(t.TempDir(), "empty"), filepath.Join(t.TempDir(), "bare")
	must.OK(t, os.WriteFile(empty, nil, 0o600))
	edit(t, bare, func(*bbolt.Tx) error { return nil })
	for _, f := range []string{empty, bare} {
		j := open(t, f, nil)
		take(t, j, create("a", "a"))
		check(t, "items in "+f, j.Len(), 1)
	}
}
