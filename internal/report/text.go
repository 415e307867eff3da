package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/parleyweb/parley/internal/accesslog"
)

// Layout of the text, for a terminal.
const (
	width    = 94 // columns
	barWidth = 24
	rows     = 6 // of the chart of hours
)

// WriteText writes the report for a terminal or a mail: plain text of at most
// 94 columns. At most top crawlers are listed; 0 means 20.
func (r *Report) WriteText(out io.Writer, top int) error {
	w := &text{bufio.NewWriter(out)}
	if top <= 0 {
		top = 20
	}
	w.wrap("", "", "First: "+r.First.Text)
	w.line("")
	w.line("%s", r.span())
	w.line("%s and %s sent in %s, from %s", many(r.Total.Requests, "request", "requests"), size(r.Total.Bytes), many(int64(len(r.Days)), "day", "days"), r.Log.source())
	for _, s := range r.Log.troubles() {
		w.wrap("! ", "  ", s)
	}
	w.groups(r)
	w.crawlers(r, top)
	w.again(r)
	w.savings(r)
	w.families(r)
	w.pages(r)
	w.hours(r)
	w.method(r)
	return w.Flush()
}

type text struct{ *bufio.Writer }

func (w *text) line(format string, args ...any) {
	fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

// title begins a section.
func (w *text) title(format string, args ...any) {
	w.line("")
	w.line(format, args...)
}

// wrap writes a paragraph with a prefix for its first line, and one for the others.
func (w *text) wrap(first, others, s string) {
	line := first
	for i, word := range strings.Fields(s) {
		if i > 0 && len([]rune(line))+1+len([]rune(word)) > width {
			w.line("%s", line)
			line = others
		} else if i > 0 {
			line += " "
		}
		line += word
	}
	w.line("%s", line)
}

// bar draws part of whole.
func bar(part, whole int64) string {
	if whole <= 0 {
		return ""
	}
	n := int((float64(part)/float64(whole))*barWidth + 0.5)
	if n == 0 && part > 0 {
		return "."
	}
	return strings.Repeat("#", n)
}

func (w *text) groups(r *Report) {
	w.title("%-26s%12s%9s%12s%9s", "CLIENTS", "requests", "", "sent", "")
	row := func(name string, t Traffic) {
		w.line("%-26s%12s%9s%12s%9s  %s", name, count(t.Requests), percent(t.Requests, r.Total.Requests),
			size(t.Bytes), percent(t.Bytes, r.Total.Bytes), bar(t.Requests, r.Total.Requests))
	}
	for _, g := range r.Groups {
		row(g.Name, g.Traffic)
		if g.Name == Crawlers {
			for _, k := range r.Kinds {
				row("  "+kindName(k.Name), k.Traffic)
			}
		}
	}
}

// kindName returns the display name of a kind of crawlers.
func kindName(kind string) string {
	switch accesslog.Kind(kind) {
	case accesslog.Search:
		return "search engines"
	case accesslog.AI:
		return "AI"
	case accesslog.SEO:
		return "SEO"
	case accesslog.Feed:
		return "feed readers"
	case accesslog.Preview:
		return "previews and ads"
	case accesslog.Archive:
		return "archives"
	case accesslog.Monitor:
		return "monitors"
	case accesslog.OtherBot:
		return "other crawlers"
	case False:
		return "false names"
	}
	return kind
}

// shown returns a crawler's name with how far it can be trusted.
func (c *Crawler) shown() string {
	switch {
	case c.Claim == False:
		return "not " + c.Name
	case c.Claim == Verified:
		return c.Name + " (verified)"
	case c.ByDNS != nil && c.ByDNS.Verified > 0 && c.ByDNS.False == 0 && c.ByDNS.Unchecked == 0:
		return c.Name + " (verified)"
	}
	return c.Name
}

func (w *text) crawlers(r *Report, top int) {
	if len(r.Crawlers) == 0 {
		w.title("CRAWLERS")
		w.line("No crawler was recognized by its user agent.")
		return
	}
	w.title("%-30s%10s%8s%11s%9s%9s%11s%6s", "CRAWLERS", "requests", "", "sent", "pages", "again", "same size", "304")
	row := func(name string, c *Crawler) {
		w.line("%-30s%10s%8s%11s%9s%9s%11s%6s", name, count(c.Requests), percent(c.Requests, r.Total.Requests), size(c.Bytes),
			count(c.Pages), count(c.Same.Requests+c.Different.Requests), count(c.Same.Requests), count(c.NotModified))
	}
	top = min(top, len(r.Crawlers))
	for _, c := range r.Crawlers[:top] {
		row(plain(c.shown(), 29), &c)
		if d := c.ByDNS; d != nil && (d.False > 0 || d.Unchecked > 0 && d.Verified > 0) {
			w.line("  by DNS: %s verified, %s false, %s unchecked", count(d.Verified), count(d.False), count(d.Unchecked))
		}
	}
	if rest := r.Crawlers[top:]; len(rest) > 0 {
		var sum Crawler
		for _, c := range rest {
			sum.Traffic.add(c.Traffic)
			sum.Reading.add(c.Reading)
		}
		row(many(int64(len(rest)), "other", "others"), &sum)
	}
	w.line("pages: different URLs fetched (200). again: fetched before. same size: as at the last fetch.")
}

func (w *text) again(r *Report) {
	a := r.All
	w.title("%-44s%12s%12s", "FETCHED BY CRAWLERS (200)", "requests", "sent")
	row := func(name string, t Traffic, note string) {
		w.line("%-44s%12s%12s  %s", name, count(t.Requests), size(t.Bytes), note)
	}
	row("all", a.Reads, "")
	row("  for the first time in this log", a.firstReads(), "")
	row("  again, of another size", a.Different, "probably changed")
	row("  again, of the same size", a.Same, "unchanged, at most")
	row("    proved unchanged by a 304", a.Unchanged, "unchanged, at least")
	if a.Contrary > 0 {
		w.wrap("  ", "  ", fmt.Sprintf("%s of another size had not changed either, as a 304 proves: compression differed, or the transfer broke off.", count(a.Contrary)))
	}
	w.line("In addition, the server answered 304 (not modified) %s.", many(a.NotModified, "time", "times"))
}

func (w *text) savings(r *Report) {
	w.title("%-14s%34s%30s", "SAVED, AT MOST", "if all crawlers used it", "by crawlers that do today")
	w.line("%-14s%12s%9s%13s%16s%14s", "", "requests", "", "sent", "requests", "sent")
	for _, s := range r.Savings {
		w.line("%-14s%12s%9s%13s%16s%14s", s.Way, count(s.AtMost.Requests), percent(s.AtMost.Requests, r.Total.Requests), size(s.AtMost.Bytes),
			count(s.Today.Requests), size(s.Today.Bytes))
	}
	w.line("heal: 304 also after a rebuild. sitemap: correct lastmod. manifest: robots.rdf. push: notices.")
}

// families writes the rules so that they can be copied: with an indent, and not wrapped.
func (w *text) families(r *Report) {
	if len(r.Families) == 0 {
		return
	}
	w.title("FAMILIES of URLs in which crawlers find almost nothing new (proposals; nothing was written)")
	for _, f := range r.Families {
		w.line("URLs %s", f.shown())
		if f.Example != "" {
			w.line("  such as %s", plain(f.Example, 100))
		}
		w.wrap("  ", "  ", evidence(&f, byCrawlers(r)))
		w.line("  robots.txt, in each group that is to obey:")
		for _, l := range append(append([]string{}, f.Robots...), f.Nginx...) {
			if len(f.Nginx) > 0 && l == f.Nginx[0] {
				w.line("  nginx:")
			}
			w.line("    %s", l)
		}
	}
}

func (w *text) pages(r *Report) {
	if len(r.Pages) == 0 {
		return
	}
	w.title("%10s%12s%10s%8s%10s  %s", "same size", "sent", "another", "304", "crawlers", "PAGES MOST READ AGAIN")
	for _, p := range r.Pages {
		w.line("%10s%12s%10s%8s%10s  %s", count(p.Same.Requests), size(p.Same.Bytes), count(p.Different), count(p.NotModified),
			count(int64(p.Crawlers)), plain(p.URL, width-52))
	}
}

// hours draws a chart: crawlers below, all others above.
func (w *text) hours(r *Report) {
	most := int64(1)
	for _, h := range r.Hours {
		most = max(most, h.Requests)
	}
	w.title("HOURS (%s): # crawlers, : others; the highest is %s", r.Zone, many(most, "request", "requests"))
	for row := rows; row > 0; row-- {
		line := ""
		for _, h := range r.Hours {
			fill := func(n int64) bool { return 2*n*rows >= (2*int64(row)-1)*most }
			switch {
			case fill(h.Crawlers.Requests):
				line += "## "
			case fill(h.Requests):
				line += ":: "
			default:
				line += "   "
			}
		}
		w.line("  %s", line)
	}
	line := ""
	for h := range r.Hours {
		line += fmt.Sprintf("%02d ", h)
	}
	w.line("  %s", line)
}

func (w *text) method(r *Report) {
	w.title("HOW THE FIGURES WERE OBTAINED")
	for _, m := range r.Method {
		w.wrap(fmt.Sprintf("%-10s", m.Sort), strings.Repeat(" ", 10), m.Text)
	}
}
