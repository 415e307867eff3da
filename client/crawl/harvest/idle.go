package harvest

import (
	"crypto/tls"
	"errors"
	"os"
	"syscall"
	"time"
)

// quiet reports whether nothing has come over a connection since the last answer, neither a
// byte nor its end: what a server sends before it is asked is not the answer to what it is
// asked next. HTTP/2 says itself what an answer is to.
func (c *conn) quiet() bool {
	switch {
	case c.h2 != nil:
		return true
	case c.ended.Load() || c.buf.Buffered() > 0:
		return false
	}
	if s, ok := c.raw.(syscall.Conn); ok {
		if c.raw.SetReadDeadline(time.Time{}) != nil {
			return false
		}
		if quiet, known := silent(s); known && (!quiet || c.nc == c.raw) {
			return quiet
		}
	}
	// What TLS has read ahead comes without a look at the network. A connection that is not
	// the system's own, as in tests, can only be read for a moment.
	wait := time.Now()
	if _, secure := c.nc.(*tls.Conn); !secure {
		wait = wait.Add(100 * time.Microsecond)
	}
	if c.nc.SetReadDeadline(wait) != nil {
		return false
	}
	var b [1]byte
	n, err := c.nc.Read(b[:])
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}
