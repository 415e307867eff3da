package server

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// longPoll bounds how long the changes door waits, in seconds.
const longPoll = 60

// serveChanges answers with one Batch of what follows a cursor.
func (n *Notifier) serveChanges(w http.ResponseWriter, r *http.Request) *problem {
	q, p := query(r, "after", "wait", "limit")
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
	m, err := readBatch(r.Context(), n.Log, after, limit, n.Public)
	if err == nil && len(m.Changes) == 0 && wait > 0 && r.Method == http.MethodGet {
		m, p, err = n.poll(w, r, m, limit, time.Duration(wait)*time.Second)
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
func (n *Notifier) poll(w http.ResponseWriter, r *http.Request, m protocol.Message, limit int, wait time.Duration) (protocol.Message, *problem, error) {
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
	for len(m.Changes) == 0 {
		if err := n.Log.Wait(ctx, m.To); err != nil {
			if ctx.Err() != nil {
				err = nil
			}
			return m, nil, err
		}
		next, err := readBatch(ctx, n.Log, m.To, limit, n.Public)
		if err != nil {
			return m, nil, err
		}
		m.To, m.Changes = next.To, next.Changes
	}
	return m, nil, nil
}

// query reads the parameters of a request, of which each may stand once. An
// unknown one is refused by its name: ignored in silence it would be the
// riddle why nothing comes.
func query(r *http.Request, known ...string) (map[string]string, *problem) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badParameter("", "the query cannot be read: "+err.Error())
	}
	q := make(map[string]string, len(values))
next:
	for name, v := range values {
		for _, k := range known {
			if name != k {
				continue
			}
			if len(v) > 1 {
				return nil, badParameter(name, name+" is given more than once")
			}
			q[name] = v[0]
			continue next
		}
		return nil, badParameter(name, fmt.Sprintf("there is no parameter %.100q here, only %s", name, strings.Join(known, ", ")))
	}
	return q, nil
}

// cursorOf reads the parameter after. Without it the cursor is the zero Cursor.
func cursorOf(q map[string]string) (protocol.Cursor, *problem) {
	text, ok := q["after"]
	if !ok {
		return protocol.Cursor{}, nil
	}
	c, err := protocol.ParseCursor(text)
	if err != nil {
		return c, badParameter("after", err.Error())
	}
	return c, nil
}

// numberOf reads a parameter that is a whole number from least to most.
func numberOf(q map[string]string, name string, least, most, otherwise int) (int, *problem) {
	text, ok := q[name]
	if !ok {
		return otherwise, nil
	}
	v, err := strconv.Atoi(text)
	if err != nil || v < least || v > most {
		return 0, badParameter(name, fmt.Sprintf("%s must be a whole number from %d to %d", name, least, most))
	}
	return v, nil
}
