package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/parleyweb/parley/protocol"
)

// roomy is how much of a message bodies may take, in bytes as they are: as JSON
// they may take half as much again, and what else is said of a change stands beside.
const roomy = protocol.MaxMessage / 3

// next returns what follows a cursor, in the form and of the selection that
// was asked for: an Ev or a Batch, a Bundle or an Archive, a Mark where nothing
// of it may be told. Its To is the cursor itself at the head. Of changes it
// reads at most limit.
//
// It is the one place where the six forms differ. Whether the message is asked
// for or told is its callers' business: see serveChanges and stream.
func (n *Notifier) next(ctx context.Context, s *selection, after protocol.Cursor, limit int) (protocol.Message, error) {
	switch s.as {
	case protocol.AsBatch:
		return n.nextBundle(ctx, s, after, limit)
	case protocol.AsSite:
		if m, ok, err := n.nextArchive(ctx, s, after); ok || err != nil {
			return m, err
		}
	}
	m, err := n.readBatch(ctx, s, after, limit)
	if err != nil {
		return m, err
	}
	if err := n.addBodies(ctx, s, &m); err != nil {
		return m, err
	}
	return m, nil
}

// readBatch reads the changes after a cursor into one Batch that may be told.
// Its To stands after all that was read; it is the cursor itself at the head.
func (n *Notifier) readBatch(ctx context.Context, s *selection, after protocol.Cursor, limit int) (protocol.Message, error) {
	changes, err := n.Log.Read(ctx, after, min(limit, protocol.MaxBatch))
	if err != nil {
		return protocol.Message{}, err
	}
	m := protocol.Message{Kind: protocol.Batch, From: after, To: after}
	if len(changes) == 0 {
		return m, nil
	}
	changes = changes[:protocol.Fit(changes)]
	m.To.Seq = changes[len(changes)-1].Seq
	m.Changes, err = n.selects(ctx, s, changes)
	return m, err
}

// addBodies puts beside each change what its form brings of the page. Where
// that does not fit into the message, the message ends before it.
func (n *Notifier) addBodies(ctx context.Context, s *selection, m *protocol.Message) error {
	if s.as == protocol.AsMeta || s.as == protocol.AsSite {
		return nil
	}
	room := roomy
	for i := range m.Changes {
		c := &m.Changes[i]
		if c.Op == protocol.Delete || c.Op == protocol.Move && c.Item.Digest == c.Prev {
			continue
		}
		b, err := n.body(ctx, s, c)
		if err != nil {
			return err
		}
		if room -= len(b.Bytes); room < 0 && i > 0 {
			m.To.Seq, m.Changes = m.Changes[i-1].Seq, m.Changes[:i]
			m.Bodies = m.Bodies[:min(i, len(m.Bodies))]
			return nil
		}
		if m.Bodies == nil {
			m.Bodies = make([]protocol.Body, len(m.Changes))
		}
		m.Bodies[i] = b
	}
	return nil
}

// wholeEvery is how often a page is told whole where differences are asked
// for: whoever has lost a version finds back by itself (C06).
const wholeEvery = 50

// body returns what a form brings of a page. Bytes that are not to be had any
// more are none: a later change tells what became of the page.
func (n *Notifier) body(ctx context.Context, s *selection, c *protocol.Change) (protocol.Body, error) {
	if s.as == protocol.AsDelta && !c.Prev.IsZero() && c.Seq%wholeEvery != 0 {
		delta, err := n.Pages.Delta(ctx, &c.Item, c.Prev)
		switch {
		case err == nil && len(delta) <= protocol.MaxInline:
			return protocol.Body{Coding: protocol.CodingDelta, Base: c.Prev, Bytes: delta, Length: int64(len(delta))}, nil
		case err != nil && !errors.Is(err, ErrNoVersion):
			return protocol.Body{}, fmt.Errorf("tell difference of %s: %w", c.Item.URL, err)
		}
	}
	page, err := n.Pages.Page(ctx, &c.Item, protocol.MaxInline)
	switch {
	case err == nil:
		return protocol.Body{Bytes: page, Length: int64(len(page))}, nil
	case errors.Is(err, ErrNoVersion):
		return protocol.Body{Href: c.Item.URL, Length: c.Item.Length}, nil
	}
	return protocol.Body{}, fmt.Errorf("tell page %s: %w", c.Item.URL, err)
}

// nextBundle returns the changes after a cursor as one Bundle.
func (n *Notifier) nextBundle(ctx context.Context, s *selection, after protocol.Cursor, limit int) (protocol.Message, error) {
	return protocol.Message{}, errors.ErrUnsupported
}

// nextArchive returns the archive of the site, and false where changes say
// as much at less cost.
func (n *Notifier) nextArchive(ctx context.Context, s *selection, after protocol.Cursor) (protocol.Message, bool, error) {
	return protocol.Message{}, false, nil
}
