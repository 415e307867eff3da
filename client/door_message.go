package client

import (
	"context"
	"fmt"

	"github.com/parleyweb/parley/protocol"
)

// take applies a message: it checks that the message continues the cursor, and emits its changes.
func (f *follower) take(ctx context.Context, door Door, as protocol.Form, m *protocol.Message) error {
	f.heads(m)
	switch m.Kind {
	case protocol.Bundle:
		if as != protocol.AsBatch {
			return fmt.Errorf("received a bundle, but requested the form %s", as)
		}
		return f.takeBundle(ctx, door, m)
	case protocol.Archive:
		if as != protocol.AsSite {
			return fmt.Errorf("received an archive, but requested the form %s", as)
		}
		return f.takeArchive(ctx, door, m)
	case protocol.Batch:
		if m.From != f.at() {
			return fmt.Errorf("batch starts after cursor %v, not %v", m.From, f.at())
		}
	case protocol.Ev, protocol.Mark:
	default:
		return nil // a message kind of a later version
	}
	if f.resync { // changes are of no use without a snapshot: an archive was requested
		return errNoArchive
	}
	if !m.From.IsZero() && m.From != f.cursor { // a message before this one was lost
		return fmt.Errorf("%s message starts after cursor %v, not %v", m.Kind, m.From, f.cursor)
	}
	return f.advance(door, as, m)
}

// advance emits the changes up to m.To, which must continue the caller's cursor.
func (f *follower) advance(door Door, as protocol.Form, m *protocol.Message) error {
	if err := f.continues(m.To); err != nil {
		return err
	}
	for _, c := range m.Changes {
		if c.Seq <= f.cursor.Seq || c.Seq > m.To.Seq {
			return fmt.Errorf("change %d is outside the range from %v to %v", c.Seq, f.cursor, m.To)
		}
	}
	f.went(door)
	if m.To == f.cursor {
		return f.mended(door, as)
	}
	kept, with, skipped := f.local(m.Changes, m.Bodies)
	s := Step{Changes: kept, Cursor: m.To, Door: door, As: as, Skipped: skipped, Behind: behind(m.To, f.head)}
	s.Bodies, s.Outputs = f.bodies.decode(kept, with)
	f.cursor = m.To
	return f.emit(s)
}
