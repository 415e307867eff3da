package main

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/parleyweb/parley/internal/sim"
)

const (
	triflesDays = 60
	triflesMost = 1.2 // times the visits to the silent site
	triflesFree = 20  // visits from which the crawler learns
)

// trifles measures item 11: a site announces all its changes, and also trifling changes of every page, a few times a day. Visits that
// find no more than these should not outnumber the visits that it gets while silent.
func (b *bench) trifles(ctx context.Context) error {
	for _, budget := range b.of(.1, .3) {
		for _, often := range []float64{1, 24} {
			for _, rest := range []int{0, b.pages} {
				for _, s := range []silence{
					{"pushes, outside the budget", "harmonic-eager", b.pages / 2, rest, sim.Site{Push: true}, budget, 0},
					{"pushes", "harmonic", b.pages / 2, rest, sim.Site{Push: true}, budget, 0},
					{"manifest", "harmonic", b.pages / 2, rest, sim.Site{Manifest: true}, budget, 0},
				} {
					if rest > 0 {
						s.name = "contested budget, " + s.name
					}
					s.site.Trifling, s.site.Flood = true, often
					if err := b.trifle(ctx, &s); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

func (b *bench) trifle(ctx context.Context, s *silence) error {
	objective, _, _ := strings.Cut(s.policy, "-")
	excess, found, quiet := make([]float64, b.seeds), make([]float64, b.seeds), make([]float64, b.seeds)
	worth, deaf := make([]float64, b.seeds), make([]float64, b.seeds)
	err := each(ctx, b.seeds, func(ctx context.Context, i int) error {
		seed := uint64(i + 1)
		visits := func(policy string, trifling bool) (n, fresh float64, err error) {
			p, err := sim.NamedPolicy(policy)
			if err != nil {
				return 0, 0, err
			}
			w := s.world(seed, 0)
			w.Sites[0] = s.site
			r, err := sim.Simulate(ctx, sim.Run{World: w, Policy: p, Budget: s.budget, Days: triflesDays, From: triflesDays / 2, Seed: seed,
				Of: func(page int) bool { return w.Pages[page].Site == 0 },
				Watch: func(x sim.Event) {
					if x.Kind == sim.Visited && x.Site == 0 && (x.Trifling || !trifling) {
						n++
					}
				}})
			if err != nil {
				return 0, 0, err
			}
			return n, r.Fresh, nil
		}
		var err error
		if quiet[i], deaf[i], err = visits(objective+"-deaf", false); err != nil {
			return err
		}
		found[i], worth[i], err = visits(s.policy, true)
		excess[i] = found[i] - triflesMost*quiet[i] - triflesFree
		return err
	})
	if err != nil {
		return err
	}
	mean, se := meanError(excess)
	got, gotSE := meanError(found)
	silent, silentSE := meanError(quiet)
	then, _ := meanError(worth)
	poll, _ := meanError(deaf)
	b.goals.AtMost(0, mean+se.limit(), "%s, %s, B=%g: %s", s.name, s.policy, s.budget,
		fmt.Sprintf("%g trifling changes a day: %.0f (±%.0f) visits find no more, %.0f (±%.0f) if it is silent; freshness %.4f, %.4f if silent",
			s.site.Flood, got, gotSE, silent, standardError(math.Ceil(float64(silentSE))), then, poll))
	return nil
}
