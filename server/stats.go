package server

import (
	"maps"
	"sync"
	"sync/atomic"
)

// Stats counts what a [Notifier] has done since it began.
type Stats struct {
	Subscribers int           // streams and waiting long polls now
	Streams     int64         // streams opened
	Frames      int64         // messages sent on streams, hello and bye apart
	Batches     int64         // answers of the changes door
	Told        int64         // changes told, each as often as it was told
	Gaps        int64         // streams that fell below the floor
	Slow        int64         // streams cut because their reader did not read
	Manifests   int64         // requests for the manifest
	Refused     map[int]int64 // requests refused, by status
}

type counters struct {
	streams, frames, batches, told, gaps, slow, manifests atomic.Int64

	mu      sync.Mutex
	refused map[int]int64
}

func (c *counters) refuse(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused == nil {
		c.refused = make(map[int]int64)
	}
	c.refused[status]++
}

// Stats returns the counts as they are now.
func (n *Notifier) Stats() Stats {
	c := &n.stats
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{Subscribers: n.admitted.now(), Streams: c.streams.Load(), Frames: c.frames.Load(), Batches: c.batches.Load(),
		Told: c.told.Load(), Gaps: c.gaps.Load(), Slow: c.slow.Load(), Manifests: c.manifests.Load(), Refused: maps.Clone(c.refused)}
}
