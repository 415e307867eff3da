package batch_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/graph"
	"github.com/parleyweb/parley/internal/sim/batch"
)

func simulate(t *testing.T, r batch.Run) *batch.Result {
	t.Helper()
	x, err := r.Simulate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// thesis is the batch of Castillo 2004, section 4.4.
func thesis(link float64, atOnce int) batch.Run {
	return batch.Run{Graph: batch.Of(batch.Sizes(100_858, 2100), 23_750), Network: batch.Thesis(link, 1), Strategy: frontier.LargerSites{},
		Robots: 1000, AtOnce: atOnce, Wait: 15}
}

func near(a, b, by float64) bool { return math.Abs(a-b) <= by }

// random draws a crawl of a few hundred pages.
func random(rng *rand.Rand) batch.Run {
	pages := 1 + rng.IntN(300)
	r := batch.Run{Graph: batch.Of(batch.Sizes(pages, 1+rng.IntN(pages)), 1+rng.IntN(50_000)), Strategy: []frontier.Strategy{frontier.LargerSites{},
		frontier.BreadthFirst{}, frontier.Performance{}, frontier.CrawlAbility{}, frontier.Random(1)}[rng.IntN(5)],
		Robots: 1 + rng.IntN(20), AtOnce: 1 + rng.IntN(10), Wait: float64(rng.IntN(20)), Network: batch.Thesis(math.Exp(12*rng.Float64()), rng.Uint64())}
	r.Network.Response, r.Network.Failures = rng.Float64(), max(0, rng.Float64()-.5)
	r.Network.Limits, r.Network.Closing, r.Network.Pipelined = rng.IntN(2) == 0, rng.IntN(2) == 0, rng.IntN(2) == 0
	if rng.IntN(2) == 0 {
		r.Graph = graph.Generate(graph.Model{Pages: pages, Hosts: 1 + pages/20, Seed: rng.Uint64()})
		r.Graph.Bytes = slices.Repeat([]uint32{uint32(rng.IntN(50_000))}, pages)
		if r.Starts = r.Graph.Starts(); rng.IntN(2) == 0 {
			r.Quality = batch.Zipf(pages, 1)
		}
	}
	return r
}

// Whatever the crawl, every page is tried once, no limit is broken, and no bound is beaten.
func TestBoundsAndLimitsHold(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		r := random(rng)
		x := simulate(t, r)
		if x.Seconds < x.Least*(1-1e-9) || x.Seconds < x.Waits*(1-1e-9) {
			t.Fatalf("seed %d: %g s, below %g or %g", seed, x.Seconds, x.Least, x.Waits)
		}
		pages := slices.Clone(x.Pages)
		slices.Sort(pages)
		if len(slices.Compact(pages)) != len(x.Pages) || r.Starts == nil && len(x.Pages)+x.Failed != r.Graph.Len() || !slices.IsSorted(x.Times) {
			t.Fatalf("seed %d: %d pages fetched, and %d failures, of %d", seed, len(x.Pages), x.Failed, r.Graph.Len())
		}
		if r.Network.Failures == 0 && r.Starts != nil && len(x.Pages) != r.Graph.Reachable(r.Starts).Len() {
			t.Fatalf("seed %d: %d pages of %d", seed, len(x.Pages), r.Graph.Reachable(r.Starts).Len())
		}
		for _, a := range x.Active {
			if a.Busy > r.Robots {
				t.Fatalf("seed %d: %d of %d robots busy", seed, a.Busy, r.Robots)
			}
		}
		last := map[uint32]float64{} // by site
		streak := map[uint32]int{}
		for i, p := range x.Pages {
			h := r.Graph.Host[p]
			at, seen := last[h]
			if streak[h]++; !seen || x.Times[i] >= at+r.Wait {
				streak[h] = 1
			}
			if streak[h] > r.AtOnce {
				t.Fatalf("seed %d: more than %d pages of site %d without a wait of %g s", seed, r.AtOnce, h, r.Wait)
			}
			last[h] = x.Times[i]
		}
	}
}

func TestSameRunGivesSameResult(t *testing.T) {
	for seed := range uint64(20) {
		a, b := simulate(t, random(rand.New(rand.NewPCG(seed, 2)))), simulate(t, random(rand.New(rand.NewPCG(seed, 2))))
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: two results", seed)
		}
	}
}

// One robot needs the sum of its requests: nothing overlaps. It changes sites while one has to wait.
func TestOneRobotAddsUp(t *testing.T) {
	r := batch.Run{Graph: batch.Of([]int{30, 30, 30, 30}, 20_000), Network: batch.Thesis(10_000, 3), Strategy: frontier.LargerSites{}}
	want := 0.
	for page := range uint32(r.Graph.Len()) {
		want += r.Network.Takes(r.Graph.Host[page], page, 20_000)
	}
	if x := simulate(t, r); !near(x.Seconds, want, 1e-6) || x.Least != 120*2 {
		t.Errorf("%g s instead of %g; at least %g", x.Seconds, want, x.Least)
	}
	r.Graph = batch.Of([]int{5}, 20_000)
	r.Network.Even, r.Wait = true, 15
	if x := simulate(t, r); !near(x.Seconds, 5*(.4+.2+2)+4*15, 1e-6) || x.Waits != 60 {
		t.Errorf("%g s for 5 pages of a site; waits %g", x.Seconds, x.Waits)
	}
}

// The link gives all transfers the same share: computed again, with all that is left of each at every event.
func TestLinkIsSharedEqually(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 3))
		const rate = 100.
		n := 1 + rng.IntN(30)
		begin, bytes := make([]float64, n), make([]float64, n)
		for i := range begin {
			begin[i], bytes[i] = 20*rng.Float64(), 1+500*rng.Float64()
		}
		slices.Sort(begin)
		left, want, now := slices.Clone(bytes), make([]float64, n), 0.
		for next := 0; ; {
			var running []int
			for i := range next {
				if want[i] == 0 {
					running = append(running, i)
				}
			}
			step, ends := math.Inf(1), -1
			for _, i := range running {
				if s := left[i] * float64(len(running)) / rate; s < step {
					step, ends = s, i
				}
			}
			if next < n && begin[next]-now <= step {
				step, ends = begin[next]-now, -1
				next++
			} else if ends < 0 {
				break
			}
			for _, i := range running {
				left[i] -= step * rate / float64(len(running))
			}
			if now += step; ends >= 0 {
				want[ends] = now
			}
		}
		for i, at := range batch.Shared(rate, begin, bytes) {
			if !near(at, want[i], 1e-6) {
				t.Fatalf("seed %d: transfer %d ends at %g instead of %g", seed, i, at, want[i])
			}
		}
	}
}

// Servers differ as Castillo and Cao measured: their section 3.3, 4.2.1 and 5.1.3.
func TestServersAreAsMeasured(t *testing.T) {
	n := batch.Thesis(1e9, 7)
	n.Limits = true
	slow, speed, limit := n.Servers(200_000)
	mean := func(x []float64) (m float64) {
		for _, v := range x {
			m += v / float64(len(x))
		}
		return m
	}
	product := make([]float64, len(slow))
	moments := func(x, y []float64) float64 {
		a, b := mean(x), mean(y)
		for i := range x {
			product[i] = (x[i] - a) * (y[i] - b)
		}
		return mean(product)
	}
	a, b := math.Sqrt(moments(slow, slow)), math.Sqrt(moments(speed, speed))
	if r := moments(slow, speed) / (a * b); !near(a, .96, .03) || !near(b/mean(speed), .42, .01) || !near(r, -.645, .03) || !near(mean(slow), 1, .01) {
		t.Errorf("deviations %.3f and %.3f, correlation %.3f", a, b/mean(speed), r)
	}
	ones, hundreds := 0., 0.
	for _, l := range limit {
		switch {
		case l == 1:
			ones++
		case l == 100:
			hundreds++
		case l < 1 || l > 100:
			t.Fatalf("a limit of %d", l)
		}
	}
	if all := float64(len(limit)); !near(ones/all, .24, .01) || !near(hundreds/all, .66, .01) {
		t.Errorf("%g servers take one request, and %g 100", ones/all, hundreds/all)
	}
	var takes []float64
	for i := range uint32(50_000) {
		takes = append(takes, n.Takes(i, i, 23_750))
	}
	slices.Sort(takes)
	if q := takes[45_000]; q > 1.5 || q < 1 {
		t.Errorf("9 pages of 10 take less than %g s", q)
	}
	if q := takes[47_500]; q > 3 {
		t.Errorf("19 pages of 20 take less than %g s", q)
	}
}

// The four times of section 4.4, within 15 %.
func TestThesisBatches(t *testing.T) {
	for _, c := range []struct {
		link   float64
		atOnce int
		hours  float64
	}{{25_000, 1, 33}, {25_000, 100, 29}, {250_000, 1, 9}, {250_000, 100, 3}} {
		x := simulate(t, thesis(c.link, c.atOnce))
		t.Logf("%g B/s, %d at once: %.2f h instead of %g; at least %.2f and %.2f", c.link, c.atOnce, x.Seconds/3600, c.hours, x.Least/3600, x.Waits/3600)
		if h := x.Seconds / 3600; !near(h, c.hours, .15*c.hours) {
			t.Errorf("%g B/s, %d at once: %.2f h instead of %g", c.link, c.atOnce, h, c.hours)
		}
		// Robots are idle long before the end where one page is fetched at once (figure 4.10), less so with 100 (figure 4.11).
		if busy := x.Busy(x.Seconds/2, x.Seconds) / x.Busy(0, x.Seconds/2); c.atOnce == 1 && busy > .5 {
			t.Errorf("%g of the robots are still busy in the second half", busy)
		}
	}
}

// Failing requests take time and no bandwidth; more robots make up for it.
func TestOverbookingUsesTheLink(t *testing.T) {
	used := func(robots int, failures float64) float64 {
		r := thesis(1e6, 1)
		r.Graph = batch.Of(batch.Sizes(20_000, 50), 23_750)
		r.Robots, r.Network.Failures = robots, failures
		x := simulate(t, r)
		half := x.Until(.5)
		return float64(x.Fetched(half)) * 23_750 / half
	}
	all, some, over := used(20, 0), used(20, .2), used(25, .2)
	if !(some < .95*all && over > some*1.1) {
		t.Errorf("%.0f B/s; %.0f with failures, and %.0f with more robots", all, some, over)
	}
}

func TestSizes(t *testing.T) {
	for _, c := range [][2]int{{1, 1}, {10, 10}, {10, 1}, {1000, 200}, {100_858, 2100}, {100_000, 250}} {
		list := batch.Sizes(c[0], c[1])
		sum := 0
		for _, n := range list {
			sum += n
		}
		if sum != c[0] || list[0] != c[1] || !slices.IsSortedFunc(list, func(a, b int) int { return b - a }) || list[len(list)-1] < 1 {
			t.Errorf("%d pages, at most %d a site: %d on %d sites, %d on the first", c[0], c[1], sum, len(list), list[0])
		}
	}
	if l, ok := graph.FitPowerLaw(batch.Sizes(1_000_000, 100_000)); !ok || !near(l.Exponent, 1.77, .1) {
		t.Errorf("a law of %+v, %v", l, ok)
	}
}

// Once it has met them, the crawl asks the fast servers first.
func TestFastServersComeFirst(t *testing.T) {
	r := batch.Run{Graph: batch.Of(slices.Repeat([]int{40}, 30), 1000), Network: batch.Stanford(4), Strategy: frontier.Performance{}, Robots: 3, AtOnce: 4}
	slow, _, _ := r.Network.Servers(30)
	late := func(r batch.Run) float64 { // the mean latency of the servers in the second half, by that of all
		x := simulate(t, r)
		first, all := 0., 0.
		for i, p := range x.Pages {
			if s := slow[r.Graph.Host[p]]; i < len(x.Pages)/2 {
				first += s
			} else {
				all += s
			}
		}
		return all / first
	}
	learned := late(r)
	r.Strategy = frontier.BreadthFirst{}
	if fifo := late(r); !(learned > 1.3 && fifo < 1.2) {
		t.Errorf("servers of the second half are slower by %.2f; in the order of discovery by %.2f", learned, fifo)
	}
}

// A mean counts all measurements alike, from the first on.
func TestMean(t *testing.T) {
	m := batch.Mean(7, 1, 0)
	for i := range 5 {
		m = batch.Mean(m, 2, i+1)
	}
	if !near(m, (1+2*5)/6., 1e-12) {
		t.Errorf("an estimate of %g", m)
	}
}
