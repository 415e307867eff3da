package ping_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/server/ping"
)

// Whatever subscribers answer and however often the hub ends, in the end each
// has the newest content. Without a kill nobody gets the same twice that was
// taken, with one at most once more; and nobody gets an older one after a newer.
func TestRandomDeliveries(t *testing.T) {
	n := 200
	if testing.Short() {
		n = 40
	}
	dir := scratch(t)
	var deliveries, kills, repeats int
	for seed := range n {
		synctest.Test(t, func(t *testing.T) {
			rnd, moods := rand.New(rand.NewPCG(uint64(seed), 5)), rand.New(rand.NewPCG(uint64(seed), 6))
			w := &hubWorld{world: &world{t: t, file: fmt.Sprintf("%s/%d", dir, seed), hosts: make(map[string]roundTripper)},
				feeds: &feeds{versions: make(map[string][]string)}}
			w.open()
			defer func() { w.journal.Close() }()
			w.must(w.journal.Settle())
			w.feeds.publish(feedTopic, "first")
			w.sub = newSubscriber(w.world, w.feeds, "reader.example")
			var killed atomic.Bool
			var cancel context.CancelFunc
			var owned sync.WaitGroup
			start := func() {
				w.hub = &ping.Hub{Journal: w.journal, URL: ownHub, Topics: []string{feedTopic}, Topic: w.feeds.topic, HTTP: w.client()}
				var ctx context.Context
				ctx, cancel = context.WithCancel(context.Background())
				hub := w.hub
				owned.Go(func() { hub.Run(ctx) })
			}
			w.sub.kill = func() {
				if killed.CompareAndSwap(false, true) {
					cancel()
					w.journal.Close()
				}
			}
			w.sub.mood = func() string {
				return []string{"200", "204", "202", "500", "hang", "redirect", "429 seconds", "kill"}[moods.IntN(8)]
			}
			ends := make(map[string][]int) // by callback: its last delivery before each kill
			restart := func() {
				cancel()
				owned.Wait()
				w.journal.Close()
				if killed.Swap(false) {
					kills++
					last := make(map[string]int)
					for _, d := range w.sub.got {
						last[d.callback] = d.n
					}
					for c, n := range last {
						ends[c] = append(ends[c], n)
					}
				}
				w.open()
				start()
				synctest.Wait()
			}
			start()
			synctest.Wait()
			names := []string{"https://reader.example/a", "https://reader.example/b", "https://reader.example/c?x=1"}
			active := make(map[string]bool)
			for i := range 25 {
				for killed.Load() || rnd.IntN(8) == 0 {
					restart()
				}
				switch c := names[rnd.IntN(3)]; rnd.IntN(4) {
				case 0:
					if w.ask("hub.callback", c, "hub.lease_seconds", "2592000") == 202 {
						active[c] = true
					}
				default:
					w.feeds.publish(feedTopic, fmt.Sprint("version ", i))
					w.change(create(fmt.Sprint(seed, "-", i)))
				}
				pass(time.Duration(rnd.Int64N(int64([]time.Duration{time.Second, time.Minute, time.Hour}[rnd.IntN(3)]))))
			}
			w.sub.mu.Lock()
			w.sub.mood = nil
			w.sub.mu.Unlock()
			for killed.Load() {
				restart()
			}
			pass(72 * time.Hour)
			st, err := w.hub.Status()
			w.must(err)
			check(t, "subscriptions", len(st.Subscriptions), len(active))
			cancel()
			owned.Wait()
			newest := len(w.feeds.versions[feedTopic])
			for c := range active {
				var was *delivery
				for _, d := range w.sub.got {
					if d.callback != c || !d.ok {
						continue
					}
					deliveries++
					if was != nil && d.version < was.version {
						t.Errorf("seed %d: version %d after version %d", seed, d.version, was.version)
					}
					if was != nil && d.version == was.version {
						repeats++
						if !slices.Contains(ends[c], was.n) {
							t.Errorf("seed %d: version %d was delivered twice to %s, at %s and %s", seed, d.version, c, stamp(was.at), stamp(d.at))
						}
					}
					was = &d
				}
				for _, s := range st.Subscriptions {
					// One that was subscribed last of all had it already.
					if s.Callback == c && (was == nil || was.version != newest) && s.Deliveries > 0 {
						t.Errorf("seed %d: %s has %+v, the newest is version %d", seed, c, was, newest)
					}
				}
			}
		})
	}
	t.Logf("%d histories, %d deliveries, %d kills, %d deliveries repeated", n, deliveries, kills, repeats)
	if kills == 0 || repeats == 0 {
		t.Error("the histories test too little")
	}
}
