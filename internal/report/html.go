package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"github.com/parleyweb/parley/internal/chart"
)

//go:embed report.html.tmpl
var htmlPage string

// WriteHTML writes the report as one self-contained page: without scripts, and without external styles or
// images. It follows the reader's light or dark mode, prints on paper, and has the numbers beside every
// chart. At most top crawlers are listed; 0 means 20.
func (r *Report) WriteHTML(out io.Writer, top int) error {
	if top <= 0 {
		top = 20
	}
	t, err := template.New("report").Funcs(template.FuncMap{
		"count": func(n any) string {
			switch n := n.(type) {
			case int:
				return count(int64(n))
			case int64:
				return count(n)
			}
			return fmt.Sprint(n)
		},
		"size":    size,
		"percent": percent,
		"plain":   func(s string) string { return plain(s, 200) },
		"kind":    func(kind any) string { return kindName(fmt.Sprint(kind)) },
		"bar":     barOf,
		"style":   chart.Style,
		"why":     func(f Family) string { return evidence(&f, byCrawlers(r)) },
		"urls":    func(f Family) string { return f.shown() },
	}).Parse(htmlPage)
	if err != nil {
		return fmt.Errorf("write report: %w", err) // the template is wrong
	}
	return t.Execute(out, newView(r, top))
}

// A view is the data of the page.
type view struct {
	*Report
	Span, Source        string
	Troubles            []string
	ByCrawlers          Traffic
	Figures             []figure
	Who                 []share
	List                []crawlerRow
	More                int // crawlers that are not listed
	Got                 []part
	GotBar              template.HTML
	Ways                []wayRow
	DayChart, HourChart template.HTML
	DayTitle            string
}

// A figure is one of the numbers at the top.
type figure struct{ Value, Name, Note string }

// A share is a row of the table of clients.
type share struct {
	Group
	Inner bool // part of the row above
}

type crawlerRow struct {
	Crawler
	Shown string
	Again int64
	Bar   template.HTML
}

// A part is one class of crawlers' requests.
type part struct {
	Class, Name, Note string
	Traffic
}

type wayRow struct {
	Saving
	What, Who string
}

func newView(r *Report, top int) *view {
	v := &view{Report: r, Span: r.span(), Source: r.Log.source(), Troubles: r.Log.troubles()}
	crawlers := byCrawlers(r)
	for _, g := range r.Groups {
		v.Who = append(v.Who, share{Group: g})
		if g.Name == Crawlers {
			for _, k := range r.Kinds {
				v.Who = append(v.Who, share{k, true})
			}
		}
	}
	v.ByCrawlers = crawlers
	a := r.All
	v.Figures = []figure{
		{percent(crawlers.Requests, r.Total.Requests), "of requests are from crawlers", count(crawlers.Requests) + " of " + count(r.Total.Requests)},
		{percent(crawlers.Bytes, r.Total.Bytes), "of bytes are sent to crawlers", size(crawlers.Bytes) + " of " + size(r.Total.Bytes)},
		{count(a.Same.Requests), "pages read again unchanged, at most", size(a.Same.Bytes) + ", of the same size as before"},
		{count(a.NotModified), "answers 304 to crawlers", percent(a.NotModified, a.NotModified+a.Same.Requests) + " of repeated requests for pages that probably had not changed"},
	}
	most := int64(1)
	if len(r.Crawlers) > 0 {
		most = r.Crawlers[0].Requests
	}
	for _, c := range r.Crawlers[:min(top, len(r.Crawlers))] {
		v.List = append(v.List, crawlerRow{c, plain(c.Name, 40), c.Same.Requests + c.Different.Requests, stack(parts(c.Traffic, c.Reading), most)})
	}
	v.More = len(r.Crawlers) - len(v.List)
	v.Got = parts(crawlers, a)
	v.GotBar = stack(v.Got, crawlers.Requests)
	for _, s := range r.Savings {
		row := wayRow{Saving: s}
		switch s.Way {
		case Heal:
			row.What, row.Who = "File times that survive a rebuild, so that the server still answers 304", "crawlers that got a 304 in this log"
		case Sitemap:
			row.What, row.Who = "A sitemap with correct lastmod dates", "Google, Bing"
		case Manifest:
			row.What, row.Who = "robots.rdf: the current, changed and deleted pages", "no crawler yet"
		case Push:
			row.What, row.Who = "Notices instead of polling: a stream, IndexNow, WebSub", "search engines with IndexNow, feed readers"
		}
		v.Ways = append(v.Ways, row)
	}
	v.DayChart, v.DayTitle = dayChart(r.Days)
	var hours []chart.Row
	for h, s := range r.Hours {
		label := fmt.Sprintf("%02d", h)
		hours = append(hours, column(label, label+":00", s))
	}
	v.HourChart = columns("hours", "Requests by hour of the day", 3, hours)
	return v
}

// parts splits a crawler's requests by result.
func parts(all Traffic, r Reading) []part {
	rest := Traffic{all.Requests - r.Reads.Requests - r.NotModified, all.Bytes - r.Reads.Bytes}
	return []part{
		{"first", "read for the first time in this log", "", r.firstReads()},
		{"different", "read again, of another size", "probably changed", r.Different},
		{"same", "read again, of the same size", "unchanged, at most", r.Same},
		{"fresh", "answered 304 (not modified)", "no body is sent", Traffic{r.NotModified, 0}},
		{"rest", "anything else", "errors, redirects, partial responses, other methods", rest},
	}
}
