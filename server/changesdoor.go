package server

import (
	"context"
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
	q, p := query(r, append(selectionNames(), "after", "wait", "limit")...)
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
	limit, p := numberOf(q, "limit", 1, protocol.MaxBatch, protocol.MaxBatch)
	if p != nil {
		return p
	}
	if p := n.scanning(); p != nil {
		return p
	}
	m, err := n.next(r.Context(), sel, after, limit)
	if err == nil && m.Kind == protocol.Batch && len(m.Changes) == 0 && wait > 0 && r.Method == http.MethodGet {
		m, p, err = n.poll(w, r, sel, m, limit, time.Duration(wait)*time.Second)
	}
	switch {
	case p != nil:
		return p
	case r.Context().Err() != nil:
		return nil // nobody is there to be answered
	case err != nil:
		if p = n.cursorProblem(after, err); p != nil {
			return p
		}
		orDiscard(n.Logger).Error("changes could not be read", "after", after.String(), "err", err)
		return plainProblem(http.StatusInternalServerError, "the journal could not be read")
	}
	m.Head = n.Log.Head()
	n.stats.batches.Add(1)
	n.stats.told.Add(int64(len(m.Changes)))
	writeJSON(w, append(m.Encode(), '\n'))
	return nil
}

// poll waits until there is something to tell, the time is over, or the site
// stops; then it returns the batch, which may be empty.
func (n *Notifier) poll(w http.ResponseWriter, r *http.Request, s *selection, m protocol.Message, limit int, wait time.Duration) (protocol.Message, *problem, error) {
	ctx, stop := context.WithCancelCause(r.Context())
	defer stop(nil)
	leave, p := n.admit(r, &guest{stop: stop, cut: func() { stop(errShutdown) }})
	if p != nil {
		return m, p, nil
	}
	defer leave()
	n.deadline(w, wait)
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for m.Kind == protocol.Batch && len(m.Changes) == 0 {
		if err := n.Log.Wait(ctx, m.To); err != nil {
			if ctx.Err() != nil {
				err = nil
			}
			return m, nil, err
		}
		next, err := n.next(ctx, s, m.To, limit)
		if err != nil {
			return m, nil, err
		}
		next.From = m.From
		m = next
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

// query reads the parameters of a request. An unknown one is refused by its
// name: ignored in silence it would be the riddle why nothing comes.
func query(r *http.Request, known ...string) (url.Values, *problem) {
	q, err := url.ParseQuery(r.URL.RawQuery)
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
