package fresh_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// watched returns a page with the results of visits every few days.
func watched(rate float64, visits int, rng *rand.Rand) (p fresh.Page) {
	p.Visits = 1 + visits
	for range visits {
		span := 1 + 10*rng.Float64()
		if rng.Float64() < math.Exp(-rate*span) {
			p.Belief.Unchanged(span)
		} else {
			p.Belief.Changed(span)
		}
	}
	return p
}

// The pool learns the distribution of pages from many pages with little data; the prior of the next page is
// that distribution.
func TestPoolLearnsRateDistribution(t *testing.T) {
	rng := rand.New(rand.NewPCG(51, 52))
	draw := func() float64 { return 0.05 * math.Exp(rng.NormFloat64()) }
	var pages []fresh.Page
	for range 2000 {
		pages = append(pages, watched(draw(), 1+rng.IntN(6), rng))
	}
	// How well a prior predicts the result of a visit after four days.
	score := func(prior fresh.Prior) (sum float64) {
		rng := rand.New(rand.NewPCG(53, 54))
		draw := func() float64 { return 0.05 * math.Exp(rng.NormFloat64()) }
		for range 4000 {
			rate := draw()
			p := watched(rate, 3, rng)
			post := prior.Under(&p.Belief)
			right := post.Fresh(4)
			truth := math.Exp(-4 * rate)
			sum += truth*math.Log(right) + (1-truth)*math.Log(1-right)
		}
		return sum / 4000
	}
	var truth fresh.Prior
	for k, rate := range fresh.Rates() {
		z := math.Log(rate / 0.05)
		truth[k] = float32(math.Exp(-z * z / 2))
	}
	prior := fresh.Prior{}
	scores := []float64{score(prior)}
	for range 4 {
		var pool fresh.Pool
		for i := range pages {
			p := pages[i]
			p.Site = &fresh.Site{Prior: prior}
			pool.Add(&p)
		}
		prior = pool.Prior(fresh.Prior{}, 10)
		scores = append(scores, score(prior))
	}
	best := score(truth)
	t.Logf("log score %v by passes, the true prior has %v", scores, best)
	if gap, was := best-scores[4], best-scores[0]; gap > 0.15*was || gap < 0 {
		t.Errorf("error %v after four passes, %v before", gap, was)
	}
	for i, s := range scores[1:] {
		if s < scores[i]-1e-4 {
			t.Errorf("pass %d lowers the score: %v", i+1, scores)
		}
	}
}

// A site of few pages is assumed to be like all others, one of many has a prior of its own.
func TestPoolOfASite(t *testing.T) {
	rng := rand.New(rand.NewPCG(55, 56))
	mean := func(pages int) float64 {
		var pool fresh.Pool
		for range pages {
			p := watched(1, 8, rng)
			pool.Add(&p)
			pool.Add(&fresh.Page{}) // nothing is known of it
		}
		if pool.Pages() != pages {
			t.Errorf("%d pages are counted as %d", pages, pool.Pages())
		}
		var all fresh.Pool
		all.Merge(&pool)
		if all.Prior(fresh.Prior{}, 1) != pool.Prior(fresh.Prior{}, 1) {
			t.Error("merging one pool changes it")
		}
		prior := pool.Prior(fresh.Prior{}, 20)
		p := prior.Under(&fresh.Belief{})
		return p.Fresh(1)
	}
	none, few, many := mean(0), mean(5), mean(500)
	if base := new(fresh.Prior).Under(&fresh.Belief{}); math.Abs(none-base.Fresh(1)) > 1e-6 {
		t.Errorf("without pages %v instead of %v", none, base.Fresh(1))
	}
	if !(none > few && few > many && many < 0.5 && few > 0.6) {
		t.Errorf("right after a day: by no page %v, by few %v, by many %v", none, few, many)
	}
}
