package doors

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/internal/wsconn"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/internal/limit"
	"github.com/parleyweb/parley/server/internal/web"
)

// clientLimit bounds one message of a subscriber, in bytes. Its content is ignored.
const clientLimit = 4 << 10

// errGone ends the stream of a subscriber that has disconnected.
var errGone = errors.New("the subscriber disconnected")

// A streamDoor pushes changes over WebSocket.
type streamDoor struct {
	*site
	readers     *readers
	frames      *frames
	subscribers *subscribers
	heartbeat   time.Duration
	hurry       time.Duration // see Limits.Hurry
	counts      *counters
}

// serve rejects before the upgrade whatever changesDoor rejects, and then
// sends everything after the cursor until the subscriber disconnects.
func (d *streamDoor) serve(w http.ResponseWriter, r *http.Request) *web.Problem {
	q, p := web.Query(r, append(selectionNames(), "after")...)
	if p != nil {
		return p
	}
	sel, p := d.readers.selection(r, q)
	if p != nil {
		return p
	}
	sel.listens = true
	after, p := web.Cursor(q)
	if p != nil {
		return p
	}
	if p := d.handshakeProblem(w, r); p != nil {
		return p
	}
	if p := d.scanning(); p != nil {
		return p
	}
	if err := d.frames.delivery.stands(r.Context(), sel, after); err != nil {
		return d.failed(r, after, err)
	}

	// life ends with the connection; until then it can be written to. loop ends when
	// nothing more is to be sent; its cause is the reason.
	life, cut := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cut()
	loop, stop := context.WithCancelCause(life)
	defer stop(nil)
	request := newLongRequest(r, sel, after, true)
	request.stop, request.cut = stop, cut
	leave, p := d.subscribers.admit(r, request)
	if p != nil {
		return p
	}
	defer leave()
	conn, err := wsconn.Accept(w, r, wsconn.Options{Subprotocols: protocol.Subprotocols(), Packed: d.packed(),
		MaxMessage: clientLimit, WriteWait: d.writeWait, Ping: d.heartbeat})
	if err != nil {
		d.counts.refuse(http.StatusBadRequest)
		return nil // wsconn has already answered
	}
	d.counts.streams.Add(1)
	d.counts.form(sel.as).streams.Add(1)
	defer d.counts.form(sel.as).streams.Add(-1)
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		for {
			if _, err := conn.Read(life); err != nil {
				stop(errGone)
				return
			}
		}
	}()
	s := &stream{door: d, r: r, conn: conn, request: request, sel: sel, at: after, said: after, packing: d.packed()[conn.Subprotocol()]}
	err = s.run(life, loop)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		d.counts.slow.Add(1)
		d.logger.Info("stream closed: its reader does not read", "peer", r.RemoteAddr, "at", s.at.String())
	}
	conn.Close(s.close(life, err))
	cut()
	<-listening
	return nil
}

// handshakeProblem checks those parts of the handshake whose errors can be explained
// to a person; wsconn checks the rest.
func (d *streamDoor) handshakeProblem(w http.ResponseWriter, r *http.Request) *web.Problem {
	if !web.HasToken(r.Header.Values("Upgrade"), "websocket") || !web.HasToken(r.Header.Values("Connection"), "upgrade") {
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Connection", "Upgrade")
		return web.Plain(http.StatusUpgradeRequired, "this door speaks WebSocket; the same changes are available by plain HTTP at "+d.urls.changes)
	}
	if offered := r.Header.Values("Sec-Websocket-Protocol"); !web.HasToken(offered, protocol.Subprotocol) && !web.HasToken(offered, protocol.SubprotocolZstd) {
		return web.BadParameter("Sec-WebSocket-Protocol", "offer the subprotocol "+protocol.Subprotocol+", or "+protocol.SubprotocolZstd)
	}
	// A browser sends Origin, and the visitor's cookies with it: a page of
	// another site must not read a stream in its visitor's name.
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || !strings.EqualFold(u.Host, d.urls.host) && !strings.EqualFold(u.Host, r.Host) {
			return web.Plain(http.StatusForbidden, "pages of other sites may not open this stream")
		}
	}
	return nil
}

// packed returns how the messages of each subprotocol are compressed.
func (d *streamDoor) packed() map[string]wsconn.Packing {
	return map[string]wsconn.Packing{protocol.SubprotocolZstd: &d.frames.packing}
}

// A stream is one subscriber: a position in the log.
type stream struct {
	door    *streamDoor
	r       *http.Request
	conn    *wsconn.Conn
	request *longRequest
	packing wsconn.Packing // nil: messages are text
	sel     *selection
	at      protocol.Cursor // everything up to here was sent, or is not for this reader
	said    protocol.Cursor // the last cursor that the reader has been sent
	told    time.Time       // when something was last sent
	waited  *notReady       // what it last waited for, now over
	broken  error           // why nothing can be sent any more
}

// run sends changes until loop ends or something fails, and returns why.
func (s *stream) run(life, loop context.Context) error {
	log := s.door.log
	err := s.send(life, protocol.Message{Kind: protocol.Hello, From: s.at, Head: log.Head(), Floor: log.Floor(),
		At: s.door.now(), Heartbeat: s.door.heartbeat, Manifest: s.door.urls.manifest})
	if err != nil {
		return err
	}
	for {
		err := s.turn(life, loop)
		s.request.reached(s.at)
		switch {
		case s.broken != nil: // this ends loop as well, so it is checked first
			return s.broken
		case loop.Err() != nil:
			return context.Cause(loop)
		case err != nil:
			return err
		}
	}
}

// turn sends the next frame, or waits until there is one.
func (s *stream) turn(life, loop context.Context) error {
	if !s.sel.isStillKnown(s.r) {
		return errNoCaller
	}
	fr, err := s.door.frames.after(loop, s.sel, s.at, s.waited)
	none := (*notReady)(nil)
	switch {
	case err == nil:
		return s.frame(life, fr)
	case errors.As(err, &none):
		return s.wait(life, loop, none)
	case errors.Is(err, limit.ErrBusy) && s.quiet() > 0:
		return nil // run tries again
	case errors.Is(err, limit.ErrBusy):
		return s.mark(life)
	case errors.Is(err, protocol.ErrTooOld):
		return s.gap(life)
	}
	return err
}

func (s *stream) send(life context.Context, m protocol.Message) error {
	s.told = s.door.now()
	s.broken = s.conn.Write(life, m.Encode())
	return s.broken
}

// mark sends the reader its cursor, and shows that the connection is alive.
func (s *stream) mark(life context.Context) error {
	s.door.counts.frames.Add(1)
	from := s.said
	s.said = s.at
	return s.send(life, protocol.Message{Kind: protocol.Mark, From: from, To: s.at, Head: s.door.log.Head(), At: s.door.now()})
}

// unsaid: after one part in unsaid of a heartbeat, a mark sends the reader a
// cursor that has moved without a frame.
const unsaid = 5

// quiet returns how long nothing needs to be sent.
func (s *stream) quiet() time.Duration {
	most := s.door.heartbeat
	if s.at != s.said {
		most /= unsaid
	}
	return most - max(0, s.door.now().Sub(s.told)) // a clock that was put back must not prolong the silence
}

// frame sends a frame, or skips one that has nothing for this reader: a reader with a
// filter receives a mark now and then, and not whenever something changes that
// its filter excludes.
func (s *stream) frame(life context.Context, fr *frame) error {
	if fr.kind == protocol.Mark && !s.sel.filter.IsZero() {
		if s.at = fr.to; s.quiet() > 0 {
			return nil
		}
		return s.mark(life)
	}
	if fr.from != s.said { // a frame says which cursor it follows
		if err := s.mark(life); err != nil {
			return err
		}
	}
	s.told = s.door.now()
	if s.broken = fr.write(life, s.conn, s.packing); s.broken != nil {
		return s.broken
	}
	s.at, s.said = fr.to, fr.to
	s.door.counts.sent(s.sel.as, fr.told, len(fr.text))
	return nil
}

// gap reports that the changes after the cursor are no longer kept, and goes on after them.
func (s *stream) gap(life context.Context) error {
	head := s.door.log.Head()
	err := s.send(life, protocol.Message{Kind: protocol.Gap, From: s.said, To: head, Manifest: s.door.urls.manifest,
		Reason: "the changes after the reader's cursor are no longer stored"})
	s.at, s.said = head, head
	s.door.counts.gaps.Add(1)
	s.door.counts.frames.Add(1)
	return err
}

// wait waits until there may be something to send, with a mark if that takes long.
func (s *stream) wait(life, loop context.Context, none *notReady) error {
	ctx, cancel := context.WithTimeout(loop, s.quiet())
	defer cancel()
	err := none.until(ctx)
	switch {
	case err == nil:
		s.waited = none
		s.door.subscribers.admitted.Spread(loop, s.sel.addr)
		return nil
	case loop.Err() != nil, ctx.Err() == nil:
		return err
	}
	return s.mark(life)
}

// close sends a bye if the peer may still listen, and returns the code and reason
// of the close frame.
func (s *stream) close(life context.Context, err error) (int, string) {
	m := protocol.Message{Kind: protocol.Bye, From: s.at}
	switch {
	case errors.Is(err, errGone):
		return 1000, "" // RFC 6455, 7.4.1: normal
	case errors.Is(err, errShutdown):
		m.Code, m.Reason = protocol.CloseShutdown, errShutdown.Error()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return protocol.CloseSlow, "the reader did not read in time"
	case errors.Is(err, errNoCaller):
		m.Code, m.Reason = protocol.ClosePolicy, errNoCaller.Error()
	case errors.Is(err, protocol.ErrEpoch):
		m.Code, m.Reason = protocol.CloseEpoch, "the epoch has ended: read the manifest"
	case life.Err() != nil:
		return protocol.CloseShutdown, errShutdown.Error()
	case s.broken != nil: // a subscriber that disconnects during a write is not a failure of the site
		s.door.logger.Debug("subscriber disconnected", "at", s.at.String(), "err", err)
		return 1000, ""
	default:
		s.door.logger.Error("stream failed", "at", s.at.String(), "err", err)
		m.Code, m.Reason = protocol.CloseShutdown, "the journal could not be read"
	}
	// The random part spreads the reconnects.
	m.Retry = pause.AtMost(time.Second, s.door.hurry) + rand.N(pause.AtMost(2*time.Second, s.door.hurry))
	s.conn.Write(life, m.Encode()) // the peer may have gone
	return m.Code, m.Reason
}
