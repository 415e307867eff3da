package crawl_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/pause"
)

// With the policy uniform, pages that change are visited as often as those that never do, with proportional more often; both spend the
// budget.
func TestRevisitsByRule(t *testing.T) {
	noRace(t)
	t.Parallel()
	for _, rule := range []fresh.Rule{fresh.Uniform, fresh.Proportional} {
		inBubble(t, fakeweb.Options{Seed: 5}, func(t *testing.T, w *bubble) {
			s := numbered(w, 30)
			const first, days = 4, 10
			c := w.opened(t, func(o *crawl.Options) {
				o.Once, o.Revisits.Policy, o.Revisits.Budget, o.Fetch.Wait = false, string(rule), "2/page", 5*time.Second
				o.Sources.NoFeeds = true
			})
			began := time.Now()
			runFor(t, c, days*aDay, func(ctx context.Context) {
				for hour := 1; pause.For(ctx, time.Hour); hour++ {
					if hour%5 == 0 {
						s.Edit(nth(0))
					}
				}
			})
			at, all := visits(w, s, began.Add(first*aDay))
			still := float64(all-len(at[nth(0)])) / float64(c.Collection.Len()-1)
			if budget := 2 * float64(c.Collection.Len()) * (days - first); float64(all) < budget*.75 || float64(all) > budget*1.25 {
				t.Errorf("%s: %d visits, want about %.0f", rule, all, budget)
			}
			most, least := 1.2*still, .8*still
			if rule == fresh.Proportional {
				most, least = math.Inf(1), 3*still
			}
			if n := float64(len(at[nth(0)])); n < least || n > most {
				t.Errorf("%s: %.0f visits to the page that changes, %.1f to each of the others", rule, n, still)
			}
			for path, list := range at {
				if n := float64(len(list)); path != nth(0) && rule == fresh.Uniform && math.Abs(n-still) > 2 {
					t.Errorf("%s: %.0f visits to %s, %.1f on average", rule, n, path, still)
				}
			}
			if got := c.Policy.(fresh.Priced); got.Objective != (fresh.Objective{Rule: rule}) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A manifest is polled so seldom that its pages, or one of them, or the one that changes fastest, are outdated as often as --outdated
// permits, though the crawler learns from the polls how often that is.
func TestManifestIsPolledWhenOutdated(t *testing.T) {
	noRace(t)
	t.Parallel()
	const days, learned, pages = 30, 10, 20
	for reading, limit := range map[string]float64{"any": .5, "mean": .2, "fastest": .4} {
		inBubble(t, fakeweb.Options{Seed: 10}, func(t *testing.T, w *bubble) {
			s, rng := numbered(w, pages), rand.New(rand.NewPCG(5, 6))
			edit := forgetful(s, 0, rng)
			c := w.opened(t, func(o *crawl.Options) {
				o.Once, o.Revisits.Outdated, o.Revisits.Budget = false, fmt.Sprintf("%s=%g", reading, limit), "1/page"
			})
			began := time.Now()
			edits := map[string][]time.Time{}
			runFor(t, c, days*aDay, func(ctx context.Context) {
				for pause.For(ctx, 10*time.Minute) {
					for i := range pages {
						if perDay := 6 / float64(1+i*i); rng.Float64() < perDay/144 {
							edit(nth(i))
							edits[nth(i)] = append(edits[nth(i)], time.Now())
						}
					}
				}
			})
			var last time.Time
			polls, outdated, seen := 0., 0., 0. // changes that the estimate of the probability rests on
			for path, list := range edits {
				if reading != "fastest" || path == nth(0) {
					seen += float64(len(list)) * (days + learned) / 2 / days
				}
			}
			for _, a := range w.Log() {
				if a.Path != "/robots.rdf" {
					continue
				}
				changed := map[string]bool{}
				for path, list := range edits {
					changed[path] = slices.ContainsFunc(list, func(at time.Time) bool { return at.After(last) && !at.After(a.Begin) })
				}
				last = a.Begin
				if a.Begin.Before(began.Add(learned * aDay)) {
					continue
				}
				polls++
				switch reading {
				case "any":
					if slices.Contains(slices.Collect(maps.Values(changed)), true) {
						outdated++
					}
				case "fastest":
					if changed[nth(0)] {
						outdated++
					}
				default:
					for _, is := range changed {
						if is {
							outdated += 1. / (pages + 1) // and the front page
						}
					}
				}
			}
			t.Logf("%s=%g: so at %.3f of %.0f polls", reading, limit, outdated/polls, polls)
			slope := -(1 - limit) * math.Log1p(-limit) // of the probability, by the relative error of the rate
			if slack := 2 * math.Sqrt(limit*(1-limit)/polls+slope*slope/seen); math.Abs(outdated/polls-limit) > .02+slack {
				t.Errorf("%s=%g: so at %.3f of %.0f polls", reading, limit, outdated/polls, polls)
			}
		})
	}
}
