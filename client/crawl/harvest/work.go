package harvest

import (
	"errors"
	"fmt"
	"time"

	"github.com/parleyweb/parley/client/frontier"
)

// errCycle is why a task comes back that was not asked for.
var errCycle = errors.New("the cycle has ended")

// A doubt is what a site had when its name could not be looked up.
type doubt struct {
	site  frontier.SiteID
	tasks []Task
	err   error
}

// believe takes doubts for what they are: the fault of the sites.
func (c *cycle) believe() {
	for _, d := range c.doubtful {
		c.giveBack(d.site, d.tasks, FaultDNS, d.err)
	}
	c.doubtful = nil
}

// find finds out where a site is, which is then tried again.
func (c *cycle) find(s *site) {
	h := c.h
	ips, err := h.locate(c.ctx, s.host.name)
	h.mu.Lock()
	defer h.mu.Unlock()
	s.busy = false
	if err != nil {
		c.lost(s, err)
	} else {
		h.attach(s.host, ips)
	}
	if len(s.parts) > 0 && !c.stopping {
		h.enqueue(s)
	}
}

// work asks a site whose turn it has, for one task, or for as many as come
// without a gap.
func (c *cycle) work(s *site) {
	h := c.h
	h.mu.Lock()
	for len(s.parts) > 0 && !c.stopping {
		a, ips := &Answer{Task: c.take(s), Site: s.id}, s.host.ips
		h.mu.Unlock()

		again := h.fetch(c.ctx, s, a, ips)

		h.mu.Lock()
		h.leave(s, a)
		if again = again && !c.stopping; again {
			c.untake(s, a.Task)
		} else {
			c.judge(s, a)
		}
		h.mu.Unlock()
		if again {
			a.Release()
		} else {
			c.sink(a)
		}

		h.mu.Lock()
		now := time.Now()
		if sl := s.held; sl.at != nil || len(sl.waiters) > 0 || sl.next.After(now) || s.soonest().After(now) || !h.known(s.host, now) {
			break
		}
	}
	h.release(s)
	s.busy = false
	if len(s.parts) > 0 && !c.stopping {
		h.enqueue(s)
	}
	h.mu.Unlock()
}

// judge gives a site up for this cycle that does not answer at all: to ask it
// for hundreds of pages, one after the other, would help nobody. The lock is held.
func (c *cycle) judge(s *site, a *Answer) {
	if a.Asked.IsZero() {
		return
	}
	if a.Status > 0 || a.Fault == FaultStopped {
		s.silent = 0
		return
	}
	if s.silent++; s.silent >= maxSilent {
		s.silent = 0
		c.giveBack(s.id, c.clear(s), a.Fault, fmt.Errorf("the site was silent %d times in a row, at last: %w", maxSilent, a.Err))
	}
}

// lost answers all tasks of a site that cannot be reached, since its name
// cannot be looked up or leads where nothing is to be asked. The lock is held.
func (c *cycle) lost(s *site, err error) {
	if c.ctx.Err() != nil {
		return // all is given back
	}
	tasks := c.clear(s)
	var refused *addressError
	if errors.As(err, &refused) {
		c.giveBack(s.id, tasks, FaultAddress, err)
		return
	}
	c.doubtful = append(c.doubtful, doubt{s.id, tasks, err})
	switch c.h.names.verdict() {
	case broken:
		c.broken = true
	case sound:
		c.believe()
	}
}
