package harvest

import (
	"container/heap"
	"net/http"
	"time"

	"github.com/parleyweb/parley/internal/clock"
)

// What an address bears in all, whatever the number of names there.
const (
	DefaultAddressRate  = 2.0 // requests a second
	defaultAddressConns = 4   // connections by which pages are asked for

	wearyNames = 3         // of an address have refused to be asked, and its rate is halved
	cleanAfter = time.Hour // without a refusal, the rate is doubled again
	maxHalved  = 10        // times
)

// An address is what names share: a token bucket that holds one request, so that neither a
// host of many sites is flooded nor one of many that can bear it kept waiting. The
// harvester's lock guards it.
type address struct {
	gate                          // next is when the bucket has a token, taken the requests under way
	last       time.Time          // when the last token was taken
	slots, big int                // names that are asked there, and those of more than BigSite pages
	halved     int                // times
	since      time.Time          // the last refusal, or doubling
	refused    map[*slot]struct{} // names that have, since the rate was changed
	guests     map[*site]*welcome // who have said how they wish to be asked
	kept       map[*site]struct{} // that have a connection to it which nobody uses
}

func (h *Harvester) connections() int { return positive(h.AddressConns, defaultAddressConns) }

// pause is the time between two requests to an address: each of its names is asked once in
// its gap, of our own making; what a name wishes beyond that is nothing to the others.
func (h *Harvester) pause(a *address, now time.Time) time.Duration {
	small, big := h.least(0).Seconds(), h.least(BigSite+1).Seconds()
	rate, alone := float64(a.slots-a.big)/small+float64(a.big)/big, 1/small
	if a.big > 0 {
		alone = 1 / big
	}
	most := h.AddressRate
	if most <= 0 {
		most = max(DefaultAddressRate, alone) // a gap of less than half a second is for machines of one's own
	}
	own := 0.0 // of those who have said how they wish to be asked
	for s, w := range a.guests {
		rate -= 1 / h.least(s.pages).Seconds()
		own += w.rate
	}
	for now.Sub(a.since) >= cleanAfter && (a.halved > 0 || len(a.refused) > 0) {
		a.since = a.since.Add(cleanAfter)
		a.halved = max(0, a.halved-1)
		clear(a.refused)
	}
	return time.Duration(float64(time.Second)/(min(max(rate, 0), most)+own)) << a.halved
}

// admit takes a token for a site, and a connection. The lock is held.
func (h *Harvester) admit(s *site, sl *slot, now time.Time) {
	a := sl.at
	if s.pages > BigSite && !sl.big {
		sl.big = true
		a.big++
	}
	if s.conn == nil && a.taken+len(a.kept) >= a.most {
		for other := range a.kept {
			h.hangUp(other)
			break
		}
	}
	a.taken++
	h.charge(a, now)
}

// charge takes a token. The lock is held.
func (h *Harvester) charge(a *address, now time.Time) {
	a.last = clock.Later(a.last, now)
	a.next = a.last.Add(h.pause(a, now))
}

// hasten opens an address earlier that has got more names. The lock is held.
func (h *Harvester) hasten(a *address) {
	if a.last.IsZero() {
		return
	}
	a.next = a.last.Add(h.pause(a, time.Now()))
	if a.alarm.place >= 0 {
		a.alarm.at = a.next
		heap.Fix(&h.due, a.alarm.place)
		h.cycle.wake()
	}
}

// refuses reports whether an answer says that we ask too much.
func refuses(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// depart gives the connection back, and takes note of a refusal. The lock is held.
func (h *Harvester) depart(sl *slot, status int, now time.Time) {
	a := sl.at
	a.taken--
	if refuses(status) {
		h.weary(sl, now)
	}
	h.arm(&a.gate)
}

// weary notes that a name of an address has refused to be asked. The lock is held.
func (h *Harvester) weary(sl *slot, now time.Time) {
	a := sl.at
	h.pause(a, now) // what was long ago is forgotten first
	if a.refused == nil {
		a.refused = map[*slot]struct{}{}
	}
	a.since = now
	if a.refused[sl] = struct{}{}; len(a.refused) >= wearyNames {
		clear(a.refused)
		a.halved = min(a.halved+1, maxHalved)
		a.next = a.last.Add(h.pause(a, now))
		h.log.Info("several names of an address have refused: its request rate is halved", "address", sl.key.net, "pause", h.pause(a, now))
	}
}
