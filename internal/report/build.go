package report

import (
	"cmp"
	"context"
	"errors"
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

	// Known are URLs of pages that the site wants crawled, such as those of its manifest: no rule is proposed that would
	// forbid one.
	Known []string

	// Resolver, if not nil, looks up the addresses of crawlers whose operators support that. Nil means no
	// lookups.
	Resolver Resolver

	// MaxURLs is how many different URLs are remembered exactly; 0 means 1,048,576.
	MaxURLs int
}

// A builder computes a report from the entries of a log. It is for one goroutine.
type builder struct {
	Options
	report   Report
	status   [statuses]int64
	from, to moment
	days     calendar
	callers  *callers
	pages    *pages
}

// Build reads the files to their end and reports. It returns errors only of ctx, of options, and of a log
// without any request.
func Build(ctx context.Context, files *accesslog.Files, o Options) (*Report, error) {
	if o.Top < 0 || o.MaxURLs < 0 {
		return nil, errors.New("report: Options.Top and Options.MaxURLs must not be negative")
	}
	callers, err := newCallers(o.Ranges, o.Resolver)
	if err != nil {
		return nil, err
	}
	b := &builder{Options: o, days: calendar{days: map[int64]*Span{}}, callers: callers, pages: newPages(cmp.Or(o.MaxURLs, defaultURLs), callers)}
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
	b.report.Log.tell(files)
	if b.report.Total.Requests == 0 {
		return nil, b.report.Log.nothing()
	}
	if err := callers.verify(ctx); err != nil {
		return nil, err
	}
	return b.finish(), nil
}

// take counts one request.
func (b *builder) take(e *accesslog.Entry) {
	if !b.Since.IsZero() && e.Unix < b.Since.Unix() || !b.Until.IsZero() && e.Unix >= b.Until.Unix() {
		b.report.Log.Outside++
		return
	}
	r := &b.report
	this := Traffic{1, max(e.Bytes, 0)}
	if e.Bytes < 0 {
		r.Log.NoSize++
	}
	if e.NoAgent {
		r.Log.NoAgent++
	}
	at := moment{e.Unix, e.Offset}
	if b.Zone != nil {
		_, at.offset = time.Unix(e.Unix, 0).In(b.Zone).Zone()
	}
	if r.Total.Requests == 0 || at.unix < b.from.unix {
		b.from = at
	}
	if r.Total.Requests == 0 || at.unix > b.to.unix {
		b.to = at
	}
	r.Total.add(this)
	b.status[e.Status]++

	day, hour := at.day()
	who := b.callers.of(e)
	who.traffic.add(this)
	who.status[e.Status]++
	who.hours[hour]++
	who.came.add(day)
	if who.addrs != nil {
		who.addrs.add(e.Addr)
	}
	r.Hours[hour].add(this, who.crawler)
	if s := b.days.on(day); s != nil {
		s.add(this, who.crawler)
	} else {
		b.pages.limits.Days++
	}
	b.pages.visit(e, who, this)
}
