package doors

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/wsconn"
	"github.com/parleyweb/parley/protocol"
)

// Bounds of the cache of frames.
const (
	maxFrames     = 64
	maxFrameBytes = 16 << 20

	// frameLife is how long an encoded frame may be sent to other readers. So a changed
	// rule of what is public takes effect on replay within that time; readers that
	// wake together still share one encoding.
	frameLife = time.Second
)

// A frame is the message about the changes in (after, to], encoded once.
type frame struct {
	ready chan struct{} // closed when the other fields are set

	from protocol.Cursor
	to   protocol.Cursor
	told int           // number of changes in it
	kind protocol.Kind // Mark if it has no changes
	text []byte
	size int // the size that counts against maxFrameBytes
	err  error
	made time.Time

	writing sync.Mutex // guards the fields below
	plain   *wsconn.Prepared
	packed  *wsconn.Prepared
}

// prepared returns the message for connections whose messages are packed by p; it is packed and framed once for all of them.
func (fr *frame) prepared(p wsconn.Packing) *wsconn.Prepared {
	fr.writing.Lock()
	defer fr.writing.Unlock()
	at := &fr.packed
	if p == nil {
		at = &fr.plain
	}
	if *at == nil {
		*at = wsconn.Prepare(fr.text, p)
	}
	return *at
}

// frames encodes messages, once for all readers with the same cursor and selection, and caches them
// for a moment. Any number of goroutines may use it.
type frames struct {
	*site
	delivery *delivery
	packings map[string]wsconn.Packing // by subprotocol; without one messages are text

	mu    sync.Mutex
	byKey map[place]*frame
	order []place // oldest first
	bytes int
}

// A place is the cursor and the selection of a reader.
type place struct {
	selection string // its key
	at        protocol.Cursor
}

// after returns the frame that follows a cursor: a Mark if the reader may be sent none of
// the changes. The error may be a *notReady of next, but never waited, which the caller
// knows to be over.
func (f *frames) after(ctx context.Context, s *selection, cursor protocol.Cursor, waited *notReady) (*frame, error) {
	at := place{s.key, cursor}
	f.mu.Lock()
	fr := f.byKey[at]
	if fr != nil && f.isOld(fr, waited) {
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
		switch {
		case fr.text != nil:
			return fr, nil
		case errors.As(fr.err, new(*notReady)):
			return nil, fr.err // it is the same for everybody
		case errors.Is(fr.err, context.Canceled):
			return f.after(ctx, s, cursor, waited) // the goroutine that was encoding it was cancelled
		}
		return f.encode(ctx, s, cursor) // the first attempt failed, perhaps for a reason of that reader alone
	}
	fr = &frame{ready: make(chan struct{}), made: f.now()}
	f.keep(at, fr)
	f.mu.Unlock()
	made, err := f.encode(ctx, s, cursor)
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := f.byKey[at] == fr // not evicted by other frames meanwhile
	if err != nil {
		fr.err = err
		if none := (*notReady)(nil); kept && (!errors.As(err, &none) || none.why == "") {
			f.drop(at) // it is cheap to compute again
		}
		close(fr.ready)
		return nil, err
	}
	fr.from, fr.to, fr.told, fr.kind, fr.text, fr.size = made.from, made.to, made.told, made.kind, made.text, made.size
	close(fr.ready)
	if !kept {
		return fr, nil
	}
	f.bytes += fr.size
	for f.bytes > maxFrameBytes {
		f.drop(f.order[0]) // even this one, if it alone is too large: its waiters have a pointer to it
	}
	return fr, nil
}

// isOld reports whether a frame that is ready must not be sent any more.
func (f *frames) isOld(fr *frame, waited *notReady) bool {
	select {
	case <-fr.ready:
		age := f.now().Sub(fr.made)
		return age > frameLife || age < 0 || waited != nil && fr.err == waited
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
	f.bytes -= f.byKey[at].size
	delete(f.byKey, at)
	for i, c := range f.order {
		if c == at {
			f.order = append(f.order[:i], f.order[i+1:]...)
			return
		}
	}
}

// forget drops all frames.
func (f *frames) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.order) > 0 {
		f.drop(f.order[0])
	}
}

func (f *frames) encode(ctx context.Context, s *selection, at protocol.Cursor) (*frame, error) {
	m, err := f.delivery.next(ctx, s, at, 0)
	if err != nil {
		return nil, err
	}
	told := m.ChangeCount()
	switch {
	case hasNoChanges(&m):
		m = protocol.Message{Kind: protocol.Mark, From: at, To: m.To, Head: f.log.Head(), At: f.now()}
	case m.Kind == protocol.Batch && told == 1:
		m.Kind = protocol.Ev
	}
	fr := &frame{from: at, to: m.To, told: told, kind: m.Kind, text: m.Encode()}
	fr.size = frameCopies * len(fr.text)
	return fr, nil
}

// frameCopies is how often the text of a frame lies in memory at most: as it
// is, with the head of a WebSocket frame, and twice packed.
const frameCopies = 3
