package harvest

import (
	"container/heap"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/inet"
)

// A site is one origin with its tasks and its schedule. The harvester's lock guards it.
type site struct {
	origin string // "https://example.org:8443"
	tls    bool
	header string // the Host header
	host   *host
	port   string

	id    frontier.SiteID
	pages int
	delay time.Duration // Crawl-delay
	parts []part        // tasks, in order

	next   time.Time // the earliest next access, by the site's own delay
	left   time.Time // the end of the last access; zero: none
	busy   bool      // a goroutine of the cycle works on it
	held   *slot     // the slot of its request under way
	own    *slot     // used with a negative Wait
	order  uint64    // the lowest goes first, of the ready sites
	queued bool      // it waits for its time, at a gate, or in ready
	alarm  alarm     // for its time
	from   *gate     // that has just let it through
	silent int       // faults without a response, in a row

	welcome *welcome  // nil: none is known
	shunned time.Time // until then welcomes are ignored

	trouble int // 429 and 503 responses without Retry-After, in a row

	// For the holder of the slot only.
	noRange bool          // it has refused a range (416)
	closes  time.Duration // the idle time after which it closed a connection; 0: unknown

	conn   *conn    // kept for the next task
	keptAt *address // of conn
	asking *conn    // in use
}

// A part holds the tasks of a batch for one site.
type part struct {
	batch *open // nil: on demand
	tasks []Task
}

// An open batch is one that has tasks left.
type open struct {
	number      uint64
	began, left int // sites
}

func newSite(origin string) (*site, error) {
	u, err := url.Parse(origin)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.User != nil, u.Path != "", u.RawQuery != "", u.Fragment != "":
		return nil, fmt.Errorf("%.200q is not an origin", origin)
	}
	s := &site{origin: origin, tls: u.Scheme == "https", header: u.Host, port: u.Port(),
		host: &host{name: plainName(u.Hostname())}, own: &slot{gate: gate{most: 1, alarm: alarm{place: -1}}}}
	s.alarm = alarm{place: -1, site: s}
	if s.port == "" {
		s.port = "80"
		if s.tls {
			s.port = "443"
		}
	}
	return s, nil
}

// A portError is a port that is never fetched from.
type portError struct{ port string }

func (e *portError) Error() string {
	return fmt.Sprintf("port %s is for another protocol: no request sent", e.port)
}

// plainName returns a host name in lower case and without dots at its end.
func plainName(name string) string {
	name = strings.ToLower(name)
	if bare := strings.TrimRight(name, "."); bare != "" {
		return bare
	}
	return name
}

// soonest returns the earliest next access by the limits of the site and its host, slots apart.
func (s *site) soonest() time.Time { return clock.Later(s.next, s.host.rest) }

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
