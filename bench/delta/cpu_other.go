//go:build !unix

package main

import "time"

var began = time.Now()

// processorTime is the time on the clock, where no other is known.
func processorTime() time.Duration { return time.Since(began) }
