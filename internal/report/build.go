package report

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/parleyweb/parley/internal/accesslog"
)

// Options of Build. The zero Options use everything as logged.
type Options struct {
	// Top is how many pages are listed; 0 means 20.
	Top int

	// Since and Until bound the requests that count, Since inclusive. Zero means no bound.
	Since, Until time.Time

	// Zone is the zone of hours and days. Nil uses each request's own, as logged.
	Zone *time.Location

	// Ranges are the addresses that a crawler's operator publishes, by the crawler's name in any case.
	// Requests under such a name from elsewhere are listed separately, as False.
	Ranges map[string][]netip.Prefix

	// Resolver, if not nil, looks up the addresses of crawlers whose operators support that. Nil means no
	// lookups.
	Resolver Resolver

	// MaxURLs is how many different URLs are remembered exactly; 0 means 1,048,576.
	MaxURLs int
}

// maxDays bounds the distinct days.
const (
	maxDays = 40_000
	daySecs = 24 * 60 * 60
)

// visits counts a crawler's requests, separately for doors and for pages.
type visits struct {
	same        Traffic
	notModified int64
	goneAgain   Traffic
}

// A caller is the client, or clients, of one name.
type caller struct {
	agent    *accesslog.Agent
	claim    string
	number   int
	crawler  bool // its kind is one of crawlers
	ranges   []netip.Prefix
	impostor *caller // of the same name, from other addresses
	traffic  Traffic
	status   [statuses]int64
	hours    [24]int64
	days     map[int64]struct{}
	lastDay  int64
	reading  Reading
	pages    visits
	doors    visits
	addrs    *addresses // if they are to be looked up
}

const statuses = 600

type builder struct {
	Options
	agents    *accesslog.Agents
	byAgent   []*caller // by the agent's ID
	callers   []*caller // by number
	pages     *pages
	testimony *unchangedProofs
	days      map[int64]*Span
	day       *Span // the current one
	dayNumber int64
	report    Report
	status    [statuses]int64
	from, to  int64
	fromZone  int
	toZone    int
}

// Build reads the files to their end and reports. It returns errors only of ctx, of options, and of a log
// without any request.
func Build(ctx context.Context, files *accesslog.Files, o Options) (*Report, error) {
	if o.Top < 0 || o.MaxURLs < 0 {
		return nil, errors.New("report: Options.Top and Options.MaxURLs must not be negative")
	}
	if o.Top == 0 {
		o.Top = 20
	}
	if o.MaxURLs == 0 {
		o.MaxURLs = defaultURLs
	}
	b := &builder{Options: o, agents: accesslog.NewAgents(), testimony: newTestimony(), days: map[int64]*Span{}}
	b.pages = newPages(o.MaxURLs, b.testimony.renumber)
	if err := b.checkRanges(); err != nil {
		return nil, err
	}
	for n := 0; ; n++ {
		if n&0xfff == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		e := files.Next()
		if e == nil {
			break
		}
		b.take(e)
	}
	b.tellLog(files)
	if b.report.Total.Requests == 0 {
		return nil, b.nothing()
	}
	if o.Resolver != nil {
		if err := b.verify(ctx); err != nil {
			return nil, err
		}
	}
	return b.finish(), nil
}

// nothing returns the error of a log without a request.
func (b *builder) nothing() error {
	l := b.report.Log
	switch {
	case l.Outside > 0:
		return fmt.Errorf("read logs: all %d requests are outside the requested period", l.Outside)
	case l.Broken == 0:
		for _, f := range l.Files {
			if f.Error != "" {
				return fmt.Errorf("read logs: %s: %s", f.Name, f.Error)
			}
		}
		return errors.New("read logs: the logs are empty")
	}
	e := l.Examples[0]
	return fmt.Errorf("read logs: none of %d lines is in a supported format (combined, common or JSON);"+
		" line %d of %s has %s: %s", l.Broken, e.Line, e.File, e.Why, e.Text)
}

// take counts one request.
func (b *builder) take(e *accesslog.Entry) {
	if !b.Since.IsZero() && e.Unix < b.Since.Unix() || !b.Until.IsZero() && e.Unix >= b.Until.Unix() {
		b.report.Log.Outside++
		return
	}
	r := &b.report
	sent := max(e.Bytes, 0)
	if e.Bytes < 0 {
		r.Log.NoSize++
	}
	if e.NoAgent {
		r.Log.NoAgent++
	}
	offset := e.Offset
	if b.Zone != nil {
		_, offset = time.Unix(e.Unix, 0).In(b.Zone).Zone()
	}
	if r.Total.Requests == 0 || e.Unix < b.from {
		b.from, b.fromZone = e.Unix, offset
	}
	if r.Total.Requests == 0 || e.Unix > b.to {
		b.to, b.toZone = e.Unix, offset
	}
	r.Total.Requests++
	r.Total.Bytes += sent
	b.status[e.Status]++

	local := e.Unix + int64(offset)
	day := floor(local, daySecs)
	hour := (local - day*daySecs) / 3600
	who := b.caller(e)
	who.traffic.Requests++
	who.traffic.Bytes += sent
	who.status[e.Status]++
	who.hours[hour]++
	if day != who.lastDay || who.days == nil {
		who.lastDay = day
		if who.days == nil {
			who.days = map[int64]struct{}{}
		}
		if len(who.days) < maxDays {
			who.days[day] = struct{}{}
		}
	}
	if who.addrs != nil {
		who.addrs.add(e.Addr)
	}
	b.span(&r.Hours[hour], who, sent)
	if b.day == nil || day != b.dayNumber {
		b.turn(day)
	}
	if b.day != nil {
		b.span(b.day, who, sent)
	} else {
		b.pages.limits.Days++
	}
	b.visit(e, who, sent)
}

func (b *builder) span(s *Span, who *caller, sent int64) {
	s.Requests++
	s.Bytes += sent
	if who.crawler {
		s.Crawlers.Requests++
		s.Crawlers.Bytes += sent
	}
}

// turn makes another day the current one, or none if there are too many.
func (b *builder) turn(day int64) {
	b.dayNumber = day
	if b.day = b.days[day]; b.day == nil && len(b.days) < maxDays {
		b.day = &Span{}
		b.days[day] = b.day
	}
}

// floor returns n/d, rounded down.
func floor(n, d int64) int64 {
	q := n / d
	if n%d < 0 {
		q--
	}
	return q
}

// caller returns the caller of a request.
func (b *builder) caller(e *accesslog.Entry) *caller {
	agent := b.agents.Identify(e.Agent)
	for agent.ID >= len(b.byAgent) {
		b.byAgent = append(b.byAgent, nil)
	}
	who := b.byAgent[agent.ID]
	if who == nil {
		who = b.newCaller(agent, Claimed)
		if who.ranges = b.rangesOf(agent.Name); who.ranges != nil {
			who.claim = Verified
			who.impostor = b.newCaller(agent, False)
		}
		b.byAgent[agent.ID] = who
	}
	if who.ranges != nil && !within(who.ranges, e.Addr) {
		return who.impostor
	}
	return who
}

func (b *builder) newCaller(agent *accesslog.Agent, claim string) *caller {
	c := &caller{agent: agent, claim: claim, number: len(b.callers), crawler: agent.Kind.Crawler()}
	if b.Resolver != nil && len(agent.Hosts) > 0 && claim == Claimed {
		c.addrs = &addresses{}
	}
	b.callers = append(b.callers, c)
	return c
}

// visit records a request for its page.
func (b *builder) visit(e *accesslog.Entry, who *caller, sent int64) {
	if len(e.Method) == 0 || len(e.Target) == 0 {
		return
	}
	id := b.pages.of(e)
	if id < 0 || string(e.Method) != "GET" {
		return
	}
	if !who.crawler {
		// Other clients count only as witnesses.
		switch e.Status {
		case 200:
			b.testimony.got(b.testimony.key(e.Addr, e.Agent, id), e.Unix)
		case 304:
			if since, ok := b.testimony.holds(b.testimony.key(e.Addr, e.Agent, id)); ok {
				b.unchanged(id, since, e.Unix)
			}
		}
		return
	}
	switch e.Status {
	case 200:
		b.read(id, who, e, sent)
	case 304:
		who.reading.NotModified++
		who.visits(b.pages.list[id].door).notModified++
		b.pages.list[id].notModified++
		if p := b.pages.pair(id, who.number); p.hasRead {
			p.current = max(p.current, e.Unix)
			b.unchanged(id, p.read, e.Unix)
		}
	case 301, 308, 404, 410:
		if p := b.pages.pair(id, who.number); p.gone {
			again := Traffic{1, sent}
			who.reading.GoneAgain.add(again)
			who.visits(b.pages.list[id].door).goneAgain.add(again)
		} else {
			p.gone = true
		}
	}
}

func (c *caller) visits(door bool) *visits {
	if door {
		return &c.doors
	}
	return &c.pages
}

// read records that a crawler fetched a page.
func (b *builder) read(id int32, who *caller, e *accesslog.Entry, sent int64) {
	this := Traffic{1, sent}
	page := &b.pages.list[id]
	page.reads++
	who.reading.Reads.add(this)
	p := b.pages.pair(id, who.number)
	if !p.hasRead {
		who.reading.Pages++
		page.crawlers++
	} else {
		same := e.Bytes == p.size
		if same {
			who.reading.Same.add(this)
			who.visits(page.door).same.add(this)
			page.same.add(this)
		} else {
			who.reading.Different.add(this)
			page.different++
		}
		b.testimony.reread(id, open{p.current, e.Unix, sent, int32(who.number), same})
	}
	*p = pair{read: e.Unix, current: e.Unix, size: e.Bytes, crawler: p.crawler, next: p.next, hasRead: true}
}

// unchanged records that a page did not change between two times.
func (b *builder) unchanged(id int32, since, until int64) {
	b.testimony.unchanged(id, since, until, func(o open) {
		r := &b.callers[o.crawler].reading
		if o.same {
			r.Unchanged.add(Traffic{1, o.size})
		} else {
			r.Contrary++
		}
	})
}
