package doors

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
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
	packed      map[string]wsconn.Packing // how the messages of each subprotocol are compressed
	subscribers *subscribers
	heartbeat   time.Duration
	hurry       time.Duration // see Limits.Hurry
	counts      *counters

	mu     sync.Mutex
	groups map[string]*group // by the key of the selection
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
	err := d.frames.delivery.stands(r.Context(), sel, after)
	if err != nil {
		return d.failed(r, after, err)
	}

	s := &stream{door: d, sel: sel, peer: r.RemoteAddr, at: after, said: after, place: -1, pinged: time.Now(), listening: make(chan struct{})}
	if s.life = context.Background(); d.readers.clients.Identify != nil { // else the request need not stay in memory
		s.life = context.WithoutCancel(r.Context())
		s.r = r.WithContext(s.life)
	}
	s.life, s.cut = context.WithCancel(s.life)
	s.loop, s.stop = context.WithCancelCause(s.life)
	s.request = newLongRequest(r, sel, after, true)
	s.request.stop, s.request.cut = s.end, s.cut
	if s.leave, p = d.subscribers.admit(r, s.request); p != nil {
		s.cut()
		return p
	}
	if s.conn, err = wsconn.Accept(w, r, wsconn.Options{Subprotocols: protocol.Subprotocols(), Packed: d.packed,
		MaxMessage: clientLimit, WriteWait: d.writeWait}); err != nil {
		d.counts.refuse(http.StatusBadRequest)
		s.cut()
		s.leave()
		return nil // wsconn has already answered
	}
	s.packing = d.packed[s.conn.Subprotocol()]
	d.counts.streams.Add(1)
	d.counts.form(sel.as).streams.Add(1)
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

	life      context.Context // ends with the connection; until then it can be written to
	cut       context.CancelFunc
	loop      context.Context // ends when nothing more is to be sent; its cause is the reason
	stop      context.CancelCauseFunc
	leave     func()
	listening chan struct{} // closed when the reader has ended

	request *longRequest
	packing wsconn.Packing // nil: messages are text
	sel     *selection

	// The fields below are used by the goroutine that writes.
	at     protocol.Cursor // everything up to here was sent, or is not for this reader
	said   protocol.Cursor // the last cursor that the reader has been sent
	told   time.Time       // when something was last sent
	pinged time.Time       // when the last ping was sent
	broken error           // why nothing can be sent any more
	place  int             // in its group; -1 if a goroutine of its own writes
	waited *notReady       // what it last waited for, now over
}

// listen reads what the subscriber sends, and ignores it, until the subscriber is gone.
func (s *stream) listen() {
	defer close(s.listening)
	for {
		if _, err := s.conn.Read(s.life); err != nil {
			s.end(errGone)
			return
		}
	}
}

// end ends the stream: whatever goroutine writes to it closes it.
func (s *stream) end(cause error) {
	s.stop(cause)
	if s.door.takeBack(s) {
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
		s.door.counts.slow.Add(1)
		s.door.logger.Info("stream closed: its reader does not read", "peer", s.peer, "at", s.at.String())
	}
	s.conn.Close(s.bye(err))
	s.cut()
	<-s.listening
	s.stop(nil)
	s.door.counts.form(s.sel.as).streams.Add(-1)
	s.leave()
}

// hello sends the first message.
func (s *stream) hello() error {
	log := s.door.log
	return s.send(protocol.Message{Kind: protocol.Hello, From: s.at, Head: log.Head(), Floor: log.Floor(),
		At: s.door.now(), Heartbeat: s.door.heartbeat, Manifest: s.door.urls.manifest})
}

// run sends what a group could not send, and then changes. It returns nil once a group goes on, and
// else why the stream has ended.
func (s *stream) run() error {
	if s.broken == nil {
		s.broken = s.conn.Flush(s.life)
	}
	for {
		joined, err := false, s.broken
		if err == nil {
			joined, err = s.turn()
		}
		if joined {
			return nil // what a group writes to may have moved already
		}
		s.request.reached(s.at)
		switch {
		case s.broken != nil: // this ends loop as well, so it is checked first
			return s.broken
		case s.loop.Err() != nil:
			return context.Cause(s.loop)
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
	fr, err := s.door.frames.after(s.loop, s.sel, s.at, s.waited)
	none := (*notReady)(nil)
	switch {
	case err == nil:
		return false, s.frame(fr)
	case errors.As(err, &none) && none.head:
		if err := s.beat(); err != nil {
			return false, err
		}
		return s.door.join(s), nil
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
	s.told = time.Now()
	s.broken = s.conn.Write(s.life, m.Encode())
	return s.broken
}

// mark sends the reader its cursor, and shows that the connection is alive.
func (s *stream) mark() error {
	s.door.counts.frames.Add(1)
	m := s.door.markOf(s.said, s.at)
	s.said = s.at
	return s.send(m)
}

// markOf returns the mark that moves a reader from a cursor to another.
func (d *streamDoor) markOf(from, to protocol.Cursor) protocol.Message {
	return protocol.Message{Kind: protocol.Mark, From: from, To: to, Head: d.log.Head(), At: d.now()}
}

// beat sends the ping and the mark that are due before the next sweep of a group.
func (s *stream) beat() error {
	s.ping()
	if s.quiet() > s.door.sweepEvery() {
		return nil
	}
	return s.mark()
}

// ping sends a ping if the last one is a heartbeat ago.
func (s *stream) ping() {
	if now := time.Now(); now.Sub(s.pinged) >= s.door.heartbeat {
		s.pinged = now
		s.conn.Ping()
	}
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
	return most - time.Since(s.told)
}

// frame sends a frame, or skips one that has nothing for this reader: a reader with a
// filter receives a mark now and then, and not whenever something changes that
// its filter excludes.
func (s *stream) frame(fr *frame) error {
	if s.skips(fr) {
		if s.at = fr.to; s.quiet() > 0 {
			return nil
		}
		return s.mark()
	}
	if fr.from != s.said { // a frame says which cursor it follows
		if err := s.mark(); err != nil {
			return err
		}
	}
	s.told = time.Now()
	if s.broken = s.conn.WritePrepared(s.life, fr.prepared(s.packing)); s.broken != nil {
		return s.broken
	}
	s.at, s.said = fr.to, fr.to
	s.door.counts.sent(s.sel.as, 1, fr)
	return nil
}

// skips reports whether a frame is only a mark that the reader need not be sent.
func (s *stream) skips(fr *frame) bool { return fr.kind == protocol.Mark && !s.sel.filter.IsZero() }

// gap reports that the changes after the cursor are no longer kept, and goes on after them.
func (s *stream) gap() error {
	head := s.door.log.Head()
	err := s.send(protocol.Message{Kind: protocol.Gap, From: s.said, To: head, Manifest: s.door.urls.manifest,
		Reason: "the changes after the reader's cursor are no longer stored"})
	s.at, s.said = head, head
	s.door.counts.gaps.Add(1)
	s.door.counts.frames.Add(1)
	return err
}

// wait waits until there may be something to send, with a mark if that takes long.
func (s *stream) wait(none *notReady) error {
	ctx, cancel := context.WithTimeout(s.loop, s.quiet())
	defer cancel()
	err := none.until(ctx)
	switch {
	case err == nil:
		s.waited = none
		s.door.subscribers.admitted.Spread(s.loop, s.sel.addr)
		return nil
	case s.loop.Err() != nil, ctx.Err() == nil:
		return err
	}
	s.ping()
	return s.mark()
}

// bye sends a bye if the peer may still listen, and returns the code and reason
// of the close frame.
func (s *stream) bye(err error) (int, string) {
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
	case s.life.Err() != nil:
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
	s.conn.Write(s.life, m.Encode()) // the peer may have gone
	return m.Code, m.Reason
}
