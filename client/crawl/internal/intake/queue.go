// Package intake queues the results of a crawl until they are committed, many at once.
package intake

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/parleyweb/parley/internal/pause"
)

// An Item is a result.
type Item interface {
	Weight() (busy, bytes int) // how many tasks its commit ends, and the length of its bodies
	Urgent() bool              // a caller waits for its commit
	End(err error)             // releases what it holds, and reports the result of its commit
}

// A Queue queues items until they are committed. It wakes the committer once per commit: once
// per page would cost as much as parsing the page, on a fast site.
type Queue[T Item] struct {
	Wake chan struct{} // of capacity 1
	Idle atomic.Bool   // the Manager waits for something to fetch, and so for a commit

	most struct{ items, bytes int } // that fill a commit

	mu     sync.Mutex
	room   sync.Cond // signals free room; on mu
	list   []T
	bytes  int // of the bodies in list
	busy   int // the sum of the busy weights in list
	enough int // the busy count at which list is to be committed; negative: a caller waits for that
	closed bool
	failed error // why nothing can be committed any more
}

// New returns a queue of which so many items, or bytes of their bodies, fill a commit. Twice as many fit.
func New[T Item](items, bytes int) *Queue[T] {
	q := &Queue[T]{Wake: make(chan struct{}, 1)}
	q.most.items, q.most.bytes, q.room.L = items, bytes, &q.mu
	return q
}

// Put hands an item to the committer, and blocks while the queue is full. It returns
// false if the queue is closed.
func (q *Queue[T]) Put(x T) bool {
	q.mu.Lock()
	for (len(q.list) >= 2*q.most.items || q.bytes >= 2*q.most.bytes) && q.failed == nil && !q.closed {
		q.room.Wait()
	}
	if q.failed != nil {
		q.mu.Unlock()
		x.End(q.failed)
		return true
	}
	if q.closed {
		q.mu.Unlock()
		return false
	}
	was := q.full()
	q.list = append(q.list, x)
	busy, bytes := x.Weight()
	q.busy, q.bytes = q.busy+busy, q.bytes+bytes
	if x.Urgent() {
		q.enough = -1
	}
	call := len(q.list) == 1 || q.full() && !was || q.busy >= q.enough
	q.mu.Unlock()
	if call {
		pause.Wake(q.Wake)
	}
	return true
}

// full reports whether the list fills a commit.
func (q *Queue[T]) full() bool { return len(q.list) >= q.most.items || q.bytes >= q.most.bytes }

// State returns how many items there are, whether they are to be committed now, and whether the queue is closed. They are
// if they fill a commit, end so many tasks, or a caller waits for it; otherwise Wake is sent once it is.
func (q *Queue[T]) State(tasks int) (n int, ready, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.enough >= 0 {
		q.enough = tasks
	}
	return len(q.list), q.full() || q.busy >= q.enough, q.closed
}

// Take returns the list, in exchange for an empty one.
func (q *Queue[T]) Take(empty []T) []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.list
	q.list, q.bytes, q.busy, q.enough = empty, 0, 0, math.MaxInt
	q.room.Broadcast()
	return list
}

// Close ends Put: it returns false from now on.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.room.Broadcast()
	pause.Wake(q.Wake)
}

// Fail ends all items, present and future, with an error.
func (q *Queue[T]) Fail(err error) {
	q.mu.Lock()
	list := q.list
	q.list, q.failed = nil, err
	q.room.Broadcast()
	q.mu.Unlock()
	for _, x := range list {
		x.End(err)
	}
}
