package chart

import (
	"math"
)

// Histogram shows how many things there are of each size, on logarithmic axes, and lines fitted to that.
type Histogram struct {
	Title, X, Y string   // the quantities of the axes, with units
	Density     bool     // heights are counts / (width of the bin * all counts), as a fitted distribution has them, not counts
	EvenX       bool     // X is not logarithmic, so that an exponential distribution is a straight line
	Counts      []Counts // one is drawn as bars, several, such as those of two collections, as points
	Fits        []Line   // such as Curve's, in the units of both axes; the name says the law: "k^-2.10 from 8 on"
}

// Counts are the counts of one collection.
type Counts struct {
	Name string
	Bins []Bin
}

// A Bin has how many are of From or more and less than To. If X is logarithmic, a bin from 0 on stands apart at the left.
type Bin struct{ From, To, N float64 }

// Curve returns a line through f at 100 places, at equal distances on a logarithmic axis if both ends are above 0.
func Curve(name string, from, to float64, f func(x float64) float64) Line {
	l := Line{Name: name}
	for i := range 100 {
		share := float64(i) / 99
		x := from + float64(share*(to-from))
		if from > 0 && to > 0 {
			x = from * math.Pow(to/from, share)
		}
		l.Points = append(l.Points, Point{X: x, Y: f(x)})
	}
	return l
}

// SVG draws the histogram; without counts it is empty. The name is the prefix of the ids of its parts, unique on a page.
func (c Histogram) SVG(name string) string {
	d := Chart{Title: c.Title, X: c.X, Y: c.Y, LogX: !c.EvenX, LogY: true, Apart: true}
	for _, s := range c.Counts {
		l, all := Line{Name: s.Name}, 0.
		for _, b := range s.Bins {
			if !(b.N > 1e-290 && b.N < 1e290 && b.From < b.To && b.From > -1e290 && b.To < 1e290 && (c.EvenX || b.From >= 0)) {
				continue
			}
			p := Point{X: b.From/2 + b.To/2, Y: b.N, bin: b}
			if d.LogX {
				p.X = math.Sqrt(b.From) * math.Sqrt(b.To) // 0 if From is
			}
			l.Points = append(l.Points, p)
			all += b.N
		}
		for i, p := range l.Points {
			if c.Density {
				l.Points[i].Y = p.Y / all / (p.bin.To - p.bin.From)
			}
		}
		d.Lines = append(d.Lines, l)
	}
	for _, l := range c.Fits {
		l.Bound = true
		d.Lines = append(d.Lines, l)
	}
	return d.SVG(name)
}
