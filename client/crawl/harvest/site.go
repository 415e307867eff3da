package harvest

import (
	"container/heap"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"github.com/parleyweb/parley/client/frontier"
)

// A site is one origin, and when it may be asked. The harvester's lock guards it.
type site struct {
	origin     string // "https://example.org:8443"
	tls        bool
	header     string // of Host
	host, port string

	id    frontier.SiteID
	pages int
	delay time.Duration // Crawl-delay
	parts []part        // tasks, in order

	next    time.Time // the earliest next access
	left    time.Time // the end of the last one; zero: none
	busy    bool      // somebody has the turn
	waiters []chan struct{}
	order   uint64 // the least goes first, of the sites that may be asked
	place   int    // in the heap, -1 if it is not there
	ready   bool   // in the queue of those that may be asked
	silent  int    // faults in a row that were no answer

	at      netip.Addr // where it is asked, if addresses are taken turns with
	parked  bool       // that is busy
	trouble int        // answers in a row that said that the site is in trouble

	// For who has the turn.
	noRange bool          // it does not like to be asked for a part
	closes  time.Duration // after so long it was found to have closed a connection; 0: never

	conn   *conn // kept for the next task
	asking *conn // in use
}

// A part is the tasks that a batch has for a site.
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
		return nil, fmt.Errorf("%.200q is no origin", origin)
	}
	s := &site{origin: origin, tls: u.Scheme == "https", header: u.Host, host: u.Hostname(), port: u.Port(), place: -1}
	if s.port == "" {
		s.port = "80"
		if s.tls {
			s.port = "443"
		}
	}
	return s, nil
}

// site returns the site of an origin, new if it is not known. The lock is held.
func (h *Harvester) site(origin string) (*site, error) {
	if s, ok := h.sites[origin]; ok {
		return s, nil
	}
	s, err := newSite(origin)
	if err == nil {
		h.sites[origin] = s
	}
	return s, err
}

// Quiet keeps everybody from the site of an origin until a time.
func (h *Harvester) Quiet(origin string, until time.Time) {
	h.start()
	h.mu.Lock()
	defer h.mu.Unlock()
	if s, err := h.site(origin); err == nil {
		h.later(s, until)
	}
}

// Pace tells the Crawl-delay of a site as soon as it is known: it holds from the
// last access on, and for Transports too, until Pace or a batch tells another.
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
		h.later(s, s.left.Add(h.gap(s, 0)))
	}
}

// later puts the next access to a site off. The lock is held.
func (h *Harvester) later(s *site, t time.Time) {
	if !t.After(s.next) {
		return
	}
	s.next = t
	if s.place >= 0 {
		heap.Fix(&h.due, s.place)
	}
}

// Open returns how many tasks of a site wait for their turn: who makes
// batches may wish to leave such a site out.
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

// acquire waits until nobody else asks the site, and until it may be asked.
func (h *Harvester) acquire(ctx context.Context, origin string) (*site, error) {
	h.mu.Lock()
	s, err := h.site(origin)
	if err != nil {
		h.mu.Unlock()
		return nil, err
	}
	if s.busy {
		turn := make(chan struct{})
		s.waiters = append(s.waiters, turn)
		h.mu.Unlock()
		select {
		case <-turn:
		case <-ctx.Done():
			h.mu.Lock()
			for i, w := range s.waiters {
				if w == turn {
					s.waiters = append(s.waiters[:i], s.waiters[i+1:]...)
					h.mu.Unlock()
					return nil, ctx.Err()
				}
			}
			h.release(s) // it came too late
			h.mu.Unlock()
			return nil, ctx.Err()
		}
	} else {
		s.busy = true
		h.mu.Unlock()
	}
	for {
		wait, parked, err := h.mayEnter(ctx, s)
		if err == nil && wait <= 0 && parked == nil {
			return s, nil
		}
		if err == nil {
			err = sleep(ctx, wait, parked)
		}
		if err != nil {
			h.mu.Lock()
			h.release(s)
			h.mu.Unlock()
			return nil, err
		}
	}
}

// mayEnter is enter for who waits itself: for a time, or for parked to be closed.
func (h *Harvester) mayEnter(ctx context.Context, s *site) (wait time.Duration, parked chan struct{}, err error) {
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	var ips []netip.Addr
	if h.PerAddress {
		if ips, err = h.locate(ctx, s.host); err != nil {
			return 0, nil, err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if wait := time.Until(s.next); wait > 0 {
		return wait, nil, nil
	}
	free := make(chan struct{})
	switch ok, isParked := h.enter(s, ips, func() { close(free) }); {
	case ok:
		return 0, nil, nil
	case isParked:
		return -1, free, nil
	}
	return max(time.Until(s.next), 1), nil, nil
}

// sleep waits for d, or until c is closed if d is negative.
func sleep(ctx context.Context, d time.Duration, c <-chan struct{}) error {
	var timer <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-timer:
	case <-c:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// release gives the turn of a site on. The lock is held.
func (h *Harvester) release(s *site) {
	if len(s.waiters) > 0 {
		turn := s.waiters[0]
		s.waiters = s.waiters[1:]
		close(turn) // the turn stays taken
		return
	}
	s.busy = false
	if len(s.parts) > 0 && !s.parked && h.cycle != nil {
		h.enqueue(s)
	}
}

// enqueue puts a site that has tasks, and that nobody asks, where the cycle
// finds it. The lock is held.
func (h *Harvester) enqueue(s *site) {
	if s.place < 0 && !s.ready {
		heap.Push(&h.due, s)
	}
	h.cycle.wake()
}

// enter is called by who has the turn of a site, before it is asked at one of
// its addresses. If that is not to be asked yet, then either the site's next
// access is later, or the site is parked and free will be called. The lock is held.
func (h *Harvester) enter(s *site, ips []netip.Addr, free func()) (ok, parked bool) {
	if !h.PerAddress {
		return true, false
	}
	s.at = ips[0]
	a := h.addresses[s.at]
	if a == nil {
		a = new(address)
		h.addresses[s.at] = a
	}
	switch {
	case a.busy:
		a.waiting = append(a.waiting, free)
		return false, true
	case time.Now().Before(a.next):
		h.later(s, a.next)
		return false, false
	}
	a.busy = true
	return true, false
}

// leave notes what asking a site came to, and when it may be asked again.
// The lock is held.
func (h *Harvester) leave(s *site, a *Answer) {
	now := time.Now()
	next := now
	if !a.Asked.IsZero() {
		next, s.left = now.Add(h.gap(s, a.Took)), now
	}
	h.later(s, next)
	if again := h.comeLater(s, a, now); again.After(next) {
		h.later(s, again)
	}
	if !h.PerAddress {
		return
	}
	shared := h.addresses[s.at]
	if shared == nil {
		return
	}
	shared.busy, shared.next = false, later(shared.next, next)
	for _, free := range shared.waiting {
		free()
	}
	shared.waiting = nil
}

// comeLater is when a site in trouble wishes to be asked again.
func (h *Harvester) comeLater(s *site, a *Answer, now time.Time) time.Time {
	if !troubled(a.Status) {
		if a.Status > 0 {
			s.trouble = 0
		}
		return time.Time{}
	}
	if wait, ok := retryAfter(a.Header.Get("Retry-After"), now); ok {
		return now.Add(wait)
	}
	if a.Status != http.StatusTooManyRequests && a.Status != http.StatusServiceUnavailable {
		return time.Time{}
	}
	s.trouble++
	return now.Add(min(firstTrouble<<min(s.trouble-1, 10), lastTrouble, positive(h.Hurry, lastTrouble)))
}

func troubled(status int) bool { return status == http.StatusTooManyRequests || status >= 500 }

// retryAfter reads the header, which is seconds or a date.
func retryAfter(v string, now time.Time) (time.Duration, bool) {
	if n, err := strconv.ParseUint(v, 10, 32); err == nil {
		return min(time.Duration(n)*time.Second, maxRetryAfter), true
	}
	if t, err := http.ParseTime(v); err == nil {
		return min(max(0, t.Sub(now)), maxRetryAfter), true
	}
	return 0, false
}

// An address is what sites may share.
type address struct {
	next    time.Time
	busy    bool
	waiting []func() // of those who found it busy; the lock is held
}

// forget drops what is known of sites that have nothing to do and may be
// asked at once, when there are many of them. The lock is held.
func (h *Harvester) forget() {
	if len(h.sites) < 2*h.cycle.sites+10_000 {
		return
	}
	now := time.Now()
	for origin, s := range h.sites {
		if len(s.parts) == 0 && !s.busy && len(s.waiters) == 0 && s.conn == nil && s.delay == 0 && now.After(s.next) {
			delete(h.sites, origin)
		}
	}
	for ip, a := range h.addresses {
		if !a.busy && len(a.waiting) == 0 && now.After(a.next) {
			delete(h.addresses, ip)
		}
	}
}

// sweepWithin closes the connections that were kept for too long, and returns
// when to look again: within d, if that is not negative. The lock is held.
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

// hangUp closes the connection that is kept to a site. The lock is held.
func (h *Harvester) hangUp(s *site) {
	s.conn.close()
	s.conn = nil
	delete(h.idle, s)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// A readyHeap has the most important of the sites that may be asked on top.
type readyHeap []*site

func (q readyHeap) Len() int           { return len(q) }
func (q readyHeap) Less(i, j int) bool { return q[i].order < q[j].order }
func (q readyHeap) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push and Pop are for container/heap.
func (q *readyHeap) Push(x any) {
	s := x.(*site)
	s.ready = true
	*q = append(*q, s)
}

func (q *readyHeap) Pop() any {
	last := len(*q) - 1
	s := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	s.ready = false
	return s
}

// A siteHeap has the site that may be asked first on top.
type siteHeap []*site

func (q siteHeap) Len() int           { return len(q) }
func (q siteHeap) Less(i, j int) bool { return q[i].next.Before(q[j].next) }
func (q siteHeap) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// Push and Pop are for container/heap.
func (q *siteHeap) Push(x any) {
	s := x.(*site)
	s.place = len(*q)
	*q = append(*q, s)
}

func (q *siteHeap) Pop() any {
	last := len(*q) - 1
	s := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	s.place = -1
	return s
}
