package main

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"time"
	"unsafe"

	"github.com/parleyweb/parley/bench/internal/cost"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/sim"
)

// speed measures item 8, in processor time on one core: other load on the machine affects wall time far more.
// No other program plans for a million pages, so there is no peer; the planner is compared with the full
// solution of Cho and Garcia-Molina's conditions at known rates, which is the least that a plan could cost.
func (b *bench) speed(ctx context.Context) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	n := 1_000_000
	if b.quick {
		n = 50_000
	}
	pages := visited(min(n, 100_000))
	million := float64(n) / 1e6

	var plans, solves []float64
	w := sim.Web{Pages: min(n, 100_000), Sites: 1000}.World()
	for range 3 { // interleaved
		p := fresh.Planning{Priced: fresh.Priced{Objective: freshness}, Budget: .1 * float64(n), Pages: n}
		took := cpu(func() {
			sites := map[*fresh.Site]*fresh.SitePlanning{}
			for i := range n {
				page := &pages[i%len(pages)]
				s := sites[page.Site]
				if s == nil {
					s = p.Site(fresh.SiteTerms{})
					sites[page.Site] = s
				}
				s.Add(page, time.Time{})
			}
			p.Plan()
		})
		plans = append(plans, took.Seconds()/million)
		took = cpu(func() { sim.PollBound(w, freshness, sim.Costs{}, .1) })
		solves = append(solves, took.Seconds()*1e6/float64(len(w.Pages)))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	b.goals.AtMost(3, median(plans), "s of one core to plan a million pages, learned beliefs; the same pages at known rates, solved: %.2f s", median(solves))

	plan := fresh.Planning{Priced: fresh.Priced{Objective: freshness}, Budget: .1 * float64(n)}
	site := plan.Site(fresh.SiteTerms{})
	for i := range n {
		site.Add(&pages[i%len(pages)], pages[0].Last)
	}
	policy := fresh.Priced{Objective: freshness, Price: plan.Plan().Price}
	var next, queue []float64
	for range 3 {
		sum := time.Duration(0)
		took := cpu(func() {
			for i := range pages {
				sum += policy.Next(&pages[i], pages[i].Last).Sub(pages[i].Last) % time.Hour
			}
		})
		if sum < 0 {
			return context.Canceled // never true, but an unused sum would not be computed
		}
		next = append(next, took.Seconds()*1e6/float64(len(pages)))
		took, err := turns(pages, policy)
		if err != nil {
			return err
		}
		queue = append(queue, took.Seconds()*1e6/float64(len(pages)))
	}
	b.goals.AtMost(2, median(queue), "µs per decision: take the next of %d pages from the queue and reschedule it; %.2f of them to compute when its visit pays", len(pages), median(next))

	told := make([]fresh.Page, 2000) // fewer pages, since it is slow
	says := &fresh.Site{Tells: true, Signal: fresh.Signal{Right: 50, Wrong: 50, Heard: 45, Missed: 5}}
	for i := range told {
		told[i] = pages[i]
		told[i].Site, told[i].Heard.Notices, told[i].Heard.Noticed = says, 1, pages[i].Last.Add(time.Hour)
	}
	took := cpu(func() {
		for i := range told {
			policy.Next(&told[i], told[i].Heard.Noticed)
		}
	})
	b.note("%.2f µs to compute it where a site has announced a change, with notices half right", took.Seconds()*1e6/float64(len(told)))

	size, most := 0, 0
	for i := range pages {
		l := len(pages[i].Belief.Append(nil))
		size, most = size+l, max(most, l)
	}
	var p fresh.Page
	b.goals.AtMost(360, float64(size)/float64(len(pages))+float64(unsafe.Sizeof(frontier.Entry{})), "B for a visited page: its stored belief, %d at most here, and its queue entry", most)
	b.note("%d B while its decision is computed, none of which stays in memory", unsafe.Sizeof(p))
	return nil
}

// turns takes every page once from a queue, and reschedules it.
func turns(pages []fresh.Page, policy fresh.Policy) (time.Duration, error) {
	var store frontier.MemoryStore
	start := pages[0].Last
	for i := range pages {
		store.Put(frontier.Entry{Page: frontier.PageID(i + 1), Site: frontier.SiteID(1 + i%1000), Rank: .5, At: start.UnixMilli() - int64(i%86_400_000)})
	}
	queue, err := frontier.New(frontier.Profit{}, &store, nil)
	if err != nil {
		return 0, err
	}
	now := start.UnixMilli()
	took := cpu(func() {
		done := make([]frontier.PageID, 0, 1)
		for left := len(pages); left > 0 && err == nil; {
			var list []frontier.SiteEntries
			if list, err = queue.Batch(now, frontier.BatchOptions{Size: 10_000, SameSite: 500}); len(list) == 0 {
				break
			}
			for _, s := range list {
				for _, x := range s.Entries {
					p := &pages[x.Page-1]
					at := policy.Next(p, p.Last).UnixMilli()
					queue.Done(append(done, x.Page))
					store.Put(frontier.Entry{Page: x.Page, Site: x.Site, Rank: .5, At: max(at, now+1)})
					left--
				}
			}
		}
	})
	return took, err
}

// visited returns pages of a web as a crawler knows them after some months: the rates are those of the gamma
// web, the visit intervals those that such rates get.
func visited(n int) []fresh.Page {
	rng := rand.New(rand.NewPCG(1, 8))
	sites := make([]fresh.Site, max(1, n/1000))
	pages := make([]fresh.Page, n)
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range pages {
		p := &pages[i]
		z := rng.NormFloat64()
		rate := .1 * z * z
		every := min(60, 3/math.Sqrt(rate+1e-3)) * (.5 + rng.Float64())
		at := start
		p.History = p.History.Visit(at, false, time.Time{})
		for range 5 + rng.IntN(40) {
			gap := every * (.7 + .6*rng.Float64())
			at = at.Add(time.Duration(gap * float64(24*time.Hour)))
			p.History = p.History.Visit(at, rng.Float64() < -math.Expm1(-rate*gap), time.Time{})
		}
		p.Importance = 1 / float64(n) / (.01 + rng.Float64())
		p.Site = &sites[i%len(sites)]
	}
	return pages
}

func cpu(f func()) time.Duration {
	before := cost.Processor()
	f()
	return cost.Processor() - before
}

func median(x []float64) float64 {
	a, b, c := x[0], x[1], x[2]
	return max(min(a, b), min(max(a, b), c))
}
