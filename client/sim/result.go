package sim

import "math"

// A Result is what came of a run. Freshness and age are weighted by importance, and counted from Run.From on.
type Result struct {
	World, Policy string
	Pages         int
	Budget        float64 // cost allowed, of each page a day
	Days, From    float64
	Seed          uint64

	Fresh float64 // share of importance and time of which the copy was right
	Age   float64 // mean time since the first change that the copy lacks, in days
	Spend float64 // cost, of each page a day: as Budget, but what was really spent

	Requests float64 // of each page a day: visits, and polls of manifests
	Visits   float64 // of them to pages
	Wasted   float64 // of these, found nothing new
	Polls    float64 // of manifests
	Bytes    float64 // of each page a day, received in answers
	Notices  float64 // of each page a day, told by push or named by a manifest
	Replans  int
	Price    float64 // in the end

	Expected struct{ Fresh, Age float64 } // what the policy's last plan promised, NaN if it has no plan

	Bound Bound // for this world, as far as the policy listens; see Run.Bound

	Daily []Day // every day from the start on, also those before From
}

// A Day is one day of a run, from 0 on.
type Day struct{ Fresh, Age, Spend float64 }

// Between returns freshness and age from the beginning of one day to the
// beginning of another, as Result.Fresh and Result.Age. What lies outside the run counts not.
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

// wrong adds that a copy was wrong from one time to another.
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

// daily returns what the days came to; a last one that is not whole counts as one.
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
