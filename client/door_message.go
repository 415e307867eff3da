package client

import (
	"cmp"
	"context"
	"fmt"

	"github.com/parleyweb/parley/protocol"
)

// A messageDoor gets changes as messages: from the stream or the changes door, and in bundles that they refer
// to.
type messageDoor struct {
	*position
	want     *selection
	archives *archiveDoor
	bodies   decoder
}

// take applies a message: it checks that the message continues the cursor, and emits its changes.
func (d *messageDoor) take(ctx context.Context, door Door, as protocol.Form, m *protocol.Message) error {
	d.head = cmp.Or(m.Head, d.head)
	switch m.Kind {
	case protocol.Bundle:
		if as != protocol.AsBatch {
			return fmt.Errorf("received a bundle, but requested the form %s", as)
		}
		return d.bundle(ctx, door, m)
	case protocol.Archive:
		if as != protocol.AsSite {
			return fmt.Errorf("received an archive, but requested the form %s", as)
		}
		return d.archives.take(ctx, door, m)
	case protocol.Batch:
		if m.From != d.at() {
			return fmt.Errorf("batch starts after cursor %v, not %v", m.From, d.at())
		}
	case protocol.Ev, protocol.Mark:
	default:
		return nil // a message kind of a later version
	}
	if d.resync { // changes are of no use without a snapshot: an archive was requested
		return errNoArchive
	}
	if !m.From.IsZero() && m.From != d.cursor { // a message before this one was lost
		return fmt.Errorf("%s message starts after cursor %v, not %v", m.Kind, m.From, d.cursor)
	}
	return d.advance(door, as, m)
}

// advance emits the changes up to m.To, which must continue the caller's cursor.
func (d *messageDoor) advance(door Door, as protocol.Form, m *protocol.Message) error {
	if err := d.continues(m.To); err != nil {
		return err
	}
	for _, c := range m.Changes {
		if c.Seq <= d.cursor.Seq || c.Seq > m.To.Seq {
			return fmt.Errorf("change %d is outside the range from %v to %v", c.Seq, d.cursor, m.To)
		}
	}
	d.went(door)
	if m.To == d.cursor {
		return d.mended(door, as)
	}
	kept, with, skipped := d.want.local(m.Changes, m.Bodies)
	s := Step{Changes: kept, Cursor: m.To, Door: door, As: as, Skipped: skipped, Behind: behind(m.To, d.head)}
	s.Bodies, s.Outputs = d.bodies.decode(kept, with)
	d.cursor = m.To
	return d.emit(s)
}
