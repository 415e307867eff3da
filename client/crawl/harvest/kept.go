package harvest

import (
	"context"
	"net/netip"
	"time"
)

// sweepWithin closes connections that were idle for too long, and returns the time
// until the next sweep, or d if that is sooner and not negative. The lock is held.
func (h *Harvester) sweepWithin(d time.Duration) time.Duration {
	if len(h.idle) == 0 {
		return d
	}
	now := time.Now()
	if now.Sub(h.swept) >= sweepEvery {
		h.swept = now
		for s := range h.idle {
			if now.Sub(s.conn.used) >= keepIdle {
				h.hangUp(s)
			}
		}
	}
	if len(h.idle) == 0 {
		return d
	}
	if wait := h.swept.Add(sweepEvery).Sub(now); d < 0 || wait < d {
		return wait
	}
	return d
}

// hangUp closes the idle connection to a site. The lock is held.
func (h *Harvester) hangUp(s *site) {
	s.conn.close()
	h.unkeep(s)
}

// unkeep records that a site has no idle connection any more. The lock is held.
func (h *Harvester) unkeep(s *site) {
	s.conn = nil
	delete(h.idle, s)
	if s.keptAt != nil {
		delete(s.keptAt.kept, s)
		s.keptAt = nil
	}
}

// connection returns the kept connection, and for how long it was idle. It dials a new one if there
// is none, or if that was closed, or has received bytes without a request.
func (h *Harvester) connection(ctx context.Context, s *site, ips []netip.Addr) (*conn, time.Duration, error) {
	h.mu.Lock()
	if s.conn != nil && s.held.at != nil && netOf(s.conn.ip) != s.held.key.net {
		h.hangUp(s)
	}
	c := s.conn
	h.unkeep(s)
	s.asking = c
	h.mu.Unlock()
	if c != nil {
		if c.quiet() {
			return c, max(time.Since(c.used), 1), nil
		}
		h.mu.Lock()
		s.asking = nil
		h.mu.Unlock()
		c.close()
	}
	c, err := h.dial(ctx, s, ips)
	if err != nil {
		return nil, 0, fail(FaultConnect, err)
	}
	h.found(s.host.name, c.ip)
	h.mu.Lock()
	s.asking = c
	stopped := h.cycle == nil || h.cycle.stopping
	h.mu.Unlock()
	if stopped {
		c.cut()
	}
	return c, 0, nil
}

// keep keeps a connection for the next task if it can be reused; otherwise it closes it.
func (h *Harvester) keep(s *site, c *conn, reusable bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.asking = nil
	gap := h.gap(s, &Answer{})
	if !reusable || c.ended.Load() || c.pages >= h.perConn() || gap >= keepIdle || s.closes > 0 && gap >= s.closes {
		c.close()
		return
	}
	if a := s.held.at; a != nil {
		if a.taken+len(a.kept) > a.most {
			c.close()
			return
		}
		a.kept[s], s.keptAt = struct{}{}, a
	}
	s.conn = c
	h.idle[s] = struct{}{}
}
