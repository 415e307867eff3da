package server

import (
	"context"
	"time"
)

// SpreadTime returns how long one waits to be told who is one of so many of an
// address, and of all.
func SpreadTime(ctx context.Context, each, all int) time.Duration {
	a := admission{total: all, byAddr: map[string]int{"192.0.2.1": each}}
	begun := time.Now()
	a.spread(ctx, "192.0.2.1")
	return time.Since(begun)
}
