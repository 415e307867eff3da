package sim

import (
	"math"
	"math/rand/v2"
)

// A changer gives the times at which a page changes, in order. They depend on the seed and the page alone, so
// that all policies get the same changes.
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
	for c.step(); c.next < 0; { // changes of a trace before the start
		c.step()
	}
	return c
}

// step advances next by one change.
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

// A copied page is the truth about a page and its copy.
type copied struct {
	changer
	wrong  float64 // time since which the copy is wrong, +Inf if it is right
	newest float64 // time of the newest change; 0: that of the start
}

// until applies the page's changes up to a time.
func (c *copied) until(now float64) {
	for c.next <= now {
		c.wrong = min(c.wrong, c.next)
		c.newest = c.next
		c.step()
	}
}

// A notice is a future notice, or a future change of a page on a site that speaks.
type notice struct {
	at      float64
	claimed float64 // time of the change that it claims
	page    int32
	kind    sayingKind
}

type sayingKind uint8

const (
	changes sayingKind = iota // the page changes now
	lies                      // the site invents a notice
	speaks                    // a notice arrives
)

// A noticeQueue has the future sayings of all sites, by time.
type noticeQueue struct {
	heap []notice
	rng  rand.PCG
}

func (s *noticeQueue) push(x notice) {
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

func (s *noticeQueue) before(i, j int) bool {
	a, b := &s.heap[i], &s.heap[j]
	if a.at != b.at {
		return a.at < b.at
	}
	if a.kind != b.kind {
		return a.kind < b.kind
	}
	return a.page < b.page
}

// next is the time of the next notice, +Inf if there is none.
func (s *noticeQueue) next() float64 {
	if len(s.heap) == 0 {
		return math.Inf(1)
	}
	return s.heap[0].at
}

func (s *noticeQueue) pop() notice {
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

// begin schedules the sayings of a page of a speaking site.
func (s *noticeQueue) begin(i int, c *copied, site *Site) {
	if !math.IsInf(c.next, 1) {
		s.push(notice{at: c.next, page: int32(i), kind: changes})
	}
	s.lie(i, 0, c.rate, site)
}

// lie draws the next false notice of a page.
func (s *noticeQueue) lie(i int, now, rate float64, site *Site) {
	if nu := site.falsely(rate); nu > 0 {
		at := now + exponential(&s.rng)/nu
		s.push(notice{at: at, claimed: at, page: int32(i), kind: lies})
	}
}

// chance is true for a share of all cases.
func (s *noticeQueue) chance(share float64) bool {
	return share >= 1 || float64(s.rng.Uint64()>>11)/(1<<53) < share
}
