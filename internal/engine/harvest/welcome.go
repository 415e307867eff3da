package harvest

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/internal/fetch"
)

// Limits of a site's welcome.
const (
	DefaultMaxRate  = 10.0 // requests a second
	maxWelcomeConns = 2

	welcomeLasts  = 24 * time.Hour
	unwelcomeFor  = time.Hour             // after a refusal, welcomes are ignored
	firstAnswers  = 5                     // responses that set a site's usual latency
	leastPatience = 10 * time.Millisecond // lower latencies count as equal
)

// A welcome is a site's invitation to a request rate, in place of our gap and of its share of its
// address's rate: the other sites there get no more of that. The timetable's lock guards it.
type welcome struct {
	rate   float64
	conns  int
	at     *address
	net    netip.Addr // for which it was given
	until  time.Time
	seen   int // responses
	first  time.Duration
	lately time.Duration
}

// pause returns the time from the last request of an access to the next access.
func (w *welcome) pause(requests int) time.Duration {
	return min(time.Duration(float64(max(requests, 1))*float64(time.Second)/w.rate)<<w.at.halved, maxDelay)
}

// Welcome sets the rate, in requests a second, and the number of connections that a site invites;
// 0 means not stated. It holds for the site's current address, for a day, and ends as soon as the site
// refuses a request (429, 503), takes twice as long to answer, or has another address. A Crawl-delay
// still holds.
func (h *Harvester) Welcome(origin string, rate float64, conns int) {
	t := h.lock()
	defer t.mu.Unlock()
	most := t.manners.maxRate
	if !t.manners.waits() || !(rate > 0) || most < 0 {
		return
	}
	s, err := t.site(origin)
	now := time.Now()
	if err != nil || s.host.slot == nil || now.Before(s.shunned) {
		return
	}
	t.unwelcome(s)
	sl := s.host.slot
	w := &welcome{rate: min(max(rate, 1/maxDelay.Seconds()), most), conns: min(max(conns, 0), maxWelcomeConns), at: sl.at, net: sl.key.net, until: now.Add(welcomeLasts)}
	s.welcome = w
	sl.at.guests[s] = w
	t.unpark(&sl.at.gate) // it no longer waits for a token
	if s.left.IsZero() {
		return
	}
	// A next access that is later than the site wishes is moved forward, within the other limits.
	if next := s.left.Add(max(w.pause(s.access), min(s.delay, maxDelay))); next.Before(s.next) {
		s.next = next
		sl.next = next
	}
}

// Unwelcome ends a site's welcome, because the site no longer states one.
func (h *Harvester) Unwelcome(origin string) {
	t := h.lock()
	defer t.mu.Unlock()
	if s, err := t.site(origin); err == nil {
		t.unwelcome(s)
	}
}

// unwelcome forgets a welcome. The lock is held.
func (t *timetable) unwelcome(s *site) {
	if s.welcome != nil {
		delete(s.welcome.at.guests, s)
		s.welcome = nil
	}
}

// Refused reports the status of a response that came through a Transport after its slot was
// given back: of a WebSocket or a long poll. A refusal (429, 503) ends the welcome and counts
// for the address like any other, and a Retry-After is obeyed.
func (h *Harvester) Refused(origin string, status int, header http.Header) {
	t := h.lock()
	defer t.mu.Unlock()
	s, err := t.site(origin)
	if err != nil || !troubled(status) {
		return
	}
	now := time.Now()
	if wait, ok := fetch.RetryAfter(header, now, maxRetryAfter); ok {
		s.host.rest = clock.Later(s.host.rest, now.Add(wait))
	}
	if !refuses(status) {
		return
	}
	s.shunned = now.Add(unwelcomeFor)
	t.unwelcome(s)
	if sl := t.slotOf(s); sl != nil && sl.at != nil { // with a negative Wait there is no address
		t.recordRefusal(sl, now)
	}
}

// heed checks after a response whether the welcome still holds. The lock is held.
func (t *timetable) heed(s *site, a *Answer, now time.Time) {
	refused := refuses(a.Status)
	if refused {
		s.shunned = now.Add(unwelcomeFor)
	}
	w := s.welcome
	if w == nil {
		return
	}
	if a.Latency > 0 {
		w.seen++
		latency := max(a.Latency, leastPatience)
		if w.seen == 1 {
			w.first, w.lately = latency, latency
		} else if w.seen <= firstAnswers {
			w.first = min(w.first, latency)
		}
		w.lately += (latency - w.lately) / firstAnswers
	}
	if sl := s.held; refused || !now.Before(w.until) || sl.key.net != w.net || w.lately > 2*w.first {
		t.log.Debug("the site's invitation to a higher request rate has ended", "site", s.origin, "status", a.Status, "latency", w.lately, "at_first", w.first)
		t.unwelcome(s)
	}
}
