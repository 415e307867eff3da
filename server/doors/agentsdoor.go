package doors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/caller"
	"github.com/parleyweb/parley/server/content"
	"github.com/parleyweb/parley/server/internal/web"
)

const (
	mostAgent     = 8 << 20          // bytes of a program
	agentArrive   = time.Minute      // how long a program may take to arrive
	agentLoad     = 45 * time.Second // how long it may take to be compiled
	mostAgentPage = 4 << 20          // bytes of a page that is passed to programs

	// programsAtOnce is how many programs are received at a time. Compiling one
	// takes a second, and a hundred times its size in memory.
	programsAtOnce = 4

	// agentsTime is how long a program judges changes for one message, which then
	// ends; agentTurn is how long one change waits for the program, including the wait for
	// other programs, before it is sent without its output.
	agentsTime = 3 * time.Second
	agentTurn  = 10 * time.Second
)

// serveAgents stores a program:
//
//	POST BASE/parley/agents
//	Authorization: Bearer TOKEN
//	Content-Type: application/wasm
//
// 201 answers {"agent": DIGEST}, the value for the parameter agent. Package server/agent
// documents what a program is, and what it may do. 401 and 403: the caller may send
// none; 413: it is too large; 415: it is of another type; 422: it cannot be run, or has
// failed too often; 429: too many are stored here, or sent at a time.
func (n *Notifier) serveAgents(w http.ResponseWriter, r *http.Request) *web.Problem {
	c, p := n.agentSender(r)
	if p != nil {
		return p
	}
	if _, p := web.BodyType(r.Header, "programs", "application/wasm"); p != nil {
		return p
	}
	leave, p := n.programs.Enter("programs", "caller "+c.Name, programsAtOnce, 1)
	if p != nil {
		return p
	}
	defer leave()
	n.deadline(w, agentArrive)
	program, p := web.ReadBody(w, r, "programs", mostAgent)
	if p != nil {
		return p
	}
	n.deadline(w, agentLoad)
	ctx, stop := context.WithTimeout(r.Context(), agentLoad)
	defer stop()
	digest, err := n.Agents.Keep(ctx, c.Name, program)
	switch {
	case err == nil:
	case r.Context().Err() != nil:
		return nil // the client has gone
	case errors.Is(err, caller.ErrProgram):
		return web.Plain(http.StatusUnprocessableEntity, err.Error())
	case errors.Is(err, caller.ErrNoRoom):
		p := web.Plain(http.StatusTooManyRequests, err.Error())
		p.Type, p.Retry = web.TypeLimit, time.Hour
		return p
	case ctx.Err() != nil:
		p := web.Plain(http.StatusServiceUnavailable, "other programs are running: upload the program again in 30 s")
		p.Retry = 30 * time.Second
		return p
	default:
		n.log().Error("agent could not be stored", "caller", c.Name, "err", err)
		return web.Plain(http.StatusInternalServerError, "the program could not be stored")
	}
	b, err := json.Marshal(protocol.AgentStored{Agent: digest})
	if err != nil {
		panic("doors: encode answer: " + err.Error()) // plain values always encode
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusCreated)
	w.Write(append(b, '\n')) // the client may have gone
	return nil
}

// agentSender returns the caller, if it may have programs run.
func (n *Notifier) agentSender(r *http.Request) (caller.Caller, *web.Problem) {
	c, p := n.callerOf(r)
	switch {
	case p != nil:
		return c, p
	case c.Agents:
		return c, nil
	case r.Header.Get("Authorization") == "":
		p = web.Plain(http.StatusUnauthorized, "send a bearer token: only callers that this site has authorized may run programs")
		p.Challenge = "Bearer"
		return c, p
	}
	return c, web.Plain(http.StatusForbidden, "only callers that this site has authorized may run programs")
}

// serveAgentRun calls a program for every page that exists now, as if each had
// just been created:
//
//	POST BASE/parley/agents/run?agent=DIGEST&prefix=/news/
//
// The answer is application/x-ndjson: a [protocol.AgentOutput] for each page that the
// program accepts, perhaps empty lines, and a [protocol.AgentEnd]. From its cursor the client
// goes on with the same parameters at the changes door, or by stream.
func (n *Notifier) serveAgentRun(w http.ResponseWriter, r *http.Request) *web.Problem {
	q, p := web.Query(r, slices.DeleteFunc(protocol.FilterNames(), ofChanges)...)
	if p != nil {
		return p
	}
	if _, p := n.agentSender(r); p != nil {
		return p
	}
	s, p := n.selectionOf(r, q)
	switch {
	case p != nil:
		return p
	case s.filter.Agent.IsZero():
		return web.BadParameter("agent", "the program is missing: give the digest that its upload returned")
	}
	if p := n.scanning(); p != nil {
		return p
	}
	ctx, stop := context.WithCancelCause(r.Context())
	defer stop(nil)
	leave, p := n.admit(r, &longRequest{stop: stop, cut: func() { stop(errShutdown) }})
	if p != nil {
		return p
	}
	defer leave()
	at, items, err := n.itemsAfter(ctx, "")
	if err != nil {
		return n.failed(r, protocol.Cursor{}, err)
	}
	h := w.Header()
	h.Set("Content-Type", "application/x-ndjson")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	out := &agentLines{enc: json.NewEncoder(n.patient(w)), w: n.patient(w), every: min(longestSilence, n.writeWait()/4), last: time.Now()}
	out.enc.SetEscapeHTML(false)
	http.NewResponseController(w).Flush() // send the header at once; not every ResponseWriter can
	end := protocol.AgentEnd{To: at}
	for len(items) > 0 && err == nil {
		for i := range items {
			if err = n.runAgent(ctx, s, items[i], out, &end); err != nil {
				break
			}
		}
		if err == nil {
			_, items, err = n.itemsAfter(ctx, items[len(items)-1].URL)
		}
	}
	if err != nil {
		if ctx.Err() == nil {
			n.log().Error("agent run ended before all pages were processed", "agent", s.filter.Agent.String(), "err", err)
		}
		return nil // the last line is missing
	}
	out.enc.Encode(end) // the client may have gone
	return nil
}

// itemsAfter returns some items after a URL, and the present cursor. Changes made
// before the rest is read are delivered after the first cursor.
func (n *Notifier) itemsAfter(ctx context.Context, url string) (at protocol.Cursor, items []protocol.Item, err error) {
	const some = 500
	m, err := n.Items(ctx)
	if err != nil {
		return at, nil, err
	}
	defer m.Close()
	for item, err := range m.Items(url) {
		if err != nil {
			return at, nil, err
		}
		if items = append(items, item); len(items) == some {
			break
		}
	}
	return m.Cursor, items, nil
}

// runAgent calls the program for one existing page.
func (n *Notifier) runAgent(ctx context.Context, s *selection, item protocol.Item, out *agentLines, end *protocol.AgentEnd) error {
	if err := out.silence(); err != nil {
		return err
	}
	if !n.public(s, item.URL) || !s.filter.Wants(&item) {
		return ctx.Err()
	}
	c := protocol.Change{Seq: end.To.Seq, Op: protocol.Create, At: item.Modified, Item: item}
	if s.where != nil {
		asked, ok, err := s.asks(ctx, c)
		if err != nil || !ok {
			return err
		}
		c = asked
	}
	n.deadline(out.w.ResponseWriter, agentTurn)
	v, err := n.askedAgent(ctx, s, &c)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	end.Pages++
	line := protocol.AgentOutput{URL: item.URL, Digest: item.Digest, Output: v.Output}
	switch {
	case err != nil:
		if err := n.Agents.Has(s.caller.Name, s.filter.Agent); err != nil {
			return err // the program is out of use: the rest would fail as well
		}
		line.Failed = err.Error()
	case !v.Tell:
		return nil
	}
	end.Told++
	out.last = time.Now()
	return out.enc.Encode(line)
}

// agentLines is a response whose next line may take long.
type agentLines struct {
	enc   *json.Encoder
	w     web.Patient
	every time.Duration // the longest silence, except while a program runs
	last  time.Time
}

// longestSilence bounds how long the response of a program sends nothing.
const longestSilence = 10 * time.Second

// silence writes an empty line now and then, so that a program that accepts few
// pages, or a narrow filter, does not look like a dead site. Readers ignore it.
func (l *agentLines) silence() error {
	if time.Since(l.last) < l.every {
		return nil
	}
	l.last = time.Now()
	if _, err := l.w.Write([]byte("\n")); err != nil {
		return err
	}
	return http.NewResponseController(l.w).Flush()
}

// askAgent returns the program's answer for a change that is to be sent to its
// reader. If the program fails, the change is sent without an output.
func (n *Notifier) askAgent(ctx context.Context, s *selection, c *protocol.Change) (protocol.Body, bool, error) {
	if c.Op == protocol.Delete {
		return protocol.Body{}, true, nil
	}
	v, err := n.askedAgent(ctx, s, c)
	switch {
	case ctx.Err() != nil:
		return protocol.Body{}, false, ctx.Err()
	case err != nil:
		n.log().Debug("agent failed: the change is sent without its output", "agent", s.filter.Agent.String(), "url", c.Item.URL, "err", err)
		return protocol.Body{}, true, nil
	case !v.Tell && c.Op != protocol.Move:
		return protocol.Body{}, false, nil
	case v.Output == nil || len(v.Output) > protocol.MaxInline:
		return protocol.Body{}, true, nil
	}
	return protocol.Body{Coding: protocol.CodingAgent, Bytes: v.Output, Length: int64(len(v.Output))}, true, nil
}

// askedAgent calls the program with a change, and the page before and after it.
func (n *Notifier) askedAgent(ctx context.Context, s *selection, c *protocol.Change) (caller.Verdict, error) {
	page, err := n.agentPage(ctx, c.Item)
	if err != nil {
		return caller.Verdict{}, err
	}
	was := c.Item
	was.Digest, was.Length = c.Prev, -1
	if c.Op == protocol.Move && c.Prev != c.Item.Digest {
		was.URL = c.From // where no page is any more, unless another has taken the URL
	}
	before, err := n.agentPage(ctx, was)
	if err != nil {
		return caller.Verdict{}, err
	}
	ctx, stop := context.WithTimeout(ctx, agentTurn)
	defer stop()
	return n.Agents.Run(ctx, s.caller.Name, s.filter.Agent, c, page, before)
}

// agentPage returns a version of a page for a program, nil if it is not available.
func (n *Notifier) agentPage(ctx context.Context, item protocol.Item) ([]byte, error) {
	if item.Digest.IsZero() || n.Pages == nil {
		return nil, nil
	}
	page, err := n.Pages.Version(ctx, &item, mostAgentPage)
	switch {
	case errors.Is(err, content.ErrNoVersion):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read page %s: %w", item.URL, err)
	case page == nil:
		return []byte{}, nil // an empty page is a page
	}
	return page, nil
}
