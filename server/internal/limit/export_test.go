package limit

import (
	"context"
	"sync"
	"time"
)

// HeldSlots returns how many slots of length long the stream deliveries, the answers, and the requests with
// expressions each got until ctx ended, while each addresses competed for slots of each kind.
func HeldSlots(ctx context.Context, each int, long time.Duration) (had [kinds]int, errs []error) {
	var t Slots
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range each * int(kinds) {
		k := Kind(i % int(kinds))
		all.Go(func() {
			for ctx.Err() == nil {
				turn, err := t.Acquire(context.Background(), string(rune('a'+i)), k, 5*time.Second, k != Delivering)
				if err == nil {
					time.Sleep(long)
					turn.Release()
				}
				mu.Lock()
				if had[k]++; err != nil {
					errs = append(errs, err)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return had, errs
}

// SpreadTime returns how long a delivery waits if its address has each subscribers, of all in total.
func SpreadTime(ctx context.Context, each, all int) time.Duration {
	a := Admission{total: all, byAddr: map[string]int{"192.0.2.1": each}}
	begun := time.Now()
	a.Spread(ctx, "192.0.2.1")
	return time.Since(begun)
}
