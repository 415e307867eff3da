//go:build linux

package anysite

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// A stampedConn knows when the bytes that were read last came to this machine, by the kernel: a
// goroutine that reads them may be late by the time slices of all others, and a gap that a crawler kept
// after them would look shorter by that.
type stampedConn struct {
	*net.TCPConn
	raw  syscall.RawConn
	came atomic.Int64 // in nanoseconds since 1970; 0 is unknown

	// first is when the first of them came since a handler began. Of HTTP/2 what is read last may be of
	// others than the request: by when it came at the latest and at the earliest is all that is known.
	first atomic.Int64
}

// stamped has a listener note when what its connections read has come.
type stamped struct{ *net.TCPListener }

// listenStamped listens at an address of TCP.
func listenStamped(address string) (net.Listener, error) {
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
	return stamped{ln.(*net.TCPListener)}, nil
}

func (l stamped) Accept() (net.Conn, error) {
	c, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &stampedConn{TCPConn: c, raw: raw}, nil
}

func (c *stampedConn) Read(p []byte) (n int, err error) {
	var oob [64]byte
	noob := 0
	bad := c.raw.Read(func(fd uintptr) bool {
		for {
			n, noob, _, _, err = syscall.Recvmsg(int(fd), p, oob[:], 0)
			if err != syscall.EINTR {
				return err != syscall.EAGAIN
			}
		}
	})
	switch {
	case bad != nil:
		return 0, bad
	case err != nil:
		return 0, &net.OpError{Op: "read", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	at := time.Now().UnixNano() // where the kernel does not say
	messages, _ := syscall.ParseSocketControlMessage(oob[:noob])
	for _, m := range messages {
		if m.Header.Level == syscall.SOL_SOCKET && m.Header.Type == syscall.SCM_TIMESTAMPNS && len(m.Data) >= int(unsafe.Sizeof(syscall.Timespec{})) {
			at = (*syscall.Timespec)(unsafe.Pointer(&m.Data[0])).Nano()
		}
	}
	c.came.Store(at)
	c.first.CompareAndSwap(0, at)
	return n, nil
}

// WriteTo reads by Read, which that of a connection passes by.
func (c *stampedConn) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{c})
}

// arrived is when a request came whose handler has just begun: at the latest, and at the earliest.
func arrived(r *http.Request) (latest, earliest time.Time) {
	latest = time.Now()
	earliest = latest
	if c, ok := r.Context().Value(cameKey{}).(*stampedConn); ok {
		if at := c.came.Load(); at > 0 && at < latest.UnixNano() {
			latest = time.Unix(0, at)
		}
		if at := c.first.Swap(0); at > 0 {
			earliest = time.Unix(0, at)
		}
	}
	if earliest.After(latest) {
		earliest = latest
	}
	return latest, earliest
}

// cameKey is that of the connection of a request.
type cameKey struct{}
