package doors

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/caller"
	"github.com/parleyweb/parley/server/internal/limit"
	"github.com/parleyweb/parley/server/internal/web"
)

// Subscribers are the long-lived requests of a site: streams, and long polls that wait. They
// are admitted here, and ended here when the site closes; any number of goroutines may do either.
type subscribers struct {
	most, each int // in all, and per client address
	proxies    caller.Proxies
	admitted   limit.Admission

	mu       sync.Mutex // guards requests and closed, and the use of served.Add
	requests map[*longRequest]struct{}
	closed   bool
	served   sync.WaitGroup
}

// A longRequest is a long-lived request: a stream, a long poll that waits, or a run of a program.
type longRequest struct {
	stop context.CancelCauseFunc // ends it gracefully
	cut  context.CancelFunc      // ends it at once

	listener Listener                        // without the cursor
	at       atomic.Pointer[protocol.Cursor] // that the client has reached; nil for a run of a program
}

// errShutdown is the reason when close stops long requests.
var errShutdown = errors.New("the site is stopping or restarting")

// admit admits a long request, unless there are too many or the site has closed.
// leave must be called when the request has ended.
func (s *subscribers) admit(r *http.Request, g *longRequest) (leave func(), p *web.Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		p := web.Unavailable(errShutdown.Error())
		p.Type, p.Title = "about:blank", http.StatusText(http.StatusServiceUnavailable)
		return nil, p
	}
	out, p := s.admitted.Enter("subscribers", s.proxies.Address(r), s.most, s.each)
	if p != nil {
		p.Detail += ": use one connection, or poll without wait"
		p.Retry = 30 * time.Second
		return nil, p
	}
	if s.requests == nil {
		s.requests = make(map[*longRequest]struct{})
	}
	s.requests[g] = struct{}{}
	s.served.Add(1)
	return func() {
		out()
		s.mu.Lock()
		delete(s.requests, g)
		s.mu.Unlock()
		s.served.Done()
	}, nil
}

// close sends every stream a bye with its cursor, ends every long poll, and waits
// until all have ended; new ones are rejected from then on. If ctx ends first, the
// remaining connections are cut and its error is returned.
func (s *subscribers) close(ctx context.Context) error {
	each := func(f func(*longRequest)) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.closed = true
		for g := range s.requests {
			f(g)
		}
	}
	each(func(g *longRequest) { g.stop(errShutdown) })
	gone := make(chan struct{})
	go func() {
		s.served.Wait()
		close(gone)
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		each(func(g *longRequest) { g.cut() })
		<-gone
		return ctx.Err()
	}
}
