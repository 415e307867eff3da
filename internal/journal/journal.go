// Package journal keeps what a site offers, and every change of it in order,
// in one bbolt file. It owns the numbering of changes: see [protocol.Cursor].
//
// It knows nothing of files or of the Web: a Publisher tells it steps, and
// followers read it as a [protocol.Log]. A crawler's collection stands on the
// same journal.
package journal

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// ErrHeld is returned by Open when another process has the file.
var ErrHeld = errors.New("journal is held by another process")

// Options says how a journal is kept. The zero value is a useful one.
type Options struct {
	// Retention is how long changes, and so tombstones, are kept after they
	// were taken in. Zero means 90 days.
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

// An Entry is what the journal holds of one present URL.
type Entry struct {
	Item protocol.Item

	// Stamp is opaque to the journal: whoever offers the item knows by it
	// whether the item must be looked at again. It is never told to a crawler.
	Stamp []byte

	// Held is since when the item could not be found. Zero means that it is there.
	Held time.Time
}

// A Step is one thing to take in. With Op "" it changes no more than the
// Stamp and Held of a present URL, and is not told to anybody.
type Step struct {
	Op    protocol.Op
	Entry Entry  // after the step; for Delete only Item.URL counts
	From  string // for Move: the URL that goes
}

// A Journal is safe for use by many goroutines. It implements [protocol.Log].
type Journal struct{}

var _ protocol.Log = (*Journal)(nil)

// Open opens or creates the journal at path. A new journal has an epoch but
// is not whole: steps are taken in without being numbered until Settle.
func Open(path string, opts *Options) (*Journal, error) { panic("unwritten") }

// Close closes the file. Wait returns an error from then on.
func (j *Journal) Close() error { panic("unwritten") }

// Whole reports whether the first description is complete.
func (j *Journal) Whole() bool { panic("unwritten") }

// Settle declares the first description complete: Head becomes EPOCH:0.
// On a whole journal it does nothing.
func (j *Journal) Settle() error { panic("unwritten") }

// Append takes steps in, in order, in one durable transaction, and wakes
// whoever waits. It returns the head after them. Numbers and times are the
// journal's; a Step that cannot be (an Update or a Delete of what is not
// present, a Create of what is) is corrected to what it amounts to, or to nothing.
// At most protocol.MaxBatch steps a call: callers bound their transactions.
func (j *Journal) Append(ctx context.Context, steps []Step) (protocol.Cursor, error) {
	panic("unwritten")
}

// Renew begins a new epoch: the changes told so far are forgotten, what is
// present stays. If items is not nil it replaces what is present (ordered as
// protocol.Compare orders), keeping the stamp of every URL whose digest is
// the same. The new epoch is whole if the old one was and items is nil; else
// it is whole at the next Settle. A Renew that is cut short leaves the old epoch.
func (j *Journal) Renew(ctx context.Context, items iter.Seq2[protocol.Item, error]) error {
	panic("unwritten")
}

func (j *Journal) Head() protocol.Cursor  { panic("unwritten") }
func (j *Journal) Floor() protocol.Cursor { panic("unwritten") }
func (j *Journal) Read(ctx context.Context, after protocol.Cursor, max int) ([]protocol.Change, error) {
	panic("unwritten")
}
func (j *Journal) Wait(ctx context.Context, after protocol.Cursor) error { panic("unwritten") }

// Len returns the number of present items, held ones included.
func (j *Journal) Len() int { panic("unwritten") }

// Get returns what is present at url, and whether anything is.
func (j *Journal) Get(url string) (Entry, bool, error) { panic("unwritten") }

// A View is the journal at one moment. Close it soon: it keeps old pages of the file alive.
type View struct{}

// View opens a view.
func (j *Journal) View() (*View, error) { panic("unwritten") }

func (v *View) Close()                {}
func (v *View) Head() protocol.Cursor { panic("unwritten") }
func (v *View) Len() int              { panic("unwritten") }

// Modified is when the newest change was taken in, or the newest Modified of the items if there is none.
func (v *View) Modified() time.Time { panic("unwritten") }

// Entries yields what is present, as protocol.Compare orders it. It may be ranged over again.
func (v *View) Entries() iter.Seq2[Entry, error] { panic("unwritten") }

// Under yields the entries whose URL begins with prefix, which ends in "/":
// those of its own depth only, or all below it when deep.
func (v *View) Under(prefix string, deep bool) iter.Seq2[Entry, error] { panic("unwritten") }

// Held yields the entries that are held.
func (v *View) Held() iter.Seq2[Entry, error] { panic("unwritten") }

// Tombstones yields what is gone and remembered, newest first, each URL once and only if it is not present again.
func (v *View) Tombstones() iter.Seq2[protocol.Tombstone, error] { panic("unwritten") }
