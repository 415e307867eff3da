package main

import (
	"context"
	"fmt"

	"github.com/parleyweb/parley/internal/sim"
)

// structures measures item 11: webs whose pages change together, by the clock or by their age.
func (b *bench) structures(ctx context.Context) error {
	pages, days := b.pages/2, b.long(360)
	for _, structure := range sim.Structures() {
		for _, budget := range b.of(.05, .1, .2) {
			err := b.structure(ctx, fmt.Sprintf("%s, B=%g", structure, budget), budget, days, days/3, func(seed uint64) (*sim.World, error) {
				return sim.Web{Pages: pages, Sites: pages / 50, Seed: seed}.Structured(structure, days)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// structure compares policies that know mean rates, learn them, or are told when changes are expected.
func (b *bench) structure(ctx context.Context, name string, budget, days, from float64, world func(seed uint64) (*sim.World, error)) error {
	policies := []sim.Policy{sim.MustPolicy("freshness-known-deaf"), sim.MustPolicy("freshness-deaf"), sim.Foreseeing()}
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
	known, _ := meanError(got[0])
	learned, se := meanError(got[1])
	told, _ := meanError(got[2])
	b.note("%s: true mean rates %.4f, learned %.4f (±%.4f), told when changes are expected %.4f", name, known, learned, se, told)
	return nil
}
