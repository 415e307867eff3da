package harvest

import (
	"context"
	"errors"
	"time"
)

// ErrPaused is the error of tasks of a paused site, and of requests with UnlessPaused.
var ErrPaused = errors.New("not fetched: the site is paused")

type unlessPaused struct{}

// UnlessPaused returns a context with which a request by a Transport fails if its site is paused before it is sent, if only
// for a moment since that time. Others wait.
func UnlessPaused(ctx context.Context, since time.Time) context.Context {
	return context.WithValue(ctx, unlessPaused{}, since)
}

// Pause replaces the set of paused origins; nil pauses none. A paused site gets no request of any kind: its tasks, those that wait and
// those that come, are answered with FaultStopped, and requests by a Transport wait until the site is not paused any more.
// Requests that were sent before are completed. The function is called with a lock held: it must be quick, and not use the Harvester.
func (h *Harvester) Pause(paused func(origin string) bool) {
	t := h.lock()
	defer t.mu.Unlock()
	close(t.manners.paused.again)
	t.manners.paused = pauses{paused, make(chan struct{})}
	c := t.cycle
	for _, s := range t.sites {
		if t.paused(s) {
			s.paused = time.Now()
		}
		if t.paused(s) && c != nil && !c.stopping {
			c.giveBack(s.id, c.waiting.clear(s), FaultStopped, ErrPaused)
		}
	}
	if c != nil {
		c.wake()
	}
}

// Paused reports whether an origin is paused.
func (h *Harvester) Paused(origin string) bool {
	t := h.lock()
	defer t.mu.Unlock()
	return t.manners.paused.has != nil && t.manners.paused.has(origin)
}

// paused reports whether a site is paused, or nothing may be sent any more. The lock is held.
func (t *timetable) paused(s *site) bool {
	return t.manners.paused.has != nil && t.manners.paused.has(s.origin) || t.network.right.ended()
}

// awaitPause waits until Pause is called, or ctx ends. It releases the lock, which is held, while it waits.
func (t *timetable) awaitPause(ctx context.Context) {
	called := t.manners.paused.again
	t.mu.Unlock()
	defer t.mu.Lock()
	select {
	case <-called:
	case <-ctx.Done():
	}
}

// SetRate replaces Wait, WaitBig, MaxRate and AddressRate of the options, each from the next request to a site on. A negative Wait
// stays negative, and any other does not become negative: with it, slots are of another kind.
func (h *Harvester) SetRate(o Options) {
	t := h.lock()
	defer t.mu.Unlock()
	m := o.manners()
	if m.waits() != t.manners.waits() {
		m.wait = t.manners.wait
	}
	t.manners.wait, t.manners.waitBig, t.manners.maxRate, t.manners.addressRate = m.wait, m.waitBig, m.maxRate, m.addressRate
	for _, a := range t.addresses {
		for s, w := range a.guests {
			if m.maxRate < 0 {
				t.unwelcome(s)
			}
			w.rate = min(w.rate, m.maxRate)
		}
	}
}

// Gap returns the least time between two requests to a site with so many pages
// and such a Crawl-delay.
func (h *Harvester) Gap(pages int, delay time.Duration) time.Duration {
	t := h.lock()
	defer t.mu.Unlock()
	return max(t.manners.least(pages), min(delay, maxDelay))
}
