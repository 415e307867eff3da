package crawl

import (
	"sync"

	"github.com/parleyweb/parley/internal/pause"
)

// An inbox holds what was read until it is committed. The keeper is woken once
// a turn and not once a page, which on a fast site would cost as much as to read it.
type inbox struct {
	wake chan struct{} // of room for one

	mu     sync.Mutex
	room   sync.Cond // there is some again; on mu
	list   []read
	bytes  int  // of the bodies in list
	busy   int  // that is over when list is committed
	urgent bool // somebody waits for what is in list
	closed bool
	failed error // nothing can be committed any more
}

func newInbox() *inbox {
	b := &inbox{wake: make(chan struct{}, 1)}
	b.room.L = &b.mu
	return b
}

// put hands something to the keeper, and waits while he has too much. It
// returns false if there is no keeper any more.
func (b *inbox) put(x read) bool {
	b.mu.Lock()
	for (len(b.list) >= 2*turnSize || b.bytes >= 2*turnBytes) && b.failed == nil && !b.closed {
		b.room.Wait()
	}
	if b.failed != nil {
		b.mu.Unlock()
		x.end(b.failed)
		return true
	}
	if b.closed {
		b.mu.Unlock()
		return false
	}
	was := b.full()
	b.list = append(b.list, x)
	b.busy += x.busy
	for i := range x.visits {
		b.bytes += cap(x.visits[i].Body)
	}
	b.urgent = b.urgent || x.done != nil
	call := b.urgent || len(b.list) == 1 || b.full() && !was
	b.mu.Unlock()
	if call {
		b.call()
	}
	return true
}

// call wakes the keeper.
func (b *inbox) call() {
	pause.Wake(b.wake)
}

// full reports whether there is enough for a turn.
func (b *inbox) full() bool { return len(b.list) >= turnSize || b.bytes >= turnBytes }

// state says whether there is something, and enough for a turn, how much is over
// with it, whether somebody waits for it, and whether no more will come.
func (b *inbox) state() (some, full bool, busy int, urgent, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.list) > 0, b.full(), b.busy, b.urgent, b.closed
}

// take returns all there is, in exchange for an empty list.
func (b *inbox) take(empty []read) []read {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.list
	b.list, b.bytes, b.busy, b.urgent = empty, 0, 0, false
	b.room.Broadcast()
	return list
}

// close says that nobody will put anything in any more.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.room.Broadcast()
	b.call()
}

// fail ends all that is there, and all that still comes, with an error.
func (b *inbox) fail(err error) {
	b.mu.Lock()
	list := b.list
	b.list, b.failed = nil, err
	b.room.Broadcast()
	b.mu.Unlock()
	for _, x := range list {
		x.end(err)
	}
}

// end says that something was committed, or why it was not.
func (x *read) end(err error) {
	if x.answer != nil {
		x.answer.Release()
	}
	if x.done != nil {
		x.done <- err
	}
}
