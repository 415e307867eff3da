//go:build unix

package wsconn

import (
	"os"
	"syscall"
)

const canWriteNow = true

// writeNow writes what the socket takes without waiting, and returns how many bytes those were.
func writeNow(raw syscall.RawConn, b []byte) (n int, err error) {
	closed := raw.Write(func(fd uintptr) bool {
		for {
			if n, err = syscall.Write(int(fd), b); err != syscall.EINTR {
				return true
			}
		}
	})
	switch n = max(n, 0); {
	case closed != nil:
		return 0, closed
	case err == syscall.EAGAIN:
		return n, nil
	}
	return n, os.NewSyscallError("write", err)
}
