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

	"golang.org/x/sys/unix"
)

// A span is the interval in which something arrived.
type span struct{ earliest, latest time.Time }

// A stampedConn knows when the bytes read last arrived at this machine, from the kernel's timestamp: a
// goroutine that reads them may be late by the time slices of all others, and a gap that a crawler kept after
// them would look shorter by that. For all the bytes that it returns at once, the kernel gives the arrival of
// the last; the others arrived between then and the last time when there was nothing to read.
type stampedConn struct {
	*net.TCPConn
	raw   syscall.RawConn
	empty time.Time // the earliest moment when the bytes read next may have arrived

	// For TLS, a Read returns no more than one record, so that the bytes read last are decrypted next.
	byRecord bool
	buffer   [32 << 10]byte
	left     []byte // of buffer
	leftCame span
	head     []byte // of the current record, up to the 5 bytes that give its length
	body     int    // bytes of it still to come

	mu   sync.Mutex
	came span
}

// stamped is a listener whose connections record when the bytes they read arrived.
type stamped struct {
	*net.TCPListener
	tls *tls.Config
}

// listenStamped listens at a TCP address.
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

// Accept returns a connection with timestamps for its requests; with TLS, it is decrypted.
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
		if n > 0 { // the end of a connection, which net/http looks for before the handler starts, is no request
			c.note(span{at.latest, at.latest}) // an HTTP/1 request arrives alone
		}
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
	if c.left = c.left[n:]; len(c.left) == 0 { // the kernel's time is that of its end
		c.note(span{c.leftCame.latest, c.leftCame.latest})
	} else {
		c.note(c.leftCame)
	}
	return n, nil
}

// receive reads the bytes that have arrived, and returns when.
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
	at = span{c.empty, time.Now()} // if the kernel gives no time
	messages, _ := syscall.ParseSocketControlMessage(oob[:noob])
	for _, m := range messages {
		if m.Header.Level == syscall.SOL_SOCKET && m.Header.Type == syscall.SCM_TIMESTAMPNS && len(m.Data) >= int(unsafe.Sizeof(syscall.Timespec{})) {
			at.latest = time.Unix(0, (*syscall.Timespec)(unsafe.Pointer(&m.Data[0])).Nano())
		}
	}
	if last, ended := c.beforeEnd(); ended && last.Before(at.latest) {
		at.latest = last
	}
	if at.earliest.After(at.latest) {
		at.earliest = at.latest
	}
	if n < len(p) {
		c.empty = at.latest
	}
	return n, at, nil
}

// beforeEnd returns by when the last data had arrived if the other side has ended the connection since: then the kernel's
// timestamp may be that of the end. TCP_INFO has the time of the data alone, to within 10 ms.
func (c *stampedConn) beforeEnd() (at time.Time, ended bool) {
	c.raw.Control(func(fd uintptr) {
		var one [1]byte
		if n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT); n != 0 || err != nil {
			return
		}
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.SOL_TCP, unix.TCP_INFO); err == nil {
			at, ended = time.Now().Add(10*time.Millisecond-time.Duration(info.Last_data_recv)*time.Millisecond), true
		}
	})
	return at, ended
}

// record returns how many of the bytes belong to one TLS record (RFC 8446, section 5.1).
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

// when returns when the bytes read last arrived: the request itself, except for HTTP/2.
func (c *stampedConn) when(*http.Request) span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.came
}

// WriteTo uses Read, which the method of TCPConn would bypass.
func (c *stampedConn) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{c})
}

// arrived returns when the request of a handler that has just started arrived: at the latest, and at the
// earliest.
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

// cameKey is the context key of a request's connection.
type cameKey struct{}
