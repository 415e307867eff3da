//go:build unix

package main

import (
	"syscall"
	"time"
)

// processorTime is what this program has had of all processors. What else the
// machine does slows it down less than the clock says.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
