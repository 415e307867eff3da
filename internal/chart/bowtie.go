package chart

import (
	"fmt"
	"math"
	"strings"
)

// BowTie shows how the sites of a Web are connected (Broder and others 2000; Castillo 2004, section 8.6.5). The areas of the parts are
// proportional to their counts, except that small ones are drawn large enough to be seen.
type BowTie struct {
	Title, Unit                              string // what is counted, such as "sites"
	Main, In, Out, TIn, TOut, Tunnel, Island int
}

// SVG draws the parts; if all are empty, so is the drawing. The name is the prefix of the ids of its parts, unique on a page.
func (c BowTie) SVG(name string) string {
	const largest, least = 56., 11. // square roots of areas
	parts := []struct {
		name, class, is string
		n               int
		x               float64 // of the centre
		shape           string  // of area 1 around 0
		size            float64
		y, text         float64 // the centre, and the first line of its text
	}{
		{name: "IN", class: "c2", is: "lead to MAIN", n: c.In, x: 45, shape: "M-.515,-.7L.515,-.27V.27L-.515,.7Z"},
		{name: "MAIN", class: "c0", is: "lead to each other", n: c.Main, x: 135, shape: disc(0, 0, .564)},
		{name: "OUT", class: "c1", is: "are reached from MAIN", n: c.Out, x: 225, shape: "M.515,-.7L-.515,-.27V.27L.515,.7Z"},
		{name: "T-IN", class: "c2", is: "are reached from IN only", n: c.TIn, x: 45, shape: "M-.4,-.625H.4V.425L0,.825L-.4,.425Z"},
		{name: "TUNNEL", class: "c3", is: "lead from IN to OUT past MAIN", n: c.Tunnel, x: 135, shape: "M-.707,-.354H.707V.354H-.707Z"},
		{name: "T-OUT", class: "c1", is: "lead to OUT only", n: c.TOut, x: 225, shape: "M-.4,.625H.4V-.425L0,-.825L-.4,-.425Z"},
		{name: "ISLAND", class: "other", is: "are not connected to these", n: c.Island, x: 319,
			shape: disc(-.3, .2, .326) + disc(.36, .22, .326) + disc(.05, -.38, .326)},
	}
	most, sum := 0, 0.
	for i := range parts {
		parts[i].n = max(0, parts[i].n)
		most, sum = max(most, parts[i].n), sum+float64(parts[i].n)
	}
	if most == 0 {
		return ""
	}
	half := [2]float64{} // the heights of both rows
	for i, p := range parts {
		parts[i].size = max(least, largest*math.Sqrt(float64(p.n)/float64(most)))
		if row := i / 3; row < 2 {
			half[row] = max(half[row], parts[i].size*[]float64{.7, .83}[row])
		}
	}
	upper := 50 + half[0]
	lower := upper + half[0] + 34 + half[1]
	height := lower + half[1] + 50
	for i := range parts {
		switch p := &parts[i]; i / 3 {
		case 0:
			p.y, p.text = upper, 12
		case 1:
			p.y, p.text = lower, lower+half[1]+18
		default:
			p.y = height/2 + 20
			p.text = p.y - float64(p.size*.71) - 36
		}
	}
	var b strings.Builder
	begin(&b, `class="chart bowtie" viewBox="0 0 364 `+px(height)+`"`, name, c.Title, "Parts of a bow-tie: IN leads to MAIN, and MAIN to OUT; T-IN hangs from IN, T-OUT leads to OUT, TUNNEL leads from IN to OUT")
	for _, a := range [][2]int{{0, 1}, {1, 2}, {0, 3}, {5, 2}, {0, 4}, {4, 2}} {
		from, to := parts[a[0]], parts[a[1]]
		dx, dy := to.x-from.x, to.y-from.y
		length := math.Hypot(dx, dy)
		dx, dy = dx/length, dy/length
		first, last := float64(from.size*.62)+3, length-float64(to.size*.62)-4
		at := func(along, aside float64) string { // the line
			return px(from.x+float64(dx*along)-float64(dy*aside)) + "," + px(from.y+float64(dy*along)+float64(dx*aside))
		}
		fmt.Fprintf(&b, `<path class="arrow" d="M%sL%sM%sL%[2]sL%[4]s"/>`, at(first, 0), at(last, 0), at(last-6, -4), at(last-6, 4))
	}
	for _, p := range parts {
		class, share := "solid "+p.class, fmt.Sprintf("%.1f %%", 100*float64(p.n)/sum)
		if p.n == 0 {
			class = "empty"
		} else if share == "0.0 %" {
			share = "< 0.1 %"
		}
		fmt.Fprintf(&b, `<g><title>%s: %s, %s; they %s</title>`, p.name, esc(strings.TrimSpace(exact(float64(p.n))+" "+c.Unit)), esc(share), p.is)
		fmt.Fprintf(&b, `<path class="%s" transform="translate(%g %s) scale(%s)" d="%s"/>`, class, p.x, px(p.y), px(p.size), p.shape)
		n := exact(float64(p.n))
		if extent(n) > 80 {
			n = brief(float64(p.n))
		}
		for i, s := range []string{p.name, n, share} {
			class := "label"
			if i > 0 {
				class = "axis"
			}
			fmt.Fprintf(&b, `<text class="%s" x="%g" y="%s" text-anchor="middle">%s</text>`, class, p.x, px(p.text+13*float64(i)), esc(s))
		}
		b.WriteString(`</g>`)
	}
	b.WriteString(`</svg>`)
	return b.String()
}

// disc returns the path of a disc.
func disc(x, y, r float64) string {
	return fmt.Sprintf("M%.3f,%.3fa%[3]g,%[3]g 0 0 1 %.3[4]f,0a%[3]g,%[3]g 0 0 1 %.3[5]f,0Z", x-r, y, r, 2*r, -2*r)
}
