//go:build unix

package harvest

import "syscall"

// silent reports whether a socket has nothing to read, not even its end. It consumes
// nothing.
func silent(s syscall.Conn) (quiet, known bool) {
	raw, err := s.SyscallConn()
	if err != nil {
		return false, false
	}
	var b [1]byte
	err = raw.Read(func(fd uintptr) bool {
		_, _, e := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
		quiet = e == syscall.EAGAIN || e == syscall.EWOULDBLOCK
		return true // sockets of the runtime do not block
	})
	return quiet && err == nil, true
}
