package doors

import (
	"net/http"
	"slices"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// A Listener is a client that waits for changes now: on a stream, or in a long poll.
type Listener struct {
	Address string // of the client; empty if its proxy does not say it
	Caller  string // name of the caller; empty: anonymous
	Agent   string // its User-Agent, cut to 200 bytes
	As      protocol.Form
	Stream  bool
	Since   time.Time
	Cursor  protocol.Cursor // everything up to it was sent, or is not for this client
}

// longestAgent bounds Listener.Agent, in bytes.
const longestAgent = 200

// newLongRequest returns a long request of a client that has read up to a cursor. Its stop and cut are still to be set.
func newLongRequest(r *http.Request, s *selection, at protocol.Cursor, stream bool) *longRequest {
	agent := r.UserAgent()
	g := &longRequest{listener: Listener{Address: s.addr, Caller: s.caller.Name, Agent: agent[:min(len(agent), longestAgent)],
		As: s.as, Stream: stream, Since: s.readers.now()}}
	g.reached(at)
	return g
}

// reached notes the cursor that the client has reached.
func (g *longRequest) reached(at protocol.Cursor) {
	if was := g.at.Load(); was == nil || *was != at {
		g.at.Store(&at)
	}
}

// list returns the listeners, the earliest first.
func (s *subscribers) list() []Listener {
	s.mu.Lock()
	list := make([]Listener, 0, len(s.requests))
	for g := range s.requests {
		if at := g.at.Load(); at != nil { // not a run of a program
			l := g.listener
			l.Cursor = *at
			list = append(list, l)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b Listener) int { return a.Since.Compare(b.Since) })
	return list
}
