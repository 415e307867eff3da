package doors

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/caller"
	"github.com/parleyweb/parley/server/internal/limit"
)

// A selection is what a request asks for, apart from its cursor: the caller, the form
// and the filter. Polling and push read it from the same parameters, and requests
// with equal selections share the frames made for them.
type selection struct {
	readers *readers

	caller caller.Caller
	as     protocol.Form
	filter protocol.Filter
	where  caller.Predicate // compiled from filter.Where; nil selects every change

	// When a Bundle is due on a stream: so long after its first change, or as soon as
	// it has so many changes. A poll waits for neither: every is zero.
	every time.Duration
	count int

	gathers struct { // a bundle that is not due yet
		after protocol.Cursor
		since time.Time
	}

	addr    string // the client address for limits; see caller.Proxies
	listens bool   // a stream, or a long poll: it waits for changes

	key string // equal for all requests of equal selections
}

// errNoCaller ends the delivery to a caller that was known when its request began.
var errNoCaller = errors.New("the token was revoked or its rights have changed")

// isStillKnown reports whether a waiting request would be identified as the same caller now.
func (s *selection) isStillKnown(r *http.Request) bool {
	if s.readers.clients.Identify == nil {
		return true
	}
	now, err := s.readers.clients.Identify(r)
	return err == nil && now.Name == s.caller.Name && (now.Agents || !s.caller.Agents)
}

// public reports whether the caller may be told of a URL.
func (s *selection) public(url string) bool {
	return (s.readers.public == nil || s.readers.public(url)) && s.allowed(url)
}

// allowed reports whether the rules that robots.txt has for the caller allow a URL.
func (s *selection) allowed(url string) bool {
	return s.caller.Name == "" || s.readers.clients.PublicTo == nil || s.readers.clients.PublicTo(s.caller.Name, url)
}

// selects returns a change as the reader is to receive it now, with the output of
// its own program; false if it is not to be delivered. Changes that the present rules
// forbid are not delivered, in replay neither.
func (s *selection) selects(ctx context.Context, c protocol.Change) (protocol.Change, protocol.Body, bool, error) {
	var output protocol.Body
	c, ok := c.Public(s.public)
	if c.Op == protocol.Delete && !s.allowed(c.Item.URL) {
		ok = false // the reader must not know of the page
	}
	if !ok {
		return c, output, false, nil
	}
	is := c
	c, ok = s.filter.Apply(c)
	var err error
	if ok && s.where != nil {
		c, ok, err = s.asks(ctx, c)
	}
	if !ok && err == nil && is.Op == protocol.Update {
		c, ok, err = s.leaves(ctx, is)
	}
	c.Before = nil // it is not sent
	if err != nil {
		return c, output, false, err
	}
	if ok && !s.filter.Agent.IsZero() {
		output, ok, err = s.askAgent(ctx, &c)
	}
	return c, output, ok, err
}

// asks evaluates the expression for a change that matched the rest of the selection.
// A move that it rejects becomes the delete of the old URL, if it accepts that: a
// reader that knows the page must learn that it has gone.
func (s *selection) asks(ctx context.Context, c protocol.Change) (protocol.Change, bool, error) {
	ok, err := s.where(ctx, &c)
	if !ok && err == nil && c.Op == protocol.Move && (len(s.filter.Ops) == 0 || slices.Contains(s.filter.Ops, protocol.Delete)) {
		gone := c.Departure()
		if ok, err = s.where(ctx, &gone); ok {
			c = gone
		}
	}
	if err != nil {
		return c, false, fmt.Errorf("evaluate expression: %w", err)
	}
	return c, ok, nil
}

// leaves returns an update as the delete of its page, if the update takes the page out of the
// selection: it does not match with the page as it is, and would match with the page as it was.
// Updates recorded by an older version do not say how the page was: any of them may be such
// a one, and the delete of a page that the reader does not have does no harm.
func (s *selection) leaves(ctx context.Context, c protocol.Change) (protocol.Change, bool, error) {
	gone := c.Left()
	if len(s.filter.Ops) > 0 && !slices.Contains(s.filter.Ops, protocol.Delete) {
		return gone, false, nil
	}
	if c.Before == nil {
		if !s.filter.WantsURL(c.Item.URL) {
			return gone, false, nil
		}
	} else if was, err := s.wants(ctx, c, c.Before); !was || err != nil {
		return gone, false, err
	}
	if is, err := s.wants(ctx, c, &c.Item); is || err != nil {
		return gone, false, err
	}
	if s.where == nil {
		return gone, true, nil
	}
	return s.asks(ctx, gone)
}

// wants reports whether a page matches the parameters and, if there is an expression,
// whether the change that led to it matches that.
func (s *selection) wants(ctx context.Context, c protocol.Change, page *protocol.Item) (bool, error) {
	if !s.filter.Wants(page) {
		return false, nil
	}
	if s.where == nil {
		return true, nil
	}
	c.Item = *page
	_, ok, err := s.asks(ctx, c)
	return ok, err
}

// acquireSlot waits for a slot for the request. After mostWork the slot's Renew
// returns limit.ErrBusy. For an answer that has begun, neither wait nor work is limited.
func (s *selection) acquireSlot(ctx context.Context, begun bool) (*limit.Slot, error) {
	if begun {
		return s.readers.slots.Acquire(ctx, s.addr, limit.Answering, 0, false)
	}
	k := limit.Answering
	switch {
	case s.where != nil:
		k = limit.Evaluating
	case s.listens:
		k = limit.Delivering
	}
	end := time.Now().Add(mostWork)
	t, err := s.readers.slots.Acquire(ctx, s.addr, k, s.readers.writeWait/4, !s.listens)
	if err != nil {
		return nil, err
	}
	t.End = end
	return t, nil
}

// bundleURL returns the URL of the selection's bundle between two cursors.
func (s *selection) bundleURL(after, to protocol.Cursor) string {
	q := s.filter.Query()
	q.Set("after", after.String())
	q.Set("to", to.String())
	return s.readers.urls.base + batchPath + "?" + q.Encode()
}
