//go:build unix

package main

import (
	"os"
	"runtime"
	"syscall"
)

// peak is what a process had resident at most, in MB.
func peak(p *os.ProcessState) float64 {
	u, ok := p.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	unit := 1024.0
	if runtime.GOOS == "darwin" {
		unit = 1
	}
	return float64(u.Maxrss) * unit / 1e6
}
