package chart

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The measures of a chart, in its own units.
const (
	chartWidth, chartHeight = 760., 380.
	chartLeft, chartRight   = 56., 190. // for the numbers of the axis, for the names of the lines
	chartTop, chartBottom   = 14., 44.
	chartLines              = 100
	nameHeight              = 15. // of a line's name, so that none covers another
)

// A scale places numbers between two ends of a drawing.
type scale struct {
	low, high, from, to float64
	log                 bool
}

func (s scale) at(x float64) float64 {
	low, high := s.low, s.high
	if s.log {
		x, low, high = math.Log(x), math.Log(low), math.Log(high)
	}
	if !(high > low) {
		return (s.from + s.to) / 2
	}
	return s.from + (s.to-s.from)*((x-low)/(high-low))
}

// scales returns where X and Y go, and the ticks of both.
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
	for _, v := range xs { // ticks where something was measured, as far as they have room
		if at := x.at(v); at-last >= 34 {
			xTicks, last = append(xTicks, v), at
		}
	}
	return x, y, xTicks, yTicks
}

// lower is the lower end of a point's bar.
func (c *Chart) lower(p Point) float64 {
	if c.LogY {
		return max(p.Y-p.Spread, p.Y/10)
	}
	return p.Y - p.Spread
}

// evenTicks are round numbers at equal distances that hold an interval between them.
func evenTicks(low, high float64) (from, to float64, ticks []float64) {
	if !(high-low > 1e-9*max(1e-3, math.Abs(high), math.Abs(low))) { // all on one level
		room := max(math.Abs(high)/10, 1e-3)
		low, high = low-room, high+room
	}
	step := tickStep(high - low)
	from, to = math.Floor(low/step)*step, math.Ceil(high/step)*step
	for i := range int(min(20, math.Round((to-from)/step))) + 1 {
		ticks = append(ticks, snap(from+float64(i)*step, step))
	}
	return from, to, ticks
}

// logTicks are powers of ten, and 2 and 5 times these if there are few, that
// hold an interval above 0 between them.
func logTicks(low, high float64) (from, to float64, ticks []float64) {
	first, last := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	if first == last {
		last++
	}
	factors := []float64{1, 2, 5}
	if last-first > 3 {
		factors = factors[:1]
	}
	every := math.Ceil((last - first) / 8)
	for e := first; e <= last; e += every {
		for _, f := range factors {
			if f == 1 || e < last {
				ticks = append(ticks, f*math.Pow(10, e))
			}
		}
	}
	return math.Pow(10, first), math.Pow(10, last), ticks
}

// tickStep divides a span into four to eight round steps.
func tickStep(span float64) float64 {
	rough := span / 7
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= rough {
			return m * power
		}
	}
	return 10 * power
}

// A look tells a line from all others: by its colour, its mark and its dashes, so that
// any of the three suffices.
type look struct {
	class string
	mark  int
	dash  string
}

// The palette is Okabe and Ito's, which most who are colour-blind can tell apart.
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

// key is a small piece of the line, for the table.
func (k look) key() template.HTML {
	return template.HTML(`<svg class="key" viewBox="0 0 30 12" aria-hidden="true">` + k.stroke("1,6 29,6") + k.dot(15, 6) + `</svg>`)
}

// svg draws the chart. The name makes the ids of its parts.
func (c *Chart) svg(name string) template.HTML {
	x, y, xTicks, yTicks := c.scales()
	esc := html.EscapeString
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="chart" viewBox="0 0 %g %g" role="img" aria-labelledby="%s-title %[3]s-desc">`, chartWidth, chartHeight, name)
	fmt.Fprintf(&b, `<title id="%s-title">%s</title><desc id="%[1]s-desc">%s over %s. The table below has the numbers.</desc>`, name, esc(clean(c.Title)), esc(clean(c.Y)), esc(clean(c.X)))
	right := chartWidth - chartRight
	labels := axisText(yTicks, c.LogY)
	for i, v := range yTicks {
		fmt.Fprintf(&b, `<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1[3]f"/>`, chartLeft, right, y.at(v))
		fmt.Fprintf(&b, `<text class="axis" x="%g" y="%.1f" text-anchor="end">%s</text>`, chartLeft-6, y.at(v)+4, labels[i])
	}
	for _, v := range xTicks {
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" x2="%.1[1]f" y1="%g" y2="%g"/>`, x.at(v), chartHeight-chartBottom, chartHeight-chartBottom+4)
		fmt.Fprintf(&b, `<text class="axis" x="%.1f" y="%g" text-anchor="middle">%s</text>`, x.at(v), chartHeight-chartBottom+17, number(v))
	}
	fmt.Fprintf(&b, `<text class="axis" x="%g" y="%g" text-anchor="middle">%s</text>`, (chartLeft+right)/2, chartHeight-8, esc(clean(c.X)))
	fmt.Fprintf(&b, `<text class="axis" transform="translate(12 %g) rotate(-90)" text-anchor="middle">%s</text>`, (chartTop+chartHeight-chartBottom)/2, esc(clean(c.Y)))
	looks := c.looks()
	order := make([]int, 0, len(c.Lines)) // bounds first, so that what was measured lies on them
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

// draw draws one line with its marks, each of which says its number to who points at it.
func (c *Chart) draw(b *strings.Builder, l Line, k look, x, y scale) {
	var path strings.Builder
	for _, p := range l.Points {
		fmt.Fprintf(&path, "%.1f,%.1f ", x.at(p.X), y.at(p.Y))
	}
	fmt.Fprintf(b, `<g>%s`, k.stroke(strings.TrimSpace(path.String())))
	for _, p := range l.Points {
		fmt.Fprintf(b, `<g><title>%s at %s: %s</title>`, html.EscapeString(clean(l.Name)), number(p.X), number(p.Y))
		if p.Spread > 0 && p.Spread < 1e300 && !l.Bound {
			fmt.Fprintf(b, `<line class="line %s" x1="%.1f" x2="%.1[2]f" y1="%.1f" y2="%.1f"/>`, k.class, x.at(p.X), y.at(c.lower(p)), y.at(p.Y+p.Spread))
		}
		b.WriteString(k.dot(x.at(p.X), y.at(p.Y)))
		b.WriteString(`</g>`)
	}
	b.WriteString(`</g>`)
}

// names writes the name of each line beside its end: the legend. Those that
// would cover each other are moved apart.
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
	slices.SortStableFunc(list, func(a, b place) int {
		switch {
		case a.y < b.y:
			return -1
		case a.y > b.y:
			return 1
		}
		return 0
	})
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
		fmt.Fprintf(b, `<text class="name" x="%g" y="%.1f">%s</text>`, left+15, p.y+4, html.EscapeString(short(name, 26)))
	}
}

// snap takes the error out of a multiple of a step.
func snap(x, step float64) float64 {
	if math.Abs(x) < step/2 {
		return 0
	}
	return x
}

// axisText writes the numbers of an axis, all with as many digits.
func axisText(ticks []float64, log bool) (list []string) {
	if len(ticks) < 2 || log {
		for _, v := range ticks {
			list = append(list, strconv.FormatFloat(v, 'g', 3, 64))
		}
		return list
	}
	step := ticks[1] - ticks[0]
	format, digits := byte('f'), max(0, int(math.Ceil(-math.Log10(step)-1e-6)))
	if digits > 6 || step >= 1e9 {
		format, digits = 'g', 4
	}
	for _, v := range ticks {
		list = append(list, strconv.FormatFloat(v, format, digits, 64))
	}
	return list
}

// short cuts a name.
func short(s string, n int) string {
	r := []rune(clean(s))
	if len(r) <= n {
		return string(r)
	}
	return string(r[:n-1]) + "…"
}

// clean drops what XML cannot have.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFE' || r == '\uFFFF' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
