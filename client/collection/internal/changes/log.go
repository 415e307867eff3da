package changes

import (
	"encoding/binary"
	"errors"
	"iter"
	"log/slog"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/internal/engine/contents"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
)

// An Aside is the part of a change that the journal does not have.
type Aside struct {
	Signal                       byte // code of why the page was fetched
	Same                         bool // the main text is unchanged
	Truncated, NoIndex, NoFollow bool
	Stored                       contents.Place // of the new body
}

// Bucket is the bucket of state.db with what belongs to the changes beside the journal. Its name is from the version
// before, as is that of asidesBucket within it.
var Bucket = []byte("outbox")

var asidesBucket = []byte("asides") // number of a change in the journal -> Aside

// A Log is the journal with the asides of its changes. Events, and what Journal returns, are for everybody; the
// other methods are for the writer of the state. Until Open it has no changes, and takes none.
type Log struct {
	db      *boltfile.File
	journal *journal.Journal // nil before Open, and if the state is opened read-only, and there was never a change
	witness witness
	part    *journal.Part    // of the present transaction, nil if it has no change
	asides  *bbolt.Bucket    // if part is not nil
	late    map[uint64]Aside // of a state of the version before, opened read-only: asides that were not stored yet
}

// Options says what Open opens.
type Options struct {
	journal.Options
	Log     *slog.Logger
	Witness string // the file of the witness; of a state of the version before, of the journal

	Restored bool                            // the state is known to be older than it was
	Before   bool                            // the state is of the version before
	Contents iter.Seq2[protocol.Item, error] // all stored contents, for a state whose journal was lost

	// Store is called in the transaction that brings a state over, or that begins a new epoch, to store that the
	// state is of this version; and if it is not proven to be the newest, to forget the end of the archive.
	Store func(tx *bbolt.Tx, proven bool) error
}

// Open opens the log of a state. After an error, Close closes it.
func (l *Log) Open(db *boltfile.File, o *Options) (err error) {
	l.db = db
	switch {
	case o.Before && o.ReadOnly:
		return l.openBefore(o)
	case o.Before:
		err = l.bringOver(o)
	default:
		err = l.openPresent(o)
	}
	if err != nil || o.ReadOnly {
		return err
	}
	return l.witness.open(o.Witness, l.journal.Head())
}

// openPresent opens the log of a state of this version.
func (l *Log) openPresent(o *Options) (err error) {
	l.journal, err = journal.In(l.db, &o.Options)
	damaged := errors.Is(err, journal.ErrDamaged)
	if err != nil && !damaged || o.ReadOnly {
		return err
	}
	if damaged || !l.journal.Whole() { // a process was killed that had found damage, or the pages were renamed
		if damaged {
			o.Log.Warn("the events in state.db are damaged: a new epoch of events begins", "err", err)
		} else {
			o.Log.Info("a new epoch of events begins with the stored pages")
		}
		if err = l.replace(nil, o); err != nil {
			return err
		}
		return l.renew(o)
	}
	seen, err := witnessed(o.Witness)
	if head := l.journal.Head(); err == nil && (o.Restored || seen.Epoch != head.Epoch || seen.Seq > head.Seq) {
		if seen.Epoch != head.Epoch && !seen.IsZero() && seen.Seq == 0 { // no change is lost
			o.Log.Info("a new epoch of events begins with the stored pages")
		} else {
			o.Log.Warn("state.db is older than it was, or journal.db is lost: a new epoch of events begins", "state", head, "journal.db", seen)
		}
		err = l.renew(o)
	}
	return err
}

// replace makes the journal a copy of another one; if from is nil, a new one with the stored contents, which is not whole.
func (l *Log) replace(from *journal.Journal, o *Options) error {
	err := journal.Copy(l.db, from)
	if err == nil {
		l.journal, err = journal.In(l.db, &o.Options)
	}
	if err == nil && from == nil {
		err = l.refill(o.Contents)
	}
	return err
}

// renew begins a new epoch with the present items, since subscribers may have received other changes than the state has.
func (l *Log) renew(o *Options) error {
	return l.alone(func(tx *bbolt.Tx, p *journal.Part) error {
		return errors.Join(begin(tx, p), o.Store(tx, false))
	})
}

// begin begins a new epoch in a transaction.
func begin(tx *bbolt.Tx, p *journal.Part) error {
	return errors.Join(p.Renew(refilledNote), drop(tx.Bucket(Bucket), asidesBucket))
}

// alone writes to the journal in a transaction of its own.
func (l *Log) alone(f func(tx *bbolt.Tx, p *journal.Part) error) error {
	return boltfile.RecoverDamage(func() error {
		tx, err := l.db.Begin(true)
		if err != nil {
			return err
		}
		defer l.db.Rollback(tx)
		p, err := l.journal.Join(tx)
		if err == nil {
			err = f(tx, p)
		}
		if err == nil {
			err = p.Commit()
		}
		if err == nil {
			p.Publish()
		}
		return err
	})
}

// drop deletes a bucket, if it exists.
func drop(b *bbolt.Bucket, name []byte) error {
	if b.Bucket(name) == nil {
		return nil
	}
	return b.DeleteBucket(name)
}

// refilledNote marks a journal whose epoch began with items that no change announced.
const refilledNote = "collection/refilled"

// Tell stores a change in the transaction of its cause.
func (l *Log) Tell(tx *bbolt.Tx, step journal.Step, a Aside) (err error) {
	if l.part == nil {
		if l.asides, err = l.asidesIn(tx); err == nil {
			l.part, err = l.journal.Join(tx)
		}
		if err != nil {
			return err
		}
	}
	return put(l.asides, l.part, step, a)
}

// put appends a step to the journal, and stores the aside of its change, if it is one.
func put(asides *bbolt.Bucket, p *journal.Part, step journal.Step, a Aside) error {
	seq, err := p.Append(step)
	if err != nil || seq == 0 {
		return err
	}
	return putAside(asides, seq, &a)
}

func putAside(asides *bbolt.Bucket, seq uint64, a *Aside) error {
	key := binary.BigEndian.AppendUint64(nil, seq)
	return asides.Put(key, appendAside(key, a))
}

// asidesIn returns the bucket of asides in a write transaction, without those before the journal's floor.
func (l *Log) asidesIn(tx *bbolt.Tx) (*bbolt.Bucket, error) {
	b, err := tx.Bucket(Bucket).CreateBucketIfNotExists(asidesBucket)
	if err != nil {
		return nil, err
	}
	b.FillPercent = 0.9
	floor, cur := l.journal.Floor(), b.Cursor()
	for k, _ := cur.First(); k != nil && binary.BigEndian.Uint64(k) <= floor.Seq; k, _ = cur.First() {
		if err := cur.Delete(); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Commit commits a transaction, with the changes in it or without any.
func (l *Log) Commit(tx *bbolt.Tx) error {
	if l.part == nil {
		return tx.Commit()
	}
	return l.part.Commit()
}

// Publish gives the changes of the committed transaction to readers. After an error they do not get them from this Log.
func (l *Log) Publish() error {
	p := l.part
	if p == nil {
		return nil
	}
	l.part = nil
	if err := l.witness.write(p.Head()); err != nil {
		return err
	}
	p.Publish()
	return nil
}

// Rollback forgets the changes of a transaction that was not committed.
func (l *Log) Rollback() { l.part = nil }

// Close ends the log, and the waits of its readers.
func (l *Log) Close() error {
	if l.journal == nil {
		return nil
	}
	return errors.Join(l.witness.close(), l.journal.Close())
}

// Journal returns the journal, nil if there is none.
func (l *Log) Journal() *journal.Journal { return l.journal }

// reading runs f in a read transaction of the state.
func (l *Log) reading(f func(*bbolt.Tx) error) error {
	return boltfile.RecoverDamage(func() error { return l.db.View(f) })
}
