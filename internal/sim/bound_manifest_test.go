package sim_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/parleyweb/parley/internal/sim"
)

// A pair decides about two pages of a site with a manifest, step by step, with all that may be done: it visits
// either page, both or none, and polls the manifest, whatever it knows. It knows of a page how many steps ago its copy
// was right, or that it is wrong now.
type pair struct {
	price, manifest float64      // manifest is the cost of a poll; that of a visit is 1
	ages            int          // the copy counts as wrong after so many steps
	right, step     [2][]float64 // of each page, by age: how likely its copy is right, and what that is worth in the next step
	value           []float64
}

func newPair(pages []sim.Page, price, manifest, step float64, ages int) *pair {
	p := &pair{price: price, manifest: manifest, ages: ages, value: make([]float64, (ages+1)*(ages+1))}
	for i, page := range pages {
		p.right[i], p.step[i] = make([]float64, ages+1), make([]float64, ages+1)
		for age := range ages {
			p.right[i][age] = math.Exp(-page.Rate * float64(age) * step)
			p.step[i][age] = page.Weight * p.right[i][age] * -math.Expm1(-page.Rate*step) / page.Rate
		}
	}
	return p
}

func (p *pair) state(a, b int) int { return a*(p.ages+1) + b }

// visited is the best value of a state if any pages may be visited before the step.
func (p *pair) visited(a, b int) float64 {
	best := math.Inf(-1)
	for _, now := range [...][3]int{{a, b, 0}, {0, b, 1}, {a, 0, 1}, {0, 0, 2}} {
		next := p.state(min(now[0]+1, p.ages), min(now[1]+1, p.ages))
		best = max(best, p.step[0][now[0]]+p.step[1][now[1]]-p.price*float64(now[2])+p.value[next])
	}
	return best
}

// improve computes the values of all states from those after one step more, and returns the least and the largest
// difference: between these is the value of a step of the best policy.
func (p *pair) improve() (least, most float64) {
	n := p.ages + 1
	visited, next := make([]float64, n*n), make([]float64, n*n)
	for a := range n {
		for b := range n {
			visited[p.state(a, b)] = p.visited(a, b)
		}
	}
	least, most = math.Inf(1), math.Inf(-1)
	for a := range n {
		for b := range n {
			i, x, y := p.state(a, b), p.right[0][a], p.right[1][b]
			polled := x*y*visited[0] + x*(1-y)*visited[p.state(0, p.ages)] + (1-x)*y*visited[p.state(p.ages, 0)] + (1-x)*(1-y)*visited[p.state(p.ages, p.ages)]
			now := max(visited[i], polled-p.price*p.manifest)
			least, most = min(least, now-p.value[i]), max(most, now-p.value[i])
			next[i] = (now + p.value[i]) / 2
		}
	}
	p.value = next
	return least, most
}

// TestManifestBoundIsTheBestOfAllPolicies computes the best of all policies for two pages, which may do anything at any
// of many times a day, and so nearly reaches the bound, and never exceeds it.
func TestManifestBoundIsTheBestOfAllPolicies(t *testing.T) {
	long(t)
	rng := rand.New(rand.NewPCG(5, 5))
	between, beside := 0, 0 // worlds where pages are visited between polls, and where polls are worth it at all
	for range 8 {
		w := &sim.World{Name: "two", Sites: []sim.Site{{Manifest: true}}, Pages: []sim.Page{
			{Weight: rng.Float64(), Rate: 1 + 2*rng.Float64()}, {Weight: rng.Float64(), Rate: .3 + .3*rng.Float64()}}}
		w.Normalize()
		costs := sim.Costs{Header: 1, Manifest: .05 + .5*rng.Float64()}
		bound := sim.WebBound(w, freshness, costs, .1+rng.Float64(), sim.Listening{Manifest: true})
		const step, ages = .08, 70
		p := newPair(w.Pages, bound.Price, costs.Manifest, step, ages)
		least, most := 0., 1.
		for i := 0; most-least > 2e-4*step && i < 2000; i++ {
			least, most = p.improve()
		}
		got := (least + most) / 2 / step
		want := bound.Fresh - bound.Price*bound.Spend*2
		if got > want+2e-4 || got < .995*want-2e-4 {
			t.Errorf("%+v, manifest %.3f, price %.4f: the best of all policies is worth %.5f, the bound %.5f", w.Pages, costs.Manifest, bound.Price, got, want)
		}
		if poll := sim.PollBound(w, freshness, costs, bound.Spend); bound.Fresh > poll.Fresh+1e-3 {
			beside++
		}
		named := 0.
		for _, r := range sim.PaperManifests(w, bound.Spend) {
			if r.Policy == "manifest, priced" {
				named = r.Cells[0].Fresh
			}
		}
		if bound.Fresh > named+.01 {
			between++
		}
	}
	if beside < 3 || between < 2 {
		t.Errorf("in %d worlds manifests are worth it, in %d visits between polls: too few to test them", beside, between)
	}
}

// hot is a site with one page that changes ten times a day and has half of the importance, beside 500 that change
// every twenty days.
func hot() *sim.World {
	w := &sim.World{Name: "hot", Sites: []sim.Site{{Manifest: true}}, Pages: []sim.Page{{Weight: .5, Rate: 10}}}
	for range 500 {
		w.Pages = append(w.Pages, sim.Page{Weight: .001, Rate: .05})
	}
	return w
}

// TestHotPageIsVisitedBetweenPolls: the policy reaches the bound where one page needs visits all the time, and many need
// a manifest, with the true rates and with learned ones. A run is off by a hundredth, so the mean of several counts.
func TestHotPageIsVisitedBetweenPolls(t *testing.T) {
	long(t)
	w := hot()
	for _, b := range []float64{.06, .1} {
		bound, poll := sim.ManifestBound(w, sim.Costs{}, b).Fresh, sim.PollBound(w, freshness, sim.Costs{}, b).Fresh
		for policy, least := range map[string]float64{"freshness-known": .985, "freshness": .975} {
			const seeds = 3
			mean := 0.
			for seed := range uint64(seeds) {
				mean += simulate(t, sim.Run{World: w, Policy: sim.MustPolicy(policy), Budget: b, Days: 400, From: 200, Seed: seed + 1}).Fresh / seeds
			}
			t.Logf("%s, B = %g: %.4f of the bound %.4f, without the manifest %.4f", policy, b, mean, bound, poll)
			if mean < least*bound || mean < 1.1*poll {
				t.Errorf("%s, B = %g: freshness %.4f, the bound %.4f, without the manifest %.4f", policy, b, mean, bound, poll)
			}
		}
	}
}
