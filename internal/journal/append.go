package journal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/protocol"
)

const (
	// trimAtOnce is how many old changes one transaction removes, more only if it has more steps. An Append
	// can add as many, so that MaxChanges holds.
	trimAtOnce = protocol.MaxBatch

	// ascending is the fill of bbolt pages whose keys are written in order. bbolt's default, one half, is
	// for random keys.
	ascending = 0.95
)

// EndBaseline declares the first description complete: Head becomes EPOCH:0.
// On a whole journal it does nothing.
func (j *Journal) EndBaseline() error {
	j.turn.Lock()
	defer j.turn.Unlock()
	err := j.update(func(_ *bbolt.Tx, m *meta) error {
		if m.whole {
			return errNothing
		}
		m.whole = true
		m.revision++
		return nil
	})
	if err != nil {
		return j.fail("end the baseline of", err)
	}
	return nil
}

// Append stores steps, in order, in one durable transaction, and wakes waiting readers. It returns the head
// after them. The journal sets numbers and times; an impossible Step (an Update or a Delete of an absent
// item, a Create of a present one) is corrected to its effect, or dropped: an Update without news is no change.
//
// At most protocol.MaxBatch steps per call: callers bound their transactions. An error means that no step was stored.
func (j *Journal) Append(ctx context.Context, steps []Step) (protocol.Cursor, error) {
	head, err := j.append(ctx, steps)
	if err != nil {
		return head, j.fail("append to", err)
	}
	return head, nil
}

func (j *Journal) append(ctx context.Context, steps []Step) (protocol.Cursor, error) {
	if len(steps) > protocol.MaxBatch {
		return j.Head(), fmt.Errorf("%d steps at once, more than %d", len(steps), protocol.MaxBatch)
	}
	for _, s := range steps {
		if err := s.check(); err != nil {
			return j.Head(), err
		}
	}
	j.turn.Lock()
	defer j.turn.Unlock()
	if err := ctx.Err(); err != nil {
		return j.Head(), err
	}
	err := j.update(func(tx *bbolt.Tx, m *meta) error {
		t := newTurn(tx, m, j.opts.Now())
		j.touched += len(steps)
		for _, s := range steps {
			if err := t.take(s); err != nil {
				return err
			}
		}
		return t.finish(&j.opts)
	})
	return j.Head(), err
}

// check returns an error for a step that can only be a mistake of the caller.
func (s Step) check() error {
	url, known := s.Entry.Item.URL, false
	if _, known = opCode(s.Op); !known {
		return fmt.Errorf("unknown step %.40q of %.200q", s.Op, url)
	}
	for _, u := range []string{url, s.From} {
		if u == "" && (s.Op == protocol.Move || u == url) {
			return fmt.Errorf("step %q without a URL", s.Op)
		}
		if len(u) > protocol.MaxURL {
			return fmt.Errorf("url of %d bytes, more than %d", len(u), protocol.MaxURL)
		}
	}
	return nil
}

// A turn is one transaction of steps.
type turn struct {
	m     *meta
	now   time.Time
	at    time.Time // of the changes: never before that of earlier ones
	steps int
	dirty bool
	quiet bool // an Item has changed without a change that subscribers get

	items, held, changes, gone, graves, notes *bbolt.Bucket
}

func newTurn(tx *bbolt.Tx, m *meta, now time.Time) *turn {
	t := &turn{m: m, now: now, at: toMilli(now),
		items: tx.Bucket(itemsBuckets[m.slot]), held: tx.Bucket(heldBucket), changes: tx.Bucket(changesBucket),
		gone: tx.Bucket(goneBucket), graves: tx.Bucket(gravesBucket), notes: tx.Bucket(notesBucket)}
	if t.at.Before(m.last) {
		t.at = m.last
	}
	t.changes.FillPercent, t.graves.FillPercent = ascending, ascending
	if !m.whole {
		t.items.FillPercent = ascending
	}
	return t
}

// finish trims the log, and returns errNothing if nothing has changed.
func (t *turn) finish(o *Options) error {
	if err := t.trim(t.now.Add(-o.Retention), uint64(o.MaxChanges)); err != nil {
		return err
	}
	if !t.dirty {
		return errNothing
	}
	t.m.revision++
	if t.quiet {
		return t.notes.Put([]byte(QuietNote), appendNote(nil, QuietNote, strconv.AppendUint(nil, t.m.revision, 10)))
	}
	return nil
}

// take stores one step.
func (t *turn) take(s Step) error {
	t.steps++
	e := s.Entry.kept()
	key := itemKey(e.Item.URL)
	old, present, err := getEntry(t.items, key)
	if err != nil {
		return err
	}
	var from Entry
	if s.Op == protocol.Move {
		moved := false
		if s.From != e.Item.URL {
			if from, moved, err = getEntry(t.items, itemKey(s.From)); err != nil {
				return err
			}
		}
		if !moved {
			s.Op = protocol.Create
		}
	}
	switch s.Op {
	case "", protocol.Delete:
		if !present {
			return nil
		}
	case protocol.Create, protocol.Update:
		s.Op = protocol.Create
		if present {
			s.Op = protocol.Update
			if old.Item.Equal(e.Item) {
				s.Op = ""
			}
		}
	}
	c := protocol.Change{Op: s.Op, Item: e.Item, Prev: old.Item.Digest}
	switch s.Op {
	case "":
		e.Item = besides(old.Item, e.Item)
		t.quiet = t.quiet || e.Item != old.Item
		return t.put(key, e, &old)
	case protocol.Create:
		err = t.put(key, e, nil)
	case protocol.Update:
		was := old.Item
		was.Text = protocol.Digest{}
		c.Significance, c.Before = s.Significance, &was
		err = t.put(key, e, &old)
	case protocol.Delete:
		c.Item = protocol.Item{URL: e.Item.URL, Length: -1}
		err = t.drop(key, old)
	case protocol.Move:
		c.From, c.Prev, c.Significance = s.From, from.Item.Digest, s.Significance
		if err = t.drop(itemKey(s.From), from); err != nil {
			return err
		}
		if present {
			err = t.put(key, e, &old)
		} else {
			err = t.put(key, e, nil)
		}
	}
	if err != nil {
		return err
	}
	return t.tell(c)
}

// besides returns was with now's fields beside the bytes.
func besides(was, now protocol.Item) protocol.Item {
	was.Title, was.Text, was.Language, was.Canonical, was.Importance = now.Title, now.Text, now.Language, now.Canonical, now.Importance
	return was
}

// put stores an entry in place of old, which is nil if there was none.
func (t *turn) put(key []byte, e Entry, old *Entry) error {
	record := appendEntry(nil, key, e)
	if old != nil && bytes.Equal(record, t.items.Get(key)) {
		return nil
	}
	t.dirty = true
	t.m.saw(e.Item)
	if old == nil {
		t.m.items++
	}
	if err := t.hold(key, old != nil && !old.Held.IsZero(), !e.Held.IsZero()); err != nil {
		return err
	}
	return t.items.Put(key, record)
}

func (t *turn) drop(key []byte, old Entry) error {
	t.dirty = true
	t.m.items--
	if err := t.hold(key, !old.Held.IsZero(), false); err != nil {
		return err
	}
	return t.items.Delete(key)
}

func (t *turn) hold(key []byte, was, is bool) error {
	switch {
	case is && !was:
		t.m.held++
		return t.held.Put(key, nil)
	case was && !is:
		t.m.held--
		return t.held.Delete(key)
	}
	return nil
}

// tell numbers and stores a change, unless the journal is not whole.
func (t *turn) tell(c protocol.Change) error {
	if !t.m.whole {
		return nil
	}
	t.m.head++
	t.m.last = t.at
	c.Seq, c.At = t.m.head, t.at
	if err := t.changes.Put(seqKey(c.Seq), AppendChange(nil, c)); err != nil {
		return err
	}
	if c.Op != protocol.Delete {
		if err := t.forget(c.Item.URL); err != nil {
			return err
		}
	}
	if dead, ok := c.Tombstone(); ok {
		if err := t.forget(dead.URL); err != nil { // of a copy, which may be told twice that it is gone
			return err
		}
		if err := t.gone.Put([]byte(dead.URL), seqKey(c.Seq)); err != nil {
			return err
		}
		return t.graves.Put(seqKey(c.Seq), nil)
	}
	return nil
}

// forget drops the tombstone of a URL that is present again.
func (t *turn) forget(url string) error {
	seq := t.gone.Get([]byte(url))
	if seq == nil {
		return nil
	}
	if err := t.graves.Delete(append([]byte(nil), seq...)); err != nil {
		return err
	}
	return t.gone.Delete([]byte(url))
}

// trim removes changes from before old, and those above most, with their tombstones.
func (t *turn) trim(old time.Time, most uint64) error {
	for range max(trimAtOnce, t.steps) {
		if t.m.floor == t.m.head {
			return nil
		}
		key := seqKey(t.m.floor + 1)
		c, err := getChange(t.changes, key)
		if err != nil && !errors.Is(err, ErrDamaged) {
			return err
		}
		// A change that cannot be read has no date, and is dropped: readers do not get past it.
		if t.m.head-t.m.floor <= most && !c.At.Before(old) {
			return nil
		}
		t.dirty = true
		if dead, ok := c.Tombstone(); ok && seqOf(t.gone.Get([]byte(dead.URL))) == c.Seq {
			if err := t.forget(dead.URL); err != nil {
				return err
			}
		}
		if err := cmp.Or(t.changes.Delete(key), t.graves.Delete(key)); err != nil {
			return err
		}
		t.m.floor++
	}
	return nil
}

func getEntry(items *bbolt.Bucket, key []byte) (Entry, bool, error) {
	raw := items.Get(key)
	if raw == nil {
		return Entry{}, false, nil
	}
	e, err := parseEntry(key, raw)
	return e, err == nil, err
}

func getChange(changes *bbolt.Bucket, key []byte) (protocol.Change, error) {
	raw := changes.Get(key)
	if raw == nil {
		return protocol.Change{}, fmt.Errorf("file is %w: change %d is missing", ErrDamaged, seqOf(key))
	}
	return ParseChange(seqOf(key), raw)
}
