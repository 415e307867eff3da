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
	Notices  float64 // per page and day, by push or in a manifest
	Replans  int
	Price    float64 // at the end

	Expected struct{ Fresh, Age float64 } // of the policy's last plan, NaN if it has no plan

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

// A ledger keeps the freshness and age of all pages, day by day.
type ledger struct {
	days  float64
	stale []float64 // weight x days stale, of each day
	age   []float64 // weight x days^2/2
	spend []float64
}

func newLedger(days float64) *ledger {
	n := max(1, int(math.Ceil(days)))
	return &ledger{days: days, stale: make([]float64, n), age: make([]float64, n), spend: make([]float64, n)}
}

// wrong adds a period in which a copy was wrong.
func (l *ledger) wrong(weight, from, to float64) {
	to = min(to, l.days)
	for at := max(0, from); at < to; {
		d := int(at)
		end := min(to, float64(d+1))
		a, b := at-from, end-from
		l.stale[d] += weight * (b - a)
		l.age[d] += weight * (b*b - a*a) / 2
		at = end
	}
}

func (l *ledger) spent(at, cost float64) {
	l.spend[min(max(0, int(at)), len(l.spend)-1)] += cost
}

// daily returns the result of each day; a last part of a day counts as one.
func (l *ledger) daily(pages int) []Day {
	list := make([]Day, len(l.stale))
	for d := range list {
		length := min(1, l.days-float64(d))
		list[d] = Day{Fresh: 1 - l.stale[d]/length, Age: l.age[d] / length, Spend: l.spend[d] / length / float64(pages)}
	}
	return list
}

// score sets the result's freshness, age and spending from day From on.
func (l *ledger) score(r *Result) {
	r.Daily = l.daily(r.Pages)
	sum, first := 0., min(max(0, int(r.From)), len(r.Daily)-1)
	for d := first; d < len(r.Daily); d++ {
		length := min(1, l.days-float64(d))
		r.Fresh += r.Daily[d].Fresh * length
		r.Age += r.Daily[d].Age * length
		r.Spend += r.Daily[d].Spend * length
		sum += length
	}
	r.Fresh, r.Age, r.Spend = r.Fresh/sum, r.Age/sum, r.Spend/sum
}
