package doors

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/caller"
	"github.com/parleyweb/parley/server/content"
	"github.com/parleyweb/parley/server/internal/limit"
	"github.com/parleyweb/parley/server/internal/web"
)

const (
	mostAgent   = 8 << 20         // bytes of a program
	agentArrive = time.Minute     // how long a program may take to arrive
	agentLoad   = 3 * time.Minute // how long it may wait for others and be compiled: longer than a Host tries

	// programsAtOnce is how many programs are received at a time. Compiling one
	// takes some seconds, and a hundred times its size in memory.
	programsAtOnce = 4
)

// An agentsDoor stores programs of crawlers.
type agentsDoor struct {
	*site
	readers  *readers
	admitted limit.Admission // programs being received and stored
}

// serve stores a program:
//
//	POST BASE/parley/agents
//	Authorization: Bearer TOKEN
//	Content-Type: application/wasm
//
// 201 answers {"agent": DIGEST}, the value for the parameter agent. Package internal/site/agent
// documents what a program is, and what it may do. 401 and 403: the caller may send
// none; 413: it is too large; 415: it is of another type; 422: it cannot be run, or has
// failed too often; 429: too many are stored here, or sent at a time.
func (d *agentsDoor) serve(w http.ResponseWriter, r *http.Request) *web.Problem {
	c, p := d.readers.agentSender(r)
	if p != nil {
		return p
	}
	if _, p := web.BodyType(r.Header, "programs", "application/wasm"); p != nil {
		return p
	}
	leave, p := d.admitted.Enter("programs", "caller "+c.Name, programsAtOnce, 1)
	if p != nil {
		return p
	}
	defer leave()
	d.deadline(w, agentArrive)
	program, p := web.ReadBody(w, r, "programs", mostAgent)
	if p != nil {
		return p
	}
	d.deadline(w, agentLoad)
	ctx, stop := context.WithTimeout(r.Context(), agentLoad)
	defer stop()
	digest, err := d.readers.clients.Agents.Keep(ctx, c.Name, program)
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
		d.logger.Error("agent could not be stored", "caller", c.Name, "err", err)
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

// agentSender returns the caller of a request, if it may have programs run.
func (rs *readers) agentSender(r *http.Request) (caller.Caller, *web.Problem) {
	c, p := rs.callerOf(r)
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

// An agentRunDoor runs a program on all pages.
type agentRunDoor struct {
	*site
	readers     *readers
	items       func(context.Context) (*content.Moment, error)
	subscribers *subscribers
}

// serve calls a program for every page that exists now, as if each had
// just been created:
//
//	POST BASE/parley/agents/run?agent=DIGEST&prefix=/news/
//
// The answer is application/x-ndjson: a [protocol.AgentOutput] for each page that the
// program accepts, perhaps empty lines, and a [protocol.AgentEnd]. From its cursor the client
// goes on with the same parameters at the changes door, or by stream.
func (d *agentRunDoor) serve(w http.ResponseWriter, r *http.Request) *web.Problem {
	q, p := web.Query(r, slices.DeleteFunc(protocol.FilterNames(), ofChanges)...)
	if p != nil {
		return p
	}
	if _, p := d.readers.agentSender(r); p != nil {
		return p
	}
	s, p := d.readers.selection(r, q)
	switch {
	case p != nil:
		return p
	case s.filter.Agent.IsZero():
		return web.BadParameter("agent", "the program is missing: give the digest that its upload returned")
	}
	if p := d.scanning(); p != nil {
		return p
	}
	ctx, stop := context.WithCancelCause(r.Context())
	defer stop(nil)
	leave, p := d.subscribers.admit(r, &longRequest{stop: stop, cut: func() { stop(errShutdown) }})
	if p != nil {
		return p
	}
	defer leave()
	at, items, err := d.itemsAfter(ctx, "")
	if err != nil {
		return d.failed(r, protocol.Cursor{}, err)
	}
	web.SetType(w, "application/x-ndjson", "no-store")
	out := &agentLines{enc: json.NewEncoder(d.patient(w)), w: d.patient(w), every: min(longestSilence, d.writeWait/4), last: time.Now()}
	out.enc.SetEscapeHTML(false)
	http.NewResponseController(w).Flush() // send the header at once; not every ResponseWriter can
	end := protocol.AgentEnd{To: at}
	for len(items) > 0 && err == nil {
		for i := range items {
			if err = d.run(ctx, s, items[i], out, &end); err != nil {
				break
			}
		}
		if err == nil {
			_, items, err = d.itemsAfter(ctx, items[len(items)-1].URL)
		}
	}
	if err != nil {
		if ctx.Err() == nil {
			d.logger.Error("agent run ended before all pages were processed", "agent", s.filter.Agent.String(), "err", err)
		}
		return nil // the last line is missing
	}
	out.enc.Encode(end) // the client may have gone
	return nil
}

// itemsAfter returns some items after a URL, and the present cursor. Changes made
// before the rest is read are delivered after the first cursor.
func (d *agentRunDoor) itemsAfter(ctx context.Context, url string) (at protocol.Cursor, items []protocol.Item, err error) {
	const some = 500
	m, err := d.items(ctx)
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

// run calls the program for one existing page.
func (d *agentRunDoor) run(ctx context.Context, s *selection, item protocol.Item, out *agentLines, end *protocol.AgentEnd) error {
	if err := out.silence(); err != nil {
		return err
	}
	if !s.public(item.URL) || !s.filter.Wants(&item) {
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
	d.deadline(out.w.ResponseWriter, agentTurn)
	v, err := s.askedAgent(ctx, &c)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	end.Pages++
	line := protocol.AgentOutput{URL: item.URL, Digest: item.Digest, Output: v.Output}
	switch {
	case err != nil:
		if err := d.readers.clients.Agents.Has(s.caller.Name, s.filter.Agent); err != nil {
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
