package chart

import (
	"fmt"
	"math"
	"strings"
)

// Bars compares numbers by lengths: a row has one bar, or several, such as those of two collections.
type Bars struct {
	Title, About string   // for screen readers
	Unit         string   // of the numbers, such as "pages"
	X            string   // if upright, what the labels are, such as "depth"
	Series       []string // names of the bars of a row; not needed if a row has one
	Classes      []string // CSS classes of the series, in place of this package's colours and patterns
	Upright      bool     // from left to right, for rows in an order, such as depths; otherwise from top to bottom, for longer labels
	Stacked      bool     // the bars of a row are drawn end to end, not beside each other
	Shares       bool     // the same, each as its share of the row's sum
	Every        int      // if upright, at most each Every-th row is labelled; 0: as many as there is room for
	Rows         []Row    // at most 400 are drawn if upright, else 40
}

// A Row is a label with its numbers, at most 40. Negative numbers, and those that are not finite, have no length.
type Row struct {
	Label  string
	Says   string // the tooltip; empty: label, series and number
	Values []float64
}

// length returns the number that is drawn for a series.
func (r Row) length(series int) float64 {
	if series < len(r.Values) && r.Values[series] > 1e-290 && r.Values[series] < 1e290 {
		return r.Values[series]
	}
	return 0
}

// SVG draws the bars; without rows it is empty. The name is the prefix of the ids of its parts, unique on a page.
func (c Bars) SVG(name string) string {
	n, rows := max(1, len(c.Series)), c.Rows[:min(len(c.Rows), 40)]
	if c.Upright {
		rows = c.Rows[:min(len(c.Rows), 400)]
	}
	if len(rows) == 0 {
		return ""
	}
	for _, r := range rows {
		n = max(n, len(r.Values))
	}
	n = min(n, 40)
	c.Stacked = c.Stacked || c.Shares
	sums, high, whole := make([]float64, len(rows)), 0., true
	for i, r := range rows {
		for j := range n {
			v := r.length(j)
			sums[i], high, whole = sums[i]+v, max(high, v), whole && v == math.Trunc(v)
		}
		if c.Stacked {
			high = max(high, sums[i])
		}
	}
	if c.Shares || high == 0 {
		high = 1
	}
	var b strings.Builder
	var at []float64 // the middle of each row: in percent if upright, else in pixels
	abreast := n     // so many bars of a row lie beside each other
	if c.Stacked {
		abreast = 1
	}
	thick := 15. // of a bar
	if c.Upright {
		at, high = c.upright(&b, name, len(rows), high, whole)
		thick = min(80/float64(len(rows)), 9) / float64(abreast)
	} else {
		if abreast > 1 {
			thick = 13
		}
		at = c.flat(&b, name, rows, thick*float64(abreast))
	}
	if len(c.Classes) == 0 {
		patterns(&b, name, n)
	}
	for i, r := range rows {
		from, side := 0., at[i]-float64(thick*float64(abreast))/2
		for j := range n {
			v := r.length(j)
			size := v / high
			if c.Shares && v > 0 {
				size = v / sums[i]
			}
			if v > 0 && c.Upright {
				length := plotBottom - plotTop
				bar(&b, c.paint(name, j), pct(side), px(plotBottom-float64((from+size)*length)), pct(thick), px(size*length), c.says(r, j, sums[i]))
			} else if v > 0 {
				bar(&b, c.paint(name, j), pct(100*from), px(side), pct(100*size), px(thick-1), c.says(r, j, sums[i]))
			}
			if c.Stacked {
				from += size
				continue
			}
			if !c.Upright && j < len(r.Values) {
				fmt.Fprintf(&b, `<text class="axis" x="%s" dx="6" y="%s">%s</text>`, pct(100*size), px(side+thick/2+3.5), beside(r.Values[j]))
			}
			side += thick
		}
		if c.Stacked && !c.Shares && !c.Upright {
			fmt.Fprintf(&b, `<text class="axis" x="%s" dx="6" y="%s">%s</text>`, pct(100*from), px(at[i]+4), beside(sums[i]))
		}
	}
	b.WriteString(`</svg>`)
	var l legend
	for j, s := range c.Series[:min(n, len(c.Series))] {
		l.add(`<rect `+c.paint(name, j)+` x="2" y="1" width="26" height="10"/>`, s)
	}
	return l.over(b.String())
}

func bar(b *strings.Builder, paint, x, y, width, height, says string) {
	fmt.Fprintf(b, `<rect %s x="%s" y="%s" width="%s" height="%s"><title>%s</title></rect>`, paint, x, y, width, height, esc(says))
}

func (c Bars) paint(name string, series int) string {
	if len(c.Classes) > 0 {
		return fmt.Sprintf(`class="%s"`, esc(c.Classes[series%len(c.Classes)]))
	}
	return paint(name, series)
}

// says returns the tooltip of a bar.
func (c Bars) says(r Row, series int, sum float64) string {
	if r.Says != "" {
		return r.Says
	}
	s := r.Label
	if series < len(c.Series) {
		s += ", " + c.Series[series]
	}
	s += ": " + strings.TrimSpace(exact(r.length(series))+" "+c.Unit)
	if c.Stacked {
		s += fmt.Sprintf(", %.1f %%", 100*r.length(series)/sum)
	}
	return s
}

// upright begins bars that stand on an axis. It returns the middle of each row, and the highest number of the axis.
func (c Bars) upright(b *strings.Builder, name string, n int, high float64, whole bool) (at []float64, _ float64) {
	height := plotBottom + 24.
	if c.X != "" {
		height = plotHeight
	}
	plot(b, "", height, name, c.Title, c.About)
	step, unit := roundStep(high/4), c.Unit // two to five steps
	if c.Shares {
		step, unit = .25, strings.TrimSuffix("share of "+unit, " of ")
	} else if whole {
		step = max(1, step)
	}
	steps := math.Ceil(high / step)
	var ticks []float64
	var texts, labels []string
	for i := range int(steps) + 1 {
		v := float64(i) * step
		ticks, texts = append(ticks, v), append(texts, brief(v))
		if c.Shares {
			texts[i] = brief(100*v) + " %"
		}
	}
	levels(b, scale{low: 0, high: steps * step, from: plotBottom, to: plotTop}, ticks, texts, unit)
	for i, r := range c.Rows[:n] {
		at, labels = append(at, 100*(float64(i)+.5)/float64(n)), append(labels, r.Label)
	}
	below(b, plotBottom+17, at, labels, c.Every)
	nameX(b, c.X)
	return at, steps * step
}

// flat begins bars that lie below each other. It returns the middle of each row.
func (c Bars) flat(b *strings.Builder, name string, rows []Row, thick float64) (at []float64) {
	class, room, longest := "rows", 58., 0.
	for _, r := range rows {
		longest = max(longest, extent(fit(r.Label, 400)))
	}
	if longest > room {
		class, room = "rows mid", 100
	}
	if longest > room {
		class = "rows long"
	}
	pitch := thick + 8
	bottom := pitch * float64(len(rows))
	plot(b, class, bottom+20, name, c.Title, c.About)
	if c.Shares {
		for i := range 5 {
			fmt.Fprintf(b, `<line class="grid" x1="%d%%" x2="%[1]d%%" y1="0" y2="%s"/>`, 25*i, px(bottom+3))
			if i%2 == 0 {
				fmt.Fprintf(b, `<text class="axis" x="%d%%" y="%s" text-anchor="middle">%[1]d %%</text>`, 25*i, px(bottom+16))
			}
		}
	} else {
		fmt.Fprintf(b, `<line class="grid" x1="0" x2="0" y1="0" y2="%s"/><text class="axis" x="0" y="%s">%s</text>`, px(bottom), px(bottom+16), esc(fit(c.Unit, 110)))
	}
	for i, r := range rows {
		at = append(at, pitch*(float64(i)+.5))
		label := func(class string, room float64) {
			fmt.Fprintf(b, `<text class="label%s" x="-8" y="%s" text-anchor="end">%s</text>`, class, px(at[i]+4), esc(fit(r.Label, room)))
		}
		if extent(fit(r.Label, 400)) <= room {
			label("", room)
		} else { // as much of it as there is room for
			label(" less", room)
			label(" more", 208)
		}
	}
	if more := len(c.Rows) - len(rows); more > 0 {
		fmt.Fprintf(b, `<text class="axis" x="-8" y="%s" text-anchor="end">%s more</text>`, px(bottom+16), brief(float64(more)))
	}
	return at
}

// A Part is a piece of a bar, drawn with a CSS class.
type Part struct {
	Class string
	Size  float64
}

// Bar draws parts of a whole beside each other. Screen readers skip it: the text has its numbers.
func Bar(whole float64, parts ...Part) string {
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
	return b.String()
}
