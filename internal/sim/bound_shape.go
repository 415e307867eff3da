package sim

import (
	"math"
	"sort"
)

// A shape has the results of every threshold on a noisy page, for a rate of 1: pages with the same quality of
// notices relative to their rate differ in the unit of time only. Levels are ages, including what notices add
// to them.
type shape struct{ level, value, kept, right []float64 } // value grows with the level

const (
	shapeLevels = 700
	shapeStep   = .2  // of the logarithm of the share of false notices, from one shape to the next
	shapeLouder = 100 // false notices per change, above which notices carry no measurable information
)

func newShape(recall, nu float64) *shape {
	n := newSpeech(1, recall, nu)
	s := &shape{}
	low, high := math.Log(1e-4/(1+n.told)), math.Log(25/n.alpha)
	for i := range shapeLevels {
		level := math.Exp(low + (high-low)*float64(i)/(shapeLevels-1))
		w, psi, value := n.threshold(level)
		if last := len(s.value) - 1; last >= 0 && !(value > s.value[last]) {
			continue // equal in floating point
		}
		s.level, s.value = append(s.level, level), append(s.value, value)
		s.kept, s.right = append(s.kept, psi), append(s.right, w)
	}
	return s
}

// at returns the level at which the index is value, with the time kept and right there.
func (s *shape) at(value float64) (level, kept, right float64) {
	i := sort.SearchFloat64s(s.value, value)
	switch last := len(s.value) - 1; {
	case i == 0: // the index goes with the square of the level
		by := math.Sqrt(max(value, 0) / s.value[0])
		return by * s.level[0], by * s.kept[0], by * s.right[0]
	case i > last:
		return s.level[last], s.kept[last], s.right[last]
	}
	part := (value - s.value[i-1]) / (s.value[i] - s.value[i-1])
	between := func(x []float64) float64 { return x[i-1] + part*(x[i]-x[i-1]) }
	return between(s.level), between(s.kept), between(s.right)
}

// shapes are the shapes computed so far.
type shapes map[[2]float64]*shape

// of returns the shape of a recall and a number of false notices per change; of a steady number it is exact.
func (s shapes) of(recall, nu float64, steady bool) shapeBetween {
	get := func(nu float64) *shape {
		key := [2]float64{recall, nu}
		if s[key] == nil {
			s[key] = newShape(recall, nu)
		}
		return s[key]
	}
	if steady || nu <= 0 {
		a := get(nu)
		return shapeBetween{a, a, 0}
	}
	step := max(-20/shapeStep, math.Log(nu)/shapeStep)
	below := math.Floor(step)
	return shapeBetween{get(math.Exp(below * shapeStep)), get(math.Exp((below + 1) * shapeStep)), step - below}
}

// A shapeBetween is a position between two shapes.
type shapeBetween struct {
	below, above *shape
	part         float64
}

// at returns the number of visits per change, and the share of time in which the copy is right, where the
// index is value.
func (b *shapeBetween) at(value float64) (visits, right float64) {
	_, kept, w := b.below.at(value)
	_, keptToo, too := b.above.at(value)
	return (1-b.part)/kept + b.part/keptToo, (1-b.part)*w/kept + b.part*too/keptToo
}

// level is the age at which the index is value.
func (b *shapeBetween) level(value float64) float64 {
	below, _, _ := b.below.at(value)
	above, _, _ := b.above.at(value)
	return (1-b.part)*below + b.part*above
}
