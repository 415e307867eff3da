//go:build !unix

package wsconn

import "syscall"

const canWriteNow = false

type writeNow struct{}

func (*writeNow) init() {}

func (*writeNow) write(syscall.RawConn, []byte) (int, error) { return 0, nil }
