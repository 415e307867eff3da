package chart

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
)

// The dimensions of a chart, in its own units.
const (
	chartWidth, chartHeight = 760., 380.
	chartLeft, chartRight   = 56., 190. // for the numbers of the axis, for the names of the lines
	chartTop, chartBottom   = 14., 44.
	chartLines              = 100
	nameHeight              = 15. // of a line's name, so that none covers another
)

// scales returns the scales of X and Y, and the ticks of both.
func (c *Chart) scales() (x, y scale, xTicks, yTicks []float64) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, l := range c.Lines {
		for _, p := range l.Points {
			low, high = min(low, p.Y), max(high, p.Y)
			if s := p.Spread; s > 0 && s < 1e300 && !l.Bound {
				low, high = min(low, c.lower(p)), max(high, p.Y+s)
			}
		}
	}
	xs := c.xs()
	if len(xs) == 0 {
		xs, low, high = []float64{1}, .1, 1
	}
	if c.LogY {
		low, high, yTicks = logTicks(low, high)
	} else {
		low, high, yTicks = evenTicks(low, high)
	}
	x = scale{xs[0], xs[len(xs)-1], chartLeft + 10, chartWidth - chartRight - 10, c.LogX}
	y = scale{low, high, chartHeight - chartBottom, chartTop, c.LogY}
	last := math.Inf(-1)
	for _, v := range xs { // ticks at measured values, as far as there is room
		if at := x.at(v); at-last >= 34 {
			xTicks, last = append(xTicks, v), at
		}
	}
	return x, y, xTicks, yTicks
}

// lower returns the lower end of a point's error bar.
func (c *Chart) lower(p Point) float64 {
	if c.LogY {
		return max(p.Y-p.Spread, p.Y/10)
	}
	return p.Y - p.Spread
}

// A look distinguishes a line from all others: by its colour, its mark and its dashes, each of which
// suffices.
type look struct {
	class string
	mark  int
	dash  string
}

// The palette is Okabe and Ito's, which most colour-blind people can tell apart.
const (
	colours = 7
	marks   = 6
)

func (c *Chart) looks() []look {
	list := make([]look, len(c.Lines))
	lines, bounds := 0, 0
	for i, l := range c.Lines {
		if l.Bound {
			list[i] = look{"bound", -1, []string{"7 4", "2 3", "10 3 2 3", "4 2"}[bounds%4]}
			bounds++
			continue
		}
		list[i] = look{fmt.Sprintf("c%d", lines%colours), lines % marks, []string{"", "9 3", "3 2"}[lines/colours%3]}
		lines++
	}
	return list
}

// stroke draws the line itself.
func (k look) stroke(points string) string {
	dash := ""
	if k.dash != "" {
		dash = fmt.Sprintf(` stroke-dasharray="%s"`, k.dash)
	}
	return fmt.Sprintf(`<polyline class="line %s" points="%s"%s/>`, k.class, points, dash)
}

// dot draws the mark of a point.
func (k look) dot(x, y float64) string {
	shape := func(points ...float64) string {
		var b strings.Builder
		for i := 0; i < len(points); i += 2 {
			fmt.Fprintf(&b, "%.1f,%.1f ", x+points[i], y+points[i+1])
		}
		return fmt.Sprintf(`<polygon class="dot %s" points="%s"/>`, k.class, strings.TrimSpace(b.String()))
	}
	switch k.mark {
	case 0:
		return fmt.Sprintf(`<circle class="dot %s" cx="%.1f" cy="%.1f" r="3.6"/>`, k.class, x, y)
	case 1:
		return shape(-3.3, -3.3, 3.3, -3.3, 3.3, 3.3, -3.3, 3.3)
	case 2:
		return shape(0, -4.4, 4.2, 3.2, -4.2, 3.2)
	case 3:
		return shape(0, -4.8, 4.2, 0, 0, 4.8, -4.2, 0)
	case 4:
		return shape(0, 4.4, 4.2, -3.2, -4.2, -3.2)
	case 5:
		return shape(-1.3, -4, 1.3, -4, 1.3, -1.3, 4, -1.3, 4, 1.3, 1.3, 1.3, 1.3, 4, -1.3, 4, -1.3, 1.3, -4, 1.3, -4, -1.3, -1.3, -1.3)
	}
	return "" // a bound
}

// key returns a small piece of the line, for the table.
func (k look) key() template.HTML {
	return template.HTML(`<svg class="key" viewBox="0 0 30 12" aria-hidden="true">` + k.stroke("1,6 29,6") + k.dot(15, 6) + `</svg>`)
}

// svg draws the chart. The name is the prefix of the ids of its parts.
func (c *Chart) svg(name string) template.HTML {
	x, y, xTicks, yTicks := c.scales()
	var b strings.Builder
	begin(&b, chartWidth, chartHeight, name, c.Title, c.Y+" over "+c.X)
	right := chartWidth - chartRight
	labels := axisText(yTicks, c.LogY)
	for i, v := range yTicks {
		level(&b, chartLeft, right, y.at(v), labels[i])
	}
	for _, v := range xTicks {
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" x2="%.1[1]f" y1="%g" y2="%g"/>`, x.at(v), chartHeight-chartBottom, chartHeight-chartBottom+4)
		fmt.Fprintf(&b, `<text class="axis" x="%.1f" y="%g" text-anchor="middle">%s</text>`, x.at(v), chartHeight-chartBottom+17, number(v))
	}
	fmt.Fprintf(&b, `<text class="axis" x="%g" y="%g" text-anchor="middle">%s</text>`, (chartLeft+right)/2, chartHeight-8, esc(c.X))
	fmt.Fprintf(&b, `<text class="axis" transform="translate(12 %g) rotate(-90)" text-anchor="middle">%s</text>`, (chartTop+chartHeight-chartBottom)/2, esc(c.Y))
	looks := c.looks()
	order := make([]int, 0, len(c.Lines)) // bounds first, so that measurements are drawn over them
	for _, bound := range []bool{true, false} {
		for i, l := range c.Lines {
			if l.Bound == bound {
				order = append(order, i)
			}
		}
	}
	for _, i := range order {
		c.draw(&b, c.Lines[i], looks[i], x, y)
	}
	c.names(&b, looks, x, y)
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}

// draw draws one line with its marks, each with its number as a tooltip.
func (c *Chart) draw(b *strings.Builder, l Line, k look, x, y scale) {
	var path strings.Builder
	for _, p := range l.Points {
		fmt.Fprintf(&path, "%.1f,%.1f ", x.at(p.X), y.at(p.Y))
	}
	fmt.Fprintf(b, `<g>%s`, k.stroke(strings.TrimSpace(path.String())))
	for _, p := range l.Points {
		fmt.Fprintf(b, `<g><title>%s at %s: %s</title>`, esc(l.Name), number(p.X), number(p.Y))
		if p.Spread > 0 && p.Spread < 1e300 && !l.Bound {
			fmt.Fprintf(b, `<line class="line %s" x1="%.1f" x2="%.1[2]f" y1="%.1f" y2="%.1f"/>`, k.class, x.at(p.X), y.at(c.lower(p)), y.at(p.Y+p.Spread))
		}
		b.WriteString(k.dot(x.at(p.X), y.at(p.Y)))
		b.WriteString(`</g>`)
	}
	b.WriteString(`</g>`)
}

// names writes the name of each line beside its end, as the legend. Names that would overlap are moved apart.
func (c *Chart) names(b *strings.Builder, looks []look, x, y scale) {
	type place struct {
		line         int
		fromX, fromY float64
		y            float64
	}
	var list []place
	for i, l := range c.Lines {
		if n := len(l.Points); n > 0 {
			p := l.Points[n-1]
			list = append(list, place{i, x.at(p.X), y.at(p.Y), y.at(p.Y)})
		}
	}
	slices.SortStableFunc(list, func(a, b place) int { return cmp.Compare(a.y, b.y) })
	bottom := chartHeight - 12
	height := min(nameHeight, (bottom-chartTop)/float64(max(1, len(list))))
	for i := range list { // down, as far as is needed
		if i > 0 {
			list[i].y = max(list[i].y, list[i-1].y+height)
		}
	}
	for i := len(list) - 1; i >= 0; i-- { // and up again
		list[i].y = min(list[i].y, bottom-height*float64(len(list)-1-i))
	}
	left := chartWidth - chartRight + 24
	for _, p := range list {
		k, name := looks[p.line], c.Lines[p.line].Name
		if c.Lines[p.line].Bound {
			name += " (bound)"
		}
		fmt.Fprintf(b, `<line class="lead" x1="%.1f" y1="%.1f" x2="%g" y2="%.1f"/>`, p.fromX+7, p.fromY, left-14, p.y)
		fmt.Fprintf(b, `%s%s`, k.stroke(fmt.Sprintf("%g,%.1f %g,%.1f", left-14, p.y, left+10, p.y)), k.dot(left-2, p.y))
		fmt.Fprintf(b, `<text class="name" x="%g" y="%.1f">%s</text>`, left+15, p.y+4, esc(short(name, 26)))
	}
}

// short truncates a name.
func short(s string, n int) string {
	r := []rune(clean(s))
	if len(r) <= n {
		return string(r)
	}
	return string(r[:n-1]) + "…"
}
