package report

import (
	"fmt"

	"github.com/parleyweb/parley/internal/chart"
)

const maxColumns = 100 // of days

// columns draws requests: those of crawlers below, all others above.
func columns(name, title string, every int, list []chart.Row) string {
	return chart.Bars{Title: title, About: "Columns of requests: crawlers below, all other clients above",
		Classes: []string{"crawlers", "others"}, Upright: true, Stacked: true, Every: every, Rows: list}.SVG(name)
}

func column(label, name string, s Span) chart.Row {
	crawlers := s.Crawlers.Requests
	return chart.Row{Label: label, Values: []float64{float64(crawlers), float64(s.Requests - crawlers)},
		Says: fmt.Sprintf("%s: %s by crawlers, %s by others", name, count(crawlers), count(s.Requests-crawlers))}
}

// dayChart draws the days, or groups of days if there are very many, and returns a title that says so.
func dayChart(days []Day) (string, string) {
	per := 1
	title := "Requests by day"
	for _, step := range []int{7, 28, 91, 364, 3640} {
		if len(days) <= per*maxColumns {
			break
		}
		per = step
		title = fmt.Sprintf("Requests by %d days", per)
	}
	var list []chart.Row
	for i := 0; i < len(days); i += per {
		var s Span
		for _, d := range days[i:min(i+per, len(days))] {
			s.Traffic.add(d.Traffic)
			s.Crawlers.add(d.Crawlers)
		}
		list = append(list, column(shortDate(days[i].Date), days[i].Date, s))
	}
	return columns("days", title, 0, list), title
}

// barOf draws one part of a whole; a part above zero is always visible.
func barOf(class string, n, whole int64) string {
	size := float64(n)
	if n > 0 {
		size = max(size, float64(whole)/200)
	}
	return chart.Bar(float64(whole), chart.Part{Class: class, Size: size})
}

// stack draws the parts of a whole side by side.
func stack(list []part, whole int64) string {
	var parts []chart.Part
	for _, p := range list {
		parts = append(parts, chart.Part{Class: p.Class, Size: float64(p.Requests)})
	}
	return chart.Bar(float64(whole), parts...)
}
