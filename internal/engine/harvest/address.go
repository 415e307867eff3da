package harvest

import (
	"container/heap"
	"net/http"
	"time"

	"github.com/parleyweb/parley/internal/clock"
)

// The limits of an address, whatever the number of names there.
const (
	DefaultAddressRate  = 2.0 // requests a second
	defaultAddressConns = 4   // connections for fetching pages

	wearyNames = 3         // so many names with a refusal halve the rate of an address
	cleanAfter = time.Hour // after this time without a refusal the rate is doubled again
	maxHalved  = 10        // times
)

// An address limits the requests to one IP address, over all names there: a token bucket of
// size one, whose rate grows with the names, so that a host of many sites is neither flooded
// nor slower than it need be. The harvester's lock guards it.
type address struct {
	gate                          // next is when the bucket has a token, taken the requests under way
	last       time.Time          // when the last token was taken
	slots, big int                // names with a slot there, and those of more than BigSite pages
	halved     int                // times
	since      time.Time          // the last refusal, or doubling
	refused    map[*slot]struct{} // names that have refused since the rate was changed
	guests     map[*site]*welcome // sites with a welcome
	kept       map[*site]struct{} // sites with an idle connection to it
}

func (h *Harvester) connections() int { return positive(h.AddressConns, defaultAddressConns) }

// pause returns the time between two requests to an address. Each of its names is fetched from
// once in our own gap; the Crawl-delay of a name does not slow down the others.
func (h *Harvester) pause(a *address, now time.Time) time.Duration {
	small, big := h.least(0).Seconds(), h.least(BigSite+1).Seconds()
	rate, alone := float64(a.slots-a.big)/small+float64(a.big)/big, 1/small
	if a.big > 0 {
		alone = 1 / big
	}
	most := h.AddressRate
	if most <= 0 {
		most = max(DefaultAddressRate, alone) // a gap of less than half a second is set for one's own machines only
	}
	own := 0.0 // the sum of the rates of welcomes
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

// admit takes a token and a connection of an address for a site. The lock is held.
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

// hasten opens an address earlier, since its rate may have grown. The lock is held.
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

// refuses reports whether a status means that we send too many requests.
func refuses(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// depart gives the connection back, and records a refusal. The lock is held.
func (h *Harvester) depart(sl *slot, status int, now time.Time) {
	a := sl.at
	a.taken--
	if refuses(status) {
		h.weary(sl, now)
	}
	h.arm(&a.gate)
}

// weary records that a name of an address has refused a request. The lock is held.
func (h *Harvester) weary(sl *slot, now time.Time) {
	a := sl.at
	h.pause(a, now) // first forgets old refusals
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
