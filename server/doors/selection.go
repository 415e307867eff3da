package doors

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/caller"
	"github.com/parleyweb/parley/server/internal/limit"
	"github.com/parleyweb/parley/server/internal/public"
	"github.com/parleyweb/parley/server/internal/web"
)

// A selection is what a request asks for, apart from its cursor: the caller, the form
// and the filter. Polling and push read it from the same parameters, and requests
// with equal selections share the frames made for them.
type selection struct {
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

	addr    string // the client address for limits; see ClientAddress
	listens bool   // a stream, or a long poll: it waits for changes

	key string // equal for all requests of equal selections
}

// bounds of as=batch.
const (
	longestEvery = 24 * 60 * 60 // seconds
	mostCount    = 100_000      // changes
)

// selectionOf parses the selection of a request.
func (n *Notifier) selectionOf(r *http.Request, q url.Values) (*selection, *web.Problem) {
	s := &selection{addr: limit.ClientAddress(r)}
	var p *web.Problem
	if s.caller, p = n.callerOf(r); p != nil {
		return nil, p
	}
	var err error
	if s.as, err = protocol.ParseForm(q.Get("as")); err != nil {
		return nil, web.BadParameter("as", err.Error())
	}
	if !n.offers(s.as) {
		return nil, web.BadParameter("as", fmt.Sprintf("this site does not offer the form %s: see %s for its forms", s.as, n.doors.discovery))
	}
	if s.as == protocol.AsSite && !n.mayReadArchive(s.caller) {
		return nil, archiveRefused()
	}
	if s.filter, err = protocol.ParseFilter(q); err != nil {
		wrong := new(protocol.ParameterError)
		errors.As(err, &wrong)
		return nil, web.BadParameter(wrong.Name, err.Error())
	}
	if s.filter.Where != "" {
		if n.Where == nil {
			return nil, web.BadParameter("where", "this site evaluates no expressions")
		}
		t, err := n.slots.Acquire(r.Context(), s.addr, limit.Evaluating, n.writeWait()/4, true) // compiling takes as long as evaluating
		if err != nil {
			return nil, limit.Busy(err)
		}
		s.where, err = n.Where(s.filter.Where)
		t.Release()
		if err != nil {
			return nil, web.BadParameter("where", err.Error())
		}
	}
	if a := s.filter.Agent; !a.IsZero() {
		if n.Agents == nil {
			return nil, web.BadParameter("agent", "this site runs no programs")
		}
		if s.as == protocol.AsBatch {
			return nil, web.BadParameter("agent", "programs do not run on bundles: use another form, or run the program on all pages at "+n.Base+agentsRunPath)
		}
		if !s.caller.Agents {
			return nil, web.Plain(http.StatusForbidden, "only callers that this site has authorized may run programs")
		}
		if err := n.Agents.Has(s.caller.Name, a); err != nil {
			return nil, web.BadParameter("agent", err.Error())
		}
	}
	every, p := web.Number(q, "every", 1, longestEvery, 1)
	if p != nil {
		return nil, p
	}
	if s.count, p = web.Number(q, "count", 1, mostCount, mostCount); p != nil {
		return nil, p
	}
	s.every = time.Duration(every) * time.Second
	if s.as != protocol.AsBatch && (q.Has("every") || q.Has("count")) {
		return nil, web.BadParameter("every", "every and count apply only to bundles (as=batch)")
	}
	if s.as == protocol.AsBatch {
		last := protocol.Cursor{Epoch: strings.Repeat("x", 64), Seq: math.MaxUint64}
		if len(n.bundleURL(s, last, last)) > protocol.MaxURL {
			return nil, web.BadParameter("", "the filter is too long for the URL of a bundle: shorten it, or use another form")
		}
	}
	key := s.filter.Query()
	key.Set("as", string(s.as))
	key.Set("caller", s.caller.Name)
	if s.as == protocol.AsBatch {
		key.Set("count", strconv.Itoa(s.count))
		key.Set("every", strconv.Itoa(every))
	}
	s.key = key.Encode()
	return s, nil
}

// selectionNames are the parameters that selectionOf reads.
func selectionNames() []string {
	return append([]string{"as", "every", "count"}, protocol.FilterNames()...)
}

// offers reports whether this site delivers changes in a form.
func (n *Notifier) offers(f protocol.Form) bool {
	switch f {
	case protocol.AsMeta:
		return true
	case protocol.AsSite:
		return n.Archive != nil
	}
	return n.Pages != nil
}

// forms returns the forms that this site offers.
func (n *Notifier) forms() (list []protocol.Form) {
	for _, f := range protocol.Forms() {
		if n.offers(f) {
			list = append(list, f)
		}
	}
	return list
}

// filters returns the filter parameters that this site supports.
func (n *Notifier) filters() []string {
	return slices.DeleteFunc(protocol.FilterNames(), func(name string) bool {
		return name == "where" && n.Where == nil || name == "agent" && n.Agents == nil
	})
}

// callerOf returns the caller of a request.
func (n *Notifier) callerOf(r *http.Request) (caller.Caller, *web.Problem) {
	if n.Identify == nil {
		return caller.Caller{}, nil
	}
	c, err := n.Identify(r)
	if err != nil {
		return caller.Caller{}, unknownCaller(err)
	}
	return c, nil
}

func unknownCaller(err error) *web.Problem {
	p := web.Plain(http.StatusUnauthorized, err.Error())
	p.Challenge = "Bearer"
	return p
}

// errNoCaller ends the delivery to a caller that was known when its request began.
var errNoCaller = errors.New("the token was revoked or its rights have changed")

// stillKnows reports whether a waiting request would be identified as the same caller now.
func (n *Notifier) stillKnows(r *http.Request, c caller.Caller) bool {
	if n.Identify == nil {
		return true
	}
	now, err := n.Identify(r)
	return err == nil && now.Name == c.Name && (now.Agents || !c.Agents)
}

// archiveRefused refuses the archive to a caller whom robots.txt forbids a part of it.
func archiveRefused() *web.Problem {
	return web.Plain(http.StatusForbidden, "the archive is the same for all clients, and robots.txt has rules of its own for you: "+
		"request bundles (as=batch) or changes instead")
}

// public reports whether a URL may be told to the caller.
func (n *Notifier) public(s *selection, url string) bool {
	return (n.Public == nil || n.Public(url)) && n.allowed(s, url)
}

// allowed reports whether the rules that robots.txt has for the caller allow a URL.
func (n *Notifier) allowed(s *selection, url string) bool {
	return s.caller.Name == "" || n.PublicTo == nil || n.PublicTo(s.caller.Name, url)
}

// selects returns a change as the reader is to receive it now, with the output of
// its own program; false if it is not to be delivered. Changes that the present rules
// forbid are not delivered, in replay neither.
func (n *Notifier) selects(ctx context.Context, s *selection, c protocol.Change) (protocol.Change, protocol.Body, bool, error) {
	var output protocol.Body
	c, ok := public.Change(c, func(url string) bool { return n.public(s, url) })
	if c.Op == protocol.Delete && !n.allowed(s, c.Item.URL) {
		ok = false // the reader was never to know of the page
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
		output, ok, err = n.askAgent(ctx, s, &c)
	}
	return c, output, ok, err
}

// acquireSlot waits for a slot for a selection's request. After mostWork the slot's Renew
// returns limit.ErrBusy. For an answer that has begun, neither wait nor work is limited.
func (n *Notifier) acquireSlot(ctx context.Context, s *selection, begun bool) (*limit.Slot, error) {
	if begun {
		return n.slots.Acquire(ctx, s.addr, limit.Answering, 0, false)
	}
	k := limit.Answering
	switch {
	case s.where != nil:
		k = limit.Evaluating
	case s.listens:
		k = limit.Delivering
	}
	end := time.Now().Add(mostWork)
	t, err := n.slots.Acquire(ctx, s.addr, k, n.writeWait()/4, !s.listens)
	if err != nil {
		return nil, err
	}
	t.End = end
	return t, nil
}

// ClientAddress returns the address that per-address limits count a request for: its peer or, of a peer on
// this machine, which counts as a proxy, the last hop of its X-Forwarded-For. It is empty if there is none.
func ClientAddress(r *http.Request) string { return limit.ClientAddress(r) }
