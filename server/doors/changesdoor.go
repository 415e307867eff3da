package doors

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/internal/limit"
	"github.com/parleyweb/parley/server/internal/web"
)

// longPoll bounds how long the changes door waits, in seconds.
const longPoll = 60

// A changesDoor answers with the changes after a cursor, at once or when there are any.
type changesDoor struct {
	*site
	readers     *readers
	delivery    *delivery
	subscribers *subscribers
	pullOnly    bool
	counts      *counters
	coder       web.Coder
}

// serve answers with one Batch of what follows a cursor.
func (d *changesDoor) serve(w http.ResponseWriter, r *http.Request) *web.Problem {
	q, p := web.Parameters(w, r, append(selectionNames(), "after", "wait", "limit")...)
	if p != nil {
		return p
	}
	sel, p := d.readers.selection(r, q)
	if p != nil {
		return p
	}
	after, p := web.Cursor(q)
	if p != nil {
		return p
	}
	wait, p := web.Number(q, "wait", 0, longPoll, 0)
	if p != nil {
		return p
	}
	count, p := web.Number(q, "limit", 1, protocol.MaxBatch, 0)
	if p != nil {
		return p
	}
	if p := d.scanning(); p != nil {
		return p
	}
	if d.pullOnly || r.Method == http.MethodHead {
		wait = 0
	}
	sel.every = 0 // a poll wants what there is
	d.deadline(w, mostWork)
	m, err := d.delivery.readOn(r.Context(), sel, protocol.Message{Kind: protocol.Batch, From: after, To: after}, count, readOnFor)
	if wait > 0 && hasNoChanges(&m) && (err == nil || errors.As(err, new(*notReady))) {
		if m, p, err = d.poll(w, r, sel, m, count, time.Duration(wait)*time.Second); p != nil {
			return p
		}
		if !sel.isStillKnown(r) {
			return unknownCaller(errNoCaller)
		}
	}
	none := (*notReady)(nil)
	switch {
	case errors.As(err, &none) && none.why != "":
		p := web.Unavailable(none.why)
		p.Title, p.Retry = "the requested content is not ready yet", makingRetry
		return p
	case err != nil && none == nil, r.Context().Err() != nil:
		return d.failed(r, after, err)
	}
	m.Head = d.log.Head()
	d.deadline(w, 0) // the reader gets its full time to read
	text := append(m.Encode(), '\n')
	d.counts.answered(sel.as, m.ChangeCount(), len(text))
	d.coder.Write(w, r, text)
	return nil
}

// makingRetry is the Retry-After while the answer is being made.
const makingRetry = 10 * time.Second

// poll reads on from a message without changes until there is something to send,
// the time is over, or the site stops. The error is a *notReady if it waited in vain.
func (d *changesDoor) poll(w http.ResponseWriter, r *http.Request, s *selection, m protocol.Message, count int, wait time.Duration) (protocol.Message, *web.Problem, error) {
	ctx, stop := context.WithCancelCause(r.Context())
	defer stop(nil)
	request := newLongRequest(r, s, m.To, false)
	request.stop, request.cut = stop, func() { stop(errShutdown) }
	leave, p := d.subscribers.admit(r, request)
	if p != nil {
		return m, p, nil
	}
	defer leave()
	s.listens = true
	d.deadline(w, wait+mostWork)
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		var err error
		m, err = d.delivery.readOn(ctx, s, m, count, wait)
		request.reached(m.To)
		if none := (*notReady)(nil); errors.As(err, &none) {
			if failed := none.until(ctx); failed == nil {
				continue
			} else if ctx.Err() == nil {
				err = failed
			}
		} else if errors.Is(err, limit.ErrBusy) {
			continue // it has time to wait anyway
		} else if ctx.Err() != nil {
			err = nil // its time is over
		}
		return m, nil, err
	}
}
