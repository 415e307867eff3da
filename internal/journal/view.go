package journal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"time"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/protocol"
)

// A View is the journal at one moment, for one goroutine at a time. Close it
// soon: it keeps old pages of the file alive.
//
// Whoever has a View open must not wait for an Append, a Renew or a Close of
// the same journal: bbolt cannot map a file that has outgrown its mapping
// until every View is closed. The mapping has room for a gigabyte more than
// the file had at Open, where addresses are 64 bits wide and the system is not
// Windows; so elsewhere it happens often, there seldom.
type View struct {
	j  *Journal
	tx *bbolt.Tx // nil once closed
	m  meta
}

// View opens a view.
func (j *Journal) View() (*View, error) {
	tx, err := j.begin()
	if err != nil {
		return nil, j.fail("view", err)
	}
	v := &View{j: j, tx: tx}
	err = guard(func() (err error) {
		v.m, err = readMeta(tx)
		return err
	})
	if err != nil {
		tx.Rollback()
		return nil, j.fail("view", err)
	}
	return v, nil
}

// Close closes the view. It may be closed again.
func (v *View) Close() {
	if v.tx != nil {
		v.tx.Rollback()
		v.tx = nil
	}
}

// Head returns where the view stands; the zero Cursor if the journal was not whole.
func (v *View) Head() protocol.Cursor { return v.m.headCursor() }

// Len returns the number of present items, held ones included.
func (v *View) Len() int { return int(v.m.items) }

// Modified is when the newest change of the epoch was taken in; if there is
// none, the newest Modified that an item of the epoch had, which is the zero
// time if none had any.
func (v *View) Modified() time.Time {
	if v.m.head > 0 {
		return v.m.last
	}
	return v.m.newest
}

// Entries yields what is present, as protocol.Compare orders it. It may be ranged over again.
// An error is the last thing it yields.
func (v *View) Entries() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		w := v.walk(itemsBuckets[v.m.slot])
		for k, b := w.do((*bbolt.Cursor).First); k != nil; k, b = w.do((*bbolt.Cursor).Next) {
			if !yieldEntry(w, k, b, yield) {
				return
			}
		}
		w.end(yield)
	}
}

// Under yields the entries whose URL begins with prefix, which ends in "/":
// those of its own depth only, or all below it when deep.
func (v *View) Under(prefix string, deep bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		w := v.walk(itemsBuckets[v.m.slot])
		depth := protocol.Depth(prefix)
		seek := depthKey(depth, prefix)
		k, b := w.seek(seek)
		for k != nil {
			if bytes.HasPrefix(k, seek) {
				if !yieldEntry(w, k, b, yield) {
					return
				}
				k, b = w.do((*bbolt.Cursor).Next)
				continue
			}
			if !deep || len(k) < 2 {
				break
			}
			// Everything of this depth and prefix has been seen: on to the next
			// depth that there is.
			d := int(binary.BigEndian.Uint16(k))
			if d == depth && bytes.Compare(k, seek) > 0 {
				d++
			}
			depth = d
			seek = depthKey(depth, prefix)
			k, b = w.seek(seek)
		}
		w.end(yield)
	}
}

// Held yields the entries that are held, in the same order.
func (v *View) Held() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		w := v.walk(heldBucket)
		for k, _ := w.do((*bbolt.Cursor).First); k != nil; k, _ = w.do((*bbolt.Cursor).Next) {
			b := w.get(itemsBuckets[v.m.slot], k)
			if !yieldEntry(w, k, b, yield) {
				return
			}
		}
		w.end(yield)
	}
}

// Tombstones yields what is gone and remembered, newest first, each URL once and only if it is not present again.
func (v *View) Tombstones() iter.Seq2[protocol.Tombstone, error] {
	return func(yield func(protocol.Tombstone, error) bool) {
		w := v.walk(gravesBucket)
		for k, _ := w.do((*bbolt.Cursor).Last); k != nil; k, _ = w.do((*bbolt.Cursor).Prev) {
			c, err := parseChange(k, w.get(changesBucket, k))
			dead, ok := c.Tombstone()
			if err == nil && !ok {
				err = fmt.Errorf("tombstone %d is %w", seqOf(k), ErrDamaged)
			}
			if err != nil {
				yield(protocol.Tombstone{}, v.j.fail("read", err))
				return
			}
			if !yield(dead, nil) {
				return
			}
		}
		if w.err != nil {
			yield(protocol.Tombstone{}, v.j.fail("read", w.err))
		}
	}
}

// A walk is a cursor that has an error instead of a panic.
type walk struct {
	v       *View
	c       *bbolt.Cursor
	touched int
	err     error
}

func (v *View) walk(bucket []byte) *walk {
	w := &walk{v: v}
	if v.tx == nil {
		w.err = errViewClosed
		return w
	}
	w.err = guard(func() error {
		w.c = v.tx.Bucket(bucket).Cursor()
		return nil
	})
	return w
}

var errViewClosed = fmt.Errorf("view is closed: %w", errClosed)

// do moves the cursor. It returns no key at the end and after an error.
func (w *walk) do(move func(*bbolt.Cursor) (k, v []byte)) (k, b []byte) {
	if w.v.tx == nil && w.err == nil {
		w.err = errViewClosed
	}
	if w.err != nil {
		return nil, nil
	}
	if w.touched++; w.touched == giveBackAfter {
		w.touched = 0
		giveBack(w.v.tx)
	}
	w.err = guard(func() error {
		k, b = move(w.c)
		return nil
	})
	if w.err != nil {
		return nil, nil
	}
	return k, b
}

func (w *walk) seek(key []byte) (k, b []byte) {
	return w.do(func(c *bbolt.Cursor) (k, b []byte) { return c.Seek(key) })
}

// get returns nil, which is no record, if it cannot be read.
func (w *walk) get(bucket, key []byte) (b []byte) {
	_ = guard(func() error {
		b = w.v.tx.Bucket(bucket).Get(key)
		return nil
	})
	return b
}

func (w *walk) end(yield func(Entry, error) bool) {
	if w.err != nil {
		yield(Entry{}, w.v.j.fail("read", w.err))
	}
}

// yieldEntry yields one entry, or the error that it is damaged, and reports
// whether to go on.
func yieldEntry(w *walk, key, b []byte, yield func(Entry, error) bool) bool {
	e, err := parseEntry(key, b)
	if err != nil {
		yield(Entry{}, w.v.j.fail("read", err))
		return false
	}
	return yield(e, nil)
}
