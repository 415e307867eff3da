package harvest

import (
	"cmp"
	"math"
	"net/netip"
	"time"

	"github.com/parleyweb/parley/internal/engine/partition"
	"github.com/parleyweb/parley/internal/inet"
)

// manners limit how often requests may be sent, by a Harvester's options, and to which sites none.
type manners struct {
	paused pauses

	wait, waitBig time.Duration // a negative wait means none
	slow          int           // negative: off
	hurry         time.Duration // 0: none
	perConn       int           // pages a connection
	atOnce        int           // pages in one access
	idle          time.Duration // how long a connection is kept between two pages; 0: none is kept
	addressRate   float64       // 0: by wait
	addressConns  int
	maxRate       float64 // negative: invitations are ignored
	territory     territory
}

// A territory is what of a crawl this crawler has.
type territory struct {
	partition partition.Partition
	may       func(netip.Addr) bool // see Options.May
}

// pauses are what Pause has set.
type pauses struct {
	has   func(origin string) bool // whether a site gets no request; nil: none is paused
	again chan struct{}            // closed by the next call of Pause
}

func (o *Options) manners() manners {
	return manners{
		wait: cmp.Or(o.Wait, DefaultWait), waitBig: positive(o.WaitBig, DefaultWaitBig), slow: cmp.Or(o.Slow, defaultSlow), hurry: o.Hurry,
		perConn: min(positive(o.PerConn, DefaultPerConn), 100), atOnce: max(o.AtOnce, 1), idle: max(cmp.Or(o.IdleTimeout, DefaultIdle), 0), addressRate: o.AddressRate,
		addressConns: positive(o.AddressConns, defaultAddressConns), maxRate: cmp.Or(o.MaxRate, DefaultMaxRate), territory: territory{o.Partition, o.May},
	}
}

// Shares returns among how many crawlers the rate of requests to an address can be divided, so that a host which is alone at its address is asked
// as often as by one crawler.
func (o *Options) Shares() int {
	m := o.manners()
	gap := m.least(BigSite + 1).Seconds()
	if gap <= 0 {
		return math.MaxInt32
	}
	return int(min(max(m.most(1/gap)*gap, 1), math.MaxInt32))
}

// most returns how many requests a second an address gets at most, where a host that is alone there gets so many. Only hosts of one's own get more than
// the default.
func (m *manners) most(alone float64) float64 {
	if m.addressRate > 0 {
		return m.addressRate
	}
	return max(DefaultAddressRate, alone)
}

func (m *manners) waits() bool { return m.wait >= 0 }

// least returns the gap by wait and waitBig.
func (m *manners) least(pages int) time.Duration {
	switch {
	case !m.waits():
		return 0
	case pages > BigSite:
		return min(m.wait, m.waitBig)
	}
	return m.wait
}

// gap returns the time to wait after a request to a site.
func (m *manners) gap(s *site, a *Answer) time.Duration {
	return max(m.ours(s, a), min(s.delay, maxDelay))
}

// ours returns the gap that applies to the site's whole host, without the site's own Crawl-delay.
func (m *manners) ours(s *site, a *Answer) time.Duration {
	if s.welcome != nil { // it states how often requests may arrive
		return max(s.welcome.pause(s.access)-(a.Took-a.connect), 0)
	}
	w := m.least(s.pages)
	if m.slow >= 0 && m.waits() {
		w = max(w, min(a.Took*time.Duration(m.slow), maxSlow))
	}
	return w
}

// goesOn reports whether an access to a site may have another page.
func (m *manners) goesOn(s *site, now time.Time) bool {
	most := 1
	switch {
	case !m.waits() || s.delay > 0 || now.Before(s.shunned) || s.host.rest.After(now) || len(s.parts) == 0:
		return false
	case s.welcome != nil:
		most = min(m.atOnce, int(s.welcome.rate)>>s.welcome.at.halved)
	case inet.Own(s.host.name) && inet.Special(s.held.key.net) != "": // a name server may lead localhost anywhere
		most = m.atOnce
	}
	return s.access < most
}

// prompt reports whether a page came so well and so fast that the access may have another one.
func (m *manners) prompt(s *site, a *Answer) bool {
	return a.Page != 0 && a.Status > 0 && a.Fault == "" && !troubled(a.Status) && (m.slow < 0 || a.Took*time.Duration(m.slow) <= m.least(s.pages))
}

// pause returns the time between two requests to an address, those to sites with a welcome apart. Each of its
// names is fetched from once in our own gap; the Crawl-delay of a name does not slow down the others.
func (m *manners) pause(a *address, now time.Time) time.Duration {
	small, big := m.least(0).Seconds(), m.least(BigSite+1).Seconds()
	rate, alone := float64(a.slots-a.big)/small+float64(a.big)/big, 1/small
	if a.big > 0 {
		alone = 1 / big
	}
	most := m.most(alone)
	if m.territory.may == nil {
		most /= float64(max(m.territory.partition.Of, 1)) // each of the other crawlers may have hosts there
	}
	for s := range a.guests {
		rate -= 1 / m.least(s.pages).Seconds()
	}
	rate = max(rate, 1/small) // a host with a welcome may have other ports, and sums are not exact
	for now.Sub(a.since) >= cleanAfter && (a.halved > 0 || len(a.refused) > 0) {
		a.since = a.since.Add(cleanAfter)
		a.halved = max(0, a.halved-1)
		clear(a.refused)
	}
	return time.Duration(float64(time.Second)/min(rate, most)) << a.halved
}
