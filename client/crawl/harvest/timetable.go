package harvest

import (
	"container/heap"
	"net/http"
	"time"

	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/inet"
)

// finish gives back the slot of a site after a request, and evaluates the answer.
func (h *Harvester) finish(s *site, a Answer) {
	a.Asked = time.Now() // it was sent, whatever came of it
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leave(s, &a)
	h.release(s)
}

// site returns the site of an origin, new if it is not known. The lock is held.
func (h *Harvester) site(origin string) (*site, error) {
	if s, ok := h.sites[origin]; ok {
		return s, nil
	}
	s, err := newSite(origin)
	if err != nil {
		return nil, err
	}
	if inet.ForeignPort(s.port) {
		return nil, &portError{s.port}
	}
	if n := h.hosts[s.host.name]; n != nil {
		s.host = n
	}
	h.hosts[s.host.name] = s.host
	s.host.sites++
	h.sites[origin] = s
	return s, nil
}

// Pace sets the Crawl-delay of a site. It holds from the last access on, for tasks and
// Transports, until another call of Pace, or a batch with a longer delay.
func (h *Harvester) Pace(origin string, delay time.Duration) {
	h.start()
	h.mu.Lock()
	defer h.mu.Unlock()
	s, err := h.site(origin)
	if err != nil {
		return
	}
	s.delay = delay
	if !s.left.IsZero() {
		h.later(s, s.left.Add(h.gap(s, &Answer{})))
	}
}

// later postpones the next access to a site to t, if that is later. The lock is held.
func (h *Harvester) later(s *site, t time.Time) {
	if !t.After(s.next) {
		return
	}
	s.next = t
	if s.alarm.place >= 0 {
		s.alarm.at = t
		heap.Fix(&h.due, s.alarm.place)
	}
}

// Open returns how many tasks of a site wait, so that a batch can leave out sites
// with many.
func (h *Harvester) Open(origin string) int {
	h.start()
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	if s, ok := h.sites[origin]; ok {
		for _, p := range s.parts {
			n += len(p.tasks)
		}
	}
	return n
}

// enqueue schedules a site that has tasks and is not busy. The lock is held.
func (h *Harvester) enqueue(s *site) {
	if s.queued || h.cycle == nil {
		return
	}
	s.queued, s.alarm.at = true, s.soonest()
	heap.Push(&h.due, &s.alarm)
	h.cycle.wake()
}

// leave evaluates the answer to a request, and schedules the next access to the
// site and its slot. The lock is held.
func (h *Harvester) leave(s *site, a *Answer) {
	now := time.Now()
	h.heed(s, a, now)
	if !a.Asked.IsZero() {
		s.left = now
		s.held.next = clock.Later(s.held.next, now.Add(h.ours(s, a)))
		h.later(s, now.Add(h.gap(s, a)))
	}
	s.host.rest = clock.Later(s.host.rest, h.comeLater(s, a, now))
	if s.held.at != nil {
		h.depart(s.held, a.Status, now)
	}
}

// comeLater returns the end of the backoff that a response asks for; zero if there is none.
func (h *Harvester) comeLater(s *site, a *Answer, now time.Time) time.Time {
	if !troubled(a.Status) {
		if a.Status > 0 {
			s.trouble = 0
		}
		return time.Time{}
	}
	if wait, ok := fetch.RetryAfter(a.Header, now, maxRetryAfter); ok {
		return now.Add(wait)
	}
	if a.Status != http.StatusTooManyRequests && a.Status != http.StatusServiceUnavailable {
		return time.Time{}
	}
	s.trouble++
	return now.Add(min(firstTrouble<<min(s.trouble-1, 10), lastTrouble, positive(h.Hurry, lastTrouble)))
}

func troubled(status int) bool { return status == http.StatusTooManyRequests || status >= 500 }

// forget drops sites without tasks that have no gap left to keep, when there are
// many of them. The lock is held.
func (h *Harvester) forget() {
	if len(h.sites) < 2*h.cycle.sites+10_000 {
		return
	}
	now := time.Now()
	for origin, s := range h.sites {
		if sl := s.host.slot; len(s.parts) > 0 || s.busy || s.held != nil || s.queued || s.conn != nil || s.delay > 0 || !now.After(s.soonest()) ||
			sl != nil && (sl.taken > 0 || len(sl.waiters) > 0 || !now.After(sl.next)) {
			continue
		}
		h.unwelcome(s)
		delete(h.sites, origin)
		if s.host.sites--; s.host.sites > 0 {
			continue
		}
		delete(h.hosts, s.host.name)
		if s.host.slot != nil {
			h.vacate(s.host.slot)
		}
	}
	for ip, a := range h.addresses {
		if a.slots == 0 && a.taken == 0 && len(a.queue) == 0 && a.alarm.place < 0 && now.After(a.next) && now.Sub(a.since) > cleanAfter<<1 {
			delete(h.addresses, ip)
		}
	}
}
