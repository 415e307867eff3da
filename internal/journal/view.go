package journal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"iter"
	"math"
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
// An error, here and below, is the last thing that is yielded.
func (v *View) Entries() iter.Seq2[Entry, error] {
	return walk(v, itemsBuckets[v.m.slot], (*bbolt.Cursor).First, (*bbolt.Cursor).Next, ascends, parseEntry)
}

// Under yields the entries whose URL begins with prefix, which ends in "/":
// those of its own depth only, or all below it when deep.
func (v *View) Under(prefix string, deep bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		depth := protocol.Depth(prefix)
		from := depthKey(depth, prefix)
		// in goes on from where the cursor stands to what has the prefix.
		in := func(c *bbolt.Cursor, k, b []byte) ([]byte, []byte) {
			for len(k) >= 2 && !bytes.HasPrefix(k, from) {
				d := int(binary.BigEndian.Uint16(k))
				switch {
				case d < depth:
					panic("keys are out of order") // for guard
				case d == depth: // all of this depth has been seen
					d++
				}
				if !deep || d > math.MaxUint16 {
					return nil, nil
				}
				depth, from = d, depthKey(d, prefix)
				k, b = c.Seek(from)
			}
			return k, b
		}
		first := func(c *bbolt.Cursor) ([]byte, []byte) {
			k, b := c.Seek(from)
			return in(c, k, b)
		}
		next := func(c *bbolt.Cursor) ([]byte, []byte) {
			k, b := c.Next()
			return in(c, k, b)
		}
		walk(v, itemsBuckets[v.m.slot], first, next, ascends, parseEntry)(yield)
	}
}

// Held yields the entries that are held, in the same order.
func (v *View) Held() iter.Seq2[Entry, error] {
	parse := func(k, _ []byte) (Entry, error) { return parseEntry(k, v.tx.Bucket(itemsBuckets[v.m.slot]).Get(k)) }
	return walk(v, heldBucket, (*bbolt.Cursor).First, (*bbolt.Cursor).Next, ascends, parse)
}

// Tombstones yields what is gone and remembered, newest first, each URL once and only if it is not present again.
func (v *View) Tombstones() iter.Seq2[protocol.Tombstone, error] {
	parse := func(k, _ []byte) (protocol.Tombstone, error) {
		c, err := getChange(v.tx.Bucket(changesBucket), k)
		dead, ok := c.Tombstone()
		if err == nil && !ok {
			err = fmt.Errorf("tombstone %d is %w", c.Seq, ErrDamaged)
		}
		return dead, err
	}
	return walk(v, gravesBucket, (*bbolt.Cursor).Last, (*bbolt.Cursor).Prev, descends, parse)
}

var errViewClosed = fmt.Errorf("view is closed: %w", fs.ErrClosed)

// The order in which keys come.
const (
	ascends  = 1
	descends = -1
)

// walk yields what parse makes of each key and value of a bucket. Both are
// looked at under guard, and not kept: a damaged page may say that they lie
// anywhere, and that they come again and again.
func walk[T any](v *View, bucket []byte, first, next func(*bbolt.Cursor) (k, b []byte), order int, parse func(k, b []byte) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var c *bbolt.Cursor
		var last []byte
		for n := 1; ; n++ {
			var t T
			more := false
			err := errViewClosed
			if v.tx != nil {
				if n%giveBackAfter == 0 {
					giveBack(v.tx)
				}
				err = guard(func() (err error) {
					move := next
					if c == nil {
						c, move = v.tx.Bucket(bucket).Cursor(), first
					}
					k, b := move(c)
					if more = k != nil; !more {
						return nil
					}
					if last != nil && bytes.Compare(k, last) != order {
						return fmt.Errorf("file is %w: keys are out of order", ErrDamaged)
					}
					last = append(last[:0], k...)
					t, err = parse(k, b)
					return err
				})
			}
			if err != nil {
				yield(t, v.j.fail("read", err))
				return
			}
			if !more || !yield(t, nil) {
				return
			}
		}
	}
}
