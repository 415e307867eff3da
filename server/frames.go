package server

import (
	"context"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/wsconn"
	"github.com/parleyweb/parley/protocol"
)

// Bounds of the frames that are kept for others to send.
const (
	maxFrames     = 64
	maxFrameBytes = 8 << 20

	// frameLife is how long an encoded frame may be sent to others. So a rule
	// that changes what is public takes effect on what is replayed within
	// that time; who wakes together still shares the encoding.
	frameLife = time.Second
)

// A frame is what is told of the changes in (after, to], encoded once.
type frame struct {
	ready chan struct{} // closed when the rest is there

	to       protocol.Cursor
	told     int // changes in it, those that may be told
	text     []byte
	prepared *wsconn.Prepared
	err      error
	made     time.Time
}

// frames encodes what a log says, once for all who stand at the same place.
type frames struct {
	next func(ctx context.Context, s *selection, after protocol.Cursor, limit int) (protocol.Message, error)
	head func() protocol.Cursor
	now  func() time.Time

	mu    sync.Mutex
	byKey map[place]*frame
	order []place // oldest first
	bytes int
}

// A place is where a reader stands, and what it has asked for.
type place struct {
	selection string // its key
	at        protocol.Cursor
}

// after returns the frame that follows a cursor: a Mark where nothing of it may
// be told. It is nil if the cursor is the head.
func (f *frames) after(ctx context.Context, s *selection, cursor protocol.Cursor) (*frame, error) {
	at := place{s.key, cursor}
	f.mu.Lock()
	fr := f.byKey[at]
	if fr != nil && f.isOld(fr) {
		f.drop(at)
		fr = nil
	}
	if fr != nil {
		f.mu.Unlock()
		select {
		case <-fr.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if fr.err == nil && fr.text != nil {
			return fr, nil
		}
		return f.encode(ctx, s, cursor) // whoever tried first had no luck: that may have been only theirs
	}
	fr = &frame{ready: make(chan struct{}), made: f.now()}
	f.keep(at, fr)
	f.mu.Unlock()
	made, err := f.encode(ctx, s, cursor)
	f.mu.Lock()
	kept := f.byKey[at] == fr // not pushed out by others meanwhile
	if fr.err = err; made != nil {
		fr.to, fr.told, fr.text, fr.prepared = made.to, made.told, made.text, made.prepared
	} else if kept {
		f.drop(at)
	}
	if kept {
		f.bytes += len(fr.text)
	}
	for f.bytes > maxFrameBytes && len(f.order) > 1 {
		f.drop(f.order[0])
	}
	close(fr.ready)
	f.mu.Unlock()
	return made, err
}

// isOld reports whether a frame that is ready must not be sent any more.
func (f *frames) isOld(fr *frame) bool {
	select {
	case <-fr.ready:
		age := f.now().Sub(fr.made)
		return age > frameLife || age < 0
	default:
		return false
	}
}

// keep and drop are called with mu held.
func (f *frames) keep(at place, fr *frame) {
	if f.byKey == nil {
		f.byKey = make(map[place]*frame)
	}
	for len(f.order) >= maxFrames {
		f.drop(f.order[0])
	}
	f.byKey[at] = fr
	f.order = append(f.order, at)
}

func (f *frames) drop(at place) {
	f.bytes -= len(f.byKey[at].text)
	delete(f.byKey, at)
	for i, c := range f.order {
		if c == at {
			f.order = append(f.order[:i], f.order[i+1:]...)
			return
		}
	}
}

func (f *frames) encode(ctx context.Context, s *selection, at protocol.Cursor) (*frame, error) {
	m, err := f.next(ctx, s, at, protocol.MaxBatch)
	if err != nil || m.To == at {
		return nil, err
	}
	told := len(m.Changes)
	switch {
	case m.Kind != protocol.Batch:
		told = m.N
	case told == 0:
		m = protocol.Message{Kind: protocol.Mark, To: m.To, Head: f.head(), At: f.now()}
	case told == 1:
		m.Kind = protocol.Ev
	}
	fr := &frame{to: m.To, told: told, text: m.Encode()}
	fr.prepared, err = wsconn.Prepare(fr.text)
	return fr, err
}

// tellable returns the changes as they may be told now: what the present
// rules forbid is not told, when it is replayed neither. That a page is gone
// is always told: who has been told of it must learn that.
func tellable(changes []protocol.Change, public func(string) bool) []protocol.Change {
	if public == nil {
		return changes
	}
	told := make([]protocol.Change, 0, len(changes))
	for _, c := range changes {
		switch {
		case c.Op == protocol.Delete:
		case c.Op == protocol.Move && !public(c.Item.URL):
			c.Op, c.Item, c.From, c.Significance = protocol.Delete, protocol.Item{URL: c.From, Length: -1}, "", 0
		case c.Op == protocol.Move && !public(c.From):
			c.Op, c.From, c.Prev, c.Significance = protocol.Create, "", protocol.Digest{}, 0
		case c.Op != protocol.Move && !public(c.Item.URL):
			continue
		}
		told = append(told, c)
	}
	return told
}
