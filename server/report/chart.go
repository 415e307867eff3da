package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
)

// A column of a chart: crawlers below, everybody else above.
type column struct {
	label string // below it
	name  string // in words
	span  Span
}

// The measures of a chart, in its own units.
const (
	chartWidth  = 720
	chartHeight = 200
	chartLeft   = 56 // for the numbers of the axis
	chartBottom = 22 // for the labels
	chartTop    = 8
	maxColumns  = 100
	maxLabels   = 12
)

// dayChart draws the days, or if there are very many as many together as it
// takes, and says which.
func dayChart(days []Day) (template.HTML, string) {
	per := 1
	title := "Requests by day"
	for _, step := range []int{7, 28, 91, 364, 3640} {
		if len(days) <= per*maxColumns {
			break
		}
		per = step
		title = fmt.Sprintf("Requests by %d days", per)
	}
	columns := []column{}
	for i := 0; i < len(days); i += per {
		c := column{label: shortDate(days[i].Date), name: days[i].Date}
		for _, d := range days[i:min(i+per, len(days))] {
			c.span.Traffic.add(d.Traffic)
			c.span.Crawlers.add(d.Crawlers)
		}
		columns = append(columns, c)
	}
	return columnSVG("days", title, columns), title
}

// columnSVG draws columns. The name makes the ids of its parts.
func columnSVG(name, title string, columns []column) template.HTML {
	if len(columns) == 0 {
		return ""
	}
	most := int64(1)
	for _, c := range columns {
		most = max(most, c.span.Requests)
	}
	step := niceStep(most)
	top := (most + step - 1) / step * step
	width, height := float64(chartWidth-chartLeft), float64(chartHeight-chartTop-chartBottom)
	y := func(n int64) float64 { return chartTop + height*(1-float64(n)/float64(top)) }

	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="chart" viewBox="0 0 %d %d" role="img" aria-labelledby="%s-title %[3]s-desc">`, chartWidth, chartHeight, name)
	fmt.Fprintf(&b, `<title id="%s-title">%s</title><desc id="%[1]s-desc">Columns of requests: crawlers below, everybody else above. The table below has the numbers.</desc>`, name, html.EscapeString(title))
	for n := int64(0); n <= top; n += step {
		fmt.Fprintf(&b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1[3]f"/>`, chartLeft, chartWidth, y(n))
		fmt.Fprintf(&b, `<text class="axis" x="%d" y="%.1f" text-anchor="end">%s</text>`, chartLeft-6, y(n)+4, short(n))
	}
	pitch := width / float64(len(columns))
	gap := min(pitch*0.2, 6)
	barWide := min(pitch-gap, 48)
	every := (len(columns) + maxLabels - 1) / maxLabels
	if len(columns) == 24 {
		every = 3
	}
	for i, c := range columns {
		x := chartLeft + pitch*float64(i) + (pitch-barWide)/2
		crawlers := c.span.Crawlers.Requests
		fmt.Fprintf(&b, `<g><title>%s: %s by crawlers, %s by others</title>`, html.EscapeString(c.name), count(crawlers), count(c.span.Requests-crawlers))
		fmt.Fprintf(&b, `<rect class="others" x="%.2f" y="%.2f" width="%.2f" height="%.2f"/>`, x, y(c.span.Requests), barWide, y(crawlers)-y(c.span.Requests))
		fmt.Fprintf(&b, `<rect class="crawlers" x="%.2f" y="%.2f" width="%.2f" height="%.2f"/></g>`, x, y(crawlers), barWide, y(0)-y(crawlers))
		if i%every == 0 {
			fmt.Fprintf(&b, `<text class="axis" x="%.2f" y="%d" text-anchor="middle">%s</text>`, x+barWide/2, chartHeight-6, html.EscapeString(c.label))
		}
	}
	b.WriteString(`</svg>`)
	return svg("%s", b.String())
}

// niceStep divides an axis up to n into two to five round steps.
func niceStep(n int64) int64 {
	rough := float64(n) / 4
	power := math.Pow(10, math.Floor(math.Log10(max(rough, 1))))
	for _, m := range []float64{1, 2, 5, 10} {
		if step := m * power; step >= rough {
			return int64(max(step, 1))
		}
	}
	return int64(10 * power)
}

// short writes the number of an axis: 1200 as 1.2 k.
func short(n int64) string {
	units := []string{"", " k", " M", " G", " T"}
	f, u := float64(n), 0
	for f >= 1000 && u+1 < len(units) {
		f, u = f/1000, u+1
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0") + units[u]
}
