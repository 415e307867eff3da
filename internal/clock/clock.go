// Package clock tells the time, and compares times.
package clock

import "time"

// Now is what a clock shows; one that is nil shows the time.
func Now(clock func() time.Time) time.Time {
	if clock != nil {
		return clock()
	}
	return time.Now()
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
