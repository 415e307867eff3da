package harvest

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/internal/pause"
)

// A cycle is one Run. The harvester's lock guards it.
type cycle struct {
	h     *Harvester
	ctx   context.Context
	sink  func(*Answer)
	news  chan struct{} // of capacity 1; wakes run
	offer chan offer    // the batch that next has returned
	tasks int           // waiting ones
	sites int           // sites that have waiting tasks
	doing int           // goroutines that fetch, or give tasks back

	ready    orderHeap
	placed   uint64 // the last order number given to a site
	stopping bool
	broken   bool              // nearly all name lookups fail
	doubtful []unresolvedTasks // tasks whose name lookup failed, while it is open whose fault that is

	lastSites, lastTasks int // of the last batch
	begun                time.Time
	batches              []*open
	owned                sync.WaitGroup
}

// Run fetches until there are no more batches, or ctx ends, and then returns nil.
//
// It calls next, from one goroutine at a time, when few of its sites or tasks
// are left, so that another batch is ready when they run out (S08). Next may
// block while there is nothing to do; it returns nil for the end, or an error,
// which ends Run.
//
// Every task gets exactly one Answer; tasks left when Run ends get one with
// FaultStopped. Sink is called from many goroutines. Until it returns, no other
// task of that site is fetched; so it may block, as backpressure. Answers hold
// memory until they are released: while the unreleased ones use all of Memory,
// nothing more is read.
func (h *Harvester) Run(ctx context.Context, next func(context.Context) (*Batch, error), sink func(*Answer)) error {
	h.start()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &cycle{h: h, ctx: ctx, sink: sink, news: make(chan struct{}, 1), offer: make(chan offer, 1)}
	h.mu.Lock()
	if h.cycle != nil {
		h.mu.Unlock()
		return errRunning
	}
	h.cycle = c
	for _, s := range h.sites { // tasks that were inserted before
		if len(s.parts) == 0 {
			continue
		}
		c.sites++
		for _, p := range s.parts {
			c.tasks += len(p.tasks)
		}
		if !s.busy {
			h.enqueue(s)
		}
	}
	h.names.reset()
	h.mu.Unlock()
	err := c.run(next)
	cancel()
	c.stop()
	return err
}

type offer struct {
	batch *Batch
	err   error
}

func (c *cycle) run(next func(context.Context) (*Batch, error)) error {
	asking, end := false, false
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		c.h.mu.Lock()
		wait := c.dispatch()
		few, in := c.few()
		idle, broken := c.tasks == 0 && c.doing == 0, c.broken
		if idle && len(c.doubtful) > 0 && !broken {
			c.believe() // no lookup is left that could decide it
			idle = false
		}
		c.h.mu.Unlock()
		if !asking && !end && in >= 0 && (wait < 0 || in < wait) {
			wait = in
		}
		switch {
		case broken:
			return ErrResolver
		case end && idle:
			return nil
		case few && !asking && !end:
			asking = true
			c.owned.Add(1)
			go func() {
				defer c.owned.Done()
				b, err := next(c.ctx)
				c.offer <- offer{b, err}
			}()
		}
		if wait >= 0 {
			timer.Reset(wait)
		} else {
			timer.Stop()
		}
		select {
		case <-c.ctx.Done():
			return nil
		case <-timer.C:
		case <-c.news:
		case o := <-c.offer:
			asking = false
			if o.err != nil && c.ctx.Err() == nil {
				return fmt.Errorf("harvest: next batch: %w", o.err)
			}
			if end = o.batch == nil; !end {
				c.begin(o.batch)
			}
		}
	}
}

// few reports whether another batch is wanted, and if not, in how long one will
// be; negative means that time alone will not do. Where there is room for more
// sites, new ones do not wait until a large site is finished.
func (c *cycle) few() (bool, time.Duration) {
	if c.sites < max(1, min(c.h.most(), c.lastSites/2)) || c.tasks*4 <= c.lastTasks {
		return true, 0
	}
	if !c.h.waits() || c.sites >= c.h.most() {
		return false, -1
	}
	wait := time.Until(c.begun.Add(min(batchLasts, positive(c.h.Hurry, batchLasts))))
	return wait <= 0, max(wait, 0)
}

func (c *cycle) wake() {
	pause.Wake(c.news)
}

// dispatch starts the sites that are due, in the order of their batch, and
// returns the time until it must be called again; negative means no such time.
// The lock is held.
func (c *cycle) dispatch() time.Duration {
	h := c.h
	now, wait := time.Now(), time.Duration(-1)
	for {
		c.open(now)
		if len(c.ready) == 0 || c.doing >= h.most() || c.broken {
			break
		}
		c.try(heap.Pop(&c.ready).(*site), now)
	}
	if len(h.due) > 0 {
		wait = h.due[0].at.Sub(now)
	}
	return h.sweepWithin(wait)
}

// open moves the sites whose alarm is due to ready. The lock is held.
func (c *cycle) open(now time.Time) {
	due := &c.h.due
	for len(*due) > 0 && !(*due)[0].at.After(now) {
		a := heap.Pop(due).(*alarm)
		s, g := a.site, a.gate
		switch {
		case s != nil && s.soonest().After(now): // it was told to rest meanwhile
			a.at = s.soonest()
			heap.Push(due, a)
			continue
		case s != nil:
		case g.next.After(now):
			c.h.arm(g)
			continue
		case g.taken >= g.most || len(g.queue) == 0:
			continue // the request that leaves the gate will arm it
		default:
			s = heap.Pop(&g.queue).(*site)
			s.from = g
		}
		heap.Push(&c.ready, s)
	}
}

// try starts to fetch a site's next task, if it may be fetched now. The lock is held.
func (c *cycle) try(s *site, now time.Time) {
	h, from := c.h, s.from
	s.from, s.queued = nil, false
	switch {
	case s.busy || len(s.parts) == 0:
		// The goroutine that is busy with it will enqueue it.
	case s.soonest().After(now):
		h.enqueue(s)
	case !h.known(s.host, now):
		s.busy = true
		c.spawn(func() { c.find(s) })
	case h.enter(s, now):
		s.busy = true
		c.spawn(func() { c.work(s) })
	}
	if from != nil {
		h.arm(from)
	}
}

// spawn runs f in a goroutine that the cycle waits for. The lock is held.
func (c *cycle) spawn(f func()) {
	c.doing++
	c.owned.Add(1)
	c.h.count.inFlight.Add(1)
	go func() {
		defer c.owned.Done()
		f()
		c.h.mu.Lock()
		c.doing--
		c.h.count.inFlight.Add(-1)
		c.h.mu.Unlock()
		c.wake()
	}()
}

// take removes the first task of a site. The lock is held.
func (c *cycle) take(s *site) Task {
	p := &s.parts[0]
	t := p.tasks[0]
	if p.tasks = p.tasks[1:]; len(p.tasks) == 0 {
		c.drop(s)
	}
	c.tasks--
	return t
}

// giveBack answers tasks that are not fetched. The lock is held.
func (c *cycle) giveBack(id frontier.SiteID, tasks []Task, fault Fault, err error) {
	if len(tasks) > 0 {
		c.spawn(func() { c.answer(id, tasks, fault, err) })
	}
}

func (c *cycle) answer(id frontier.SiteID, tasks []Task, fault Fault, err error) {
	for _, t := range tasks {
		c.sink(&Answer{Task: t, Site: id, Fault: fault, Err: err})
	}
}

// begin adds a batch to the cycle.
func (c *cycle) begin(b *Batch) {
	h := c.h
	h.mu.Lock()
	defer h.mu.Unlock()
	o := &open{number: b.Number}
	c.lastSites, c.lastTasks, c.begun = len(b.Sites), 0, time.Now()
	for _, sb := range b.Sites {
		c.lastTasks += len(sb.Tasks)
		c.add(sb, o)
	}
	o.began = o.left
	h.log.Debug("batch begun", "batch", b.Number, "sites", o.began, "tasks", c.lastTasks)
	h.forget()

	// When few sites of an older batch are left, it ends: their tasks are given
	// back, to be ranked again beside new ones. That happens once a batch, and
	// only if many sites replace them.
	few, kept := h.minSites(), c.batches[:0]
	for _, old := range c.batches {
		if old.began >= few && old.left > 0 && old.left < few && o.began >= few {
			c.end(old)
		}
		if old.left > 0 {
			kept = append(kept, old)
		}
	}
	clear(c.batches[len(kept):])
	c.batches = append(kept, o)
	c.wake()
}

// end gives back the remaining tasks of a batch. The lock is held.
func (c *cycle) end(o *open) {
	c.h.log.Debug("batch ended early", "batch", o.number, "sites", o.left)
	for _, s := range c.h.sites {
		var back []Task
		kept := s.parts[:0]
		for _, p := range s.parts {
			if p.batch == o {
				back = append(back, p.tasks...)
				o.left--
			} else {
				kept = append(kept, p)
			}
		}
		if len(back) == 0 {
			continue
		}
		clear(s.parts[len(kept):])
		if s.parts = kept; len(kept) == 0 {
			s.parts = nil
			c.sites--
		}
		c.tasks -= len(back)
		c.giveBack(s.id, back, FaultStopped, errCycle)
	}
}

// add gives a site tasks of a batch, or on demand if there is none. The lock is held.
func (c *cycle) add(sb SiteBatch, o *open) {
	if len(sb.Tasks) == 0 {
		return
	}
	s, err := c.h.site(sb.Origin)
	if err != nil {
		fault := FaultProtocol
		if errors.As(err, new(*portError)) {
			fault = FaultAddress
		}
		c.giveBack(sb.Site, sb.Tasks, fault, fmt.Errorf("site %d: %w", sb.Site, err))
		return
	}
	if len(s.parts) == 0 {
		c.sites++
		c.placed++
		s.order = c.placed
	}
	c.tasks += len(sb.Tasks)
	if o == nil {
		s.demand(sb)
	} else {
		o.left++
		s.id, s.pages, s.delay = sb.Site, sb.Pages, max(s.delay, sb.Delay) // Pace may have set a newer one than the batch has
		s.parts = append(s.parts, part{batch: o, tasks: sb.Tasks})
	}
	if !s.busy {
		c.h.enqueue(s)
	}
}

// Insert puts tasks before all others of their site, in the running cycle or
// else in the next one. The site need not be in any batch. An error means that
// sb.Origin is invalid, and that there will be no answers.
func (h *Harvester) Insert(sb SiteBatch) error {
	h.start()
	h.mu.Lock()
	defer h.mu.Unlock()
	s, err := h.site(sb.Origin)
	if err != nil {
		return fmt.Errorf("insert tasks: %w", err)
	}
	if c := h.cycle; c != nil && !c.stopping {
		c.add(sb, nil)
	} else if len(sb.Tasks) > 0 {
		s.demand(sb)
	}
	return nil
}

// First moves a page that waits in a site's tasks before the others.
func (h *Harvester) First(origin string, page frontier.PageID) {
	h.start()
	h.mu.Lock()
	defer h.mu.Unlock()
	s, err := h.site(origin)
	if err != nil {
		return
	}
	for _, p := range s.parts {
		for i := range p.tasks {
			if p.tasks[i].Page == page {
				first := &s.parts[0].tasks[0]
				*first, p.tasks[i] = p.tasks[i], *first
				return
			}
		}
	}
}

// stop ends the cycle: open requests are cut short, and all other tasks are given back.
func (c *cycle) stop() {
	h := c.h
	h.mu.Lock()
	c.stopping = true
	for _, a := range h.due {
		a.place = -1
	}
	h.due = nil
	for _, sl := range h.slots {
		sl.queue, sl.at.queue = nil, nil
	}
	left := c.doubtful
	for _, s := range h.sites {
		s.queued, s.from, s.own.queue = false, nil, nil
		if len(s.parts) > 0 {
			left = append(left, unresolvedTasks{s.id, c.clear(s), nil})
		}
		if s.asking != nil {
			s.asking.cut()
		}
	}
	h.mu.Unlock()
	c.owned.Wait()

	h.mu.Lock()
	h.cycle = nil
	for s := range h.idle {
		h.hangUp(s)
	}
	h.mu.Unlock()
	err := errCycle
	if c.broken {
		err = ErrResolver
	}
	select {
	case o := <-c.offer: // it came too late
		if o.batch != nil {
			for _, sb := range o.batch.Sites {
				left = append(left, unresolvedTasks{sb.Site, sb.Tasks, nil})
			}
		}
	default:
	}
	for _, d := range left {
		c.answer(d.site, d.tasks, FaultStopped, err)
	}
	h.inner.CloseIdleConnections()
}
