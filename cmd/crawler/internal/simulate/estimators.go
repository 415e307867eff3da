package simulate

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/sim"
)

// visits are a crawler's observations of a page: n visits after the first, of which x found a change, within
// span days.
type visits struct {
	n, x   int
	span   float64 // from the first to the last
	quiet  float64 // known to be without a change, if changes are dated: T of (2.2)
	checks []fresh.Check
	belief fresh.Belief // of changes that are not dated
}

// drawVisits draws n visits, at equal intervals of a day or at lognormal ones of that mean.
func drawVisits(rng *rand.Rand, n int, rate float64, irregular bool) *visits {
	v := &visits{}
	for range n {
		gap := 1.
		if irregular {
			gap = math.Exp(rng.NormFloat64() - .5)
		}
		since := rng.ExpFloat64() / rate // the last change, unless it is before the previous visit
		v.visit(gap, since, since < gap)
	}
	return v
}

// visit adds a visit, so many days after the one before and after the last change.
func (v *visits) visit(gap, since float64, changed bool) {
	v.n++
	if changed {
		v.x++
		v.belief.Changed(gap)
	} else {
		v.belief.Unchanged(gap)
	}
	v.span += gap
	v.quiet += min(since, gap)
	v.checks = append(v.checks, fresh.Check{Days: gap, Changed: changed})
}

// An estimator computes a rate from visits; NaN or infinite if it has no value.
type estimator struct {
	name string
	rate func(*visits) float64
}

func estimators() []estimator {
	N := func(v *visits) float64 { return float64(v.n) }
	X := func(v *visits) float64 { return float64(v.x) }
	toDuration := func(days float64) time.Duration { return time.Duration(days * 24 * float64(time.Hour)) }
	return []estimator{
		{"changes / time", func(v *visits) float64 { return X(v) / v.span }},
		{"(2.3)", func(v *visits) float64 { return orNone(fresh.Raw(v.n, v.x, toDuration(v.span))) }},
		{"bias-reduced", func(v *visits) float64 { return fresh.Compared(v.n, v.x, toDuration(v.span)) }},
		{"maximum likelihood", func(v *visits) float64 { return orNone(fresh.Likeliest(v.checks)) }},
		{"the same, bias-reduced", func(v *visits) float64 { return orNone(fresh.LikeliestReduced(v.checks)) }},
		{"posterior mean", func(v *visits) float64 {
			post := new(fresh.Prior).Under(&v.belief)
			return post.Mean()
		}},
		{"(2.2) as printed", func(v *visits) float64 {
			return (X(v) - 1 - X(v)/(N(v)*math.Log(1-X(v)/N(v)))) / (v.span * v.quiet)
		}},
		{"(2.2) corrected", func(v *visits) float64 { return fresh.Dated(v.n, v.x, toDuration(v.quiet)) }},
	}
}

// estimatorSheet returns a table with a column for each estimator, after the first ones.
func estimatorSheet(list []estimator, first ...string) *sheet {
	for _, e := range list {
		first = append(first, e.name)
	}
	return &sheet{names: 1, rows: [][]string{first}}
}

// orNone returns the rate, NaN if there is none.
func orNone(rate float64, ok bool) float64 {
	if !ok {
		return math.NaN()
	}
	return rate
}

// pushedVisits are visits to a recorded page every so many days, for so many days.
func pushedVisits(changes []float64, every, days float64) *visits {
	v := &visits{}
	last, seen := 0., 0 // the last change, and changes before the visit
	for at := every; at <= days; at += every {
		before := seen
		for seen < len(changes) && changes[seen] <= at {
			last = changes[seen]
			seen++
		}
		v.visit(every, at-last, seen > before)
	}
	return v
}

// pushes compares estimates from polling with all changes, which pushes tell.
func (p *paper) pushes(ctx context.Context) (*sheet, error) {
	const length = 900
	list, names := estimators(), smallTraces()
	return stacked(ctx, estimatorSheet(list, "trace, polled every", "changes", "seen"), len(names), func(_ context.Context, i int) (rows [][]string, _ error) {
		w, err := sim.TraceWeb{Dir: p.folder("changes"), Names: names[i : i+1], Days: length}.World()
		if err != nil {
			return nil, err
		}
		for _, every := range []float64{1, 7, 30} {
			days := every * math.Floor(length/every)
			changes, seen := 0., 0.
			told, estimated := make([]float64, len(list)), make([]float64, len(list))
			for j := range w.Pages {
				trace := w.Pages[j].Trace
				n, _ := slices.BinarySearch(trace, days)
				v := pushedVisits(trace, every, days)
				changes, seen = changes+float64(n), seen+float64(v.x)
				for k, e := range list {
					if rate := e.rate(v); v.x > 0 && !math.IsNaN(rate) && !math.IsInf(rate, 0) {
						told[k] += float64(n) / days
						estimated[k] += rate
					}
				}
			}
			row := []string{fmt.Sprintf("%s, %g days", names[i], every), fmt.Sprintf("%.0f", changes), fmt.Sprintf("%.0f%%", 100*seen/changes)}
			for k := range list {
				row = append(row, fmt.Sprintf("%+.2f/%.2f", estimated[k]/told[k]-1, max(0, 1-told[k]*days/changes)))
			}
			rows = append(rows, row)
		}
		return rows, nil
	})
}

func (p *paper) estimators(ctx context.Context) (*sheet, error) {
	list := estimators()
	settings := []struct {
		n         int
		rate      float64
		irregular bool
	}{{10, .2, false}, {10, 1, false}, {10, 2, false}, {10, 4, false}, {50, 1, false}, {50, 4, false}, {50, 1, true}, {50, 4, true}}
	return stacked(ctx, estimatorSheet(list, "visits, rate"), len(settings), func(_ context.Context, i int) ([][]string, error) {
		set := settings[i]
		rng := rand.New(rand.NewPCG(uint64(p.seed), uint64(i)))
		name := fmt.Sprintf("%d, %g", set.n, set.rate)
		if set.irregular {
			name += " irregular"
		}
		tries := p.scaled(20_000)
		sums := make([]struct{ n, bias, square float64 }, len(list))
		for range tries {
			v := drawVisits(rng, set.n, set.rate, set.irregular)
			for j, e := range list {
				rate := e.rate(v)
				if v.x == 0 || math.IsNaN(rate) || math.IsInf(rate, 0) { // no change was seen: no estimate
					continue
				}
				d := rate/set.rate - 1
				sums[j].n++
				sums[j].bias += d
				sums[j].square += d * d
			}
		}
		row := []string{name}
		for _, sum := range sums {
			row = append(row, fmt.Sprintf("%+.2f/%.2f/%.2f", sum.bias/sum.n, math.Sqrt(sum.square/sum.n), 1-sum.n/float64(tries)))
		}
		return [][]string{row}, nil
	})
}
