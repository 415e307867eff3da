package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/parleyweb/parley/internal/engine/poll"
	"github.com/parleyweb/parley/internal/sim"
)

// folder returns the directory of a kind of recorded data; if there is none, it prints that and returns "".
func (b *bench) folder(kind string) string {
	dir := filepath.Join(b.data, kind)
	if info, err := os.Stat(dir); b.data == "" || err != nil || !info.IsDir() {
		b.note("skipped: needs -data DIR with a directory %q", kind)
		return ""
	}
	return dir
}

// traces measures item 6.
func (b *bench) traces(ctx context.Context) error {
	dir := b.folder("changes")
	if dir == "" {
		return nil
	}
	days := 900.
	if b.quick {
		days = 300
	}
	w, err := sim.TraceWeb{Dir: dir, Names: []string{"python-peps", "astro-docs:src/content/docs/en/"}, Days: days}.World()
	if err != nil {
		return err
	}
	pages := float64(len(w.Pages))
	bursts := w.Bursts(days)
	b.note("%d pages, %d changes; %.1f%% of the gaps are below 2 days, of Poisson's %.1f%%; %.0f%% of the changes came with those of 9 other pages or more",
		bursts.Pages, bursts.Changes, 100*bursts.Short, 100*bursts.Usual, 100*bursts.Shared)
	worlds := []struct {
		name string
		w    *sim.World
	}{{"as recorded", w}, {"each page alone", alone(w, days)}, {"Poisson at the same rates", steady(w)}}
	for _, requests := range []float64{3, 7.5, 15, 30, 75} {
		budget := requests / 1500
		type pair struct{ learned, known, manifest float64 }
		got := make([]pair, len(worlds))
		err := each(ctx, 3*len(worlds), func(ctx context.Context, i int) error {
			v, policy := worlds[i/3].w, []string{"freshness-deaf", "freshness-known-deaf", "freshness"}[i%3]
			if i%3 == 2 {
				v = v.All(sim.Site{Manifest: true})
			}
			r, err := sim.Simulate(ctx, sim.Run{World: v, Policy: sim.MustPolicy(policy), Budget: budget, Days: days, From: days / 3, Seed: 1})
			if err != nil {
				return err
			}
			*[]*float64{&got[i/3].learned, &got[i/3].known, &got[i/3].manifest}[i%3] = r.Fresh
			return nil
		})
		if err != nil {
			return err
		}
		for i, world := range worlds {
			g := got[i]
			text := fmt.Sprintf("%s, %.3g requests a day: learned %.4f, true mean rates %.4f; with manifests, learned %.4f", world.name, budget*pages, g.learned, g.known, g.manifest)
			if i == 0 && requests >= 7.5 {
				b.goals.AtLeast(.97, g.learned/g.known, "%s", text)
			} else {
				b.note("%.4f  %s", g.learned/g.known, text)
			}
		}
	}
	return nil
}

// alone returns a world of so many days in which the changes of each page are shifted by a time of its own:
// each page keeps its bursts, and pages no longer change together.
func alone(w *sim.World, days float64) *sim.World {
	rng := rand.New(rand.NewPCG(1, 4))
	v := *w
	v.Name, v.Pages = w.Name+", each alone", slices.Clone(w.Pages)
	for i := range v.Pages {
		by, trace := rng.Float64()*days, slices.Clone(v.Pages[i].Trace)
		for j := range trace {
			trace[j] = math.Mod(trace[j]+by, days)
		}
		slices.Sort(trace)
		v.Pages[i].Trace = trace
	}
	return &v
}

// steady returns a world in which each page changes at its rate, as a Poisson process.
func steady(w *sim.World) *sim.World {
	v := *w
	v.Name, v.Pages = w.Name+", Poisson", slices.Clone(w.Pages)
	for i := range v.Pages {
		v.Pages[i].Trace = nil
	}
	return &v
}

// feeds measures item 7.
func (b *bench) feeds(ctx context.Context) error {
	const slot = 1. / 144
	index := poll.Index{Loss: -1}
	worlds := make([]*sim.FeedWorld, b.seeds)
	for i := range worlds {
		web := sim.FeedWeb{Seed: uint64(1 + i)}
		if b.quick {
			web.Feeds = 60
		}
		worlds[i] = web.World()
	}
	type result struct{ delay, bound, polls, pending, lost float64 }
	measure := func(run sim.FeedRun) (mean result, err error) {
		got := make([]result, len(worlds))
		err = each(ctx, len(worlds), func(ctx context.Context, i int) error {
			run := run
			run.World, run.From, run.Seed = worlds[i], 28, uint64(1+i)
			r, err := sim.SimulateFeeds(ctx, run)
			if err == nil {
				got[i] = result{r.Delay, worlds[i].LeastFeedDelay(28, slot, r.Polls).Delay, r.Polls, r.Pending, r.Lost}
			}
			return err
		})
		n := float64(len(got))
		for _, g := range got {
			mean.delay += g.delay / n
			mean.bound += g.bound / n
			mean.polls += g.polls / n
			mean.pending += g.pending / n
			mean.lost += g.lost / n
		}
		return mean, err
	}
	feeds := float64(len(worlds[0].Feeds))
	for _, perDay := range []float64{1.6, 4.7, 14, 19} {
		k := perDay * feeds * slot
		for _, rule := range []struct {
			name string
			run  sim.FeedRun
		}{
			{"index, learned", sim.FeedRun{Policy: index, Polls: k}},
			{"looking ahead, learned", sim.FeedRun{Policy: poll.Ahead{Index: index}, Polls: k, Priced: true}},
		} {
			r, err := measure(rule.run)
			if err != nil {
				return err
			}
			text := fmt.Sprintf("%s, %.3g polls per feed and day: delay %.1f min, bound %.1f; at most %.1f items waiting in a feed, %.2f%% lost", rule.name, r.polls/feeds/slot, r.delay, r.bound, r.pending, 100*r.lost)
			if _, own := rule.run.Policy.(poll.Ahead); perDay < 4 || !own { // only the crawler's own policy is judged
				b.note("%.4f  %s", r.delay/r.bound, text)
			} else {
				b.goals.AtMost(1.10, r.delay/r.bound, "%s", text)
			}
		}
	}
	training, err := measure(sim.FeedRun{Policy: poll.Trained{}})
	if err != nil {
		return err
	}
	same, err := measure(sim.FeedRun{Policy: index, Polls: training.polls})
	if err != nil {
		return err
	}
	b.goals.AtLeast(.4, 1-same.delay/training.delay, "less delay than advaRSS's training with equally many polls, %.3g per feed and day: %.1f min of %.1f (bound %.1f)", training.polls/feeds/slot, same.delay, training.delay, training.bound)
	for _, rule := range []struct {
		name   string
		policy poll.Policy
	}{{"posting rate, advaRSS (5)", poll.PostingRate{}}, {"minimum delay", poll.MinimumDelay{}}, {"round robin", poll.RoundRobin{}}, {"index", index}} {
		r, err := measure(sim.FeedRun{Policy: rule.policy, Polls: training.polls, Known: true})
		if err != nil {
			return err
		}
		b.note("%s, true rates: delay %.1f min, at most %.1f items waiting in a feed, %.2f%% lost", rule.name, r.delay, r.pending, 100*r.lost)
	}
	return b.realFeeds(ctx)
}

// realFeeds has no goal: the true rates are unknown, and the bound knows the future.
func (b *bench) realFeeds(ctx context.Context) error {
	dir := b.folder("feeds")
	if dir == "" {
		return nil
	}
	w, err := sim.OpenFeeds(dir, 15)
	if err != nil {
		return err
	}
	w = w.Cut(0, 56)
	b.note("%d real feeds, days 28 to 56; the bound is that of a policy that knows the time of each item", len(w.Feeds))
	index := poll.Index{Loss: -1}
	for _, perDay := range []float64{1.6, 4.7, 14} {
		k := perDay * float64(len(w.Feeds)) / 144
		for _, rule := range []struct {
			name string
			run  sim.FeedRun
		}{{"round robin", sim.FeedRun{Policy: poll.RoundRobin{}}}, {"posting rate", sim.FeedRun{Policy: poll.PostingRate{}}}, {"index", sim.FeedRun{Policy: index}}, {"index, items dated", sim.FeedRun{Policy: index, Dated: true}}} {
			run := rule.run
			run.World, run.From, run.Seed, run.Polls = w, 28, 1, k
			r, err := sim.SimulateFeeds(ctx, run)
			if err != nil {
				return err
			}
			bound := w.LeastSeenDelay(28, 1./144, r.Polls).Delay
			b.note("%.4f  %s, %.3g polls per feed and day: delay %.1f min, bound %.1f; %.2f%% lost", r.Delay/bound, rule.name, r.PerDay, r.Delay, bound, 100*r.Lost)
		}
	}
	return nil
}
