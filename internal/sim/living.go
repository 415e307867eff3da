package sim

import (
	"cmp"
	"container/heap"
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

// A copied page is a page as it really is, and the crawler's copy of it.
type copied struct {
	changer
	wrong  float64 // time since which the copy is wrong, +Inf if it is right
	newest float64 // time of the newest change; 0: that of the start
	trifle bool    // it lacks a trifling change
}

// A living world is a world during a run: its pages change, and its sites announce changes. It keeps which of
// the crawler's copies are right, and knows nothing else of the crawler. Only the engine uses it.
type living struct {
	*World
	copies []copied
	rng    rand.PCG
	future noticeQueue
	drafts []draft // of the next manifest of each site
}

// A draft has the notices for a site's next manifest, the newest of each page.
type draft struct {
	said  []notice
	named map[int32]int // a page's index in said
}

// newLiving returns a world at the start of a run. Sites whose channels nobody uses announce nothing.
func newLiving(w *World, seed uint64, channels Listening) *living {
	l := &living{World: w, copies: make([]copied, len(w.Pages)), drafts: make([]draft, len(w.Sites))}
	l.rng.Seed(seed, 0)
	for i := range l.copies {
		l.copies[i] = copied{changer: newChanger(seed, i, &w.Pages[i]), wrong: math.Inf(1)}
		if site := l.site(i); channels.hears(site) || channels.polls(site) {
			l.change(i)
			l.lie(i, site.Floods)
		}
	}
	return l
}

func (l *living) site(i int) *Site { return &l.Sites[l.Pages[i].Site] }

// change schedules the next change of a page.
func (l *living) change(i int) {
	heap.Push(&l.future, notice{at: l.copies[i].next, page: int32(i), kind: changes})
}

// lie draws the next false notice of a page after a time.
func (l *living) lie(i int, now float64) {
	if nu := l.site(i).falsely(l.Pages[i].Rate); nu > 0 {
		at := now + exponential(&l.rng)/nu
		heap.Push(&l.future, notice{at: at, claimed: at, page: int32(i), kind: lies})
	}
}

// chance is true for a share of all cases.
func (l *living) chance(share float64) bool {
	return share >= 1 || float64(l.rng.Uint64()>>11)/(1<<53) < share
}

// next is the time at which something happens, +Inf if nothing does.
func (l *living) next() float64 {
	if len(l.future) == 0 {
		return math.Inf(1)
	}
	return l.future[0].at
}

// hear advances the world to a time, or to the next notice that a site pushes by then, and returns that; false
// if there is none. The notices of other sites go into their next manifests.
func (l *living) hear(now float64) (x notice, ok bool) {
	for l.next() <= now {
		x := heap.Pop(&l.future).(notice)
		i := int(x.page)
		site := l.site(i)
		switch x.kind {
		case changes:
			l.copies[i].until(x.at)
			l.change(i)
			if !l.chance(site.recall()) || site.unsaid(i, x.at) {
				continue
			}
			x = notice{at: x.at + max(0, site.Lag), claimed: x.at, page: x.page, kind: speaks}
			if x.at > now {
				heap.Push(&l.future, x)
				continue
			}
		case lies:
			l.copies[i].trifle = site.Trifling
			l.lie(i, x.at)
		}
		if site.Push {
			return x, true
		}
		l.drafts[l.Pages[i].Site].add(x)
	}
	return x, false
}

// add adds a notice. It replaces an older one of the same page: a manifest has one date for each.
func (d *draft) add(x notice) {
	if at, ok := d.named[x.page]; ok {
		d.said[at] = x
		return
	}
	if d.named == nil {
		d.named = map[int32]int{}
	}
	d.named[x.page] = len(d.said)
	d.said = append(d.said, x)
}

// clear begins the next manifest.
func (d *draft) clear() {
	clear(d.named)
	d.said = d.said[:0]
}

// until applies the page's changes up to a time.
func (c *copied) until(now float64) {
	for c.next <= now {
		c.wrong = min(c.wrong, c.next)
		c.newest = c.next
		c.step()
	}
}

// fetched makes the copy right, and returns since when it was wrong, +Inf if it was not, and whether it lacked no more than
// a trifling change.
func (c *copied) fetched(now float64) (wrong float64, trifling bool) {
	c.until(now)
	wrong, trifling = c.wrong, c.trifle && c.wrong > now
	c.wrong, c.trifle = math.Inf(1), false
	return wrong, trifling
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

// A noticeQueue is a heap of the future changes and notices of all sites, by time.
type noticeQueue []notice

func (q noticeQueue) Len() int      { return len(q) }
func (q noticeQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *noticeQueue) Push(x any)   { *q = append(*q, x.(notice)) }

func (q *noticeQueue) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}

func (q noticeQueue) Less(i, j int) bool {
	a, b := &q[i], &q[j]
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.kind, b.kind), cmp.Compare(a.page, b.page)) < 0
}
