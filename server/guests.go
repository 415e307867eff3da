package server

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// A guest is a request that lasts: a stream, or a long poll that waits.
type guest struct {
	stop context.CancelCauseFunc // ends it in peace
	cut  context.CancelFunc      // ends it at once
}

// errShutdown is why guests are stopped by Close.
var errShutdown = errors.New("the site stops or restarts")

// admit lets a guest in, unless there are too many or the Notifier is closed.
// What it returns is to be called when the guest has gone.
func (n *Notifier) admit(r *http.Request, g *guest) (leave func(), p *problem) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		p := unavailable(errShutdown.Error())
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
	out, p := n.admitted.enter("subscribers", clientAddress(r), most, each)
	if p != nil {
		p.Detail += ": keep one, or ask without wait"
		p.retry = 30 * time.Second
		return nil, p
	}
	n.guests[g] = struct{}{}
	n.served.Add(1)
	return func() {
		out()
		n.mu.Lock()
		delete(n.guests, g)
		n.mu.Unlock()
		n.served.Done()
	}, nil
}

// Close says goodbye to every stream, with where to resume, ends every long
// poll, and waits until all have gone; new ones are refused from then on. When
// ctx ends before, the rest is cut and its error returned.
func (n *Notifier) Close(ctx context.Context) error {
	n.init()
	each := func(f func(*guest)) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.closed = true
		for g := range n.guests {
			f(g)
		}
	}
	each(func(g *guest) { g.stop(errShutdown) })
	gone := make(chan struct{})
	go func() {
		n.served.Wait()
		close(gone)
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		each(func(g *guest) { g.cut() })
		<-gone
		return ctx.Err()
	}
}
