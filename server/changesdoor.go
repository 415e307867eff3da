package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// longPoll bounds how long the changes door waits, in seconds.
const longPoll = 60

// serveChanges answers with one Batch of what follows a cursor.
func (n *Notifier) serveChanges(w http.ResponseWriter, r *http.Request) *problem {
	q, p := questionOf(w, r, append(selectionNames(), "after", "wait", "limit")...)
	if p != nil {
		return p
	}
	sel, p := n.selectionOf(r, q)
	if p != nil {
		return p
	}
	after, p := cursorOf(q)
	if p != nil {
		return p
	}
	wait, p := numberOf(q, "wait", 0, longPoll, 0)
	if p != nil {
		return p
	}
	limit, p := numberOf(q, "limit", 1, protocol.MaxBatch, 0)
	if p != nil {
		return p
	}
	if p := n.scanning(); p != nil {
		return p
	}
	if n.PullOnly {
		wait = 0
	}
	n.deadline(w, mostWork)
	m, err := n.look(r.Context(), sel, after, limit)
	if errors.Is(err, errNoArchive) {
		m = protocol.Message{Kind: protocol.Batch, From: after, To: after}
	}
	if wait > 0 && r.Method != http.MethodHead && (errors.Is(err, errNoArchive) || err == nil && tellsNothing(&m)) {
		m, p, err = n.poll(w, r, sel, m, limit, time.Duration(wait)*time.Second)
	}
	switch {
	case p != nil:
		return p
	case r.Context().Err() != nil:
		return nil // nobody is there to be answered
	case errors.Is(err, errBusy), errors.Is(err, errCrowd):
		return busy(err)
	case errors.Is(err, errNoArchive):
		p := unavailable("the archive of the whole site is being made")
		p.Title, p.retry = "the archive of the site is not made yet", archiveRetry
		return p
	case err != nil:
		if p = n.cursorProblem(after, err); p != nil {
			return p
		}
		orDiscard(n.Logger).Error("changes could not be read", "after", after.String(), "err", err)
		return plainProblem(http.StatusInternalServerError, "the journal could not be read")
	}
	m.Head = n.Log.Head()
	n.deadline(w, 0) // what it took to find this is not its reader's fault
	text := append(m.Encode(), '\n')
	n.stats.answered(sel.as, max(len(m.Changes), m.N), len(text))
	n.coder.write(w, r, text)
	return nil
}

// archiveRetry is when to ask again for an archive that is being made.
const archiveRetry = 10 * time.Second

// lookOn is how long an answer is looked for at once where what comes next
// may not be told, or is not asked for.
const lookOn = 300 * time.Millisecond

// tellsNothing reports whether a message only moves the watermark.
func tellsNothing(m *protocol.Message) bool {
	return m.Kind == protocol.Batch && len(m.Changes) == 0
}

// look returns what follows a cursor. Where that is nothing for this reader it
// looks on for a while, so that he need not ask a hundred times over.
func (n *Notifier) look(ctx context.Context, s *selection, after protocol.Cursor, limit int) (protocol.Message, error) {
	m, err := n.next(ctx, s, after, limit)
	more := true
	for end := time.Now().Add(lookOn); err == nil && more && tellsNothing(&m) && m.To != n.Log.Head() && time.Now().Before(end); {
		m, more, err = n.lookAfter(ctx, s, m, limit)
	}
	return m, err
}

// lookAfter returns what follows a message that tells nothing, together with
// it. It returns the message itself, and false, where the two cannot be one:
// the content of a bundle names the cursor that it follows. Whoever is answered
// that there was nothing so far asks again from there.
func (n *Notifier) lookAfter(ctx context.Context, s *selection, m protocol.Message, limit int) (together protocol.Message, ok bool, err error) {
	next, err := n.next(ctx, s, m.To, limit)
	if err != nil {
		return m, true, err
	}
	if next.Kind == protocol.Bundle && m.From != m.To {
		return m, false, nil
	}
	next.From = m.From
	return next, true, nil
}

// poll waits until there is something to tell, the time is over, or the site
// stops; then it returns the batch, which may be empty. Its To is how far the
// journal was looked through. m tells nothing.
func (n *Notifier) poll(w http.ResponseWriter, r *http.Request, s *selection, m protocol.Message, limit int, wait time.Duration) (protocol.Message, *problem, error) {
	ctx, stop := context.WithCancelCause(r.Context())
	defer stop(nil)
	leave, p := n.admit(r, &guest{stop: stop, cut: func() { stop(errShutdown) }})
	if p != nil {
		return m, p, nil
	}
	defer leave()
	s.listens = true
	n.deadline(w, wait+mostWork)
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for tellsNothing(&m) {
		latest := Archived{}
		if s.as == protocol.AsSite {
			latest, _ = n.Archive.Latest()
		}
		next, ok, err := n.lookAfter(ctx, s, m, limit)
		if !ok {
			return m, nil, nil
		}
		if err == nil && next.To == m.To {
			err = n.Log.Wait(ctx, m.To)
		} else if err == nil {
			m = next
		}
		if errors.Is(err, errBusy) {
			continue // it waits anyway
		}
		if errors.Is(err, errNoArchive) {
			if n.Archive.Wait(ctx, latest) == nil {
				continue
			}
			return m, nil, err
		}
		if err != nil {
			if ctx.Err() != nil {
				err = nil // its time is over
			}
			return m, nil, err
		}
	}
	return m, nil, nil
}

// single names the parameters that may stand once; those of a filter may be repeated.
func single(name string) bool {
	switch name {
	case "prefix", "match", "type", "op", "lang":
		return false
	}
	return true
}

// query reads the parameters of a request that stand in its URL.
func query(r *http.Request, known ...string) (url.Values, *problem) {
	return parameters(r.URL.RawQuery, known...)
}

// parameters reads parameters as a URL has them. An unknown one is refused by
// its name: ignored in silence it would be the riddle why nothing comes.
func parameters(written string, known ...string) (url.Values, *problem) {
	q, err := url.ParseQuery(written)
	if err != nil {
		return nil, badParameter("", "the query cannot be read: "+err.Error())
	}
	for name, v := range q {
		if !slices.Contains(known, name) {
			return nil, badParameter(name, fmt.Sprintf("there is no parameter %.100q here, only %s", name, strings.Join(known, ", ")))
		}
		if len(v) > 1 && single(name) {
			return nil, badParameter(name, name+" is given more than once")
		}
	}
	return q, nil
}

// cursorOf reads the parameter after. Without it the cursor is the zero Cursor.
func cursorOf(q url.Values) (protocol.Cursor, *problem) {
	if !q.Has("after") {
		return protocol.Cursor{}, nil
	}
	c, err := protocol.ParseCursor(q.Get("after"))
	if err != nil {
		return c, badParameter("after", err.Error())
	}
	return c, nil
}

// numberOf reads a parameter that is a whole number from least to most.
func numberOf(q url.Values, name string, least, most, otherwise int) (int, *problem) {
	if !q.Has(name) {
		return otherwise, nil
	}
	v, err := strconv.Atoi(q.Get(name))
	if err != nil || v < least || v > most {
		return 0, badParameter(name, fmt.Sprintf("%s must be a whole number from %d to %d", name, least, most))
	}
	return v, nil
}
