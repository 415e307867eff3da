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

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/site/ping"
)

// For any answers of the subscribers and any kills of the hub, each subscriber ends with the newest content.
// Without a kill no accepted content is delivered twice, with a kill at most once more; and no older content
// follows a newer one. In every other history the topics are written some time after the journal, and
// reported as published some time later still.
func TestRandomDeliveries(t *testing.T) {
	n := 150
	if testing.Short() {
		n = 15
	}
	dir := scratch(t)
	var sum deliveries
	t.Run("seeds", func(t *testing.T) {
		for seed := range n {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { randomDeliveries(t, dir, seed, &sum) })
			})
		}
	})
	t.Logf("%d histories, %d deliveries, %d of them to lagging sites' subscribers, %d kills, %d deliveries repeated",
		n, sum.all.Load(), sum.lagging.Load(), sum.kills.Load(), sum.repeats.Load())
	if sum.kills.Load() == 0 || sum.repeats.Load() == 0 || sum.lagging.Load() == 0 {
		t.Error("the histories test too little")
	}
}

type deliveries struct{ all, lagging, kills, repeats atomic.Int64 }

func randomDeliveries(t *testing.T, dir string, seed int, sum *deliveries) {
	rnd, moods := rand.New(rand.NewPCG(uint64(seed), 5)), rand.New(rand.NewPCG(uint64(seed), 6))
	w := &hubWorld{world: &world{t: t, file: fmt.Sprintf("%s/%d", dir, seed), hosts: make(map[string]roundTripper), writes: seed%2 == 1},
		feeds: &feeds{versions: make(map[string][]string)}}
	w.open()
	defer func() { w.journal.Close() }()
	w.must(w.journal.EndBaseline())
	w.feeds.publish(feedTopic, "first")
	w.sub = newSubscriber(w.world, w.feeds, "reader.example")
	var killed atomic.Bool
	var cancel context.CancelFunc
	var owned sync.WaitGroup
	start := func() {
		w.hub = &ping.Hub{Options: ping.HubOptions{Journal: w.journal, URL: ownHub, Topics: []string{feedTopic}, Topic: w.feeds.topic, HTTP: w.client(), Published: w.lagging()}}
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
	ends := make(map[string][]int) // the last delivery before each kill, by callback
	restart := func() {
		cancel()
		owned.Wait()
		w.journal.Close()
		if killed.Swap(false) {
			sum.kills.Add(1)
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
	written := []time.Time{time.Now()} // time of each version
	write := func(content string) {
		w.feeds.publish(feedTopic, content)
		w.write()
		written = append(written, time.Now())
	}
	for i := range 25 {
		for killed.Load() || rnd.IntN(8) == 0 {
			restart()
		}
		switch c := names[rnd.IntN(3)]; rnd.IntN(4) {
		case 0:
			if w.ask("hub.callback", c, "hub.lease_seconds", "2592000") == 202 {
				active[c] = true
			}
		case 1:
			if w.writes {
				w.world.publish()
				break
			}
			fallthrough
		default:
			if !w.writes {
				write(fmt.Sprint("version ", i))
			}
			w.change(create(fmt.Sprint(seed, "-", i)))
			if w.writes && rnd.IntN(2) == 0 {
				pass(time.Duration(rnd.Int64N(int64(time.Minute))))
				for killed.Load() {
					restart()
				}
				write(fmt.Sprint("version ", i))
			}
		}
		pass(time.Duration(rnd.Int64N(int64([]time.Duration{time.Second, time.Minute, time.Hour}[rnd.IntN(3)]))))
	}
	w.sub.mu.Lock()
	w.sub.mood = nil
	w.sub.mu.Unlock()
	for killed.Load() {
		restart()
	}
	if w.writes {
		w.change(create(fmt.Sprint(seed, "-last")))
		pass(time.Minute)
		write("last")
		pass(2 * time.Minute)
		w.world.publish()
	}
	pass(72 * time.Hour)
	st := must.Get(w.hub.Status())
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
			if sum.all.Add(1); w.writes {
				sum.lagging.Add(1)
			}
			if was != nil && d.version < was.version {
				t.Errorf("seed %d: version %d after version %d", seed, d.version, was.version)
			}
			if was != nil && d.version == was.version {
				sum.repeats.Add(1)
				if !slices.Contains(ends[c], was.n) {
					t.Errorf("seed %d: version %d was delivered twice to %s, at %s and %s", seed, d.version, c, stamp(was.at), stamp(d.at))
				}
			}
			was = &d
		}
		for _, s := range st.Subscriptions {
			if s.Callback != c {
				continue
			}
			has := 0 // the version at its subscription, or its last delivery
			for _, at := range written {
				if !at.After(s.Since) {
					has++
				}
			}
			if was != nil {
				has = was.version
			}
			if has != newest {
				t.Errorf("seed %d: %s has version %d, the newest is %d", seed, c, has, newest)
			}
		}
	}
}
