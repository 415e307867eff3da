package client

import (
	"errors"
	"fmt"

	"github.com/parleyweb/parley/protocol"
)

// errStop carries the caller's break up from nested calls.
var errStop = errors.New("the caller has stopped")

// at returns the cursor of the next request: zero if a snapshot is needed.
func (f *follower) at() protocol.Cursor {
	if f.resync {
		return protocol.Cursor{}
	}
	return f.cursor
}

// heads records the site's head where a message states it.
func (f *follower) heads(m *protocol.Message) {
	if !m.Head.IsZero() {
		f.head = m.Head
	}
}

// continues refuses a watermark that does not continue the caller's cursor.
func (f *follower) continues(to protocol.Cursor) error {
	if to.Epoch != f.cursor.Epoch || to.Seq < f.cursor.Seq {
		return fmt.Errorf("watermark %v does not continue %v", to, f.cursor)
	}
	return nil
}

func (f *follower) emit(s Step) error {
	f.lost, s.Discovery = false, f.discovery
	if !f.yield(s, nil) {
		return errStop
	}
	return nil
}

func (f *follower) report(err error) error {
	f.lost = true
	if !f.yield(Step{}, err) {
		return errStop
	}
	return nil
}

// mended emits a Step without changes after a failure, so that the caller learns that the door works again
// though nothing is new.
func (f *follower) mended(door Door, as protocol.Form) error {
	if !f.lost {
		return nil
	}
	return f.emit(Step{Cursor: f.cursor, Door: door, As: as})
}

func behind(c, than protocol.Cursor) bool { return c.Epoch == than.Epoch && c.Seq < than.Seq }
