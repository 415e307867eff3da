package poll

import (
	"math"
	"time"
)

// memory is how long a record remembers, give or take a week: older items count less and less, by whole
// weeks, so that no hour is favoured.
const memory = 12 * 7 * 24 * time.Hour

// A Poll is the result of one response of a source. A failed poll has none.
type Poll struct {
	At  time.Time
	New int // items that were not listed, or listed differently, at the poll before; a 304 is 0

	// Window is the number of items that it lists, where these are only the newest; 0 if it lists all items.
	// If all listed items are new, there may have been more.
	Window int

	// Dates are the times of new items, as far as the source states them credibly. Undated items are
	// distributed over the time between the polls. At the first poll these are the dates of all listed items.
	Dates []time.Time
}

// A Record is the results of all polls of one source. The zero value is a source never polled. It is a value:
// methods return the updated one.
type Record struct {
	First, Last time.Time // times of polls, to the second
	Polls       int
	Fruitful    int // polls after the first with new items
	Window      int // number of items listed last, 0 if it lists all
	Training    Training

	// The time covered by polls begins at from and ends at Last: the time since then is unobserved. With wall
	// time the rate of a source would fall while it is not polled, until it is never polled again.
	from  time.Time
	count [Hours]float32

	lately float32 // items, each weighted by e^-1 per week of its age

	// share has the weights by which undated items are distributed. It is frozen, and updated only every one
	// to four weeks of cover (shared: the weeks at the last update), since a pattern that feeds itself grows
	// steeper and steeper.
	share  shares
	shared int
}

const (
	maxNew    = 1 << 20
	maxWindow = 1 << 20
)

// Poll is the record after one more response. A time before the last poll's counts as the last one's.
func (r Record) Poll(p Poll) Record {
	at := p.At.Truncate(time.Second)
	if at.Before(epoch) {
		at = epoch
	} else if at.After(latest) {
		at = latest
	}
	at = at.UTC()
	n := min(max(p.New, 0), maxNew)
	r.Window = min(max(p.Window, 0), maxWindow)
	if r.Polls <= 0 {
		r = Record{First: at, Last: at, Polls: 1, Window: r.Window, Training: r.Training.checked(true), from: at}
		r.history(p.Dates)
		return r
	}
	if at.Before(r.Last) {
		at = r.Last
	}
	r.take(at, n, p.Dates)
	r.Training = r.Training.checked(n > 0)
	if r.Polls++; n > 0 {
		r.Fruitful++
	}
	r.Last = at
	r.forget()
	if weeks := int(between(r.from, r.Last) / week); weeks >= r.shared+max(1, min(r.shared, 4)) {
		p := r.pattern()
		r.share, r.shared = p.shares(), weeks
	}
	return r
}

// history learns from the dates of the first response, where it lists the newest items: the covered time
// begins with the oldest of them.
func (r *Record) history(dates []time.Time) {
	if r.Window == 0 || len(dates) < 2 {
		return
	}
	oldest := r.Last
	for _, d := range dates {
		if d.Before(oldest) && d.After(epoch) {
			oldest = d
		}
	}
	if begin := r.Last.Add(-memory); oldest.Before(begin) {
		oldest = begin
	}
	r.from = oldest.Truncate(time.Second).UTC()
	for _, d := range dates[:min(len(dates), maxNew)] {
		if d.After(oldest) && !d.After(r.Last) {
			r.count[hourOf(phase(d))]++
			r.lately += float32(math.Exp(-between(d, r.Last) / week))
		}
	}
}

// faded is the remaining share of items that came evenly in the last days.
func faded(days float64) float64 {
	if days < 1e-3 {
		return 1
	}
	return -math.Expm1(-days/week) * week / days
}

// take adds n items that came between the last poll and this one.
func (r *Record) take(at time.Time, n int, dates []time.Time) {
	more := 0. // unseen items
	if r.Window > 0 && n >= r.Window {
		more = r.unseen(at)
	}
	rest := float64(n) + more
	r.lately = float32(float64(r.lately)*math.Exp(-between(r.Last, at)/week) + rest*faded(between(r.Last, at)))
	for _, d := range dates[:min(len(dates), n)] {
		if d.After(r.Last) && !d.After(at) {
			r.count[hourOf(phase(d))]++
			rest--
		}
	}
	if rest <= 0 {
		return
	}
	w := r.share.weights()
	sum := 0.
	each(r.Last, at, func(h int, days float64) { sum += w[h] * days })
	if sum <= 0 { // two polls at one time
		r.count[hourOf(phase(at))] += float32(rest)
		return
	}
	each(r.Last, at, func(h int, days float64) { r.count[h] += float32(rest * w[h] * days / sum) })
}

// unseen is the expected number of items that dropped out of the list unseen, where all listed items are new:
// E[n | n >= w] - w. It is at most w, the number of items seen.
func (r *Record) unseen(at time.Time) float64 {
	m, w := r.Rates().Items(r.Last, at), r.Window
	p := moreThan(w-1, m)
	if !(p > 1e-9) {
		return 0
	}
	return min(max(0, m*moreThan(w-2, m)/p-float64(w)), float64(w))
}

// forget moves the beginning of the covered time, and reduces the counts by the share of the time before it.
func (r *Record) forget() {
	weeks, keep := between(r.from, r.Last)/week, memory.Hours()/(24*week)
	if weeks <= keep {
		return
	}
	off := math.Ceil(weeks - keep)
	for h := range r.count {
		r.count[h] *= float32((weeks - off) / weeks)
	}
	r.from = r.from.AddDate(0, 0, 7*int(off))
	r.shared = max(0, r.shared-int(off))
}

// each calls f with the days in each hour of the week between two times. It may call it for an hour more than
// once.
func each(from, to time.Time, f func(hour int, days float64)) {
	x, left := phase(from), between(from, to)
	if n := math.Floor(left / week); n > 0 {
		for h := range Hours {
			f(h, n/24)
		}
		left -= n * week
	}
	for h := hourOf(x); left > 0; h++ {
		d := min(left, max(0, float64(h+1)/24-x))
		f(h%Hours, d)
		left -= d
		x = max(x, float64(h+1)/24)
	}
}

// covered is the number of days covered by polls, within the memory.
func (r *Record) covered() float64 { return between(r.from, r.Last) }
