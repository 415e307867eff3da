//go:build !unix

package cost

import (
	"os"
	"time"
)

var began = time.Now()

// Processor returns the wall time, since the processor time is unknown.
func Processor() time.Duration { return time.Since(began) }

// Peak returns 0: unknown.
func Peak(*os.ProcessState) int64 { return 0 }
