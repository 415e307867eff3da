package harvest

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/pause"
)

// A cycle is one Run. The timetable's lock guards it.
type cycle struct {
	h       *Harvester
	times   *timetable
	ctx     context.Context
	sink    func(*Answer)
	news    chan struct{} // of capacity 1; wakes run
	offer   chan offer    // the batch that next has returned
	waiting workload
	doing   int // goroutines that fetch, or give tasks back

	stopping bool
	broken   bool              // nearly all name lookups fail
	doubtful []unresolvedTasks // tasks whose name lookup failed, until it is known whether the resolver is at fault

	owned sync.WaitGroup
}

// Run fetches until there are no more batches, or ctx ends, and then returns nil.
//
// It calls next, from one goroutine at a time, when few of its sites or tasks
// are left, so that another batch is ready when they run out (S08). Next may
// block while there is nothing to do; it returns nil for the end, or an error,
// which ends Run. Every few seconds while there is room for more sites, it calls
// next early, so that new sites do not wait until a large one is finished: then
// next must not block, and may return an empty batch.
//
// Every task gets exactly one Answer; tasks left when Run ends get one with
// FaultStopped. Sink is called from many goroutines. Until it returns, no other
// task of that site is fetched; so it may block, as backpressure. Answers hold
// memory until they are released: while the unreleased ones use all of Memory,
// nothing more is read.
func (h *Harvester) Run(ctx context.Context, next func(ctx context.Context, early bool) (*Batch, error), sink func(*Answer)) error {
	t := h.start()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &cycle{h: h, times: t, ctx: ctx, sink: sink, news: make(chan struct{}, 1), offer: make(chan offer, 1)}
	t.mu.Lock()
	if t.cycle != nil {
		t.mu.Unlock()
		return errRunning
	}
	t.cycle = c
	for _, s := range t.sites { // tasks that were inserted before
		if len(s.parts) == 0 {
			continue
		}
		c.waiting.sites++
		for _, p := range s.parts {
			c.waiting.tasks += len(p.tasks)
		}
		if !s.busy {
			t.enqueue(s)
		}
	}
	h.network.names.reset()
	t.mu.Unlock()
	err := c.run(next)
	cancel()
	c.stop()
	return err
}

type offer struct {
	batch *Batch
	early bool
	err   error
}

func (c *cycle) run(next func(context.Context, bool) (*Batch, error)) error {
	asking, end := false, false
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		c.times.mu.Lock()
		wait := c.dispatch()
		few, early := c.few(), c.earlyIn()
		idle, broken := c.waiting.tasks == 0 && c.doing == 0, c.broken
		if idle && len(c.doubtful) > 0 && !broken {
			c.blameSites() // no lookup is left that could decide it
			idle = false
		}
		c.times.mu.Unlock()
		if !asking && !end && (wait < 0 || early < wait) {
			wait = early
		}
		switch {
		case broken:
			return c.times.network.names.failure()
		case end && idle:
			return nil
		case (few || early == 0) && !asking && !end:
			asking = true
			c.owned.Add(1)
			go func() {
				defer c.owned.Done()
				b, err := next(c.ctx, !few)
				c.offer <- offer{b, !few, err}
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
				c.begin(o.batch, o.early)
			}
		}
	}
}

// few reports whether few sites or tasks are left.
func (c *cycle) few() bool {
	w := &c.waiting
	return w.sites < max(1, min(c.h.most(), w.lastSites/2)) || w.tasks*4 <= w.lastTasks
}

// earlyIn returns in how long another batch is wanted, or it is to be called again, though many tasks are left: 0 if
// there is room for more sites. Those that get no request within a minute take no room.
func (c *cycle) earlyIn() time.Duration {
	after := min(max(c.times.manners.wait, earlyLeast), earlyMost, positive(c.h.Options.Hurry, earlyMost))
	now, w := time.Now(), &c.waiting
	if in := w.asked.Add(after).Sub(now); in > 0 {
		return in
	}
	room := c.h.most() - w.sites
	for _, s := range c.times.sites {
		if room > 0 {
			return 0
		}
		if len(s.parts) > 0 && s.soonest().After(now.Add(time.Minute)) {
			room++
		}
	}
	w.asked = now
	return after
}

func (c *cycle) wake() {
	pause.Wake(c.news)
}

// dispatch starts the sites that are due, in the order of their batch, and
// returns the time until it must be called again; negative means no such time.
// The lock is held.
func (c *cycle) dispatch() time.Duration {
	t := c.times
	now, wait := time.Now(), time.Duration(-1)
	for {
		c.open(now)
		if len(c.waiting.ready) == 0 || c.doing >= c.h.most() || c.h.limits.full(c) || c.broken {
			break
		}
		c.try(heap.Pop(&c.waiting.ready).(*site), now)
	}
	if len(t.due) > 0 {
		wait = t.due[0].at.Sub(now)
	}
	return t.sweepWithin(wait)
}

// open moves the sites whose alarm is due to ready. The lock is held.
func (c *cycle) open(now time.Time) {
	due := &c.times.due
	for len(*due) > 0 && !(*due)[0].at.After(now) {
		a := heap.Pop(due).(*alarm)
		s, g := a.site, a.gate
		switch {
		case s != nil && s.soonest().After(now): // its next access was postponed meanwhile
			a.at = s.soonest()
			heap.Push(due, a)
			continue
		case s != nil:
		case g.next.After(now):
			c.times.arm(g)
			continue
		case g.taken >= g.most || len(g.queue) == 0:
			continue // the request that leaves the gate will arm it
		default:
			s = heap.Pop(&g.queue).(*site)
			s.from = g
		}
		heap.Push(&c.waiting.ready, s)
	}
}

// try starts to fetch a site's next task, if it may be fetched now. The lock is held.
func (c *cycle) try(s *site, now time.Time) {
	t, from := c.times, s.from
	s.from, s.queued = nil, false
	switch {
	case s.busy || len(s.parts) == 0:
		// The goroutine that is busy with it will enqueue it.
	case t.paused(s):
		c.giveBack(s.id, c.waiting.clear(s), FaultStopped, ErrPaused)
	case s.soonest().After(now):
		t.enqueue(s)
	case !t.known(s.host, now):
		s.busy = true
		c.ask(func() { c.find(s) })
	case t.enter(s, now):
		s.busy = true
		c.ask(func() { c.work(s) })
	}
	if from != nil {
		t.arm(from)
	}
}

// ask runs f, which sends requests, within the limits of all Harvesters. The lock is held.
func (c *cycle) ask(f func()) {
	c.h.limits.enter()
	c.spawn(func() {
		defer c.h.limits.leave()
		f()
	})
}

// spawn runs f in a goroutine that the cycle waits for. The lock is held.
func (c *cycle) spawn(f func()) {
	c.doing++
	c.owned.Add(1)
	c.h.count.inFlight.Add(1)
	go func() {
		defer c.owned.Done()
		f()
		c.times.mu.Lock()
		c.doing--
		c.h.count.inFlight.Add(-1)
		c.times.mu.Unlock()
		c.wake()
	}()
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

// begin adds a batch to the cycle. An early one ends no other.
func (c *cycle) begin(b *Batch, early bool) {
	t := c.times
	t.mu.Lock()
	defer t.mu.Unlock()
	c.waiting.asked = time.Now()
	if len(b.Sites) == 0 {
		return
	}
	o := &open{number: b.Number}
	tasks := 0
	for _, sb := range b.Sites {
		tasks += len(sb.Tasks)
		c.add(sb, o)
	}
	o.began = o.left
	t.log.Debug("batch begun", "batch", b.Number, "sites", o.began, "tasks", tasks)
	t.forget()
	for _, old := range c.waiting.begin(o, early, c.h.minSites()) {
		c.end(old)
	}
	c.wake()
}

// end gives back the remaining tasks of a batch. The lock is held.
func (c *cycle) end(o *open) {
	c.times.log.Debug("batch ended early", "batch", o.number, "sites", o.left)
	for _, s := range c.times.sites {
		c.giveBack(s.id, c.waiting.remove(s, o), FaultStopped, errCycle)
	}
}

// add gives a site tasks of a batch, or on demand if there is none. The lock is held.
func (c *cycle) add(sb SiteBatch, o *open) {
	if len(sb.Tasks) == 0 {
		return
	}
	s, err := c.times.site(sb.Origin)
	if err != nil {
		fault := FaultProtocol
		if errors.As(err, new(*siteError)) {
			fault = FaultAddress
		}
		c.giveBack(sb.Site, sb.Tasks, fault, fmt.Errorf("site %d: %w", sb.Site, err))
		return
	}
	if !sb.Chosen.IsZero() && s.paused.After(sb.Chosen) {
		c.giveBack(sb.Site, sb.Tasks, FaultStopped, ErrPaused)
		return
	}
	c.waiting.add(s, sb, o)
	if !s.left.IsZero() {
		c.times.later(s, s.left.Add(min(s.delay, maxDelay)))
	}
	if !s.busy {
		c.times.enqueue(s)
	}
}

// Insert puts tasks before all others of their site, in the running cycle or
// else in the next one. The site need not be in any batch. An error means that
// sb.Origin is invalid, and that there will be no answers.
func (h *Harvester) Insert(sb SiteBatch) error {
	t := h.lock()
	defer t.mu.Unlock()
	s, err := t.site(sb.Origin)
	if err != nil {
		return fmt.Errorf("insert tasks: %w", err)
	}
	if c := t.cycle; c != nil && !c.stopping {
		c.add(sb, nil)
	} else if len(sb.Tasks) > 0 {
		s.demand(sb)
	}
	return nil
}

// First moves a page that waits in a site's tasks before the others.
func (h *Harvester) First(origin string, page frontier.PageID) {
	t := h.lock()
	defer t.mu.Unlock()
	s, err := t.site(origin)
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
	t := c.times
	t.mu.Lock()
	c.stopping = true
	for _, a := range t.due {
		a.place = -1
	}
	t.due = nil
	for _, sl := range t.slots {
		sl.queue, sl.at.queue = nil, nil
	}
	left := c.doubtful
	for _, s := range t.sites {
		s.queued, s.from, s.own.queue = false, nil, nil
		if len(s.parts) > 0 {
			left = append(left, unresolvedTasks{s.id, c.waiting.clear(s), nil})
		}
		if s.asking != nil {
			s.asking.cut()
		}
	}
	t.mu.Unlock()
	c.owned.Wait()

	t.mu.Lock()
	t.cycle = nil
	for s := range t.idle {
		t.hangUp(s)
	}
	t.mu.Unlock()
	err := errCycle
	if c.broken {
		err = t.network.names.failure()
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
	c.h.inner.CloseIdleConnections()
}
