package sim

import "math"

// A Result is the result of a run. Freshness and age are weighted by importance, and counted from Run.From
// on.
type Result struct {
	World, Policy string
	Pages         int
	Budget        float64 // allowed cost, per page and day
	Days, From    float64
	Seed          uint64

	Fresh float64 // share of importance and time with a right copy
	Age   float64 // mean time since the first change that the copy lacks, in days
	Spend float64 // actual cost, per page and day

	Requests float64 // per page and day: visits, and polls of manifests
	Visits   float64 // of them to pages
	Wasted   float64 // of these, without a change
	Polls    float64 // of manifests
	Bytes    float64 // per page and day, received in responses

	Bound Bound // for this world, with the channels that the policy uses; see Run.Bound

	Daily []Day // every day from the start on, also those before From
}

// A Day is one day of a run, from 0 on.
type Day struct{ Fresh, Age, Spend float64 }

// Between returns freshness and age from the beginning of one day to the beginning of another, as
// Result.Fresh and Result.Age. Days outside the run are ignored.
func (r *Result) Between(from, to int) (fresh, age float64) {
	from, to = max(from, 0), min(to, len(r.Daily))
	if from >= to {
		return math.NaN(), math.NaN()
	}
	for _, d := range r.Daily[from:to] {
		fresh += d.Fresh
		age += d.Age
	}
	n := float64(to - from)
	return fresh / n, age / n
}

// A ledger keeps the freshness, age and costs of all pages, day by day, and counts the events from a day on.
type ledger struct {
	from, days float64
	daily      []Day // Fresh is weight x days stale, and Age weight x days^2/2

	events [Planned + 1]int
	wasted int // visits without a change
	bytes  float64
}

func newLedger(days, from float64) *ledger {
	return &ledger{from: from, days: days, daily: make([]Day, int(math.Ceil(days)))}
}

// wrong adds a period in which a copy was wrong.
func (l *ledger) wrong(weight, from, to float64) {
	for at := from; at < to; {
		d := &l.daily[int(at)]
		end := min(to, math.Floor(at)+1)
		a, b := at-from, end-from
		d.Fresh += weight * (b - a)
		d.Age += weight * (b*b - a*a) / 2
		at = end
	}
}

// count adds an event, in which so many bytes were received.
func (l *ledger) count(x Event, bytes float64) {
	l.daily[int(x.At)].Spend += x.Cost
	if x.At < l.from {
		return
	}
	l.events[x.Kind]++
	l.bytes += bytes
	if x.Kind == Visited && !x.Changed {
		l.wasted++
	}
}

// score sets the part of the result that follows from the ledger. A last part of a day counts as one in
// Result.Daily.
func (l *ledger) score(r *Result) {
	sum := 0.
	for i, d := range l.daily {
		length := min(1, l.days-float64(i))
		d = Day{Fresh: 1 - d.Fresh/length, Age: d.Age / length, Spend: d.Spend / length / float64(r.Pages)}
		r.Daily = append(r.Daily, d)
		if float64(i) >= l.from {
			r.Fresh += d.Fresh * length
			r.Age += d.Age * length
			r.Spend += d.Spend * length
			sum += length
		}
	}
	r.Fresh, r.Age, r.Spend = r.Fresh/sum, r.Age/sum, r.Spend/sum
	part := float64(r.Pages) * (l.days - l.from)
	per := func(n int) float64 { return float64(n) / part }
	r.Visits, r.Wasted, r.Polls = per(l.events[Visited]), per(l.wasted), per(l.events[Polled])
	r.Requests, r.Bytes = r.Visits+r.Polls, l.bytes/part
}
