//go:build linux

package anysite

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// A span is when something came: at the earliest and at the latest.
type span struct{ earliest, latest time.Time }

// A stampedConn knows when the bytes that were read last came to this machine, by the kernel: a
// goroutine that reads them may be late by the time slices of all others, and a gap that a crawler kept
// after them would look shorter by that. The kernel says of all that it hands over at once when
// the last of it came; what lay before came between then and when there was nothing.
type stampedConn struct {
	*net.TCPConn
	raw   syscall.RawConn
	empty time.Time // since when, at the earliest, what is read next has come

	// Of TLS a Read returns no more than one record, so that what is read last is what is decrypted next.
	byRecord bool
	buffer   [32 << 10]byte
	left     []byte // of buffer
	leftCame span
	head     []byte // of the record that is read, up to the 5 bytes that say how long it is
	body     int    // bytes of it that are to come

	mu   sync.Mutex
	came span
}

// stamped has a listener note when what its connections read has come.
type stamped struct {
	*net.TCPListener
	tls *tls.Config
}

// listenStamped listens at an address of TCP.
func listenStamped(address string) (*stamped, error) {
	c := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		return errors.Join(raw.Control(func(fd uintptr) { // connections inherit it
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_TIMESTAMPNS, 1)
		}), err)
	}}
	ln, err := c.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, err
	}
	return &stamped{TCPListener: ln.(*net.TCPListener)}, nil
}

// Accept returns a connection whose requests are stamped; where there is TLS, what is read is decrypted.
func (l *stamped) Accept() (net.Conn, error) {
	c, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	s := &stampedConn{TCPConn: c, raw: raw, empty: time.Now(), byRecord: l.tls != nil}
	if l.tls == nil {
		return s, nil
	}
	return &openedConn{Conn: tls.Server(s, l.tls), under: s}, nil
}

func (c *stampedConn) Read(p []byte) (n int, err error) {
	if !c.byRecord {
		n, at, err := c.receive(p)
		c.note(span{at.latest, at.latest}) // a request of HTTP/1 comes alone
		return n, err
	}
	if len(c.left) == 0 {
		n, at, err := c.receive(c.buffer[:])
		if err != nil {
			return 0, err
		}
		c.left, c.leftCame = c.buffer[:n], at
	}
	n = copy(p, c.left[:c.record(c.left[:min(len(p), len(c.left))])])
	if c.left = c.left[n:]; len(c.left) == 0 { // its end is what the kernel speaks of
		c.note(span{c.leftCame.latest, c.leftCame.latest})
	} else {
		c.note(c.leftCame)
	}
	return n, nil
}

// receive reads what has come, and says when.
func (c *stampedConn) receive(p []byte) (n int, at span, err error) {
	var oob [64]byte
	noob := 0
	bad := c.raw.Read(func(fd uintptr) bool {
		for {
			before := time.Now()
			n, noob, _, _, err = syscall.Recvmsg(int(fd), p, oob[:], 0)
			if err == syscall.EAGAIN {
				c.empty = before
			}
			if err != syscall.EINTR {
				return err != syscall.EAGAIN
			}
		}
	})
	switch {
	case bad != nil:
		return 0, span{}, bad
	case err != nil:
		return 0, span{}, &net.OpError{Op: "read", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
	case n == 0 && len(p) > 0:
		return 0, span{}, io.EOF
	}
	at = span{c.empty, time.Now()} // where the kernel does not say
	messages, _ := syscall.ParseSocketControlMessage(oob[:noob])
	for _, m := range messages {
		if m.Header.Level == syscall.SOL_SOCKET && m.Header.Type == syscall.SCM_TIMESTAMPNS && len(m.Data) >= int(unsafe.Sizeof(syscall.Timespec{})) {
			at.latest = time.Unix(0, (*syscall.Timespec)(unsafe.Pointer(&m.Data[0])).Nano())
		}
	}
	if at.earliest.After(at.latest) {
		at.earliest = at.latest
	}
	if n < len(p) {
		c.empty = at.latest
	}
	return n, at, nil
}

// record is how many of the bytes are of one record of TLS (RFC 8446, section 5.1).
func (c *stampedConn) record(b []byte) (n int) {
	for n < len(b) {
		if len(c.head) < 5 {
			c.head = append(c.head, b[n])
			n++
			if len(c.head) < 5 {
				continue
			}
			c.body = int(binary.BigEndian.Uint16(c.head[3:]))
		}
		k := min(c.body, len(b)-n)
		n += k
		if c.body -= k; c.body == 0 {
			c.head = c.head[:0]
			break
		}
	}
	return n
}

func (c *stampedConn) note(at span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.came = at
}

// when is when what was read last came, which is the request itself, unless it is of HTTP/2.
func (c *stampedConn) when(*http.Request) span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.came
}

// WriteTo reads by Read, which that of a connection passes by.
func (c *stampedConn) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{c})
}

// arrived is when a request came whose handler has just begun: at the latest, and at the earliest.
func arrived(r *http.Request) (latest, earliest time.Time) {
	latest = time.Now()
	earliest = latest
	if c, ok := r.Context().Value(cameKey{}).(interface{ when(r *http.Request) span }); ok {
		if at := c.when(r); !at.latest.IsZero() && at.latest.Before(latest) {
			latest, earliest = at.latest, at.earliest
		}
	}
	return latest, earliest
}

// cameKey is that of the connection of a request.
type cameKey struct{}
