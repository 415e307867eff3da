package report

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/parleyweb/parley/internal/accesslog"
)

// tell adds what is known of the files once they are read.
func (l *Log) tell(files *accesslog.Files) {
	l.Files = []File{}
	for _, f := range files.Files() {
		told := File{Name: f.Name, Format: f.Format, Entries: f.Entries, Broken: f.Broken, Twin: f.DuplicateOf}
		if f.Err != nil {
			told.Error = f.Err.Error()
		}
		l.Files = append(l.Files, told)
		l.Lines += f.Lines
		l.Broken += f.Broken
		l.Cut += f.Cut
	}
	l.Examples = files.Examples()
}

// nothing returns the error of a log without a request.
func (l *Log) nothing() error {
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

// finish returns the finished report.
func (b *builder) finish() *Report {
	r := &b.report
	r.Zone = "as logged"
	if b.Zone != nil {
		r.Zone = b.Zone.String()
	}
	r.From, r.To = b.from.in(b.Zone), b.to.in(b.Zone)
	r.Status = byStatus(&b.status)
	r.Groups, r.Kinds = b.callers.groups()
	r.Crawlers = []Crawler{}
	r.Savings = noSavings()
	for _, c := range b.callers.list {
		if !c.crawler || c.traffic.Requests == 0 {
			continue
		}
		one := Crawler{
			Name: c.agent.Name, Kind: c.agent.Kind, Claim: c.claim, Traffic: c.traffic, Reading: c.reading,
			Days: len(c.came.days), Robots: c.asked, Status: byStatus(&c.status), Hours: c.hours, Savings: c.savings(),
		}
		if c.addrs != nil {
			one.ByDNS = &c.addrs.ByDNS
		}
		r.Crawlers = append(r.Crawlers, one)
		r.All.add(c.reading)
		for i, s := range one.Savings {
			r.Savings[i].AtMost.add(s.AtMost)
			r.Savings[i].Today.add(s.Today)
			r.Savings[i].Costs += s.Costs
		}
	}
	slices.SortStableFunc(r.Crawlers, func(x, y Crawler) int {
		return cmp.Or(cmp.Compare(y.Requests, x.Requests), cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.Name, y.Name), cmp.Compare(x.Claim, y.Claim))
	})
	r.Pages = b.pages.top(cmp.Or(b.Top, 20))
	r.Days = b.days.list()
	r.Families = b.pages.family.found(b.pages, b.Known)
	never, url := b.pages.neverNotModified()
	r.First = first(r, never, url)
	r.Limits = b.pages.limits
	r.Method = method(r)
	return r
}

func byStatus(list *[statuses]int64) map[int]int64 {
	m := map[int]int64{}
	for status, n := range list {
		if n > 0 {
			m[status] = n
		}
	}
	return m
}
