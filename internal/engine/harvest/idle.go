package harvest

import (
	"crypto/tls"
	"errors"
	"os"
	"syscall"
	"time"
)

// quiet reports whether a connection has received nothing since the last response, neither a
// byte nor its end: bytes sent before a request must not be taken for its response. HTTP/2
// assigns responses to requests itself.
func (c *conn) quiet() bool {
	switch {
	case c.h2 != nil:
		return true
	case c.ended.Load() || c.buf.Buffered() > 0:
		return false
	}
	if s, ok := c.raw.(syscall.Conn); ok {
		if quiet, known := silent(s); known && (!quiet || c.nc == c.raw) {
			return quiet
		}
	}
	// Bytes that TLS has read ahead are returned without a system call. A connection that is
	// not a socket, as in tests, can only be read for a moment.
	wait := time.Now()
	if _, secure := c.nc.(*tls.Conn); !secure {
		wait = wait.Add(100 * time.Microsecond)
	}
	if c.nc.SetReadDeadline(wait) != nil {
		return false
	}
	var b [1]byte
	n, err := c.nc.Read(b[:])
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && c.nc.SetReadDeadline(time.Time{}) == nil
}
