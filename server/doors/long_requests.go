package doors

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/parleyweb/parley/server/internal/limit"
	"github.com/parleyweb/parley/server/internal/web"
)

// A longRequest is a long-lived request: a stream, or a long poll that waits.
type longRequest struct {
	stop context.CancelCauseFunc // ends it gracefully
	cut  context.CancelFunc      // ends it at once
}

// errShutdown is the reason when Close stops long requests.
var errShutdown = errors.New("the site is stopping or restarting")

// admit admits a long request, unless there are too many or the Notifier is closed.
// leave must be called when the request has ended.
func (n *Notifier) admit(r *http.Request, g *longRequest) (leave func(), p *web.Problem) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		p := web.Unavailable(errShutdown.Error())
		p.Type, p.Title = "about:blank", http.StatusText(http.StatusServiceUnavailable)
		return nil, p
	}
	most, each := n.MaxSubscribers, n.PerAddress
	if most <= 0 {
		most = 1000
	}
	if each <= 0 {
		each = 16
	}
	out, p := n.admitted.Enter("subscribers", limit.ClientAddress(r), most, each)
	if p != nil {
		p.Detail += ": use one connection, or poll without wait"
		p.Retry = 30 * time.Second
		return nil, p
	}
	n.longRequests[g] = struct{}{}
	n.served.Add(1)
	return func() {
		out()
		n.mu.Lock()
		delete(n.longRequests, g)
		n.mu.Unlock()
		n.served.Done()
	}, nil
}

// Close sends every stream a bye with its cursor, ends every long poll, and waits
// until all have ended; new ones are rejected from then on. If ctx ends first, the
// remaining connections are cut and its error is returned.
func (n *Notifier) Close(ctx context.Context) error {
	n.init()
	each := func(f func(*longRequest)) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.closed = true
		for g := range n.longRequests {
			f(g)
		}
	}
	each(func(g *longRequest) { g.stop(errShutdown) })
	gone := make(chan struct{})
	go func() {
		n.served.Wait()
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
