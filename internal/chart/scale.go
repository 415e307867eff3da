package chart

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// begin opens a drawing and describes it. The name is the prefix of the ids of its parts.
func begin(b *strings.Builder, attributes, name, title, about string) {
	if about != "" {
		about += ". "
	}
	fmt.Fprintf(b, `<svg %s role="img" aria-labelledby="%s-title %[2]s-desc">`, attributes, esc(name))
	fmt.Fprintf(b, `<title id="%s-title">%s</title><desc id="%[1]s-desc">%[3]sThe table below has the numbers.</desc>`, esc(name), esc(title), esc(about))
}

// A scale maps numbers to positions between two ends of a drawing; a logarithmic one maps 0 to a place before these.
type scale struct {
	low, high, from, to float64
	log                 bool
}

func (s scale) at(x float64) float64 {
	low, high := s.low, s.high
	if s.log && x <= 0 {
		return zeroAt
	}
	if s.log {
		x, low, high = math.Log(x), math.Log(low), math.Log(high)
	}
	if !(high > low) {
		return (s.from + s.to) / 2
	}
	return s.from + float64((s.to-s.from)*((x-low)/(high-low)))
}

// evenTicks returns round numbers at equal distances that enclose an interval.
func evenTicks(low, high float64) (from, to float64, ticks []float64) {
	if !(high-low > 1e-9*max(1e-3, math.Abs(high), math.Abs(low))) { // all on one level
		room := max(math.Abs(high)/10, 1e-3)
		low, high = low-room, high+room
	}
	step := roundStep((high - low) / 7) // four to eight steps
	from, to = math.Floor(low/step+1e-9)*step, math.Ceil(high/step-1e-9)*step
	for i := range int(min(20, math.Round((to-from)/step))) + 1 {
		ticks = append(ticks, snap(from+float64(float64(i)*step), step))
	}
	return from, to, ticks
}

// logTicks returns powers of ten, with 2 and 5 times these if they are few, that enclose an interval above 0.
func logTicks(low, high float64) (from, to float64, ticks []float64) {
	first, last := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	if first == last {
		last++
	}
	factors := []float64{1, 2, 5}
	if last-first > 3 {
		factors = factors[:1]
	}
	every := math.Ceil((last - first) / 8)
	for e := first; e <= last; e += every {
		for _, f := range factors {
			if f == 1 || e < last {
				ticks = append(ticks, f*math.Pow(10, e))
			}
		}
	}
	return math.Pow(10, first), math.Pow(10, last), ticks
}

// roundStep returns the first of 1, 2 and 5 times powers of ten that is not less than rough.
func roundStep(rough float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= rough {
			return m * power
		}
	}
	return 10 * power
}

// snap removes the rounding error near zero from a multiple of a step.
func snap(x, step float64) float64 {
	if math.Abs(x) < step/2 {
		return 0
	}
	return x
}

// esc escapes text for XML, cleaned.
func esc(s string) string { return html.EscapeString(clean(s)) }

// clean drops characters that XML cannot have, and those that change the direction of the text around them.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFE' || r == '\uFFFF' || r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
