package journal

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/protocol"
)

// Notes are small values that readers of the journal store in its file, so that backups and restores include
// them: how far a sender has read, the stamp of an output when it was written. They outlive epochs. Keys are
// "OWNER/...", so that owners cannot collide.

// MaxNote bounds a key and its value together, in bytes. A key alone has at
// most a quarter of that.
const MaxNote = 64 << 10

// maxNotes bounds the keys and values of one call of SetNotes, in bytes.
const maxNotes = 64 << 20

const maxNoteKey = MaxNote / 4

// noteStart begins the record of a note; the value is the rest.
var noteStart = []byte{plainRecord, 0}

func appendNote(b []byte, key string, value []byte) []byte {
	return seal([]byte(key), append(append(b, noteStart...), value...))
}

// parseNote parses the output of appendNote. It retains neither key nor b.
func parseNote(key, b []byte) ([]byte, error) {
	body, ok := unseal(key, b)
	value, start := bytes.CutPrefix(body, noteStart)
	if !ok || !start || len(key) == 0 {
		return nil, fmt.Errorf("note %.200q is %w", key, ErrDamaged)
	}
	return append([]byte{}, value...), nil
}

// Note returns the value of a note, nil if there is none.
func (j *Journal) Note(key string) ([]byte, error) {
	tx, err := j.begin()
	if err != nil {
		return nil, j.fail("read", err)
	}
	defer tx.Rollback()
	var value []byte
	err = boltfile.RecoverDamage(func() (err error) {
		notes := tx.Bucket(notesBucket)
		if notes == nil || key == "" {
			return nil
		}
		if raw := notes.Get([]byte(key)); raw != nil {
			value, err = parseNote([]byte(key), raw)
		}
		return err
	})
	if err != nil {
		return nil, j.fail("read", err)
	}
	return value, nil
}

// EachNote calls f with every note whose key begins with prefix, in key order, as of one moment. f may keep
// its arguments, must not use the journal, and ends the walk by returning an error, which EachNote returns.
func (j *Journal) EachNote(prefix string, f func(key string, value []byte) error) error {
	v, err := j.View()
	if err != nil {
		return err
	}
	defer v.Close()
	none := false
	if err := boltfile.RecoverDamage(func() error { none = v.tx.Bucket(notesBucket) == nil; return nil }); err != nil || none {
		return err
	}
	type note struct {
		key   string
		value []byte
	}
	in := func(k, b []byte) ([]byte, []byte) {
		if !bytes.HasPrefix(k, []byte(prefix)) {
			return nil, nil
		}
		return k, b
	}
	first := func(c *bbolt.Cursor) ([]byte, []byte) { return in(c.Seek([]byte(prefix))) }
	next := func(c *bbolt.Cursor) ([]byte, []byte) { return in(c.Next()) }
	parse := func(k, b []byte) (note, error) {
		value, err := parseNote(k, b)
		return note{string(k), value}, err
	}
	r := rows[note]{v: v, bucket: notesBucket, first: first, move: next, order: ascends, parse: parse}
	for {
		n, more, err := r.next()
		if err != nil || !more {
			return err
		}
		if err := f(n.key, n.value); err != nil {
			return err
		}
	}
}

// SetNotes stores notes in one durable transaction; a nil value removes its key. A note beyond MaxNote or a
// call beyond maxNotes is an error, and then nothing is stored. As with Append, the caller must have no View open.
func (j *Journal) SetNotes(notes map[string][]byte) error {
	if err := j.setNotes(notes); err != nil {
		return j.fail("store notes in", err)
	}
	return nil
}

func (j *Journal) setNotes(notes map[string][]byte) error {
	size := 0
	for key, value := range notes {
		if key == "" || len(key) > maxNoteKey || len(key)+len(value) > MaxNote {
			return fmt.Errorf("note %.200q of %d bytes: want a key of 1 to %d bytes, and key and note of at most %d together", key, len(value), maxNoteKey, MaxNote)
		}
		size += len(key) + len(value)
	}
	if size > maxNotes {
		return fmt.Errorf("notes of %d bytes at once, more than %d", size, maxNotes)
	}
	j.turn.Lock()
	defer j.turn.Unlock()
	return j.update(func(tx *bbolt.Tx, _ *meta) error {
		bucket := tx.Bucket(notesBucket)
		news := false
		for _, key := range slices.Sorted(maps.Keys(notes)) {
			old, value := bucket.Get([]byte(key)), notes[key]
			var err error
			switch {
			case value == nil && old == nil:
				continue
			case value == nil:
				err = bucket.Delete([]byte(key))
			default:
				record := appendNote(nil, key, value)
				if bytes.Equal(record, old) {
					continue
				}
				err = bucket.Put([]byte(key), record)
			}
			if err != nil {
				return err
			}
			news = true
		}
		if !news {
			return errNothing
		}
		return nil
	})
}

// Revision returns a number that differs from every earlier one of this file whenever a View would show
// other entries or tombstones: after changes, and after updates without a change, such as of an importance.
// Notes do not move it.
func (j *Journal) Revision() uint64 {
	m, _, _ := j.current()
	return m.revision
}

// Revision returns the journal's Revision at the moment of the view.
func (v *View) Revision() uint64 { return v.m.revision }

// QuietNote is the key of the journal's own note. Its value is another one whenever an Item has changed without a change
// that subscribers get: in its importance, or in what else stands beside the bytes.
const QuietNote = "journal/quiet"

// Gone returns the tombstone of a URL, and false if there is none.
func (j *Journal) Gone(url string) (protocol.Tombstone, bool, error) {
	floor := j.Floor().Seq
	tx, err := j.begin()
	if err != nil {
		return protocol.Tombstone{}, false, j.fail("read", err)
	}
	defer tx.Rollback()
	var dead protocol.Tombstone
	err = boltfile.RecoverDamage(func() error {
		var seq []byte
		if url != "" {
			seq = tx.Bucket(goneBucket).Get([]byte(url))
		}
		if seq == nil || seqOf(seq) <= floor { // of a change that could not be read and was dropped
			return nil
		}
		c, err := getChange(tx.Bucket(changesBucket), seq)
		if err != nil {
			return err
		}
		if t, ok := c.Tombstone(); ok && t.URL == url {
			dead = t
			return nil
		}
		return fmt.Errorf("tombstone %d is %w", c.Seq, ErrDamaged)
	})
	if err != nil {
		return protocol.Tombstone{}, false, j.fail("read", err)
	}
	return dead, dead.URL != "", nil
}
