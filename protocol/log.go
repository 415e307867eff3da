package protocol

import (
	"context"
	"errors"
)

// A Log is the read half of a journal. Every door of a site and every
// follower reads it.
//
// All methods may be called by many goroutines at once.
//
// A new epoch is a new log. From the moment it begins, Head and Floor are of the new
// epoch, Read refuses every cursor of the former one, and Wait for such a cursor
// returns. So readers outlive an epoch: a door takes leave of its subscribers with the
// cursor that each has reached, and serves those that come back with a new one.
//
// A Log may be a copy, on another machine than the journal that numbers the changes, and
// so behind it for a moment. Its readers may have read elsewhere, and be ahead of it.
type Log interface {
	// Head returns the cursor of the newest change that this Log has. It is the zero
	// Cursor while the site's first description is incomplete: then there is
	// nothing to follow. That a cursor lies after Head does not make it invalid: only Read
	// refuses cursors.
	Head() Cursor

	// Floor returns the oldest cursor that can be read after.
	Floor() Cursor

	// Read returns the changes after the cursor, oldest first, at most max
	// of them (max < 1 leaves the number to the Log).
	// Empty means that the cursor is the head. Changes are never altered
	// once returned. A cursor that cannot be honoured is an error wrapping
	// ErrEpoch or ErrTooOld, never an approximation. A cursor after Head is refused only
	// once the journal that numbers the changes has been asked: if it has that change, Read
	// waits until this Log has it too. The error wraps ErrAway if it cannot be asked.
	Read(ctx context.Context, after Cursor, max int) ([]Change, error)

	// Wait blocks until Read(after) would return changes or an error, and then
	// returns nil; or until ctx ends, and then returns its error. While Head is
	// the zero Cursor it blocks, whatever after is.
	Wait(ctx context.Context, after Cursor) error
}

// ErrEpoch is returned by [Log.Read] for a cursor of another epoch, or one
// that lies after the newest change: the journal cannot prove that it continues the
// history up to that cursor. The follower resynchronises from the manifest.
var ErrEpoch = errors.New("cursor belongs to another epoch")

// ErrTooOld is returned by [Log.Read] for a cursor below the floor, the zero
// Cursor included. The follower resynchronises from the manifest.
var ErrTooOld = errors.New("cursor is older than the journal's floor")

// ErrAway is returned by [Log.Read] for a cursor that cannot be judged now, since what numbers the changes, on another machine,
// does not answer. The follower keeps its cursor, and asks again.
var ErrAway = errors.New("the log of the site cannot be reached")
