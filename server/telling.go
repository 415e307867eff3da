package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// next returns what follows a cursor, in the form and of the selection that
// was asked for: a Batch, which may be of nothing that is to be told; a Bundle
// or an Archive. It tells at most limit changes; zero is as many as one message
// of the form holds. The error is a *notYet where nothing is to be told yet.
//
// It is the one place where the six forms differ. Whether the message is asked
// for or told is its callers' business: see serveChanges and stream.
func (n *Notifier) next(ctx context.Context, s *selection, after protocol.Cursor, limit int) (protocol.Message, error) {
	if after == n.Log.Head() && !after.IsZero() {
		if s.as == protocol.AsSite {
			n.bursts.note(after, n.Now())
		}
		return protocol.Message{}, n.atHead(after)
	}
	if s.as == protocol.AsBatch {
		if err := n.dueBundle(ctx, s, after); err != nil {
			return protocol.Message{}, err
		}
	}
	var t *turn
	var err error
	if !s.cheap() && s.filter.Agent.IsZero() { // whoever runs programs bounds how many at a time
		if t, err = n.turn(ctx, s, false); err != nil {
			return protocol.Message{}, err
		}
		defer t.leave()
	}
	switch s.as {
	case protocol.AsBatch:
		return n.nextBundle(ctx, t, s, after, limit)
	case protocol.AsSite:
		if m, ok, err := n.nextArchive(ctx, s, after); ok || err != nil {
			return m, err
		}
	}
	m, outputs, err := n.readBatch(ctx, t, s, after, limit)
	if err == nil && m.To == after {
		err = n.atHead(after)
	}
	if err == nil {
		err = n.addBodies(ctx, t, s, &m, outputs)
	}
	return m, err
}

// A notYet is the error of next where nothing is to be told yet.
type notYet struct {
	until func(context.Context) error // blocks until that may be otherwise, or ctx ends
	why   string                      // what is being made for the reader; empty: he has all that is due
}

func (e *notYet) Error() string { return "nothing is to be told yet: " + e.why }

// atHead is that a reader has all that there is.
func (n *Notifier) atHead(at protocol.Cursor) *notYet {
	return &notYet{until: func(ctx context.Context) error { return n.Log.Wait(ctx, at) }}
}

// stands returns why next would refuse a cursor.
func (n *Notifier) stands(ctx context.Context, s *selection, at protocol.Cursor) error {
	_, err := n.Log.Read(ctx, at, 1)
	if s.as == protocol.AsSite && (errors.Is(err, protocol.ErrTooOld) || errors.Is(err, protocol.ErrEpoch)) {
		return nil // the whole site is what follows
	}
	return err
}

// tellsNothing reports whether a message only moves the watermark.
func tellsNothing(m *protocol.Message) bool {
	return m.Kind == protocol.Batch && len(m.Changes) == 0
}

// together makes one message of one that tells nothing and the one that
// follows it, and returns false where they cannot be one: the content of a
// bundle names the cursor that it follows.
func together(m, next protocol.Message) (protocol.Message, bool) {
	if next.Kind == protocol.Bundle && m.From != m.To {
		return m, false
	}
	next.From = m.From
	return next, true
}

// cheap reports whether what is asked for is a mere look into the journal.
func (s *selection) cheap() bool {
	return s.filter.IsZero() && (s.as == protocol.AsMeta || s.as == protocol.AsSite)
}

// mostWork is how long it takes to find what one message tells, or the
// beginning of an answer: no step of that takes so long. A connection lasts
// for it, however little time its reader has to read.
const mostWork = 30 * time.Second

// readBatch reads the changes after a cursor into one Batch that may be told,
// limit at most, and returns what a program of the reader's own has made of
// each; nil where there is none. To stands after all that was read; it is the
// cursor itself at the head.
func (n *Notifier) readBatch(ctx context.Context, t *turn, s *selection, after protocol.Cursor, limit int) (protocol.Message, []protocol.Body, error) {
	read := protocol.MaxBatch
	if limit == 0 {
		limit = read
	}
	switch {
	case s.filter.IsZero():
		read = min(limit, read)
	case !s.filter.Agent.IsZero():
		read = agentBatch
	}
	changes, err := n.Log.Read(ctx, after, read)
	if err != nil {
		return protocol.Message{}, nil, err
	}
	m := protocol.Message{Kind: protocol.Batch, From: after, To: after}
	var outputs []protocol.Body
	begun, weight := time.Now(), 0
	for i := range changes[:protocol.Fit(changes)] {
		if i > 0 && !s.filter.Agent.IsZero() && (time.Since(begun) > agentsTime || weight > mostBodies) {
			break // what is there is told, and then it goes on
		}
		if i > 0 && t.over() {
			break
		}
		c, output, ok, err := n.selects(ctx, s, changes[i])
		switch {
		case err != nil:
			return m, nil, err
		case ok && len(m.Changes) == limit:
			return m, outputs, nil
		case ok:
			m.Changes = append(m.Changes, c)
			weight += len(output.Bytes)
			if outputs != nil || !output.IsZero() {
				outputs = append(append(outputs, make([]protocol.Body, len(m.Changes)-1-len(outputs))...), output)
			}
		}
		m.To.Seq = changes[i].Seq
	}
	return m, outputs, nil
}

// agentBatch is how many changes are read at once for a reader's own program,
// which may take long for each.
const agentBatch = 32

// mostBodies is about how many bytes of a message are bodies: those who are
// told at different places hold as much each.
const mostBodies = 256 << 10

// addBodies puts beside each change what its form brings of the page, or what
// the reader's own program has made of it. Where that is too much for one
// message, the message ends before it.
func (n *Notifier) addBodies(ctx context.Context, t *turn, s *selection, m *protocol.Message, outputs []protocol.Body) error {
	made := make(map[wanted]protocol.Body)
	for {
		cut, err := n.fillBodies(ctx, t, s, m, outputs, made)
		if err != nil || !cut {
			return err
		}
		t = nil // what it wants now is little
	}
}

// A wanted is a body to be told with a change of a message.
type wanted struct {
	change int
	base   protocol.Digest // what the reader has of the page; zero if nothing, or if it is to be told whole
}

// fillBodies cuts the message and returns true where it turns out too long:
// then other bodies may be wanted.
func (n *Notifier) fillBodies(ctx context.Context, t *turn, s *selection, m *protocol.Message, outputs []protocol.Body, made map[wanted]protocol.Body) (cut bool, err error) {
	m.Bodies = nil
	want := wantedBodies(s, m.Changes)
	room, bodies := protocol.MaxRoom, mostBodies
	for i := range m.Changes {
		c := &m.Changes[i]
		var b protocol.Body
		if i < len(outputs) {
			b = outputs[i]
		}
		if w, ok := want[i]; ok && b.IsZero() {
			if b, ok = made[w]; !ok && i > 0 && t.over() {
				m.To.Seq, m.Changes = m.Changes[i-1].Seq, m.Changes[:i]
				return true, nil
			} else if !ok {
				if b, err = n.body(ctx, s, c, w.base); err != nil {
					return false, err
				}
				made[w] = b
			}
		}
		weight := protocol.Weight(c, &b)
		if !b.IsZero() {
			bodies -= weight
		}
		if room -= weight; i > 0 && (room < 0 || bodies < 0) {
			m.To.Seq, m.Changes = m.Changes[i-1].Seq, m.Changes[:i]
			return true, nil
		}
		if b.IsZero() {
			continue
		}
		if m.Bodies == nil {
			m.Bodies = make([]protocol.Body, len(m.Changes))
		}
		m.Bodies[i] = b
	}
	return false, nil
}

// wantedBodies says which changes of a message bring a body: the last of each
// page that the message leaves there, against what the reader had of it before.
func wantedBodies(s *selection, changes []protocol.Change) map[int]wanted {
	if s.as != protocol.AsDelta && s.as != protocol.AsPage {
		return nil
	}
	pending := make(map[string]wanted) // by URL
	came := make(map[string]bool)      // URLs of what the reader has, if at all, by another one
	for i := range changes {
		c := &changes[i]
		w := wanted{change: i, base: c.Prev}
		before, fresh := pending[c.Item.URL]
		other := came[c.Item.URL]
		if c.Op == protocol.Move {
			before, fresh = pending[c.From]
			other = came[c.From]
			delete(pending, c.From)
			delete(came, c.From)
		}
		switch {
		case c.Op == protocol.Delete, c.Op == protocol.Move && !fresh && c.Item.Digest == c.Prev:
			delete(pending, c.Item.URL) // it is gone, or the reader has it
			came[c.Item.URL] = c.Op == protocol.Move
			continue
		case fresh:
			w.base = before.base
		case other:
			w.base = protocol.Digest{} // a base must be there where the reader looks for it
		}
		if c.Op != protocol.Move && fresh && changes[before.change].Op == protocol.Move {
			w.base = protocol.Digest{}
		}
		if s.as == protocol.AsPage || c.Seq%wholeEvery == 0 {
			w.base = protocol.Digest{}
		}
		pending[c.Item.URL] = w
	}
	want := make(map[int]wanted, len(pending))
	for _, w := range pending {
		want[w.change] = w
	}
	return want
}

// wholeEvery is how often a page is told whole where differences are asked
// for: whoever has lost a version finds back by itself (C06).
const wholeEvery = 50

// body returns what a form brings of a page. Bytes that are not to be had any
// more are none: a later change tells what became of the page. What is too
// large for a message is at the page's own URL.
func (n *Notifier) body(ctx context.Context, s *selection, c *protocol.Change, base protocol.Digest) (protocol.Body, error) {
	if !base.IsZero() {
		delta, err := n.Pages.Delta(ctx, &c.Item, base)
		switch {
		case err == nil && len(delta) <= protocol.MaxInline:
			return protocol.Body{Coding: protocol.CodingDelta, Base: base, Bytes: delta, Length: int64(len(delta))}, nil
		case err != nil && !errors.Is(err, ErrNoVersion):
			return protocol.Body{}, fmt.Errorf("tell difference of %s: %w", c.Item.URL, err)
		}
	}
	if c.Item.Length > protocol.MaxInline {
		return protocol.Body{Href: c.Item.URL, Length: c.Item.Length, Digest: c.Item.Digest}, nil
	}
	page, err := n.Pages.Page(ctx, &c.Item, protocol.MaxInline)
	switch {
	case err == nil:
		return protocol.Body{Bytes: page, Length: int64(len(page))}, nil
	case errors.Is(err, ErrNoVersion):
		return protocol.Body{}, nil
	}
	return protocol.Body{}, fmt.Errorf("tell page %s: %w", c.Item.URL, err)
}
