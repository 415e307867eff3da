//go:build unix

package crawl_test

import (
	"os"
	"syscall"
)

// killSelf ends the process as kill -9 does.
func killSelf() {
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// fillDisk lets no file of the process grow any more.
func fillDisk() { syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1, Max: 1}) }
