package server

import (
	"context"
	"time"
)

// SpreadTime returns how long a delivery waits if its address has each subscribers, of all in total.
func SpreadTime(ctx context.Context, each, all int) time.Duration {
	a := admission{total: all, byAddr: map[string]int{"192.0.2.1": each}}
	begun := time.Now()
	a.spread(ctx, "192.0.2.1")
	return time.Since(begun)
}
