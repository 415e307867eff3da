package crawl

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/parleyweb/parley/internal/pause"
)

// An inbox queues results until they are committed. It wakes the committer once per commit: once
// per page would cost as much as parsing the page, on a fast site.
type inbox struct {
	wake  chan struct{} // of capacity 1
	hurry chan struct{} // the same: asks for a commit at once
	idle  atomic.Bool   // the Manager waits for something to fetch, and so for a commit

	mu     sync.Mutex
	room   sync.Cond // signals free room; on mu
	list   []result
	bytes  int  // of the bodies in list
	busy   int  // the sum of result.busy in list
	urgent bool // a caller waits for a commit of list
	closed bool
	failed error // why nothing can be committed any more
}

func newInbox() *inbox {
	b := &inbox{wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1)}
	b.room.L = &b.mu
	return b
}

// put hands a result to the committer, and blocks while the inbox is full. It returns
// false if the inbox is closed.
func (b *inbox) put(x result) bool {
	b.mu.Lock()
	for (len(b.list) >= 2*commitSize || b.bytes >= 2*commitBytes) && b.failed == nil && !b.closed {
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

// submit passes work from outside to the committer, and waits until it is committed.
func (b *inbox) submit(ctx context.Context, x result) error {
	done := make(chan error, 1)
	x.done = done
	if !b.put(x) {
		return ErrRunning
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// call wakes the committer.
func (b *inbox) call() {
	pause.Wake(b.wake)
}

// full reports whether the list fills a commit.
func (b *inbox) full() bool { return len(b.list) >= commitSize || b.bytes >= commitBytes }

// state returns whether the list is not empty, whether it fills a commit, its busy count,
// whether a caller waits for it, and whether the inbox is closed.
func (b *inbox) state() (some, full bool, busy int, urgent, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.list) > 0, b.full(), b.busy, b.urgent, b.closed
}

// take returns the list, in exchange for an empty one.
func (b *inbox) take(empty []result) []result {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.list
	b.list, b.bytes, b.busy, b.urgent = empty, 0, 0, false
	b.room.Broadcast()
	return list
}

// close ends put: it returns false from now on.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.room.Broadcast()
	b.call()
}

// fail ends all reads, present and future, with an error.
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

// end releases the answer of a result, and reports the result of the commit.
func (x *result) end(err error) {
	if x.answer != nil {
		x.answer.Release()
	}
	if x.done != nil {
		x.done <- err
	}
}
