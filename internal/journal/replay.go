package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/protocol"
)

// Replay stores changes that another journal numbered and dated, in order, in one durable transaction, and wakes waiting
// readers: so this journal is a copy of the other one, from the cursor on where it was adopted. The first change must be the
// one after the head, else nothing is stored and the error wraps protocol.ErrEpoch. Entries are as after Renew. At most
// protocol.MaxBatch changes per call.
//
// A change without number or operation says what stands beside the bytes of a page, such as its title: that is stored if the
// bytes here are the same. With such changes alone, after is not used.
func (j *Journal) Replay(ctx context.Context, after protocol.Cursor, changes []protocol.Change) error {
	j.turn.Lock()
	defer j.turn.Unlock()
	err := ctx.Err()
	if len(changes) > protocol.MaxBatch {
		err = fmt.Errorf("%d changes at once, more than %d", len(changes), protocol.MaxBatch)
	}
	if err == nil {
		err = j.update(func(tx *bbolt.Tx, m *meta) error {
			told := slices.ContainsFunc(changes, func(c protocol.Change) bool { return c.Op != "" })
			if told && (after != m.headCursor() || after.IsZero()) {
				return fmt.Errorf("%w: changes after %v do not follow %v", protocol.ErrEpoch, after, m.headCursor())
			}
			t := newTurn(tx, m, j.opts.Now())
			j.touched += len(changes)
			for _, c := range changes {
				if err := t.repeat(c); err != nil {
					return err
				}
			}
			return t.finish(&j.opts)
		})
	}
	if err != nil {
		return j.fail("copy changes to", err)
	}
	return nil
}

// repeat stores a change as it is.
func (t *turn) repeat(c protocol.Change) error {
	if c.Op == "" {
		return t.describe(c.Item)
	}
	if c.Seq != t.m.head+1 {
		return fmt.Errorf("%w: change %d does not follow %d", protocol.ErrEpoch, c.Seq, t.m.head)
	}
	t.steps++
	t.at = c.At
	key := itemKey(c.Item.URL)
	old, present, err := getEntry(t.items, key)
	if c.Op == protocol.Move {
		from, moved, ferr := getEntry(t.items, itemKey(c.From))
		if err = errors.Join(err, ferr); err == nil && moved {
			err = t.drop(itemKey(c.From), from)
		}
	}
	switch {
	case err != nil:
		return err
	case c.Op == protocol.Delete && present:
		err = t.drop(key, old)
	case c.Op == protocol.Delete:
	case present:
		err = t.put(key, inherit(c.Item, old, true), &old)
	default:
		err = t.put(key, inherit(c.Item, old, false), nil)
	}
	if err != nil {
		return err
	}
	t.dirty = true
	return t.tell(c)
}

// describe stores what stands beside the bytes of a page.
func (t *turn) describe(it protocol.Item) error {
	t.steps++
	key := itemKey(it.URL)
	e, present, err := getEntry(t.items, key)
	if err != nil || !present || e.Item.Digest != it.Digest || !e.Item.Modified.Equal(it.Modified) {
		return err
	}
	is := e
	is.Item = besides(e.Item, kept(it))
	t.quiet = t.quiet || is.Item != e.Item
	return t.put(key, is, &e)
}
