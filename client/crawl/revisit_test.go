package crawl_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/trust"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

const aDay = 24 * time.Hour

// numbered makes a site of a front page and so many others that it links to.
func numbered(w *bubble, pages int) *fakeweb.Site {
	s := w.Add(fakeweb.Honest)
	s.Speaks, s.Sitemap, s.Robots = false, false, "User-agent: *\nDisallow: /cgi-bin/\n"
	for i := range pages {
		s.Edit(nth(i))
	}
	return s
}

// speaking makes one that publishes its changes.
func speaking(w *bubble, pages int) *fakeweb.Site {
	s := numbered(w, pages)
	s.Speaks = true
	return s
}

// eager is a budget of so many visits a day, beside which announced changes are fetched at once.
func eager(perDay float64) crawl.Revisit {
	return crawl.Revisit{Policy: fresh.Priced{Eager: true}, PerDay: perDay}
}

// The silence of a site that publishes its changes is believed from the moment its door works, not only from its first change on. And that the whole site
// was written half a minute before the crawl does not mean that its pages change each minute.
func TestQuietSiteIsBelieved(t *testing.T) {
	noRace(t)
	t.Parallel()
	inBubble(t, fakeweb.Options{Seed: 1}, func(t *testing.T, w *bubble) {
		s := speaking(w, 40)
		c, _ := w.paid(t, eager(8))
		runFor(t, c, 3*aDay, func(ctx context.Context) {
			pause.For(ctx, 2*aDay)
			if f := c.Status().Revisits.Fresh; f < .85 {
				t.Errorf("%.1f %% of the pages are estimated to be fresh %s", 100*f, explained(t, c, s.Origin+nth(0)))
			}
		})
	})
}

func nth(i int) string { return fmt.Sprintf("/n%02d.html", i) }

// visits returns the times at which each page of a site was fetched since a time.
func visits(w *bubble, s *fakeweb.Site, since time.Time) (at map[string][]time.Time, all int) {
	at = map[string][]time.Time{}
	for _, a := range w.Log() {
		if page := a.Path == "/" || strings.HasSuffix(a.Path, ".html"); page && a.Site == s && !a.Begin.Before(since) {
			at[a.Path] = append(at[a.Path], a.Begin)
			all++
		}
	}
	return at, all
}

// A budget is spent in full, on the pages that change, and on none more often than allowed.
func TestRevisitsSpendTheBudget(t *testing.T) {
	noRace(t)
	t.Parallel()
	inBubble(t, fakeweb.Options{Seed: 5}, func(t *testing.T, w *bubble) {
		s := numbered(w, 30)
		const shortest, perPage, first, days = 2 * time.Hour, 2, 4, 10
		c, col := w.paid(t, crawl.Revisit{Policy: fresh.Priced{Shortest: shortest}, PerPage: perPage})
		began := time.Now()
		runFor(t, c, days*aDay, func(ctx context.Context) {
			for hour := 1; pause.For(ctx, time.Hour); hour++ {
				for i, every := range []int{5, 11, 24} {
					if hour%every == 0 {
						s.Edit(nth(i))
					}
				}
			}
		})
		at, all := visits(w, s, began.Add(first*aDay))
		budget := perPage * float64(col.Len()) * (days - first)
		if got := float64(all); got < budget*.95 || got > budget*1.05 {
			t.Errorf("%d visits, want about %.0f", all, budget)
		}
		still := 0
		for i := 3; i < 30; i++ {
			still += len(at[nth(i)])
		}
		for i := range 3 {
			if n := float64(len(at[nth(i)])); n < 1.3*float64(still)/27 {
				t.Errorf("%s changes and was visited %.0f times; unchanged pages %.1f times on average", nth(i), n, float64(still)/27)
			}
		}
		at, _ = visits(w, s, began)
		for path, list := range at {
			for i := range list[1:] {
				if gap := list[i+1].Sub(list[i]); gap < shortest-time.Millisecond { // to which times are stored
					t.Errorf("%s was visited again after %v, %v after the start", path, gap, list[i].Sub(began))
				}
			}
		}
		t.Logf("%d visits for %.0f; %d, %d and %d of those that change, %.1f of others: %+v", all, budget, len(at[nth(0)]), len(at[nth(1)]), len(at[nth(2)]), float64(still)/27, c.Status().Revisits)
	})
}

// Polls of a manifest are paid from the same budget as visits: what is left of it at the end is what neither has spent.
func TestPollsSpendTheBudget(t *testing.T) {
	noRace(t)
	t.Parallel()
	inBubble(t, fakeweb.Options{Seed: 5}, func(t *testing.T, w *bubble) {
		s := speaking(w, 100)
		s.Polled = true
		const perDay, days = 20, 40
		c, col := w.paid(t, crawl.Revisit{PerDay: perDay})
		began := time.Now()
		runFor(t, c, days*aDay, func(ctx context.Context) {
			for i := 0; pause.For(ctx, 2*time.Hour); i++ {
				s.Edit(nth(i % 100))
			}
		})
		at, again := visits(w, s, began)
		again -= len(at) // first visits are free
		polls := 0
		for _, a := range w.Log() {
			if a.Path == "/robots.rdf" {
				polls++
			}
		}
		_, left, _ := col.Revisits().Kept()
		spent := fresh.Burst(perDay)/2 + perDay*days - left.Balance
		if together := float64(again + polls); polls < 3*days || spent < .95*together || spent > 1.05*together {
			t.Errorf("%d visits and %d polls have cost %.0f", again, polls, spent)
		}
	})
}

// Pages that become due together, since all are as old and nothing is known of any, are visited as the budget allows, one after the other.
func TestPagesDueTogetherDoNotOverdrawTheBudget(t *testing.T) {
	noRace(t)
	t.Parallel()
	inBubble(t, fakeweb.Options{Seed: 5}, func(t *testing.T, w *bubble) {
		s := numbered(w, 99)
		s.Undated = true
		const perPage, days = .1, 12
		c, col := w.paid(t, crawl.Revisit{PerPage: perPage})
		began := time.Now()
		runFor(t, c, days*aDay, nil)
		budget := perPage * float64(col.Len())
		first := began.Add(aDay / 2) // when all have been fetched once
		all, _ := visits(w, s, first)
		of := make([]int, days+1)
		for _, list := range all {
			for _, at := range list {
				of[int(at.Sub(began)/aDay)]++
			}
		}
		sum, purse := 0., fresh.Burst(budget)
		for day, n := range of {
			sum += float64(n)
			if most := purse/2 + budget*float64(day+1); sum > most {
				t.Errorf("%.0f visits by day %d, want %.0f at most: %v", sum, day+1, most, of)
			}
		}
		if sum < budget*days/2 {
			t.Errorf("%.0f visits in %d days, want about %.0f: %v", sum, days, budget*days, of)
		}
	})
}

// Changes that a site announces are fetched at once though the budget is practically
// zero; and wait if that is not wanted.
func TestRevisitsOfAnnouncedChanges(t *testing.T) {
	noRace(t)
	t.Parallel()
	for _, eager := range []bool{true, false} {
		t.Run(fmt.Sprintf("eager %v", eager), func(t *testing.T) {
			inBubble(t, fakeweb.Options{Seed: 6}, func(t *testing.T, w *bubble) {
				s := speaking(w, 30)
				c, _ := w.paid(t, crawl.Revisit{Policy: fresh.Priced{Eager: eager}, PerDay: 0.5})
				var list []push
				began := time.Now()
				runFor(t, c, 6*aDay, func(ctx context.Context) {
					pause.For(ctx, aDay)
					list = pushing(ctx, s, 33, 3*time.Hour)
				})
				_, all := visits(w, s, began.Add(aDay))
				n := prompt(w, s, list)
				switch {
				case eager && n < len(list):
					t.Errorf("of %d changes %d were fetched at once", len(list), n)
				case !eager && all > len(list)/2:
					t.Errorf("%d visits for %d changes, with a budget of one in two days", all, len(list))
				}
				t.Logf("%d changes, %d fetched at once, %d visits", len(list), n, all)
			})
		})
	}
}

// If visits are priced in bytes, a practically zero budget still leaves room for 100 medium-sized pages at once.
func TestRevisitsOfAnnouncedChangesPricedInBytes(t *testing.T) {
	noRace(t)
	t.Parallel()
	inBubble(t, fakeweb.Options{Seed: 6}, func(t *testing.T, w *bubble) {
		s := speaking(w, 30)
		c, _ := w.paid(t, crawl.Revisit{Policy: fresh.Priced{Eager: true, Costs: fresh.Bytes()}, PerDay: 0.5})
		var edited time.Time
		runFor(t, c, aDay, func(ctx context.Context) {
			if pause.For(ctx, 12*time.Hour) {
				edited = time.Now()
				for i := range 30 {
					s.Put(nth(i), "<title>longer</title>"+strings.Repeat("<p>many words", 1500))
				}
			}
		})
		at, all := visits(w, s, edited)
		for i := range 30 {
			if v := at[nth(i)]; len(v) == 0 || v[0].Sub(edited) > 5*time.Minute {
				t.Errorf("%s has changed at %v and was fetched at %v", nth(i), edited, v)
			}
		}
		if all > 36 { // some are audits
			t.Errorf("%d visits", all)
		}
	})
}

// After a restart no stored page is visited before there is a plan, though all pages
// are due by the plan of the last run; and the new one has no budget for them.
func TestRevisitsAfterRestart(t *testing.T) {
	noRace(t)
	t.Parallel()
	inBubble(t, fakeweb.Options{Seed: 7}, func(t *testing.T, w *bubble) {
		s := numbered(w, 30)
		c, col := w.paid(t, crawl.Revisit{PerPage: 10}) // which makes all pages due every few hours
		runFor(t, c, 6*time.Hour, func(ctx context.Context) {
			for i := 0; pause.For(ctx, 5*time.Minute); i++ {
				s.Edit(nth(i % 10))
			}
		})
		must.OK(t, col.Close())
		time.Sleep(12 * time.Hour) // robots.txt is still known: pages could be fetched at once

		again, _ := w.paid(t, crawl.Revisit{PerDay: 0.5, PerPage: 10})
		var early atomic.Int64
		s.Handler = func(_ http.ResponseWriter, req *http.Request) bool {
			if req.URL.Path != "/robots.txt" && req.URL.Path != "/robots.rdf" && again.Status().Revisits == nil {
				early.Add(1)
			}
			return false
		}
		began := time.Now()
		runFor(t, again, 6*time.Hour, nil)
		at, all := visits(w, s, began)
		if early.Load() > 0 || all > 5 {
			t.Errorf("%d visits, %d of them before the first plan: %v", all, early.Load(), at)
		}
		if again.Status().Revisits == nil {
			t.Error("nothing was planned")
		}
	})
}

// An unlimited budget visits each page as often as is allowed, no more, and for
// a site whose manifest has the same information it fetches the manifest instead.
func TestRevisitsWithUnlimitedBudget(t *testing.T) {
	noRace(t)
	t.Parallel()
	inBubble(t, fakeweb.Options{Seed: 8}, func(t *testing.T, w *bubble) {
		silent, listed := numbered(w, 10), numbered(w, 10)
		listed.Speaks = true
		const shortest, days = 2 * time.Hour, 4
		c, _ := w.paid(t, crawl.Revisit{Policy: fresh.Priced{Shortest: shortest}, PerDay: 1e9})
		c.NoChanges, c.NoStreams = true, true
		began := time.Now()
		runFor(t, c, days*aDay, func(ctx context.Context) {
			for i := 0; pause.For(ctx, 4*time.Hour); i++ {
				for _, s := range w.Sites() {
					s.Edit(nth(i % 3))
				}
			}
		})
		const most = 11 * (days*int(aDay/shortest) + 1)
		_, all := visits(w, silent, began)
		if all > most || all < most/2 {
			t.Errorf("%d visits to a silent site, want up to %d", all, most)
		}
		// An unlimited budget also pays for audits of the manifest: visits alternate by the
		// day, and the last day shifts the sum by a visit or two of each page.
		if _, n := visits(w, listed, began); n > all*3/5 {
			t.Errorf("%d visits to a site with a manifest, and %d to one without", n, all)
		}
		status := c.Status()
		if status.Batches > 4*int64(most) {
			t.Errorf("%d batches for %d visits", status.Batches, all)
		}
		t.Logf("%d visits, %d batches, %+v", all, status.Batches, status.Revisits)
	})
}

// A manifest without digests whose dates never change cannot prevent visits to its pages, and
// is detected.
func TestRevisitsOfFrozenManifest(t *testing.T) {
	noRace(t)
	t.Parallel()
	inBubble(t, fakeweb.Options{Seed: 9}, func(t *testing.T, w *bubble) {
		s := numbered(w, 20)
		s.Handler = func(rw http.ResponseWriter, req *http.Request) bool {
			if req.URL.Path != "/robots.rdf" {
				return false
			}
			var items []protocol.Item
			for i, path := range s.Paths() {
				items = append(items, protocol.Item{URL: s.Origin + path, Modified: time.Date(1999, 1, 1+i, 10, 0, 0, 0, time.UTC), Length: -1})
			}
			m := protocol.Manifest{URL: s.Origin + "/robots.rdf", Base: s.Origin + "/", Complete: true, Items: len(items),
				Cursor: protocol.Cursor{Epoch: "frozen", Seq: uint64(time.Now().Unix())}}
			rw.Header().Set("Content-Type", protocol.ManifestType)
			protocol.WriteManifest(rw, m, each(items), nil)
			return true
		}
		c, col := w.paid(t, crawl.Revisit{PerPage: 4})
		const days = 6
		began, edits := time.Now(), 0
		runFor(t, c, days*aDay, func(ctx context.Context) {
			for ; pause.For(ctx, 2*time.Hour); edits++ {
				s.Edit(nth(edits % 5))
			}
		})
		st, _ := col.Site(s.Origin)
		rec := must.Get(trust.Parse(st.Trust))
		if d := rec.Date("manifest"); d.Worth() != trust.Frozen {
			t.Errorf("%v, want frozen", d)
		}
		at, all := visits(w, s, began.Add(days/2*aDay))
		seen := 0
		for i := range 5 {
			seen += len(at[nth(i)])
		}
		if seen < edits/8 { // at least a quarter of the edits of that time
			t.Errorf("%d visits to pages that changed %d times in twice the time", seen, edits)
		}
		t.Logf("%d visits, %d of those that change (%d edits in all), recall %.2f: %v", all, seen, edits, st.Belief.Signal.Recall(), rec.Date("manifest"))
	})
}

// A crawl that is to end visits nothing twice, and ends, though pages are due again at once.
func TestRevisitsDoNotDelayTheEnd(t *testing.T) {
	noRace(t)
	t.Parallel()
	inBubble(t, fakeweb.Options{Seed: 6}, func(t *testing.T, w *bubble) {
		s := numbered(w, 30)
		c, _ := w.paid(t, crawl.Revisit{Policy: fresh.Priced{Shortest: time.Second}, PerPage: 5000})
		c.Once = true
		began := time.Now()
		runFor(t, c, aDay, nil)
		if took := time.Since(began); took > 2*time.Hour {
			t.Errorf("it ended after %v", took)
		}
		at, all := visits(w, s, began)
		if len(at) < 31 || all != len(at) {
			t.Errorf("%d visits to %d pages, want one to each of 31 and more", all, len(at))
		}
	})
}

// forgetful makes a site announce its changes only by a manifest with digests, which always omits a share of
// them. The returned function changes a page.
func forgetful(s *fakeweb.Site, share float64, rng *rand.Rand) (edit func(path string)) {
	var mu sync.Mutex
	items, seq := map[string]protocol.Item{}, uint64(1)
	now := func(path string) protocol.Item {
		body, _ := s.Body(path)
		return protocol.Item{URL: s.Origin + path, Modified: time.Now().UTC().Truncate(time.Second), Digest: protocol.Sum([]byte(body)), Length: int64(len(body))}
	}
	for _, path := range s.Paths() {
		items[path] = now(path)
	}
	s.Handler = func(rw http.ResponseWriter, req *http.Request) bool {
		if req.URL.Path != "/robots.rdf" {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		var list []protocol.Item
		for _, path := range slices.Sorted(maps.Keys(items)) {
			list = append(list, items[path])
		}
		m := protocol.Manifest{URL: s.Origin + "/robots.rdf", Base: s.Origin + "/", Complete: true, Items: len(items), Cursor: protocol.Cursor{Epoch: "forgetful", Seq: seq}}
		rw.Header().Set("Content-Type", protocol.ManifestType)
		protocol.WriteManifest(rw, m, each(list), nil)
		return true
	}
	return func(path string) {
		s.Edit(path)
		mu.Lock()
		defer mu.Unlock()
		if rng.Float64() >= share {
			items[path] = now(path)
			seq++
		}
	}
}

// A manifest that omits 40 % of the changes is detected by audit visits, and from then on
// its pages get more such visits; one that has all changes gets hardly any.
func TestRevisitsAuditManifest(t *testing.T) {
	noRace(t)
	t.Parallel()
	// In the second half: visits, and the recall that is believed hour by hour. At one of the hours it may be a fifth
	// too low, when few changes were found lately.
	var all, still, hours [2]int
	var recalls [2]float64
	audited := func(t *testing.T, w *bubble, seed uint64) {
		const pages, moving, days = 30, 12, 30
		sites := []*fakeweb.Site{numbered(w, pages), numbered(w, pages)}
		rng := rand.New(rand.NewPCG(seed, 2))
		edits := []func(string){forgetful(sites[0], .4, rng), forgetful(sites[1], 0, rng)}
		c, col := w.paid(t, crawl.Revisit{PerPage: 1})
		began := time.Now()
		var right, held [2]int // among the pages that change, in the second half
		runFor(t, c, days*aDay, func(ctx context.Context) {
			for i := 0; pause.For(ctx, time.Hour); i++ {
				for n, s := range sites {
					if rng.IntN(2) == 0 {
						edits[n](nth(rng.IntN(moving)))
					}
					if time.Since(began) <= days/2*aDay {
						continue
					}
					st, _ := col.Site(s.Origin)
					hours[n], recalls[n] = hours[n]+1, recalls[n]+st.Belief.Manifest.Recall
					for k := range moving {
						if held[n]++; current(t, col, s, nth(k)) {
							right[n]++
						}
					}
				}
			}
		})
		for n, s := range sites {
			at, sum := visits(w, s, began.Add(days/2*aDay))
			unneeded := 0
			for i := moving; i < pages; i++ {
				unneeded += len(at[nth(i)])
			}
			all[n], still[n] = all[n]+sum, still[n]+unneeded
			st, _ := col.Site(s.Origin)
			recall, share := st.Belief.Manifest.Recall, float64(right[n])/float64(held[n])
			why, err := crawl.Explain(col, c.Seeder, s.Origin+nth(0), time.Now())
			says := fmt.Sprintf("its manifest announces %.1f in 10 of the changes that visits find", 10*recall)
			if text := strings.Join(why.Signals, "; "); err != nil || !strings.Contains(text, says) {
				t.Errorf("%s, %v: want %q", text, err, says)
			}
			if least := []float64{.8, .9}[n]; share < least {
				t.Errorf("site %d: %.3f of the copies of changing pages are fresh", n, share)
			}
			t.Logf("site %d: recall %.3f, %.3f fresh, %d visits, %d of them to unchanging pages", n, recall, share, sum, unneeded)
		}
	}
	for seed := range uint64(3) { // with one seed, small differences of timing decide about a third of the visits to unchanging pages
		inBubble(t, fakeweb.Options{Seed: 10}, func(t *testing.T, w *bubble) { audited(t, w, seed+1) })
	}
	for n, low := range []float64{.5, .93} {
		if mean, high := recalls[n]/float64(hours[n]), []float64{.75, 1}[n]; mean < low || mean > high {
			t.Errorf("site %d: recall %.3f in the mean, want %v to %v", n, mean, low, high)
		}
	}
	if all[0] < 3*all[1]/2 || still[1] > still[0]/2 {
		t.Errorf("%d and %d visits, %d and %d to unchanging pages", all[0], all[1], still[0], still[1])
	}
}

// Copies of a site that does not respond any more are not counted as correct: their state is unknown.
func TestDeadSitesAreNotCountedAsFresh(t *testing.T) {
	noRace(t)
	t.Parallel()
	inBubble(t, fakeweb.Options{Seed: 6}, func(t *testing.T, w *bubble) {
		var dead [2]atomic.Bool
		for i := range dead {
			numbered(w, 10).Handler = func(http.ResponseWriter, *http.Request) bool {
				if dead[i].Load() {
					panic(http.ErrAbortHandler)
				}
				return false
			}
		}
		c, col := w.paid(t, crawl.Revisit{Policy: fresh.Priced{Shortest: time.Hour}, PerPage: 2})
		runFor(t, c, 9*aDay, func(ctx context.Context) {
			for i := range dead {
				if !pause.For(ctx, 3*aDay-time.Minute) {
					return
				}
				v := c.Status().Revisits
				if v == nil || v.Unknown != 11*i || v.Fresh == 0 {
					t.Errorf("with %d of 2 sites dead: %+v", i, v)
				}
				dead[i].Store(true)
			}
			if pause.For(ctx, 3*aDay-time.Minute) {
				failing := 0 // of which a retry is pending
				for p := range col.Pages(ctx) {
					if p.State != collection.Held {
						failing++
					}
				}
				if v := c.Status().Revisits; v.Unknown+failing != 22 || failing > 2 || v.Fresh != 0 {
					t.Errorf("with both dead, and %d pages failing: %+v", failing, v)
				}
			}
		})
	})
}
