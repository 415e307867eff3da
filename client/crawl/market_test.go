package crawl_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/partition"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/pause"
)

// A stall is where a partition tells the others what it would spend.
type stall struct {
	number int
	told   *sync.Map // by number
}

func (s *stall) Bid(own fresh.Demand) { s.told.Store(s.number, own) }

func (s *stall) Others() (sum fresh.Demand) {
	s.told.Range(func(number, d any) bool {
		if d := d.(fresh.Demand); number != s.number {
			sum.Add(&d)
		}
		return true
	})
	return sum
}

// Crawlers that share a budget find one price: together they spend it, and their copies are worth as much as those of a single crawler, though
// the sites of some change often and those of others hardly ever. With a price for each, the copies would be worth less. (V29)
func TestCrawlersShareABudget(t *testing.T) {
	noRace(t)
	t.Parallel()
	const sites, pages, days, perPage = 24, 10, 10, .3
	run := func(of int, market bool) (right, spent float64) {
		inBubble(t, fakeweb.Options{Seed: 7}, func(t *testing.T, w *bubble) {
			var all []*fakeweb.Site
			var starts []string
			hot := map[*fakeweb.Site]bool{}
			for range sites {
				s := numbered(w, pages)
				all, starts = append(all, s), append(starts, s.Origin+"/")
				hot[s] = partition.Partition{Of: 3}.Foreign(s.Origin) == 1
			}
			ctx, cancel := context.WithTimeout(t.Context(), days*aDay)
			defer cancel()
			told := new(sync.Map)
			var running sync.WaitGroup
			defer running.Wait()
			for i := 1; i <= of; i++ {
				c := w.opened(t, func(o *crawl.Options) {
					o.Once, o.Start, o.Scope.Domain, o.Revisits.Objective = false, starts, []string{"example"}, "fresh=1"
					o.Collection.Into = filepath.Join(w.dir, fmt.Sprint("crawl", i))
					o.Revisits.Budget, o.Revisits.Frugal = fmt.Sprint(perPage*sites*(pages+1)), true
					o.Revisits.Replan, o.Sources.NoManifests, o.Sources.NoSitemaps, o.Sources.NoFeeds = 2*time.Hour, true, true, true
					p := partition.Partition{Number: i, Of: of}
					o.Scope.Share = &partition.Share{Partition: p, Carrier: &partition.Exchange{Dir: filepath.Join(w.dir, "exchange"), Partition: p},
						Ends: func() time.Time { return time.Now().Add(time.Hour) }}
					if market {
						o.Scope.Share.Market = &stall{i, told}
					}
				})
				running.Go(func() {
					if err := c.Run(ctx); err != nil {
						t.Error(err)
					}
					c.Collection.Close()
				})
			}
			began, rng := time.Now(), rand.New(rand.NewPCG(5, 6))
			edited := map[string][]time.Time{}
			for pause.For(ctx, 3*time.Hour) {
				for _, s := range all {
					every := 2000. // days
					if hot[s] {
						every = 1.5
					}
					for i := range pages {
						if rng.Float64() < 1/(8*every) {
							s.Edit(nth(i))
							edited[s.Origin+nth(i)] = append(edited[s.Origin+nth(i)], time.Now())
						}
					}
				}
			}
			running.Wait()
			half := began.Add(days / 2 * aDay)
			seen, copies := 0, 0
			for _, s := range all {
				_, n := visits(w, s, half)
				spent += float64(n) / (days / 2)
				at, _ := visits(w, s, began)
				for i := range pages {
					edits, fetched := edited[s.Origin+nth(i)], at[nth(i)]
					last := func(list []time.Time, now time.Time) (last time.Time) {
						for _, at := range list {
							if !at.After(now) {
								last = at
							}
						}
						return last
					}
					for now := half; now.Before(began.Add(days * aDay)); now = now.Add(3 * time.Hour) {
						copies++
						if !last(edits, now).After(last(fetched, now)) {
							seen++
						}
					}
				}
			}
			right, spent = float64(seen)/float64(copies), spent/(perPage*sites*(pages+1))
			t.Logf("%d crawlers, one price %t: %.4f of the copies are right, %.3f of the budget spent", of, market, right, spent)
		})
		return right, spent
	}
	one, _ := run(1, true)
	for _, of := range []int{3} {
		if right, spent := run(of, true); right < one-.01 || spent < .95 || spent > 1.05 {
			t.Errorf("%d crawlers: %.4f of the copies are right, %.4f of those of one crawler; %.3f of the budget spent", of, right, one, spent)
		}
	}
	if alone, _ := run(3, false); alone > one-.02 {
		t.Errorf("with a price for each of three crawlers %.4f of the copies are right, with one crawler %.4f: the market is worth nothing here", alone, one)
	}
}
