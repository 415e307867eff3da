// Package journal keeps what a site offers, and every change of it in order,
// in one bbolt file. It owns the numbering of changes: see [protocol.Cursor].
//
// It knows nothing of files or of the Web: a Publisher tells it steps, and
// followers read it as a [protocol.Log]. A crawler's collection stands on the
// same journal.
package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/protocol"
)

// ErrHeld is returned by Open when another process has the file.
var ErrHeld = boltfile.ErrHeld

// ErrDamaged is wrapped by every error that says that the file is not what a
// journal wrote. What it still holds cannot be trusted: the cure is to move it
// away, and to begin a new epoch.
var ErrDamaged = boltfile.ErrDamaged

// errClosed is what a closed journal answers.
var errClosed = fmt.Errorf("journal is closed: %w", fs.ErrClosed)

// Options says how a journal is kept. The zero value is a useful one.
type Options struct {
	// Retention is how long changes, and so tombstones, are kept after they
	// were taken in. Zero means 90 days. Old changes go when new ones come.
	Retention time.Duration

	// MaxChanges bounds how many changes are kept, whatever their age. Zero means 1,000,000.
	MaxChanges int

	// Wait is how long Open waits for a file that another process has. Zero means not at all.
	Wait time.Duration

	// ReadOnly opens the file for reading, beside other readers only.
	ReadOnly bool

	// Now is the clock, time.Now if nil.
	Now func() time.Time
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Retention <= 0 {
		d.Retention = 90 * 24 * time.Hour
	}
	if d.MaxChanges <= 0 {
		d.MaxChanges = 1_000_000
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	return d
}

// An Entry is what the journal holds of one present URL.
// Its times are kept in UTC, to the millisecond.
type Entry struct {
	Item protocol.Item

	// Stamp is opaque to the journal: whoever offers the item knows by it
	// whether the item must be looked at again. It is never told to a crawler.
	Stamp []byte

	// Held is since when the item could not be found. Zero means that it is there.
	Held time.Time

	// Sketch is opaque to the journal: what is remembered of the main text, to
	// tell how much of it the next change changes.
	Sketch []byte

	// Newest is the latest time of change that a web server may have told
	// visitors together with the present bytes, and Other the latest with
	// other bytes at this URL. Both are whole seconds; zero means unknown.
	Newest, Other time.Time
}

// A Step is one thing to take in. With Op "" it is not told to anybody, and of
// the Item of a present URL it changes no more than what stands beside the
// bytes: Title, Text, Language, Canonical and Importance.
type Step struct {
	Op    protocol.Op
	Entry Entry  // after the step; for Delete only Item.URL counts
	From  string // for Move: the URL that goes

	// Significance is told with an Update or a Move.
	Significance protocol.Significance
}

// A Journal is safe for use by many goroutines. It implements [protocol.Log].
type Journal struct {
	path string
	opts Options
	db   *boltfile.File

	turn    sync.Mutex // one writer at a time
	broken  error      // guarded by turn: nothing may be written any more
	touched int        // guarded by turn: items since the last giveBack

	// commit is held for writing while a transaction is made durable, and for
	// reading while one begins: bbolt shows a commit before the disk has it,
	// and what is told must not be forgotten when the power fails.
	commit sync.RWMutex

	mu     sync.Mutex    // guards what follows
	state  meta          // as last made durable
	wake   chan struct{} // closed and replaced when state has something new to tell
	closed bool
}

var _ protocol.Log = (*Journal)(nil)

// Open opens or creates the journal at path, and the directory that it is in.
// A new journal has an epoch but is not whole: steps are taken in without
// being numbered until Settle. What a killed process left unfinished is
// dropped. A file that is no journal is refused, and stays as it is; one that
// is damaged is an error wrapping ErrDamaged.
func Open(path string, opts *Options) (*Journal, error) {
	j := &Journal{path: path, opts: opts.withDefaults(), wake: make(chan struct{})}
	if err := j.open(); err != nil {
		return nil, j.fail("open", err)
	}
	return j, nil
}

// Close closes the file, once every View is closed. Wait returns an error from
// then on, and so does everything that needs the file.
func (j *Journal) Close() error {
	j.mu.Lock()
	was := j.closed
	j.closed = true
	if !was {
		close(j.wake)
	}
	j.mu.Unlock()
	if was {
		return nil
	}
	j.turn.Lock()
	defer j.turn.Unlock()
	if err := j.db.Close(); err != nil {
		return j.fail("close", err)
	}
	return nil
}

// current returns the state as last made durable, a channel that is closed
// when it changes, and whether the journal is closed.
func (j *Journal) current() (meta, <-chan struct{}, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state, j.wake, j.closed
}

// Whole reports whether the first description is complete.
func (j *Journal) Whole() bool {
	m, _, _ := j.current()
	return m.whole
}

// Len returns the number of present items, held ones included.
func (j *Journal) Len() int {
	m, _, _ := j.current()
	return int(m.items)
}

// Mark returns the word that SetMark stored last, empty if none.
func (j *Journal) Mark() string {
	m, _, _ := j.current()
	return m.mark
}

// SetMark durably stores a word by which the owner of the journal knows it
// again: a copy of the file that was made before has another one. It is told
// to nobody.
func (j *Journal) SetMark(mark string) error {
	j.turn.Lock()
	defer j.turn.Unlock()
	err := j.update(func(_ *bbolt.Tx, m *meta) error {
		if m.mark == mark {
			return errNothing
		}
		m.mark = mark
		return nil
	})
	if err != nil {
		return j.fail("mark", err)
	}
	return nil
}

// fail says at the boundary what was being done with which journal.
func (j *Journal) fail(op string, err error) error {
	if errors.Is(err, ErrDamaged) {
		return fmt.Errorf("%s journal %s: %w; move the file away to begin a new epoch", op, j.path, err)
	}
	return fmt.Errorf("%s journal %s: %w", op, j.path, err)
}
