package harvest

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/internal/fetch"
)

// What a site's welcome is worth.
const (
	DefaultMaxRate  = 10.0 // requests a second
	maxWelcomeConns = 2

	welcomeLasts  = 24 * time.Hour
	unwelcomeFor  = time.Hour             // after a refusal no welcome is believed
	firstAnswers  = 5                     // by which it is known how fast a site answers
	leastPatience = 10 * time.Millisecond // answers that are faster are all alike
)

// A welcome is how a site wishes to be asked, in place of our gap and of its share of what its
// address is asked. The harvester's lock guards it.
type welcome struct {
	rate   float64
	conns  int
	at     *address
	net    netip.Addr // that gave it
	until  time.Time
	seen   int // answers
	first  time.Duration
	lately time.Duration
}

func (w *welcome) pause() time.Duration {
	return min(time.Duration(float64(time.Second)/w.rate), maxDelay)
}

// Welcome takes in what a site has just said: how many requests a second it wishes, and by how
// many connections; 0 says nothing. It goes for the address where the site is asked, for a day; and it is
// void as soon as the site refuses to be asked, takes twice as long to answer, or is elsewhere. A Crawl-delay is
// kept to all the same.
func (h *Harvester) Welcome(origin string, rate float64, conns int) {
	h.start()
	most := h.MaxRate
	if most == 0 {
		most = DefaultMaxRate
	}
	if !h.waits() || !(rate > 0) || most < 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s, err := h.site(origin)
	now := time.Now()
	if err != nil || s.host.slot == nil || now.Before(s.shunned) {
		return
	}
	h.unwelcome(s)
	sl := s.host.slot
	w := &welcome{rate: min(max(rate, 1/maxDelay.Seconds()), most), conns: min(max(conns, 0), maxWelcomeConns), at: sl.at, net: sl.key.net, until: now.Add(welcomeLasts)}
	s.welcome = w
	sl.at.guests[s] = w
	h.hasten(sl.at)
	if s.left.IsZero() {
		return
	}
	// What was put off for longer than the site wishes comes earlier, if nothing else keeps it.
	if next := s.left.Add(max(w.pause(), min(s.delay, maxDelay))); next.Before(s.next) {
		s.next = next
		sl.next = next
	}
}

// Unwelcome takes in that a site says no more how it wishes to be asked.
func (h *Harvester) Unwelcome(origin string) {
	h.start()
	h.mu.Lock()
	defer h.mu.Unlock()
	if s, err := h.site(origin); err == nil {
		h.unwelcome(s)
	}
}

// unwelcome forgets a welcome. The lock is held.
func (h *Harvester) unwelcome(s *site) {
	if s.welcome != nil {
		delete(s.welcome.at.guests, s)
		s.welcome = nil
	}
}

// Refused takes in that a site answered something that was asked for through a Transport
// when its slot had been given back already: a WebSocket or a long poll. A refusal (429, 503)
// voids a welcome and counts for the address as any other does, and a Retry-After is kept to.
func (h *Harvester) Refused(origin string, status int, header http.Header) {
	h.start()
	h.mu.Lock()
	defer h.mu.Unlock()
	s, err := h.site(origin)
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
	h.unwelcome(s)
	if sl := h.slotOf(s); sl != nil && sl.at != nil { // with a Wait of zero no address counts
		h.weary(sl, now)
	}
}

// heed sees after an answer whether a welcome still holds. The lock is held.
func (h *Harvester) heed(s *site, a *Answer, now time.Time) {
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
		h.log.Debug("the site's welcome is void", "site", s.origin, "status", a.Status, "latency", w.lately, "at_first", w.first)
		h.unwelcome(s)
	}
}
