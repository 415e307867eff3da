package changes

import (
	"bytes"
	"context"
	"encoding/binary"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
)

// Enter prepares the outbox for a transaction, and returns its bucket.
func (l *Log) Enter(tx *bbolt.Tx) (*bbolt.Bucket, error) {
	p := &l.posting
	if p.tx == tx {
		return p.box, nil
	}
	*p = posting{tx: tx, box: tx.Bucket(Bucket)}
	if l.passed {
		if err := l.strike(p.box); err != nil {
			return nil, err
		}
		p.struck = true
	}
	var err error
	if p.steps, err = p.box.CreateBucketIfNotExists(stepsBucket); err != nil {
		return nil, err
	}
	p.steps.FillPercent = 1
	return p.box, nil
}

// Tell puts a change into the outbox, in the transaction of its cause.
func (l *Log) Tell(tx *bbolt.Tx, step journal.Step, a Aside) error {
	if _, err := l.Enter(tx); err != nil {
		return err
	}
	p := posted{step, a}
	number, err := l.posting.steps.NextSequence()
	if err != nil {
		return err
	}
	key := binary.BigEndian.AppendUint64(nil, number)
	l.posting.batch = append(l.posting.batch, p)
	return l.posting.steps.Put(key, appendPosted(key, &p))
}

// Posted reports whether a transaction has entered the outbox that Pass has not seen.
func (l *Log) Posted() bool { return l.posting.tx != nil }

// Rollback forgets what was posted in a transaction that was not committed.
func (l *Log) Rollback() { l.posting = posting{} }

// strike removes passed changes from the outbox, and stores their Asides.
func (l *Log) strike(box *bbolt.Bucket) error {
	for _, name := range [][]byte{stepsBucket, FileOps} {
		if box.Bucket(name) != nil {
			if err := empty(box, name); err != nil {
				return err
			}
		}
	}
	asides, err := box.CreateBucketIfNotExists(asidesBucket)
	if err != nil {
		return err
	}
	asides.FillPercent = 0.9
	for seq := range l.pending {
		key := binary.BigEndian.AppendUint64(nil, seq)
		a := l.pending[seq]
		if err := asides.Put(key, appendAside(key, &a)); err != nil {
			return err
		}
	}
	// Changes before the journal's floor are never read.
	floor := l.journal.Floor()
	cur := asides.Cursor()
	for k, _ := cur.First(); k != nil && binary.BigEndian.Uint64(k) <= floor.Seq; k, _ = cur.First() {
		if err := cur.Delete(); err != nil {
			return err
		}
	}
	return box.Put(toldKey, []byte(l.told.String()))
}

// empty empties a bucket. It keeps its sequence.
func empty(box *bbolt.Bucket, name []byte) error {
	b := box.Bucket(name)
	if k, _ := b.Cursor().First(); k == nil {
		return nil
	}
	seq := b.Sequence()
	if err := box.DeleteBucket(name); err != nil {
		return err
	}
	b, err := box.CreateBucket(name)
	if err != nil {
		return err
	}
	return b.SetSequence(seq)
}

// strikeNow runs strike in a transaction of its own.
func (l *Log) strikeNow() error {
	err := boltfile.RecoverDamage(func() error {
		return l.db.Update(func(tx *bbolt.Tx) error { return l.strike(tx.Bucket(Bucket)) })
	})
	if err == nil {
		l.forget()
	}
	return err
}

// forget drops struck changes from memory.
func (l *Log) forget() {
	l.passed, l.posting.struck = false, false
	l.mu.Lock()
	clear(l.pending)
	l.mu.Unlock()
}

// Pass applies the outbox: first to the files of a mirror, by a function that reports whether there was anything to
// do, then to the journal. It is called after every commit with news and when the collection is opened, and may be
// repeated. If it fails, the next Open completes it.
func (l *Log) Pass(files func() (some bool, err error)) error {
	fresh := l.posting.tx != nil // else the collection was just opened
	if l.posting.struck {
		l.forget()
	}
	batch := l.posting.batch
	l.posting = posting{}
	if !fresh {
		var err error
		if batch, err = l.readOutbox(); err != nil {
			return err
		}
	}
	if fresh || len(batch) > 0 {
		some, err := files()
		if err != nil {
			return err
		}
		l.passed = l.passed || some
	}
	for len(batch) > 0 {
		n := min(len(batch), protocol.MaxBatch)
		if err := l.passSome(batch[:n], !fresh); err != nil {
			return err
		}
		batch = batch[n:]
		if len(batch) > 0 {
			// The stored head must match the start of the outbox.
			if err := l.strikeFirst(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// passSome appends a batch to the journal, unless, after a restart, the journal has it.
func (l *Log) passSome(batch []posted, again bool) error {
	ctx := context.Background()
	steps := make([]journal.Step, len(batch))
	for i := range batch {
		steps[i] = batch[i].step
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.told
	// Batches are appended one at a time, so the journal has all of this one or none of it.
	if !again || l.journal.Head() == before {
		if _, err := l.journal.Append(ctx, steps); err != nil {
			return err
		}
	}
	l.passed = true
	l.told = l.journal.Head()
	if l.told == before {
		return nil
	}
	return l.match(before, batch)
}

// match finds the Asides of the changes after a cursor, which come from a batch. The caller holds l.mu.
func (l *Log) match(after protocol.Cursor, batch []posted) error {
	changes, err := l.journal.Read(context.Background(), after, protocol.MaxBatch)
	if err != nil {
		return err
	}
	// A step without news is no change: the changes are some of the steps, in order.
	i := 0
	for _, ch := range changes {
		for i < len(batch) && !tells(&batch[i].step, &ch) {
			i++
		}
		if i == len(batch) {
			break
		}
		l.pending[ch.Seq] = batch[i].Aside
		i++
	}
	return nil
}

// recall, for a read-only collection, finds the Asides of changes that the journal had when a process was
// killed before it stored them.
func (l *Log) recall() error {
	if head := l.journal.Head(); head.Epoch != l.told.Epoch || head.Seq <= l.told.Seq {
		return nil
	}
	batch, err := l.readOutbox()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.match(l.told, batch)
}

// tells reports whether a change may be the result of a step.
func tells(s *journal.Step, ch *protocol.Change) bool {
	return s.Entry.Item.URL == ch.Item.URL && (s.Op == protocol.Delete) == (ch.Op == protocol.Delete) && s.Entry.Item.Digest == ch.Item.Digest
}

// strikeFirst removes the first n changes from the outbox, in a transaction of its own.
func (l *Log) strikeFirst(n int) error {
	var rest [][2][]byte
	err := boltfile.RecoverDamage(func() error {
		return l.db.Update(func(tx *bbolt.Tx) error {
			box := tx.Bucket(Bucket)
			i := 0
			err := box.Bucket(stepsBucket).ForEach(func(k, v []byte) error {
				if i++; i > n {
					rest = append(rest, [2][]byte{bytes.Clone(k), bytes.Clone(v)})
				}
				return nil
			})
			if err != nil {
				return err
			}
			if err := l.strike(box); err != nil {
				return err
			}
			for _, r := range rest {
				if err := box.Bucket(stepsBucket).Put(r[0], r[1]); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err == nil {
		l.forget()
	}
	return err
}

// readOutbox reads the changes that a process has left in the outbox.
func (l *Log) readOutbox() (batch []posted, err error) {
	err = l.reading(func(tx *bbolt.Tx) error {
		steps := tx.Bucket(Bucket).Bucket(stepsBucket)
		if steps == nil {
			return nil
		}
		return steps.ForEach(func(k, v []byte) error {
			p, ok := parsePosted(k, v)
			if !ok {
				return record.Damaged(stepsBucket, k)
			}
			batch = append(batch, p)
			return nil
		})
	})
	return batch, err
}
