package changes

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
)

// Keys within the outbox of the version before.
var (
	stepsBucket = []byte("steps") // number -> posted
	toldKey     = []byte("told")  // the journal's head when everything not in steps was appended
)

// A posted change is one in the outbox.
type posted struct {
	step journal.Step
	Aside
}

// A before is the log of the version before: an outbox in the state, and a journal in a file of its own.
type before struct {
	journal *journal.Journal // nil: there is none that can be read
	lost    error            // why; nil if none is needed, since there was never a change
	told    protocol.Cursor
	outbox  []posted
}

// readBefore reads the log of the version before.
func (l *Log) readBefore(o *Options) (*before, error) {
	b := &before{}
	err := l.reading(func(tx *bbolt.Tx) (err error) {
		box := tx.Bucket(Bucket)
		if raw := box.Get(toldKey); raw != nil {
			if b.told, err = protocol.ParseCursor(string(raw)); err != nil {
				return record.Damaged(Bucket, toldKey)
			}
		}
		if steps := box.Bucket(stepsBucket); steps != nil {
			return steps.ForEach(func(k, v []byte) error {
				p, ok := parsePosted(k, v)
				if !ok {
					return record.Damaged(stepsBucket, k)
				}
				b.outbox = append(b.outbox, p)
				return nil
			})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(o.Witness); b.told.IsZero() && errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if b.journal, b.lost = journal.Open(o.Witness, &o.Options); errors.Is(b.lost, boltfile.ErrHeld) {
		return nil, boltfile.ErrHeld
	}
	return b, nil
}

// continues reports whether the journal has all changes that the outbox has not. It has none that the state does not know.
func (b *before) continues() bool {
	if b.journal == nil || !b.journal.Whole() || b.told.IsZero() {
		return false
	}
	head := b.journal.Head()
	return head.Epoch == b.told.Epoch && head.Seq >= b.told.Seq && head.Seq-b.told.Seq <= uint64(len(b.outbox))
}

// appended returns how many changes of the outbox were given to the journal before a kill, and their asides by their
// numbers. Batches of them were appended one at a time: the journal has all of the first one, or none.
func (b *before) appended() (n int, asides map[uint64]Aside, err error) {
	if b.journal.Head() == b.told {
		return 0, nil, nil
	}
	after := b.told
	after.Seq = max(after.Seq, b.journal.Floor().Seq)
	changes, err := b.journal.Read(context.Background(), after, protocol.MaxBatch)
	if err != nil {
		return 0, nil, err
	}
	n, asides = min(len(b.outbox), protocol.MaxBatch), map[uint64]Aside{}
	// A step without news is no change: the changes are some of the steps, in order.
	i := 0
	for _, ch := range changes {
		for i < n && !tells(&b.outbox[i].step, &ch) {
			i++
		}
		if i == n {
			break
		}
		asides[ch.Seq] = b.outbox[i].Aside
		i++
	}
	return n, asides, nil
}

// tells reports whether a change may be the result of a step.
func tells(s *journal.Step, ch *protocol.Change) bool {
	return s.Entry.Item.URL == ch.Item.URL && (s.Op == protocol.Delete) == (ch.Op == protocol.Delete) && s.Entry.Item.Digest == ch.Item.Digest
}

// openBefore opens the log of the version before for reading.
func (l *Log) openBefore(o *Options) error {
	b, err := l.readBefore(o)
	if err != nil {
		return err
	}
	l.journal = b.journal
	switch {
	case b.continues():
		_, l.late, err = b.appended()
	case !b.told.IsZero():
		err = b.lost
	}
	return err
}

// bringOver moves the log of the version before into the state. If its journal does not continue what subscribers have
// received, a new epoch begins with the stored contents.
func (l *Log) bringOver(o *Options) error {
	b, err := l.readBefore(o)
	if err != nil {
		return err
	}
	proven := b.continues() && !o.Restored
	err = l.bring(b, o, proven)
	if proven && errors.Is(err, journal.ErrDamaged) {
		err = l.bring(b, o, false)
	}
	if b.journal != nil {
		err = errors.Join(err, b.journal.Close())
	}
	return err
}

// bring moves a log of the version before into the state; if it is not proven, only the stored contents.
func (l *Log) bring(b *before, o *Options, proven bool) (err error) {
	if !proven {
		if b.journal != nil || b.lost != nil {
			o.Log.Warn("journal.db does not continue the events of state.db: a new epoch of events begins", "err", b.lost)
		}
		err = b.discard(o.Witness)
	}
	if err == nil {
		err = l.replace(b.journal, o)
	}
	if err != nil {
		return err
	}
	return l.alone(func(tx *bbolt.Tx, p *journal.Part) error {
		box := tx.Bucket(Bucket)
		asides, err := l.asidesIn(tx)
		if proven && err == nil {
			err = b.join(asides, p)
		} else if err == nil {
			err = begin(tx, p)
		}
		return errors.Join(err, drop(box, stepsBucket), box.Delete(toldKey), o.Store(tx, proven))
	})
}

// discard moves the file of a journal away that cannot be used.
func (b *before) discard(path string) error {
	if j := b.journal; j != nil {
		empty := j.Len() == 0 && j.Head().Seq == 0
		b.journal = nil
		if err := j.Close(); err != nil || empty {
			return err
		}
	} else if !errors.Is(b.lost, journal.ErrDamaged) {
		return b.lost
	}
	return os.Rename(path, path+".lost")
}

// join appends the rest of the outbox to the journal, and stores the asides of what it had already.
func (b *before) join(asides *bbolt.Bucket, p *journal.Part) error {
	n, late, err := b.appended()
	if err != nil {
		return err
	}
	for seq, a := range late {
		if err := putAside(asides, seq, &a); err != nil {
			return err
		}
	}
	for _, next := range b.outbox[n:] {
		if err := put(asides, p, next.step, next.Aside); err != nil {
			return err
		}
	}
	return nil
}

// refill appends the stored contents to a new journal, which is not whole yet.
func (l *Log) refill(contents iter.Seq2[protocol.Item, error]) error {
	batch := make([]journal.Step, 0, protocol.MaxBatch)
	for it, err := range contents {
		if err != nil {
			return err
		}
		batch = append(batch, journal.Step{Op: protocol.Create, Entry: journal.Entry{Item: it}})
		if len(batch) == cap(batch) {
			if _, err := l.journal.Append(context.Background(), batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	_, err := l.journal.Append(context.Background(), batch)
	return err
}
