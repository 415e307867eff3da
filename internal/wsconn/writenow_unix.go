//go:build unix

package wsconn

import (
	"os"
	"syscall"
)

const canWriteNow = true

// A writeNow writes without waiting. It is reused, so that a write allocates nothing.
type writeNow struct {
	call func(fd uintptr) bool
	b    []byte
	n    int
	err  error
}

func (w *writeNow) init() {
	w.call = func(fd uintptr) bool {
		for {
			if w.n, w.err = syscall.Write(int(fd), w.b); w.err != syscall.EINTR {
				return true
			}
		}
	}
}

// write writes what the socket takes of b, and returns how many bytes those were.
func (w *writeNow) write(raw syscall.RawConn, b []byte) (int, error) {
	w.b = b
	closed := raw.Write(w.call)
	w.b = nil
	switch n := max(w.n, 0); {
	case closed != nil:
		return 0, closed
	case w.err == syscall.EAGAIN:
		return n, nil
	default:
		return n, os.NewSyscallError("write", w.err)
	}
}
