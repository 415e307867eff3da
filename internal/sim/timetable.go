package sim

import "math"

// A Timetable has the times of all visits of a run. The expected freshness and age of those visits follow
// from it: on a silent site, whether a page changes between two visits is independent of their times. So a
// short run shows how good a schedule is, and two runs can be compared to a thousandth. It is for worlds
// whose pages change at a rate, and for policies without notices.
type Timetable struct {
	world  *World
	visits []visit
}

type visit struct {
	page int32
	at   float32 // days; exact to a few seconds
}

// Keep returns a timetable that the run fills.
func (r *Run) Keep() *Timetable {
	t := &Timetable{world: r.World}
	watch := r.Watch
	r.Watch = func(e Event) {
		if e.Kind == Visited {
			t.visits = append(t.visits, visit{int32(e.Page), float32(e.At)})
		}
		if watch != nil {
			watch(e)
		}
	}
	return t
}

// Between returns the freshness and age expected of the visits, from the beginning of one day to that of
// another, as [Result.Between].
func (t *Timetable) Between(from, to float64) (fresh, age float64) {
	last := make([]float64, len(t.world.Pages))
	until := func(i int, at float64) {
		p := &t.world.Pages[i]
		if at > from {
			f, a := copyOf(p.Rate, at-last[i])
			f0, a0 := copyOf(p.Rate, max(0, from-last[i]))
			fresh += p.Weight * (f - f0)
			age += p.Weight * (a - a0)
		}
		last[i] = at
	}
	for _, v := range t.visits {
		if at := float64(v.at); at < to {
			until(int(v.page), at)
		}
	}
	for i := range last {
		until(i, to)
	}
	return fresh / (to - from), age / (to - from)
}

// copyOf is the number of days, of those after a visit, for which the copy is expected to be right, and the
// sum of its age over them: with x = D t the former is (1-e^-x)/D, and the latter t²/2 - t/D + (1-e^-x)/D².
func copyOf(rate, days float64) (right, age float64) {
	if x := rate * days; x > 1e-3 {
		right = -math.Expm1(-x) / rate
		return right, days*days/2 - days/rate + right/rate
	}
	return days * (1 - rate*days/2), rate * days * days * days / 6
}
