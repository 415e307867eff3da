package sim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Structures are the names of the webs of [Web.Structured].
func Structures() []string { return []string{"deploys", "sweeps", "weekly", "periods", "aging"} }

// Structured draws a web whose pages change together, by the clock or by their age, for so many days:
//
//   - deploys: a site publishes once in 3 to 14 days, at any time; four of five changes of a page come then
//   - sweeps: the same once in 20 to 60 days; then nearly all pages of the site change
//   - weekly: a site publishes at one time of the week
//   - periods: each page changes at equal intervals
//   - aging: a page is renewed once in 120 days, and changes most in the first days after that
func (w Web) Structured(structure string, days float64) (*World, error) {
	if !slices.Contains(Structures(), structure) {
		return nil, fmt.Errorf("structure %q: want one of %q", structure, Structures())
	}
	world := w.World()
	world.Name += ", " + structure
	rng := rand.New(rand.NewPCG(w.withDefaults().Seed, 5))
	published := make([][]float64, len(world.Sites))
	for s := range published {
		at, wait := 0., func() float64 { return 7 }
		switch structure {
		case "deploys":
			mean := 3 + 11*rng.Float64()
			wait = func() float64 { return mean * rng.ExpFloat64() }
		case "sweeps":
			mean := 20 + 40*rng.Float64()
			wait = func() float64 { return mean * rng.ExpFloat64() }
		default:
			at = -7 * rng.Float64()
		}
		for at += wait(); at < days; at += wait() {
			published[s] = append(published[s], at)
		}
	}
	world.expected = make([]expectations, len(world.Pages))
	for i := range world.Pages {
		p, e := &world.Pages[i], &world.expected[i]
		times := published[p.Site]
		switch structure {
		case "deploys":
			e.at(times, min(.8*p.Rate*days/float64(len(times)), 6))
			e.daily(days, func(float64) float64 { return .2 * p.Rate })
		case "sweeps":
			e.at(times, 3)
			e.daily(days, func(float64) float64 { return p.Rate / 2 })
		case "weekly":
			e.at(times, 7*p.Rate)
		case "periods":
			for at := rng.Float64() / p.Rate; at < days; at += 1 / p.Rate {
				e.at([]float64{at}, 20) // surely
			}
		case "aging":
			e.daily(days, renewals(rng, p.Rate))
		}
		e.draw(p, rng, days)
	}
	return world, world.check()
}

// An expected is a number of changes that are expected of a page at one moment, or spread over some days before it.
type expected struct{ moment, changes, over float64 }

// expectations are what is expected of a page, in order of time.
type expectations []expected

func (e *expectations) at(times []float64, changes float64) {
	for _, t := range times {
		*e = append(*e, expected{moment: t, changes: changes})
	}
}

// daily adds changes at a rate, day by day.
func (e *expectations) daily(days float64, rate func(day float64) float64) {
	for day := 1.; day < days; day++ {
		*e = append(*e, expected{day, rate(day), 1})
	}
	slices.SortFunc(*e, func(a, b expected) int { return cmp.Compare(a.moment, b.moment) })
}

// renewals returns the rate of a page that is renewed now and then, for times that only grow.
func renewals(rng *rand.Rand, rate float64) func(at float64) float64 {
	const life, young = 120., 8. // days
	renewed, next := -life*rng.ExpFloat64(), life*rng.ExpFloat64()
	return func(at float64) float64 {
		for at > next {
			renewed, next = next, next+life*rng.ExpFloat64()
		}
		return rate * (.4 + 10*math.Exp((renewed-at)/young))
	}
}

// draw draws a page's changes. Its rate becomes that of moments, or days, with changes.
func (e expectations) draw(p *Page, rng *rand.Rand, days float64) {
	p.Trace, p.Rate = []float64{}, 0
	for _, x := range e {
		share := -math.Expm1(-x.changes)
		if p.Rate += share / days; rng.Float64() < share {
			p.Trace = append(p.Trace, x.moment-x.over*rng.Float64())
		}
	}
	slices.Sort(p.Trace)
}
