package main

import (
	"context"
	"fmt"

	"github.com/parleyweb/parley/internal/sim"
)

// structures measures item 12: webs whose pages change together, by the clock or by their age; and what it costs to look for that
// where pages change by Poisson's law, and on recorded histories.
func (b *bench) structures(ctx context.Context) error {
	pages, days := b.pages/2, b.long(360)
	for _, structure := range sim.Structures() {
		for _, budget := range b.of(.05, .1, .2) {
			err := b.structure(ctx, fmt.Sprintf("%s, B=%g", structure, budget), budget, days, days/3, func(seed uint64) (*sim.World, error) {
				return sim.Web{Pages: pages, Sites: pages / 50, Seed: seed}.Structured(structure, days)
			}, sim.Foreseeing())
			if err != nil {
				return err
			}
		}
	}
	for _, rates := range []string{"gamma", "lognormal"} {
		for _, budget := range b.of(.05, .1, .2) {
			err := b.structure(ctx, fmt.Sprintf("%s, Poisson, B=%g", rates, budget), budget, days, days/3, func(seed uint64) (*sim.World, error) {
				return sim.Web{Rates: rates, Pages: pages, Sites: pages / 50, Seed: seed}.World(), nil
			})
			if err != nil {
				return err
			}
		}
	}
	return b.recorded(ctx)
}

// recorded is the part of item 12 that needs recorded histories.
func (b *bench) recorded(ctx context.Context) error {
	dir := b.folder("changes")
	if dir == "" {
		return nil
	}
	days := 900.
	if b.quick {
		days = 300
	}
	for _, name := range []string{"python-peps", "astro-docs:src/content/docs/en/", "php-net", "tldr-pages:pages/common/", "endoflife-date"} {
		for _, requests := range []float64{1, 7.5, 30} {
			world := func(seed uint64) (*sim.World, error) {
				return sim.TraceWeb{Dir: dir, Names: []string{name}, Days: days, Seed: seed}.World()
			}
			w, err := world(1)
			if err == nil {
				err = b.structure(ctx, fmt.Sprintf("%s, %g requests a day", name, requests), requests/float64(len(w.Pages)), days, days/2, world)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// structure compares the policy that looks for changes of pages together with the one that takes each page alone, and with the one that is
// told what to expect, if that is given, too.
func (b *bench) structure(ctx context.Context, name string, budget, days, from float64, world func(seed uint64) (*sim.World, error), policies ...sim.Policy) error {
	policies = append([]sim.Policy{sim.MustPolicy("freshness-alone"), sim.MustPolicy("freshness-deaf")}, policies...)
	got := make([][]float64, len(policies))
	for p := range got {
		got[p] = make([]float64, b.seeds)
	}
	err := each(ctx, len(policies)*b.seeds, func(ctx context.Context, i int) error {
		p, s := i%len(policies), i/len(policies)
		w, err := world(uint64(s + 1))
		if err != nil {
			return err
		}
		r, err := sim.Simulate(ctx, sim.Run{World: w, Policy: policies[p], Budget: budget, Days: days, From: from, Seed: uint64(s + 1)})
		if err == nil {
			got[p][s] = r.Fresh
		}
		return err
	})
	if err != nil {
		return err
	}
	won := make([]float64, b.seeds)
	for s := range won {
		won[s] = got[1][s] - got[0][s]
	}
	alone, _ := meanError(got[0])
	more, se := meanError(won)
	text := fmt.Sprintf("%s: each page alone %.4f, together %+.4f (±%.4f)", name, alone, more, se)
	if len(got) > 2 {
		told, _ := meanError(got[2])
		b.goals.AtLeast(.5, more/(told-alone), "%s, told when changes are expected %.4f", text, told)
	} else {
		b.goals.AtLeast(-.002, more, "%s", text)
	}
	return nil
}
