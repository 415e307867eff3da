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

// fillDisk prevents every file of the process from growing.
func fillDisk() { syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1, Max: 1}) }
