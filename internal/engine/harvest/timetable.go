package harvest

import (
	"container/heap"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/inet"
)

// A timetable says which site may be fetched from when, and over which connection that was
// kept. It owns the sites, and what they share: hosts, slots and addresses.
type timetable struct {
	manners manners
	network *network
	log     *slog.Logger

	mu        sync.Mutex // guards the rest, and all sites
	sites     map[string]*site
	hosts     map[string]*host
	slots     map[slotKey]*slot
	addresses map[netip.Addr]*address
	due       alarmHeap
	cycle     *cycle             // nil while Run does not run
	idle      map[*site]struct{} // sites with an idle connection
	swept     time.Time          // when they were last swept
}

// site returns the site of an origin, new if it is not known. The lock is held.
func (t *timetable) site(origin string) (*site, error) {
	if s, ok := t.sites[origin]; ok {
		return s, nil
	}
	s, err := newSite(origin)
	if err != nil {
		return nil, err
	}
	if inet.ForeignPort(s.port) {
		return nil, &siteError{"port " + s.port + " is for another protocol"}
	}
	if n := t.manners.territory.partition.Foreign(origin); n > 0 {
		return nil, &siteError{fmt.Sprintf("%s is in partition %d, not in %s", origin, n, t.manners.territory.partition)}
	}
	if n := t.hosts[s.host.name]; n != nil {
		s.host = n
	}
	t.hosts[s.host.name] = s.host
	s.host.sites++
	t.sites[origin] = s
	if r := &t.network.right; r.ends != nil {
		s.left, s.next = r.began, r.began.Add(t.manners.least(0))
	}
	return s, nil
}

// Pace sets the Crawl-delay of a site. It holds from the last access on, for tasks and
// Transports, until another call of Pace, or a batch with a longer delay.
func (h *Harvester) Pace(origin string, delay time.Duration) {
	t := h.lock()
	defer t.mu.Unlock()
	s, err := t.site(origin)
	if err != nil {
		return
	}
	s.delay = delay
	if !s.left.IsZero() {
		t.later(s, s.left.Add(t.manners.gap(s, &Answer{})))
	}
}

// Left says that an earlier process, which may have been killed, may have fetched from a site until now. If it may have fetched several
// pages at once, see Options.AtOnce, the host gets no request before the gap has passed. (For a site with a welcome that gap is a second
// at most, and a new process has to read the welcome first.)
func (h *Harvester) Left(origin string, pages int) {
	t := h.lock()
	defer t.mu.Unlock()
	if s, err := newSite(origin); err != nil || t.manners.atOnce == 1 || !inet.Own(s.host.name) {
		return
	}
	if s, err := t.site(origin); err == nil {
		s.host.rest = clock.Later(s.host.rest, time.Now().Add(t.manners.least(pages)))
	}
}

// later postpones the next access to a site to a time, if that is later. The lock is held.
func (t *timetable) later(s *site, to time.Time) {
	if !to.After(s.next) {
		return
	}
	s.next = to
	if s.alarm.place >= 0 {
		s.alarm.at = to
		heap.Fix(&t.due, s.alarm.place)
	}
}

// Open returns how many tasks of a site wait, so that a batch can leave out sites
// with many.
func (h *Harvester) Open(origin string) int {
	t := h.lock()
	defer t.mu.Unlock()
	n := 0
	if s, ok := t.sites[origin]; ok {
		for _, p := range s.parts {
			n += len(p.tasks)
		}
	}
	return n
}

// Tasks returns how many tasks of some sites wait or are being fetched.
func (h *Harvester) Tasks(of func(origin string) bool) (n int) {
	t := h.lock()
	defer t.mu.Unlock()
	for origin, s := range t.sites {
		if (s.busy || len(s.parts) > 0) && of(origin) {
			for _, p := range s.parts {
				n += len(p.tasks)
			}
			if s.busy {
				n++
			}
		}
	}
	return n
}

// enqueue schedules a site that has tasks and is not busy. The lock is held.
func (t *timetable) enqueue(s *site) {
	if s.queued || t.cycle == nil {
		return
	}
	s.queued, s.alarm.at = true, s.soonest()
	heap.Push(&t.due, &s.alarm)
	t.cycle.wake()
}

// leave evaluates the answer to a request, and schedules the next access to the
// site and its slot. The lock is held.
func (t *timetable) leave(s *site, a *Answer) {
	now := time.Now()
	t.heed(s, a, now)
	if !a.Asked.IsZero() {
		s.left = now
		s.held.next = clock.Later(s.held.next, now.Add(t.manners.ours(s, a)))
		t.later(s, now.Add(t.manners.gap(s, a)))
	}
	s.host.rest = clock.Later(s.host.rest, t.comeLater(s, a, now))
	if s.held.at != nil {
		t.depart(s.held, a.Status, now)
	}
}

// finish gives back the slot of a site after a request that was no task, and evaluates the answer.
func (t *timetable) finish(s *site, a Answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leave(s, &a)
	t.release(s)
}

// comeLater returns the end of the backoff that a response asks for; zero if there is none.
func (t *timetable) comeLater(s *site, a *Answer, now time.Time) time.Time {
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
	return now.Add(min(firstTrouble<<min(s.trouble-1, 10), lastTrouble, positive(t.manners.hurry, lastTrouble)))
}

func troubled(status int) bool { return status == http.StatusTooManyRequests || status >= 500 }

// forget drops sites without tasks that have no gap left to keep, when there are
// many of them. The lock is held.
func (t *timetable) forget() {
	if len(t.sites) < 2*t.cycle.waiting.sites+10_000 {
		return
	}
	now := time.Now()
	for origin, s := range t.sites {
		if sl := s.host.slot; len(s.parts) > 0 || s.busy || s.held != nil || s.queued || s.conn != nil || s.delay > 0 || !now.After(s.soonest()) ||
			sl != nil && (sl.taken > 0 || len(sl.waiters) > 0 || !now.After(sl.next)) {
			continue
		}
		t.unwelcome(s)
		delete(t.sites, origin)
		if s.host.sites--; s.host.sites > 0 {
			continue
		}
		delete(t.hosts, s.host.name)
		if s.host.slot != nil {
			t.vacate(s.host.slot)
		}
	}
	for ip, a := range t.addresses {
		if a.slots == 0 && a.taken == 0 && len(a.queue) == 0 && a.alarm.place < 0 && now.After(a.next) && now.Sub(a.since) > cleanAfter<<1 {
			delete(t.addresses, ip)
		}
	}
}
