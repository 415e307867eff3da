package main

import (
	"context"
	"fmt"
	"math"

	"github.com/parleyweb/parley/internal/sim"
)

// A web of the goals: its distribution of change rates, and their correlation with importance.
type web struct {
	rates string
	rho   float64
}

func (w web) String() string { return sim.Web{Rates: w.rates, Rho: w.rho}.String() }

// known measures item 1.
func (b *bench) known(ctx context.Context) error {
	for _, web := range []web{{"gamma", 0}, {"lognormal", 0}, {"lognormal", .5}} {
		for _, kind := range []struct {
			name, policy string
			site         sim.Site
			heeds        sim.Listening
		}{
			{"polling", "freshness-known", sim.Site{}, sim.Listening{}},
			{"push", "freshness-known", sim.Site{Push: true}, heedsPush},
			{"age", "age-known", sim.Site{}, sim.Listening{}},
		} {
			var tasks []*task
			for _, budget := range b.of(.05, .1, .2, .5) {
				tasks = append(tasks, &task{policy: kind.policy, budget: budget, days: 400, from: 160, heeds: kind.heeds, mean: kind.name != "push",
					world: func(seed uint64) *sim.World { return b.web(web.rates, web.rho, 100, seed).All(kind.site) }})
			}
			if err := b.all(ctx, tasks); err != nil {
				return err
			}
			for _, t := range tasks {
				if kind.name == "age" {
					b.goals.AtMost(1.02, t.score.age/t.score.ageBound, "%s, B=%g: age %.4f days, bound %.4f", web, t.budget, t.score.age, t.score.ageBound)
					continue
				}
				b.goals.AtLeast(.995, t.score.fresh/t.score.bound, "%s, B=%g: %s, freshness %.4f, bound %.4f", web, t.budget, kind.name, t.score.fresh, t.score.bound)
			}
		}
	}
	return nil
}

// learned measures item 2.
func (b *bench) learned(ctx context.Context) error {
	for _, web := range []web{{"gamma", 0}, {"lognormal", 0}, {"lognormal", .5}} {
		for _, budget := range b.of(.05, .1, .2) {
			world := func(seed uint64) *sim.World { return b.web(web.rates, web.rho, 40, seed) }
			var tasks []*task
			for _, policy := range []string{"freshness", "freshness-known", "harmonic", "thesis-rate", "thesis-learned"} {
				tasks = append(tasks, &task{policy: policy, budget: budget, days: 360, mean: true, world: world})
			}
			if err := b.all(ctx, tasks); err != nil {
				return err
			}
			learned, known := tasks[0].score, tasks[1].score
			b.goals.AtLeast(.985, learned.early/known.early, "%s, B=%g: days 30 to 90, %.4f of %.4f at known rates", web, budget, learned.early, known.early)
			b.goals.AtLeast(.99, learned.late/learned.bound, "%s, B=%g: after day 180, %.4f of the bound %.4f", web, budget, learned.late, learned.bound)
			for _, t := range tasks[2:] {
				b.note("%s: %.4f in days 30 to 90, %.4f after day 180", t.policy, t.score.early, t.score.late)
			}
		}
	}
	return nil
}

// manifests measures item 3.
func (b *bench) manifests(ctx context.Context) error {
	for _, web := range []web{{"gamma", 0}, {"lognormal", .5}} {
		var tasks []*task
		for _, policy := range []string{"freshness-known", "freshness"} {
			for _, budget := range b.of(.05, .1, .2) {
				tasks = append(tasks, &task{policy: policy, budget: budget, days: 360, from: 180, heeds: heedsManifest,
					world: func(seed uint64) *sim.World { return b.web(web.rates, web.rho, 40, seed).All(sim.Site{Manifest: true}) }})
			}
		}
		if err := b.all(ctx, tasks); err != nil {
			return err
		}
		for _, t := range tasks {
			b.goals.AtLeast(.99, t.score.fresh/t.score.bound, "%s, B=%g: %s, %.4f of the bound %.4f", web, t.budget, t.policy, t.score.fresh, t.score.bound)
		}
	}
	if b.budgets != nil {
		return nil
	}
	return b.harmless(ctx)
}

// harmless searches for a world in which manifests make freshness worse.
func (b *bench) harmless(ctx context.Context) error {
	var pairs []*task
	var names []string
	for i, w := range sim.Webs() {
		for j, sites := range []int{5, 40, 400} {
			for _, budget := range []float64{.03, .1, .3} {
				n := min(b.pages, 1000)
				draw := func(seed uint64) *sim.World {
					v := w
					v.Pages, v.Sites, v.Seed = n, min(sites, n/2), seed+uint64(100*i+10*j)
					return v.World()
				}
				pairs = append(pairs, &task{policy: "freshness", budget: budget, days: 150, from: 30, world: func(seed uint64) *sim.World { return draw(seed).All(sim.Site{Manifest: true}) }},
					&task{policy: "freshness-deaf", budget: budget, days: 150, from: 30, world: draw})
				names = append(names, fmt.Sprintf("%s, %d sites, B=%g", w, sites, budget))
			}
		}
	}
	if err := b.all(ctx, pairs); err != nil {
		return err
	}
	worst, at := math.Inf(1), 0
	for i := range names {
		if d := pairs[2*i].score.fresh - pairs[2*i+1].score.fresh; d < worst {
			worst, at = d, i
		}
	}
	b.goals.AtLeast(-.01, worst, "gain of manifests over polling alone, the least of %d worlds: %s, %.4f and %.4f", len(names), names[at], pairs[2*at].score.fresh, pairs[2*at+1].score.fresh)
	return nil
}

// large draws a web of item 4, with five times the usual number of pages: they share the cost of a manifest.
func (b *bench) large(web web, sites int, seed uint64) *sim.World {
	n := 5 * b.pages
	return sim.Web{Rates: web.rates, Rho: web.rho, Pages: n, Sites: min(sites, n/4), Seed: seed}.World()
}

// thesis measures item 4.
func (b *bench) thesis(ctx context.Context) error {
	for _, web := range []web{{"gamma", 0}, {"lognormal", .5}, {"power", 0}} {
		of := func(policy string, site sim.Site) *task {
			// Pages that a policy gives up stay right for years, if they change slowly.
			return &task{policy: policy, budget: .1, days: 1000, from: 700, world: func(seed uint64) *sim.World { return b.large(web, 100, seed).All(site) }}
		}
		manifest, push := sim.Site{Manifest: true}, sim.Site{Push: true}
		tasks := []*task{of("thesis-daily", sim.Site{}),
			of("freshness-known", sim.Site{}), of("freshness-known", manifest), of("freshness-known", push),
			of("freshness", sim.Site{}), of("freshness", manifest), of("freshness", push), of("thesis-learned", sim.Site{})}
		if err := b.all(ctx, tasks); err != nil {
			return err
		}
		base := 1 - tasks[0].score.fresh
		b.note("%s, 100 sites, B=.1: thesis at known rates %.4f stale, learned %.4f", web, base, 1-tasks[7].score.fresh)
		for i, way := range []struct {
			name string
			goal float64
		}{{"polling", .6}, {"manifest", .17}, {"push", .05}} {
			known, learned := 1-tasks[1+i].score.fresh, 1-tasks[4+i].score.fresh
			b.goals.AtMost(way.goal, known/base, "%s: %s, %.4f stale; learned %.4f, which is %.3f of the thesis policy's", web, way.name, known, learned, learned/base)
		}
	}
	return b.fewer(ctx)
}

// fewer finds how few requests keep copies as fresh as the best polling does.
func (b *bench) fewer(ctx context.Context) error {
	for _, web := range []web{{"gamma", 0}, {"lognormal", .5}} {
		world := func(site sim.Site) func(uint64) *sim.World {
			return func(seed uint64) *sim.World { return b.large(web, 400, seed).All(site) }
		}
		polling := &task{policy: "freshness-known", budget: .2, days: 240, from: 120, world: world(sim.Site{})}
		if err := b.all(ctx, []*task{polling}); err != nil {
			return err
		}
		want := max(polling.score.fresh, polling.score.bound)
		for _, way := range []struct {
			name string
			goal float64
			site sim.Site
		}{{"push", .2, sim.Site{Push: true}}, {"manifest", .5, sim.Site{Manifest: true}}} {
			low, high := 0., 1.
			for range 7 {
				mid := (low + high) / 2
				t := &task{policy: "freshness-known", budget: .2 * mid, days: 240, from: 120, world: world(way.site)}
				if err := b.all(ctx, []*task{t}); err != nil {
					return err
				}
				if t.score.fresh >= want {
					high = mid
				} else {
					low = mid
				}
			}
			b.goals.AtMost(way.goal, high, "%s, 400 sites: share of the requests that %s needs for the freshness of optimal polling at B=.2, %.4f", web, way.name, want)
		}
	}
	return nil
}

// liars measures item 5.
func (b *bench) liars(ctx context.Context) error {
	trust := func(rates string, rho float64) func(seed uint64) *sim.World {
		return func(seed uint64) *sim.World {
			t := sim.TrustWeb(rates, rho)
			t.Pages, t.Seed = min(t.Pages, b.pages*3/2), seed
			w, _ := t.World().MixedTrust(seed)
			return w
		}
	}
	for _, web := range []web{{"gamma", 0}, {"lognormal", .5}} {
		var tasks, known []*task
		for _, budget := range b.of(.05, .1, .2, .5) {
			tasks = append(tasks, &task{policy: "freshness", budget: budget, days: 300, from: 120, heeds: heedsPush, world: trust(web.rates, web.rho)})
			known = append(known, &task{policy: "freshness-known", budget: budget, days: 300, from: 120, world: trust(web.rates, web.rho)})
		}
		if err := b.all(ctx, append(tasks, known...)); err != nil {
			return err
		}
		for i, t := range tasks {
			polling, best := known[i].score.bound, t.score.bound
			gap := (t.score.fresh - polling) / (best - polling)
			goal := .75
			if t.budget < .1 {
				goal = .6
			}
			if web.rates != "gamma" {
				b.note("%.4f of the gap: %s, B=%g: %.4f between the bounds %.4f of polling and %.4f of notices; all known %.4f", gap, web, t.budget, t.score.fresh, polling, best, known[i].score.fresh)
				continue
			}
			b.goals.AtLeast(goal, gap, "%s, B=%g: %.4f between the bounds %.4f of polling and %.4f of notices; all known %.4f", web, t.budget, t.score.fresh, polling, best, known[i].score.fresh)
		}
	}
	var tasks []*task
	for _, budget := range b.of(.05, .1, .2, .5) {
		world := func(seed uint64) *sim.World { return b.web("gamma", 0, 60, seed).AllLiars() }
		tasks = append(tasks, &task{policy: "freshness", budget: budget, days: 300, from: 120, world: world},
			&task{policy: "freshness-deaf", budget: budget, days: 300, from: 120, world: world})
	}
	if err := b.all(ctx, tasks); err != nil {
		return err
	}
	for i := 0; i < len(tasks); i += 2 {
		b.goals.AtLeast(.99, tasks[i].score.fresh/tasks[i+1].score.fresh, "all sites lie, B=%g: freshness %.4f, ignoring all notices %.4f", tasks[i].budget, tasks[i].score.fresh, tasks[i+1].score.fresh)
	}
	return b.noisy(ctx)
}

// noisy measures a web whose notices have a precision of one half and a recall of nine tenths.
func (b *bench) noisy(ctx context.Context) error {
	var tasks []*task
	for _, budget := range b.of(.05, .1, .2, .5) {
		tasks = append(tasks, &task{policy: "freshness", budget: budget, days: 300, from: 120, heeds: heedsPush,
			world: func(seed uint64) *sim.World {
				return b.web("gamma", 0, 50, seed).All(sim.Site{Push: true, Recall: .9, Precision: .5})
			}})
	}
	if err := b.all(ctx, tasks); err != nil {
		return err
	}
	for _, t := range tasks {
		b.goals.AtLeast(.98, t.score.fresh/t.score.bound, "recall .9, precision .5, learned, B=%g: %.4f of the bound %.4f", t.budget, t.score.fresh, t.score.bound)
	}
	return nil
}
