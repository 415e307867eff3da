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
	readers *readers
	groups  *groups
	hurry   time.Duration // see Limits.Hurry
}

// serve rejects before the upgrade whatever changesDoor rejects, and then
// sends everything after the cursor until the subscriber disconnects. It returns once the
// subscriber has everything: what follows is sent by a group.
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
	err := d.groups.frames.delivery.stands(r.Context(), sel, after)
	if err != nil {
		return d.failed(r, after, err)
	}

	s := &stream{door: d, sel: sel, peer: r.RemoteAddr, place: -1, pos: position{at: after, said: after, pinged: time.Now()},
		life: lifetime{listening: make(chan struct{})}}
	if s.life.ctx = context.Background(); d.readers.clients.Identify != nil { // else the request need not stay in memory
		s.life.ctx = context.WithoutCancel(r.Context())
		s.r = r.WithContext(s.life.ctx)
	}
	s.life.ctx, s.life.cut = context.WithCancel(s.life.ctx)
	s.life.loop, s.life.stop = context.WithCancelCause(s.life.ctx)
	s.request = newLongRequest(r, sel, after, true)
	s.request.stop, s.request.cut = s.end, s.life.cut
	if s.life.leave, p = d.groups.subscribers.admit(r, s.request); p != nil {
		s.life.cut()
		return p
	}
	if s.conn, err = wsconn.Accept(w, r, wsconn.Options{Subprotocols: protocol.Subprotocols(), Packed: d.groups.frames.packings,
		MaxMessage: clientLimit, WriteWait: d.writeWait}); err != nil {
		d.groups.counts.refuse(http.StatusBadRequest)
		s.life.cut()
		s.life.leave()
		return nil // wsconn has already answered
	}
	s.packing = d.groups.frames.packings[s.conn.Subprotocol()]
	d.groups.counts.streams.Add(1)
	d.groups.counts.form(sel.as).streams.Add(1)
	go s.listen()
	s.write(s.hello())
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

// A stream is one subscriber: a position in the log. One goroutine reads from the connection. While
// the subscriber has everything, a group writes to it; else a goroutine of its own does, which runs
// write. The last of those closes the connection and waits for the reader.
type stream struct {
	door *streamDoor
	r    *http.Request // nil if nobody is identified
	peer string        // its network address
	conn *wsconn.Conn

	packing wsconn.Packing // nil: messages are text
	sel     *selection
	request *longRequest
	life    lifetime

	// The fields below are used by the goroutine that writes.
	pos    position
	broken error     // why nothing can be sent any more
	place  int       // in its group; -1 if a goroutine of its own writes
	waited *notReady // what it last waited for, now over
}

// A lifetime has the ends of a stream.
type lifetime struct {
	ctx       context.Context // ends with the connection; until then it can be written to
	cut       context.CancelFunc
	loop      context.Context // ends when nothing more is to be sent; its cause is the reason
	stop      context.CancelCauseFunc
	leave     func()
	listening chan struct{} // closed when the reader has ended
}

// A position is how far the reader of a stream is.
type position struct {
	at     protocol.Cursor // everything up to here was sent, or is not for this reader
	said   protocol.Cursor // the last cursor that the reader has been sent
	told   time.Time       // when something was last sent
	pinged time.Time       // when the last ping was sent
}

// listen reads what the subscriber sends, and ignores it, until the subscriber is gone.
func (s *stream) listen() {
	defer close(s.life.listening)
	for {
		if _, err := s.conn.Read(s.life.ctx); err != nil {
			s.end(errGone)
			return
		}
	}
}

// end ends the stream: whatever goroutine writes to it closes it.
func (s *stream) end(cause error) {
	s.life.stop(cause)
	if s.door.groups.takeBack(s) {
		go s.write(nil)
	}
}

// write sends first and then everything that follows, until a group goes on with it, or the stream
// ends: because loop does, or because something fails.
func (s *stream) write(first error) {
	err := first
	if err == nil {
		err = s.run()
	}
	if err == nil {
		return // a group writes now
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.door.groups.counts.slow.Add(1)
		s.door.logger.Info("stream closed: its reader does not read", "peer", s.peer, "at", s.pos.at.String())
	}
	s.conn.Close(s.bye(err))
	s.life.cut()
	<-s.life.listening
	s.life.stop(nil)
	s.door.groups.counts.form(s.sel.as).streams.Add(-1)
	s.life.leave()
}

// hello sends the first message.
func (s *stream) hello() error {
	log := s.door.log
	return s.send(protocol.Message{Kind: protocol.Hello, From: s.pos.at, Head: log.Head(), Floor: log.Floor(),
		At: s.door.now(), Heartbeat: s.door.groups.heartbeat, Manifest: s.door.urls.manifest})
}

// run sends what a group could not send, and then changes. It returns nil once a group goes on, and
// else why the stream has ended.
func (s *stream) run() error {
	if s.broken == nil {
		s.broken = s.conn.Flush(s.life.ctx)
	}
	for {
		joined, err := false, s.broken
		if err == nil {
			joined, err = s.turn()
		}
		if joined {
			return nil // what a group writes to may have moved already
		}
		s.request.reached(s.pos.at)
		switch {
		case s.broken != nil: // this ends loop as well, so it is checked first
			return s.broken
		case s.life.loop.Err() != nil:
			return context.Cause(s.life.loop)
		case err != nil:
			return err
		}
	}
}

// turn sends the next frame, or waits until there is one: in a group, if the reader has everything.
func (s *stream) turn() (joined bool, err error) {
	if !s.sel.isStillKnown(s.r) {
		return false, errNoCaller
	}
	fr, err := s.door.groups.frames.after(s.life.loop, s.sel, s.pos.at, s.waited)
	none := (*notReady)(nil)
	switch {
	case err == nil:
		return false, s.frame(fr)
	case errors.As(err, &none) && none.head:
		if err := s.beat(); err != nil {
			return false, err
		}
		return s.door.groups.join(s), nil
	case errors.As(err, &none):
		return false, s.wait(none)
	case errors.Is(err, limit.ErrBusy) && s.quiet() > 0:
		return false, nil // run tries again
	case errors.Is(err, limit.ErrBusy):
		return false, s.mark()
	case errors.Is(err, protocol.ErrTooOld):
		return false, s.gap()
	}
	return false, err
}

func (s *stream) send(m protocol.Message) error {
	s.pos.told = time.Now()
	s.broken = s.conn.Write(s.life.ctx, m.Encode())
	return s.broken
}

// mark sends the reader its cursor, and shows that the connection is alive.
func (s *stream) mark() error {
	s.door.groups.counts.frames.Add(1)
	m := s.door.groups.markOf(s.pos.said, s.pos.at)
	s.pos.said = s.pos.at
	return s.send(m)
}

// beat sends the ping and the mark that are due before the next sweep of a group.
func (s *stream) beat() error {
	s.ping()
	if s.quiet() > s.door.groups.sweepEvery() {
		return nil
	}
	return s.mark()
}

// ping sends a ping if the last one is a heartbeat ago.
func (s *stream) ping() {
	if now := time.Now(); now.Sub(s.pos.pinged) >= s.door.groups.heartbeat {
		s.pos.pinged = now
		s.conn.Ping()
	}
}

// unsaid: after one part in unsaid of a heartbeat, a mark sends the reader a
// cursor that has moved without a frame.
const unsaid = 5

// quiet returns how long nothing needs to be sent.
func (s *stream) quiet() time.Duration {
	most := s.door.groups.heartbeat
	if s.pos.at != s.pos.said {
		most /= unsaid
	}
	return most - time.Since(s.pos.told)
}

// frame sends a frame, or skips one that has nothing for this reader: a reader with a
// filter receives a mark now and then, and not whenever something changes that
// its filter excludes.
func (s *stream) frame(fr *frame) error {
	if s.skips(fr) {
		if s.pos.at = fr.to; s.quiet() > 0 {
			return nil
		}
		return s.mark()
	}
	if fr.from != s.pos.said { // a frame says which cursor it follows
		if err := s.mark(); err != nil {
			return err
		}
	}
	s.pos.told = time.Now()
	if s.broken = s.conn.WritePrepared(s.life.ctx, fr.prepared(s.packing)); s.broken != nil {
		return s.broken
	}
	s.pos.at, s.pos.said = fr.to, fr.to
	s.door.groups.counts.sent(s.sel.as, 1, fr)
	return nil
}

// skips reports whether a frame is only a mark that the reader need not be sent.
func (s *stream) skips(fr *frame) bool { return fr.kind == protocol.Mark && !s.sel.filter.IsZero() }

// gap reports that the changes after the cursor are no longer kept, and goes on after them.
func (s *stream) gap() error {
	head := s.door.log.Head()
	err := s.send(protocol.Message{Kind: protocol.Gap, From: s.pos.said, To: head, Manifest: s.door.urls.manifest,
		Reason: "the changes after the reader's cursor are no longer stored"})
	s.pos.at, s.pos.said = head, head
	s.door.groups.counts.gaps.Add(1)
	s.door.groups.counts.frames.Add(1)
	return err
}

// wait waits until there may be something to send, with a mark if that takes long.
func (s *stream) wait(none *notReady) error {
	ctx, cancel := context.WithTimeout(s.life.loop, s.quiet())
	defer cancel()
	err := none.until(ctx)
	switch {
	case err == nil:
		s.waited = none
		s.door.groups.subscribers.admitted.Spread(s.life.loop, s.sel.addr)
		return nil
	case s.life.loop.Err() != nil, ctx.Err() == nil:
		return err
	}
	s.ping()
	return s.mark()
}

// bye sends a bye if the peer may still listen, and returns the code and reason
// of the close frame.
func (s *stream) bye(err error) (int, string) {
	m := protocol.Message{Kind: protocol.Bye, From: s.pos.at}
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
	case s.life.ctx.Err() != nil:
		return protocol.CloseShutdown, errShutdown.Error()
	case s.broken != nil: // a subscriber that disconnects during a write is not a failure of the site
		s.door.logger.Debug("subscriber disconnected", "at", s.pos.at.String(), "err", err)
		return 1000, ""
	default:
		s.door.logger.Error("stream failed", "at", s.pos.at.String(), "err", err)
		m.Code, m.Reason = protocol.CloseShutdown, "the journal could not be read"
	}
	// The random part spreads the reconnects.
	m.Retry = pause.AtMost(time.Second, s.door.hurry) + rand.N(pause.AtMost(2*time.Second, s.door.hurry))
	s.conn.Write(s.life.ctx, m.Encode()) // the peer may have gone
	return m.Code, m.Reason
}
