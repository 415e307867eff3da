// Package journal stores what a site publishes, and every change of it in order, in one bbolt file. It owns
// the numbering of changes: see [protocol.Cursor].
//
// It knows nothing of files or of the Web: a Publisher appends steps, and subscribers read it as a
// [protocol.Log]. A crawler's collection has the same journal within its own file, see [In].
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

// ErrDamaged is wrapped by every error which means that the file is not what a journal wrote. Its remaining
// contents cannot be trusted: move it away, and begin a new epoch.
var ErrDamaged = boltfile.ErrDamaged

// errClosed is returned by a closed journal.
var errClosed = fmt.Errorf("journal is closed: %w", fs.ErrClosed)

// Options configures a journal. The zero value is useful.
type Options struct {
	// Retention is how long changes, and so tombstones, are kept. Zero means 90 days. Old changes are
	// removed when new ones come.
	Retention time.Duration

	// MaxChanges bounds the changes kept, whatever their age. Zero means 1,000,000.
	MaxChanges int

	// Wait is how long Open waits for another process to close the file. Zero means not at all.
	Wait time.Duration

	// ReadOnly opens the file for reading, shared with other readers only.
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

// An Entry is the journal's record of one present URL. Its times are stored in UTC, to the millisecond.
type Entry struct {
	Item protocol.Item

	// Stamp is opaque to the journal: by it the source of the item knows whether the item must be read
	// again. It is never sent to a crawler.
	Stamp []byte

	// Held is when the item went missing: its deletion is held back. Zero means that it is there.
	Held time.Time

	// Sketch is opaque to the journal: a summary of the main text, which shows how much of it the next
	// change changes.
	Sketch []byte

	// Newest is the latest modification time that a web server may have sent to visitors with the present
	// bytes, and Other the latest with other bytes at this URL. Both are whole seconds; zero means unknown.
	Newest, Other time.Time
}

// A Step is one item to store. With Op "" no subscriber gets it, and of the Item of a present URL only the
// fields beside the bytes change: Title, Text, Language, Canonical and Importance.
type Step struct {
	Op    protocol.Op
	Entry Entry  // after the step; for Delete only Item.URL counts
	From  string // for Move: the old URL

	// Significance is sent with an Update or a Move.
	Significance protocol.Significance
}

// A Journal is safe for concurrent use. It implements [protocol.Log].
type Journal struct {
	path   string
	opts   Options
	db     *boltfile.File
	shared bool // the file belongs to somebody else, see In

	turn    sync.Mutex // one writer at a time
	broken  error      // guarded by turn: why nothing may be written any more
	touched int        // guarded by turn: items touched since mapped pages were given back, see giveBackAfter

	// commit is locked while a transaction is made durable, and read-locked while one begins: bbolt shows a
	// commit before it is on disk, and a change that was sent must not be lost in a power failure.
	commit sync.RWMutex

	mu     sync.Mutex    // guards the fields below
	state  meta          // as last made durable
	wake   chan struct{} // closed and replaced when the head moves
	closed bool
}

var _ protocol.Log = (*Journal)(nil)

// Open opens or creates the journal at path, and its directory. A new journal has an epoch but is not whole:
// steps are stored without numbers until EndBaseline. Work that a killed process left unfinished is dropped. A
// file that is no journal is an error, and stays as it is; a damaged one is an error wrapping ErrDamaged.
func Open(path string, opts *Options) (*Journal, error) {
	j := &Journal{path: path, opts: opts.withDefaults(), wake: make(chan struct{})}
	if err := j.open(); err != nil {
		return nil, j.fail("open", err)
	}
	return j, nil
}

// Close closes the file, unless it is shared, once every View is closed. From then on Wait and all methods that need the
// file return an error.
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
	if j.shared {
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

// SetMark durably stores a word by which the journal's owner recognizes it: an older copy of the file has
// another word. Subscribers never get it.
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

// fail adds the operation and the journal's path to an error.
func (j *Journal) fail(op string, err error) error {
	if errors.Is(err, ErrDamaged) && !j.shared {
		return fmt.Errorf("%s journal %s: %w; move the file away to begin a new epoch", op, j.path, err)
	}
	return fmt.Errorf("%s journal %s: %w", op, j.path, err)
}
