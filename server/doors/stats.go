package doors

import (
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/parleyweb/parley/protocol"
)

// Stats counts what a [Notifier] has done since it began.
type Stats struct {
	Subscribers int           // streams and waiting long polls now
	Streams     int64         // streams opened
	Frames      int64         // messages sent on streams, hello and bye apart
	Batches     int64         // responses of the changes door, and of requests for bundles and archives
	Told        int64         // changes sent, counted each time
	Gaps        int64         // streams that fell below the floor
	Slow        int64         // streams cut because their reader did not read
	Manifests   int64         // requests for the manifest
	Refused     map[int]int64 // requests refused, by status

	Forms map[protocol.Form]FormStats // the forms with any traffic or a subscriber
}

// FormStats counts the traffic of one form.
type FormStats struct {
	Streams int   `json:"streams"` // now
	Frames  int64 `json:"frames"`  // messages with changes, sent on streams
	Answers int64 `json:"answers"` // responses to polls
	Bytes   int64 `json:"bytes"`   // of both, before any content coding
}

type formCounters struct{ streams, frames, answers, bytes atomic.Int64 }

// Counters count what the doors do, for all of them.
type counters struct {
	streams, frames, batches, told, gaps, slow, manifests atomic.Int64

	forms [5]formCounters // in the order of protocol.Forms

	mu      sync.Mutex
	refused map[int]int64
}

// form returns the counters of a form that is offered.
func (c *counters) form(f protocol.Form) *formCounters {
	return &c.forms[slices.Index(protocol.Forms(), f)]
}

// answered counts a response in a form: the number of its changes, and its bytes so far.
func (c *counters) answered(f protocol.Form, told, bytes int) {
	c.batches.Add(1)
	c.told.Add(int64(told))
	c.form(f).answers.Add(1)
	c.form(f).bytes.Add(int64(bytes))
}

// sent counts a frame on n streams.
func (c *counters) sent(f protocol.Form, n int, fr *frame) {
	c.frames.Add(int64(n))
	c.told.Add(int64(n * fr.told))
	c.form(f).frames.Add(int64(n))
	c.form(f).bytes.Add(int64(n * len(fr.text)))
}

// metered counts the bytes written in a form.
type metered struct {
	http.ResponseWriter
	bytes *atomic.Int64
}

func (m metered) Write(b []byte) (int, error) {
	n, err := m.ResponseWriter.Write(b)
	m.bytes.Add(int64(n))
	return n, err
}

// Unwrap is for http.ResponseController.
func (m metered) Unwrap() http.ResponseWriter { return m.ResponseWriter }

func (c *counters) refuse(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused == nil {
		c.refused = make(map[int]int64)
	}
	c.refused[status]++
}

// stats returns the counts as they are now, with the number of subscribers.
func (c *counters) stats(subscribers int) Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	forms := make(map[protocol.Form]FormStats)
	for i, f := range protocol.Forms() {
		s := FormStats{int(c.forms[i].streams.Load()), c.forms[i].frames.Load(), c.forms[i].answers.Load(), c.forms[i].bytes.Load()}
		if s != (FormStats{}) {
			forms[f] = s
		}
	}
	return Stats{Forms: forms, Subscribers: subscribers, Streams: c.streams.Load(), Frames: c.frames.Load(), Batches: c.batches.Load(),
		Told: c.told.Load(), Gaps: c.gaps.Load(), Slow: c.slow.Load(), Manifests: c.manifests.Load(), Refused: maps.Clone(c.refused)}
}
