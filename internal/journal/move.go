package journal

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/protocol"
)

// Move begins a new epoch with the present entries at other URLs: each URL begins with to in place of from, and so does
// Item.Canonical if it began with from. Everything else that is known of an entry is kept, but none is held. From and to differ
// in scheme, host or port alone, so that the order stays. A URL that becomes too long is left out; an entry that does not begin
// with from is an error. The new epoch is whole if the old one was. After an error, the end of ctx, or a kill, the old epoch stays.
//
// It takes bounded memory. Appends wait until it is done; subscribers do not, and get ErrEpoch afterwards. The caller must have no
// View open.
func (j *Journal) Move(ctx context.Context, from, to string) error {
	j.turn.Lock()
	defer j.turn.Unlock()
	if err := j.move(ctx, from, to); err != nil {
		return j.fail("move", err)
	}
	return nil
}

func (j *Journal) move(ctx context.Context, from, to string) error {
	err := j.unstage() // what a Move or Renew left that could not clean up
	m := mover{from: from, to: to, more: true}
	for err == nil && m.more {
		if err = ctx.Err(); err == nil {
			err = j.update(m.batch)
			j.touched += 2 * protocol.MaxBatch // in both buckets
		}
	}
	if err != nil {
		_ = j.unstage() // if it fails, the next Open does it
		return err
	}
	return j.replaceItems(m.staged, newEpoch(), j.Whole())
}

// A mover writes the entries of the valid items bucket into the other one, in batches.
type mover struct {
	from, to string
	staged   meta   // the number of entries written, and their newest Modified
	last     []byte // key of the last entry that was read
	more     bool
}

func (v *mover) batch(tx *bbolt.Tx, m *meta) error {
	staged, err := tx.CreateBucketIfNotExists(itemsBuckets[1-m.slot])
	if err != nil {
		return err
	}
	staged.FillPercent = ascending
	c := tx.Bucket(itemsBuckets[m.slot]).Cursor()
	k, raw := c.First()
	if v.last != nil {
		if k, raw = c.Seek(v.last); bytes.Equal(k, v.last) {
			k, raw = c.Next()
		}
	}
	for n := 0; k != nil && n < protocol.MaxBatch; n++ {
		e, err := parseEntry(k, raw)
		if err != nil {
			return err
		}
		rest, ok := strings.CutPrefix(e.Item.URL, v.from)
		if !ok {
			return fmt.Errorf("%s is not below %s", e.Item.URL, v.from)
		}
		e.Item.URL, e.Held = v.to+rest, time.Time{}
		if rest, ok := strings.CutPrefix(e.Item.Canonical, v.from); ok {
			e.Item.Canonical = v.to + rest
		}
		if key := itemKey(e.Item.URL); len(e.Item.URL) <= protocol.MaxURL {
			if err := staged.Put(key, appendEntry(nil, key, e)); err != nil {
				return err
			}
			v.staged.items++
			v.staged.saw(e.Item)
		}
		v.last = append(v.last[:0], k...)
		k, raw = c.Next()
	}
	v.more = k != nil
	return nil
}
