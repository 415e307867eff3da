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

	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/protocol"
)

// A View is a snapshot of the journal, for one goroutine at a time. Close it soon: it keeps old pages of the
// file alive.
//
// A caller with an open View must not wait for an Append, a Renew or a Close of the same journal: bbolt
// cannot map a file that has outgrown its mapping until every View is closed. The mapping has room for a
// gigabyte more than the file had at Open, if addresses are 64 bits wide and the system is not Windows:
// there this is rare, elsewhere frequent.
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
	err = boltfile.RecoverDamage(func() (err error) {
		v.m, err = readMeta(tx)
		return err
	})
	if err != nil {
		tx.Rollback()
		return nil, j.fail("view", err)
	}
	return v, nil
}

// Close closes the view. It may be called again.
func (v *View) Close() {
	if v.tx != nil {
		v.tx.Rollback()
		v.tx = nil
	}
}

// Head returns the head at the moment of the view; the zero Cursor if the journal was not whole.
func (v *View) Head() protocol.Cursor { return v.m.headCursor() }

// Len returns the number of present items, held ones included.
func (v *View) Len() int { return int(v.m.items) }

// Modified returns when the newest change of the epoch was stored; without a change, the newest Modified
// that an item of the epoch had, which is the zero time if none had any.
func (v *View) Modified() time.Time {
	if v.m.head > 0 {
		return v.m.last
	}
	return v.m.newest
}

// Entries yields the present entries, in the order of protocol.Compare. It may be ranged over again. An
// error, here and below, is the last value yielded.
func (v *View) Entries() iter.Seq2[Entry, error] { return v.Under("", true) }

// Under yields the entries whose URL begins with prefix, which ends in "/":
// those of its own depth only, or all below it when deep.
func (v *View) Under(prefix string, deep bool) iter.Seq2[Entry, error] {
	return each(func() *rows[Entry] { return &v.Reader(prefix, deep, "").rows })
}

// Between yields the entries from one URL on, and before another one; empty means the beginning and the end.
func (v *View) Between(from, to string) iter.Seq2[Entry, error] {
	least, end := itemKey(from), itemKey(to)
	in := func(k, b []byte) ([]byte, []byte) {
		if to != "" && bytes.Compare(k, end) >= 0 {
			return nil, nil
		}
		return k, b
	}
	first := func(c *bbolt.Cursor) ([]byte, []byte) { return in(c.Seek(least)) }
	next := func(c *bbolt.Cursor) ([]byte, []byte) { return in(c.Next()) }
	return each(func() *rows[Entry] {
		return &rows[Entry]{v: v, bucket: itemsBuckets[v.m.slot], first: first, move: next, order: ascends, parse: parseEntry}
	})
}

// A Reader reads entries one by one.
type Reader struct{ rows rows[Entry] }

// Reader returns a Reader of the entries that Under yields after a URL, in the order of protocol.Compare. An
// empty prefix, and an empty after, mean everything.
func (v *View) Reader(prefix string, deep bool, after string) *Reader {
	u := under{prefix: prefix, deep: deep, after: after}
	return &Reader{rows[Entry]{v: v, bucket: itemsBuckets[v.m.slot], first: u.first, move: u.next, order: ascends, parse: parseEntry}}
}

// StoredReader is Reader for entries as they are stored.
func (v *View) StoredReader(prefix string, deep bool, after string) *StoredReader {
	u := under{prefix: prefix, deep: deep, after: after}
	return &StoredReader{rows[Stored]{v: v, bucket: itemsBuckets[v.m.slot], first: u.first, move: u.next, order: ascends, parse: storedParser()}}
}

// Page returns a StoredReader of the entry of one URL.
func (v *View) Page(url string) *StoredReader {
	key := itemKey(url)
	first := func(c *bbolt.Cursor) ([]byte, []byte) {
		k, b := c.Seek(key)
		if !bytes.Equal(k, key) {
			return nil, nil
		}
		return k, b
	}
	end := func(*bbolt.Cursor) ([]byte, []byte) { return nil, nil }
	return &StoredReader{rows[Stored]{v: v, bucket: itemsBuckets[v.m.slot], first: first, move: end, order: ascends, parse: storedParser()}}
}

// Get returns the entry of a URL, and false if there is none.
func (v *View) Get(url string) (Entry, bool, error) {
	stored, ok, err := v.Page(url).Next()
	if err != nil || !ok {
		return Entry{}, false, err
	}
	e, err := stored.Entry()
	return e, err == nil, err
}

// Next returns the next entry, and false after the last. An error is final.
func (r *Reader) Next() (Entry, bool, error) { return r.rows.next() }

// under moves a cursor over the keys below a prefix.
type under struct {
	prefix string
	deep   bool
	after  string

	depth int    // of the cursor
	from  []byte // the least key of that depth
}

func (u *under) first(c *bbolt.Cursor) ([]byte, []byte) {
	u.to(protocol.Depth(u.prefix))
	if u.prefix == "" {
		u.from = nil // of all depths
	}
	start := u.from
	if key := itemKey(u.after); u.after != "" && bytes.Compare(key, start) >= 0 {
		switch depth := protocol.Depth(u.after); {
		case u.prefix == "":
		case depth > u.depth && !u.deep:
			return nil, nil
		default:
			u.to(depth)
		}
		if start = u.from; bytes.Compare(key, start) >= 0 {
			k, b := c.Seek(key)
			if bytes.Equal(k, key) {
				k, b = c.Next()
			}
			return u.in(c, k, b)
		}
	}
	k, b := c.Seek(start)
	return u.in(c, k, b)
}

func (u *under) next(c *bbolt.Cursor) ([]byte, []byte) {
	k, b := c.Next()
	return u.in(c, k, b)
}

func (u *under) to(depth int) { u.depth, u.from = depth, depthKey(depth, u.prefix) }

// in moves on from the cursor to the next key with the prefix.
func (u *under) in(c *bbolt.Cursor, k, b []byte) ([]byte, []byte) {
	for len(k) >= 2 && !bytes.HasPrefix(k, u.from) {
		d := int(binary.BigEndian.Uint16(k))
		switch {
		case d < u.depth:
			panic("keys are out of order") // boltfile.RecoverDamage makes it an error
		case d == u.depth: // all keys of this depth are done
			d++
		}
		if !u.deep || d > math.MaxUint16 {
			return nil, nil
		}
		u.to(d)
		k, b = c.Seek(u.from)
	}
	return k, b
}

// Held yields the entries whose deletion is held back, in the same order.
func (v *View) Held() iter.Seq2[Entry, error] {
	parse := func(k, _ []byte) (Entry, error) { return parseEntry(k, v.tx.Bucket(itemsBuckets[v.m.slot]).Get(k)) }
	return each(func() *rows[Entry] {
		return &rows[Entry]{v: v, bucket: heldBucket, first: (*bbolt.Cursor).First, move: (*bbolt.Cursor).Next, order: ascends, parse: parse}
	})
}

// Tombstones yields the tombstones of absent URLs, newest first, one per URL.
func (v *View) Tombstones() iter.Seq2[protocol.Tombstone, error] {
	parse := func(k, _ []byte) (protocol.Tombstone, error) {
		c, err := getChange(v.tx.Bucket(changesBucket), k)
		dead, ok := c.Tombstone()
		if err == nil && !ok {
			err = fmt.Errorf("tombstone %d is %w", c.Seq, ErrDamaged)
		}
		return dead, err
	}
	return each(func() *rows[protocol.Tombstone] {
		return &rows[protocol.Tombstone]{v: v, bucket: gravesBucket, first: (*bbolt.Cursor).Last, move: (*bbolt.Cursor).Prev, order: descends, parse: parse}
	})
}

var errViewClosed = fmt.Errorf("view is closed: %w", fs.ErrClosed)

// The order of the keys.
const (
	ascends  = 1
	descends = -1
)

// maxAhead bounds how many rows are read at once.
const maxAhead = 64

// rows yields the results of parse for keys and values of a bucket, from first on by move. Both are read
// under RecoverDamage, and not retained: a damaged page may point anywhere, and may make them come again and again.
type rows[T any] struct {
	v           *View
	bucket      []byte
	first, move func(*bbolt.Cursor) (k, b []byte)
	order       int
	parse       func(k, b []byte) (T, error)

	c     *bbolt.Cursor // nil before the first
	last  []byte        // the previous key
	ahead []T           // read in batches, since RecoverDamage takes longer than a row
	given int           // how many of ahead were returned
	since int           // rows since mapped pages were given back, see giveBackAfter
	end   bool
	err   error // at the end
}

func (r *rows[T]) next() (t T, more bool, err error) {
	if r.v.tx == nil {
		return t, false, r.v.j.fail("read", errViewClosed)
	}
	if r.given == len(r.ahead) && !r.end {
		r.fill()
	}
	if r.given == len(r.ahead) {
		return t, false, r.err
	}
	r.given++
	return r.ahead[r.given-1], true, nil
}

// fill reads one row at first, and more each time.
func (r *rows[T]) fill() {
	most := min(2*len(r.ahead)+1, maxAhead)
	if r.since += most; r.since >= giveBackAfter {
		r.since = 0
		boltfile.ReleasePages(r.v.tx)
	}
	r.ahead, r.given = r.ahead[:0], 0
	err := boltfile.RecoverDamage(func() error {
		for len(r.ahead) < most {
			move := r.move
			if r.c == nil {
				r.c, move = r.v.tx.Bucket(r.bucket).Cursor(), r.first
			}
			k, b := move(r.c)
			if k == nil {
				r.end = true
				return nil
			}
			if r.last != nil && bytes.Compare(k, r.last) != r.order {
				return fmt.Errorf("file is %w: keys are out of order", ErrDamaged)
			}
			r.last = append(r.last[:0], k...)
			t, err := r.parse(k, b)
			if err != nil {
				return err
			}
			r.ahead = append(r.ahead, t)
		}
		return nil
	})
	if err != nil {
		r.end, r.err = true, r.v.j.fail("read", err)
	}
}

// each yields rows, starting again each time it is ranged over.
func each[T any](begin func() *rows[T]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for r := begin(); ; {
			t, more, err := r.next()
			if err != nil {
				yield(t, err)
				return
			}
			if !more || !yield(t, nil) {
				return
			}
		}
	}
}
