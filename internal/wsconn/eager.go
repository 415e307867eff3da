package wsconn

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// An eagerConn writes what the socket takes at once, without a deadline, which would cost about as much as the write.
// A write waits for the peer only while wait is above zero; else the remainder is stored, and sent before anything else.
type eagerConn struct {
	net.Conn
	raw    syscall.RawConn
	wait   atomic.Int64 // time.Duration
	behind atomic.Bool  // there is a remainder

	mu   sync.Mutex // guards the fields below, and the order of writes
	rest []byte     // the remainder, never altered
	now  writeNow
}

// newEagerConn returns nil if it cannot be known of a connection how much its socket takes: with TLS, for example.
func newEagerConn(conn net.Conn) *eagerConn {
	var raw syscall.RawConn
	var err error
	switch c := conn.(type) { // not a type that embeds one of them and may do more
	case *net.TCPConn:
		raw, err = c.SyscallConn()
	case *net.UnixConn:
		raw, err = c.SyscallConn()
	}
	if raw == nil || err != nil || !canWriteNow {
		return nil
	}
	c := &eagerConn{Conn: conn, raw: raw}
	c.now.init()
	return c
}

// SetWriteDeadline does nothing: wait bounds a write.
func (c *eagerConn) SetWriteDeadline(time.Time) error { return nil }

// Write keeps what it stores of b, which must not be altered then.
func (c *eagerConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.flush(); err != nil {
		return 0, err
	}
	if len(c.rest) > 0 {
		c.rest = append(c.rest[:len(c.rest):len(c.rest)], b...)
		return len(b), nil
	}
	left, err := c.send(b)
	if err != nil {
		return len(b) - len(left), err
	}
	c.store(left)
	return len(b), nil
}

// Flush sends the remainder.
func (c *eagerConn) Flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flush()
}

func (c *eagerConn) flush() error {
	if len(c.rest) == 0 {
		return nil
	}
	left, err := c.send(c.rest)
	c.store(left)
	return err
}

func (c *eagerConn) store(rest []byte) {
	c.rest = rest
	c.behind.Store(len(rest) > 0)
}

// send returns what it could not send.
func (c *eagerConn) send(b []byte) (left []byte, err error) {
	n, err := c.now.write(c.raw, b)
	wait := time.Duration(c.wait.Load())
	if err != nil || n == len(b) || wait <= 0 {
		return b[n:], err
	}
	c.Conn.SetWriteDeadline(time.Now().Add(wait))
	more, err := c.Conn.Write(b[n:])
	c.Conn.SetWriteDeadline(time.Time{}) // or it would end a later write
	return b[n+more:], err
}
