package doors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/content"
	"github.com/parleyweb/parley/server/internal/limit"
)

// Delivery reads what follows a cursor, for every form, filter and program. Any number of
// goroutines may use it.
type delivery struct {
	*site
	pages    content.Pages // nil: forms without them only
	bundles  *bundles
	archives *archives // nil: there are none
}

// next returns what follows a cursor, in the form and for the selection of the
// request: a Batch, possibly without changes, a Bundle or an Archive. It contains at
// most count changes; zero means as many as one message of the form holds. The error
// is a *notReady if there is nothing to send yet.
//
// It is the one place where the six forms differ. Polling or push is its callers'
// business: see changesDoor and stream.
func (d *delivery) next(ctx context.Context, s *selection, after protocol.Cursor, count int) (protocol.Message, error) {
	if after == d.log.Head() && !after.IsZero() {
		if s.as == protocol.AsSite {
			d.archives.bursts.note(after, d.now())
		}
		return protocol.Message{}, d.atHead(after)
	}
	if s.as == protocol.AsBatch {
		if err := d.bundles.due(ctx, s, after); err != nil {
			return protocol.Message{}, err
		}
	}
	var t *limit.Slot
	var err error
	if !s.cheap() && s.filter.Agent.IsZero() { // Agents limits how many programs run at a time
		if t, err = s.acquireSlot(ctx, false); err != nil {
			return protocol.Message{}, err
		}
		defer t.Release()
	}
	switch s.as {
	case protocol.AsBatch:
		return d.bundles.next(ctx, t, s, after, count)
	case protocol.AsSite:
		if m, ok, err := d.archives.next(ctx, s, after); ok || err != nil {
			return m, err
		}
	}
	m, outputs, err := d.readBatch(ctx, t, s, after, count)
	if err == nil && m.To == after {
		err = d.atHead(after)
	}
	if err == nil {
		err = d.addBodies(ctx, t, s, &m, outputs)
	}
	return m, err
}

// A notReady is the error of next if there is nothing to send yet.
type notReady struct {
	until func(context.Context) error // blocks until next may return something else, or ctx ends
	why   string                      // what is being made for the reader; empty: it has everything that is due
	head  bool                        // the reader has everything there is
}

func (e *notReady) Error() string { return "nothing to deliver yet: " + e.why }

// stands returns the error with which next would reject a cursor.
func (d *delivery) stands(ctx context.Context, s *selection, at protocol.Cursor) error {
	_, err := d.log.Read(ctx, at, 1)
	if s.as == protocol.AsSite && isRefused(err) {
		return nil // such a reader is sent the whole site
	}
	return err
}

// isRefused reports whether an error of the log means that it refuses the cursor.
func isRefused(err error) bool {
	return errors.Is(err, protocol.ErrTooOld) || errors.Is(err, protocol.ErrEpoch)
}

// readOnFor bounds how long a request keeps reading the journal at once while it
// finds only changes that may not be sent or are not selected.
const readOnFor = 300 * time.Millisecond

// readOn returns the message that follows m, a message without changes, merged with
// it. While that has nothing for this reader it reads on for a while, so that the reader
// need not poll a hundred times. On an error it returns how far it came.
func (d *delivery) readOn(ctx context.Context, s *selection, m protocol.Message, count int, most time.Duration) (protocol.Message, error) {
	for end := time.Now().Add(most); ; {
		next, err := d.next(ctx, s, m.To, count)
		if err != nil {
			return m, err
		}
		all, ok := together(m, next)
		if !ok || !hasNoChanges(&all) || time.Now().After(end) {
			return all, nil
		}
		m = all
	}
}

// hasNoChanges reports whether a message only moves the watermark.
func hasNoChanges(m *protocol.Message) bool {
	return m.Kind == protocol.Batch && len(m.Changes) == 0
}

// together merges a message without changes with the next one. It returns false if
// they cannot be merged: the content of a bundle names the cursor that it follows.
func together(m, next protocol.Message) (protocol.Message, bool) {
	if next.Kind == protocol.Bundle && m.From != m.To {
		return m, false
	}
	next.From = m.From
	return next, true
}

// cheap reports whether a selection needs no more than a read of the journal.
func (s *selection) cheap() bool {
	return s.filter.IsZero() && (s.as == protocol.AsMeta || s.as == protocol.AsSite)
}

// mostWork bounds the time to find the content of one message, or the start of an
// answer: no step of that takes longer. The connection's deadline allows for it,
// however little time its client has to read.
const mostWork = 30 * time.Second

// readBatch reads the changes after a cursor into one Batch that may be sent, at most
// count of them, and returns the output of the reader's own program for each; nil if
// there is none. To is the cursor of the last change read; at the head it is after.
func (d *delivery) readBatch(ctx context.Context, t *limit.Slot, s *selection, after protocol.Cursor, count int) (protocol.Message, []protocol.Body, error) {
	read := protocol.MaxBatch
	if count == 0 {
		count = read
	}
	switch {
	case s.filter.IsZero():
		read = min(count, read)
	case !s.filter.Agent.IsZero():
		read = agentBatch
	}
	changes, err := d.log.Read(ctx, after, read)
	if err != nil {
		return protocol.Message{}, nil, err
	}
	m := protocol.Message{Kind: protocol.Batch, From: after, To: after}
	var outputs []protocol.Body
	begun, weight := time.Now(), 0
	for i := range changes[:protocol.Fit(changes)] {
		if i > 0 && !s.filter.Agent.IsZero() && (time.Since(begun) > agentsTime || weight > mostBodies) {
			break // these changes are sent first, the rest later
		}
		if i > 0 && t.IsOver() {
			break
		}
		c, output, ok, err := s.selects(ctx, changes[i])
		switch {
		case err != nil:
			return m, nil, err
		case ok && len(m.Changes) == count:
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

// mostBodies is about how many bytes of a message are bodies: readers at different
// cursors hold as much memory each.
const mostBodies = 256 << 10

// addBodies adds to each change the body that the form carries, or the output of
// the reader's own program. If the bodies are too large for one message, the message
// ends before the first that does not fit.
func (d *delivery) addBodies(ctx context.Context, t *limit.Slot, s *selection, m *protocol.Message, outputs []protocol.Body) error {
	made := make(map[wanted]protocol.Body)
	for {
		cut, err := d.fillBodies(ctx, t, s, m, outputs, made)
		if err != nil || !cut {
			return err
		}
		t = nil // few bodies are still missing
	}
}

// A wanted identifies the body to be sent with a change of a message.
type wanted struct {
	change int
	base   protocol.Digest // the version that the reader has; zero if none, or if the page is to be sent whole
}

// fillBodies cuts the message and returns true if it becomes too long: a shorter
// message may need other bodies.
func (d *delivery) fillBodies(ctx context.Context, t *limit.Slot, s *selection, m *protocol.Message, outputs []protocol.Body, made map[wanted]protocol.Body) (cut bool, err error) {
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
			if b, ok = made[w]; !ok && i > 0 && t.IsOver() {
				m.To.Seq, m.Changes = m.Changes[i-1].Seq, m.Changes[:i]
				return true, nil
			} else if !ok {
				if b, err = d.body(ctx, c, w.base); err != nil {
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

// wantedBodies returns which changes of a message carry a body: for each page that exists
// after the message its last change, with the version that the reader had before as base.
func wantedBodies(s *selection, changes []protocol.Change) map[int]wanted {
	if s.as != protocol.AsDelta && s.as != protocol.AsPage {
		return nil
	}
	pending := make(map[string]wanted) // by URL
	came := make(map[string]bool)      // URLs of pages that the reader has, if at all, under another URL
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
			w.base = protocol.Digest{} // the reader must have the base under the same URL
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

// wholeEvery is how often a page is sent whole to a reader of deltas: a reader
// that has lost a version recovers by itself (C06).
const wholeEvery = 50

// body returns the body that a form carries of a page. It is empty if the bytes are no
// longer available: a later change tells what became of the page. A page that is too
// large for a message is given by its URL.
func (d *delivery) body(ctx context.Context, c *protocol.Change, base protocol.Digest) (protocol.Body, error) {
	if !base.IsZero() {
		delta, err := d.pages.Delta(ctx, &c.Item, base)
		switch {
		case err == nil && len(delta) <= protocol.MaxInline:
			return protocol.Body{Coding: protocol.CodingDelta, Base: base, Bytes: delta, Length: int64(len(delta))}, nil
		case err != nil && !errors.Is(err, content.ErrNoVersion):
			return protocol.Body{}, fmt.Errorf("deliver difference of %s: %w", c.Item.URL, err)
		}
	}
	if c.Item.Length > protocol.MaxInline {
		return protocol.Body{Href: c.Item.URL, Length: c.Item.Length, Digest: c.Item.Digest}, nil
	}
	page, err := d.pages.Page(ctx, &c.Item, protocol.MaxInline)
	switch {
	case err == nil:
		return protocol.Body{Bytes: page, Length: int64(len(page))}, nil
	case errors.Is(err, content.ErrNoVersion):
		return protocol.Body{}, nil
	}
	return protocol.Body{}, fmt.Errorf("deliver page %s: %w", c.Item.URL, err)
}
