package poll

import (
	"math"
	"time"
)

// memory is how long a record remembers, give or take a week: what is older
// counts less and less, by whole weeks, so that no hour is favoured.
const memory = 12 * 7 * 24 * time.Hour

// A Poll is what one answer of a source has shown. One that failed has shown nothing.
type Poll struct {
	At  time.Time
	New int // items that it did not list, or listed otherwise, at the poll before; a 304 is 0

	// Window is how many items it lists, where these are only the newest; 0 if it lists all
	// that there are. If all of these are new, there may have been more.
	Window int

	// Dates are when new items came to be, as far as the source says it and
	// is believed. Those of which it says nothing are shared out over the time between the
	// polls. At the first poll these are the dates of whatever it lists.
	Dates []time.Time
}

// A Record is what polls have shown of one source. The zero value was never
// asked. It is a value: methods return the changed one.
type Record struct {
	First, Last time.Time // polls, to the second
	Polls       int
	Fruitful    int // polls after the first with anything new
	Window      int // how many items it listed last, 0 if it lists all
	Training    Training

	// The time that polls have covered begins at from and ends at Last: what has
	// passed since nobody has seen. Wall time would make the rate of a source fall while
	// it is not asked, until it is never asked again.
	from  time.Time
	count [Hours]float32

	lately float32 // items, each counted e times less for every week of its age

	// share is by which weights undated items are shared out. It is frozen, and taken
	// anew at shared weeks of cover, since a pattern that is fed by itself grows
	// steeper and steeper.
	share  shares
	shared int
}

const (
	maxNew    = 1 << 20
	maxWindow = 1 << 20
)

// Poll is the record after one more answer. A time before the last poll's
// counts as the last one's.
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

// history learns from the dates of the first answer, where it lists the newest
// items: the oldest of them begins the time that is covered.
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

// faded is what is left of items that came evenly in the last days.
func faded(days float64) float64 {
	if days < 1e-3 {
		return 1
	}
	return -math.Expm1(-days/week) * week / days
}

// take adds n items that have come between the last poll and this one.
func (r *Record) take(at time.Time, n int, dates []time.Time) {
	more := 0. // than were seen
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

// unseen is how many items are expected to have been dropped where all that are listed are
// new: E[n | n >= w] - w. It is at most as many as were seen.
func (r *Record) unseen(at time.Time) float64 {
	m, w := r.Rates().Items(r.Last, at), r.Window
	p := moreThan(w-1, m)
	if !(p > 1e-9) {
		return 0
	}
	return min(max(0, m*moreThan(w-2, m)/p-float64(w)), float64(w))
}

// forget moves the beginning of what is covered, and takes off the counts what
// came before it.
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

// each tells how many days of each hour of the week lie between two times. It may
// tell of an hour more than once.
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

// covered is how many days polls have covered, as far as they are remembered.
func (r *Record) covered() float64 { return between(r.from, r.Last) }
