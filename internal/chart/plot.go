package chart

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/parleyweb/parley/internal/digits"
)

// A plot is a drawing whose text has the same size on every screen: horizontal positions are percentages of its
// width, vertical ones are pixels. Texts at its edges stand in the padding that style.css gives it.
const (
	plotLeft, plotRight  = 52., 24.   // the padding
	plotNarrow, plotWide = 240., 524. // the least widths without padding, on a screen of 360 px, and where style.css calls it wide
	plotTop, plotBottom  = 26., 250.
	plotHeight           = 290.
	plotFills            = 7 // a colour and a pattern each
)

// plot opens a plot.
func plot(b *strings.Builder, class string, height float64, name, title, about string) {
	begin(b, fmt.Sprintf(`class="plot %s" height="%g"`, class, height), name, title, about)
}

// pct writes a position in percent, px one in pixels. Positions halfway between two numbers must not be rounded
// by the last bit, which depends on the processor.
func pct(x float64) string { return strconv.FormatFloat(x+1e-7, 'f', 2, 64) + "%" }

func px(x float64) string { return strconv.FormatFloat(x+1e-7, 'f', 1, 64) }

// axes draws what is around the data: a line for each tick of y, the ticks of x, and what x and y are.
func axes(b *strings.Builder, x, y scale, xTicks, yTicks []float64, xName, yName string) {
	var at []float64
	for _, v := range xTicks {
		at = append(at, x.at(v))
		fmt.Fprintf(b, `<line class="grid" x1="%s" x2="%[1]s" y1="%s" y2="%s"/>`, pct(x.at(v)), px(plotTop), px(plotBottom+4))
	}
	levels(b, y, yTicks, tickTexts(yTicks), yName)
	below(b, plotBottom+17, at, tickTexts(xTicks), 1)
	nameX(b, xName)
}

// nameX writes below a plot what its horizontal positions are.
func nameX(b *strings.Builder, name string) {
	if name != "" {
		fmt.Fprintf(b, `<text class="axis" x="50%%" y="%g" text-anchor="middle">%s</text>`, plotHeight-6, esc(fit(name, plotNarrow+2*plotRight)))
	}
}

// levels draws lines at ticks of y across a plot, with their numbers, and above them what they are.
func levels(b *strings.Builder, y scale, ticks []float64, texts []string, name string) {
	for i, v := range ticks {
		fmt.Fprintf(b, `<line class="grid" x1="0" x2="100%%" y1="%s" y2="%[1]s"/>`, px(y.at(v)))
		fmt.Fprintf(b, `<text class="axis" x="-7" y="%s" text-anchor="end">%s</text>`, px(y.at(v)+4), fit(texts[i], plotLeft-8))
	}
	fmt.Fprintf(b, `<text class="axis" x="%g" y="11">%s</text>`, 2-plotLeft, esc(fit(name, plotNarrow+plotLeft)))
}

// below writes texts below a plot, centred at percentages of its width, for a wide and for a narrow screen: as many as fit
// there, namely each n-th, n being a multiple of every.
func below(b *strings.Builder, y float64, at []float64, texts []string, every int) {
	every = max(1, every)
	for screen, width := range [2]float64{plotWide, plotNarrow} {
		step, room := every, min(150, max(72, width/float64(len(texts))-7))
		half := func(i int) float64 { return extent(fit(texts[i], room)) / 2 }
		for i := step; i < len(texts); i += step {
			if float64((at[i]-at[i-step])/100*width) < half(i)+half(i-step)+7 {
				step += every
				i = 0
			}
		}
		for i := 0; i < len(texts); i += step {
			if float64(at[i]/100*width)+half(i) <= width+plotRight {
				fmt.Fprintf(b, `<text class="axis %s" x="%s" y="%g" text-anchor="middle">%s</text>`, [2]string{"more", "less"}[screen], pct(at[i]), y, esc(fit(texts[i], room)))
			}
		}
	}
}

// curve draws a line between points, cut off at the ends of the axes.
func curve(b *strings.Builder, k look, points []Point, x, y scale) {
	if len(points) == 0 {
		return
	}
	var path strings.Builder
	for _, p := range points {
		fmt.Fprintf(&path, "%.2f,%s ", min(max(x.at(p.X), -1e4), 1e4)+1e-7, px(min(max(y.at(p.Y), -1e4), 1e4)))
	}
	list, halo := strings.TrimSpace(path.String()), ""
	if k.class == "law" { // it crosses bars and points
		halo = `<polyline class="halo" points="` + list + `"/>`
	}
	fmt.Fprintf(b, `<svg class="cut" aria-hidden="true" y="%g" width="100%%" height="%g" viewBox="0 %[1]g 100 %[2]g" preserveAspectRatio="none">%[3]s%[4]s</svg>`,
		plotTop, plotBottom-plotTop, halo, k.stroke(list))
}

// place draws a mark, of size 1 or more, with its tooltip.
func place(b *strings.Builder, k look, x, y, size float64, says string) {
	dot := k.dot(0, 0)
	if size > 1 {
		dot = fmt.Sprintf(`<g transform="scale(%s)">%s</g>`, px(size), dot)
	}
	fmt.Fprintf(b, `<svg aria-hidden="true" x="%s" y="%s"><title>%s</title>%s</svg>`, pct(x), px(y), esc(says), dot)
}

// A legend is the names of what a drawing distinguishes, as HTML above it, where they wrap.
type legend struct{ strings.Builder }

func (l *legend) add(drawing, name string) {
	fmt.Fprintf(l, `<span>%s%s</span> `, key(drawing), esc(fit(name, 500)))
}

func key(drawing string) string {
	return `<svg class="key" viewBox="0 0 30 12" aria-hidden="true">` + drawing + `</svg>`
}

// over puts the legend above the drawing.
func (l *legend) over(drawing string) string {
	if l.Len() == 0 {
		return drawing
	}
	return `<span class="keys">` + strings.TrimSpace(l.String()) + `</span>` + drawing
}

// paint returns the attributes that fill something as the i-th of several, distinguishable without colours;
// patterns must have drawn the patterns of that name.
func paint(name string, i int) string {
	if i == 0 {
		return `class="solid c0"`
	}
	return fmt.Sprintf(`class="part c%d" fill="url(#%s-fill-%d)"`, i%plotFills, esc(name), i)
}

// patterns defines what paint fills with, for the second to the n-th of several.
func patterns(b *strings.Builder, name string, n int) {
	for i := 1; i < n; i++ {
		path := []string{"", "M-1,1L1,-1M0,6L6,0M5,7L7,5", "M1,1.5h2M4,4.5h2", "M-1,5L1,7M0,0L6,6M5,-1L7,1", "M0,0L6,6M0,6L6,0", "M0,3H6", "M3,0V6"}[(i+i/plotFills)%plotFills]
		fmt.Fprintf(b, `<pattern id="%s-fill-%d" width="6" height="6" patternUnits="userSpaceOnUse"><rect class="solid c%d" width="6" height="6"/>`, esc(name), i, i%plotFills)
		if path != "" {
			fmt.Fprintf(b, `<path class="hatch" d="%s"/>`, path)
		}
		b.WriteString(`</pattern>`)
	}
}

// tickTexts returns the texts of ticks, short if that loses no digit.
func tickTexts(ticks []float64) (texts []string) {
	lossy := false
	for _, v := range ticks {
		n := math.Abs(v)
		for n >= 1000 && n < 1e15 {
			n /= 1000
		}
		lossy = lossy || n != math.Abs(v) && math.Abs(10*n-math.Round(10*n)) > 1e-6
		texts = append(texts, brief(v))
		if e := math.Round(math.Log10(n)); n > 0 && e < -4 && v == math.Pow(10, e) {
			texts[len(texts)-1] = "10" + superscript(int(e))
		}
	}
	for i := range texts {
		if lossy {
			texts[i] = strconv.FormatFloat(ticks[i], 'g', 7, 64)
		}
	}
	return texts
}

// superscript formats an exponent.
func superscript(n int) string {
	return strings.NewReplacer("-", "⁻", "0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴", "5", "⁵", "6", "⁶", "7", "⁷", "8", "⁸", "9", "⁹").Replace(strconv.Itoa(n))
}

// extent estimates the width of a text in pixels, in the wider of the usual fonts.
func extent(s string) (width float64) {
	for _, r := range s {
		switch {
		case r >= 0x1100 && r != '–' && r != '…': // East Asian characters, pictures
			width += 13
		case strings.ContainsRune("mwMW@%…", r):
			width += 11.5
		case unicode.IsUpper(r) && r > 0x24f: // Cyrillic and others
			width += 14.5
		case unicode.IsUpper(r), r > 0x24f:
			width += 8.7
		case strings.ContainsRune("ijltfrI.,:;'|!()[] -", r):
			width += 4.9
		default:
			width += 7.4
		}
	}
	return width
}

// fit shortens a text to a width in pixels.
func fit(s string, width float64) string {
	s = clean(s)
	used, cut := 0., 0
	for i, r := range s {
		if used+extent("…") <= width {
			cut = i
		}
		if used += extent(string(r)); used > width {
			return s[:cut] + "…"
		}
	}
	return s
}

// brief formats a number for an axis or a label, such as 1200 as 1.2 k; exact formats one for a tooltip.
func brief(x float64) string {
	a, units, u := math.Abs(x), []string{"", " k", " M", " G", " T"}, 0
	switch {
	case math.IsNaN(a) || math.IsInf(a, 0):
		return "–"
	case a >= 999.95e12, a > 0 && a < .001:
		return strconv.FormatFloat(x, 'g', 2, 64)
	case a < 1000 && x != math.Trunc(x):
		return number(x)
	}
	for ; math.Abs(x) >= 999.95; u++ {
		x /= 1000
	}
	return strings.TrimSuffix(strconv.FormatFloat(x, 'f', 1, 64), ".0") + units[u]
}

// beside formats a number for the room beside a bar.
func beside(x float64) string {
	if s := exact(x); extent(s) <= 55 {
		return s
	}
	return brief(x)
}

func exact(x float64) string {
	if a := math.Abs(x); !(a >= 1000 && a < 1e15) {
		return brief(x)
	}
	return digits.Group(strconv.FormatFloat(x, 'f', 0, 64), ",")
}

// within returns the ticks of an axis that lie between its ends; if none does, the ends.
func within(s scale) (ticks []float64) {
	_, _, ticks = evenTicks(s.low, s.high)
	if s.log {
		_, _, ticks = logTicks(s.low, s.high)
	}
	ticks = slices.DeleteFunc(ticks, func(v float64) bool { return !(v >= s.low && v <= s.high) })
	if len(ticks) == 0 {
		return []float64{s.low, s.high}
	}
	return ticks
}
