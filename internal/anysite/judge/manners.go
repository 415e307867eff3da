package judge

import (
	"cmp"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/anysite/record"
)

// manners checks that each crawler keeps the pauses and limits that its options and the sites set, and makes
// no forbidden request. It uses the tap alone, which sees a request a little later than it was sent and the
// end of a response a little before it has arrived: so gaps are never judged too short, and no tolerance is
// needed.
func manners(r *record.Recording, w *world) []Finding {
	c := &collector{oracle: "manners"}
	byName := map[string][]record.Request{}
	for _, q := range r.Requests {
		if p, ok := w.program(q.From, q.Began); ok && crawls(p) {
			byName[q.From] = append(byName[q.From], q)
		}
	}
	for name, list := range byName {
		// The tap may know only an interval in which a long poll was sent: the request is at fault if no
		// moment in that interval would do.
		faulty := map[time.Time]bool{}
		w.walk(name, list, true, func(q record.Request, _ string, _ ...any) { faulty[q.Ended] = true })
		w.walk(name, list, false, func(q record.Request, format string, args ...any) {
			if !between(q) || faulty[q.Ended] {
				c.add(name, q.URL, q.Began, format, args...)
			}
		})
	}
	return c.list
}

// between reports whether only an interval is known for the time at which a request was sent. It matters for
// long polls, because they free the slot when they are sent; for other requests the latest moment counts.
func between(q record.Request) bool {
	return waits(q) && q.Door != "stream" && !q.Sent.IsZero() && q.Sent.Before(q.Began)
}

// walk judges the requests of a crawler in order of their start. A request that was sent at an unknown moment
// of an interval counts as sent at its end or, with soon, as early as the rules allowed.
func (w *world) walk(name string, list []record.Request, soon bool, report func(q record.Request, format string, args ...any)) {
	sent := func(q record.Request) time.Time {
		if q.Sent.IsZero() {
			return q.Began
		}
		return q.Sent
	}
	moment := func(q record.Request) time.Time {
		if soon && between(q) {
			return q.Sent
		}
		return q.Began
	}
	list = slices.SortedStableFunc(slices.Values(list), func(a, b record.Request) int {
		return cmp.Or(moment(a).Compare(moment(b)), sent(a).Compare(sent(b)))
	})
	m := &mannered{report: report, w: w, soon: soon, pages: map[string]map[string]bool{}, names: map[netip.Prefix]map[string]bool{}}
	for _, q := range list { // a crawler may learn at any time how many pages a host has, and which names an address has
		host, _ := hostPort(q.Host, q.URL)
		put(m.pages, host, q.URL)
		put(m.names, address(q), host)
	}
	for u := range w.seen {
		host, _ := hostPort(hostOf(u), u)
		put(m.pages, host, u)
	}
	for _, q := range list {
		if pathOf(q.URL) == "/robots.txt" {
			q.Door = "robots"
		}
		p, _ := w.program(name, q.Began)
		if m.began.IsZero() || !p.Started.Equal(m.program.Started) {
			m.start(p) // it may have been killed, and cannot know what it did not live to write down
		}
		m.request(q)
	}
}

func put[K comparable](m map[K]map[string]bool, k K, v string) {
	if m[k] == nil {
		m[k] = map[string]bool{}
	}
	m[k][v] = true
}

func hostOf(u string) string {
	p, err := url.Parse(u)
	if err != nil {
		return ""
	}
	return p.Host
}

// mannered replays the requests of a crawler since it was started.
type mannered struct {
	report  func(q record.Request, format string, args ...any)
	w       *world
	soon    bool                             // a request with an interval counts as sent as early as the rules allowed
	pages   map[string]map[string]bool       // by host
	names   map[netip.Prefix]map[string]bool // by address
	program record.Program
	began   time.Time

	slots   map[string]access // by host, and by the registrable domain on an address
	origins map[string]access
	robots  map[string]*rules // as this crawler received them; nil: it received none
	asked   map[string]bool   // robots.txt of an origin
	welcome map[string]welcome
	tokens  map[netip.Prefix]bucket
	open    []record.Request // requests that have not ended
}

// An access is the last request to a host or an origin.
type access struct {
	ended time.Time
	took  time.Duration
	url   string

	began time.Time
	might time.Time // the earliest moment at which the access before it allowed this one

	count  int  // requests since the last pause
	prompt bool // it was a page, which came so well and so fast that another may follow without a pause, see --at-once
}

// stamped is how much later than it was sent a request may be stamped. It matters where a gap begins when a request was sent,
// and not with its response: after a long poll, and at the rate of a welcome. 80 ms were seen while the tap took the end of a
// connection for the time of its last request, which it does no more: less may do now.
const stamped = 100 * time.Millisecond

// sent returns the earliest moment at which the request may have been sent.
func (a access) sent() time.Time { return later(a.began.Add(-stamped), a.might) }

// overtook reports whether a long poll that was stamped after the start of another access may have been sent
// before it, so that the gap between the two was kept.
func (a access) overtook(sent time.Time, gap time.Duration) bool {
	return !later(sent.Add(-stamped), a.might).Add(gap).After(a.began)
}

type bucket struct {
	left float64
	at   time.Time
}

// start forgets the state of the previous process. What robots.txt said stays: it is in the collection.
func (m *mannered) start(p record.Program) {
	m.program, m.began = p, p.Started
	m.slots, m.origins, m.tokens, m.open = map[string]access{}, map[string]access{}, map[netip.Prefix]bucket{}, nil
	if m.robots == nil {
		m.robots, m.asked, m.welcome = map[string]*rules{}, map[string]bool{}, map[string]welcome{}
	}
}

func (m *mannered) request(q record.Request) {
	say := func(format string, args ...any) { m.report(q, format, args...) }
	host, port := hostPort(q.Host, q.URL)
	origin, at := originOf(q.URL), address(q)
	wait := least(m.program, len(m.pages[host]))
	waiting := waits(q)
	free, latest := m.soon && between(q), q.Began
	if free {
		q.Began = q.Sent
	}

	if badPort(port) {
		say("requested port %s, which browsers block", port)
	}
	if !m.mayAsk(host, port) {
		say("requested port %s, but the crawl is of another port of that host", port)
	}
	m.obeys(q, origin, say)

	// One slot for a host over all its ports, and for a registrable domain on one address.
	keys := []string{host, domain(host) + " " + at.String()}
	gap := wait
	news := waiting && q.Door != "stream" // a stream occupies its slot until it is answered
	var might time.Time
	count := 1
	if wait > 0 {
		last := m.slots[keys[0]]
		if other := m.slots[keys[1]]; other.ended.After(last.ended) {
			last = other
		}
		least := gap
		pace, welcomed := m.welcome[originOf(last.url)].pace(m.program, at, q.Began) // the pause belongs to the previous host
		pace *= time.Duration(max(last.count, 1))
		if welcomed { // the welcome sets how often requests may begin, and whatever slows the crawler voids it
			gap, least = min(gap, pace), min(gap, max(0, last.sent().Add(pace).Sub(last.ended)))
		}
		if m.program.Kind != "follow" && !welcomed {
			least = max(least, min(10*last.took, 5*time.Minute))
		}
		if free {
			q.Began = earlier(latest, later(q.Began, last.ended.Add(least)))
		}
		might = last.ended.Add(least)
		if d := q.Began.Sub(last.ended); last.ended.IsZero() || d < least && news && last.overtook(q.Began, gap) {
			// The first access, or a long poll that was sent before it.
		} else if d < 0 {
			say("began %s before %s was answered: a host gets one request at a time", -d, last.url)
		} else if d < least && last.prompt && originOf(last.url) == origin && last.count < m.atOnce(origin, at, q.Began) {
			count, might = last.count+1, last.ended
		} else if d < least {
			say("came %s after %s: the pause must be %s", d, last.url, least)
		}
		m.bucket(q, at, gap, count > 1, say)
	}
	if said := m.robots[origin]; said != nil && said.delay > 0 {
		if last, ok := m.origins[origin]; ok {
			if free {
				q.Began = earlier(latest, later(q.Began, last.ended.Add(said.delay)))
			}
			if d := q.Began.Sub(last.ended); d < said.delay {
				say("came %s after %s: robots.txt requires %s", d, last.url, said.delay)
			}
		}
	}
	done := access{ended: later(q.Ended, q.Began), url: q.URL, began: q.Began, might: might, count: count}
	if done.took = done.ended.Sub(q.Began); waiting {
		done.ended, done.took = q.Began, 0 // a long poll: other requests go on
		if !q.Sent.IsZero() && news {
			done.ended = q.Sent.Add(-stamped)
		}
	}
	done.prompt = q.Door == "" && !q.Truncated && q.Status > 0 && q.Status < 500 && q.Status != 429 && 10*done.took <= least(m.program, 0)
	for _, k := range keys {
		if !done.ended.Before(m.slots[k].ended) {
			m.slots[k] = done
		}
	}
	if !done.ended.Before(m.origins[origin].ended) {
		m.origins[origin] = done
	}
	m.learns(q, origin, at)
}

// atOnce returns how many requests an origin may get without a pause.
func (m *mannered) atOnce(origin string, at netip.Prefix, now time.Time) int {
	most := int(number(m.program, "at-once", 1))
	if loopback(origin) {
		return most
	}
	if pace, welcomed := m.welcome[origin].pace(m.program, at, now); welcomed {
		return min(most, int(time.Second/max(pace, 1)))
	}
	return 1
}

// bucket checks that an address gets no more requests than its names together would, no more than
// --per-address allows beyond a burst, and no more connections than that. Requests to a site with a welcome
// have their own rate, and those without a pause go on with the request before them.
func (m *mannered) bucket(q record.Request, at netip.Prefix, gap time.Duration, goesOn bool, say func(string, ...any)) {
	rate, most := perAddress(m.program)
	if gap > 0 {
		if rate == 0 {
			rate = max(2, 1/gap.Seconds()) // gaps below half a second are for one's own machines
		}
		rate = min(float64(len(m.names[at]))/gap.Seconds(), rate)
	}
	if _, welcomed := m.welcome[originOf(q.URL)].pace(m.program, at, q.Began); !welcomed && !goesOn {
		b, ok := m.tokens[at]
		if !ok {
			b.left = float64(most)
		} else {
			b.left = min(b.left+rate*q.Began.Sub(b.at).Seconds(), float64(most))
		}
		if b.left, b.at = b.left-1, q.Began; b.left < -1e-6 {
			say("exceeds the request rate of %s: %.3g a second for all its hosts together", at.Addr(), rate)
			b.left = 0
		}
		m.tokens[at] = b
	}
	if waits(q) {
		return
	}
	m.open = slices.DeleteFunc(m.open, func(o record.Request) bool { return !o.Ended.After(q.Began) })
	conns := map[int]bool{q.Conn: true}
	for _, o := range m.open {
		if address(o) == at {
			conns[o.Conn] = true
		}
	}
	if len(conns) > most {
		say("runs beside %d others at %s, over more than %d connections", len(conns)-1, at.Addr(), most)
	}
	m.open = append(m.open, q)
}

// perAddress reads --per-address RATE/s,CONNECTIONS; a rate of 0 means the default.
func perAddress(p record.Program) (rate float64, connections int) {
	r, c, _ := strings.Cut(option(p, "per-address", ""), ",")
	rate, err := strconv.ParseFloat(strings.TrimSuffix(r, "/s"), 64)
	if err != nil {
		rate = 0
	}
	if connections, err = strconv.Atoi(c); err != nil || connections <= 0 {
		connections = 4
	}
	return rate, connections
}

// obeys checks that a page is fetched only after robots.txt of its origin, and only if that allows it.
func (m *mannered) obeys(q record.Request, origin string, say func(string, ...any)) {
	if q.Door != "" {
		return
	}
	if !m.asked[origin] {
		say("is a page, but robots.txt of its site was never fetched")
		m.asked[origin] = true
		return
	}
	if said := m.robots[origin]; said != nil && !said.allows(pathOf(q.URL)) {
		say("is forbidden by the robots.txt that the crawler received")
	}
}

// learns records what a response says about how to crawl.
func (m *mannered) learns(q record.Request, origin string, at netip.Prefix) {
	door := q.Door
	if door == "" && strings.HasSuffix(pathOf(q.URL), "/.well-known/parley") {
		door = "well-known" // of a site below a path
	}
	switch door {
	case "robots":
		m.asked[origin] = true
		body, known := m.w.r.Bodies[q.Sum]
		switch {
		case q.Truncated || q.Status == 0 || q.Status == 304 || q.Status >= 500: // the rules known before stay in force
		case q.Status == 200 && known:
			r := readRobots(body, m.agent(q))
			m.robots[origin] = &r
		default:
			m.robots[origin] = nil
		}
	case "well-known":
		if q.Status == 200 && !q.Truncated {
			m.welcome[origin] = readWelcome(m.welcome[origin], m.w.r.Bodies[q.Sum], q.URL, at, q.Ended)
		}
	}
	if q.Status == 429 || q.Status == 503 {
		delete(m.welcome, origin)
	}
}

func (m *mannered) agent(q record.Request) string {
	if name, _, ok := strings.Cut(q.Header["user-agent"], "/"); ok {
		return name
	}
	return agentOf(m.program)
}

// mayAsk reports whether a crawl that began at certain ports of a host may fetch from another port.
func (m *mannered) mayAsk(host, port string) bool {
	explicit, there := false, false
	for _, s := range m.program.Sites {
		h, p := hostPort(hostOf(s), s)
		if h == host && p != "80" && p != "443" {
			explicit = true
		}
		if h == host && p == port {
			there = true
		}
	}
	return there || !explicit
}

// waits reports whether a request is a stream or a long poll, so that other requests may go on meanwhile.
func waits(q record.Request) bool {
	if q.Door == "stream" {
		return true
	}
	u, err := url.Parse(q.URL)
	return err == nil && u.Query().Has("wait")
}

// address returns the prefix that identifies an address: a /64 network for IPv6, the address for IPv4.
func address(q record.Request) netip.Prefix {
	ap, err := netip.ParseAddrPort(q.Address)
	a := ap.Addr()
	if err != nil {
		if a, err = netip.ParseAddr(q.Address); err != nil {
			return netip.Prefix{}
		}
	}
	if a = a.Unmap(); a.Is6() {
		p, _ := a.Prefix(64)
		return p
	}
	return netip.PrefixFrom(a, 32)
}

// domain returns the registrable domain of a host, as far as the names of a test go: the last two labels. An
// IP address is its own domain.
func domain(host string) string {
	if _, err := netip.ParseAddr(host); err == nil {
		return host
	}
	labels := strings.Split(host, ".")
	return strings.Join(labels[max(len(labels)-2, 0):], ".")
}

// badPort reports whether browsers block a port, by the Fetch standard (section 2.9, "port blocking").
func badPort(port string) bool { return slices.Contains(strings.Fields(badPorts), port) }

const badPorts = `0 1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113
	115 117 119 123 135 137 139 143 161 179 389 427 465 512 513 514 515 526 530 531 532 540 548 554 556 563 587 601 636
	989 990 993 995 1719 1720 1723 2049 3659 4045 4190 5060 5061 6000 6566 6665 6666 6667 6668 6669 6679 6697 10080`
