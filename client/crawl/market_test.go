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

// A sharedCrawl is a crawl of sites of ten pages by crawlers that have a budget in common.
type sharedCrawl struct {
	of          int // crawlers
	market      bool
	sites, days int
	perPage     float64                     // the budget
	every       func(origin string) float64 // days between two edits of a page
	tells       func(origin string) bool    // whether a site has a manifest; nil: none has
}

// run returns, for the later half of the time, the share of right copies of silent sites, and how much of the budget is spent.
func (c *sharedCrawl) run(t *testing.T) (right, spent float64) {
	const pages = 10
	budget := c.perPage * float64(c.sites*(pages+1))
	inBubble(t, fakeweb.Options{Seed: 7}, func(t *testing.T, w *bubble) {
		var all []*fakeweb.Site
		var starts []string
		edits := map[*fakeweb.Site]func(path string){}
		rng := rand.New(rand.NewPCG(5, 6))
		for range c.sites {
			s := numbered(w, pages)
			all, starts = append(all, s), append(starts, s.Origin+"/")
			if edits[s] = s.Edit; c.tells != nil && c.tells(s.Origin) {
				edits[s] = forgetful(s, 0, rng)
			}
		}
		days := time.Duration(c.days) * aDay
		ctx, cancel := context.WithTimeout(t.Context(), days)
		defer cancel()
		told := new(sync.Map)
		var running sync.WaitGroup
		defer running.Wait()
		for i := 1; i <= c.of; i++ {
			crawler := w.opened(t, func(o *crawl.Options) {
				o.Once, o.Start, o.Scope.Domain, o.Revisits.Objective = false, starts, []string{"example"}, "fresh=1"
				o.Collection.Into = filepath.Join(w.dir, fmt.Sprint("crawl", i))
				o.Revisits.Budget, o.Revisits.Frugal = fmt.Sprint(budget), true
				o.Revisits.Replan, o.Sources.NoManifests, o.Sources.NoSitemaps, o.Sources.NoFeeds = 2*time.Hour, c.tells == nil, true, true
				p := partition.Partition{Number: i, Of: c.of}
				o.Scope.Share = &partition.Share{Partition: p, Carrier: &partition.Exchange{Dir: filepath.Join(w.dir, "exchange"), Partition: p},
					Ends: func() time.Time { return time.Now().Add(time.Hour) }}
				if c.market {
					o.Scope.Share.Market = &stall{i, told}
				}
			})
			running.Go(func() {
				if err := crawler.Run(ctx); err != nil {
					t.Error(err)
				}
				crawler.Collection.Close()
			})
		}
		began := time.Now()
		edited := map[string][]time.Time{}
		for pause.For(ctx, 3*time.Hour) {
			for _, s := range all {
				for i := range pages {
					if rng.Float64() < 1/(8*c.every(s.Origin)) {
						edits[s](nth(i))
						edited[s.Origin+nth(i)] = append(edited[s.Origin+nth(i)], time.Now())
					}
				}
			}
		}
		running.Wait()
		half := began.Add(days / 2)
		seen, copies := 0, 0
		for _, s := range all {
			_, n := visits(w, s, half)
			spent += float64(n) / (float64(c.days) / 2)
			if c.tells != nil && c.tells(s.Origin) {
				continue
			}
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
				for now := half; now.Before(began.Add(days)); now = now.Add(3 * time.Hour) {
					copies++
					if !last(edits, now).After(last(fetched, now)) {
						seen++
					}
				}
			}
		}
		right, spent = float64(seen)/float64(copies), spent/budget
		t.Logf("%d crawlers, one price %t: %.4f of the copies are right, %.3f of the budget spent", c.of, c.market, right, spent)
	})
	return right, spent
}

// Crawlers that share a budget find one price: together they spend it, and their copies are worth as much as those of a single crawler, though
// the sites of some change often and those of others hardly ever. With a price for each, the copies would be worth less. (V29)
func TestCrawlersShareABudget(t *testing.T) {
	noRace(t)
	t.Parallel()
	run := func(of int, market bool) (right, spent float64) {
		c := &sharedCrawl{of: of, market: market, sites: 24, days: 10, perPage: .3}
		c.every = func(origin string) float64 {
			if (partition.Partition{Of: 3}).Foreign(origin) == 1 {
				return 1.5
			}
			return 2000
		}
		return c.run(t)
	}
	one, spent := run(1, true)
	if spent < .95 || spent > 1.05 {
		t.Errorf("one crawler spends %.3f of the budget", spent)
	}
	for _, of := range []int{3, 10} {
		if right, spent := run(of, true); right < one-.01 || spent < .95 || spent > 1.05 {
			t.Errorf("%d crawlers: %.4f of the copies are right, %.4f of those of one crawler; %.3f of the budget spent", of, right, one, spent)
		}
	}
	if alone, _ := run(3, false); alone > one-.02 {
		t.Errorf("with a price for each of three crawlers %.4f of the copies are right, with one crawler %.4f: the market is worth nothing here", alone, one)
	}
}

// Where sites announce their changes, a crawler saves for these. Crawlers of silent sites have their part of what is saved.
func TestCrawlersShareWhatIsLeft(t *testing.T) {
	noRace(t)
	t.Parallel()
	run := func(of int) (right, spent float64) {
		c := &sharedCrawl{of: of, market: true, sites: 12, days: 60, perPage: .3, every: func(string) float64 { return 5 }}
		c.tells = func(origin string) bool { return partition.Partition{Of: 3}.Foreign(origin) == 1 }
		return c.run(t)
	}
	one, all := run(1)
	// Without that, 5 % of the budget is left, and the copies are worth 2.4 points less; two runs may differ by 1.7 points.
	if right, spent := run(3); right < one-.03 || spent < all-.03 {
		t.Errorf("3 crawlers: %.4f of the copies of silent sites are right, %.4f of those of one crawler; %.3f of the budget spent, %.3f by one", right, one, spent, all)
	}
}
