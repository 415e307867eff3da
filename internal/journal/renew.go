package journal

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/protocol"
)

// Inherited is the stamp of an entry that Renew has only as an item: its source is no longer known.
const Inherited = "\x00inherited\x00"

// Renew begins a new epoch: all changes are removed, present items stay. If items is not nil it replaces the
// present items (ordered as protocol.Compare orders). An item with the same URL and digest as before keeps
// all that belongs to the bytes, such as its stamp; so does one without a digest, if the old one has none
// and Modified is the same. Every other item gets the stamp Inherited, and none is held. The new epoch is
// whole if the old one was and items is nil; otherwise the next EndBaseline makes it whole. After an error, the
// end of ctx, or a kill, the old epoch stays.
//
// It takes bounded memory. Appends wait until it is done; subscribers do not, and get ErrEpoch afterwards.
// The caller must have no View open.
func (j *Journal) Renew(ctx context.Context, items iter.Seq2[protocol.Item, error]) error {
	j.turn.Lock()
	defer j.turn.Unlock()
	err := ctx.Err()
	switch {
	case err != nil:
	case items == nil:
		err = j.update(func(tx *bbolt.Tx, m *meta) error {
			return beginEpoch(tx, m, newEpoch(), changesBucket, goneBucket, gravesBucket)
		})
	default:
		err = j.replaceBy(ctx, newEpoch(), items, false)
	}
	if err != nil {
		return j.fail("renew", err)
	}
	return nil
}

// Adopt goes on in an epoch that another journal began: the head and the floor become at, and the present items are
// replaced, as Renew does it, by those that the other journal had there. The journal is whole, and numbers its next change
// after at. It is for a journal that takes over once the other one can number nothing more; what the other one stored and
// nobody was told does not count. After an error, the end of ctx, or a kill, everything stays as it was.
func (j *Journal) Adopt(ctx context.Context, at protocol.Cursor, items iter.Seq2[protocol.Item, error]) error {
	if at.Epoch == "" {
		return j.fail("go on in", errors.New("no epoch is given"))
	}
	j.turn.Lock()
	defer j.turn.Unlock()
	if err := j.replaceBy(ctx, at, items, true); err != nil {
		return j.fail(fmt.Sprintf("go on from %v in", at), err)
	}
	return nil
}

// replaceBy replaces the items, and the log by an empty one at a cursor.
func (j *Journal) replaceBy(ctx context.Context, at protocol.Cursor, items iter.Seq2[protocol.Item, error], whole bool) error {
	if err := j.unstage(); err != nil { // left by a Renew that could not clean up
		return err
	}
	s, err := j.stage(ctx, items)
	if err != nil {
		_ = j.unstage() // if it fails, the next Open does it
		return err
	}
	return j.replaceItems(s, at, whole)
}

// replaceItems switches to the staged items, whose number and newest Modified are in s, and to an empty log at a cursor. One
// transaction deletes the old items too: that touches the old pages, but keeps none of them in memory.
func (j *Journal) replaceItems(s meta, at protocol.Cursor, whole bool) error {
	defer func() { j.touched = giveBackAfter }()
	return j.update(func(tx *bbolt.Tx, m *meta) error {
		if err := dropBucket(tx, itemsBuckets[m.slot]); err != nil {
			return err
		}
		m.slot = 1 - m.slot
		m.whole, m.items, m.held, m.newest = whole, s.items, 0, s.newest
		if at.Seq > 0 && s.newest.After(m.last) {
			m.last = s.newest // no later change gets an earlier time
		}
		return beginEpoch(tx, m, at, logBuckets()...)
	})
}

// beginEpoch empties buckets, and lets the log begin at a cursor.
func beginEpoch(tx *bbolt.Tx, m *meta, at protocol.Cursor, empty ...[]byte) error {
	for _, name := range empty {
		if err := dropBucket(tx, name); err != nil {
			return err
		}
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	m.epoch, m.head, m.floor = at.Epoch, at.Seq, at.Seq
	m.revision++
	return nil
}

// stage writes items into the items bucket that is not valid, in batches. It returns their number and newest
// Modified.
func (j *Journal) stage(ctx context.Context, items iter.Seq2[protocol.Item, error]) (meta, error) {
	var s meta
	batch := make([]protocol.Item, 0, protocol.MaxBatch)
	flush := func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := j.update(func(tx *bbolt.Tx, m *meta) error { return stageBatch(tx, m, batch) })
		j.touched += 2 * len(batch) // in both buckets
		s.items += uint64(len(batch))
		batch = batch[:0]
		return err
	}
	last := ""
	for it, err := range items {
		switch {
		case err != nil:
			return s, err
		case it.URL == "" || len(it.URL) > protocol.MaxURL:
			return s, fmt.Errorf("item with a url of %d bytes, want 1 to %d", len(it.URL), protocol.MaxURL)
		case last != "" && protocol.Compare(last, it.URL) >= 0:
			return s, fmt.Errorf("items are out of order: %s after %s", it.URL, last)
		}
		last = it.URL
		it = kept(it)
		s.saw(it)
		batch = append(batch, it)
		if len(batch) == cap(batch) {
			if err := flush(); err != nil {
				return s, err
			}
		}
	}
	return s, flush()
}

func stageBatch(tx *bbolt.Tx, m *meta, batch []protocol.Item) error {
	old := tx.Bucket(itemsBuckets[m.slot])
	staged, err := tx.CreateBucketIfNotExists(itemsBuckets[1-m.slot])
	if err != nil {
		return err
	}
	staged.FillPercent = ascending
	for _, it := range batch {
		key := itemKey(it.URL)
		was, present, err := getEntry(old, key)
		if err != nil {
			return err
		}
		if err := staged.Put(key, appendEntry(nil, key, inherit(it, was, present))); err != nil {
			return err
		}
	}
	return nil
}

// inherit returns the entry of an item whose source is not known, with what is known from the entry before it.
func inherit(it protocol.Item, was Entry, present bool) Entry {
	e := Entry{Item: it, Stamp: []byte(Inherited)}
	switch {
	case present && was.Item.Digest == it.Digest && (!it.Digest.IsZero() || was.Item.Modified.Equal(it.Modified)):
		e.Stamp, e.Sketch, e.Newest, e.Other = was.Stamp, was.Sketch, was.Newest, was.Other
	case was.Newest.After(was.Other):
		e.Other = was.Newest
	default:
		e.Other = was.Other
	}
	return e
}

// unstage drops staged items.
func (j *Journal) unstage() error {
	return j.update(func(tx *bbolt.Tx, m *meta) error {
		if tx.Bucket(itemsBuckets[1-m.slot]) == nil {
			return errNothing
		}
		return dropBucket(tx, itemsBuckets[1-m.slot])
	})
}
