package batch_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/sim/batch"
)

// A robot of the oracle is busy with a page of a site.
type robot struct {
	site, pages int // that it may still fetch over this connection, with the present one
	page        uint32
	transfers   bool    // over the link
	left        float64 // seconds, or bytes of a transfer
	closes      bool
}

// stepByStep simulates a closed batch by larger-sites-first in a network where all servers are equal. It looks at every robot and every site
// at every step, and shares no code with the simulator. It returns when each page was there.
func stepByStep(r batch.Run) []float64 {
	n := &r.Network
	queue, free := make([][]uint32, len(r.Graph.Hosts)), make([]float64, len(r.Graph.Hosts)) // the pages of each site, and from when on it may be connected to
	for p, h := range r.Graph.Host {
		queue[h] = append(queue[h], uint32(p))
	}
	there := make([]float64, r.Graph.Len())
	var robots []*robot
	own := func(x *robot) float64 { // seconds of a request but for the link
		return n.Response + float64(r.Graph.Bytes[x.page])/n.Speed
	}
	for now := 0.; ; {
		for len(robots) < r.Robots {
			best := -1
			for h, q := range queue {
				if len(q) > 0 && free[h] <= now && (best < 0 || len(q) > len(queue[best]) || len(q) == len(queue[best]) && q[0] < queue[best][0]) {
					best = h
				}
			}
			if best < 0 {
				break
			}
			x := &robot{site: best, pages: min(r.AtOnce, len(queue[best])), page: queue[best][0]}
			x.left = n.Connect + own(x)
			free[best] = math.Inf(1)
			robots = append(robots, x)
		}
		running := 0.
		for _, x := range robots {
			if x.transfers {
				running++
			}
		}
		step := math.Inf(1)
		for _, x := range robots {
			if x.transfers {
				step = min(step, x.left*running/n.Link)
			} else {
				step = min(step, x.left)
			}
		}
		for h := range free {
			if free[h] > now && len(queue[h]) > 0 {
				step = min(step, free[h]-now)
			}
		}
		if math.IsInf(step, 1) {
			return there
		}
		now += step
		var still []*robot
		for _, x := range robots {
			if x.transfers {
				x.left -= step * n.Link / running
			} else {
				x.left -= step
			}
			switch {
			case x.left > 1e-7:
			case x.closes:
				free[x.site] = now + r.Wait
				continue
			case !x.transfers:
				x.transfers, x.left = true, float64(r.Graph.Bytes[x.page])
			default:
				there[x.page] = now
				queue[x.site] = queue[x.site][1:]
				x.transfers = false
				if x.pages--; x.pages > 0 {
					x.page = queue[x.site][0]
					x.left = own(x)
				} else if x.closes = n.Closing; x.closes {
					x.left = n.Connect
				} else {
					free[x.site] = now + r.Wait
					continue
				}
			}
			still = append(still, x)
		}
		robots = still
	}
}

// A simulation from event to event has every page at the time that a step by step one has.
func TestBatchMatchesStepByStep(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 4))
		pages := 1 + rng.IntN(120)
		r := batch.Run{Graph: batch.Of(batch.Sizes(pages, 1+rng.IntN(pages)), 0), Strategy: frontier.LargerSites{}, Robots: 1 + rng.IntN(12),
			AtOnce: 1 + rng.IntN(5), Wait: 20 * rng.Float64()}
		for i := range r.Graph.Bytes {
			r.Graph.Bytes[i] = 1 + rng.Uint32N(50_000)
		}
		r.Network = batch.Network{Link: math.Exp(7 + 7*rng.Float64()), Connect: rng.Float64(), Response: rng.Float64(), Speed: 1e4 + 1e5*rng.Float64(),
			Closing: seed%2 == 0, Even: true}
		want, x := stepByStep(r), simulate(t, r)
		for i, p := range x.Pages {
			if math.Abs(x.Times[i]-want[p]) > 1e-5*(1+want[p]) {
				t.Fatalf("seed %d: page %d is there at %g s instead of %g", seed, p, x.Times[i], want[p])
			}
		}
	}
}
