package sim

import (
	"math"
	"slices"
	"time"

	"github.com/parleyweb/parley/internal/engine/poll"
)

// A FeedBound is the least mean delay that is possible.
type FeedBound struct {
	Delay float64 // minutes
	Price float64 // of a poll, in item-days, at which that is reached
}

// LeastFeedDelay is the least mean delay of items from a day on, at a number of polls in a slot of so many
// days on average, for a policy that knows the rates but not the items. If items come by the rates, no run
// with as many polls on average can do better except by luck. Where the rates are unknown, the actual ones of
// these days are used: see patterned.
//
// It is the Lagrangian relaxation: polls may be moved from slot to slot and from feed to feed, each at a
// price, and each feed is polled along the path of least cost. Any price gives a lower bound; the best is
// returned.
func (w *FeedWorld) LeastFeedDelay(from, slot, polls float64) FeedBound {
	w = w.patterned(from)
	begin := w.Start.Add(dayTime(from))
	return w.bound(from, slot, polls, func(f *Feed, mass, times []float64) {
		whole := int(math.Round(7 / slot)) // the pattern repeats after a week, if that is a whole number of slots
		if math.Abs(float64(whole)*slot-7) > 1e-9 {
			whole = len(mass)
		}
		for i := range mass {
			if i < whole {
				end := begin.Add(dayTime(float64(i) * slot))
				mass[i], times[i] = f.Rates.Items(begin, end), f.Rates.Gain(begin, end)/slot
				continue
			}
			n, k := f.Rates.Mean()*7, float64(i/whole)
			j := i % whole
			week := f.Rates.Gain(begin, begin.Add(7*24*time.Hour)) / slot
			mass[i] = k*n + mass[j]
			times[i] = k*week + n*float64(whole)*k*(k-1)/2 + times[j] + k*float64(whole)*mass[j]
		}
	})
}

// LeastSeenDelay is LeastFeedDelay for a policy that knows in advance when every item comes. No real policy can
// reach this bound, but it assumes nothing about the feeds, so it is valid for real ones.
func (w *FeedWorld) LeastSeenDelay(from, slot, polls float64) FeedBound {
	return w.bound(from, slot, polls, func(f *Feed, mass, times []float64) {
		j := 0
		for j < len(f.Items) && f.Items[j] <= from {
			j++
		}
		for i := range mass[1:] {
			mass[i+1], times[i+1] = mass[i], times[i]
			for ; j < len(f.Items) && f.Items[j] <= from+float64(i+1)*slot; j++ {
				mass[i+1]++
				times[i+1] += (f.Items[j] - from) / slot
			}
		}
	})
}

// patterned returns the world with rates for all feeds whose rates are unknown: those of each hour of the
// week, as measured from a day on. That is knowledge after the event, and for a feed with few items it is
// nearly the time of each of them.
func (w *FeedWorld) patterned(from float64) *FeedWorld {
	v := *w
	v.Feeds = slices.Clone(w.Feeds)
	begin, end := w.Start.Add(dayTime(from)), w.Start.Add(dayTime(w.Days))
	var days [poll.Hours]float64
	for t := begin; t.Before(end); {
		next := t.Truncate(time.Hour).Add(time.Hour)
		if next.After(end) {
			next = end
		}
		days[weekHour(t)] += next.Sub(t).Hours() / 24
		t = next
	}
	for i := range v.Feeds {
		f := &v.Feeds[i]
		if f.Rates != nil {
			continue
		}
		var n [poll.Hours]float64
		for _, t := range f.Items {
			if t > from && t <= w.Days {
				n[weekHour(w.Start.Add(dayTime(t)))]++
			}
		}
		for h := range n {
			if n[h] > 0 {
				n[h] /= max(days[h], 1./24)
			}
		}
		f.Rates = poll.NewRates(&n)
	}
	return &v
}

// weekHour is the hour of the week, from Monday on.
func weekHour(t time.Time) int {
	t = t.UTC()
	return (int(t.Weekday())+6)%7*24 + t.Hour()
}

// bound finds the price. For a feed, tell sets for every slot boundary, from 0 on, the number of items since
// from, and the sum of their times in slots.
func (w *FeedWorld) bound(from, slot, polls float64, tell func(f *Feed, mass, times []float64)) FeedBound {
	n := int((w.Days-from)/slot + 1e-6)
	if n <= 0 || !(polls > 0) {
		return FeedBound{Delay: math.NaN()}
	}
	type sums struct{ mass, times []float64 }
	all, items := make([]sums, len(w.Feeds)), 0.
	for i := range w.Feeds {
		s := sums{mass: make([]float64, n+1), times: make([]float64, n+1)}
		tell(&w.Feeds[i], s.mass, s.times)
		items += s.mass[n] * w.Feeds[i].weight()
		all[i] = s
	}
	if items == 0 {
		return FeedBound{Delay: math.NaN()}
	}
	budget := polls * float64(n)
	best := FeedBound{Delay: math.Inf(-1)}
	path := feedPath{line: make([]feedLine, 0, n+1)}
	low, high := math.Log(1e-9), math.Log(1e9) // item-slots
	at := 2 * math.Log(items/float64(n)/polls+1e-9)
	for range 40 {
		price := math.Exp(at)
		cost, asked := 0., 0.
		for i, s := range all {
			weight := w.Feeds[i].weight()
			c, k := path.least(s.mass, s.times, price/weight)
			cost += c * weight
			asked += float64(k)
		}
		if d := (cost - price*budget) / items * slot * 24 * 60; d > best.Delay {
			best = FeedBound{Delay: d, Price: price * slot}
		}
		if asked > budget {
			low = at
		} else {
			high = at
		}
		// The number of polls goes by about the inverse square root of the price.
		next := at + 2*math.Log((asked+1)/(budget+1))
		if !(next > low && next < high) {
			next = (low + high) / 2
		}
		if math.Abs(next-at) < 1e-4 || high-low < 1e-4 {
			break
		}
		at = next
	}
	best.Delay = max(0, best.Delay)
	return best
}

// A feedPath finds the optimal times of the polls of one feed.
type feedPath struct{ line []feedLine }

type feedLine struct {
	slope, base float64
	polls       int
}

func (l feedLine) at(x float64) float64 { return l.base + l.slope*x }

// least returns the cost of the best path, and its number of polls. Polling at the end of slot j after i
// costs the price and j (M(j) - M(i)) - (S(j) - S(i)): for each i a line in j, so that the best i for all j
// follow from one hull.
func (p *feedPath) least(mass, times []float64, price float64) (cost float64, polls int) {
	hull, head, n := p.line[:0], 0, len(mass)-1
	for j := 0; j <= n; j++ {
		x := float64(j)
		if j > 0 {
			for head+1 < len(hull) && hull[head+1].at(x) <= hull[head].at(x) {
				head++
			}
			cost, polls = x*mass[j]-times[j]+hull[head].at(x), hull[head].polls
			if j == n { // no poll is needed at the end
				break
			}
			cost, polls = cost+price, polls+1
		}
		l := feedLine{-mass[j], cost + times[j], polls}
		for len(hull) > head && below(hull[head:], l) {
			hull = hull[:len(hull)-1]
		}
		if len(hull) == head || hull[len(hull)-1].slope > l.slope {
			hull = append(hull, l)
		}
	}
	return cost, polls
}

// below reports whether the last line of a hull is nowhere the lowest once l, which is at least as steep, is
// added.
func below(hull []feedLine, l feedLine) bool {
	last := hull[len(hull)-1]
	if last.slope == l.slope {
		return l.base < last.base
	}
	if len(hull) < 2 {
		return false
	}
	first := hull[len(hull)-2]
	return (l.base-first.base)*(first.slope-last.slope) <= (last.base-first.base)*(first.slope-l.slope)
}
