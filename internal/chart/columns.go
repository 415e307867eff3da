package chart

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// Columns is a chart of numbers side by side, such as requests by day, each in two parts: CSS class Lower
// below, class Upper above.
type Columns struct {
	Name         string // prefix of the ids of its parts: unique on a page
	Title, About string
	Lower, Upper string
	Every        int // each Every-th column is labelled; 0: about twelve are labelled
	List         []Column
}

// A Column is one column of the chart.
type Column struct {
	Label string // below it
	Says  string // the tooltip
	Lower int64
	All   int64 // Lower and upper
}

// The dimensions of the chart, in its own units.
const (
	columnsWidth, columnsHeight = 720., 200.
	columnsLeft                 = 56. // for the numbers of the axis
	columnsTop, columnsBottom   = 8., 22.
	columnsLabels               = 12
)

// SVG draws the chart; without columns it is empty.
func (c *Columns) SVG() template.HTML {
	if len(c.List) == 0 {
		return ""
	}
	most := int64(1)
	for _, l := range c.List {
		most = max(most, l.All)
	}
	step := roundStep(max(1, float64(most)/4)) // two to five steps
	y := scale{low: 0, high: math.Ceil(float64(most)/step) * step, from: columnsHeight - columnsBottom, to: columnsTop}

	var b strings.Builder
	begin(&b, columnsWidth, columnsHeight, c.Name, c.Title, c.About)
	for n := 0.; n <= y.high; n += step {
		level(&b, columnsLeft, columnsWidth, y.at(n), thousands(n))
	}
	pitch := (columnsWidth - columnsLeft) / float64(len(c.List))
	wide := min(pitch-min(pitch*0.2, 6), 48)
	every := c.Every
	if every <= 0 {
		every = (len(c.List) + columnsLabels - 1) / columnsLabels
	}
	for i, l := range c.List {
		x, all, lower := columnsLeft+pitch*float64(i)+(pitch-wide)/2, y.at(float64(l.All)), y.at(float64(l.Lower))
		fmt.Fprintf(&b, `<g><title>%s</title>`, esc(l.Says))
		fmt.Fprintf(&b, `<rect class="%s" x="%.2f" y="%.2f" width="%.2f" height="%.2f"/>`, c.Upper, x, all, wide, lower-all)
		fmt.Fprintf(&b, `<rect class="%s" x="%.2f" y="%.2f" width="%.2f" height="%.2f"/></g>`, c.Lower, x, lower, wide, y.from-lower)
		if i%every == 0 {
			fmt.Fprintf(&b, `<text class="axis" x="%.2f" y="%g" text-anchor="middle">%s</text>`, x+wide/2, columnsHeight-6, esc(l.Label))
		}
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}

// thousands formats a number of an axis: 1200 as 1.2 k.
func thousands(n float64) string {
	units, u := []string{"", " k", " M", " G", " T"}, 0
	for n >= 1000 && u+1 < len(units) {
		n, u = n/1000, u+1
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", n), ".0") + units[u]
}

// A Part is a piece of a bar, drawn with a CSS class.
type Part struct {
	Class string
	Size  float64
}

// Bar draws parts of a whole beside each other. Screen readers skip it: the text has its numbers.
func Bar(whole float64, parts ...Part) template.HTML {
	var b strings.Builder
	b.WriteString(`<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">`)
	x := 0.0
	for _, p := range parts {
		w := 0.0
		if whole > 0 {
			w = 100 * max(p.Size, 0) / whole
		}
		fmt.Fprintf(&b, `<rect class="%s" x="%.2f" width="%.2f" height="8"/>`, p.Class, x, w)
		x += w
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}
