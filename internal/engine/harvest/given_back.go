package harvest

import (
	"errors"
	"fmt"
	"time"

	"github.com/parleyweb/parley/internal/engine/frontier"
)

// errCycle is the error of tasks that are given back.
var errCycle = errors.New("not fetched: the batch has ended")

// An unresolvedTasks holds the tasks of a site whose name could not be looked up.
type unresolvedTasks struct {
	site  frontier.SiteID
	tasks []Task
	err   error
}

// blameSites blames the sites for failed lookups: it answers the doubtful tasks with FaultDNS.
func (c *cycle) blameSites() {
	for _, d := range c.doubtful {
		c.giveBack(d.site, d.tasks, FaultDNS, d.err)
	}
	c.doubtful = nil
}

// find looks up a site's addresses, and enqueues the site again.
func (c *cycle) find(s *site) {
	t := c.times
	ips, err := t.network.locate(c.ctx, s.host.name)
	t.mu.Lock()
	defer t.mu.Unlock()
	s.busy = false
	if err != nil {
		c.lost(s, err)
	} else {
		t.attach(s.host, ips)
	}
	if len(s.parts) > 0 && !c.stopping {
		t.enqueue(s)
	}
}

// work fetches one task of a site whose slot it holds, or several: those of one access, and those without a
// gap between them.
func (c *cycle) work(s *site) {
	t := c.times
	t.mu.Lock()
	for len(s.parts) > 0 && !c.stopping && !t.paused(s) {
		a, ips := &Answer{Task: c.waiting.take(s), Site: s.id}, s.host.ips
		t.mu.Unlock()

		again := c.h.tasks.fetch(c.ctx, s, a, ips)

		t.mu.Lock()
		t.leave(s, a)
		prompt := !again && t.manners.prompt(s, a)
		if again = again && !c.stopping; again {
			c.waiting.untake(s, a.Task)
		} else {
			c.giveUpIfSilent(s, a)
		}
		t.mu.Unlock()
		if again {
			a.Release()
		} else {
			c.h.limits.leave() // while the sink blocks, the others go on
			c.sink(a)
			c.h.limits.enter()
		}

		t.mu.Lock()
		now := time.Now()
		sl := s.held
		if prompt && c.goesOn(s, now) {
			sl.at.taken++
			continue
		}
		if sl.at != nil || len(sl.waiters) > 0 || sl.next.After(now) || s.soonest().After(now) || !t.known(s.host, now) {
			break
		}
		s.access = 0 // the next access, without a gap
	}
	if s.conn != nil && !t.lasts(s) { // it was kept for a page of the same access
		t.hangUp(s)
	}
	t.release(s)
	s.busy = false
	if len(s.parts) > 0 && !c.stopping {
		t.enqueue(s)
	}
	t.mu.Unlock()
}

// goesOn reports whether the access to a site goes on, without a gap, on the connection that was kept for it. The lock is held.
func (c *cycle) goesOn(s *site, now time.Time) bool {
	t, sl := c.times, s.held
	return t.manners.goesOn(s, now) && !c.stopping && !t.paused(s) && s.conn != nil && sl.at != nil && sl.at.taken < sl.at.most && len(sl.waiters) == 0 &&
		s.host.slot == sl && !s.host.seen.IsValid() && t.known(s.host, now)
}

// giveUpIfSilent gives back the tasks of a site that has not answered maxSilent times in a
// row: to try hundreds of pages one by one would be useless. The lock is held.
func (c *cycle) giveUpIfSilent(s *site, a *Answer) {
	if a.Asked.IsZero() {
		return
	}
	if a.Status > 0 || a.Fault == FaultStopped {
		s.silent = 0
		return
	}
	if s.silent++; s.silent >= maxSilent {
		s.silent = 0
		c.giveBack(s.id, c.waiting.clear(s), a.Fault, fmt.Errorf("%d requests in a row got no response, the last: %w", maxSilent, a.Err))
	}
}

// lost ends all tasks of a site whose name cannot be looked up or leads to an
// address that is not allowed. The lock is held.
func (c *cycle) lost(s *site, err error) {
	if c.ctx.Err() != nil {
		return // stop gives all tasks back
	}
	tasks := c.waiting.clear(s)
	var refused *addressError
	if errors.As(err, &refused) {
		c.giveBack(s.id, tasks, FaultAddress, err)
		return
	}
	c.doubtful = append(c.doubtful, unresolvedTasks{s.id, tasks, err})
	switch c.times.network.names.verdict() {
	case broken:
		c.broken = true
	case sound:
		c.blameSites()
	}
}
