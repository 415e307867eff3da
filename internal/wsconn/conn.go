// Package wsconn is a bounded WebSocket connection for both sides of Parley: calls take a context, one
// goroutine reads and one at a time writes, and each message is text, sent plain or packed, as the
// subprotocol says. It is the only importer of gorilla/websocket, and knows nothing of the messages it
// carries.
package wsconn

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"
)

// Options configure a connection on either side. Zero values are useful.
type Options struct {
	// Subprotocols are offered by Dial. Both sides require one of them; Accept chooses the first of its own
	// that Dial has offered. An empty list requires none.
	Subprotocols []string

	// Packed maps a subprotocol to the packing of its messages, which are then binary; MaxMessage bounds them
	// both packed and unpacked.
	Packed map[string]Packing

	MaxMessage int64         // largest message read, in bytes; 0 means 64 KiB
	WriteWait  time.Duration // longest a write may take; 0 means 10 s
	Handshake  time.Duration // longest the handshake may take once the connection is open; 0 means 10 s
}

func (o Options) withDefaults() Options {
	if o.MaxMessage <= 0 {
		o.MaxMessage = 64 << 10
	}
	if o.WriteWait <= 0 {
		o.WriteWait = 10 * time.Second
	}
	if o.Handshake <= 0 {
		o.Handshake = 10 * time.Second
	}
	return o
}

// A Packing makes a message smaller. Its methods are called by many goroutines at once.
type Packing interface {
	Pack(text []byte) []byte

	// Unpack reverses Pack. A message that is not packed, or that would unpack to more than max bytes, is an
	// error before memory is spent on it.
	Unpack(packed []byte, max int64) ([]byte, error)
}

// closeWait is how long Close tries to get its last frame out.
const closeWait = time.Second

// Close codes of RFC 6455, 7.4.1, that this package sends by itself. gorilla
// sends 1002 for a broken frame and 1009 for a message beyond the limit.
const (
	codeUnsupported = 1003 // a binary message where text is expected, or the reverse
	codeInvalid     = 1007 // text that is not UTF-8, or a message that cannot be unpacked
)

// A Conn is one connection. One goroutine at a time may call Read, beside any number of writers; any may call
// Close, at any time. The owner of a Conn must Close it, whatever Read and Write returned.
type Conn struct {
	ws   *websocket.Conn
	o    Options
	pack Packing       // nil: messages are text as it is
	turn chan struct{} // holds one token: the right to write a message

	eager *eagerConn // what ws writes to; nil: a write may wait

	readErr error // the reader's: the error that ended reading for good

	closing  sync.Once
	closeErr error

	closed     atomic.Bool
	unanswered atomic.Int32 // pings since the peer last sent anything
}

func newConn(ws *websocket.Conn, o Options) *Conn {
	c := &Conn{ws: ws, o: o, pack: o.Packed[ws.Subprotocol()], turn: make(chan struct{}, 1)}
	c.eager, _ = ws.NetConn().(*eagerConn)
	c.turn <- struct{}{}
	ws.SetReadLimit(o.MaxMessage)
	pong := ws.PingHandler()
	ws.SetPingHandler(func(s string) error {
		c.heard()
		if c.eager == nil || !c.eager.behind.Load() {
			pong(s) // if it cannot be sent, messages of the peer can still be read
		}
		return nil
	})
	ws.SetPongHandler(func(string) error {
		c.heard()
		return nil
	})
	return c
}

// Subprotocol returns the negotiated subprotocol, empty if none.
func (c *Conn) Subprotocol() string { return c.ws.Subprotocol() }

// A CloseError is returned by Read when the peer has closed with a code; 1005 if it gave none. If the peer
// vanished without closing, the error wraps io.ErrUnexpectedEOF instead.
type CloseError struct {
	Code   int
	Reason string
}

func (e *CloseError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("closed by the peer with code %d", e.Code)
	}
	return fmt.Sprintf("closed by the peer with code %d: %.125q", e.Code, e.Reason)
}

// Read returns the text of the next message. Its errors are final: *CloseError when the
// peer has closed, net.ErrClosed after Close, os.ErrDeadlineExceeded when the
// peer has answered neither of two pings. When ctx ends first the connection is cut and
// the error is that of ctx.
func (c *Conn) Read(ctx context.Context) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		c.cut()
		if c.readErr == nil {
			c.readErr = net.ErrClosed
		}
		return nil, err
	}
	if c.readErr != nil {
		return nil, c.readErr
	}
	release := context.AfterFunc(ctx, c.cut)
	text, err := c.read()
	if !release() {
		c.readErr = net.ErrClosed
		return nil, ctx.Err()
	}
	if err != nil {
		c.readErr = fmt.Errorf("read message: %w", c.explain(err))
	}
	return text, c.readErr
}

func (c *Conn) read() ([]byte, error) {
	kind, r, err := c.ws.NextReader()
	if err != nil {
		return nil, err
	}
	switch {
	case kind != websocket.TextMessage && c.pack == nil:
		return nil, c.refuse(codeUnsupported, "binary message")
	case kind != websocket.BinaryMessage && c.pack != nil:
		return nil, c.refuse(codeUnsupported, "text message, but subprotocol "+c.Subprotocol()+" needs binary")
	}
	text, err := io.ReadAll(hearing{c, r})
	if err != nil {
		return nil, err
	}
	if c.pack != nil {
		if text, err = c.pack.Unpack(text, c.o.MaxMessage); err != nil {
			return nil, c.refuse(codeInvalid, "decompress message: "+err.Error())
		}
	}
	if !utf8.Valid(text) {
		return nil, c.refuse(codeInvalid, "text is not UTF-8")
	}
	return text, nil
}

// refuse sends a close frame that tells the peer what it did wrong.
func (c *Conn) refuse(code int, reason string) error {
	c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, cutText(reason, maxReason)), time.Now().Add(closeWait))
	return errors.New(reason)
}

// heard notes that the peer is alive.
func (c *Conn) heard() { c.unanswered.Store(0) }

// hearing reads one message: a long one on a slow line is not silence.
type hearing struct {
	c *Conn
	r io.Reader
}

func (h hearing) Read(b []byte) (int, error) {
	n, err := h.r.Read(b)
	if n > 0 {
		h.c.heard()
	}
	return n, err
}

// explain returns the error that callers get for a failed read.
func (c *Conn) explain(err error) error {
	var bye *websocket.CloseError
	switch {
	case c.closed.Load(): // first: the peer's reply to our close frame is no news
		return net.ErrClosed
	case errors.As(err, &bye) && bye.Code == websocket.CloseAbnormalClosure:
		return io.ErrUnexpectedEOF // gorilla's code for a connection that ended without a close frame
	case errors.As(err, &bye):
		return &CloseError{Code: bye.Code, Reason: bye.Text}
	case errors.Is(err, websocket.ErrReadLimit):
		return fmt.Errorf("more than %d bytes", c.o.MaxMessage)
	case c.unanswered.Load() > mostUnanswered:
		return fmt.Errorf("peer did not answer %d pings: %w", mostUnanswered, os.ErrDeadlineExceeded)
	}
	return err
}

// isTimeout is needed because gorilla does not keep the cause of a timeout.
func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// Write sends one message, which must be UTF-8. It is safe for concurrent use. A write that fails, takes
// longer than WriteWait, or is interrupted by ctx ends the connection: half a message cannot be taken back.
func (c *Conn) Write(ctx context.Context, text []byte) error {
	return c.WritePrepared(ctx, Prepare(text, c.pack))
}

// A Prepared is a message that is packed and framed once, for many accepted connections.
type Prepared struct {
	kind  int
	frame []byte
	text  []byte // the end of frame
}

// Prepare frames a message, which must be UTF-8, for connections whose messages are packed by p; nil if they
// are not packed.
func Prepare(text []byte, p Packing) *Prepared {
	kind := websocket.TextMessage
	if p != nil {
		kind, text = websocket.BinaryMessage, p.Pack(text)
	}
	frame := make([]byte, 0, len(text)+10)
	frame = append(frame, 0x80|byte(kind)) // RFC 6455, 5.2: the only frame of a message, not masked
	switch n := len(text); {
	case n <= 125:
		frame = append(frame, byte(n))
	case n <= math.MaxUint16:
		frame = binary.BigEndian.AppendUint16(append(frame, 126), uint16(n))
	default:
		frame = binary.BigEndian.AppendUint64(append(frame, 127), uint64(n))
	}
	head := len(frame)
	frame = append(frame, text...)
	return &Prepared{kind, frame, frame[head:]}
}

// WritePrepared is Write for a message that was prepared with this connection's packing.
func (c *Conn) WritePrepared(ctx context.Context, p *Prepared) error {
	return c.write(ctx, func() (err error) {
		if c.eager == nil {
			return c.ws.WriteMessage(p.kind, p.text)
		}
		_, err = c.eager.Write(p.frame)
		return err
	})
}

// TryWrite is WritePrepared for callers that must not wait for the peer. If it returns false and no error, the message is
// not yet sent as a whole: call Flush before anything else is written. It needs a connection for which CanTry returns true.
func (c *Conn) TryWrite(p *Prepared) (bool, error) {
	if c.eager.wait.Load() > 0 {
		return false, errors.New("write message: another write has not ended")
	}
	if _, err := c.eager.Write(p.frame); err != nil {
		return false, c.writeFailed(err)
	}
	return !c.eager.behind.Load(), nil
}

// CanTry reports whether TryWrite can be used: on connections that were accepted over TCP or a Unix socket without TLS.
func (c *Conn) CanTry() bool { return c.eager != nil }

// Flush sends what TryWrite could not send, and takes as long as Write.
func (c *Conn) Flush(ctx context.Context) error {
	if !c.CanTry() {
		return nil
	}
	return c.write(ctx, c.eager.Flush)
}

func (c *Conn) write(ctx context.Context, send func() error) error {
	select {
	case <-c.turn:
		defer func() { c.turn <- struct{}{} }()
	case <-ctx.Done():
		return ctx.Err() // nothing was written: the connection remains usable
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	release := context.AfterFunc(ctx, c.cut)
	if c.eager != nil {
		c.eager.wait.Store(int64(c.o.WriteWait))
		defer c.eager.wait.Store(0)
	} else {
		c.ws.SetWriteDeadline(time.Now().Add(c.o.WriteWait))
	}
	err := send()
	if !release() {
		return ctx.Err()
	}
	if err == nil {
		return nil
	}
	return c.writeFailed(err)
}

// writeFailed ends the connection, and returns the error of the write.
func (c *Conn) writeFailed(err error) error {
	c.cut()
	switch {
	case c.closed.Load():
		err = net.ErrClosed
	case isTimeout(err):
		err = fmt.Errorf("peer did not read for %v: %w", c.o.WriteWait, os.ErrDeadlineExceeded)
	}
	return fmt.Errorf("write message: %w", err)
}

// cut closes the network connection without a close frame.
func (c *Conn) cut() { c.ws.NetConn().Close() }

// mostUnanswered is how many pings a peer may leave unanswered: at the next one it is gone.
const mostUnanswered = 2

// Ping sends a ping, unless the peer still has to read what was sent before. If the peer has answered neither of the two
// pings before, Ping cuts the connection instead. With CanTry it does not wait for the peer.
func (c *Conn) Ping() {
	if c.unanswered.Add(1) > mostUnanswered {
		c.cut()
		return
	}
	if c.eager != nil && c.eager.behind.Load() {
		return
	}
	if err := c.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(c.o.WriteWait)); err != nil && !isTimeout(err) {
		c.cut() // after a timeout a long write is under way: if that fails, it returns the error itself
	}
}

// Close sends a close frame with a code and a reason, and closes. It does not wait for the peer, and takes a
// second at most. After it, no goroutine of the connection runs. Only the first call sends anything.
func (c *Conn) Close(code int, reason string) error {
	c.closing.Do(func() {
		c.closed.Store(true)
		if c.eager != nil {
			c.eager.wait.Store(int64(closeWait))
		}
		frame := websocket.FormatCloseMessage(code, cutText(reason, maxReason))
		c.ws.WriteControl(websocket.CloseMessage, frame, time.Now().Add(closeWait))
		if err := c.ws.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			c.closeErr = fmt.Errorf("close connection: %w", err)
		}
	})
	return c.closeErr
}

// maxReason is the longest reason of a close frame, in bytes (RFC 6455, 5.5: 125 bytes in all).
const maxReason = 123

// cutText cuts s to at most max bytes of valid UTF-8.
func cutText(s string, max int) string {
	s = strings.ToValidUTF8(s, "?")
	for len(s) > max {
		_, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
	}
	return s
}
