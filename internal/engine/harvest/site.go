package harvest

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/internal/engine/frontier"
)

// A site is one origin with its tasks and its schedule. The timetable's lock guards it.
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
	paused time.Time // when Pause paused it last
	busy   bool      // a goroutine of the cycle works on it
	held   *slot     // the slot of its request under way
	access int       // pages of the access under way, or else of the last one; an access is what one gap follows
	own    *slot     // used with a negative Wait
	order  uint64    // the lowest goes first, of the ready sites
	queued bool      // it waits for its time, at a gate, or in ready
	alarm  alarm     // for its time
	from   *gate     // the gate that the site has just passed
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

// A siteError is why nothing is ever fetched from a site.
type siteError struct{ why string }

func (e *siteError) Error() string { return e.why + ": no request sent" }

// plainName returns a host name in lower case and without dots at its end, and an address of IPv6 without brackets.
func plainName(name string) string {
	name = strings.ToLower(strings.Trim(name, "[]"))
	if bare := strings.TrimRight(name, "."); bare != "" {
		return bare
	}
	return name
}

// soonest returns the earliest next access by the limits of the site and its host, without regard to slots.
func (s *site) soonest() time.Time { return clock.Later(s.next, s.host.rest) }
