package server

import (
	"context"
	"sync"
	"time"
)

// TakenTurns returns how many slots of length long the stream deliveries, the answers, and the requests with
// expressions each got until ctx ended, while each addresses competed for slots of each kind.
func TakenTurns(ctx context.Context, each int, long time.Duration) (had [kinds]int, errs []error) {
	var t turns
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range each * int(kinds) {
		k := kind(i % int(kinds))
		all.Go(func() {
			for ctx.Err() == nil {
				turn, err := t.take(context.Background(), string(rune('a'+i)), k, 5*time.Second, k != telling)
				if err == nil {
					time.Sleep(long)
					turn.leave()
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
