package server

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/wsconn"
	"github.com/parleyweb/parley/protocol"
)

// clientLimit bounds what a subscriber may say in one message, in bytes. What
// it says is ignored.
const clientLimit = 4 << 10

// errGone is why a stream ends whose subscriber has gone.
var errGone = errors.New("the subscriber has gone")

// serveStream refuses before the upgrade what serveChanges refuses, and then
// tells everything after the cursor until the subscriber goes.
func (n *Notifier) serveStream(w http.ResponseWriter, r *http.Request) *problem {
	q, p := query(r, append(selectionNames(), "after")...)
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
	if p := n.handshakeProblem(w, r); p != nil {
		return p
	}
	if p := n.scanning(); p != nil {
		return p
	}
	if _, err := n.Log.Read(r.Context(), after, 1); err != nil {
		if p := n.cursorProblem(after, err); p != nil {
			return p
		}
		orDiscard(n.Logger).Error("changes could not be read", "after", after.String(), "err", err)
		return plainProblem(http.StatusInternalServerError, "the journal could not be read")
	}

	// life ends with the connection; until then it can be written to. loop
	// ends when there is nothing more to be told, and why is its cause.
	life, cut := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cut()
	loop, stop := context.WithCancelCause(life)
	defer stop(nil)
	leave, p := n.admit(r, &guest{stop: stop, cut: cut})
	if p != nil {
		return p
	}
	defer leave()
	conn, err := wsconn.Accept(w, r, wsconn.Options{Subprotocol: protocol.Subprotocol, MaxMessage: clientLimit,
		WriteWait: n.writeWait(), Ping: n.heartbeat()})
	if err != nil {
		n.stats.refuse(http.StatusBadRequest)
		return nil // it has been answered
	}
	n.stats.streams.Add(1)
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
	s := &stream{n: n, conn: conn, sel: sel, at: after}
	err = s.run(life, loop)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		n.stats.slow.Add(1)
		orDiscard(n.Logger).Info("stream cut: its reader does not read", "peer", r.RemoteAddr, "at", s.at.String())
	}
	conn.Close(s.close(life, err))
	cut()
	<-listening
	return nil
}

// handshakeProblem judges the handshake as far as a person can be told what
// is wrong with it; wsconn judges the rest.
func (n *Notifier) handshakeProblem(w http.ResponseWriter, r *http.Request) *problem {
	if !hasToken(r.Header.Values("Upgrade"), "websocket") || !hasToken(r.Header.Values("Connection"), "upgrade") {
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Connection", "Upgrade")
		return plainProblem(http.StatusUpgradeRequired, "this door speaks WebSocket; the same is told by plain HTTP at "+n.doors.changes)
	}
	if !hasToken(r.Header.Values("Sec-Websocket-Protocol"), protocol.Subprotocol) {
		return badParameter("Sec-WebSocket-Protocol", "offer the subprotocol "+protocol.Subprotocol)
	}
	// A browser sends Origin, and the visitor's cookies with it: a page of
	// another site must not read a stream in its visitor's name.
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || !strings.EqualFold(u.Host, n.doors.host) && !strings.EqualFold(u.Host, r.Host) {
			return plainProblem(http.StatusForbidden, "pages of other sites may not open this stream")
		}
	}
	return nil
}

// hasToken reports whether one of the comma-separated lists holds the token.
func hasToken(lists []string, token string) bool {
	for _, l := range lists {
		for t := range strings.SplitSeq(l, ",") {
			if strings.EqualFold(strings.TrimSpace(t), token) {
				return true
			}
		}
	}
	return false
}

// A stream is one subscriber: a position in the log.
type stream struct {
	n    *Notifier
	conn *wsconn.Conn
	sel  *selection
	at   protocol.Cursor
	told time.Time // when something was last sent
}

// run tells until loop ends or something fails, and returns why.
func (s *stream) run(life, loop context.Context) error {
	log := s.n.Log
	err := s.send(life, protocol.Message{Kind: protocol.Hello, From: s.at, Head: log.Head(), Floor: log.Floor(),
		At: s.n.Now(), Heartbeat: s.n.heartbeat(), Manifest: s.n.doors.manifest})
	if err != nil {
		return err
	}
	for {
		fr, err := s.n.frames.after(loop, s.sel, s.at)
		switch {
		case loop.Err() != nil:
			return context.Cause(loop)
		case errors.Is(err, protocol.ErrTooOld):
			err = s.gap(life)
		case err != nil:
			return err
		case fr != nil:
			err = s.frame(life, fr)
		default:
			err = s.wait(life, loop)
		}
		if err != nil {
			return err
		}
	}
}

func (s *stream) send(life context.Context, m protocol.Message) error {
	s.told = s.n.Now()
	return s.conn.Write(life, m.Encode())
}

func (s *stream) frame(life context.Context, fr *frame) error {
	s.told = s.n.Now()
	if err := s.conn.WritePrepared(life, fr.prepared); err != nil {
		return err
	}
	s.at = fr.to
	s.n.stats.frames.Add(1)
	s.n.stats.told.Add(int64(fr.told))
	return nil
}

// gap says what cannot be told any more, and goes on after it.
func (s *stream) gap(life context.Context) error {
	head := s.n.Log.Head()
	err := s.send(life, protocol.Message{Kind: protocol.Gap, From: s.at, To: head, Manifest: s.n.doors.manifest,
		Reason: "the reader fell behind what this site remembers"})
	s.at = head
	s.n.stats.gaps.Add(1)
	s.n.stats.frames.Add(1)
	return err
}

// wait waits at the head for a change, or for the time of the next heartbeat.
func (s *stream) wait(life, loop context.Context) error {
	rest := s.n.heartbeat() - s.n.Now().Sub(s.told)
	ctx, cancel := context.WithTimeout(loop, rest)
	defer cancel()
	err := s.n.Log.Wait(ctx, s.at)
	switch {
	case err == nil, loop.Err() != nil:
		return nil // run finds out
	case ctx.Err() == nil:
		return err
	}
	s.n.stats.frames.Add(1)
	return s.send(life, protocol.Message{Kind: protocol.Mark, To: s.at, Head: s.n.Log.Head(), At: s.n.Now()})
}

// close says goodbye where somebody may still listen, and returns the code
// and reason of the close frame.
func (s *stream) close(life context.Context, err error) (int, string) {
	m := protocol.Message{Kind: protocol.Bye, From: s.at}
	switch {
	case errors.Is(err, errGone):
		return 1000, "" // RFC 6455, 7.4.1: normal
	case errors.Is(err, errShutdown):
		m.Code, m.Reason = protocol.CloseShutdown, errShutdown.Error()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return protocol.CloseSlow, "the reader did not read"
	case errors.Is(err, protocol.ErrEpoch):
		m.Code, m.Reason = protocol.CloseEpoch, "the epoch has ended: read the manifest"
	case life.Err() != nil:
		return protocol.CloseShutdown, errShutdown.Error()
	default:
		orDiscard(s.n.Logger).Error("stream ended", "at", s.at.String(), "err", err)
		m.Code, m.Reason = protocol.CloseShutdown, "the journal could not be read"
	}
	// Not all at once: whoever was here comes again.
	m.Retry = time.Second + rand.N(2*time.Second)
	s.conn.Write(life, m.Encode()) // the peer may have gone
	return m.Code, m.Reason
}
