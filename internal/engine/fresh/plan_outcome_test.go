package fresh_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// A life is the outcome for a page that a policy visits.
type life struct{ requests, fresh, age float64 } // in a day; share of time; mean over time

// live follows a page for so many days: it changes at a rate, its site tells of a share recall of that,
// and of as much more that the share precision of what it tells is right.
func live(pr fresh.Priced, p fresh.Page, rate, precision, recall, span float64, rng *rand.Rand) (l life) {
	at := func(days float64) time.Time { return epoch.Add(time.Duration(days * float64(day))) }
	wrong := 0.
	if recall > 0 {
		wrong = recall * rate * (1 - precision) / precision
	}
	now, stale := 0., math.Inf(1) // since when the copy is outdated
	p.History = fresh.History{}.Visit(at(0), false, time.Time{})
	next := math.Inf(1)
	for now < span {
		if next == math.Inf(1) {
			next = max(now, pr.Next(&p, at(now)).Sub(epoch).Hours()/24)
		}
		event := now + rng.ExpFloat64()/(rate+wrong)
		if event >= next || event >= span {
			then := min(next, span)
			if now = then; now < span {
				if stale < now {
					l.age += (now - stale) * (now - stale) / 2
					l.fresh -= now - stale
				}
				l.requests++
				p.History = p.Visit(at(now), !math.IsInf(stale, 1), time.Time{})
				stale, next = math.Inf(1), math.Inf(1)
			}
			continue
		}
		now = event
		told := true
		if rng.Float64()*(rate+wrong) < rate {
			stale = min(stale, now)
			told = rng.Float64() < recall
		}
		if told {
			if p.Heard.Notices++; p.Heard.Notices == 1 {
				p.Heard.Noticed = at(now)
			}
			next = math.Inf(1)
		}
	}
	if stale < span {
		l.age += (span - stale) * (span - stale) / 2
		l.fresh -= span - stale
	}
	return life{requests: l.requests / span, fresh: 1 + l.fresh/span, age: l.age / span}
}

// The plan's prediction is accurate, with notices and without: requests, freshness and age.
func TestPlanPredictsOutcome(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 42))
	rates := fresh.Rates()
	for _, c := range []struct {
		precision, recall float64
		objective         fresh.Objective
		audit             float64
	}{{0, 0, fresh.Objective{}, 0}, {0.95, 0.9, fresh.Objective{}, 0}, {0.95, 0.9, fresh.Objective{Fresh: 1}, 0}, {0.95, 0.98, fresh.Objective{Age: 1}, 0},
		{0.95, 0.5, fresh.Objective{}, 0}, {0.5, 0.9, fresh.Objective{}, 0}, {0.99, 0.99, fresh.Objective{Fresh: 1}, 0.1}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			var signal fresh.Signal
			for i := range 200 {
				if c.recall > 0 {
					signal.Judged(float64(i%100) < 100*c.precision)
					signal.Found(float64(i%100) < 100*c.recall)
				}
			}
			const pages, longest = 300, 1000
			for _, budget := range []float64{0.03, 0.1} {
				budget *= pages
				pl := fresh.NewPlanner(fresh.Priced{Objective: c.objective, Longest: longest * day, Audit: c.audit}, budget)
				var list []*fresh.Page
				var at []float64
				sum := 0.
				for i := range pages {
					z := rng.NormFloat64()
					k := min(max(0, int(math.Round(math.Log(z*z/10/rates[0])/step))), fresh.Points-1)
					p := oneOfTwo(1/float64(i+3), k, k)
					p.Site.Signal, p.Site.Tells = signal, c.recall > 0
					list, at = append(list, p), append(at, rates[k])
					sum += p.Importance
					pl.Add(p)
				}
				plan := pl.Plan()
				pr := fresh.Priced{Objective: c.objective, Price: plan.Price, Longest: longest * day, Audit: c.audit}
				var got life
				for i, p := range list {
					l := live(pr, *p, at[i], c.precision, c.recall, 400, rng)
					got.requests += l.requests
					got.fresh += l.fresh * p.Importance / sum
					got.age += l.age * p.Importance / sum
				}
				if plan.Spend < 0.99*budget || !about(got.requests, plan.Requests, 0.1) || math.Abs(got.fresh-plan.Freshness) > 0.025 {
					t.Errorf("budget %v: not as planned", budget)
				}
				t.Logf("B=%v: planned %.4f requests (%.4f fallback), fresh %.4f, age %.3f; came to %.4f, %.4f, %.3f", budget/pages, plan.Spend/pages, plan.Fallback/pages, plan.Freshness, plan.Age, got.requests/pages, got.fresh, got.age)
			}
		})
	}
}
