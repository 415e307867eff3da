package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/parleyweb/parley/internal/sim"
)

// The ways in which a site tells the same truth, each at least as good as the one before.
var ways = []struct {
	name string
	site sim.Site
}{{"silent", sim.Site{}}, {"manifest", sim.Site{Manifest: true}}, {"push", sim.Site{Push: true}}}

// A truth is a world whose sites may tell of it in all three ways, with a budget; its runs have one seed each.
type truth struct {
	name       string
	world      func(seed uint64) (*sim.World, error)
	budget     float64
	days, from float64
	unit       float64 // of the budget as it is printed
}

// allowed is how much less the better way may reach.
const allowed = .002

// ways measures item 13.
func (b *bench) ways(ctx context.Context) error {
	var list []truth
	pages := min(b.pages, 100)
	for _, kind := range []struct {
		name  string
		world func(seed uint64, days float64) *sim.World
	}{
		{"gamma/zipf/0", func(seed uint64, _ float64) *sim.World { return drawn("gamma", 0, pages, seed) }},
		{"lognormal/zipf/0.5", func(seed uint64, _ float64) *sim.World { return drawn("lognormal", .5, pages, seed) }},
		{"in bursts", func(seed uint64, days float64) *sim.World {
			return inBursts(drawn("gamma", 0, pages, seed), days, seed)
		}},
		{"aging", func(seed uint64, days float64) *sim.World { return aging(drawn("gamma", 0, pages, seed), days, seed) }},
	} {
		for _, budget := range b.of(.01, .03, .1, .3, 1, 3, 10) {
			days := b.long(math.Round(min(max(90/budget, 30), 300)))
			list = append(list, truth{kind.name, func(seed uint64) (*sim.World, error) { return kind.world(seed, days), nil }, budget, days, math.Floor(days / 3), 1})
		}
	}
	return b.order(ctx, "random webs", list, b.seeds, "freshness-known", "freshness")
}

// recordedWays measures item 14. A seed draws the importance of the pages.
func (b *bench) recordedWays(ctx context.Context) error {
	dir := b.folder("changes")
	if dir == "" {
		return nil
	}
	days := b.long(900)
	var list []truth
	for _, name := range b.histories {
		web := sim.TraceWeb{Dir: dir, Names: []string{name}, Days: days}
		w, err := web.World()
		if err != nil {
			return err
		}
		n := float64(len(w.Pages))
		x := w.Bursts(days)
		b.note("%s: %d pages, %.3g changes a day; %.0f%% of them with those of 9 other pages or more", name, x.Pages, float64(x.Changes)/days, 100*x.Shared)
		for _, requests := range b.of(1, 7.5, 30) {
			list = append(list, truth{name, func(seed uint64) (*sim.World, error) {
				of := web
				of.Seed = seed
				return of.World()
			}, requests / n, days, math.Floor(days / 3), n})
		}
	}
	return b.order(ctx, "recorded changes", list, b.seeds, "freshness")
}

// order runs policies in each world, told in the three ways, and judges whether a better way reaches less.
func (b *bench) order(ctx context.Context, what string, list []truth, seeds int, policies ...string) error {
	got := make([]sim.Result, len(list)*len(policies)*len(ways)*seeds)
	bounds := make([]float64, len(list)*len(ways)*seeds)
	err := each(ctx, len(got), func(ctx context.Context, i int) error {
		seed, way := i%seeds, i/seeds%len(ways)
		policy, t := i/seeds/len(ways)%len(policies), i/seeds/len(ways)/len(policies)
		w, err := list[t].world(uint64(1 + seed))
		if err != nil {
			return err
		}
		w = w.All(ways[way].site)
		r, err := sim.Simulate(ctx, sim.Run{World: w, Policy: sim.MustPolicy(policies[policy]), Budget: list[t].budget, Days: list[t].days, From: list[t].from, Seed: uint64(1 + seed)})
		if err != nil {
			return err
		}
		if policy == 0 {
			bounds[(t*len(ways)+way)*seeds+seed] = sim.WebBound(w, freshness, sim.Costs{}, list[t].budget, sim.Listening{Manifest: true, Push: true}).Fresh
		}
		r.Daily = nil
		got[i] = *r
		return nil
	})
	if err != nil {
		return err
	}
	least := math.Inf(1)
	for i := range list {
		for way := 1; way < len(ways); way++ {
			for seed := range seeds {
				at := (i*len(ways)+way)*seeds + seed
				least = min(least, bounds[at]-bounds[at-seeds])
			}
		}
	}
	b.goals.AtLeast(-1e-6, least, "%s: bounds of manifests less those of silence, and of push less those of manifests, the least of all", what)
	for p, policy := range policies {
		var diffs []difference
		for i, t := range list {
			var text []string
			for way := range ways {
				runs := got[((i*len(policies)+p)*len(ways)+way)*seeds:][:seeds]
				score, spend := make([]float64, seeds), 0.
				for k, r := range runs {
					score[k] = r.Fresh
					spend += r.Spend / t.budget / float64(seeds)
					if way > 0 {
						score[k] -= got[((i*len(policies)+p)*len(ways)+way-1)*seeds+k].Fresh
					}
				}
				mean, se := meanError(score)
				if way > 0 {
					diffs = append(diffs, difference{fmt.Sprintf("%s, B=%g, %s less %s", t.name, t.budget*t.unit, ways[way].name, ways[way-1].name), mean, se})
					mean = 0
					for _, r := range runs {
						mean += r.Fresh / float64(seeds)
					}
				}
				bound, _ := meanError(bounds[(i*len(ways)+way)*seeds:][:seeds])
				text = append(text, fmt.Sprintf("%s %.4f of %.4f (%.2f spent)", ways[way].name, mean, bound, spend))
			}
			b.note("%s, %s, B=%.3g: %s", policy, t.name, t.budget*t.unit, strings.Join(text, "; "))
		}
		b.judge(what+", "+policy, diffs, seeds)
	}
	return nil
}

// A difference is the mean of paired differences, and its standard error.
type difference struct {
	name string
	mean float64
	se   standardError
}

// judge prints the least of some mean differences, and how many of them are not shown to be at least -allowed, with a chance of
// one in twenty that any of those that are shown is not (Holm 1979).
func (b *bench) judge(what string, list []difference, seeds int) {
	slices.SortFunc(list, func(x, y difference) int {
		if x.mean < y.mean {
			return -1
		}
		return 1
	})
	b.goals.AtLeast(-allowed, list[0].mean, "%s: the least of %d mean differences, %s (±%.4f)", what, len(list), list[0].name, list[0].se)
	for _, d := range list[1:] {
		if d.mean < -allowed {
			b.note("%+.4f (±%.4f)  %s", d.mean, d.se, d.name)
		}
	}
	if seeds < 3 {
		return
	}
	chances := make([]float64, len(list))
	for i, d := range list {
		chances[i] = chanceAbove((d.mean+allowed)/float64(d.se), float64(seeds-1))
	}
	slices.Sort(chances)
	shown := 0
	for shown < len(chances) && chances[shown] <= .05/float64(len(chances)-shown) {
		shown++
	}
	b.goals.AtMost(0, float64(len(list)-shown), "%s: differences of %d not shown to be at least -%g, by %d seeds", what, len(list), allowed, seeds)
}

// chanceAbove is the chance that a variable of Student's distribution exceeds t.
func chanceAbove(t, freedom float64) float64 {
	if t != t { // no difference at all, and no error
		return 0
	}
	const steps = 4000 // by the angle whose tangent is t over the root of the degrees of freedom
	above, all, from := 0., 0., math.Atan(t/math.Sqrt(freedom))
	for i := range steps {
		angle := math.Pi * ((float64(i)+.5)/steps - .5)
		density := math.Pow(math.Cos(angle), freedom-1)
		if all += density; angle > from {
			above += density
		}
	}
	return above / all
}

func drawn(rates string, rho float64, pages int, seed uint64) *sim.World {
	return sim.Web{Rates: rates, Rho: rho, Pages: pages, Sites: 4, Seed: seed}.World()
}

// inBursts gives the pages of a world changes of which half wait for the next release of their site, once in 30 days.
func inBursts(w *sim.World, days float64, seed uint64) *sim.World {
	rng := rand.New(rand.NewPCG(seed, 5))
	releases := make([][]float64, len(w.Sites))
	for s := range releases {
		releases[s] = times(rng, 1./30, days)
	}
	return changing(w, days, func(p *sim.Page) []float64 {
		list := times(rng, p.Rate, days)
		for i, at := range list {
			if rng.IntN(2) == 0 {
				continue
			}
			list[i] = days // never, if there is no release
			if next, _ := slices.BinarySearch(releases[p.Site], at); next < len(releases[p.Site]) {
				list[i] = releases[p.Site][next]
			}
		}
		return list
	})
}

// aging gives the pages of a world changes that are five times as frequent in the 20 days after the page is renewed, which it is
// once in 200 days.
func aging(w *sim.World, days float64, seed uint64) *sim.World {
	rng := rand.New(rand.NewPCG(seed, 6))
	return changing(w, days, func(p *sim.Page) (list []float64) {
		renewed := -200 * rng.Float64()
		for _, at := range times(rng, 5*p.Rate, days) {
			for at-renewed > 200 {
				renewed += 200
			}
			if at-renewed < 20 || rng.IntN(9) == 0 {
				list = append(list, at)
			}
		}
		return list
	})
}

// changing gives all pages their changes in so many days.
func changing(w *sim.World, days float64, of func(*sim.Page) []float64) *sim.World {
	for i := range w.Pages {
		p := &w.Pages[i]
		list := of(p)
		slices.Sort(list)
		list = slices.Compact(slices.DeleteFunc(list, func(at float64) bool { return at >= days }))
		p.Trace, p.Rate = append([]float64{}, list...), float64(len(list))/days
	}
	return w
}

// times draws the times of events at a rate.
func times(rng *rand.Rand, rate, days float64) (list []float64) {
	for at := rng.ExpFloat64() / rate; at < days; at += rng.ExpFloat64() / rate {
		list = append(list, at)
	}
	return list
}
