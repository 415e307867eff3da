package harvest

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// exchange2 is exchange for HTTP/2. Its transport reads the connection by itself,
// so timers replace the deadlines of the connection.
func (h *Harvester) exchange2(ctx context.Context, c *conn, s *site, t Task, a *Answer) (reusable bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(positive(h.HeaderTimeout, defaultHeader), func() { cancel(errSilent) })
	defer silence.Stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, t.URL, nil)
	if err != nil {
		return true, err
	}
	r.Header = h.header(s, t, a.base)
	c.pages++
	c.wire = 0
	resp, err := c.h2.RoundTrip(r)
	if err != nil {
		return false, cause(ctx, err)
	}
	defer resp.Body.Close()
	silence.Stop()
	c.wire++
	h.head(a, resp)
	limit := h.limit(t)
	p := &paced{r: resp.Body, c: c, cancel: cancel}
	defer p.stop()
	resp.Body = p
	_, err = h.body(ctx, a, resp, limit, func() {
		c.expect(h.patience(limit), positive(h.Window, defaultWindow), h.speed())
		p.begin()
	})
	return faultOf(err) == FaultSize || err == nil, cause(ctx, err)
}

// cause returns the cause of ctx's end, if it has ended, or else err.
func cause(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}

// A paced body counts its bytes, and a timer gives it up if it is too slow.
type paced struct {
	r      io.ReadCloser
	cancel context.CancelCauseFunc

	mu    sync.Mutex // guards the rest
	c     *conn
	timer *time.Timer
	ended bool
}

func (p *paced) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	p.mu.Lock()
	p.c.got += int64(n)
	p.c.wire += int64(n)
	p.mu.Unlock()
	return n, err
}

func (p *paced) Close() error { return p.r.Close() }

func (p *paced) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(time.Until(earlier(p.c.begun.Add(p.c.window), p.c.end)), p.tick)
}

func (p *paced) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	if err := p.c.windowEnds(time.Now()); err != nil {
		p.cancel(err)
		return
	}
	p.timer.Reset(time.Until(earlier(p.c.begun.Add(p.c.window), p.c.end)))
}

func (p *paced) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.timer != nil {
		p.timer.Stop()
	}
}
