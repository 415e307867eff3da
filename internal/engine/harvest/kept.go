package harvest

import (
	"context"
	"errors"
	"net/netip"
	"time"
)

// errEnded means that a site has closed the connection of an access: the next page needs another one, after the gap.
var errEnded = errors.New("the connection was closed")

// connection returns the kept connection, and for how long it was idle. It dials a new one if there
// is none, or if that was closed, or has received bytes without a request.
func (t *timetable) connection(ctx context.Context, s *site, ips []netip.Addr) (*conn, time.Duration, error) {
	t.mu.Lock()
	s.access++
	if s.conn != nil && s.held.at != nil && netOf(s.conn.ip) != s.held.key.net {
		t.hangUp(s)
	}
	c := s.conn
	t.unkeep(s)
	s.asking = c
	t.mu.Unlock()
	if c != nil {
		if c.quiet() {
			return c, max(time.Since(c.used), 1), nil
		}
		t.mu.Lock()
		s.asking = nil
		t.mu.Unlock()
		c.close()
	}
	if s.access > 1 {
		return nil, 0, errEnded
	}
	c, err := t.network.dial(ctx, s, ips)
	if err != nil {
		return nil, 0, fail(FaultConnect, err)
	}
	t.found(s.host.name, c.ip)
	t.mu.Lock()
	s.asking = c
	stopped := t.cycle == nil || t.cycle.stopping
	t.mu.Unlock()
	if stopped {
		c.cut()
	}
	return c, 0, nil
}

// keep keeps a connection for the next task if it can be reused; otherwise it closes it.
func (t *timetable) keep(s *site, c *conn, a *Answer, reusable bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.asking = nil
	if !reusable || c.ended.Load() || c.pages >= t.manners.perConn || !t.lasts(s) && !(t.manners.goesOn(s, time.Now()) && t.manners.prompt(s, a)) {
		if !reusable || len(s.parts) > 0 { // else nothing was left to fetch
			a.PerConnection = c.pages
		}
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
	t.idle[s] = struct{}{}
}

// lasts reports whether a connection to a site is likely to last through the gap. The lock is held.
func (t *timetable) lasts(s *site) bool {
	gap := t.manners.gap(s, &Answer{})
	return gap < t.manners.idle && (s.closes == 0 || gap < s.closes)
}

// sweepWithin closes connections that were idle for too long, and returns the time
// until the next sweep, or d if that is sooner and not negative. The lock is held.
func (t *timetable) sweepWithin(d time.Duration) time.Duration {
	if len(t.idle) == 0 {
		return d
	}
	now := time.Now()
	if now.Sub(t.swept) >= sweepEvery {
		t.swept = now
		for s := range t.idle {
			if now.Sub(s.conn.used) >= t.manners.idle {
				t.hangUp(s)
			}
		}
	}
	if len(t.idle) == 0 {
		return d
	}
	if wait := t.swept.Add(sweepEvery).Sub(now); d < 0 || wait < d {
		return wait
	}
	return d
}

// hangUp closes the idle connection to a site. The lock is held.
func (t *timetable) hangUp(s *site) {
	s.conn.close()
	t.unkeep(s)
}

// unkeep records that a site has no idle connection any more. The lock is held.
func (t *timetable) unkeep(s *site) {
	s.conn = nil
	delete(t.idle, s)
	if s.keptAt != nil {
		delete(s.keptAt.kept, s)
		s.keptAt = nil
	}
}
