package chart_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parleyweb/parley/internal/chart"
)

type drawing interface {
	SVG(name string) string
}

// A shape is an element of a drawing.
type shape struct {
	name, text, tip string // its own text, and that of its title
	attr            map[string]string
	in              *shape
}

// percent and pixels return a position.
func (s shape) percent(name string) float64 { return parsed(strings.TrimSuffix(s.attr[name], "%")) }

func (s shape) pixels(name string) float64 { return parsed(s.attr[name]) }

func parsed(s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// shapes reads a drawing, strictly, and checks what all have in common.
func shapes(t *testing.T, d drawing) (list []*shape) {
	t.Helper()
	source := string(d.SVG("one"))
	ids, refs := map[string]bool{}, []string{}
	read := xml.NewDecoder(strings.NewReader("<figure>" + source + "</figure>"))
	var in *shape
	for {
		token, err := read.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in %s", err, source)
		}
		switch token := token.(type) {
		case xml.StartElement:
			s := &shape{name: token.Name.Local, attr: map[string]string{}, in: in}
			for _, a := range token.Attr {
				s.attr[a.Name.Local] = a.Value
				switch a.Name.Local {
				case "style", "href", "onclick":
					t.Errorf("a %s has %s", s.name, a.Name.Local)
				case "id":
					if ids[a.Value] || !strings.HasPrefix(a.Value, "one-") {
						t.Errorf("the id %q", a.Value)
					}
					ids[a.Value] = true
				case "aria-labelledby":
					refs = append(refs, strings.Fields(a.Value)...)
				case "fill":
					refs = append(refs, strings.TrimSuffix(strings.TrimPrefix(a.Value, "url(#"), ")"))
				case "x", "y", "x1", "x2", "y1", "y2", "width", "height", "points", "transform", "d":
					if a.Value == "" || strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") || strings.HasPrefix(a.Value, "-") && (a.Name.Local == "width" || a.Name.Local == "height") {
						t.Errorf("a %s at %s=%q", s.name, a.Name.Local, a.Value)
					}
				}
			}
			list = append(list, s)
			in = s
		case xml.EndElement:
			if in.name == "title" {
				in.in.tip = in.text
			}
			in = in.in
		case xml.CharData:
			if in != nil {
				in.text += string(token)
			}
		}
	}
	for _, r := range refs {
		if !ids[r] {
			t.Errorf("there is no %s", r)
		}
	}
	if source != "" && (len(refs) < 2 || !strings.Contains(source, ` role="img" `)) {
		t.Errorf("not described: %.200s", source)
	}
	return list
}

// marks returns the elements of one name that have a tooltip.
func marks(t *testing.T, d drawing, name string) (list []*shape) {
	t.Helper()
	for _, s := range shapes(t, d) {
		if s.name == name && s.tip != "" && s.attr["role"] == "" {
			list = append(list, s)
		}
	}
	return list
}

// examples has every kind of drawing.
func examples(label string, a, b, c float64) []drawing {
	rows := []chart.Row{{Label: label, Values: []float64{a, b}}, {Label: "b", Values: []float64{c}}, {}, {Label: label + label, Values: []float64{b, c, a}}}
	points := []chart.Line{{Name: label, Points: []chart.Point{{X: a, Y: b}, {X: b, Y: c}, {X: c, Y: a}}}, {Name: label, Bound: true, Points: []chart.Point{{X: c, Y: b}, {X: a, Y: c}}}}
	bins := []chart.Bin{{From: a, To: b, N: c}, {From: b, To: c, N: a}, {From: 0, To: a, N: b}, {From: c, To: a, N: 3}, {From: 1, To: 2, N: c}}
	fits := []chart.Line{chart.Curve(label, a, c, func(x float64) float64 { return b * math.Pow(x, c) }), points[1]}
	list := []drawing{
		chart.BowTie{Title: label, Unit: label, Main: int(min(max(a, -1e15), 1e15)), In: int(min(max(b, -1e15), 1e15)), Island: int(min(max(c, -1e15), 1e15)), TIn: 1},
		chart.Bars{Title: label, About: label, Unit: label, Rows: rows[:2], Series: []string{label}, Classes: []string{label}},
	}
	for i := range 8 {
		list = append(list, chart.Bars{Title: label, Unit: label, Series: []string{"x", label}, Rows: rows, Upright: i&1 > 0, Stacked: i&2 > 0, Shares: i&4 > 0, Every: int(min(max(a, -9), 9))},
			chart.Chart{Title: label, X: label, Y: label, Lines: points, LogX: i&1 > 0, LogY: i&2 > 0, Apart: i&4 > 0},
			chart.Histogram{Title: label, X: label, Y: label, Density: i&1 > 0, EvenX: i&2 > 0, Counts: []chart.Counts{{label, bins}, {"", bins[1:]}}[:1+i>>2], Fits: fits})
	}
	return list
}

// Whatever labels and numbers it is given, a drawing is whole, of a bounded size, and has no number that is none.
func FuzzDrawings(f *testing.F) {
	f.Add("a\x00b<script>&\"'\u202e", 1., 5., 9.)
	f.Add("", math.Inf(1), math.NaN(), -1.)
	f.Add("x", 1e308, -1e308, 0.)
	f.Add(strings.Repeat("W", 1000), 5e-324, 1e-300, 1e300)
	f.Add("years", 1950., 2000., 2004.)
	f.Add("near", 1000000., 1000000.001, 999999.)
	f.Add("ليس", -1e15, .1, .3)
	f.Fuzz(func(t *testing.T, label string, a, b, c float64) {
		for _, d := range examples(label, a, b, c) {
			s := d.SVG("one")
			if strings.Contains(string(s), "<script") || !utf8.ValidString(string(s)) || len(s) > 80000+100*len(label) {
				t.Fatalf("%d bytes: %.300s", len(s), s)
			}
			shapes(t, d)
		}
	})
}

// Without anything to draw, nothing is drawn.
func TestDrawingsOfNothing(t *testing.T) {
	nan := math.NaN()
	for _, d := range []drawing{chart.Bars{}, chart.Bars{Upright: true, Series: []string{"a"}}, chart.Chart{}, chart.Chart{Lines: []chart.Line{{Points: []chart.Point{{X: nan, Y: 1}}}}},
		chart.Chart{LogX: true, Lines: []chart.Line{{Points: []chart.Point{{X: 0, Y: 1}}}}},
		chart.Histogram{}, chart.Histogram{Counts: []chart.Counts{{Bins: []chart.Bin{{1, 2, 0}, {3, 2, 1}, {1, 2, nan}}}}, Fits: make([]chart.Line, 1)}, chart.BowTie{}, chart.BowTie{Main: -1}} {
		if s := d.SVG("x"); s != "" {
			t.Errorf("%#v: %s", d, s)
		}
	}
}

// The lengths of bars are as their numbers, and each has these as text.
func TestBarsAreAsLongAsTheirNumbers(t *testing.T) {
	rows := []chart.Row{{Label: "html", Values: []float64{3000, 1000}}, {Label: "pdf", Values: []float64{2000, 2000}}, {Label: "none", Values: []float64{0, math.NaN()}}, {Label: "less", Values: []float64{-1}}}
	c := chart.Bars{Title: "Types", Unit: "pages", Series: []string{"here", "there"}, Rows: rows}
	check := func(what string, c chart.Bars, from, size string, want ...float64) {
		t.Helper()
		list := marks(t, c, "rect")
		if len(list) != 4 {
			t.Fatalf("%s: %d bars", what, len(list))
		}
		for i, s := range list {
			if a, b := parsed(strings.TrimSuffix(s.attr[from], "%")), parsed(strings.TrimSuffix(s.attr[size], "%")); math.Abs(a-want[2*i]) > .11 || math.Abs(b-want[2*i+1]) > .11 {
				t.Errorf("%s: %s from %g, of %g; want %g", what, s.tip, a, b, want[2*i:2*i+2])
			}
		}
	}
	check("side by side", c, "x", "width", 0, 100, 0, 33.33, 0, 66.67, 0, 66.67)
	if s := string(c.SVG("x")); !strings.Contains(s, "<title>html, there: 1,000 pages</title>") || !strings.Contains(s, ">–</text>") || !strings.Contains(s, ">-1</text>") || !strings.Contains(s, ">3,000</text>") {
		t.Error(s)
	}
	stacked, shares, upright := c, c, c
	stacked.Stacked, shares.Shares, upright.Upright = true, true, true
	check("stacked", stacked, "x", "width", 0, 75, 75, 25, 0, 50, 50, 50)
	check("shares", shares, "x", "width", 0, 75, 75, 25, 0, 50, 50, 50)
	if tip := marks(t, shares, "rect")[1].tip; tip != "html, there: 1,000 pages, 25.0 %" {
		t.Error(tip)
	}
	check("upright", upright, "y", "height", 26, 224, 175.3, 74.7, 100.7, 149.3, 100.7, 149.3)
	upright.Stacked, upright.Shares = true, true
	check("upright shares", upright, "y", "height", 82, 168, 26, 56, 138, 112, 26, 112)
}

// Of seven series, and of two that share a colour, no two look alike.
func TestSeriesAreDistinguishable(t *testing.T) {
	c := chart.Bars{Stacked: true, Rows: []chart.Row{{Label: "a"}}}
	for i := range 20 {
		c.Series = append(c.Series, fmt.Sprint(i))
		c.Rows[0].Values = append(c.Rows[0].Values, 1)
	}
	fills, looks := map[string]string{"first": "solid c0"}, map[string]bool{}
	for _, s := range shapes(t, c) {
		if s.in != nil && s.in.name == "pattern" {
			fills[s.in.attr["id"]] += s.attr["class"] + s.attr["d"]
		}
	}
	for _, fill := range fills {
		looks[fill] = true
	}
	if len(looks) != 20 {
		t.Errorf("%d looks", len(looks))
	}
}

// Points at nearly the same place share a mark, and none is lost; a drawing of very many is small.
func TestScatterOfManyPoints(t *testing.T) {
	set := chart.Line{Name: "pages"}
	for i := range 200000 {
		set.Points = append(set.Points, chart.Point{X: float64(1 + i%977), Y: float64(1 + i*i%1009)})
	}
	set.Points = append(set.Points, chart.Point{X: 1e6, Y: 1e6})
	c := chart.Chart{X: "length", Y: "links", LogX: true, LogY: true, Apart: true, Lines: []chart.Line{set}}
	n, list := 0, marks(t, c, "svg")
	for _, s := range list {
		k := 0
		if _, rest, ok := strings.Cut(s.tip, ", and "); ok {
			fmt.Sscan(strings.ReplaceAll(rest, ",", ""), &k)
		}
		n += 1 + k
	}
	if n != len(set.Points) || len(list) > 1500 || len(list) < 500 {
		t.Errorf("%d points in %d marks", n, len(list))
	}
	last := list[len(list)-1]
	if last.tip != "pages at 1,000,000: 1,000,000" || last.percent("x") != 98 || last.pixels("y") != 26 {
		t.Errorf("the last: %+v", last)
	}
	if once, twice := c.SVG("x"), c.SVG("x"); once != twice {
		t.Error("not the same twice")
	}
}

// A power law goes through the tops of the bars that follow it; bins from 0 on stand apart.
func TestHistogramWithItsLaw(t *testing.T) {
	law := func(k float64) float64 { return .5 * math.Pow(k, -2) }
	c := chart.Histogram{X: "links", Y: "pages", Counts: []chart.Counts{{Name: "all", Bins: []chart.Bin{{From: 0, To: 1, N: 7}}}}, Fits: []chart.Line{chart.Curve("k^-2.00 from 1 on", 1, 1000, law)}}
	for _, k := range []float64{1, 10, 100} {
		c.Counts[0].Bins = append(c.Counts[0].Bins, chart.Bin{From: k, To: 10 * k, N: law(k) * 1e6})
	}
	c.Fits[0].Points = append(c.Fits[0].Points, chart.Point{X: 1e5, Y: math.NaN()})
	var tops []float64
	for _, s := range marks(t, c, "rect") {
		tops = append(tops, s.percent("x"), s.pixels("y"), s.pixels("y")+s.pixels("height"))
	}
	if len(tops) != 12 || tops[0] != 2 || tops[3] != 12 || math.Abs(tops[6]-40.67) > .01 || math.Abs(tops[9]-69.33) > .01 {
		t.Fatal("the bars stand at", tops)
	}
	if a, b := tops[7]-tops[4], tops[10]-tops[7]; math.Abs(a-b) > .11 || a < 10 || tops[2] != 250 || tops[11] != 250 {
		t.Error("the tops fall by", a, b)
	}
	c.Fits[0] = chart.Curve("k^-2.00 from 1 on", 1, 1000, func(x float64) float64 { return law(x) * 1e6 })
	drawn := shapes(t, c)
	found := false
	for _, s := range drawn {
		if s.name != "polyline" || !strings.Contains(s.attr["class"], "law") || s.in.attr["viewBox"] == "0 0 30 12" {
			continue
		}
		found = true
		points := strings.Fields(s.attr["points"])
		for i, k := range []int{0, 33, 66} {
			x, y, _ := strings.Cut(points[k], ",")
			if math.Abs(parsed(x)-tops[3+3*i]) > .02 || math.Abs(parsed(y)-tops[4+3*i]) > .15 {
				t.Errorf("the law is at %s, a bar at %g", points[k], tops[3+3*i:])
			}
		}
	}
	if !found || !strings.Contains(string(c.SVG("x")), "k^-2.00 from 1 on</span>") {
		t.Error("the law is not drawn, or has no name")
	}
	c.Density = true
	if s := marks(t, c, "rect")[1]; !strings.HasPrefix(s.tip, "all from 1 to 10: 0.11") { // 500,000 of 505,057, over 9
		t.Error(s.tip)
	}
	c.Counts = append(c.Counts, chart.Counts{Name: "other", Bins: []chart.Bin{{From: 2, To: 3, N: 5}}})
	if list := marks(t, c, "svg"); len(list) != 5 || list[4].tip != "other from 2 to 3: 1" {
		t.Error(len(list), "points")
	}
}

// The areas of a bow-tie are as its counts, and every part is named.
func TestBowTieOfEPA(t *testing.T) {
	c := chart.BowTie{Title: "epa", Unit: "sites", Main: 89, In: 434, Out: 489, TIn: 1453, TOut: 111, Tunnel: 236, Island: 0}
	sizes, texts := map[string]float64{}, map[string]bool{}
	for _, s := range shapes(t, c) {
		texts[s.text] = true
		if _, scale, ok := strings.Cut(s.attr["transform"], "scale("); ok {
			for p := s.in; p != nil; p = nil {
				name, _, _ := strings.Cut(p.tip, ":")
				if p.tip == "" { // its title comes first
					t.Error("a part without a tooltip")
				}
				sizes[name] = parsed(strings.TrimSuffix(scale, ")"))
			}
		}
	}
	if r := sizes["T-IN"] / sizes["IN"]; len(sizes) != 7 || math.Abs(r*r-1453./434) > .05 || sizes["ISLAND"] < 10 {
		t.Error(sizes)
	}
	for _, want := range []string{"MAIN", "IN", "OUT", "T-IN", "T-OUT", "TUNNEL", "ISLAND", "1,453", "51.7 %", "0", "0.0 %"} {
		if !texts[want] {
			t.Errorf("there is no %s", want)
		}
	}
	c.Main, c.TOut = 1<<62, 1
	if s := string(c.SVG("x")); !strings.Contains(s, "&lt; 0.1 %") || !strings.Contains(s, ">4.6e+18<") {
		t.Error(s)
	}
}

// On a wide and on a narrow screen, no text below or beside a plot touches another.
func TestTextsDoNotTouch(t *testing.T) {
	words := []string{"under a month", "1 to 3 months", "12", "WWWWWWWWWWWWWWWWWWWWWWWWW", "7 März", "x"}
	for n := 1; n <= 400; n = n*5/4 + 1 {
		c := chart.Bars{Upright: true, Unit: "pages"}
		for i := range n {
			c.Rows = append(c.Rows, chart.Row{Label: words[(i*7+n)%len(words)], Values: []float64{float64(1000 * i * n)}})
		}
		flat := c
		flat.Upright = false
		for _, screen := range []struct {
			hidden string
			width  float64
		}{{"more", 244}, {"less", 524}} {
			end, last, shown := math.Inf(-1), 0., 0
			for _, s := range shapes(t, c) {
				if s.name != "text" || s.attr["text-anchor"] != "middle" || strings.Contains(s.attr["class"], screen.hidden) {
					continue
				}
				half := 3 * float64(utf8.RuneCountInString(s.text)) // a narrow font's
				if strings.HasPrefix(s.text, "WW") {
					half *= 1.8
				}
				at := s.percent("x") / 100 * screen.width
				if at-half < end || at+half > screen.width+24 || at-half < -52 {
					t.Errorf("%d bars: %q at %g, the one before ends at %g", n, s.text, at, end)
				}
				end = at + half
				shown++
			}
			if shown == 0 || shown < 3 && n > 20 {
				t.Errorf("%d bars: %d are labelled", n, shown)
			}
			for _, s := range shapes(t, flat) {
				if s.name == "text" && s.attr["x"] == "-8" && !strings.Contains(s.attr["class"], screen.hidden) {
					if y := s.pixels("y"); y-last < 12 && last > 0 {
						t.Errorf("%d rows: %q at %g, after one at %g", n, s.text, y, last)
					}
					last = s.pixels("y")
				}
			}
		}
	}
}

// Ticks of an axis have all their digits: years are not "2 k".
func TestTicksOfYears(t *testing.T) {
	c := chart.Chart{Lines: []chart.Line{{Points: []chart.Point{{X: 1996, Y: 1e5}, {X: 2004, Y: 3e6}}}}}
	s := string(c.SVG("x"))
	for _, want := range []string{">1996<", ">2004<", ">1 M<", ">500 k<"} {
		if !strings.Contains(s, want) {
			t.Errorf("there is no %s: %s", want, s)
		}
	}
}
