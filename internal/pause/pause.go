// Package pause has what a loop pauses by: for a time, for less of it in a
// test, and until somebody wakes it.
package pause

import (
	"context"
	"time"
)

// For waits for d, and reports whether ctx let it.
func For(ctx context.Context, d time.Duration) bool { return Sleep(ctx, d) == nil }

// Sleep waits for d, or until ctx ends, whose error it returns.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// AtMost is d, or most if that is above zero and less.
func AtMost(d, most time.Duration) time.Duration {
	if most > 0 {
		return min(d, most)
	}
	return d
}

// Wake wakes who receives from c, which has room for one: now, or as soon as he does.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
