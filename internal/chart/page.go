// Package chart draws lines, bars, points, histograms and the bow-tie of a Web as SVG for self-contained HTML pages, and
// writes such a page with lines and their tables.
package chart

import (
	"bufio"
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

//go:embed style.css
var style string

//go:embed page.css
var pageStyle string

// Style returns the common CSS of pages with charts.
func Style() string { return style }

// WriteDocument writes a self-contained page: no scripts, styles or images from elsewhere. It has the common CSS of pages with charts, and
// its own after that.
func WriteDocument(w io.Writer, title, css string, body ...g.Node) error {
	b := bufio.NewWriter(w)
	h.Doctype(h.HTML(h.Lang("en"),
		h.Head(
			h.Meta(h.Charset("utf-8")),
			h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
			h.Meta(h.Name("color-scheme"), h.Content("light dark")),
			h.Meta(h.Name("robots"), h.Content("noindex")),
			h.Meta(g.Attr("http-equiv", "Content-Security-Policy"), h.Content("default-src 'none'; style-src 'unsafe-inline'")),
			h.TitleEl(g.Text(title)),
			h.StyleEl(g.Raw(style+css)),
		),
		h.Body(body...))).Render(b)
	b.WriteString("\n")
	return b.Flush() // which returns the first error of all writes
}

// A Chart shows how scores depend on one quantity, such as freshness on the budget, or points by two quantities.
type Chart struct {
	Title string
	X, Y  string // quantities of the axes, with units
	LogX  bool   // for X over several decades; points with X <= 0 are left out then
	LogY  bool   // the same for Y
	Apart bool   // a scatter plot: points are not joined, but for those of a Bound, such as a fitted line; X = 0 is left of a logarithmic axis
	Lines []Line // at most 100 are drawn
}

// A Line is the scores of one policy, or a bound of them.
type Line struct {
	Name   string // such as "priced", or "polling" for a bound
	Bound  bool   // no score can be better: drawn dashed and in grey
	Points []Point
}

// A Point is the score of one setting. One whose X or Y is not a finite number is left out.
type Point struct {
	X, Y   float64
	Spread float64 // standard deviation over the seeds, drawn as a bar; 0: unknown
	bin    Bin     // a histogram's: Y of it
}

// A Page is a self-contained HTML page: no scripts, styles or images from elsewhere. It follows the reader's
// light or dark mode, can be printed and read without colours, and has every number in a table too.
type Page struct {
	Title  string
	About  string   // one paragraph: what was simulated
	Made   string   // the command that reproduces the page
	Notes  []string // further remarks for the reader
	Charts []Chart
}

// WriteHTML writes the page.
func (p *Page) WriteHTML(w io.Writer) error {
	var notes, made g.Node
	if len(p.Notes) > 0 {
		notes = h.Div(h.Class("notes"), h.Role("note"), g.Map(p.Notes, func(n string) g.Node { return h.P(g.Text(n)) }))
	}
	if p.Made != "" {
		made = g.Group{g.Text("Made by "), h.Code(g.Text(p.Made))}
	}
	var sections g.Group
	for i, c := range p.Charts {
		sections = append(sections, c.drawn().section(fmt.Sprintf("chart-%d", i+1)))
	}
	return WriteDocument(w, p.Title, pageStyle,
		h.Header(h.H1(g.Text(p.Title)), h.P(h.Class("soft"), g.Text(p.About))),
		h.Main(notes, sections),
		h.Footer(made))
}

// section shows a chart, and its numbers in a table.
func (c Chart) section(name string) g.Node {
	columns, rows := c.table()
	head := func(text string) g.Node { return h.Th(h.Scope("col"), g.Text(text)) }
	return h.Section(
		h.H2(g.Text(c.Title)),
		h.Figure(g.Raw(c.SVG(name))),
		h.Div(h.Class("wide"), h.Table(
			h.Caption(g.Textf("%s, by %s. Bounds are dashed and grey: nothing can be better in that setting.", c.Y, c.X)),
			h.THead(h.Tr(head(c.X), g.Map(columns, head))),
			h.TBody(g.Map(rows, func(r chartRow) g.Node {
				name := r.Name
				if r.Bound {
					name += " (bound)"
				}
				return h.Tr(g.If(r.Bound, h.Class("bound")), h.Th(h.Scope("row"), g.Raw(r.Key), g.Text(name)),
					g.Map(r.Cells, func(text string) g.Node { return h.Td(g.Text(text)) }))
			})))))
}

// drawn returns the chart with the lines and points that can be drawn, these from left to right.
func (c Chart) drawn() Chart {
	c.Lines = slices.Clone(c.Lines[:min(chartLines, len(c.Lines))])
	for i, l := range c.Lines {
		var list []Point
		for _, p := range l.Points {
			if math.Abs(p.X) <= 1e300 && math.Abs(p.Y) <= 1e300 && (!c.LogX || p.X > 0 || p.X == 0 && c.Apart && !l.Bound) && !(c.LogY && p.Y <= 0) {
				list = append(list, p)
			}
		}
		slices.SortStableFunc(list, func(a, b Point) int { return cmp.Compare(a.X, b.X) })
		c.Lines[i].Points = list
	}
	return c
}

type chartRow struct {
	Name  string
	Bound bool
	Key   string
	Cells []string
}

// table returns all numbers of the chart: a row for each line, a column for each X.
func (c Chart) table() (columns []string, rows []chartRow) {
	xs := c.xs()
	for _, x := range xs {
		columns = append(columns, number(x))
	}
	looks := c.looks()
	write := number
	if c.shares() { // all with the same number of digits
		write = func(x float64) string { return strconv.FormatFloat(x, 'f', 4, 64) }
	}
	for i, l := range c.Lines {
		r := chartRow{Name: l.Name, Bound: l.Bound, Key: looks[i].key()}
		for _, x := range xs {
			cell := ""
			if j := slices.IndexFunc(l.Points, func(p Point) bool { return p.X == x }); j >= 0 {
				cell = write(l.Points[j].Y)
				if s := l.Points[j].Spread; s > 0 {
					cell += " ± " + write(s)
				}
			}
			r.Cells = append(r.Cells, cell)
		}
		rows = append(rows, r)
	}
	return columns, rows
}

// shares reports whether every Y is between 0 and 1.
func (c Chart) shares() bool {
	for _, l := range c.Lines {
		for _, p := range l.Points {
			if !(p.Y >= 0 && p.Y <= 1) {
				return false
			}
		}
	}
	return true
}

// xs returns all X values, each once.
func (c Chart) xs() (xs []float64) {
	for _, l := range c.Lines {
		for _, p := range l.Points {
			xs = append(xs, p.X)
		}
	}
	slices.Sort(xs)
	return slices.Compact(xs)
}

// number formats a number with its significant digits.
func number(x float64) string {
	switch a := math.Abs(x); {
	case a >= 1000:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	case a == 0 || a >= 0.001:
		return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(x, 'f', 4, 64), "0"), ".")
	}
	return strconv.FormatFloat(x, 'g', 2, 64)
}
