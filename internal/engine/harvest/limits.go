package harvest

import (
	"slices"
	"sync"
)

// Limits holds what Harvesters of one process share, so that the engines of many partitions use no more of the machine than one: how many sites are fetched from at
// once, the memory of bodies, and the lookups of names. Memory and Lookups are those of the options of the Harvester that begins first. The zero value is ready for use.
type Limits struct {
	once    sync.Once
	memory  budget
	lookups chan struct{}

	mu      sync.Mutex // guards the rest
	asking  int        // goroutines that send requests
	waiting []*cycle   // until there are fewer
}

func (l *Limits) start(o *Options) *Limits {
	l.once.Do(func() {
		l.memory.all = positive(o.Memory, defaultMemory)
		l.memory.free = l.memory.all
		l.lookups = make(chan struct{}, positive(o.Lookups, defaultLookups))
	})
	return l
}

// full reports whether as many sites as possible are fetched from. If so, the cycle is woken when they have become fewer.
func (l *Limits) full(c *cycle) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	full := l.asking >= c.h.most()
	if full && !slices.Contains(l.waiting, c) {
		l.waiting = append(l.waiting, c)
	}
	return full
}

func (l *Limits) enter() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asking++
}

func (l *Limits) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asking--
	for _, c := range l.waiting { // all of them, since the first may have nothing left that it could fetch
		c.wake()
	}
	clear(l.waiting) // of Harvesters that may have ended
	l.waiting = l.waiting[:0]
}
