package harvest

import (
	"slices"
	"sync"
)

// A Room is what Harvesters of one process share, so that the engines of many partitions use no more of the machine than one: Sites, Memory and Lookups of their
// options, which are the same for all of them. The zero value is ready for use.
type Room struct {
	once    sync.Once
	memory  budget
	lookups chan struct{} // has a token for each lookup under way

	mu      sync.Mutex // guards the rest
	busy    int        // goroutines that fetch, or give tasks back
	waiting []*cycle   // until there are fewer
}

func (r *Room) start(o *Options) *Room {
	r.once.Do(func() {
		r.memory.all = positive(o.Memory, defaultMemory)
		r.memory.free = r.memory.all
		r.lookups = make(chan struct{}, positive(o.Lookups, defaultLookups))
	})
	return r
}

// full reports whether as many sites as possible are fetched from. If so, the cycle is woken when they have become fewer.
func (r *Room) full(c *cycle) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	is := r.busy >= c.h.most()
	if is && !slices.Contains(r.waiting, c) {
		r.waiting = append(r.waiting, c)
	}
	return is
}

func (r *Room) enter() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy++
}

func (r *Room) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy--
	for _, c := range r.waiting { // all of them, since the first may have nothing left that it could fetch
		c.wake()
	}
	r.waiting = r.waiting[:0]
}
