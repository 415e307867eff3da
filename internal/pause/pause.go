// Package pause has the waits of loops: for a time, capped in tests, or until a wake-up.
package pause

import (
	"context"
	"io"
	"time"
)

// For waits for d, and returns false if ctx ended first.
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

// AtMost returns d, or most if that is above zero and less.
func AtMost(d, most time.Duration) time.Duration {
	if most > 0 {
		return min(d, most)
	}
	return d
}

// Wake wakes the receiver of c, which must have room for one: now, or when it next receives.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Reader returns a reader of r that fails once ctx has ended.
func Reader(ctx context.Context, r io.Reader) io.Reader { return reader{ctx, r} }

type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
