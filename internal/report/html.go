package report

import (
	_ "embed"
	"fmt"
	"io"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/parleyweb/parley/internal/chart"
)

//go:embed page.css
var pageStyle string

// WriteHTML writes the report as one self-contained page: without scripts, and without external styles or
// images. It follows the reader's light or dark mode, prints on paper, and has the numbers beside every
// chart. At most top crawlers are listed; 0 means 20.
func (r *Report) WriteHTML(out io.Writer, top int) error {
	if top <= 0 {
		top = 20
	}
	var troubles g.Node
	if list := r.Log.troubles(); len(list) > 0 {
		troubles = h.Div(h.Class("troubles"), h.Role("note"), g.Map(list, func(s string) g.Node { return h.P(g.Text(s)) }))
	}
	return chart.WriteDocument(out, "What crawlers cost, "+r.span(), pageStyle,
		h.Header(
			h.H1(g.Text("What crawlers cost")),
			h.P(h.Class("soft"), g.Text(r.span()), h.Br(), g.Textf("%s requests and %s sent, from %s", count(r.Total.Requests), size(r.Total.Bytes), r.Log.source()))),
		h.Main(
			h.P(h.Class("next"), h.B(g.Text("First:")), g.Text(" "+r.First.Text)),
			showFigures(r), troubles, showClients(r), showFetched(r), showWays(r), showCrawlers(r, top), showFamilies(r), showPages(r), showTimes(r),
			h.Section(h.H2(g.Text("How the figures were obtained")), h.Dl(g.Map(r.Method, func(m Method) g.Node {
				return h.Div(h.Dt(g.Text(m.Sort)), h.Dd(g.Text(m.Text)))
			})))),
		h.Footer(g.Text("Made by rdfgen report. "), h.Em(g.Text("Sent")), g.Text(" is what the log says was sent; k, M and G are 1,000 of the one before.")))
}

// table returns a table. A column whose name begins with "=" has text, and one without a name has drawings.
func table(columns []string, rows g.Node, caption ...g.Node) g.Node {
	return h.Table(g.If(caption != nil, h.Caption(caption...)), h.THead(h.Tr(g.Map(columns, func(name string) g.Node {
		if name == "" {
			return h.Td(h.Class("draw"))
		}
		text, is := strings.CutPrefix(name, "=")
		return h.Th(h.Scope("col"), g.If(is, h.Class("text")), g.Text(text))
	}))), h.TBody(rows))
}

func rowHead(nodes ...g.Node) g.Node { return h.Th(h.Scope("row"), g.Group(nodes)) }

func cell(text string) g.Node { return h.Td(g.Text(text)) }

// cells returns the cells of requests and bytes, each with its share, and with what stands between them.
func cells(r *Report, t Traffic, between g.Node) g.Node {
	return g.Group{cell(count(t.Requests)), cell(percent(t.Requests, r.Total.Requests)), between, cell(size(t.Bytes)), cell(percent(t.Bytes, r.Total.Bytes))}
}

func drawn(svg string) g.Node { return h.Td(h.Class("draw"), g.Raw(svg)) }

// key is the colour of a part of a bar.
func key(class string) g.Node { return h.I(h.Class("key " + class)) }

// legend explains colours, each class with its text.
func legend(list ...[2]string) g.Node {
	return h.P(h.Class("legend"), g.Map(list, func(l [2]string) g.Node { return h.Span(key(l[0]), g.Text(l[1])) }))
}

// showFigures shows the numbers at the top.
func showFigures(r *Report) g.Node {
	a, crawlers := &r.All, byCrawlers(r)
	figure := func(value, name, note string) g.Node {
		return h.Li(h.B(g.Text(value)), h.Span(h.Class("name"), g.Text(name)), h.Span(g.Text(note)))
	}
	return h.Ul(h.Class("figures"),
		figure(percent(crawlers.Requests, r.Total.Requests), "of requests are from crawlers", count(crawlers.Requests)+" of "+count(r.Total.Requests)),
		figure(percent(crawlers.Bytes, r.Total.Bytes), "of bytes are sent to crawlers", size(crawlers.Bytes)+" of "+size(r.Total.Bytes)),
		figure(count(a.Same.Requests), "pages read again unchanged, at most", size(a.Same.Bytes)+", of the same size as before"),
		figure(count(a.NotModified), "answers 304 to crawlers", percent(a.NotModified, a.NotModified+a.Same.Requests)+" of repeated requests for pages that probably had not changed"))
}

func showClients(r *Report) g.Node {
	var rows g.Group
	add := func(gr Group, class string, inner g.Node) {
		rows = append(rows, h.Tr(inner, rowHead(g.Text(kindName(gr.Name))), cells(r, gr.Traffic, drawn(barOf(class, gr.Requests, r.Total.Requests)))))
	}
	for _, gr := range r.Groups {
		if gr.Name != Crawlers {
			add(gr, "others", nil)
			continue
		}
		add(gr, "crawlers", nil)
		for _, k := range r.Kinds {
			add(k, "crawlers", h.Class("inner"))
		}
	}
	return h.Section(h.Class("keep"), h.H2(g.Text("Clients")),
		h.Div(h.Class("wide"), table([]string{"=Group", "Requests", "Share", "", "Sent", "Share"}, rows)))
}

func showFetched(r *Report) g.Node {
	crawlers, a := byCrawlers(r), &r.All
	got := parts(crawlers, *a)
	note := func(text string) g.Node { return h.Td(h.Class("text soft"), g.Text(text)) }
	var rows g.Group
	for _, p := range got {
		rows = append(rows, h.Tr(rowHead(key(p.Class), g.Text(p.Name)), cell(count(p.Requests)), cell(percent(p.Requests, crawlers.Requests)), cell(size(p.Bytes)), note(p.Note)))
		if p.Class == "same" {
			u := a.Unchanged
			rows = append(rows, h.Tr(h.Class("inner"), rowHead(g.Text("proved unchanged by a 304")), cell(count(u.Requests)), cell(percent(u.Requests, crawlers.Requests)), cell(size(u.Bytes)),
				note("unchanged, at least")))
		}
	}
	var contrary g.Node
	if a.Contrary > 0 {
		contrary = h.P(h.Class("note"), g.Text(count(a.Contrary)+" of another size had not changed either, as a 304 proves: compression differed, or the transfer broke off."))
	}
	return h.Section(h.Class("keep"), h.H2(g.Text("Fetched by crawlers")), h.P(h.Class("total"), g.Raw(stack(got, crawlers.Requests))),
		h.Div(h.Class("wide"), table([]string{"=Requests of crawlers", "Requests", "Share", "Sent", "=Note"}, rows)), contrary)
}

func showWays(r *Report) g.Node {
	whole := byCrawlers(r).Requests
	return h.Section(h.Class("keep"), h.H2(g.Text("What would have been saved, at most")),
		h.Div(h.Class("wide"), table([]string{"=Way", "=What it is", "Requests", "Share", "", "Sent", "Share"}, g.Map(r.Savings, func(s Saving) g.Node {
			what, who := "", ""
			switch s.Way {
			case Heal:
				what, who = "File times that survive a rebuild, so that the server still answers 304", "crawlers that got a 304 in this log"
			case Sitemap:
				what, who = "A sitemap with correct lastmod dates", "Google, Bing"
			case Manifest:
				what, who = "robots.rdf: the current, changed and deleted pages", "no crawler yet"
			case Push:
				what, who = "Notices instead of polling: a stream, IndexNow, WebSub", "search engines with IndexNow, feed readers"
			}
			return g.Group{
				h.Tr(rowHead(g.Text(s.Way)), h.Td(h.Class("text what"), g.Text(what)), cells(r, s.AtMost, drawn(barOf("fresh", s.AtMost.Requests, whole)))),
				h.Tr(h.Class("inner"), rowHead(g.Text("today")), h.Td(h.Class("text what soft"), g.Text(who)), cells(r, s.Today, drawn(barOf("rest", s.Today.Requests, whole)))),
			}
		}), g.Text("Each is an upper bound; how it is counted stands at the end. Below each way, the part by those that use it as they are today. Shares are of all requests and bytes, bars of the requests of crawlers."))))
}

func showCrawlers(r *Report, top int) g.Node {
	title := h.H2(g.Text("Crawlers"))
	if len(r.Crawlers) == 0 {
		return h.Section(title, h.P(g.Text("No crawler was recognized by its user agent.")))
	}
	var more g.Node
	list, most := r.Crawlers[:min(top, len(r.Crawlers))], r.Crawlers[0].Requests
	if n := len(r.Crawlers) - len(list); n > 0 {
		more = h.P(h.Class("note"), g.Text("And "+count(int64(n))+" more with fewer requests."))
	}
	return h.Section(title,
		legend([2]string{"first", "first read"}, [2]string{"different", "again, another size"}, [2]string{"same", "again, same size"}, [2]string{"fresh", "304"}, [2]string{"rest", "anything else"}),
		h.Div(h.Class("wide"), table([]string{"=Name", "=For", "Requests", "Share", "", "Sent", "Pages", "Again", "Same size", "304"}, g.Map(list, func(c Crawler) g.Node {
			var claim, byDNS g.Node
			switch c.Claim {
			case Verified:
				claim = h.Span(h.Class("mark verified"), g.Text("verified"))
			case False:
				claim = h.Span(h.Class("mark false"), g.Text("false name"))
			}
			if d := c.ByDNS; d != nil {
				byDNS = h.Span(h.Class("mark"), g.Textf("DNS: %s verified, %s false, %s unchecked", count(d.Verified), count(d.False), count(d.Unchecked)))
			}
			return h.Tr(rowHead(g.Text(plain(c.Name, 40)), claim, byDNS), h.Td(h.Class("text soft"), g.Text(kindName(fmt.Sprint(c.Kind)))), cell(count(c.Requests)),
				cell(percent(c.Requests, r.Total.Requests)), drawn(stack(parts(c.Traffic, c.Reading), most)), cell(size(c.Bytes)), cell(count(c.Reading.Pages)),
				cell(count(c.Same.Requests+c.Different.Requests)), cell(count(c.Same.Requests)), cell(count(c.NotModified)))
		}))), more)
}

func showFamilies(r *Report) g.Node {
	if len(r.Families) == 0 {
		return nil
	}
	lines := func(list []string) g.Node {
		return g.If(len(list) > 0, h.Pre(g.Text(strings.Join(list, "\n")+"\n")))
	}
	return h.Section(h.H2(g.Text("Families of URLs in which crawlers find almost nothing new")),
		h.P(h.Class("soft"), g.Text("The lines are proposals. Nothing was written.")),
		g.Map(r.Families, func(f Family) g.Node {
			why := evidence(&f, byCrawlers(r))
			if f.Example != "" {
				why = "Such as " + plain(f.Example, 200) + ": " + why
			}
			return g.Group{h.H3(g.Text("URLs " + f.shown())), h.P(g.Text(why)), lines(f.Robots), lines(f.Nginx)}
		}))
}

func showPages(r *Report) g.Node {
	if len(r.Pages) == 0 {
		return nil
	}
	return h.Section(h.H2(g.Text("Pages most read again")),
		h.Div(h.Class("wide"), table([]string{"=Page", "Same size", "Sent", "Another size", "304", "Crawlers"}, g.Map(r.Pages, func(p Page) g.Node {
			return h.Tr(h.Td(h.Class("url"), g.Text(plain(p.URL, 200))), cell(count(p.Same.Requests)), cell(size(p.Same.Bytes)), cell(count(p.Different)), cell(count(p.NotModified)), cell(count(int64(p.Crawlers))))
		}), g.Text("By crawlers, of the same size as before."))))
}

func showTimes(r *Report) g.Node {
	days, title := dayChart(r.Days)
	var hours []chart.Row
	var hourRows g.Group
	inTable := func(name string, s Span) g.Node {
		return h.Tr(rowHead(g.Text(name)), cell(count(s.Requests)), cell(count(s.Crawlers.Requests)), cell(size(s.Bytes)), cell(size(s.Crawlers.Bytes)))
	}
	for i, s := range r.Hours {
		label := fmt.Sprintf("%02d", i)
		hours, hourRows = append(hours, column(label, label+":00", s)), append(hourRows, inTable(label+":00", s))
	}
	drawing := func(title, svg string) g.Node { return h.Figure(h.FigCaption(g.Text(title)), g.Raw(svg)) }
	folded := func(what, first string, rows g.Node) g.Node {
		return h.Details(h.Summary(g.Text(what)), table([]string{"=" + first, "Requests", "of them crawlers", "Sent", "of it to crawlers"}, rows))
	}
	return h.Section(h.H2(g.Text("When")), legend([2]string{"crawlers", "crawlers"}, [2]string{"others", "everybody else"}),
		drawing(title, days), folded("Days as a table", "Day", g.Map(r.Days, func(d Day) g.Node { return inTable(d.Date, d.Span) })),
		drawing("Requests by hour of the day ("+r.Zone+")", columns("hours", "Requests by hour of the day", 3, hours)), folded("Hours as a table", "Hour", hourRows))
}

// A part is one class of crawlers' requests.
type part struct {
	Class, Name, Note string
	Traffic
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
