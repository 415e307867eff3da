package harvest

import (
	"container/heap"
	"net/http"
	"net/netip"
	"time"

	"github.com/parleyweb/parley/internal/clock"
)

// The limits of an address, whatever the number of names there.
const (
	DefaultAddressRate  = 2.0 // requests a second
	defaultAddressConns = 4   // connections for fetching pages

	halvingNames = 3         // refusals by this many names halve the rate of an address
	cleanAfter   = time.Hour // after this time without a refusal the rate is doubled again
	maxHalved    = 10        // times
)

// An address limits the requests to one IP address, over all names there: a token bucket of
// size one, whose rate grows with the names, so that a host of many sites is neither flooded
// nor slower than it need be. The timetable's lock guards it.
type address struct {
	gate       // next is when the bucket has a token; taken counts the requests under way
	ip         netip.Addr
	mine       bool               // Options.May said so last
	last       time.Time          // when the last token was taken
	slots, big int                // names with a slot there, and those of more than BigSite pages
	halved     int                // times
	since      time.Time          // the last refusal, or doubling
	refused    map[*slot]struct{} // names that have refused since the rate was changed
	guests     map[*site]*welcome // sites with a welcome
	kept       map[*site]struct{} // sites with an idle connection to it
}

// askAgain is the wait before an address that another crawler has is asked for again.
const askAgain = 250 * time.Millisecond

// admits reports whether a site may be fetched from now. A site with a welcome has its own rate, and needs neither a token nor a turn. The lock is held.
func (t *timetable) admits(a *address, s *site, now time.Time) bool {
	switch may := t.manners.territory.may; {
	case a.taken >= a.most || a.guests[s] == nil && a.next.After(now):
		return false
	case a.guests[s] != nil || may == nil:
		return true
	}
	had := a.mine
	if a.mine = t.manners.territory.may(a.ip); !a.mine {
		a.next = now.Add(askAgain)
	} else if !had {
		t.charge(a, now) // another crawler may just have sent a request
	}
	return a.mine && had
}

// admit takes a connection of an address for a site, and a token. The lock is held.
func (t *timetable) admit(s *site, sl *slot, now time.Time) {
	a := sl.at
	if s.pages > BigSite && !sl.big {
		sl.big = true
		a.big++
	}
	if s.conn == nil && a.taken+len(a.kept) >= a.most {
		for other := range a.kept {
			t.hangUp(other)
			break
		}
	}
	a.taken++
	if a.guests[s] == nil {
		t.charge(a, now)
	}
}

// charge takes a token. The lock is held.
func (t *timetable) charge(a *address, now time.Time) {
	a.last = clock.Later(a.last, now)
	a.next = a.last.Add(t.manners.pause(a, now))
}

// hasten opens an address earlier, since its rate may have grown. The lock is held.
func (t *timetable) hasten(a *address) {
	if a.last.IsZero() {
		return
	}
	a.next = a.last.Add(t.manners.pause(a, time.Now()))
	if a.alarm.place >= 0 {
		a.alarm.at = a.next
		heap.Fix(&t.due, a.alarm.place)
		t.cycle.wake()
	}
}

// refuses reports whether a status means that we send too many requests.
func refuses(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// depart gives the connection back, and records a refusal. The lock is held.
func (t *timetable) depart(sl *slot, status int, now time.Time) {
	a := sl.at
	a.taken--
	if refuses(status) {
		t.recordRefusal(sl, now)
	}
	t.arm(&a.gate)
}

// recordRefusal records that a name of an address has refused a request. The lock is held.
func (t *timetable) recordRefusal(sl *slot, now time.Time) {
	a := sl.at
	t.manners.pause(a, now) // first forgets old refusals
	if a.refused == nil {
		a.refused = map[*slot]struct{}{}
	}
	a.since = now
	if a.refused[sl] = struct{}{}; len(a.refused) >= halvingNames {
		clear(a.refused)
		a.halved = min(a.halved+1, maxHalved)
		a.next = a.last.Add(t.manners.pause(a, now))
		t.log.Info("several names of an address have refused: its request rate is halved", "address", sl.key.net, "pause", t.manners.pause(a, now))
	}
}
