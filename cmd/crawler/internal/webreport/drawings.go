package webreport

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/parleyweb/parley/internal/chart"
)

// A drawing draws a table, of one collection or of two, which are compared by shares. The id is the prefix of the ids within.
type drawing func(v *view, title, id string) string

// A source is one of the collections; a single one needs no name.
type source struct {
	name string
	tables
}

// sources returns the collections that have a table: that of logs belongs to the first one.
func (v *view) sources(name string) []source {
	if v.others.table(name).Columns == nil {
		return []source{{"", v.tables}}
	}
	return []source{{v.Name, v.tables}, {v.Other, v.others}}
}

// series returns the names of the bars for each collection, and the unit and the size of one, of a whole.
func (v *view) series(name, of string, names ...string) (series []string, unit string, size func(n, whole float64) float64) {
	if len(v.sources(name)) == 1 {
		if len(names) == 1 {
			names = nil
		}
		return names, of, func(n, _ float64) float64 { return n }
	}
	return []string{v.Name, v.Other}, "% of the " + of, func(n, whole float64) float64 { return math.Round(1e4*n/max(whole, 1)) / 100 }
}

// mostBars is how many bars are drawn of those that are sorted by length.
const mostBars = 16

// bars draws what the rows of a table add up to by a column, the largest first.
func bars(name, by, of string) drawing {
	return func(v *view, title, id string) string {
		c, list := chart.Bars{Title: title}, []piece(nil)
		var size func(n, whole float64) float64
		c.Series, c.Unit, size = v.series(name, strings.ReplaceAll(of, "_", " "))
		for i, s := range v.sources(name) {
			pieces, whole := s.table(name).pieces(by, of)
			if i == 0 {
				list = largest(pieces)[:min(len(pieces), mostBars)]
				c.Rows = make([]chart.Row, len(list))
			}
			for j, p := range list {
				k := slices.IndexFunc(pieces, func(other piece) bool { return other.name == p.name })
				n := 0.
				if k >= 0 {
					n = pieces[k].size
				}
				c.Rows[j].Label, c.Rows[j].Values = p.shown(by), append(c.Rows[j].Values, size(n, whole))
			}
		}
		if len(list) < 2 {
			return ""
		}
		return c.SVG(id)
	}
}

// mostLevels and mostClasses are how many are drawn.
const mostLevels, mostClasses = 100, 500

// columns draws the sums of columns by the whole numbers in the first one, if there are two or more of these.
func columns(name, unit string, of ...string) drawing {
	return func(v *view, title, id string) string {
		c := chart.Bars{Title: title, Upright: true, Stacked: len(v.sources(name)) == 1, X: v.tables.table(name).Columns[0]}
		var size func(n, whole float64) float64
		c.Series, c.Unit, size = v.series(name, unit, of...)
		for i, s := range v.sources(name) {
			t, whole, parts := s.table(name), 0., [][]float64(nil)
			for _, column := range of {
				parts = append(parts, t.column(column))
				whole += total(t.column(column))
			}
			for j, row := range t.Rows {
				level := int(number(row[0]))
				if level > mostLevels {
					break
				}
				for n := len(c.Rows); n <= level; n++ {
					c.Rows = append(c.Rows, chart.Row{Label: fmt.Sprint(n), Values: make([]float64, max(len(of), 2))})
				}
				for k, part := range parts {
					if !c.Stacked {
						k = i
					}
					c.Rows[level].Values[k] += size(part[j], whole)
				}
			}
		}
		if len(c.Rows) < 2 {
			return ""
		}
		return c.SVG(id)
	}
}

// mostNames is how many are told apart in a drawing.
const mostNames = 5

// byLevel draws how each level is divided by a column, of the first collection: by the first of several numbers that is there.
func byLevel(name, by string, of ...string) drawing {
	return func(v *view, title, id string) string {
		t := v.tables.table(name)
		for len(of) > 1 && total(t.column(of[0])) == 0 {
			of = of[1:]
		}
		list, _ := t.pieces(by, of[0])
		c := chart.Bars{Title: title, Upright: true, Shares: true, Unit: "pages", X: t.Columns[0]}
		for _, p := range largest(list)[:min(len(list), mostNames)] {
			c.Series = append(c.Series, p.name)
		}
		if len(list) > mostNames {
			c.Series = append(c.Series, "others")
		}
		for i, n := range t.column(of[0]) {
			if len(c.Rows) > mostLevels {
				break
			}
			level, name := cellText(t.Rows[i][0]), cellText(cell(t.Rows[i], slices.Index(t.Columns, by)))
			if rows := len(c.Rows); rows == 0 || c.Rows[rows-1].Label != level {
				c.Rows = append(c.Rows, chart.Row{Label: level, Values: make([]float64, len(c.Series)+1)})
			}
			at := slices.Index(c.Series, name)
			if at < 0 {
				at = len(c.Series) - 1
			}
			c.Rows[len(c.Rows)-1].Values[max(at, 0)] += n
		}
		if len(c.Rows) < 2 {
			return ""
		}
		return c.SVG(id)
	}
}

// fewestBins is how many classes that are not empty a histogram has at least: fewer say nothing that their table does not.
const fewestBins = 3

// histograms draws how many things there are in each class, and the laws that they follow: pairs are columns with numbers, and what these
// are of, by which the laws are named.
func histograms(name, of, unit string, pairs ...string) drawing {
	return func(v *view, title, id string) string {
		var b strings.Builder
		for i := 0; i < len(pairs); i += 2 {
			column, quantity := pairs[i], pairs[i+1]
			c := chart.Histogram{Title: title, X: quantity, Y: "share of " + of + " per " + unit, Density: true}
			if len(pairs) > 2 {
				c.Title = title + ": " + column
			}
			bins := 0
			for _, s := range v.sources(name) {
				t := s.table(name)
				ends, n := t.ends(), t.column(column)
				counts, whole := chart.Counts{Name: s.name}, total(n)
				for j, row := range t.Rows[:min(len(t.Rows), mostClasses)] {
					if ends[j] > noScore && n[j] > 0 {
						counts.Bins = append(counts.Bins, chart.Bin{From: number(row[0]), To: ends[j], N: n[j]})
					}
				}
				bins = max(bins, len(counts.Bins))
				c.Counts = append(c.Counts, counts)
				if l := s.law(quantity); l != nil && len(ends) > 0 {
					c.EvenX = l.kind == "exponential"
					c.Fits = append(c.Fits, chart.Curve(strings.TrimSpace(s.name+" "+l.String()), l.from, slices.Max(ends), l.density(whole)))
				}
			}
			if bins >= fewestBins {
				fmt.Fprintf(&b, "%s", c.SVG(fmt.Sprintf("%s-%d", id, i)))
			}
		}
		return b.String()
	}
}

// noScore is before which scores count as zero: they are not drawn.
const noScore = 1e-6

// ends returns the numbers before which the classes of a table end: those after a whole number, or numbers with one digit.
func (t *table) ends() (list []float64) {
	to := t.column("to")
	for i, row := range t.Rows {
		from := number(row[0])
		switch {
		case to != nil:
			list = append(list, to[i]+1)
		case t.Columns[0] != "from":
			list = append(list, from+1)
		case from == 0:
			list = append(list, noScore)
		default:
			list = append(list, from+math.Pow(10, math.Floor(math.Log10(from)+1e-9)))
		}
	}
	return list
}

// points draws a column over the first one: points on logarithmic axes, or a line.
func points(name, of, x, y string, log bool) drawing {
	return func(v *view, title, id string) string {
		c, most := chart.Chart{Title: title, X: x, Y: y, LogX: log, LogY: log, Apart: log}, 0
		for _, s := range v.sources(name) {
			t, set := s.table(name), chart.Line{Name: s.name}
			for i, n := range t.column(of) {
				set.Points = append(set.Points, chart.Point{X: number(t.Rows[i][0]), Y: n})
			}
			c.Lines, most = append(c.Lines, set), max(most, len(set.Points))
		}
		if most < 2 {
			return ""
		}
		return c.SVG(id)
	}
}

// drawBowtie draws the parts of the graph of sites.
func drawBowtie(v *view, title, id string) string {
	if len(v.sources("bowtie")) > 1 {
		return bars("bowtie", "part", "sites")(v, title, id)
	}
	if v.tables.figure("sites") < 2 {
		return ""
	}
	size := func(prefix string) (n int) {
		t := v.tables.table("bowtie")
		for i, x := range t.column("sites") {
			if strings.HasPrefix(cellText(t.Rows[i][0]), prefix) {
				n += int(x)
			}
		}
		return n
	}
	return chart.BowTie{Title: title, Unit: "sites", Main: size("MAIN"), In: size("IN"), Out: size("OUT"), TIn: size("T-IN"), TOut: size("T-OUT"), Tunnel: size("TUNNEL"),
		Island: size("ISLAND")}.SVG(id)
}
