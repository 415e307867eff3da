package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/parleyweb/parley/internal/sim"
)

// A silence is a world in which sites with n pages together announce all their changes until day fallsSilent, and then none; those
// with a Flood then name each page that often. Other sites, which are silent, have rest pages.
type silence struct {
	name, policy string
	n, rest      int
	site         sim.Site
	budget       float64
	sites        int // 0: one
}

const fallsSilent = 60

// world draws the world of a seed, with the sites that fall silent first.
func (s *silence) world(seed uint64, until float64) *sim.World {
	w := sim.Web{Pages: s.n + s.rest, Sites: 1, Seed: seed}.World()
	site := s.site
	if site.Floods = until; until == 0 {
		site.Flood = 0
	}
	for d := range site.Unsaid {
		site.Unsaid[d] = until
	}
	sites := max(s.sites, 1)
	w.Sites = append(slices.Repeat([]sim.Site{site}, sites), sim.Site{})
	for i := range w.Pages {
		w.Pages[i].Site = i % sites
		if (i+1)*s.rest/(s.n+s.rest) > i*s.rest/(s.n+s.rest) {
			w.Pages[i].Site = sites
		}
	}
	return w
}

// silences measures item 10.
func (b *bench) silences(ctx context.Context) error {
	n := b.pages / 2
	var list []silence
	for _, budget := range b.of(.1, .3) {
		for _, rest := range []int{0, 2 * n} {
			from := len(list)
			for _, policy := range []string{"freshness", "harmonic"} {
				list = append(list,
					silence{"pushes, outside the budget", policy + "-eager", n, rest, sim.Site{Push: true}, budget, 0},
					silence{"pushes", policy, n, rest, sim.Site{Push: true}, budget, 0},
					silence{"manifest", policy, n, rest, sim.Site{Manifest: true}, budget, 0},
					silence{"manifest, then false", policy, n, rest, sim.Site{Manifest: true, Flood: 1}, budget, 0})
			}
			list = append(list,
				silence{"pushes outside the budget, then false", "harmonic-eager", n, rest, sim.Site{Push: true, Flood: 1}, budget, 0},
				silence{"small sites, pushes outside the budget", "harmonic-eager", n, rest, sim.Site{Push: true}, budget, n / 25},
				silence{"small sites, manifests", "harmonic", n, rest, sim.Site{Manifest: true}, budget, n / 25})
			for i := from; rest > 0 && i < len(list); i++ {
				list[i].name = "contested budget, " + list[i].name
			}
		}
	}
	for _, s := range list {
		if err := b.silence(ctx, &s); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) silence(ctx context.Context, s *silence) error {
	from, to := fallsSilent+1/s.budget, fallsSilent+5/s.budget
	if s.rest > 0 {
		from += 150 / float64(s.n) / s.budget
	}
	objective, _, _ := strings.Cut(s.policy, "-")
	deaf := objective + "-deaf"
	diff, ratio := make([]float64, b.seeds), make([]float64, b.seeds)
	before, honest, cost := make([]float64, b.seeds), make([]float64, b.seeds), make([]float64, b.seeds)
	err := each(ctx, b.seeds, func(ctx context.Context, i int) error {
		seed := uint64(i + 1)
		score := func(policy string, until float64) (then, after float64, err error) {
			p, err := sim.NamedPolicy(policy)
			if err != nil {
				return 0, 0, err
			}
			w := s.world(seed, until)
			r, err := sim.Simulate(ctx, sim.Run{World: w, Policy: p, Budget: s.budget, Days: math.Ceil(to), From: fallsSilent / 2, Seed: seed,
				Of: func(page int) bool { return !w.Sites[w.Pages[page].Site].Silent() }})
			if err != nil {
				return 0, 0, err
			}
			then, _ = r.Between(fallsSilent/2, fallsSilent)
			after, _ = r.Between(int(from), int(to))
			return then, after, nil
		}
		_, poll, err := score(deaf, 0)
		if err != nil {
			return err
		}
		then, got, err := score(s.policy, fallsSilent)
		if err != nil {
			return err
		}
		_, kept, err := score(s.policy, 0)
		before[i], honest[i], cost[i], ratio[i], diff[i] = then, kept, poll, got, got-.98*poll
		return err
	})
	if err != nil {
		return err
	}
	mean, se := meanError(diff)
	got, gotSE := meanError(ratio)
	poll, pollSE := meanError(cost)
	kept, _ := meanError(honest)
	was, _ := meanError(before)
	b.goals.AtLeast(0, mean-se.limit(), "%s, %s, B=%g: %s", s.name, s.policy, s.budget,
		fmt.Sprintf("%.4f (±%.4f) from day %.0f to %.0f, %.4f before; polling %.4f (±%.4f); %.4f if it stays honest", got, gotSE, from, to, was, poll, pollSE, kept))
	return nil
}

// A standardError is that of a mean. It is NaN, and printed as unknown, if there is but one seed.
type standardError float64

// Format implements fmt.Formatter.
func (e standardError) Format(f fmt.State, _ rune) {
	if e != e {
		io.WriteString(f, "unknown")
		return
	}
	digits, _ := f.Precision()
	fmt.Fprintf(f, "%.*f", digits, float64(e))
}

// limit is how far the mean may be off, one-sided, at a confidence of 95 %; 0 if that is unknown.
func (e standardError) limit() float64 {
	if e != e {
		return 0
	}
	return 1.685 * float64(e)
}

// meanError is the mean and its standard error.
func meanError(x []float64) (mean float64, err standardError) {
	n, sum := float64(len(x)), 0.
	for _, v := range x {
		mean += v / n
	}
	for _, v := range x {
		sum += (v - mean) * (v - mean)
	}
	return mean, standardError(math.Sqrt(sum / n / (n - 1)))
}
