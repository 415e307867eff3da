package sim

import (
	"math"
	"math/rand/v2"
)

// A changer says when a page changes, in order. What it says depends on the seed and the
// page alone, so that all policies have the same luck.
type changer struct {
	rng   rand.PCG
	rate  float64
	trace []float64
	next  float64 // +Inf: never again
}

func newChanger(seed uint64, i int, p *Page) (c changer) {
	c = changer{rate: p.Rate, trace: p.Trace}
	if p.Trace == nil {
		c.rng.Seed(seed, uint64(i)+1)
	}
	for c.step(); c.next < 0; { // what a trace has before the start
		c.step()
	}
	return c
}

// step goes on to the change after the next one.
func (c *changer) step() {
	switch {
	case len(c.trace) > 0:
		c.next, c.trace = c.trace[0], c.trace[1:]
	case c.trace != nil || c.rate == 0:
		c.next = math.Inf(1)
	default:
		c.next += exponential(&c.rng) / c.rate
	}
}

// exponential draws a time to the next event at rate 1.
func exponential(rng *rand.PCG) float64 {
	return -math.Log(float64(rng.Uint64()>>11+1) / (1 << 53))
}

// A copied page is what is true of a page and of its copy.
type copied struct {
	changer
	wrong  float64 // since when the copy is, +Inf if it is right
	newest float64 // time of the newest change; 0: that of the start
}

// until lets the page change up to a time.
func (c *copied) until(now float64) {
	for c.next <= now {
		c.wrong = min(c.wrong, c.next)
		c.newest = c.next
		c.step()
	}
}

// A saying is something that is due to be said, or to happen to a page that speaks.
type saying struct {
	at      float64
	claimed float64 // when the page is said to have changed
	page    int32
	kind    sayingKind
}

type sayingKind uint8

const (
	changes sayingKind = iota // it really does, now
	lies                      // a false notice is due
	speaks                    // a notice comes
)

// A speech has what all sites are about to say, in order.
type speech struct {
	heap []saying
	rng  rand.PCG
}

func (s *speech) push(x saying) {
	s.heap = append(s.heap, x)
	i := len(s.heap) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !s.before(i, up) {
			break
		}
		s.heap[i], s.heap[up] = s.heap[up], s.heap[i]
		i = up
	}
}

func (s *speech) before(i, j int) bool {
	a, b := &s.heap[i], &s.heap[j]
	if a.at != b.at {
		return a.at < b.at
	}
	if a.kind != b.kind {
		return a.kind < b.kind
	}
	return a.page < b.page
}

// next is when the next one is due, +Inf if there is none.
func (s *speech) next() float64 {
	if len(s.heap) == 0 {
		return math.Inf(1)
	}
	return s.heap[0].at
}

func (s *speech) pop() saying {
	top, last := s.heap[0], len(s.heap)-1
	s.heap[0] = s.heap[last]
	s.heap = s.heap[:last]
	for i := 0; ; {
		least := i
		for _, down := range [2]int{2*i + 1, 2*i + 2} {
			if down < last && s.before(down, least) {
				least = down
			}
		}
		if least == i {
			return top
		}
		s.heap[i], s.heap[least] = s.heap[least], s.heap[i]
		i = least
	}
}

// begin makes a page of a speaking site heard.
func (s *speech) begin(i int, c *copied, site *Site) {
	if !math.IsInf(c.next, 1) {
		s.push(saying{at: c.next, page: int32(i), kind: changes})
	}
	s.lie(i, 0, c.rate, site)
}

// lie draws the next false notice of a page.
func (s *speech) lie(i int, now, rate float64, site *Site) {
	if nu := site.falsely(rate); nu > 0 {
		at := now + exponential(&s.rng)/nu
		s.push(saying{at: at, claimed: at, page: int32(i), kind: lies})
	}
}

// chance is true for a share of all cases.
func (s *speech) chance(share float64) bool {
	return share >= 1 || float64(s.rng.Uint64()>>11)/(1<<53) < share
}
