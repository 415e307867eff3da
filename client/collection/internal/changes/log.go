package changes

import (
	"context"
	"errors"
	"iter"
	"os"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/record"
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

// A posted change is one in the outbox.
type posted struct {
	step journal.Step
	Aside
}

// Bucket is the bucket of state.db with the outbox.
var Bucket = []byte("outbox")

// Buckets and keys within the outbox.
var (
	// FileOps has the file operations of a mirror. They are run before the journal is appended, and struck with
	// the changes.
	FileOps = []byte("ops")

	stepsBucket  = []byte("steps")  // number -> posted
	asidesBucket = []byte("asides") // number of a change in the journal -> Aside
	toldKey      = []byte("told")   // the journal's head when everything not in steps was appended
)

// A Log is the journal with its outbox. Events, and what Journal returns, are for everybody; the other methods are
// for the writer of the state.
type Log struct {
	db      *boltfile.File
	journal *journal.Journal // nil: the state is opened read-only, and there was never a change

	posting posting
	passed  bool            // the outbox holds passed changes
	told    protocol.Cursor // the journal's head after those

	mu      sync.RWMutex     // held during appends to the journal; guards pending
	pending map[uint64]Aside // of changes passed and still in the outbox
}

// A posting is what the present transaction posts.
type posting struct {
	tx     *bbolt.Tx // nil: there is none
	box    *bbolt.Bucket
	steps  *bbolt.Bucket
	batch  []posted
	struck bool // tx removes the changes that were passed before
}

// Open opens the journal, and makes a new one from the stored contents if there is none that continues the
// events sent so far. It reports whether the state is older than the journal: then somebody restored it from
// a backup.
func Open(db *boltfile.File, path string, o *journal.Options, contents iter.Seq2[protocol.Item, error]) (l *Log, setBack bool, err error) {
	l = &Log{db: db, pending: map[uint64]Aside{}}
	if setBack, err = l.open(path, o, contents); err != nil {
		return nil, false, errors.Join(err, l.Close(false))
	}
	return l, setBack, nil
}

func (l *Log) open(path string, o *journal.Options, contents iter.Seq2[protocol.Item, error]) (setBack bool, err error) {
	var left int
	if l.told, left, err = l.readTold(); err != nil {
		return false, err
	}
	open := func() error {
		l.journal, err = journal.Open(path, o)
		return err
	}
	err = open()
	if errors.Is(err, journal.ErrHeld) {
		return false, boltfile.ErrHeld
	}
	if o.ReadOnly {
		if err != nil && l.told.IsZero() {
			err = nil // there was never an event
		} else if err == nil && left > 0 {
			err = l.recall()
		}
		return false, err
	}
	switch {
	case errors.Is(err, journal.ErrDamaged):
	case err != nil:
		return false, err
	case l.told.IsZero() && l.journal.Len() == 0 && l.journal.Head().Seq == 0:
		return false, l.begin() // everything is new
	case !l.journal.Whole(), l.told.IsZero(), l.journal.Head().Epoch != l.told.Epoch, l.journal.Head().Seq < l.told.Seq:
	case l.journal.Head().Seq-l.told.Seq <= uint64(left):
		return false, nil
	default:
		setBack = true
	}
	// Subscribers have received other events than the state implies: a new epoch begins with the stored contents.
	if l.journal != nil {
		if err := l.journal.Close(); err != nil {
			return false, err
		}
	}
	if err := os.Rename(path, path+".lost"); err != nil {
		return false, err
	}
	if err := open(); err != nil {
		return false, err
	}
	if err := l.refill(contents); err != nil {
		return false, err
	}
	return setBack, l.begin()
}

// readTold reads the stored head of the journal, and how many changes are in the outbox.
func (l *Log) readTold() (told protocol.Cursor, left int, err error) {
	err = l.reading(func(tx *bbolt.Tx) error {
		box := tx.Bucket(Bucket)
		if raw := box.Get(toldKey); raw != nil {
			if told, err = protocol.ParseCursor(string(raw)); err != nil {
				return record.Damaged(Bucket, toldKey)
			}
		}
		if steps := box.Bucket(stepsBucket); steps != nil {
			left = steps.Stats().KeyN
		}
		return nil
	})
	return told, left, err
}

// begin makes the journal whole, stores its head, and empties the outbox, whose changes it has.
func (l *Log) begin() error {
	if err := l.journal.Settle(); err != nil {
		return err
	}
	l.told = l.journal.Head()
	return boltfile.RecoverDamage(func() error {
		return l.db.Update(func(tx *bbolt.Tx) error {
			box := tx.Bucket(Bucket)
			for _, name := range [][]byte{stepsBucket, asidesBucket} {
				if box.Bucket(name) != nil {
					if err := box.DeleteBucket(name); err != nil {
						return err
					}
				}
			}
			return box.Put(toldKey, []byte(l.told.String()))
		})
	})
}

// reading runs f in a read transaction of the state.
func (l *Log) reading(f func(*bbolt.Tx) error) error {
	return boltfile.RecoverDamage(func() error { return l.db.View(f) })
}

// refilledNote marks a journal that began with items which no change announced.
const refilledNote = "collection/refilled"

// refill appends the stored contents to a new journal.
func (l *Log) refill(contents iter.Seq2[protocol.Item, error]) error {
	ctx := context.Background()
	if err := l.journal.SetNotes(map[string][]byte{refilledNote: []byte("1")}); err != nil {
		return err
	}
	batch := make([]journal.Step, 0, protocol.MaxBatch)
	for it, err := range contents {
		if err != nil {
			return err
		}
		batch = append(batch, journal.Step{Op: protocol.Create, Entry: journal.Entry{Item: it}})
		if len(batch) == cap(batch) {
			if _, err := l.journal.Append(ctx, batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	_, err := l.journal.Append(ctx, batch)
	return err
}

// Close closes the journal. If the state is known to be sound, changes that are in the journal are removed from the outbox.
func (l *Log) Close(sound bool) error {
	if l.journal == nil {
		return nil
	}
	var err error
	if l.passed && sound {
		err = l.strikeNow()
	}
	return errors.Join(err, l.journal.Close())
}

// Journal returns the journal, nil if there is none.
func (l *Log) Journal() *journal.Journal { return l.journal }
