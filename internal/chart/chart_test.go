package chart_test

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/parleyweb/parley/internal/chart"
	"github.com/parleyweb/parley/internal/must"
)

// chartOf is a page with two charts, the second with every kind of line there is.
func chartOf() *chart.Page {
	budgets := []float64{.05, .1, .2, .5}
	line := func(name string, bound bool, spread float64, ys ...float64) chart.Line {
		l := chart.Line{Name: name, Bound: bound}
		for i, y := range ys {
			l.Points = append(l.Points, chart.Point{X: budgets[i], Y: y, Spread: spread})
		}
		return l
	}
	fresh := chart.Chart{Title: "Freshness", X: "requests a page and day", Y: "share of time fresh", LogX: true, Lines: []chart.Line{
		line("uniform", false, .01, .574, .705, .815, .912), line("thesis", false, 0, .768, .834, .901, .946),
		line("priced", false, .004, .861, .908, .946, .976), line("polling", true, 0, .862, .909, .946, .976),
		line("push", true, 0, .974, 1, 1, 1),
	}}
	many := chart.Chart{Title: "All at once", X: "polls", Y: "delay", LogY: true}
	for i := range 30 {
		many.Lines = append(many.Lines, line(fmt.Sprint("policy ", i), false, 0, float64(1+i), float64(2+2*i), 5, 5))
	}
	return &chart.Page{Title: "Freshness on the gamma web", About: "10,000 pages.", Made: "crawler simulate freshness", Notes: []string{"a note"}, Charts: []chart.Chart{fresh, many}}
}

// The page is self-contained, has no scripts, and says in words and
// numbers what the drawing shows.
func TestChartPage(t *testing.T) {
	var out bytes.Buffer
	must.OK(t, chartOf().WriteHTML(&out))
	doc := must.Get(html.Parse(bytes.NewReader(out.Bytes())))
	ids, refs, charts, cells := map[string]bool{}, []string{}, 0, 0
	names := 0
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		attr := map[string]string{}
		for _, a := range n.Attr {
			attr[a.Key] = a.Val
		}
		switch n.Data {
		case "script", "link", "iframe", "img", "object", "a", "image", "use":
			t.Errorf("there is a %s", n.Data)
		case "svg":
			if attr["role"] == "img" {
				charts++
				refs = append(refs, strings.Fields(attr["aria-labelledby"])...)
			} else if attr["aria-hidden"] != "true" {
				t.Error("a drawing has neither a name nor aria-hidden")
			}
		case "td":
			cells++
		case "span":
			if attr["class"] == "keys" {
				for c := range n.ChildNodes() {
					if c.Type == html.ElementNode {
						names++
					}
				}
			}
		case "th":
			if attr["scope"] != "col" && attr["scope"] != "row" {
				t.Error("an empty heading")
			}
		}
		if attr["style"] != "" {
			t.Errorf("%s has a style, which the page's own policy forbids", n.Data)
		}
		if id := attr["id"]; id != "" {
			if ids[id] {
				t.Errorf("id %s occurs twice", id)
			}
			ids[id] = true
		}
	}
	for _, r := range refs {
		if !ids[r] {
			t.Errorf("there is no %s", r)
		}
	}
	if charts != 2 || len(refs) != 4 || cells != 5*4+30*4 || names != 35 {
		t.Errorf("%d charts with %d names, %d numbers in tables, %d names of lines", charts, len(refs), cells, names)
	}
	for _, want := range []string{">0.5740 ± 0.0100<", "push (bound)", "requests a page and day", "crawler simulate freshness", "a note", "stroke-dasharray",
		">share of time fresh over requests a page and day. The table"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q", want)
		}
	}
	if regexp.MustCompile(`https?://`).Match(out.Bytes()) {
		t.Error("the page contains a URL")
	}
}

// Of thirty lines no two look alike.
func TestChartLinesAreDistinguishable(t *testing.T) {
	var out bytes.Buffer
	must.OK(t, chartOf().WriteHTML(&out))
	seen := map[string]bool{}
	keys := regexp.MustCompile(`<svg class="key".*?</svg>`).FindAllString(out.String(), -1)
	if len(keys) != 2*35 {
		t.Errorf("%d keys", len(keys))
	}
	for _, k := range keys[len(keys)-30:] {
		if seen[k] {
			t.Errorf("two lines look like %s", k)
		}
		seen[k] = true
	}
}

// Whatever numbers and names it is given, the page is whole and has no number that is none.
func FuzzChart(f *testing.F) {
	f.Add("a\x00b<script>", .1, .5, 1e-320, true)
	f.Add("", math.Inf(1), math.NaN(), -1., false)
	f.Add("x", 1e300, -1e300, 0., true)
	f.Fuzz(func(t *testing.T, name string, a, b, c float64, log bool) {
		p := chart.Page{Title: name, Charts: []chart.Chart{{Title: name, X: name, Y: name, LogX: log, LogY: a < b, Lines: []chart.Line{
			{Name: name, Points: []chart.Point{{X: a, Y: b, Spread: c}, {X: b, Y: c, Spread: a}, {X: c, Y: a, Spread: b}}}, {Name: name, Bound: true, Points: []chart.Point{{X: a, Y: a, Spread: a}}}, {},
		}}}}
		var out bytes.Buffer
		must.OK(t, p.WriteHTML(&out))
		if !strings.HasSuffix(out.String(), "</html>\n") || strings.Contains(out.String(), "<script>") {
			t.Fatal("the page is incomplete")
		}
		for _, m := range regexp.MustCompile(` (?:x|y|x1|x2|y1|y2|cx|cy|points)="([^"]*)"`).FindAllStringSubmatch(out.String(), -1) {
			if strings.Contains(m[1], "N") || strings.Contains(m[1], "Inf") {
				t.Fatalf("invalid coordinate: %s", m[0])
			}
		}
	})
}
