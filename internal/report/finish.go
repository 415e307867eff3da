package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/parleyweb/parley/internal/accesslog"
)

// tellLog reports on the files that were read.
func (b *builder) tellLog(files *accesslog.Files) {
	l := &b.report.Log
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

// finish returns the finished report.
func (b *builder) finish() *Report {
	r := &b.report
	r.Zone = "as logged"
	if b.Zone != nil {
		r.Zone = b.Zone.String()
		r.From, r.To = time.Unix(b.from, 0).In(b.Zone), time.Unix(b.to, 0).In(b.Zone)
	} else {
		r.From = time.Unix(b.from, 0).In(time.FixedZone("", b.fromZone))
		r.To = time.Unix(b.to, 0).In(time.FixedZone("", b.toZone))
	}
	r.Status = byStatus(&b.status)
	b.groups()
	r.Crawlers = []Crawler{}
	r.Savings = noSavings()
	for _, c := range b.callers {
		if !c.crawler || c.traffic.Requests == 0 {
			continue
		}
		one := Crawler{
			Name: c.agent.Name, Kind: c.agent.Kind, Claim: c.claim, Traffic: c.traffic, Reading: c.reading,
			Days: len(c.days), Status: byStatus(&c.status), Hours: c.hours, Savings: c.savings(),
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
	r.Pages = b.top()
	r.Days = b.listDays()
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

// groups sums up the traffic by group, and by kind of crawler.
func (b *builder) groups() {
	group, kind := map[string]Traffic{}, map[string]Traffic{}
	for _, c := range b.callers {
		name := Crawlers
		switch c.agent.Kind {
		case accesslog.Browser:
			name = browsers
		case accesslog.Program:
			name = programs
		case accesslog.Unnamed:
			name = unnamed
		default:
			k := string(c.agent.Kind)
			if c.claim == False {
				k = False
			}
			sum := kind[k]
			sum.add(c.traffic)
			kind[k] = sum
		}
		sum := group[name]
		sum.add(c.traffic)
		group[name] = sum
	}
	b.report.Groups, b.report.Kinds = []Group{}, []Group{}
	for _, name := range []string{browsers, Crawlers, programs, unnamed} {
		b.report.Groups = append(b.report.Groups, Group{name, group[name]})
	}
	for name, sum := range kind {
		if sum.Requests > 0 {
			b.report.Kinds = append(b.report.Kinds, Group{name, sum})
		}
	}
	slices.SortFunc(b.report.Kinds, func(x, y Group) int {
		return cmp.Or(cmp.Compare(y.Requests, x.Requests), cmp.Compare(x.Name, y.Name))
	})
}

// top lists the pages with the most re-reads of the same size.
func (b *builder) top() []Page {
	list := []int32{}
	less := func(x, y int32) int {
		p, q := &b.pages.list[x], &b.pages.list[y]
		return cmp.Or(cmp.Compare(q.same.Requests, p.same.Requests), cmp.Compare(q.same.Bytes, p.same.Bytes),
			cmp.Compare(b.pages.urls[x], b.pages.urls[y]))
	}
	for id := range b.pages.list {
		if b.pages.list[id].same.Requests > 0 {
			list = append(list, int32(id))
		}
	}
	slices.SortFunc(list, less)
	pages := []Page{}
	for _, id := range list[:min(len(list), b.Top)] {
		p := &b.pages.list[id]
		pages = append(pages, Page{
			URL: b.pages.urls[id], Reads: int64(p.reads), Same: p.same, Different: int64(p.different),
			NotModified: int64(p.notModified), Crawlers: int(p.crawlers), Requests: int64(p.hits),
		})
	}
	return pages
}

// listDays lists the days in order, with the empty days between them unless a gap is too long.
func (b *builder) listDays() []Day {
	numbers := make([]int64, 0, len(b.days))
	for n := range b.days {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	days := []Day{}
	for i, n := range numbers {
		if i > 0 && n-numbers[i-1] < 400 {
			for gap := numbers[i-1] + 1; gap < n; gap++ {
				days = append(days, Day{Date: dateOf(gap)})
			}
		}
		days = append(days, Day{dateOf(n), *b.days[n]})
	}
	return days
}

func dateOf(day int64) string { return time.Unix(day*daySecs, 0).UTC().Format(time.DateOnly) }
