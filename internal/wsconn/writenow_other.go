//go:build !unix

package wsconn

import "syscall"

const canWriteNow = false

func writeNow(syscall.RawConn, []byte) (int, error) { return 0, nil }
