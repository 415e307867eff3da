package chart

import (
	"fmt"
	"math"
	"strings"
)

const (
	chartLines = 100
	chartMarks = 1500 // drawn at most; points at nearly the same place share one, which is larger then
	zeroAt     = 5.   // where X = 0 is if the axis is logarithmic, in percent
)

// SVG draws the chart; without points it is empty. The name is the prefix of the ids of its parts, unique on a page.
func (c Chart) SVG(name string) string {
	c = c.drawn()
	x, y := scale{math.Inf(1), math.Inf(-1), 2, 98, c.LogX}, scale{math.Inf(1), math.Inf(-1), plotBottom, plotTop, c.LogY}
	zero, bins, sets := "", false, 0 // the text below X = 0; the points are a histogram's; so many lines that are no bounds
	for _, l := range c.Lines {
		if l.Bound && c.Apart {
			continue // it may lead far away
		}
		sets++
		for _, p := range l.Points {
			low, high := c.ends(l, p)
			y.low, y.high, bins = min(y.low, low), max(y.high, high), bins || p.bin.N > 0
			from, to := p.X, p.X
			if p.bin.N > 0 {
				from, to = p.bin.From, p.bin.To
			}
			if c.LogX && from <= 0 {
				zero, x.from = "0", 12
				if to > 1 {
					zero = "< " + brief(to)
				}
			} else {
				x.low, x.high = min(x.low, from), max(x.high, to)
			}
		}
	}
	if y.low > y.high {
		return ""
	}
	if x.low > x.high {
		x.low, x.high = 1, 10
	}
	var yTicks []float64
	switch {
	case bins: // the lowest bar has a height
		y.low, y.high = y.low/2, y.high*1.3
		yTicks = within(y)
	case c.LogY:
		y.low, y.high, yTicks = logTicks(y.low, y.high)
	default:
		y.low, y.high, yTicks = evenTicks(y.low, y.high)
	}
	var b strings.Builder
	plot(&b, "", plotHeight, name, c.Title, c.Y+" over "+c.X)
	axes(&b, x, y, within(x), yTicks, c.X, c.Y)
	if zero != "" {
		below(&b, plotBottom+17, []float64{zeroAt}, []string{zero}, 1)
	}
	var names legend
	looks := c.looks()
	curves := func(bound bool) {
		for i, l := range c.Lines {
			if l.Bound == bound && (l.Bound || !c.Apart) {
				curve(&b, looks[i], l.Points, x, y)
			}
		}
	}
	bars := bins && sets == 1
	if !c.Apart || bins && !bars {
		curves(true)
	}
	curves(false)
	for i, l := range c.Lines {
		key := looks[i].dot(15, 6)
		switch {
		case !l.Bound && bars:
			key = `<rect class="solid c0" x="2" y="1" width="26" height="10"/>`
		case l.Bound || !c.Apart:
			key = looks[i].stroke("1,6 29,6") + key
		}
		if l.Bound && !c.Apart {
			l.Name += " (bound)"
		}
		if len(c.Lines) > 1 && l.Name != "" {
			names.add(key, l.Name)
		}
	}
	for _, m := range c.marks(x, y) {
		l, k, n, p := c.Lines[m.line], looks[m.line], float64(m.n), m.first
		says := fmt.Sprintf("%s at %s: %s", l.Name, exact(p.X), exact(p.Y))
		if p.bin.N > 0 {
			says = fmt.Sprintf("%s from %s to %s: %s", l.Name, exact(p.bin.From), exact(p.bin.To), exact(p.Y))
		}
		if m.n > 1 {
			says += fmt.Sprintf(", and %s near that", exact(n-1))
		}
		if low, high := c.ends(l, p); low < high && m.n == 1 {
			fmt.Fprintf(&b, `<line class="line %s" x1="%s" x2="%[2]s" y1="%s" y2="%s"/>`, k.class, pct(m.x), px(y.at(low)), px(y.at(high)))
		}
		if bars {
			from, to := zeroAt-3., zeroAt+3.
			if !c.LogX || p.bin.From > 0 {
				from, to = x.at(p.bin.From), x.at(p.bin.To)
			}
			bar(&b, `class="solid bin c0"`, pct(from), px(y.at(p.Y)), pct(to-from), px(plotBottom-y.at(p.Y)), strings.TrimSpace(says))
		} else {
			place(&b, k, m.x/n, m.y/n, min(2.4, 1+math.Log10(n)/3), strings.TrimSpace(says))
		}
	}
	if c.Apart && (bars || !bins) { // over what is dense
		curves(true)
	}
	b.WriteString(`</svg>`)
	return names.over(b.String())
}

// ends returns the ends of a point's error bar, or its Y twice.
func (c Chart) ends(l Line, p Point) (low, high float64) {
	if l.Bound || c.Apart || !(p.Spread > 0 && p.Spread < 1e300) {
		return p.Y, p.Y
	}
	if low = p.Y - p.Spread; c.LogY {
		low = max(low, p.Y/10)
	}
	return low, p.Y + p.Spread
}

// A mark is one or more points of a line at nearly the same place.
type mark struct {
	line, n int
	first   Point
	x, y    float64 // sums of their positions
}

// marks returns the marks of all points but those of bounds, of cells as small as their number permits.
func (c Chart) marks(x, y scale) (marks []mark) {
	size := .5 // pixels of a narrow screen
	if c.Apart {
		size = 2
	}
again:
	for ; ; size *= 1.4 {
		index := map[[3]int]int{}
		marks = marks[:0]
		for i, l := range c.Lines {
			if l.Bound {
				continue
			}
			for _, p := range l.Points {
				at := Point{X: x.at(p.X), Y: y.at(p.Y)}
				cell := [3]int{i, int(at.X*plotNarrow/100/size + 1e-7), int(at.Y/size + 1e-7)}
				k, ok := index[cell]
				if !ok || p.bin.N > 0 {
					if k = len(marks); k == chartMarks && size < plotHeight {
						continue again
					}
					index[cell] = k
					marks = append(marks, mark{line: i, first: p})
				}
				marks[k].n++
				marks[k].x += at.X
				marks[k].y += at.Y
			}
		}
		return marks
	}
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

func (c Chart) looks() []look {
	list := make([]look, len(c.Lines))
	lines, bounds := 0, 0
	for i, l := range c.Lines {
		if l.Bound {
			class := "bound"
			if c.Apart {
				class = "law"
			}
			list[i] = look{class, -1, []string{"7 4", "2 3", "10 3 2 3", "4 2"}[bounds%4]}
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
func (k look) key() string {
	return key(k.stroke("1,6 29,6") + k.dot(15, 6))
}
